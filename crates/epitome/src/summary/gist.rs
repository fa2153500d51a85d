//! The gist of a tool's output: a few words that tell what came of a call, so that a call is never told without its result.
//!
//! ```text
//!                                 brief, beside an older call      full, among the last actions
//! a run of tests or a build       passed | failed: --- FAIL: …     likewise
//! rejected by the user            rejected by the user             likewise
//! nothing printed                                                  (no output)
//! a few short lines               all of them, "; " between        likewise, more of them
//! one or two hits of a search     src/cart.rs:12:let total = …      likewise
//! more of them                    4 hits: src/cart.rs (3), …       likewise, or all of them where they fit
//! a failure                       the lines that say what failed   likewise
//! JSON on one line                                                 its telling fields: id=R1, status=booked, …
//! a long output                                                    its first and its last line, how many lines it had
//! ```
//!
//! It quotes; the only words of its own are the counts and endings.

use super::arguments::search_hit;
use super::clip::one_line;
use super::extract::first_line;
use super::lines::without_gutter;
use super::structured::CommandEnding;
use super::work_state::{failing_lines, run_kind, run_outcome};
use crate::message::{is_rejected, outside_reminders};

/// The most characters of a gist.
const FULL_CHARS_MAX: usize = 200;
const BRIEF_CHARS_MAX: usize = 80;
/// The most characters of each of the two lines that a long output is told by.
const END_CHARS_MAX: usize = 90;
/// So many fields of data are told, none longer than so many characters.
const FIELDS_MAX: usize = 5;
const FIELD_CHARS_MAX: usize = 40;
/// The most files that the gist of a search names.
const FILES_MAX: usize = 5;

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultGist {
    /// In a few words; empty where a few do not tell it.
    pub(crate) brief: String,
    /// In one line.
    pub(crate) full: String,
}

/// Returns the gist of what a call printed. `root` is left out of paths.
pub(crate) fn gist(command: Option<&str>, output: &str, ending: CommandEnding, root: &str) -> ResultGist {
    let shown = |line: &str| if root.is_empty() { line.to_owned() } else { line.replace(root, "") };
    let both = |gist: &str| {
        let gist = shown(gist);
        ResultGist { brief: one_line(&gist, BRIEF_CHARS_MAX), full: one_line(&gist, FULL_CHARS_MAX) }
    };
    if is_rejected(output) {
        return both("rejected by the user");
    }
    let text: String = outside_reminders(output).collect();
    let run = command.map(first_line).and_then(|line| Some((line, run_kind(line)?)));
    if let Some((line, kind)) = run {
        return both(&run_outcome(kind, line, &text, ending));
    }
    let lines: Vec<&str> = text.lines().map(|line| without_gutter(line).trim()).filter(|line| line.len() > 1).collect();
    // A report's title says less than its first sentence.
    let told = lines.iter().find(|line| !line.starts_with('#')).or(lines.first());
    let (Some(first), Some(last)) = (told, lines.last()) else {
        return ResultGist { brief: String::new(), full: "(no output)".to_owned() };
    };
    if ending == CommandEnding::Failed {
        let failing = failing_lines(&text);
        return both(&if failing.is_empty() { format!("failed: {first}") } else { failing.join("; ") });
    }
    let hits: Vec<(&str, &str)> = lines.iter().filter_map(|line| Some((*line, search_hit(line)?.0))).collect();
    if hits.len() > 2 && hits.len() * 2 > lines.len() {
        return hits_gist(&hits, &shown);
    }
    let whole = shown(&lines.join("; "));
    let is_data = first.starts_with(['{', '[']) && lines.len() == 1 && whole.len() > FULL_CHARS_MAX;
    let fits = |chars_max: usize| whole.chars().count() <= chars_max;
    let full = match () {
        () if fits(FULL_CHARS_MAX) => whole.clone(),
        () if is_data => data_gist(first),
        () if lines.len() == 1 => one_line(&whole, END_CHARS_MAX),
        () => {
            let (first, last) = (one_line(&shown(first), END_CHARS_MAX), one_line(&shown(last), END_CHARS_MAX));
            format!("{first} … {last} ({} lines)", lines.len())
        }
    };
    // The last line of `git diff --stat` sums it up.
    let sum = Some(*last).filter(|last| last.contains(" changed, ") && last.starts_with(|c: char| c.is_ascii_digit()));
    let brief = match sum {
        _ if fits(BRIEF_CHARS_MAX) => whole,
        Some(sum) => one_line(sum, BRIEF_CHARS_MAX),
        None => String::new(),
    };
    ResultGist { brief, full }
}

