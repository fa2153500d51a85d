//! What a short answer answers: the question or the option in the agent's message before it.
//!
//! ```text
//! m107  Three ways:                               m108  "let's try 2"
//!       1. Handle errors at each call site         ─► answers "2. Typed fields: validate once, when JSON is read"
//!       2. Typed fields:
//!          validate once, when JSON is read            What was not chosen is no decision: `unchosen` names those lines,
//!       3. Keep the panics                             so that nothing quotes them as one.
//!       Which one?
//! ```
//!
//! "yes", "2" and "go ahead, but keep the old one" mean nothing alone. The agent's last question is kept with them, or the option of its
//! list that was chosen. A question that says nothing by itself ("Which approach?") is kept with the words before it.

use std::ops::Range;

use super::clip::one_line;
use super::constraint::sentences;
use super::parse::SHORT_BYTES_MAX;
use super::speech::{approval, choice, offers_choice};
use crate::thread::{Message, Role, Thread};

/// A longer answer explains itself.
const ANSWER_BYTES_MAX: usize = 240;
/// In a longer message, a question at the end is not what it is about.
const ASKED_BYTES_MAX: usize = 600;
/// A question is shown with at most so many characters.
const QUESTION_CHARS_MAX: usize = 200;
/// A chosen option is shown with at most so many characters.
const OPTION_CHARS_MAX: usize = 320;
/// A question of at most so many characters says nothing by itself; it is shown with so many of what stands before it.
const BARE_QUESTION_CHARS_MAX: usize = 32;
const BEFORE_QUESTION_CHARS_MAX: usize = 120;
/// A question further from the end of the agent's message is not what is answered.
const ENDING_BYTES_MAX: usize = 1600;

/// Returns what a user's message answers; `None` where it explains itself or nothing was asked.
pub(super) fn answered(thread: &Thread, at: usize, words: &str) -> Option<String> {
    if words.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let before = said_before(thread, at)?.text();
    let options = options(&before);
    if let Some(chosen) = chosen(&before, &options, words) {
        return Some(one_line(&unmarked(&before[options[chosen].clone()]), OPTION_CHARS_MAX));
    }
    let ending = &before[before.ceil_char_boundary(before.len().saturating_sub(ENDING_BYTES_MAX))..];
    let question = sentences(ending).filter(|sentence| sentence.ends_with(['?', '？', '؟'])).last();
    let is_approval = approval(words).is_some();
    let is_terse = words.len() <= SHORT_BYTES_MAX;
    let proposal = || ending.lines().map(str::trim).rfind(|line| !line.is_empty()).filter(|_| is_approval && is_terse);
    let is_question = words.trim_end().ends_with(['?', '？']);
    let asked = question.filter(|_| is_approval || !is_question).or_else(proposal)?;
    Some(told_question(ending, asked, !is_approval)).filter(|asked| !asked.is_empty())
}

/// Returns the choice that the agent offered last, where the user asks something else instead: it waits for an answer.
pub(super) fn left_open(thread: &Thread, at: usize, words: &str) -> Option<String> {
    if words.len() > ASKED_BYTES_MAX || !words.trim_end().ends_with(['?', '？']) || approval(words).is_some() {
        return None;
    }
    let before = said_before(thread, at)?.text();
    let ending = &before[before.ceil_char_boundary(before.len().saturating_sub(ENDING_BYTES_MAX))..];
    let asked = sentences(ending).last().filter(|asked| asked.ends_with(['?', '？', '؟']) && offers_choice(asked))?;
    Some(told_question(ending, asked, true))
}

/// Returns a question of the agent in one line, with what it is about where it does not say so itself.
fn told_question(ending: &str, asked: &str, may_choose: bool) -> String {
    let bare = asked.trim_start_matches(MARKS).trim_end_matches('*');
    let asked = one_line(bare, QUESTION_CHARS_MAX);
    let is_bare = bare.chars().count() <= BARE_QUESTION_CHARS_MAX;
    let subject = if is_bare { subject(ending, bare, may_choose || offers_choice(bare)) } else { None };
    subject.map_or(asked.clone(), |subject| format!("{subject} {asked}"))
}

/// Stands before an item, a heading or a quotation.
const MARKS: [char; 5] = ['#', '*', '-', '>', ' '];

/// Returns what a question is about that does not say it: the question before it, the options where there is a choice, else the words
/// right before it.
fn subject(text: &str, question: &str, is_choice: bool) -> Option<String> {
    let before = &text[..text.rfind(question)?];
    if let Some(asked) = sentences(before).filter(|sentence| sentence.ends_with(['?', '？', '؟'])).last() {
        return Some(one_line(&unmarked(asked), QUESTION_CHARS_MAX));
    }
    let options = if is_choice { options(before) } else { Vec::new() };
    let heads = options.iter().filter_map(|option| before[option.clone()].lines().next());
    let heads: Vec<String> = heads.map(|line| one_line(&unmarked(line), OPTION_HEAD_CHARS_MAX)).collect();
    if heads.len() > 1 {
        return Some(one_line(&heads.join("; "), OPTION_CHARS_MAX));
    }
    let words = unmarked(sentences(before).last()?);
    Some(one_line(&words, BEFORE_QUESTION_CHARS_MAX)).filter(|words| !words.is_empty())
}

