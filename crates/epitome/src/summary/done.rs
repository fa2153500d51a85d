//! What was done, in the words of the agent that did it: why it changed a file, what it told at the end of a turn, what fixed
//! an error.
//!
//! ```text
//! m26  "`main.rs` builds `Broken` by hand; I give it a line there."    a purpose: the last words before a change
//! m26  call edit {path: src/main.rs, …}                                ─► | src/main.rs | edited | `main.rs` builds … (m26) |
//! m28  call bash {command: cargo test}                                 ─► cargo test: error[E0063] … (m24) → main.rs: `main.rs` builds … (m28)
//! m30  "Done: records know their lines. All 27 tests pass."            a conclusion ─► - m30: Done: records know their lines. …
//! ```
//!
//! It quotes and cuts; it judges nothing. [`parse_completed`] reads the section back from a list.

use super::clip::one_line;
use super::constraint::{announces, sentences};
use super::excerpt::PATHS_BELOW;
use super::parse::{parse_label, plan_item};
use super::speech::offers_choice;
use super::structured::{FileFact, Quote, StructuredSummary};
use crate::thread::{Message, Role, Thread};

/// The most characters of a purpose, and of a conclusion.
const PURPOSE_CHARS_MAX: usize = 110;
const CONCLUSION_CHARS_MAX: usize = 180;
/// Shorter words conclude nothing: "Understood."
const CONCLUSION_CHARS_MIN: usize = 20;
/// A longer announcement says something itself: "Here are the flights from New York to Seattle on May 20:".
const ANNOUNCING_BYTES_MAX: usize = 64;
/// The most files that are named as the fix of an error.
const FIXED_FILES_MAX: usize = 3;

/// Returns what the agent told at the end of a turn, in one line, without the question behind it; `None` where a message ends no
/// turn, only asks, or offers a choice.
pub(super) fn conclusion(thread: &Thread, at: usize) -> Option<String> {
    let message = thread.message(at);
    let ends_turn = || at + 1 == thread.len() || thread.message(at + 1).opens_turn();
    if message.role() != Role::Assistant || message.is_summary() || message.calls().next().is_some() || !ends_turn() {
        return None;
    }
    let text = message.text();
    let asked = sentences(&text).last().filter(|last| last.ends_with(['?', '？', '؟']));
    if asked.is_some_and(offers_choice) {
        return None;
    }
    let told = told(asked.and_then(|asked| text.trim_end().strip_suffix(asked)).unwrap_or(&text));
    let line = one_line(&told, CONCLUSION_CHARS_MAX);
    (line.chars().count() >= CONCLUSION_CHARS_MIN).then_some(line)
}

/// Returns the prose of a text behind what only announces it, if anything follows: "Here's my review: …".
fn told(text: &str) -> String {
    let lines = prose(text).join("\n");
    let mut rest = lines.as_str();
    let is_bare =
        |sentence: &&str| sentence.len() <= ANNOUNCING_BYTES_MAX && sentence.ends_with([':', '：', '.', '!', '。']);
    while let Some(sentence) = sentences(rest).next().filter(|sentence| is_bare(sentence) && announces(sentence))
        && let Some(at) = rest.find(sentence)
        && !rest[at + sentence.len()..].trim().is_empty()
    {
        rest = &rest[at + sentence.len()..];
    }
    rest.to_owned()
}

/// Returns what the agent said last before its calls, in one line: what they are for.
pub(super) fn purpose(message: &Message) -> Option<String> {
    let text = message.text();
    let line = prose(&text).pop()?.trim_end_matches([':', '：']).to_owned();
    Some(one_line(&line, PURPOSE_CHARS_MAX)).filter(|line| !line.is_empty())
}

/// Returns the lines of a text that are prose, without the marks of headings, lists and bold type. Code and tables are none.
fn prose(text: &str) -> Vec<String> {
    let mut in_code = false;
    let lines = text.lines().map(str::trim).filter(|line| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence && !line.starts_with('|') && line.contains(char::is_alphanumeric)
    });
    lines.map(|line| line.trim_start_matches(['#', '-', '*', '>', ' ']).replace("**", "")).collect()
}

