//! Tool calls in words: what a reader needs of a call's arguments, without JSON around it.
//!
//! ```text
//! {"file_path":"a.rs","old_string":"fn a() {\n  1\n}","new_string":"fn a() {\n  2\n}"}   ─►   a.rs
//!                                                                                      fn a() {
//!                                                                                    -   1
//!                                                                                    +   2
//!                                                                                      }
//! {"command":"cargo test","description":"Run tests","timeout":120}                     ─►   $ cargo test
//! ```
//!
//! Arguments that are no JSON object, such as a patch, stay as they are.

use serde_json::{Map, Value};

use crate::policy::ArgumentKind;

/// The kind of a call's text, which decides how much of it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallTextKind {
    /// A change of a file.
    Edit,
    /// A plan that the agent wrote for a person.
    Plan,
    Other,
}

/// Writes a call's arguments for a reader.
pub(super) fn call_text(arguments: &str) -> (CallTextKind, String) {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(arguments) else {
        let is_patch = arguments.contains("*** ") || arguments.contains("@@ ");
        return (if is_patch { CallTextKind::Edit } else { CallTextKind::Other }, arguments.to_owned());
    };
    let mut lines: Vec<(u8, String)> = Vec::new();
    let mut kind = CallTextKind::Other;
    if let Some(edit) = edit(&fields) {
        kind = CallTextKind::Edit;
        lines.push((2, edit));
    }
    for (key, value) in &fields {
        let argument = ArgumentKind::of(key);
        let edits = value.as_array().map(|items| items.iter().filter_map(Value::as_object).filter_map(edit));
        let edits: Vec<String> = edits.into_iter().flatten().collect();
        if !edits.is_empty() {
            kind = CallTextKind::Edit;
            lines.push((2, edits.join("\n")));
            continue;
        }
        match (argument, value) {
            (ArgumentKind::Path, Value::String(path)) => lines.push((0, path.clone())),
            (ArgumentKind::Command, Value::String(command)) => lines.push((1, format!("$ {command}"))),
            (ArgumentKind::Replaced, _) => {}
            (ArgumentKind::Setting, _) if !matches!(key.as_str(), "offset" | "limit") => {}
            (_, Value::String(_)) if kind == CallTextKind::Edit && is_replacement(key) => {}
            (_, Value::String(text)) => {
                if key == "plan" {
                    kind = CallTextKind::Plan;
                } else if text.contains("*** Begin Patch") {
                    kind = CallTextKind::Edit;
                }
                let gap = if text.contains('\n') { "\n" } else { " " };
                lines.push((3, format!("{key}:{gap}{text}")));
            }
            (_, value) => lines.push((3, format!("{key}: {value}"))),
        }
    }
    lines.sort_by_key(|(rank, _)| *rank);
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    (kind, lines.join("\n"))
}

/// Tells whether an argument is the text that an edit puts in.
fn is_replacement(key: &str) -> bool {
    let key = key.to_lowercase();
    key.starts_with("new") && (key.contains("str") || key.contains("text"))
}

/// Returns the change that a call with a text and its replacement makes.
fn edit(fields: &Map<String, Value>) -> Option<String> {
    let text = |wanted: &dyn Fn(&str) -> bool| {
        fields.iter().find(|(key, _)| wanted(key)).and_then(|(_, value)| value.as_str())
    };
    let old = text(&|key| ArgumentKind::of(key) == ArgumentKind::Replaced)?;
    let new = text(&is_replacement)?;
    Some(diff(old, new))
}

/// Returns the lines that differ between two texts, with one line around them.
fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let mut lines: Vec<String> = Vec::new();
    lines.extend(old[..head].last().map(|line| format!("  {line}")));
    lines.extend(old[head..old.len() - tail].iter().map(|line| format!("- {line}")));
    lines.extend(new[head..new.len() - tail].iter().map(|line| format!("+ {line}")));
    lines.extend(new[new.len() - tail..].first().map(|line| format!("  {line}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{CallTextKind, call_text};

    #[test]
    fn a_call_is_written_for_a_reader() {
        let cases = [
            (r#"{"path":"src/a.rs","limit":40,"offset":10}"#, CallTextKind::Other, "src/a.rs\nlimit: 40\noffset: 10"),
            (r#"{"command":"cargo test","description":"Run tests","timeout":9}"#, CallTextKind::Other, "$ cargo test"),
            (
                r#"{"file_path":"a.rs","old_string":"fn a() {\n  1\n}","new_string":"fn a() {\n  2\n}","replace_all":false}"#,
                CallTextKind::Edit,
                "a.rs\n  fn a() {\n-   1\n+   2\n  }\nreplace_all: false",
            ),
            (
                r#"{"path":"a","edits":[{"oldText":"x","newText":"y"},{"oldText":"p\nq","newText":"p"}]}"#,
                CallTextKind::Edit,
                "a\n- x\n+ y\n  p\n- q",
            ),
            (r#"{"plan":"1. read\n2. write"}"#, CallTextKind::Plan, "plan:\n1. read\n2. write"),
            ("*** Begin Patch\n*** Update File: a", CallTextKind::Edit, "*** Begin Patch\n*** Update File: a"),
            ("ls -l", CallTextKind::Other, "ls -l"),
            (r#"{"query":"多い"}"#, CallTextKind::Other, "query: 多い"),
        ];
        for (arguments, kind, text) in cases {
            assert_eq!(call_text(arguments), (kind, text.to_owned()), "{arguments}");
        }
    }
}