/// Tells JSON by its telling fields, else by its first short ones, or by how many entries it has.
fn data_gist(text: &str) -> String {
    const DATA: &str = "(data)";
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Array(entries)) => format!("{} entries", entries.len()),
        Ok(serde_json::Value::Object(fields)) => {
            let short = fields.iter().filter_map(|(key, value)| {
                let value = match value {
                    serde_json::Value::String(text) => text.clone(),
                    serde_json::Value::Number(number) => number.to_string(),
                    serde_json::Value::Bool(flag) => flag.to_string(),
                    _ => return None,
                };
                let is_short = value.chars().count() <= FIELD_CHARS_MAX && !value.contains("://");
                (is_short && !value.is_empty()).then(|| (key.as_str(), format!("{key}={value}")))
            });
            let mut short: Vec<(&str, String)> = short.collect();
            short.sort_by_key(|(key, _)| !TELLING_FIELDS.contains(key));
            let telling = short.iter().filter(|(key, _)| TELLING_FIELDS.contains(key)).count();
            let told = if telling > 0 { telling.min(FIELDS_MAX) } else { FIELDS_MAX };
            let told: Vec<String> = short.into_iter().take(told).map(|(_, field)| field).collect();
            if told.is_empty() { DATA.to_owned() } else { format!("{}, …", told.join(", ")) }
        }
        _ => DATA.to_owned(),
    }
}

/// Fields that tell what came of a call.
const TELLING_FIELDS: [&str; 14] = [
    "error", "message", "status", "state", "result", "name", "title", "number", "id", "total", "count", "amount",
    "price", "date",
];

/// Tells the hits of a search, each a line with its path: one or two as they are, more by their files, the one with the most hits first;
/// in full, as they are where they fit. Lines around a hit, which have dashes about their numbers, are none.
fn hits_gist(lines: &[(&str, &str)], shown: &dyn Fn(&str) -> String) -> ResultGist {
    let is_match = |(line, path): &&(&str, &str)| line.as_bytes().get(path.len()) == Some(&b':');
    let hits: Vec<&(&str, &str)> = lines.iter().filter(is_match).collect();
    let told = shown(&told_hits(&hits));
    if let [_] | [_, _] = hits[..] {
        return ResultGist { brief: one_line(&told, BRIEF_CHARS_MAX), full: one_line(&told, FULL_CHARS_MAX) };
    }
    let counted = shown(&counted_hits(&hits));
    let full = if told.chars().count() <= FULL_CHARS_MAX { told } else { one_line(&counted, FULL_CHARS_MAX) };
    ResultGist { brief: one_line(&counted, BRIEF_CHARS_MAX), full }
}

/// Joins hits, with the path of each file once: `src/cart.rs:12:let a = 1; 14:let b = 2`.
fn told_hits(hits: &[&(&str, &str)]) -> String {
    let mut told = String::new();
    let mut file = "";
    for (line, path) in hits {
        let rest = if *path == file { &line[path.len() + 1..] } else { line };
        told.push_str(if told.is_empty() { "" } else { "; " });
        told.push_str(&rest.split_whitespace().collect::<Vec<_>>().join(" "));
        file = path;
    }
    told
}

