//! Rehydration: content that was moved out comes back into one prompt when it is called for.
//!
//! It is called for by its id in what was said or in a call's arguments, or by a question that names what it is. What
//! comes back is written into one prompt and never into the thread; it lives on its own reserve, it is cut to its limit,
//! it is left out for some turns after it came, and nothing is moved out or dropped in a turn in which it came.

use std::collections::{BTreeMap, BTreeSet};

use epitome::budget::{TokenCounter, Tokens, truncate};
use epitome::policy::RehydrateRules;
use epitome::render::Rehydrated;
use epitome::thread::{Role, Thread};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::log::ArtifactHint;

/// The tool that reads an artifact on purpose.
pub const READ_ARTIFACT: &str = "read_artifact";
/// The tool that searches what left the prompt.
pub const RECALL: &str = "recall";

/// Less of an artifact says nothing.
const WORTH_BRINGING: Tokens = Tokens::new(64);
/// Names shorter than this are in too many questions.
const NAME_CHARS_MIN: usize = 5;
/// Strings longer than this are content, not names.
const NAME_CHARS_MAX: usize = 200;
/// The most names of one artifact.
const NAMES_MAX: usize = 8;

/// The rehydration state of the current turn, kept in the store with its thread.
///
/// ```text
/// turn 5   the question names src/a.rs ──► note(a): a is in every prompt of turn 5; nothing is moved out or dropped in it
/// turn 6   enter(6): the turn's lists are empty, `recent` has a at 5; a cools down and does not come back (cooldown 2)
/// turn 7   enter(7): a left `recent`; it may come back
/// ```
///
/// Without the cooldown an artifact would come back and be moved out again in turns, and each change rewrites the prefix
/// that the provider has cached. Without the pause for rungs, content that just came back would leave in the same step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RehydrationContext {
    /// Its number.
    pub turn_number: u32,
    /// True if content came back in this turn.
    pub rehydration_happened: bool,
    /// The tokens that came back.
    pub rehydrated_tokens: u64,
    /// The artifacts that came back.
    pub rehydrated_artifact_ids: Vec<String>,
    /// The tokens of each of them.
    pub rehydrated_each: BTreeMap<String, u64>,
    /// The turn in which each artifact last came back automatically.
    pub recent: BTreeMap<String, u32>,
}

impl RehydrationContext {
    /// Tells whether nothing shall be moved out or dropped in this turn.
    pub fn should_skip_aggressive_compaction(&self) -> bool {
        self.rehydration_happened
    }

    /// Begins a turn, unless it is this one already.
    pub fn enter(&mut self, turn: u32, cooldown: u32) {
        if turn != self.turn_number {
            self.turn_number = turn;
            self.rehydration_happened = false;
            self.rehydrated_tokens = 0;
            self.rehydrated_artifact_ids.clear();
            self.rehydrated_each.clear();
            self.recent.retain(|_, then| turn.saturating_sub(*then) < cooldown);
        }
    }

    /// Tells whether an artifact came back too short a while ago. One that came in this very turn stays for all of it.
    pub fn is_cooling(&self, id: &str, cooldown: u32) -> bool {
        let is_here = self.rehydrated_artifact_ids.iter().any(|here| here == id);
        !is_here && self.recent.get(id).is_some_and(|then| self.turn_number.saturating_sub(*then) < cooldown)
    }

    /// Returns the tokens of an artifact that came back in this turn.
    pub fn tokens_of(&self, id: &str) -> Tokens {
        Tokens::new(self.rehydrated_each.get(id).copied().unwrap_or_default())
    }

    /// Notes what came back.
    pub fn note(&mut self, id: &str, tokens: u64) {
        self.rehydration_happened = true;
        if !self.rehydrated_artifact_ids.iter().any(|here| here == id) {
            self.rehydrated_artifact_ids.push(id.to_owned());
            self.rehydrated_each.insert(id.to_owned(), tokens);
            self.rehydrated_tokens += tokens;
        }
        self.recent.insert(id.to_owned(), self.turn_number);
    }
}

/// The reasons for which content comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RehydrationReason {
    /// Its id stands in what was said.
    Message,
    /// Its id stands in a call's arguments.
    Arguments,
    /// A question names what it is.
    Question,
}

/// Content that is called for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledArtifact<'h> {
    /// The artifact.
    pub hint: &'h ArtifactHint,
    /// The reason.
    pub why: RehydrationReason,
}

/// Returns the artifacts that the newest messages call for, the strongest reason first, each once, without those that cool down.
pub fn called_for<'h>(
    thread: &Thread,
    hints: &'h [ArtifactHint],
    turn: &RehydrationContext,
    rules: &RehydrateRules,
) -> Vec<CalledArtifact<'h>> {
    if !rules.enabled || hints.is_empty() {
        return Vec::new();
    }
    let said = NewestWords::of(thread);
    let mut seen = BTreeSet::new();
    let mut calls = Vec::new();
    for why in [RehydrationReason::Message, RehydrationReason::Arguments, RehydrationReason::Question] {
        for hint in hints.iter().rev() {
            let fits = !hint.is_media && said.calls_for(hint, why) && !turn.is_cooling(&hint.id, rules.cooldown_turns);
            if fits && seen.insert(hint.id.as_str()) {
                calls.push(CalledArtifact { hint, why });
            }
        }
    }
    calls
}

/// The newest words: the user's, and the agent's since.
struct NewestWords {
    words: Vec<String>,
    arguments: Vec<String>,
}

