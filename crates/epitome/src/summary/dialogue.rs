//! The dialogue with a summarizer: a state machine that a caller with I/O drives.
//!
//! A transcript of 300 000 characters in chunks of 120 000, with a model that writes too much at the second question:
//!
//! ```text
//! prompt()                                              answer()
//! part 1 of 3                                       ──► Ask         a summary of part 1
//! part 2 of 3, with the summary of part 1           ──► RollUp      the summary of parts 1 and 2 is above `rollup`
//! "write it again at half its length"               ──► Refused     it is not shorter: the same prompt stands
//! "write it again at half its length"               ──► Ask         a shorter summary of parts 1 and 2
//! part 3 of 3, with that summary                    ──► Done        smaller than what it replaces
//! None                                              ──► Refused     the dialogue is over
//! ```
//!
//! Each answer replaces the one before it, since the model was shown that one and asked to revise it. Two things add up
//! instead: the user's words, which no later answer may forget unless it names the message in which the user took them back, and
//! the changes of the workstream state.
//!
//! It calls nobody, waits for nothing and counts no attempts: how often to ask again is the caller's decision, and the embedded
//! summarizer needs no answer at all.

use super::answer::{AnswerError, InventedItem, ModelProse, ProseNote, Reply, parse_answer};
use super::evidence::Evidence;
use super::request::{SummaryBrief, SummaryPrompt, SummaryRequest, turn_request};
use super::state::StateDelta;
use super::{Quote, StructuredSummary, TurnContext};
use crate::budget::{TokenCounter, Tokens};
use crate::thread::Span;

/// A dialogue with a summarizer.
///
/// It is at a chunk, at a roll-up, or over. Only [`answer`](Dialogue::answer) moves it: a good answer to the next chunk, to a
/// roll-up where the summary is too long, or to the end; a refused one not at all, so that the caller can ask again or give
/// up at any point. [`prompt`](Dialogue::prompt) is the question of the current state and may be read any number of times.
/// A roll-up is never followed by another one for the same chunk, so the dialogue ends after at most two good answers per
/// chunk.
///
/// It holds copies of everything it needs. The thread may grow meanwhile; an answer is still checked against the words of
/// the span that it was asked for.
#[derive(Clone, Debug)]
pub struct Dialogue {
    request: SummaryRequest,
    evidence: Evidence,
    span: Span,
    /// The request of the turn that the span splits.
    turn: Option<Quote>,
    /// The tokens of the messages that leave.
    replaced: Tokens,
    earlier: String,
    rollup: Tokens,
    phase: Phase,
    prose: Option<ModelProse>,
    /// The user's words that bind, by this dialogue and the rounds before it, less those that they took back.
    words: Vec<Quote>,
    /// The changes of the workstream state so far.
    delta: StateDelta,
    dropped: Vec<InventedItem>,
}

/// The question that a dialogue is at.
#[derive(Clone, Debug)]
enum Phase {
    Chunk(usize),
    /// The only question, at the end of the agent's own request.
    Appended(SummaryPrompt),
    /// A shorter summary of the chunks before this one.
    RollUp(usize),
    Over,
}

/// The effect of an answer on a dialogue.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Fine; ask this next.
    Ask(SummaryPrompt),
    /// Fine but too long; ask for a shorter one.
    RollUp(SummaryPrompt),
    /// The summary is there.
    Done(Box<ModelSummary>),
    /// The answer cannot be used. Ask again, or summarize without a model.
    Refused(AnswerError),
}

/// The result of a dialogue: the model's part of a summary, to be merged with what code extracted. Its workstream state holds the
/// entries that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSummary {
    /// The model's part.
    pub summary: StructuredSummary,
    /// Items that were removed because they quote what nobody said.
    pub dropped: Vec<InventedItem>,
}

