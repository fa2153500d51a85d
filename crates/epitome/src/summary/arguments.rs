//! The arguments of tool calls: their strings by kind, and what commands and search hits tell of files.

use serde_json::Value;

pub(super) use crate::files::printed_file;
use crate::policy::ArgumentKind;
use crate::thread::{Thread, ToolCall};

/// The arguments of every call of a thread, parsed once, by message; passages borrow from them.
pub(super) struct CallArguments(pub(super) Vec<Vec<Value>>);

impl CallArguments {
    pub(super) fn of(thread: &Thread) -> CallArguments {
        let parse = |call: &ToolCall| {
            serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::String(call.arguments.to_string()))
        };
        CallArguments(thread.messages().iter().map(|message| message.calls().map(parse).collect()).collect())
    }
}

/// Calls `visit` with every string of the arguments and its kind.
pub(super) fn each_string<'a>(arguments: &'a Value, visit: &mut dyn FnMut(ArgumentKind, &'a str)) {
    walk(arguments, ArgumentKind::Written, visit);
}

fn walk<'a>(value: &'a Value, kind: ArgumentKind, visit: &mut dyn FnMut(ArgumentKind, &'a str)) {
    match value {
        Value::String(text) => visit(kind, text),
        // ["bash", "-lc", "make"]: the last word of an argument vector is the command.
        Value::Array(items) if kind == ArgumentKind::Command => {
            items.last().into_iter().for_each(|item| walk(item, kind, visit));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, kind, visit)),
        Value::Object(fields) => fields.iter().for_each(|(key, item)| walk(item, ArgumentKind::of(key), visit)),
        _ => {}
    }
}

/// Returns the first string of a kind among the arguments.
pub(super) fn first_string(arguments: &Value, wanted: ArgumentKind) -> Option<&str> {
    let mut first = None;
    each_string(arguments, &mut |kind, text| {
        if kind == wanted {
            first.get_or_insert(text);
        }
    });
    first
}

/// The longest path that is looked for at the start of a search hit.
const PATH_BYTES_MAX: usize = 200;

/// Splits a search hit into file and text: `path:12:text`, or `path-12-text` for a line around one.
pub(super) fn search_hit(line: &str) -> Option<(&str, &str)> {
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() && at < PATH_BYTES_MAX {
        let sign = bytes[at];
        if sign == b' ' || sign == b'\t' || sign == b'"' || sign == b'(' {
            return None;
        }
        if sign == b':' || sign == b'-' {
            let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let end = at + 1 + digits;
            let path = &line[..at];
            // `ent-109-x` is a name: only a file name with a dot is taken before dashes.
            let name = path.rsplit('/').next().unwrap_or(path);
            let is_path = name.contains('.') || sign == b':' && path.contains('/');
            if digits > 0 && bytes.get(end) == Some(&sign) && is_path && name.contains(|c: char| c.is_alphabetic()) {
                return Some((path, &line[end + 1..]));
            }
        }
        at += 1;
    }
    None
}
