//! What a tool call means: what kind of thing it does, to which paths, with which command.
//!
//! Read from the call's arguments alone; nothing is run and nothing is looked up.

use serde_json::Value;

use super::slot::ArgumentKind;
use super::tools::{ToolClass, Tools};
use crate::thread::ToolCall;

/// What a tool call means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallMeaning {
    /// What kind of thing it does.
    pub class: Option<ToolClass>,
    /// The paths it names.
    pub paths: Vec<String>,
    /// The command it runs.
    pub command: Option<String>,
    /// What it searches for.
    pub query: Option<String>,
    /// Whether it asks for a part of the file only.
    pub partial: bool,
}

impl Tools {
    /// What a call means.
    pub fn meaning(&self, call: &ToolCall) -> CallMeaning {
        let mut meaning = CallMeaning { class: self.class(&call.name), ..CallMeaning::default() };
        match serde_json::from_str::<Value>(&call.arguments) {
            Ok(Value::Object(arguments)) => {
                for (key, value) in &arguments {
                    meaning.note(key, value);
                }
            }
            _ => meaning.patched(&call.arguments),
        }
        if meaning.class.is_none() && meaning.command.is_some() {
            meaning.class = Some(ToolClass::Exec);
        }
        meaning
    }
}

impl CallMeaning {
    fn note(&mut self, key: &str, value: &Value) {
        if let Some(text) = value.as_str() {
            match ArgumentKind::of(key) {
                ArgumentKind::Path if !text.contains('\n') => self.paths.push(text.to_owned()),
                ArgumentKind::Command => self.command = Some(text.to_owned()),
                ArgumentKind::Query => self.query = Some(text.to_owned()),
                _ => {}
            }
            self.patched(text);
        } else if let (ArgumentKind::Command, Some(words)) = (ArgumentKind::of(key), value.as_array()) {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            // `bash -lc "…"`: the command is what the shell is given.
            self.command = Some(match words[..] {
                [_, flag, script] if flag.starts_with('-') => script.to_owned(),
                _ => words.join(" "),
            });
        }
        if matches!(key, "offset" | "limit" | "start_line" | "end_line" | "view_range" | "range") && !value.is_null() {
            self.partial = true;
        }
    }

    /// The files that a patch text names.
    fn patched(&mut self, text: &str) {
        if !text.contains("*** ") {
            return;
        }
        for line in text.lines() {
            let named = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
            if let Some(path) = named.iter().find_map(|start| line.strip_prefix(start)) {
                self.paths.push(path.trim().to_owned());
            }
        }
    }
}
