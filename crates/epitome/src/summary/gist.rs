//! The gist of a tool's output: one line that tells what came of a call, so that a call is never told without its result.
//!
//! ```text
//! nothing printed                      (no output)
//! a few short lines                    all of them, "; " between
//! lines of a search                    4 hits: src/cart.rs (3), src/tax.rs
//! a failed run                         the lines that say what failed
//! a long output                        its first and its last line, and how many lines it had
//! ```
//!
//! It quotes; the only words of its own are the counts.

use super::arguments::search_hit;
use super::clip::one_line;
use super::lines::without_gutter;
use super::work_state::failing_lines;
use crate::message::outside_reminders;

/// The most characters of a gist, and of one of the two lines that a long output is told by.
const GIST_CHARS_MAX: usize = 200;
const END_CHARS_MAX: usize = 90;
/// The most files that the gist of a search names.
const FILES_MAX: usize = 5;

/// Returns the gist of what a call printed. `root` is left out of paths.
pub(super) fn gist(output: &str, failed: bool, root: &str) -> String {
    let text: String = outside_reminders(output).collect();
    let lines: Vec<&str> = text.lines().map(|line| without_gutter(line).trim()).filter(|line| line.len() > 1).collect();
    let shown = |line: &str| if root.is_empty() { line.to_owned() } else { line.replace(root, "") };
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return "(no output)".to_owned() };
    if failed {
        let failing = failing_lines(&text);
        if !failing.is_empty() {
            return one_line(&shown(&failing.join("; ")), GIST_CHARS_MAX);
        }
    }
    let whole = shown(&lines.join("; "));
    if whole.chars().count() <= GIST_CHARS_MAX {
        return whole;
    }
    let hits: Vec<&str> = lines.iter().filter_map(|line| search_hit(line)).map(|(path, _)| path).collect();
    if hits.len() * 2 > lines.len() {
        return shown(&hit_files(&hits));
    }
    let (first, last) = (one_line(&shown(first), END_CHARS_MAX), one_line(&shown(last), END_CHARS_MAX));
    format!("{first} … {last} ({} lines)", lines.len())
}

/// Names the files of search hits, the one with the most hits first.
fn hit_files(hits: &[&str]) -> String {
    let mut files: Vec<(&str, usize)> = Vec::new();
    for path in hits {
        match files.iter_mut().find(|(known, _)| known == path) {
            Some((_, count)) => *count += 1,
            None => files.push((path, 1)),
        }
    }
    files.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = files.len().saturating_sub(FILES_MAX);
    let named = files.iter().take(FILES_MAX).map(|(path, count)| match count {
        1 => (*path).to_owned(),
        _ => format!("{path} ({count})"),
    });
    let named: Vec<String> = named.collect();
    let more = if more > 0 { format!(" and {more} more files") } else { String::new() };
    format!("{} hits: {}{more}", hits.len(), named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::gist;

    #[test]
    fn a_call_is_told_with_what_came_of_it() {
        let long: String = (1..60).map(|n| format!("{n}: a line of a long output\n")).collect();
        let hits: String = (1..12).map(|n| format!("/w/src/cart.rs:{n}:    let total = price * count;\n")).collect();
        let cases = [
            ("nothing", String::new(), false, "(no output)"),
            ("one line", "9b6bd9e make it a constant\n".to_owned(), false, "9b6bd9e make it a constant"),
            ("a few", "a.rs | 3 +\n 1 file changed\n".to_owned(), false, "a.rs | 3 +; 1 file changed"),
            (
                "hits",
                format!("{hits}/w/src/tax.rs:9:    let total = 1;\n"),
                false,
                "12 hits: src/cart.rs (11), src/tax.rs",
            ),
            (
                "a failure",
                format!("{long}--- FAIL: TestTotal\n    got 3, want 4\n"),
                true,
                "--- FAIL: TestTotal; got 3, want 4",
            ),
            ("long", long.clone(), false, "a line of a long output … a line of a long output (59 lines)"),
        ];
        for (why, output, failed, expected) in cases {
            assert_eq!(gist(&output, failed, "/w/"), expected, "{why}");
        }
    }
}
