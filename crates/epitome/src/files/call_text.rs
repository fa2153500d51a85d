//! A call as people and models read it: an edit as a diff, arguments of several lines without their escapes.
//!
//! ```text
//! {"file_path":"a.rs","old_string":"one\ntwo","new_string":"one\n2"}      Edit a.rs
//!                                                                         one
//!                                                                        -two
//!                                                                        +2
//! {"command":"cd x\nmake","timeout":9}                                    Bash
//!                                                                         command: cd x
//!                                                                         make
//!                                                                         timeout: 9
//! {"command":"make"}                                                      Bash {"command":"make"}
//! ```
//!
//! It leaves nothing out, so that a search over this text finds whatever the agent wrote, at the beginning of a line too.

use std::fmt::Write;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::edit::{FileChange, FileEdit, is_told_by_edit};
use crate::policy::{ArgumentKind, Tools};
use crate::thread::ToolCall;

/// Calls read the same under every policy: a search index refers to their lines.
static TOOLS: LazyLock<Tools> = LazyLock::new(Tools::default);

/// Returns a call as it is read.
pub fn call_text(call: &ToolCall) -> String {
    let ToolCall { name, arguments, .. } = call;
    match serde_json::from_str(arguments) {
        Ok(Value::Object(fields)) => {
            if let Some(text) = edit_text(call, &fields) {
                return text;
            }
            if arguments.contains("\\n") {
                let mut out = format!("{name}\n");
                fields.iter().for_each(|(key, value)| spell_out(key, value, &mut out));
                return out.trim_end().to_owned();
            }
            format!("{name} {arguments}")
        }
        _ => format!("{name} {arguments}"),
    }
}

/// Returns an edit of one file as its name, its diff, and whatever else the call says.
fn edit_text(call: &ToolCall, fields: &Map<String, Value>) -> Option<String> {
    let edits = FileEdit::of(&TOOLS, call);
    let is_patch = call.arguments.contains("*** Begin Patch");
    let [edit] = &edits[..] else { return None };
    if is_patch {
        return None;
    }
    let (text, is_everywhere) = match &edit.change {
        FileChange::Written(text) => (text.clone(), false),
        FileChange::Replaced(replaced) => (edit.diff(), replaced.iter().any(|one| one.is_everywhere)),
        FileChange::Inserted { .. } | FileChange::Deleted => (edit.diff(), false),
    };
    let mut out = format!("{} {}\n", call.name, edit.path);
    for (key, value) in fields {
        let is_told = is_told_by_edit(key) || ArgumentKind::of(key) == ArgumentKind::Path;
        if !is_told && value.as_str() != Some(&text) {
            spell_out(key, value, &mut out);
        }
    }
    if is_everywhere {
        out.push_str("(every occurrence)\n");
    }
    Some(out + text.trim_end_matches('\n'))
}

fn spell_out(key: &str, value: &Value, out: &mut String) {
    let _ = match value {
        Value::String(text) => writeln!(out, "{key}: {text}"),
        Value::Array(items) if !items.is_empty() => return items.iter().for_each(|item| spell_out(key, item, out)),
        Value::Object(fields) if !fields.is_empty() => {
            return fields.iter().for_each(|(key, value)| spell_out(key, value, out));
        }
        value => writeln!(out, "{key}: {value}"),
    };
}

#[cfg(test)]
mod tests {
    use super::call_text;
    use crate::thread::ToolCall;

    #[test]
    fn a_call_reads_without_escapes_and_says_all_that_was_written() {
        for (name, arguments, expected) in [
            (
                "Edit",
                r#"{"file_path":"a.rs","old_string":"one\n\ttwo","new_string":"one\n\t2"}"#,
                "Edit a.rs\n one\n-\ttwo\n+\t2",
            ),
            (
                "Edit",
                r#"{"file_path":"a.rs","old_string":"x","new_string":"y","replace_all":true}"#,
                "Edit a.rs\n(every occurrence)\n-x\n+y",
            ),
            (
                "edit",
                r#"{"filePath":"a.rs","oldString":"x","newString":"y","explanation":"why"}"#,
                "edit a.rs\nexplanation: why\n-x\n+y",
            ),
            ("Write", r#"{"file_path":"a.rs","content":"x\ny\n"}"#, "Write a.rs\nx\ny"),
            ("Bash", r#"{"command":"make"}"#, r#"Bash {"command":"make"}"#),
            ("Bash", r#"{"command":"cd x\nmake","timeout":9}"#, "Bash\ncommand: cd x\nmake\ntimeout: 9"),
            ("Task", r#"{"items":[{"text":"a\nb"},{"text":"c"}]}"#, "Task\ntext: a\nb\ntext: c"),
            (
                "apply_patch",
                r#"{"input":"*** Begin Patch\n*** Update File: a.rs\n-x\n+y\n*** End Patch"}"#,
                "apply_patch\ninput: *** Begin Patch\n*** Update File: a.rs\n-x\n+y\n*** End Patch",
            ),
            ("apply_patch", "*** Begin Patch\n*** End Patch", "apply_patch *** Begin Patch\n*** End Patch"),
            ("odd", "", "odd "),
        ] {
            let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into() };
            assert_eq!(call_text(&call), expected, "{arguments}");
        }
    }
}
