//! What answers and refusals teach of a model: how large its window is and how its counts compare with ours.
//!
//! A lesson is about one model at one upstream, and one tenant's requests teach only that tenant. A window passes through
//! three states:
//!
//! ```text
//! listed ──(an error names a limit)──► suspected ──(a compacted prompt is accepted)──► seen to hold ──► learned
//!    ▲                                    │ in that thread alone                        │ a listed window: in two threads
//!    └────────────(after seven days, when a larger prompt is accepted, by a reset)───────────────────────────┘
//! ```
//!
//! An error text may repeat a caller's words, so one error never changes what other conversations are sent. Plain data
//! that can be stored and sent; it learns numbers only, never what was said.

use std::time::Duration;

use epitome::budget::{CountFactor, Known, Model, Overflow, Tokens};
use serde::{Deserialize, Serialize};

use super::{ModelError, Usage};
use crate::ids::{Moment, TenantId, ThreadId};

/// The smallest window that is learned.
pub const LEARNED_WINDOW_MIN: Tokens = Tokens::new(1024);
/// The lifetime of a learned window, and of the evidence for one.
pub const LEARNED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// The most models that are remembered for a tenant.
pub const LESSONS_MAX: usize = 64;
/// The longest name of a model or an upstream that is remembered.
const NAME_BYTES_MAX: usize = 300;
/// In how many threads a limit has to hold before it lowers a window that is listed or configured.
const THREADS_FOR_LISTED: usize = 2;
/// The most limits of one model that are remembered before one of them is learned.
const EVIDENCE_MAX: usize = 8;
/// The ratio of a provider's count to ours within which both may be of the same prompt.
const SAME_PROMPT: std::ops::RangeInclusive<f64> = 0.25..=4.0;
/// A prompt of which we count less than this share of a limit was not refused for that limit.
const COUNTED_SHARE_MIN: f64 = 0.5;
/// A factor that changed by less is not worth a write.
const FACTOR_CHANGE_MIN: f64 = 0.02;

/// A model as one tenant reaches it. What is learned is learned of this, and of nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServedModel {
    /// Whose requests they are.
    pub tenant: TenantId,
    /// The address of whoever serves it; empty where the caller names none.
    pub upstream: String,
    /// Its name there.
    pub model: String,
}

impl ServedModel {
    /// A model that a tenant reaches at an upstream.
    pub fn new(tenant: TenantId, upstream: impl Into<String>, model: impl Into<String>) -> Self {
        ServedModel { tenant, upstream: upstream.into(), model: model.into() }
    }
}

/// A window that a provider was seen to enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedWindow {
    /// Input and output together.
    pub tokens: Tokens,
    /// When it was learned.
    pub at: Moment,
    /// The moment from which it is not believed.
    pub until: Moment,
}

/// A limit that held in a thread: a prompt above it was refused, and one within it was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeldLimit {
    limit: Tokens,
    thread: ThreadId,
    at: Moment,
}

/// The lesson about one model at one upstream: how the provider counts, and the window that it enforces.
///
/// The factor moves with every answer and refusal that names a size. The window is slower to change, because an error text
/// may repeat a caller's words: [`ModelLesson::hold`] collects limits that a refusal named and that an accepted prompt then
/// kept, and one of them becomes the window when it held in one thread, or in two where the model's window is listed or
/// configured. An answer to a larger prompt removes it at once, and it expires after seven days. A window that is learned
/// too small compacts every prompt of the tenant for nothing, so that each way back is cheaper than the way in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelLesson {
    /// The address of whoever serves it.
    pub upstream: String,
    /// Its name there.
    pub model: String,
    /// The provider's count divided by ours.
    pub factor: Option<CountFactor>,
    /// Its window; possibly an expired one.
    pub window: Option<LearnedWindow>,
    #[serde(default)]
    held: Vec<HeldLimit>,
    /// When it was last changed.
    pub changed: Moment,
}

/// The lessons of one tenant's requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LessonBook {
    lessons: Vec<ModelLesson>,
}

