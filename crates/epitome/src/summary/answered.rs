//! What a short answer answers: the question or the option in the agent's message before it.
//!
//! "yes", "2" and "go ahead, but keep the old one" mean nothing alone. The agent's last question is kept with them, or the line of its
//! list that was chosen.

use super::clip::one_line;
use super::constraint::sentences;
use super::parse::SHORT_BYTES_MAX;
use super::speech::{approval, choice};
use crate::thread::{Message, Role, Thread};

/// A longer answer explains itself.
const ANSWER_BYTES_MAX: usize = 240;
/// A question is shown with at most so many characters.
const QUESTION_CHARS_MAX: usize = 200;
/// A question further from the end of the agent's message is not what is answered.
const ENDING_BYTES_MAX: usize = 1600;

/// Returns what a user's message answers; `None` where it explains itself or nothing was asked.
pub(super) fn answered(thread: &Thread, at: usize, words: &str) -> Option<String> {
    if words.len() > ANSWER_BYTES_MAX {
        return None;
    }
    let before = said_before(thread, at)?;
    if let Some(option) = choice(words).and_then(|choice| option_line(&before, &choice)) {
        return Some(one_line(option, QUESTION_CHARS_MAX));
    }
    let ending = &before[before.ceil_char_boundary(before.len().saturating_sub(ENDING_BYTES_MAX))..];
    let question = sentences(ending).filter(|sentence| sentence.ends_with(['?', '？', '؟'])).last();
    let is_approval = approval(words).is_some();
    let is_terse = words.len() <= SHORT_BYTES_MAX;
    let proposal = || ending.lines().map(str::trim).rfind(|line| !line.is_empty()).filter(|_| is_approval && is_terse);
    let is_question = words.trim_end().ends_with(['?', '？']);
    let asked = question.filter(|_| is_approval || !is_question).or_else(proposal)?;
    let asked = asked.trim_start_matches(['#', '*', '-', '>', ' ']).trim_end_matches('*');
    Some(one_line(asked, QUESTION_CHARS_MAX)).filter(|asked| !asked.is_empty())
}

/// Returns the agent's last words before a message, up to the user's message before it.
fn said_before(thread: &Thread, at: usize) -> Option<String> {
    let before = (0..at).rev().map(|place| thread.message(place));
    let mut turn = before.take_while(|message: &&Message| !message.opens_turn() && !message.is_summary());
    turn.find(|message| message.role() == Role::Assistant && message.texts().any(|text| !text.trim().is_empty()))
        .map(Message::text)
}

/// Returns the line of a list or a table that a choice names: `2.`, `2)`, `**B)**`, `Option 2:`, `| **A. …`.
fn option_line<'t>(text: &'t str, choice: &str) -> Option<&'t str> {
    let is_option = |line: &&str| {
        let line = line.trim_start_matches(['#', '*', '-', '|', '(', '[', ' ']).to_lowercase();
        let line = line.strip_prefix("option ").unwrap_or(&line);
        line.strip_prefix(choice).is_some_and(|rest| rest.starts_with(['.', ')', ':', ']', '*']))
    };
    text.lines().rfind(is_option).map(str::trim)
}