/// Counts hits by their files.
fn counted_hits(hits: &[&(&str, &str)]) -> String {
    let mut files: Vec<(&str, usize)> = Vec::new();
    for (_, path) in hits {
        match files.iter_mut().find(|(known, _)| is_same_file(known, path)) {
            Some((known, count)) => {
                *known = if path.len() > known.len() { path } else { known };
                *count += 1;
            }
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

/// Tells whether two paths name one file, perhaps one of them from the root and the other from the working directory.
fn is_same_file(one: &str, other: &str) -> bool {
    let ends =
        |long: &str, short: &str| long.strip_suffix(short).is_some_and(|head| head.is_empty() || head.ends_with('/'));
    ends(one, other) || ends(other, one)
}

#[cfg(test)]
mod tests {
    use super::{CommandEnding, gist};

    #[test]
    fn a_call_is_told_with_what_came_of_it() {
        let long: String = (1..60).map(|n| format!("{n}: a line of a long output\n")).collect();
        let stat: String = (1..41).map(|n| format!(" src/a{n}.rs | 3 +++\n")).collect();
        let stat = format!("{stat} 40 files changed, 90 insertions(+)\n");
        let hits: String = (1..12).map(|n| format!("/w/src/cart.rs:{n}:    let total = price * count;\n")).collect();
        let hits = format!("{hits}/w/src/tax.rs:9:    let total = 1;\n");
        let around: String = (692..720).map(|n| format!("/w/src/cart.rs-{n}-    let total = price;\n")).collect();
        let around = format!("src/cart.rs:691:fn total() -> Cents {{\n{around}");
        let twice = format!("{hits}src/cart.rs:90:    total()\n");
        let few = "src/cart.rs:3:  id: a1\nsrc/cart.rs:19:  id: b2\nsrc/tax.rs:4:  id: c3\n";
        let ended = "a line of a long output … a line of a long output (59 lines)";
        let data = format!("{{\"rows\":[{}]}}", "1,".repeat(200));
        let entries = format!("[{}1]", "1,".repeat(199));
        let record =
            format!("{{\"id\":\"R1\",\"status\":\"booked\",\"total\":340,\"flights\":[{}1]}}", "1,".repeat(200));
        let opaque = record.replace("id", "node").replace("status", "shard").replace("booked", "7").replace("R1", "a1");
        let opaque = opaque.replace("\"total\":340,", "");
        let failure = format!("{long}--- FAIL: TestTotal\n    got 3, want 4\n");
        let report = format!("## Summary\n\nThe parser is ported.\n{long}");
        let rejected = "The user doesn't want to proceed with this tool use. STOP what you are doing";
        let cases = [
            ("nothing", None, "", false, "", "(no output)"),
            (
                "one line",
                None,
                "9b6bd9e make it a constant\n",
                false,
                "9b6bd9e make it a constant",
                "9b6bd9e make it a constant",
            ),
            (
                "a few",
                None,
                "a.rs | 3 +\n 1 file changed\n",
                false,
                "a.rs | 3 +; 1 file changed",
                "a.rs | 3 +; 1 file changed",
            ),
            (
                "hits",
                None,
                &hits,
                false,
                "12 hits: src/cart.rs (11), src/tax.rs",
                "12 hits: src/cart.rs (11), src/tax.rs",
            ),
            (
                "a hit with the lines around it",
                None,
                &around,
                false,
                "src/cart.rs:691:fn total() -> Cents {",
                "src/cart.rs:691:fn total() -> Cents {",
            ),
            (
                "a few hits",
                None,
                few,
                false,
                "3 hits: src/cart.rs (2), src/tax.rs",
                "src/cart.rs:3: id: a1; 19: id: b2; src/tax.rs:4: id: c3",
            ),
            (
                "a file named in two ways",
                None,
                &twice,
                false,
                "13 hits: src/cart.rs (12), src/tax.rs",
                "13 hits: src/cart.rs (12), src/tax.rs",
            ),
            (
                "a failure",
                None,
                &failure,
                true,
                "--- FAIL: TestTotal; got 3, want 4",
                "--- FAIL: TestTotal; got 3, want 4",
            ),
            ("a run", Some("cargo test"), &long, false, "passed", "passed"),
            (
                "a failed run",
                Some("cargo test"),
                &failure,
                true,
                "failed: --- FAIL: TestTotal; got 3, want 4",
                "failed: --- FAIL: TestTotal; got 3, want 4",
            ),
            ("long", None, &long, false, "", ended),
            (
                "a diff's statistics",
                Some("git diff --stat"),
                &stat,
                false,
                "40 files changed, 90 insertions(+)",
                "src/a1.rs | 3 +++ … 40 files changed, 90 insertions(+) (41 lines)",
            ),
            ("data", None, &data, false, "", "(data)"),
            ("entries", None, &entries, false, "", "200 entries"),
            ("a record", None, &record, false, "", "id=R1, status=booked, total=340, …"),
            ("another", None, &opaque, false, "", "node=a1, shard=7, …"),
            ("a report", None, &report, false, "", "The parser is ported. … a line of a long output (61 lines)"),
            ("the shell's notice", None, "done\nShell cwd was reset to /w", false, "done", "done"),
            ("rejected", Some("cargo test"), rejected, true, "rejected by the user", "rejected by the user"),
        ];
        for (why, command, output, failed, brief, full) in cases {
            let ending = if failed { CommandEnding::Failed } else { CommandEnding::Succeeded };
            let told = gist(command, output, ending, "/w/");
            assert_eq!((told.brief.as_str(), told.full.as_str()), (brief, full), "{why}");
        }
    }
}
