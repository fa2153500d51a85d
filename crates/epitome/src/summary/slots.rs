//! The strings in the arguments of tool calls, and what commands and hits say of files.

use serde_json::Value;

use crate::policy::ArgumentKind;

/// Calls `visit` with every string of the arguments and what it holds.
pub fn strings<'a>(arguments: &'a Value, visit: &mut dyn FnMut(ArgumentKind, &'a str)) {
    walk(arguments, ArgumentKind::Written, visit);
}

fn walk<'a>(value: &'a Value, slot_here: ArgumentKind, visit: &mut dyn FnMut(ArgumentKind, &'a str)) {
    match value {
        Value::String(text) => visit(slot_here, text),
        // ["bash", "-lc", "make"]: the last word of an argument vector is the command.
        Value::Array(items) if slot_here == ArgumentKind::Command => {
            items.last().into_iter().for_each(|item| walk(item, slot_here, visit));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, slot_here, visit)),
        Value::Object(fields) => fields.iter().for_each(|(key, item)| walk(item, ArgumentKind::of(key), visit)),
        _ => {}
    }
}

/// The first path among the arguments.
pub fn path(arguments: &Value) -> Option<&str> {
    let mut found = None;
    strings(arguments, &mut |slot, text| {
        if slot == ArgumentKind::Path && found.is_none() {
            found = Some(text);
        }
    });
    found
}

/// Programs whose output is the text of the file they are given.
const PRINTERS: &[&str] = &["cat", "head", "tail", "sed", "nl", "less", "bat", "type"];

/// The file a shell command prints, when printing one file is all it does.
pub fn printed_file(command: &str) -> Option<&str> {
    let last = command.rsplit("&&").next().unwrap_or(command).trim();
    if last.contains(['|', '>', '<', '\n', ';']) {
        return None;
    }
    let mut words = last.split_whitespace();
    let program = words.next()?;
    let file = words.next_back()?.trim_matches(['"', '\'']);
    let is_file = file.contains(['/', '.']) && !file.starts_with('-');
    (PRINTERS.contains(&program) && is_file).then_some(file)
}

/// The file and the text of a search hit: `path:12:text`, or `path-12-text` for a line around one.
pub fn hit(line: &str) -> Option<(&str, &str)> {
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

const PATH_BYTES_MAX: usize = 200;
