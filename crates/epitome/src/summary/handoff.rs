//! A handoff: a summary for a new thread with a goal, which takes along what the goal needs and nothing else.
//!
//! What the goal needs is what shares its subject. Words that bind and pins go along whatever the goal; everything else that the user
//! said is named by its number, so that the new thread can read it.

use super::passages::Passages;
use super::pending::SummaryContext;
use super::structured::{RequestContext, UserRequest};

/// A word that stands in more of the texts than this says nothing about a goal.
const COMMON_SHARE: f64 = 0.4;
/// The same for a file's name without its extension.
const COMMON_STEM_SHARE: f64 = 0.15;
/// The same where texts name the file: so many times as often as they do.
const STEM_FACTOR: usize = 3;
const GOAL_WORD_CHARS_MIN: usize = 4;
/// The most messages that are named one by one.
const NUMBERS_MAX: usize = 24;

/// Tells whether the summary is for a new thread, and nothing else of the old one goes along.
pub(super) fn is_handoff(pending: &SummaryContext<'_>) -> bool {
    pending.order.hands_over
}

/// What a goal is about: its words that tell one text of the thread from another.
pub(super) struct Subject {
    words: Vec<String>,
}

impl Subject {
    /// Finds the words of a goal that some texts of the thread hold and most do not. Names, such as paths, say more than other
    /// words: where there is one, it alone counts.
    pub(super) fn of(goal: &str, passages: &Passages<'_>, requests: &[UserRequest]) -> Subject {
        let labels = passages.sources.iter().map(|source| source.label.as_str());
        let texts = passages.passages.iter().map(|passage| passage.text).chain(labels);
        let texts = texts.chain(requests.iter().map(|request| request.text.as_str()));
        let texts: Vec<String> = texts.map(str::to_lowercase).collect();
        let count = |word: &str| texts.iter().filter(|text| text.contains(word)).count();
        let most = |share: f64| ((texts.len() as f64 * share) as usize).max(1);
        let tells = |word: &str| (1..=most(COMMON_SHARE)).contains(&count(word));
        let words: Vec<&str> = goal
            .split(|c: char| !(c.is_alphanumeric() || "_./-".contains(c)))
            .map(|word| word.trim_matches(['.', '/', '-']))
            .collect();
        let mut names = Vec::new();
        for word in words.iter().filter(|word| is_name(word)) {
            let file = word.rsplit('/').next().unwrap_or(word).to_lowercase();
            let stem = file.rsplit_once('.').map_or("", |(stem, _)| stem).to_owned();
            // A text may name a file without its extension; of some files, such as `main.rs`, that is a word of every other text.
            let stem_most = most(COMMON_STEM_SHARE).max(STEM_FACTOR * count(&file));
            let is_told = !stem.is_empty() && tells(&stem) && count(&stem) <= stem_most;
            names.extend(Some(stem).filter(|_| is_told));
            names.extend(Some(file).filter(|file| tells(file)));
        }
        if !names.is_empty() {
            return Subject { words: names };
        }
        let is_long =
            |word: &&&str| word.chars().count() >= GOAL_WORD_CHARS_MIN || !word.is_ascii() && !word.is_empty();
        // A goal begins with what is to be done, in most languages: "Write", "Schreibe". That is no subject.
        let subjects = words.iter().skip(usize::from(words.len() > 1));
        Subject { words: subjects.filter(is_long).map(|word| word.to_lowercase()).filter(|word| tells(word)).collect() }
    }

    /// Tells whether a text shares the subject. A goal without a subject in the thread may need all of it.
    pub(super) fn covers(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.words.is_empty() || self.words.iter().any(|word| text.contains(word))
    }

    /// Tells whether words of the user share it, or what they answer does.
    pub(super) fn covers_request(&self, request: &UserRequest) -> bool {
        let about = match &request.context {
            Some(
                RequestContext::Answers(words) | RequestContext::LeavesOpen(words) | RequestContext::Rejects(words),
            ) => words.as_str(),
            Some(RequestContext::Retold) | None => "",
        };
        self.covers(&request.text) || self.covers(about)
    }

    /// Drops the passages that do not share it.
    pub(super) fn keep_about(&self, passages: &mut Passages<'_>) {
        let Passages { passages, sources, .. } = passages;
        passages.retain(|passage| self.covers(passage.text) || self.covers(&sources[passage.source].label));
    }
}

/// Tells whether a word is a name: a path, a file, an identifier.
fn is_name(word: &str) -> bool {
    word.contains(['_', '/', '.'])
        || word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase)
}

/// Names the user's words that do not go along, so that they can be read: `Not about this goal, and left out: m3, m9.`
pub(super) fn left_out_line(places: &[usize]) -> Option<String> {
    let named = &places[places.len().saturating_sub(NUMBERS_MAX)..];
    let numbers: Vec<String> = named.iter().map(|place| format!("m{}", place + 1)).collect();
    let earlier = if named.len() < places.len() { " and earlier ones" } else { "" };
    (!numbers.is_empty()).then(|| format!("Said as well, and left out here: {}{earlier}.", numbers.join(", ")))
}