/// Tells what fixed an error: the files that were changed before the run that succeeded, and why.
pub(super) fn resolution<'f>(changed: impl Iterator<Item = (&'f str, Option<&'f str>)>) -> String {
    let (mut names, mut why) = (Vec::new(), None);
    for (path, purpose) in changed {
        let name = path.rsplit('/').next().unwrap_or(path);
        if !names.contains(&name) {
            names.push(name);
        }
        why = purpose.or(why);
    }
    let more = names.len().saturating_sub(FIXED_FILES_MAX);
    let named = names.iter().take(FIXED_FILES_MAX).copied().collect::<Vec<_>>().join(", ");
    let named = if more > 0 { format!("{named} and {more} more") } else { named };
    match why {
        Some(why) if !named.is_empty() => format!("{named}: {why}"),
        _ => named,
    }
}

/// The head of the table of files.
pub(super) const TABLE_HEAD: &str = "| File/Component | Action | Description |\n|---|---|---|";

/// Returns the files that were changed as lines of a table, oldest first, with the paths below `root` shortened.
pub(super) fn file_lines(items: &StructuredSummary, root: &str) -> Vec<String> {
    let mut files: Vec<(usize, &FileFact)> =
        items.files.iter().filter_map(|file| Some((file.written.max(file.patched)?, file))).collect();
    files.sort_by_key(|(place, _)| *place);
    let line = |(place, file): (usize, &FileFact)| {
        let path = file.path.strip_prefix(root).unwrap_or(&file.path);
        let purpose = file.purpose.as_ref().map(|purpose| format!("{purpose} ")).unwrap_or_default();
        let cell = |text: &str| text.replace('|', "\\|");
        format!("| {} | {} | {}(m{}) |", cell(path), file.last_action(), cell(&purpose), place + 1)
    };
    files.into_iter().map(line).collect()
}

/// Parses the section of completed work: the table of files, finished tasks, and conclusions.
pub(super) fn parse_completed(items: &mut StructuredSummary, body: &str, place: usize) {
    let mut root = "";
    for line in body.lines() {
        if let Some(below) = line.strip_prefix(PATHS_BELOW) {
            root = below.trim_end_matches(')');
        } else if let Some(file) = file_of_line(line, root) {
            items.files.push(file);
        } else if let Some(item) = line.strip_prefix("- ") {
            if item.starts_with("[x] ") {
                items.current_plan.push(plan_item(item, place));
            } else {
                items.conclusions.extend(parse_conclusion(item));
            }
        }
    }
}

/// Parses `m30: Done: records know their lines.`
pub(super) fn parse_conclusion(item: &str) -> Option<Quote> {
    parse_label(item).map(|(label, text)| Quote { text, place: label.place })
}

/// Parses `| src/main.rs | edited | why (m26) |`.
fn file_of_line(line: &str, root: &str) -> Option<FileFact> {
    let cells = line.strip_prefix("| ")?.strip_suffix(" |")?.replace("\\|", "\u{0}");
    let mut cells = cells.splitn(3, " | ").map(|cell| cell.replace('\u{0}', "|"));
    let (path, action, description) = (cells.next()?, cells.next()?, cells.next()?);
    let (purpose, number) = description.strip_suffix(')')?.rsplit_once("(m")?;
    let place = number.parse::<usize>().ok()?.checked_sub(1)?;
    let purpose = Some(purpose.trim().to_owned()).filter(|purpose| !purpose.is_empty());
    let path = if path.starts_with('/') { path } else { format!("{root}{path}") };
    let (written, patched) = match action.as_str() {
        "written" => (Some(place), None),
        "edited" => (None, Some(place)),
        _ => return None,
    };
    Some(FileFact { path, read: None, written, patched, purpose })
}

#[cfg(test)]
mod tests {
    use super::{conclusion, file_lines, parse_completed, resolution, told};
    use crate::policy::Tools;
    use crate::summary::testing::thread;
    use crate::summary::{StructuredSummary, extract};