impl Dialogue {
    /// Starts a dialogue that shows the model a transcript.
    pub fn new(brief: &SummaryBrief<'_>) -> Self {
        Dialogue {
            request: SummaryRequest::new(brief),
            evidence: Evidence::of(brief.thread, brief.span, brief.earlier),
            span: brief.span.clone(),
            turn: brief.turn_prefix.and_then(|prefix| turn_request(brief.thread, prefix)),
            replaced: brief.thread.tokens(brief.span.range()),
            earlier: brief.earlier.map(|summary| ModelProse::of(summary).to_json()).unwrap_or_default(),
            rollup: brief.limits.rollup,
            phase: Phase::Chunk(0),
            prose: None,
            words: brief.earlier.map(|summary| summary.constraints.clone()).unwrap_or_default(),
            delta: StateDelta::default(),
            dropped: Vec::new(),
        }
    }

    /// Starts a dialogue with the agent's own model, at the end of the agent's own request: one question instead of chunks.
    pub fn appended(brief: &SummaryBrief<'_>) -> Self {
        let mut dialogue = Dialogue::new(brief);
        let end = brief.span.range().end;
        let kept = brief.thread.messages().get(end).map(|message| message.text());
        dialogue.phase = Phase::Appended(dialogue.request.appended(kept.as_deref()));
        dialogue
    }

    /// Returns the request behind it: schema, limits, cache key.
    pub fn request(&self) -> &SummaryRequest {
        &self.request
    }

    /// Returns the question to ask now; `None` when the dialogue is over.
    pub fn prompt(&self) -> Option<SummaryPrompt> {
        match &self.phase {
            Phase::Chunk(chunk) => self.request.prompt(*chunk, self.prose.as_ref()),
            Phase::Appended(prompt) => Some(prompt.clone()),
            Phase::RollUp(_) => self.prose.as_ref().map(|prose| self.request.roll_up(prose)),
            Phase::Over => None,
        }
    }

    /// Takes the answer to the prompt; one that is refused changes nothing. The counter must be the one that the thread was
    /// counted with, because a summary is compared with what it replaces.
    pub fn answer(&mut self, reply: &Reply<'_>, counter: &dyn TokenCounter) -> Progress {
        match self.check(reply, counter) {
            Ok((prose, dropped)) => self.accept(prose, dropped, counter),
            Err(error) => Progress::Refused(error),
        }
    }

    fn check(
        &self,
        reply: &Reply<'_>,
        counter: &dyn TokenCounter,
    ) -> Result<(ModelProse, Vec<InventedItem>), AnswerError> {
        let replaced = match (&self.phase, &self.prose) {
            (Phase::Over, _) => return Err(AnswerError::Unasked),
            (Phase::RollUp(next), Some(long)) if *next < self.request.chunks.len() => Some(long.tokens(counter)),
            (Phase::RollUp(_), Some(long)) => Some(long.tokens(counter).min(self.tokens_replaced(counter))),
            _ => self.is_last().then(|| self.tokens_replaced(counter)),
        };
        let (prose, dropped) = parse_answer(reply)?.verify(&self.evidence)?;
        let tokens = prose.tokens(counter);
        let is_long = tokens > self.rollup && !matches!(self.phase, Phase::RollUp(_));
        match replaced {
            Some(replaced) if tokens >= replaced && !is_long => Err(AnswerError::NotSmaller { tokens, replaced }),
            _ => Ok((prose, dropped)),
        }
    }

    fn tokens_replaced(&self, counter: &dyn TokenCounter) -> Tokens {
        self.replaced + counter.count(&self.earlier)
    }

    fn is_last(&self) -> bool {
        match self.phase {
            Phase::Chunk(chunk) => chunk + 1 == self.request.chunks.len(),
            _ => true,
        }
    }

    fn accept(&mut self, mut prose: ModelProse, dropped: Vec<InventedItem>, counter: &dyn TokenCounter) -> Progress {
        self.dropped.extend(dropped);
        // An entry that leaves over a cap now would leave the state too.
        let _ = self.delta.merge(std::mem::take(&mut prose.state));
        self.keep_words(&mut prose);
        let (next, may_roll) = match self.phase {
            Phase::Chunk(chunk) => (chunk + 1, true),
            Phase::RollUp(next) => (next, false),
            Phase::Appended(_) | Phase::Over => (self.request.chunks.len(), true),
        };
        let is_long = may_roll && prose.tokens(counter) > self.rollup;
        self.prose = Some(prose);
        self.phase = if is_long {
            Phase::RollUp(next)
        } else if next < self.request.chunks.len() {
            Phase::Chunk(next)
        } else {
            Phase::Over
        };
        self.progress()
    }