/// Returns words without the marks of a list, a heading or bold type around them.
fn unmarked(words: &str) -> String {
    words.trim_matches(MARKS).replace("**", "")
}

/// The head of an option is shown with at most so many characters.
const OPTION_HEAD_CHARS_MAX: usize = 80;

/// Returns the message in which the agent offered what the user's message at a place chooses from, with the byte ranges of the
/// options that were not chosen.
pub(super) fn unchosen(thread: &Thread, at: usize) -> Option<(usize, Vec<Range<usize>>)> {
    let words = thread.message(at).own_text();
    if words.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let offer = said_before(thread, at)?;
    let text = offer.texts().find(|text| !text.trim().is_empty())?;
    let options = options(text);
    let chosen = chosen(text, &options, &words)?;
    let offered_at = (0..at).rev().find(|place| thread.message(*place).log_place() == offer.log_place())?;
    let others = options.into_iter().enumerate().filter(|(at, _)| *at != chosen).map(|(_, option)| option);
    Some((offered_at, others.collect()))
}

/// Returns the option that an answer chooses, by its mark ("2", "B)") or by its title ("keep it local!").
fn chosen(text: &str, options: &[Range<usize>], words: &str) -> Option<usize> {
    if let Some(choice) = choice(words) {
        return options.iter().rposition(|option| names(&text[option.clone()], &choice));
    }
    let words = words.to_lowercase();
    let is_named = |option: &Range<usize>| {
        let title = option_title(&text[option.clone()]).to_lowercase();
        title.contains(' ') && title.len() >= TITLE_BYTES_MIN && words.contains(&title)
    };
    let mut named = (0..options.len()).filter(|at| is_named(&options[*at]));
    named.next().filter(|_| named.next().is_none())
}

/// A shorter title stands in many answers that choose nothing.
const TITLE_BYTES_MIN: usize = 8;

/// Returns the title of an option: its first words, in bold type or up to the first sign.
fn option_title(option: &str) -> &str {
    let rest = option.trim().trim_start_matches(|c: char| MARKS.contains(&c) || c == '|' || c == '(' || c == '[');
    let words = rest.split_once(['.', ')', ']', ':']).map_or(rest, |(_, words)| words);
    let words = words.trim_start_matches(MARKS);
    words.split(['*', '(', ':', '.', ',', '—', '–', '\n']).next().unwrap_or_default().trim()
}

/// Returns the agent's last words before a message, up to the user's message before it.
fn said_before(thread: &Thread, at: usize) -> Option<&Message> {
    let before = (0..at).rev().map(|place| thread.message(place));
    let mut turn = before.take_while(|message: &&Message| !message.opens_turn() && !message.is_summary());
    turn.find(|message| message.role() == Role::Assistant && message.texts().any(|text| !text.trim().is_empty()))
}

/// Returns the options that a text lists, each from its mark up to the next one, a heading, or the end of its paragraphs: `2.`, `2)`,
/// `**B)**`, `Option 2:`, `| **A. …`. Indented lines and code belong to the option above them.
fn options(text: &str) -> Vec<Range<usize>> {
    let mut options: Vec<Range<usize>> = Vec::new();
    let (mut start, mut is_open, mut in_code, mut is_after_gap) = (0, false, false, false);
    for line in text.split_inclusive('\n') {
        let (from, bare) = (start, line.trim());
        start += line.len();
        let is_fence = bare.starts_with("```");
        let is_listed = !in_code && option_mark(bare).is_some() && !line.starts_with("   ");
        if is_listed {
            (is_open, is_after_gap) = (true, false);
            options.push(from..start);
        } else if is_open {
            let belongs = in_code || is_fence || line.starts_with(' ') || bare.starts_with(['-', '*', '|']);
            // A paragraph may follow a title; what comes after that is about all options.
            let is_title = |option: &str| option.trim().lines().count() == 1 && option.trim().starts_with(['#', '*']);
            let is_below_title = options.last().is_some_and(|option| is_title(&text[option.clone()]));
            is_open = bare.is_empty() || belongs || !is_after_gap || is_below_title && !bare.starts_with('#');
            if is_open && !bare.is_empty() {
                options.last_mut().into_iter().for_each(|option| option.end = start);
            }
            is_after_gap = bare.is_empty() || is_after_gap && belongs;
        }
        in_code ^= is_fence;
    }
    options
}

