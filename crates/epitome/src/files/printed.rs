//! What tools print of files: the lines of a file with their numbers, and where they begin.
//!
//! ```text
//! <file>                                 left out: it has no number
//!     12\tfn total(&self) -> Cents {     line 12
//!     13\t    self.sum()                 line 13
//! (File has more lines. Use 'offset' …)  it is not the whole file
//! ```

use serde_json::Value;

use crate::message::outside_reminders;
use crate::policy::{CallMeaning, ToolClass, Tools, is_partial};
use crate::thread::{ToolCall, ToolResult};

/// A part of a file, or all of it, as a call showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    /// The file, as the call names it.
    pub path: String,
    /// Its lines, without the numbers before them.
    pub lines: Vec<String>,
    /// The number of the first one, from 1.
    pub first_line: usize,
    /// True if they are all lines of the file.
    pub is_whole: bool,
}

impl FileView {
    /// Reads what a call and its result show of a file; `None` if the call failed or does not read one file.
    pub fn of(tools: &Tools, call: &ToolCall, result: &ToolResult) -> Option<FileView> {
        let read = ReadCall::of(tools, call)?;
        if tools.has_failed(Some(call), result) || !result.media.is_empty() {
            return None;
        }
        let printed = if read.is_command { command_output(&result.text) } else { result.text.to_string() };
        let text: String = outside_reminders(&printed).collect();
        let mut lines: Vec<&str> = text.lines().collect();
        let is_cut = lines.iter().rev().take(NOTICE_LINES).any(|line| is_cut_notice(line));
        let (first_line, lines) = match numbered(&lines) {
            Some((first, bodies)) => (first, bodies),
            None => {
                while lines.last().is_some_and(|line| is_cut_notice(line) || line.trim().is_empty()) {
                    lines.pop();
                }
                (read.first_line, lines)
            }
        };
        let lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
        let is_whole = !read.is_partial && !is_cut && first_line <= 1;
        (!lines.is_empty()).then_some(FileView { path: read.path, lines, first_line, is_whole })
    }
}

/// Lines at the end of an output in which a tool says that it was cut.
const NOTICE_LINES: usize = 4;

fn is_cut_notice(line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    line.starts_with(['[', '(', '<', '.', '…'])
        && ["offset", "truncated", "more lines", "to continue"].iter().any(|word| line.contains(word))
}

/// Returns the number of the first line and the lines without their numbers, where nearly all lines have one.
fn numbered<'a>(lines: &[&'a str]) -> Option<(usize, Vec<&'a str>)> {
    let found: Vec<(u32, &str)> = lines.iter().filter_map(|line| gutter(line)).collect();
    let first = found.first()?.0;
    let follow = found.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1);
    // Tags and notices around a file are not lines of it.
    let is_line = |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with(['<', '(']);
    let filled = lines.iter().filter(is_line).count();
    if !follow || found.len() * 5 < filled * 4 {
        return None;
    }
    // `00012| text` and `12: text` have a space of their own behind the sign.
    let is_spaced = |line: &&str| {
        let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        rest.starts_with("| ") || rest.starts_with(": ")
    };
    let spaced = found.iter().all(|(_, body)| body.is_empty() || body.starts_with(' ')) && lines.iter().any(is_spaced);
    let body = |body: &'a str| if spaced { body.strip_prefix(' ').unwrap_or(body) } else { body };
    Some(((first as usize).max(1), found.into_iter().map(|(_, text)| body(text)).collect()))
}

/// A call that reads one file.
struct ReadCall {
    path: String,
    first_line: usize,
    is_partial: bool,
    is_command: bool,
}

impl ReadCall {
    fn of(tools: &Tools, call: &ToolCall) -> Option<ReadCall> {
        let CallMeaning { class, mut paths, command, partial, .. } = tools.meaning(call);
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let is_view = arguments.get("command").and_then(Value::as_str) == Some("view");
        if (class == Some(ToolClass::Read) || is_view) && paths.len() == 1 {
            let named = |name: &&str| arguments.get(*name).and_then(Value::as_u64);
            let first = ["offset", "start_line", "line"].iter().find_map(named).unwrap_or(1);
            let first_line = usize::try_from(first).unwrap_or(1).max(1);
            let is_partial = partial || is_partial(&arguments);
            return Some(ReadCall { path: paths.remove(0), first_line, is_partial, is_command: false });
        }
        let command = command.filter(|_| class == Some(ToolClass::Exec))?;
        let path = printed_file(&command)?.to_owned();
        let program = command.rsplit("&&").next().unwrap_or(&command).trim();
        // `sed -n 40,80p` says where it begins; the lines of `head`, `tail` and a bare `sed` may be any.
        let range = program.strip_prefix("sed -n ").map(|rest| rest.trim_start_matches(['\'', '"']));
        let first_line = match range {
            Some(range) => range.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?,
            None if program.starts_with("sed") || program.starts_with("tail") => return None,
            None => 1,
        };
        let is_partial = !["cat ", "nl ", "bat ", "type "].iter().any(|whole| program.starts_with(whole));
        Some(ReadCall { path, first_line, is_partial, is_command: true })
    }
}