impl NewestWords {
    fn of(thread: &Thread) -> NewestWords {
        let mut newest = NewestWords { words: Vec::new(), arguments: Vec::new() };
        let messages = thread.messages();
        let opening = messages.iter().rposition(|message| message.opens_turn());
        let since = &messages[opening.unwrap_or(0)..];
        let agent = since.iter().rev().find(|message| message.role() == Role::Assistant);
        let user = opening.map(|at| &messages[at]);
        newest.words.extend(agent.into_iter().chain(user).map(|message| message.text()));
        let calls = agent.into_iter().flat_map(|message| message.calls());
        let own = |name: &str| name == READ_ARTIFACT || name == RECALL;
        newest.arguments.extend(calls.filter(|call| !own(&call.name)).map(|call| call.arguments.to_string()));
        newest
    }

    fn calls_for(&self, hint: &ArtifactHint, why: RehydrationReason) -> bool {
        match why {
            RehydrationReason::Message => self.words.iter().any(|words| names(words, &hint.id)),
            RehydrationReason::Arguments => self.arguments.iter().any(|arguments| names(arguments, &hint.id)),
            RehydrationReason::Question => {
                let questions = self.words.iter().filter(|words| asks(words));
                questions.into_iter().any(|words| hint.names.iter().any(|name| names_it(words, name)))
            }
        }
    }
}

/// Tells whether a text holds a name as a whole word.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

fn names_it(text: &str, name: &str) -> bool {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let is_file = file.contains('.') && file.chars().count() >= NAME_CHARS_MIN;
    names(text, name) || is_file && names(text, file)
}

/// Tells whether a question stands in a text: a mark that ends something, not one in an address.
fn asks(text: &str) -> bool {
    text.match_indices(['?', '？', '؟']).any(|(at, mark)| {
        let after = text[at + mark.len()..].chars().next();
        after.is_none_or(|c| !c.is_alphanumeric() && !"=&/%_".contains(c))
    })
}

/// The names in a call's arguments: short strings of one line.
pub fn named_in(arguments: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(arguments) {
        strings(&value, &mut found);
    }
    found.truncate(NAMES_MAX);
    found
}

fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let chars = text.chars().count();
            let is_name = (NAME_CHARS_MIN..=NAME_CHARS_MAX).contains(&chars) && !text.contains('\n');
            if is_name && !found.contains(text) {
                found.push(text.clone());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| strings(item, found)),
        _ => {}
    }
}

/// The tokens that may come back into one prompt: of each artifact, and in total.
#[derive(Clone, Copy, Debug)]
pub struct RehydrationAllowance {
    /// The most tokens of one.
    pub each: Tokens,
    /// The tokens that are left.
    pub left: Tokens,
}

impl RehydrationAllowance {
    /// Returns what the policy allows, within the room of the prompt.
    pub fn of(rules: &RehydrateRules, room: Tokens) -> Self {
        RehydrationAllowance { each: rules.tokens_max, left: rules.total.min(room) }
    }

    /// Takes content in, cut to its limit; `None` when there is no room for it.
    pub fn take(&mut self, reference: &str, content: &str, counter: &dyn TokenCounter) -> Option<(Rehydrated, Tokens)> {
        let whole = counter.count(content);
        let most = self.each.min(self.left);
        let cut = whole > most;
        let content = if cut { truncate(counter, content, most) } else { content };
        let tokens = if cut { counter.count(content) } else { whole };
        if tokens > self.left || content.is_empty() || tokens < whole.min(WORTH_BRINGING) {
            return None;
        }
        self.left -= tokens;
        Some((Rehydrated { reference: reference.to_owned(), content: content.to_owned(), truncated: cut }, tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::{RehydrationContext, asks, named_in, names, names_it};

    #[test]
    fn a_reference_is_a_whole_word() {
        for (text, found) in [
            ("see artifact:9f86d081884c7d65.", true),
            ("read_artifact(\"9f86d081884c7d65\")", true),
            ("9f86d081884c7d65", true),
            ("x9f86d081884c7d65", false),
            ("9f86d081884c7d65f", false),
            ("9f86d081884c7d65_2", false),
            ("9f86d081884c7d6", false),
        ] {
            assert_eq!(names(text, "9f86d081884c7d65"), found, "{text}");
        }
    }

    #[test]
    fn a_question_names_a_file_by_its_path_or_its_name() {
        for (text, found) in [
            ("What does src/lib.rs say?", true),
            ("What is in lib.rs?", true),
            ("What is in mylib.rs?", false),
            ("What is in lib?", false),
        ] {
            assert_eq!(names_it(text, "src/lib.rs"), found, "{text}");
        }
        assert!(asks("Was steht in a.txt?") && asks("文件里有什么？") && !asks("Change lib.rs; then test."));
        assert!(!asks("see https://example.org/a?b=c for lib.rs") && asks("Really? Yes.") && asks("(why?)"));
    }

    #[test]
    fn names_are_the_short_strings_of_arguments() {
        let arguments =
            r#"{"path":"src/main.rs","content":"fn main() {\n}","n":3,"deep":[{"url":"https://a.b/c"}],"k":"ab"}"#;
        assert_eq!(named_in(arguments), ["src/main.rs", "https://a.b/c"]);
        assert!(named_in("not json").is_empty());
    }

    #[test]
    fn what_came_back_stays_for_its_turn_and_then_cools_down() {
        let mut turn = RehydrationContext::default();
        turn.enter(5, 2);
        turn.note("a", 100);
        turn.note("a", 100);
        assert_eq!((turn.rehydrated_tokens, turn.should_skip_aggressive_compaction()), (100, true));
        assert!(!turn.is_cooling("a", 2), "still this turn");
        turn.enter(6, 2);
        assert!(turn.is_cooling("a", 2) && !turn.is_cooling("b", 2) && !turn.should_skip_aggressive_compaction());
        turn.enter(7, 2);
        assert!(!turn.is_cooling("a", 2));
    }
}
