//! Tool calls: what a call does, to which paths, with which command.
//!
//! Read from the call's name and arguments alone; nothing is run and nothing is looked up. It knows no agent in particular: an
//! argument with an unknown name is text that the agent wrote.

use serde_json::Value;

use super::tools::{ToolClass, Tools};
use crate::thread::ToolCall;

/// The kind of an argument, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    Path,
    Command,
    /// Text that an edit took out.
    Replaced,
    /// A search.
    Query,
    /// Numbers, switches and descriptions of the call itself.
    Setting,
    /// Text that the agent put into a file or sent somewhere; every other name.
    Written,
}

const ARGUMENT_NAMES: [(ArgumentKind, &str); 5] = [
    (
        ArgumentKind::Path,
        "path file_path filepath filename file notebook_path target_file relative_path absolute_path uri",
    ),
    (ArgumentKind::Command, "command commands cmd script code"),
    (ArgumentKind::Replaced, "old_string old_str oldtext old_text"),
    (ArgumentKind::Query, "pattern query glob regex search url"),
    (ArgumentKind::Setting, "description timeout limit offset output_mode activeform type subagent_type workdir cwd"),
];

impl ArgumentKind {
    /// Returns the kind of the argument called `name`, in any case.
    pub(crate) fn of(name: &str) -> ArgumentKind {
        let has = |names: &str| names.split(' ').any(|known| known.eq_ignore_ascii_case(name));
        ARGUMENT_NAMES.iter().find(|(_, names)| has(names)).map_or(ArgumentKind::Written, |(kind, _)| *kind)
    }
}

/// The meaning of a tool call, as far as its name and its arguments tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallMeaning {
    /// The class of its tool.
    pub class: Option<ToolClass>,
    /// The paths that it names.
    pub paths: Vec<String>,
    /// The command that it runs.
    pub command: Option<String>,
    /// The query that it searches for.
    pub query: Option<String>,
    /// It asks for a part of the file only.
    pub partial: bool,
}

/// Tells whether a call asks for a part of a file only.
pub(crate) fn is_partial(arguments: &Value) -> bool {
    arguments.as_object().is_some_and(|arguments| arguments.iter().any(|(key, value)| is_part(key, value)))
}

fn is_part(key: &str, value: &Value) -> bool {
    matches!(key, "offset" | "limit" | "start_line" | "end_line" | "view_range" | "range") && !value.is_null()
}

impl Tools {
    /// Reads what a call does.
    pub fn meaning(&self, call: &ToolCall) -> CallMeaning {
        let mut meaning = CallMeaning { class: self.class(&call.name), ..CallMeaning::default() };
        match serde_json::from_str::<Value>(&call.arguments) {
            Ok(Value::Object(arguments)) => {
                for (key, value) in &arguments {
                    meaning.add_argument(key, value);
                }
            }
            _ => meaning.add_patched_files(&call.arguments),
        }
        if meaning.class.is_none() && meaning.command.is_some() {
            meaning.class = Some(ToolClass::Exec);
        }
        meaning
    }
}

impl CallMeaning {
    fn add_argument(&mut self, key: &str, value: &Value) {
        if let Some(text) = value.as_str() {
            match ArgumentKind::of(key) {
                ArgumentKind::Path if !text.contains('\n') => self.paths.push(text.to_owned()),
                ArgumentKind::Command => self.command = Some(text.to_owned()),
                ArgumentKind::Query => self.query = Some(text.to_owned()),
                _ => {}
            }
            self.add_patched_files(text);
        } else if let (ArgumentKind::Command, Some(words)) = (ArgumentKind::of(key), value.as_array()) {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            // `bash -lc "…"`: the command is what the shell is given.
            self.command = Some(match words[..] {
                [_, flag, script] if flag.starts_with('-') => script.to_owned(),
                _ => words.join(" "),
            });
        }
        self.partial |= is_part(key, value);
    }

    /// Adds the files that a patch text names.
    fn add_patched_files(&mut self, text: &str) {
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