/// Returns what an option is called, in lower case: `2`, `b`.
fn option_mark(line: &str) -> Option<String> {
    let line = line.trim_start_matches(['#', '*', '-', '|', '(', '[', ' ']).to_lowercase();
    let named = line.strip_prefix("option ");
    let rest = named.unwrap_or(&line);
    let mark: String = rest.chars().take_while(char::is_ascii_alphanumeric).take(3).collect();
    let is_number = mark.bytes().all(|byte| byte.is_ascii_digit());
    let is_mark = mark.len() == 1 || mark.len() == 2 && is_number;
    let ends =
        rest[mark.len()..].starts_with(['.', ')', ']', '*']) || named.is_some() && rest[mark.len()..].starts_with(':');
    (is_mark && ends).then_some(mark)
}

/// Tells whether an option is called so.
fn names(option: &str, choice: &str) -> bool {
    option_mark(option.trim()).is_some_and(|mark| mark == choice)
}

#[cfg(test)]
mod tests {
    use super::{answered, left_open, options, unchosen};
    use crate::summary::testing;

    #[test]
    fn a_short_answer_is_told_with_what_it_answers() {
        let offer = "Three ways:\\n\\n**Option 1: Errors**\\nHandle them at each call site.\\n\\n**Option 2: Types**\\nValidate once, when JSON is read.\\n```go\\nfunc (id *ID) UnmarshalJSON()\\n```\\n\\n**Option 3: Panics**\\nKeep them.\\n\\nWhich approach?";
        let cases = [
            (offer, "let's try 2", Some("Option 2: Types Validate once, when JSON is read.")),
            (
                offer,
                "let's keep it simple for now",
                Some("Option 1: Errors; Option 2: Types; Option 3: Panics Which approach?"),
            ),
            ("1. keep it\\n2. drop it\\n\\nBoth are safe. Which one?", "2.", Some("2. drop it")),
            ("The lock file is stale. Remove it?", "yes", Some("The lock file is stale. Remove it?")),
            (
                "Shall I remove the lock file that the old process left?",
                "yes",
                Some("Shall I remove the lock file that the old process left?"),
            ),
            (
                "The folder is ignored. Would you like me to:\\n1. **Keep it local** (as it is now)\\n2. **Move it** elsewhere\\n3. **Force-add it** despite that",
                "intentional - keep it local! go on",
                Some("1. Keep it local (as it is now)"),
            ),
            ("1. Keep it local\\n2. Move it elsewhere", "either keep it local or move it elsewhere", None),
            ("Done.", "now add a test for the empty cart", None),
        ];
        for (said, words, expected) in cases {
            let thread = testing::thread(&format!("user: go\nassistant: {said}\nuser: {words}"));
            let told = answered(&thread, 2, words);
            match expected {
                Some(expected) => {
                    assert!(told.as_deref().is_some_and(|told| told.starts_with(expected)), "{words}: {told:?}");
                }
                None => assert_eq!(told, None, "{words}"),
            }
        }
    }

    #[test]
    fn a_choice_that_the_user_did_not_make_is_left_open() {
        let offer = "- **Revert fully:** go back\\n- **Keep it:** the reason was wrong\\n\\nWhich do you prefer?";
        let cases = [
            (offer, "a quick question first: what would explain the three commits?", Some("Which do you prefer?")),
            (offer, "keep it", None),
            ("All green. Want me to push?", "what about the docs?", None),
        ];
        for (said, words, expected) in cases {
            let thread = testing::thread(&format!("user: go\nassistant: {said}\nuser: {words}"));
            let told = left_open(&thread, 2, words);
            assert_eq!(told.is_some(), expected.is_some(), "{words}: {told:?}");
            assert!(told.unwrap_or_default().ends_with(expected.unwrap_or_default()), "{words}");
        }
    }

    #[test]
    fn options_end_where_the_next_one_or_the_talk_about_all_begins() {
        let cases = [
            ("1. a\n2. b\n\nWhich?", vec!["1. a\n", "2. b\n"]),
            (
                "### A. Now\nIt is cheap.\n\n### B. Later\nIt is safe.\n\nI would take A.",
                vec!["### A. Now\nIt is cheap.\n", "### B. Later\nIt is safe.\n"],
            ),
            ("1) a\n   - more of a\n\n2) b", vec!["1) a\n   - more of a\n", "2) b"]),
            ("No list here.", vec![]),
        ];
        for (text, expected) in cases {
            let found: Vec<&str> = options(text).into_iter().map(|option| &text[option]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_was_not_chosen_is_known() {
        let thread = testing::thread("user: go\nassistant: 1. keep it\\n2. drop it\\n3. ask\nuser: 2");
        let (offered, others) = unchosen(&thread, 2).unwrap();
        let text = thread.message(offered).text();
        let others: Vec<&str> = others.into_iter().map(|option| text[option].trim()).collect();
        assert_eq!(others, ["1. keep it", "3. ask"]);
    }
}