    const WORK: &str = "user: Records must know their lines.\nassistant: I will look.\ncall read: {\"path\":\"/w/src/csv.rs\"}\nresult read: fn a()\n\
        call bash: {\"command\":\"cargo test 2>&1 | tail -5\"}\nresult bash: error[E0063]: missing field `line`\\nExit code: 101\n\
        assistant: `Broken` is built by hand:\ncall edit: {\"path\":\"/w/src/main.rs\",\"old_string\":\"a\",\"new_string\":\"b\"}\nresult edit: The file was edited.\n\
        call bash: {\"command\":\"cd /w && cargo test\"}\nresult bash: test result: ok. 27 passed\n\
        assistant: **Done**: records know their lines.\\n```\\ncode\\n```\\n- All 27 tests pass.\nuser: Thanks!";

    #[test]
    fn what_was_done_is_told_in_the_agents_words_and_what_was_read_is_not() {
        let thread = thread(WORK);
        let items = extract(&thread, 0..thread.len(), &Tools::default());
        assert_eq!(
            file_lines(&items, "/w/"),
            ["| src/main.rs | edited | `Broken` is built by hand (m8) |"],
            "{:?}",
            items.files
        );
        let told: Vec<&str> = items.conclusions.iter().map(|quote| quote.text.as_str()).collect();
        assert_eq!(told, ["Done: records know their lines. All 27 tests pass."]);
        let error = &items.errors[0];
        assert_eq!((error.fixed, error.resolution.as_str()), (Some(10), "main.rs: `Broken` is built by hand"));
    }

    #[test]
    fn a_change_that_failed_or_was_rejected_is_no_completed_work() {
        let edit = "call edit: {\"path\":\"a.rs\",\"old_string\":\"a\",\"new_string\":\"b\"}\nresult edit: ";
        let rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected.";
        let cases = [
            (format!("user: go\n{edit}{rejected}"), vec![]),
            (
                format!("user: go\n{edit}The file was edited.\n{edit}{rejected}"),
                vec!["| a.rs | edited | for m1 (m2) |"],
            ),
        ];
        for (lines, expected) in cases {
            let thread = thread(&lines);
            let items = extract(&thread, 0..thread.len(), &Tools::default());
            assert_eq!(file_lines(&items, ""), expected, "{lines}");
        }
    }

    #[test]
    fn completed_work_is_read_back() {
        let body = "(paths are below /w/)\n| File/Component | Action | Description |\n|---|---|---|\n| src/a\\|b.rs | edited | why \\| how (m26) |\n\
            | c.rs | written | (m3) |\n- [x] port it\n- m30: Done: (all).\n";
        let mut items = StructuredSummary::default();
        parse_completed(&mut items, body, 0);
        assert_eq!(
            file_lines(&items, "/w/"),
            ["| c.rs | written | (m3) |", "| src/a\\|b.rs | edited | why \\| how (m26) |"]
        );
        assert!(items.files.iter().all(|file| file.path.starts_with("/w/")));
        assert_eq!(items.current_plan[0].text, "port it");
        assert_eq!((items.conclusions[0].place, items.conclusions[0].text.as_str()), (29, "Done: (all)."));
    }

    #[test]
    fn a_conclusion_begins_behind_what_announces_it() {
        let cases = [
            ("Here's my review:\n\n# Totals\nThey round down.", "Totals\nThey round down."),
            ("Now I have everything I need. Here's my proposal: one\ntwo", "Here's my proposal: one\ntwo"),
            ("Hier ist der Plan:\nErst runden.", "Erst runden."),
            ("Let me know.", "Let me know."),
            ("Hereafter it rounds up.", "Hereafter it rounds up."),
        ];
        for (text, expected) in cases {
            assert_eq!(told(text).trim(), expected, "{text}");
        }
    }

    #[test]
    fn a_message_that_ends_no_turn_concludes_nothing() {
        let thread = thread(
            "user: a\nassistant: I look at all of it now.\ncall sh: {}\nresult sh: x\nassistant: Shall I push it to the remote now?\nuser: b\nassistant: Understood.\nuser: c\nassistant: 1. Round each line\\n2. Round the sum\\nWhich one?\nuser: 2\nassistant: The sum rounds half up now. Shall I commit it?\nuser: yes",
        );
        let told: Vec<String> = (0..thread.len()).filter_map(|at| conclusion(&thread, at)).collect();
        assert_eq!(told, ["The sum rounds half up now."]);
        assert_eq!(resolution([("/w/a.rs", None), ("b/a.rs", Some("x"))].into_iter()), "a.rs: x");
    }
}
