//! Text that a harness puts into a user's message: reminders, notices, command output, summaries. It is not the user's.
//!
//! Known by its marks alone, which are listed in `data/harness.toml` and nowhere else. A harness puts its marks at the beginning of a line
//! and closes them; a mark inside a sentence or a code fence, or one that is never closed, was typed by somebody.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::table::WordList;

/// Who a piece of a user's message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The user.
    User,
    /// The harness, in the user's name.
    Harness(HarnessText),
}

/// What a harness says in a user's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HarnessText {
    /// Reminders, instructions and descriptions of the surroundings: said anew whenever they matter.
    Notice,
    /// What a command or a task printed.
    Output,
    /// What stands for an earlier part of the conversation.
    Summary,
}

/// What is between a pair of tags.
#[derive(Clone, Copy)]
enum Inside {
    Text(HarnessText),
    /// What the user typed.
    Words,
}

/// The marks of `data/harness.toml`.
static MARKS: LazyLock<Marks> = LazyLock::new(|| crate::embedded_table!("harness.toml"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Marks {
    lines: WordList,
    codex_context: WordList,
    tags: Tags,
    whole: Whole,
    results: Results,
}

/// The marks of tool results in which a user speaks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Results {
    pub(super) rejected: WordList,
    pub(super) said: WordList,
    pub(super) after: WordList,
    pub(super) answers: WordList,
    tail: WordList,
}

/// Returns the marks of tool results in which a user speaks.
pub(super) fn result_marks() -> &'static Results {
    &MARKS.results
}

/// The names of tags, by what is inside them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tags {
    notice: WordList,
    output: WordList,
    summary: WordList,
    words: WordList,
}

/// How texts begin that are a harness's from their first word to their last, by what they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    notice: WordList,
    output: WordList,
    summary: WordList,
}

/// How Codex introduces the instructions of a folder, and how they end.
const AGENTS_MD: (&str, &str) = ("# AGENTS.md instructions for ", "</INSTRUCTIONS>");

/// Whether Codex's own loader does not take a message that begins like this for a user's.
pub(crate) fn is_codex_context(text: &str) -> bool {
    MARKS.codex_context.starts(text)
}

/// A text of a user's message in pieces, in their order, each with whoever it is from.
pub(crate) fn pieces(text: &str) -> Vec<(Speaker, &str)> {
    if let Some(kind) = whole(text) {
        return vec![(Speaker::Harness(kind), text)];
    }
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while at < text.len() {
        let line_end = line_end(text, at);
        let line = &text[at..line_end];
        if let Some(end) = fence_end(text, at, line) {
            at = end;
        } else if let Some(block) = block(text, at) {
            pieces.push((Speaker::User, &text[from..at]));
            pieces.push((block.speaker, &text[block.inside.0..block.inside.1]));
            (from, at) = (block.end, block.end);
        } else if let Some(end) = notice_end(text, at, line) {
            pieces.push((Speaker::User, &text[from..at]));
            pieces.push((Speaker::Harness(HarnessText::Notice), &text[at..end]));
            (from, at) = (end, end);
        } else {
            at = line_end;
        }
    }
    pieces.push((Speaker::User, &text[from..]));
    pieces.retain(|(_, piece)| !piece.trim().is_empty());
    pieces
}

/// What of a text in a user's message the user said.
pub(crate) fn own_words(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter(|(speaker, _)| *speaker == Speaker::User).map(|(_, piece)| piece)
}

/// Whether a text in a user's message is a harness's, all of it.
pub(crate) fn is_harness_only(text: &str) -> bool {
    !text.trim().is_empty() && own_words(text).next().is_none()
}

/// Tells whether a text is how a harness writes down a command that the user gave, such as `/review`.
pub(crate) fn is_user_command(text: &str) -> bool {
    text.trim_start().starts_with('<') && text.contains("<command-name>/") && is_harness_only(text)
}

/// The marks around what a harness tells its model inside tool output.
const REMINDER: (&str, &str) = ("<system-reminder>", "</system-reminder>");

/// Returns what a tool printed, without what a harness added: reminders, and notices at the end. A reminder that is never closed is text
/// like any other.
pub(crate) fn outside_reminders(text: &str) -> impl Iterator<Item = &str> {
    let mut pieces = text.split(REMINDER.0);
    let head = pieces.next();
    let pieces =
        head.into_iter().chain(pieces.map(|piece| piece.split_once(REMINDER.1).map_or(piece, |(_, after)| after)));
    pieces.map(without_tail)
}