/// The limit that a refusal names, if the refusal is the provider's own word on a prompt of this size.
pub fn believable_limit(counted: Tokens, error: &ModelError) -> Option<Tokens> {
    let ModelError::Overflow { status, overflow, quoted: false, .. } = error else { return None };
    let limit = overflow.limit().filter(|limit| *status >= 400 && *limit >= LEARNED_WINDOW_MIN)?;
    let is_same_prompt = |theirs: Tokens| SAME_PROMPT.contains(&(theirs.get() as f64 / counted.get().max(1) as f64));
    let is_consistent = match *overflow {
        Overflow::InputTooLong { used: Some(used), .. } => used > limit && is_same_prompt(used),
        Overflow::InputTooLong { used: None, .. } => counted > limit.share(COUNTED_SHARE_MIN),
        Overflow::OutputBudget { input, max_tokens, .. } => input + max_tokens > limit && is_same_prompt(input),
        _ => false,
    };
    is_consistent.then_some(limit)
}

/// The size of the prompt that a refusal names, if it is the provider's own word.
fn believable_size(error: &ModelError) -> Option<Tokens> {
    match error {
        ModelError::Overflow { overflow: Overflow::InputTooLong { used, .. }, quoted: false, .. } => *used,
        ModelError::Overflow { overflow: Overflow::OutputBudget { input, .. }, quoted: false, .. } => Some(*input),
        _ => None,
    }
}

impl ModelLesson {
    fn new(served: &ServedModel, now: Moment) -> Self {
        let ServedModel { upstream, model, .. } = served.clone();
        ModelLesson { upstream, model, factor: None, window: None, held: Vec::new(), changed: now }
    }

    fn is_of(&self, served: &ServedModel) -> bool {
        self.model == served.model && self.upstream == served.upstream
    }

    /// Its window, while that is believed.
    pub fn window_at(&self, now: Moment) -> Option<LearnedWindow> {
        self.window.filter(|window| now < window.until)
    }

    /// Tells whether it has anything left to teach.
    fn is_empty(&self) -> bool {
        self.factor.is_none() && self.window.is_none() && self.held.is_empty()
    }

    /// Learns from a refusal how the provider counts.
    pub fn refuse(&mut self, counted: Tokens, error: &ModelError) {
        self.factor = CountFactor::learn(self.factor, counted, believable_size(error));
    }

    /// Learns from the usage of an answer, given what the prompt was counted as here, before any correction. A prompt that
    /// is larger than the learned window shows that this is not the window any more.
    pub fn accept(&mut self, counted: Tokens, usage: &Usage) {
        let used = Tokens::new(usage.input);
        self.factor = CountFactor::learn(self.factor, counted, Some(used).filter(|used| *used > Tokens::ZERO));
        if self.window.is_some_and(|window| used > window.tokens) {
            self.window = None;
        }
        self.held.retain(|held| used <= held.limit);
    }

    /// Learns that a limit held in a thread. A window that is listed or configured needs a second thread to say so.
    pub fn hold(&mut self, limit: Tokens, thread: &ThreadId, is_configured: bool, now: Moment) {
        self.held.retain(|held| now < held.at.after(LEARNED_FOR) && held.thread != *thread);
        if self.held.len() >= EVIDENCE_MAX {
            self.held.remove(0);
        }
        self.held.push(HeldLimit { limit, thread: thread.clone(), at: now });
        let is_listed = is_configured || matches!(Model::named(&self.model).known, Known::As(_));
        let needed = if is_listed { THREADS_FOR_LISTED } else { 1 };
        if self.held.iter().filter(|held| held.limit == limit).count() >= needed {
            self.window = Some(LearnedWindow { tokens: limit, at: now, until: now.after(LEARNED_FOR) });
            self.held.clear();
        }
    }

    /// Tells whether the difference is worth a write.
    fn is_worth_a_write(&self, stored: Option<&ModelLesson>) -> bool {
        let Some(stored) = stored else { return !self.is_empty() };
        let factor = |lesson: &ModelLesson| lesson.factor.map_or(0.0, CountFactor::get);
        let moved = (factor(self) - factor(stored)).abs() > FACTOR_CHANGE_MIN;
        moved || self.window != stored.window || self.held != stored.held
    }
}

impl LessonBook {
    /// Returns the lesson about a model.
    pub fn of(&self, served: &ServedModel) -> Option<&ModelLesson> {
        self.lessons.iter().find(|lesson| lesson.is_of(served))
    }

    /// All of it.
    pub fn iter(&self) -> impl Iterator<Item = &ModelLesson> {
        self.lessons.iter()
    }