    /// Notes the user's words that the answer gives and those that it tells as taken back. The answer gets all that hold, and the
    /// notes on the current turn from the answer before: no chunk may forget them.
    fn keep_words(&mut self, prose: &mut ModelProse) {
        for words in prose.user_words.iter().filter_map(|words| self.evidence.user_sentence(words)) {
            if self.words.iter().all(|known| known.text != words.text) {
                self.words.push(words);
            }
        }
        for ProseNote { text, messages } in std::mem::take(&mut prose.withdrawn) {
            self.words.retain(|words| !self.evidence.takes_back(words, &text, &messages));
        }
        prose.user_words = self.words.iter().map(|words| words.text.clone()).collect();
        if let Some(before) = self.prose.as_ref().filter(|_| prose.turn_progress.is_empty()) {
            prose.turn_progress.clone_from(&before.turn_progress);
        }
    }

    fn progress(&mut self) -> Progress {
        match (self.prompt(), &self.phase) {
            (Some(prompt), Phase::RollUp(_)) => Progress::RollUp(prompt),
            (Some(prompt), _) => Progress::Ask(prompt),
            (None, _) => Progress::Done(Box::new(self.finish())),
        }
    }

    fn finish(&mut self) -> ModelSummary {
        let mut prose = self.prose.take().unwrap_or_default();
        let notes = std::mem::take(&mut prose.turn_progress);
        let mut summary = prose.into_summary(&self.span, &self.evidence);
        summary.constraints = std::mem::take(&mut self.words);
        summary.constraints.sort_by_key(|quote| quote.place);
        let progress: Vec<Quote> = notes.into_iter().map(|note| note.into_quote(&self.evidence)).collect();
        match self.turn.take() {
            Some(request) => summary.turn_context = Some(TurnContext { request, progress }),
            // What was told of a turn that is not parted is told all the same.
            None => summary.facts.extend(progress),
        }
        let delta = std::mem::take(&mut self.delta);
        summary.workstream = (!delta.is_empty()).then_some(delta);
        ModelSummary { summary, dropped: std::mem::take(&mut self.dropped) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialogue, ModelSummary, Progress};
    use crate::budget::Tokens;
    use crate::summary::answer::{AnswerError, Finish, Reply};
    use crate::summary::request::{RequestLimits, SummaryBrief};
    use crate::summary::testing::{Fours, thread};
    use crate::thread::Thread;

    /// A thread of some turns, each long enough to be worth summarizing.
    fn long_thread(turns: usize) -> Thread {
        let lines: String = (0..turns)
            .map(|n| format!("user: Frage {n}: {}\nassistant: Antwort {n}\n", "warum denn ".repeat(60)))
            .collect();
        thread(&lines)
    }

    /// Lets a scripted model answer until the end; returns the steps as letters.
    fn drive(dialogue: &mut Dialogue, script: &[&str]) -> (String, Result<ModelSummary, AnswerError>) {
        let mut told = String::new();
        for text in script {
            assert!(dialogue.prompt().is_some(), "asked after {told}");
            match dialogue.answer(&Reply { text, finish: Finish::Stop }, &Fours) {
                Progress::Ask(prompt) => told.push_str(if dialogue.prompt() == Some(prompt) { "A" } else { "?" }),
                Progress::RollUp(prompt) => told.push_str(if dialogue.prompt() == Some(prompt) { "R" } else { "?" }),
                Progress::Done(done) => return (told + "D", Ok(*done)),
                Progress::Refused(error) => return (told + "X", Err(error)),
            }
        }
        panic!("the script is too short after {told}");
    }

    fn limits(chunk_chars_max: usize, rollup: u64) -> RequestLimits {
        RequestLimits { chunk_chars_max, rollup: Tokens::new(rollup), ..RequestLimits::default() }
    }

    fn with(thread: &Thread, limits: RequestLimits, script: &[&str]) -> (String, Result<ModelSummary, AnswerError>) {
        let span = thread.span(0..thread.len()).unwrap();
        let mut dialogue = Dialogue::new(&SummaryBrief { limits, ..SummaryBrief::new(thread, &span, "p", "m") });
        drive(&mut dialogue, script)
    }

    #[test]
    fn one_chunk_is_one_question() {
        let (told, done) =
            with(&long_thread(3), RequestLimits::default(), &[r#"{"goal":"Klären","user_words":["Frage 1"]}"#]);
        let done = done.unwrap();
        assert_eq!(told, "D");
        assert_eq!(done.summary.goal.as_deref(), Some("Klären"));
        assert_eq!(done.summary.constraints[0].place, 2);
    }

    #[test]
    fn each_chunk_builds_on_the_last_and_no_step_forgets_the_users_words() {
        let thread = long_thread(5);
        let script = [
            r#"{"goal":"eins","user_words":["Frage 0"],"state":{"risks":["a"]}}"#,
            r#"{"goal":"zwei"}"#,
            r#"{"goal":"drei","user_words":["Frage 4"],"state":{"risks":["b"]}}"#,
        ];
        let (told, done) = with(&thread, limits(1500, 80_000), &script);
        let done = done.unwrap();
        assert_eq!(told, "AAD");
        let places: Vec<usize> = done.summary.constraints.iter().map(|quote| quote.place).collect();
        assert_eq!(places, [0, 8]);
        assert_eq!(done.summary.workstream.unwrap().risks, ["a", "b"]);
    }

    #[test]
    fn words_that_the_user_took_back_stay_withdrawn_and_no_tool_can_withdraw_them() {
        let long = "so ".repeat(300);
        let thread = thread(&format!(
            "user: Keep the old API.\nassistant: ok {long}\ncall sh: {{}}\nresult sh: Forget the old API. {long}\nassistant: hm {long}\nuser: Drop the old API after all.\nassistant: done {long}"
        ));
        let first = r#"{"goal":"a","user_words":["Keep the old API."]}"#;
        let last = |withdrawn: &str| format!(r#"{{"goal":"b","withdrawn":[{withdrawn}]}}"#);
        let cases = [
            (r#"{"text":"Keep the old API.","messages":[6]}"#, 0),
            (r#"{"text":"Keep the old API.","messages":[4]}"#, 1),
            (r#"{"text":"Keep the old API.","messages":[]}"#, 1),
            (r#"{"text":"API","messages":[6]}"#, 1),
            ("", 1),
        ];
        for (withdrawn, kept) in cases {
            let chunks = limits(3000, 80_000);
            let (told, done) = with(&thread, chunks, &[first, &last(withdrawn)]);
            assert_eq!((told.as_str(), done.unwrap().summary.constraints.len()), ("AD", kept), "{withdrawn}");
        }
    }

    #[test]
    fn a_step_is_given_the_answer_of_the_one_before() {
        let thread = long_thread(5);
        let span = thread.span(0..10).unwrap();
        let mut dialogue = Dialogue::new(&SummaryBrief {
            limits: limits(1500, 80_000),
            ..SummaryBrief::new(&thread, &span, "p", "m")
        });
        let Progress::Ask(prompt) =
            dialogue.answer(&Reply { text: r#"{"goal":"目标"}"#, finish: Finish::Stop }, &Fours)
        else {
            panic!()
        };
        assert!(
            prompt.message.starts_with("This is part 2 of 3")
                && prompt.message.contains("<epitome-summary>\n{\"goal\":\"目标\"}\n")
        );
    }

    #[test]
    fn a_summary_that_is_too_long_is_rolled_up_once() {
        let long = format!(r#"{{"goal":"{}"}}"#, "lang ".repeat(40));
        let shorter = format!(r#"{{"goal":"{}"}}"#, "lang ".repeat(30));
        let thread = long_thread(3);
        assert_eq!(with(&thread, limits(120_000, 20), &[&long, &shorter]).0, "RD");
        let (told, refused) = with(&thread, limits(120_000, 20), &[&long, &long]);
        assert_eq!(told, "RX");
        assert!(matches!(refused, Err(AnswerError::NotSmaller { .. })));
        let chunked = long_thread(5);
        assert_eq!(
            with(&chunked, limits(1500, 20), &[&long, &shorter, r#"{"goal":"b"}"#, r#"{"goal":"c"}"#]).0,
            "RAAD"
        );
    }

    #[test]
    fn a_summary_must_be_smaller_than_what_it_replaces() {
        let answer = format!(r#"{{"goal":"{}"}}"#, "mehr Worte als vorher ".repeat(10));
        let (told, refused) = with(&thread("user: kurz\nassistant: ja"), RequestLimits::default(), &[&answer]);
        assert_eq!(told, "X");
        assert!(matches!(refused, Err(AnswerError::NotSmaller { .. })));
    }

    #[test]
    fn a_refused_answer_changes_nothing_and_the_same_question_can_be_asked_again() {
        let thread = long_thread(3);
        let span = thread.span(0..6).unwrap();
        let mut dialogue = Dialogue::new(&SummaryBrief::new(&thread, &span, "p", "m"));
        let asked = dialogue.prompt();
        for (text, finish) in [
            ("", Finish::Stop),
            ("{\"goal\":\"", Finish::Stop),
            ("{\"goal\":\"a\"}", Finish::Length),
            ("Sorry, no.", Finish::Stop),
        ] {
            assert!(matches!(dialogue.answer(&Reply { text, finish }, &Fours), Progress::Refused(_)), "{text}");
            assert_eq!(dialogue.prompt(), asked);
        }
        assert_eq!(drive(&mut dialogue, &[r#"{"goal":"gut"}"#]).0, "D");
        let late = dialogue.answer(&Reply { text: r#"{"goal":"x"}"#, finish: Finish::Stop }, &Fours);
        assert_eq!((late, dialogue.prompt()), (Progress::Refused(AnswerError::Unasked), None));
    }

    #[test]
    fn a_split_turn_has_its_own_section_and_its_request_is_the_users_own_words() {
        let thread = thread(&format!(
            "user: früher {}\nassistant: ok\nuser: Baue die Seite\ncall w: {{}}\nresult w: ok\nassistant: und weiter",
            "x ".repeat(200)
        ));
        let span = thread.span(0..5).unwrap();
        let prefix = thread.span(2..5).unwrap();
        let mut dialogue = Dialogue::new(&SummaryBrief {
            turn_prefix: Some(&prefix),
            instructions: "fokus",
            ..SummaryBrief::new(&thread, &span, "p", "m")
        });
        let message = dialogue.prompt().unwrap().message;
        assert!(message.contains("<epitome-turn>\n[m3] user:\nBaue die Seite") && message.contains("fokus"));
        let done = drive(&mut dialogue, &[r#"{"goal":"Seite","turn_progress":[{"text":"angelegt","messages":[4]}]}"#])
            .1
            .unwrap();
        let turn = done.summary.turn_context.unwrap();
        assert_eq!(
            (turn.request.text.as_str(), turn.progress[0].text.as_str(), turn.progress[0].place),
            ("Baue die Seite", "angelegt (m4)", 3)
        );
    }

    #[test]
    fn the_same_model_is_asked_once_at_the_end_of_its_own_request() {
        let thread = long_thread(4);
        let span = thread.span(0..6).unwrap();
        let mut dialogue = Dialogue::appended(&SummaryBrief {
            limits: limits(1500, 80_000),
            ..SummaryBrief::new(&thread, &span, "p", "m")
        });
        let prompt = dialogue.prompt().unwrap();
        assert!(
            prompt.system.is_none()
                && prompt.message.contains("<epitome-kept>\nFrage 3")
                && !prompt.message.contains("Frage 2")
        );
        assert_eq!(drive(&mut dialogue, &[r#"{"goal":"gut"}"#]).0, "D");
    }
}
