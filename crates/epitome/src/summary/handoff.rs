//! A handoff: a summary for a new thread with a goal, which takes along what the goal needs and nothing else.

use super::passages::Passages;
use super::pending::SummaryContext;

/// A word that stands in more of the passages than this says nothing about a goal.
const COMMON_SHARE: f64 = 0.4;
const GOAL_WORD_CHARS_MIN: usize = 4;

/// Tells whether the summary is for a new thread, and nothing else of the old one goes along.
pub(super) fn is_handoff(pending: &SummaryContext<'_>) -> bool {
    pending.policy.is_handoff() && !pending.order.focus.trim().is_empty()
}

/// Drops the passages that share no word with a goal; all stay where none does.
pub(super) fn keep_about(passages: &mut Passages<'_>, goal: &str) {
    let goal = goal.to_lowercase();
    let words = goal
        .split(|c: char| !(c.is_alphanumeric() || "_./-".contains(c)))
        .map(|word| word.trim_matches(['.', '/', '-']));
    let is_long = |word: &&str| word.chars().count() >= GOAL_WORD_CHARS_MIN || !word.is_ascii() && !word.is_empty();
    let texts: Vec<String> = passages
        .passages
        .iter()
        .map(|passage| format!("{}\n{}", passages.sources[passage.source].label, passage.text).to_lowercase())
        .collect();
    let most = (texts.len() as f64 * COMMON_SHARE) as usize;
    let is_rare = |word: &&str| texts.iter().filter(|text| text.contains(word)).count() <= most;
    let words: Vec<&str> = words.filter(is_long).filter(is_rare).collect();
    let is_about: Vec<bool> = texts.iter().map(|text| words.iter().any(|word| text.contains(word))).collect();
    if is_about.contains(&true) {
        let mut is_about = is_about.into_iter();
        passages.passages.retain(|_| is_about.next().unwrap_or(true));
    }
}