    /// Changes what is learned of a model. Names that nobody would give a model are not remembered.
    pub fn change(&mut self, served: &ServedModel, now: Moment, lesson: impl FnOnce(&mut ModelLesson)) {
        if served.model.is_empty() || served.model.len().max(served.upstream.len()) > NAME_BYTES_MAX {
            return;
        }
        let at = self.lessons.iter().position(|lesson| lesson.is_of(served));
        let mut changed = at.map_or_else(|| ModelLesson::new(served, now), |at| self.lessons.remove(at));
        let before = changed.clone();
        lesson(&mut changed);
        if changed != before {
            changed.changed = now;
        }
        if !changed.is_empty() {
            // The oldest that knows no window goes first, and then the oldest.
            while self.lessons.len() >= LESSONS_MAX {
                let first = self.lessons.iter().position(|lesson| lesson.window_at(now).is_none());
                self.lessons.remove(first.unwrap_or(0));
            }
            self.lessons.push(changed);
        }
    }

    /// Forgets what is learned of the models with this name, of this upstream; of all where none is given.
    pub fn forget(&mut self, model: Option<&str>, upstream: Option<&str>) -> Vec<ModelLesson> {
        let is_meant = |lesson: &ModelLesson| {
            model.is_none_or(|model| model == lesson.model)
                && upstream.is_none_or(|upstream| upstream == lesson.upstream)
        };
        let (forgotten, kept) = std::mem::take(&mut self.lessons).into_iter().partition(is_meant);
        self.lessons = kept;
        forgotten
    }