/// Returns a tool's output without the notices that a harness wrote under it.
fn without_tail(text: &str) -> &str {
    // Notices are short and stand last: a mark further up is what the tool printed.
    let near_end = text.floor_char_boundary(text.len().saturating_sub(TAIL_BYTES_MAX));
    let first = (near_end == 0).then_some(0);
    let line_starts = first.into_iter().chain(text[near_end..].match_indices('\n').map(|(at, _)| near_end + at + 1));
    let cut = line_starts.into_iter().find(|at| MARKS.results.tail.starts(&text[*at..]));
    cut.map_or(text, |at| &text[..at])
}

/// The most bytes of the notices under a tool's output.
const TAIL_BYTES_MAX: usize = 400;

fn whole(text: &str) -> Option<HarnessText> {
    let text = text.trim_start();
    let Whole { notice, output, summary } = &MARKS.whole;
    if notice.starts(text) {
        Some(HarnessText::Notice)
    } else if output.starts(text) || is_bash_report(text) {
        Some(HarnessText::Output)
    } else if summary.starts(text) {
        Some(HarnessText::Summary)
    } else {
        None
    }
}

/// Whether a text is how pi tells of a command that the user ran: the command, then its output in a fence.
fn is_bash_report(text: &str) -> bool {
    let Some((command, output)) = text.strip_prefix("Ran `").and_then(|rest| rest.split_once("`\n")) else {
        return false;
    };
    !command.contains('\n') && (output.starts_with("```") || output.starts_with("(no output)"))
}

/// Where the line that a place is on ends, its line feed included.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// Where a code fence that begins at a place ends; `None` if none begins there, or it never ends.
fn fence_end(text: &str, at: usize, line: &str) -> Option<usize> {
    let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark))?;
    let mut start = at + line.len();
    while start < text.len() {
        let end = line_end(text, start);
        if text[start..end].trim_start().starts_with(mark) {
            return Some(end);
        }
        start = end;
    }
    None
}

/// Where a notice without tags that begins at a place ends.
fn notice_end(text: &str, at: usize, line: &str) -> Option<usize> {
    let (start, end) = AGENTS_MD;
    if line.starts_with(start) {
        return Some(text[at..].find(end).map_or(text.len(), |found| at + found + end.len()));
    }
    MARKS.lines.starts(line.trim_start()).then_some(at + line.len())
}

/// A pair of tags with what is between them.
struct Block {
    speaker: Speaker,
    /// What is shown of it: all of it, or what the user typed inside.
    inside: (usize, usize),
    end: usize,
}

/// The block that begins at a place, white space aside.
fn block(text: &str, at: usize) -> Option<Block> {
    let start = at + text[at..].len() - text[at..].trim_start_matches([' ', '\t']).len();
    let (name, inside, opened) = opening(&text[start..])?;
    let (words_end, end) = closing(text, start + opened, name)?;
    // Whoever types about a tag goes on in the line.
    let rest = &text[end..line_end(text, end)];
    let end = if rest.trim().is_empty() { line_end(text, end) } else { end };
    if !rest.trim().is_empty() && opening(rest.trim_start()).is_none() {
        return None;
    }
    Some(match inside {
        Inside::Text(kind) => Block { speaker: Speaker::Harness(kind), inside: (start, end), end },
        Inside::Words => Block { speaker: Speaker::User, inside: (start + opened, words_end), end },
    })
}

/// The tag of the table that a text begins with: its name, what is inside it, and its length.
fn opening(text: &str) -> Option<(&'static str, Inside, usize)> {
    let rest = text.strip_prefix('<')?;
    let Tags { notice, output, summary, words } = &MARKS.tags;
    let kinds = [
        (notice, Inside::Text(HarnessText::Notice)),
        (output, Inside::Text(HarnessText::Output)),
        (summary, Inside::Text(HarnessText::Summary)),
        (words, Inside::Words),
    ];
    let opens = |name: &&str| rest[name.len()..].starts_with(['>', ' ']);
    let (name, inside) =
        kinds.into_iter().find_map(|(names, inside)| Some((names.prefixes_of(rest).find(opens)?, inside)))?;
    let line = &text[..text.find('\n').unwrap_or(text.len())];
    Some((name, inside, line.find('>')? + 1))
}

/// Where a tag that was opened before a place is closed: the closing tag's beginning and end. Tags of the same name inside
/// belong together in pairs, as long as there are enough of them.
fn closing(text: &str, from: usize, name: &str) -> Option<(usize, usize)> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let closings: Vec<usize> = text[from..].match_indices(&close).map(|(at, _)| from + at).collect();
    let paired = closings.iter().enumerate().find(|(nth, at)| text[from..**at].matches(&open).count() <= *nth);
    let at = *paired.map(|(_, at)| at).or(closings.first())?;
    Some((at, at + close.len()))
}