/// Returns what a command printed, without what its host says before it.
fn command_output(text: &str) -> String {
    let record: Option<Value> = text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten();
    if let Some(output) = record.as_ref().and_then(|record| record.get("output")?.as_str()) {
        return output.to_owned();
    }
    let is_headed = ["Exit code", "Chunk ID", "Wall time"].iter().any(|head| text.starts_with(head));
    let after = text.split_once("\nOutput:\n").filter(|_| is_headed).map(|(_, after)| after);
    after.unwrap_or(text).to_owned()
}

/// Tells whether two paths name the same file, one of them perhaps from a directory further in: `src/a.rs` and `/home/me/src/a.rs`.
pub fn is_path_of(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_start_matches("./"), other.trim_start_matches("./"));
    let is_end = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with(['/', '\\']));
    !one.is_empty() && !other.is_empty() && (one == other || is_end(one, other) || is_end(other, one))
}
/// Removes the number that tools print before the lines of a file.
pub fn without_gutter(line: &str) -> &str {
    gutter(line).map_or(line, |(_, body)| body)
}

/// Splits a line of a file, as tools print it, into its number and its text.
pub(crate) fn gutter(line: &str) -> Option<(u32, &str)> {
    let body = line.trim_start();
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 6 {
        return None;
    }
    let (number, rest) = body.split_at(digits);
    let text = ["→", "\t", "|", ":"].iter().find_map(|sign| rest.strip_prefix(sign))?;
    Some((number.parse().ok()?, text))
}

/// Programs whose output is the text of the file they are given.
const PRINTERS: &[&str] = &["cat", "head", "tail", "sed", "nl", "less", "bat", "type"];

/// Returns the file that a shell command prints, where printing one file is all it does: `cd src && sed -n 1,80p a.rs`.
pub(crate) fn printed_file(command: &str) -> Option<&str> {
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

#[cfg(test)]
mod tests {
    use super::{FileView, is_path_of};
    use crate::policy::Tools;
    use crate::thread::{ToolCall, ToolResult};

    #[test]
    fn what_a_call_shows_of_a_file_is_read_without_numbers_and_notices() {
        let whole = ("a\nb", 1, true);
        for (name, arguments, printed, expected) in [
            (
                "Read",
                r#"{"file_path":"/x/a.rs"}"#,
                "     1→a\n     2→b\n\n<system-reminder>\nno\n</system-reminder>",
                Some(whole),
            ),
            (
                "read",
                r#"{"filePath":"/x/a.rs"}"#,
                "<file>\n00001| a\n00002| b\n\n(End of file - total 2 lines)\n</file>",
                Some(whole),
            ),
            (
                "read",
                r#"{"filePath":"/x/a.rs"}"#,
                "<file>\n00001| a\n00002| b\n\n(File has more lines. Use 'offset' to read on)\n</file>",
                Some(("a\nb", 1, false)),
            ),
            ("read", r#"{"path":"/x/a.rs"}"#, "a\nb", Some(whole)),
            ("read", r#"{"path":"/x/a.rs","offset":7,"limit":2}"#, "a\nb", Some(("a\nb", 7, false))),
            (
                "read",
                r#"{"path":"/x/a.rs"}"#,
                "a\nb\n\n[Showing lines 1-2 of 9. Use offset=3 to continue.]",
                Some(("a\nb", 1, false)),
            ),
            ("Read", r#"{"file_path":"/x/a.rs","offset":12}"#, "    12\ta\n    13\tb", Some(("a\nb", 12, false))),
            ("Bash", r#"{"command":"cd /x && cat /x/a.rs"}"#, "a\nb\n", Some(whole)),
            (
                "shell",
                r#"{"command":["bash","-lc","sed -n '40,41p' /x/a.rs"]}"#,
                "{\"output\":\"a\\nb\\n\",\"metadata\":{\"exit_code\":0}}",
                Some(("a\nb", 40, false)),
            ),
            ("exec_command", r#"{"cmd":"cat /x/a.rs"}"#, "Chunk ID: 1\nWall time: 0.1\nOutput:\na\nb", Some(whole)),
            ("str_replace_based_edit_tool", r#"{"command":"view","path":"/x/a.rs"}"#, "1: a\n2: b", Some(whole)),
            ("Bash", r#"{"command":"tail -5 /x/a.rs"}"#, "a\nb\n", None),
            ("Bash", r#"{"command":"cat /x/a.rs | grep a"}"#, "a\n", None),
            ("Read", r#"{"file_path":"/x/a.rs"}"#, "Error: File does not exist.", None),
            ("Grep", r#"{"pattern":"a","path":"/x/a.rs"}"#, "1:a", None),
        ] {
            let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into() };
            let view = FileView::of(&Tools::default(), &call, &ToolResult::new("c", printed, None));
            let found = view.as_ref().map(|view| (view.lines.join("\n"), view.first_line, view.is_whole));
            let expected = expected.map(|(text, first, whole)| (text.to_owned(), first, whole));
            assert_eq!(found, expected, "{name} {arguments} {printed}");
            assert!(view.is_none_or(|view| view.path == "/x/a.rs"));
        }
    }

    #[test]
    fn a_file_is_the_same_under_a_longer_path() {
        for (one, other, same) in [
            ("src/a.rs", "/home/me/src/a.rs", true),
            ("./src/a.rs", "src/a.rs", true),
            ("a.rs", "src/a.rs", true),
            ("a.rs", "src/ba.rs", false),
            ("", "src/a.rs", false),
        ] {
            assert_eq!(is_path_of(one, other), same, "{one} {other}");
        }
    }
}