    /// Tells whether it differs so much from what is stored that it should be stored too.
    pub fn is_worth_a_write(&self, stored: &LessonBook) -> bool {
        let stored_of = |lesson: &ModelLesson| {
            stored.lessons.iter().find(|stored| stored.model == lesson.model && stored.upstream == lesson.upstream)
        };
        self.lessons.len() != stored.lessons.len()
            || self.lessons.iter().any(|lesson| lesson.is_worth_a_write(stored_of(lesson)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment(1_000_000);

    fn served(model: &str) -> ServedModel {
        ServedModel::new(TenantId::local(), "http://127.0.0.1:4010", model)
    }

    fn thread(name: &str) -> ThreadId {
        name.parse().unwrap()
    }

    fn overflow(overflow: Overflow) -> ModelError {
        ModelError::Overflow { status: 400, overflow, message: String::new(), quoted: false }
    }

    fn too_long(used: Option<u64>, limit: u64) -> ModelError {
        overflow(Overflow::InputTooLong { used: used.map(Tokens::new), limit: Some(Tokens::new(limit)) })
    }

    fn held(book: &mut LessonBook, model: &str, limit: u64, name: &str, now: Moment) {
        book.change(&served(model), now, |lesson| lesson.hold(Tokens::new(limit), &thread(name), false, now));
    }

    fn window(book: &LessonBook, model: &str, now: Moment) -> Option<u64> {
        Some(book.of(&served(model))?.window_at(now)?.tokens.get())
    }

    #[test]
    fn a_window_that_nobody_listed_is_learned_when_it_was_seen_to_hold() {
        let mut book = LessonBook::default();
        held(&mut book, "local-1", 4096, "a", NOW);
        assert_eq!(window(&book, "local-1", NOW), Some(4096));
    }

    #[test]
    fn a_listed_window_is_lowered_by_two_threads_and_not_by_one() {
        let mut book = LessonBook::default();
        held(&mut book, "gpt-4o", 32_000, "a", NOW);
        held(&mut book, "gpt-4o", 32_000, "a", NOW);
        assert_eq!(window(&book, "gpt-4o", NOW), None, "one thread");
        held(&mut book, "gpt-4o", 31_000, "b", NOW);
        assert_eq!(window(&book, "gpt-4o", NOW), None, "two threads, two limits");
        held(&mut book, "gpt-4o", 32_000, "c", NOW);
        assert_eq!(window(&book, "gpt-4o", NOW), Some(32_000));
    }

    #[test]
    fn a_learned_window_expires_and_so_does_what_points_to_one() {
        let mut book = LessonBook::default();
        held(&mut book, "local-1", 4096, "a", NOW);
        let later = NOW.after(LEARNED_FOR);
        assert_eq!(window(&book, "local-1", Moment(later.0 - 1)), Some(4096));
        assert_eq!(window(&book, "local-1", later), None);
        held(&mut book, "gpt-4o", 32_000, "a", NOW);
        held(&mut book, "gpt-4o", 32_000, "b", later);
        assert_eq!(window(&book, "gpt-4o", later), None, "the first is too old");
    }

    #[test]
    fn a_larger_prompt_that_is_accepted_ends_a_learned_window() {
        let mut book = LessonBook::default();
        held(&mut book, "local-1", 4096, "a", NOW);
        let accept = |book: &mut LessonBook, input| {
            let usage = Usage { input, ..Usage::default() };
            book.change(&served("local-1"), NOW, |lesson| lesson.accept(Tokens::new(input), &usage));
        };
        accept(&mut book, 4096);
        assert_eq!(window(&book, "local-1", NOW), Some(4096));
        accept(&mut book, 4097);
        assert_eq!(window(&book, "local-1", NOW), None);
    }

    #[test]
    fn only_a_plain_error_about_a_prompt_of_this_size_names_a_limit() {
        let limit = |counted, error: &ModelError| believable_limit(Tokens::new(counted), error).map(Tokens::get);
        assert_eq!(limit(3225, &too_long(Some(4031), 2048)), Some(2048));
        assert_eq!(limit(3225, &too_long(None, 2048)), Some(2048));
        let output = |input, max_tokens, limit| {
            let [input, max_tokens, limit] = [input, max_tokens, limit].map(Tokens::new);
            overflow(Overflow::OutputBudget { input, max_tokens, limit })
        };
        assert_eq!(limit(1900, &output(1900, 500, 2048)), Some(2048));
        assert_eq!(limit(1900, &output(1000, 500, 2048)), None, "it fits");
        assert_eq!(limit(3225, &too_long(Some(2000), 2048)), None, "it is within the limit");
        assert_eq!(limit(300, &too_long(Some(4031), 2048)), None, "that is another prompt");
        assert_eq!(limit(1000, &too_long(None, 2048)), None, "we count far less");
        assert_eq!(limit(3225, &too_long(Some(4031), 1023)), None, "nobody has so small a window");
        let odd = |status, quoted| {
            let said = Overflow::InputTooLong { used: None, limit: Some(Tokens::new(2048)) };
            ModelError::Overflow { status, overflow: said, message: String::new(), quoted }
        };
        assert_eq!(limit(3225, &odd(200, false)), None, "that is no error");
        assert_eq!(limit(3225, &odd(400, true)), None, "those are somebody else's words");
        assert_eq!(limit(3225, &ModelError::Refused(400, "2048 tokens".into())), None);
    }

    #[test]
    fn made_up_names_do_not_grow_it_without_bound_nor_drive_windows_out() {
        let mut book = LessonBook::default();
        held(&mut book, "local-1", 4096, "a", NOW);
        let usage = Usage { input: 130, ..Usage::default() };
        for at in 0..10 * LESSONS_MAX {
            book.change(&served(&format!("made-up-{at}")), NOW, |lesson| lesson.accept(Tokens::new(100), &usage));
        }
        book.change(&served(&"x".repeat(400)), NOW, |lesson| lesson.accept(Tokens::new(100), &usage));
        assert_eq!(book.iter().count(), LESSONS_MAX);
        assert_eq!(window(&book, "local-1", NOW), Some(4096));
    }

    #[test]
    fn what_tells_no_sizes_teaches_nothing() {
        let mut book = LessonBook::default();
        book.change(&served("m"), NOW, |lesson| {
            lesson.refuse(Tokens::new(10), &ModelError::Refused(400, "2048 tokens".into()));
            lesson.refuse(Tokens::new(10), &overflow(Overflow::InputTooLong { used: None, limit: None }));
            lesson.accept(Tokens::new(10), &Usage::default());
            lesson.accept(Tokens::ZERO, &Usage { input: 10, ..Usage::default() });
        });
        assert_eq!(book, LessonBook::default());
    }

    #[test]
    fn what_is_learned_survives_being_stored() {
        let mut book = LessonBook::default();
        held(&mut book, "gpt-4o", 32_000, "a", NOW);
        held(&mut book, "local-1", 4096, "a", NOW);
        book.change(&served("local-1"), NOW, |lesson| lesson.refuse(Tokens::new(3225), &too_long(Some(4031), 2048)));
        assert!((book.of(&served("local-1")).unwrap().factor.unwrap().get() - 1.25).abs() < 0.001);
        let stored = serde_json::to_string(&book).unwrap();
        assert_eq!(serde_json::from_str::<LessonBook>(&stored).unwrap(), book);
        assert!(!book.is_worth_a_write(&book));
        assert_eq!(book.forget(Some("gpt-4o"), None).len(), 1);
        assert_eq!(book.forget(None, Some("http://127.0.0.1:1")).len(), 0);
        assert_eq!(book.forget(None, Some("http://127.0.0.1:4010")).len(), 1);
    }
}