#[cfg(test)]
mod tests {
    use super::{Speaker, own_words, pieces};

    fn own(text: &str) -> Vec<&str> {
        own_words(text).map(str::trim).collect()
    }

    #[test]
    fn what_a_harness_says_is_nobodys_words() {
        for text in [
            "<system-reminder>\nThe user opened a file. Never mention this.\n</system-reminder>",
            "<system-reminder>a</system-reminder>\n\n<system-reminder>b</system-reminder>\n",
            "<local-command-stdout>Bye!</local-command-stdout>",
            "<local-command-caveat>Caveat: The messages below …</local-command-caveat>",
            "Caveat: The messages below were generated by the user while running local commands. DO NOT respond to them.",
            "<command-name>/exit</command-name>\n            <command-message>exit</command-message>\n            <command-args></command-args>",
            "<bash-stdout>/x</bash-stdout><bash-stderr></bash-stderr>",
            "<total_tokens>15000000 tokens left</total_tokens>",
            "<user-prompt-submit-hook>ok</user-prompt-submit-hook>",
            "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>",
            "<user_instructions>\nAlways be brief.\n</user_instructions>",
            "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nNever push.\n</INSTRUCTIONS>",
            "<environment_details>\n# Time\n</environment_details>",
            "<task-notification>\n<task-id>7</task-id>\n</task-notification>",
            "[Request interrupted by user]",
            "[Request interrupted by user for tool use]",
            "This session is being continued from a previous conversation that ran out of context.\n\nYou must never stop.",
            "Base directory for this skill: /x\n\n# A skill\nAlways do it.",
            "Ran `make`\n```\nerror\n```",
            "<skill>\n<name>review</name>\nAlways review.\n</skill>",
            "<subagent_notification id=\"3\">done</subagent_notification>",
            "<system-reminder>a <system-reminder>b</system-reminder> c</system-reminder>",
            "<system-reminder>\nSpeaks of `<system-reminder>` once.\n</system-reminder>",
            "<system-reminder>\n```\nan open fence\n</system-reminder>",
        ] {
            assert_eq!(own(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_users_own_words_stay_whatever_stands_around_them() {
        for (text, words) in [
            ("<system-reminder>\na\n</system-reminder>\nFix the build.", &["Fix the build."][..]),
            ("Fix the build.\n<system-reminder>\na\n</system-reminder>", &["Fix the build."]),
            ("Fix it.\n\n<system-reminder>a</system-reminder>\n\nThen push.", &["Fix it.", "Then push."]),
            ("<system-reminder>a <system-reminder>b</system-reminder> c</system-reminder>\nGo on.", &["Go on."]),
            (
                "<command-name>/review</command-name>\n<command-args>only the parser</command-args>",
                &["only the parser"],
            ),
            (
                "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nNever push.\n</INSTRUCTIONS>\nFix the build.",
                &["Fix the build."],
            ),
            ("[Request interrupted by user]\nUse tabs instead.", &["Use tabs instead."]),
            ("```\nunclosed fence\n<system-reminder>\na\n</system-reminder>", &["```\nunclosed fence"]),
        ] {
            assert_eq!(own(text), words, "{text}");
        }
    }

    #[test]
    fn whoever_types_about_a_mark_loses_no_word() {
        for text in [
            "Why does <system-reminder> show up in my prompts?",
            "<system-reminder> is what I mean: never quote it.",
            "<system-reminder>x</system-reminder> is what I see. Remove it.",
            "Keep `<system-reminder>a</system-reminder>` out.",
            "Here it is:\n```xml\n<system-reminder>\na\n</system-reminder>\n```\nRemove it.",
            "<system-reminder>\nnever closed, so somebody typed it",
            "<system-reminders>\nanother tag\n</system-reminders>",
            "<task>\nDo it.\n</task>",
            "<INSTRUCTIONS>\nNever push.\n</INSTRUCTIONS>",
            "Ran `make` and it failed:\nfix it.",
            "I saw [Request interrupted by user] again.",
        ] {
            assert_eq!(own(text), [text.trim()], "{text}");
        }
    }

    #[test]
    fn no_byte_but_white_space_and_tags_is_lost() {
        let text =
            "a\n<system-reminder>b</system-reminder>\nc\n<bash-stdout>d</bash-stdout><bash-stderr>e</bash-stderr>\nf";
        let joined: String = pieces(text).iter().map(|(_, piece)| *piece).collect();
        assert_eq!(joined, text);
        assert_eq!(pieces(text).iter().filter(|(speaker, _)| *speaker == Speaker::User).count(), 3);
    }
}
