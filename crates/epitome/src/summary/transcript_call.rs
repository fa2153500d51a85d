//! Tool calls in words: what a reader needs of a call's arguments, without JSON around it.
//!
//! ```text
//! {"file_path":"a.rs","old_string":"fn a() {\n  1\n}","new_string":"fn a() {\n  2\n}"}   ─►   a.rs
//!                                                                                     fn a() {
//!                                                                                    -  1
//!                                                                                    +  2
//!                                                                                     }
//! {"command":"cargo test","description":"Run tests","timeout":120}                     ─►   $ cargo test
//! ```
//!
//! Arguments that are no JSON object, such as a patch, stay as they are.

use serde_json::Value;

use crate::files::{is_replaced_text, replacement_diff};
use crate::policy::ArgumentKind;

/// The kind of a call's text, which decides how much of it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TranscriptCallKind {
    /// A change of a file.
    Edit,
    /// A plan that the agent wrote for a person.
    Plan,
    Other,
}

/// Writes a call's arguments for a reader.
pub(super) fn transcript_call(arguments: &str) -> (TranscriptCallKind, String) {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(arguments) else {
        let is_patch = arguments.contains("*** ") || arguments.contains("@@ ");
        return (if is_patch { TranscriptCallKind::Edit } else { TranscriptCallKind::Other }, arguments.to_owned());
    };
    let mut lines: Vec<(u8, String)> = Vec::new();
    let mut kind = TranscriptCallKind::Other;
    let diff = replacement_diff(&fields);
    if let Some(diff) = &diff {
        kind = TranscriptCallKind::Edit;
        lines.push((2, changed_lines(diff)));
    }
    for (key, value) in &fields {
        let is_told = is_replaced_text(key) || value.as_array().is_some_and(|items| items.iter().any(replaces));
        if diff.is_some() && is_told {
            continue;
        }
        let argument = ArgumentKind::of(key);
        match (argument, value) {
            (ArgumentKind::Path, Value::String(path)) => lines.push((0, path.clone())),
            (ArgumentKind::Command, Value::String(command)) => lines.push((1, format!("$ {command}"))),
            (ArgumentKind::Setting, _) if !matches!(key.as_str(), "offset" | "limit") => {}
            (_, Value::String(text)) => {
                if key == "plan" {
                    kind = TranscriptCallKind::Plan;
                } else if text.contains("*** Begin Patch") {
                    kind = TranscriptCallKind::Edit;
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

fn replaces(item: &Value) -> bool {
    item.as_object().is_some_and(|fields| replacement_diff(fields).is_some())
}

/// Returns the changed lines of a diff, with one line around them.
fn changed_lines(diff: &str) -> String {
    let lines: Vec<&str> = diff.lines().collect();
    let is_changed = |at: usize| lines.get(at).is_some_and(|line| !line.starts_with(' '));
    let is_near = |at: &usize| is_changed(*at) || is_changed(at + 1) || at.checked_sub(1).is_some_and(is_changed);
    let near = (0..lines.len()).filter(is_near);
    near.map(|at| lines[at]).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{TranscriptCallKind, transcript_call};

    #[test]
    fn a_call_is_written_for_a_reader() {
        let cases = [
            (
                r#"{"path":"src/a.rs","limit":40,"offset":10}"#,
                TranscriptCallKind::Other,
                "src/a.rs\nlimit: 40\noffset: 10",
            ),
            (
                r#"{"command":"cargo test","description":"Run tests","timeout":9}"#,
                TranscriptCallKind::Other,
                "$ cargo test",
            ),
            (
                r#"{"file_path":"a.rs","old_string":"fn a() {\n  1\n}","new_string":"fn a() {\n  2\n}","replace_all":false}"#,
                TranscriptCallKind::Edit,
                "a.rs\n fn a() {\n-  1\n+  2\n }\nreplace_all: false",
            ),
            (
                r#"{"path":"a","edits":[{"oldText":"x","newText":"y"},{"oldText":"p\nq","newText":"p"}]}"#,
                TranscriptCallKind::Edit,
                "a\n-x\n+y\n@@\n p\n-q",
            ),
            (r#"{"plan":"1. read\n2. write"}"#, TranscriptCallKind::Plan, "plan:\n1. read\n2. write"),
            ("*** Begin Patch\n*** Update File: a", TranscriptCallKind::Edit, "*** Begin Patch\n*** Update File: a"),
            ("ls -l", TranscriptCallKind::Other, "ls -l"),
            (r#"{"query":"多い"}"#, TranscriptCallKind::Other, "query: 多い"),
        ];
        for (arguments, kind, text) in cases {
            assert_eq!(transcript_call(arguments), (kind, text.to_owned()), "{arguments}");
        }
    }
}
