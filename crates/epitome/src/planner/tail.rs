//! The tail: the newest exchanges, which stay verbatim, and the single messages before them that stay as well.
//!
//! Where the tail begins is decided in three steps. Each keeps whole exchanges, and none moves the start past what is in flight
//! or what nobody has answered yet:
//!
//! ```text
//! messages      sys   task  ......................  call res  call res  user
//! 1. wanted                        |--------------------------------------->   the earliest start of any rule of the
//!                                                                              policy: turns, messages, tokens, share;
//!                                                                              the last two moved to where a turn begins
//! 2. most                                           |---------------------->   as many exchanges as fit into its share of
//!                                                                              the target, long parts counted as clipped
//! 3. allowed                                                  |------------>   the next place where the format can begin one
//! held          [sys] [task]                                                   system messages and the first task stay
//! ```
//!
//! A planner's room here is the one that is aimed for: see `leave_room_for_unanswered`.

use super::{Planner, PromptShape};
use crate::budget::{Meter, Tokens};
use crate::policy::{CutPlace, Rung};
use crate::summary::{is_pasted_mostly, is_taken_back};
use crate::thread::{Message, Part, ResultForm, Role, Thread};

/// The most of a prompt that a single request takes as a message of its own.
const REQUEST_SHARE: f64 = 0.6;
/// The most of a target that is taken by what nobody has answered, where there is room between target and limit.
const OPEN_SHARE: f64 = 0.9;
/// The most of a target that an open request takes in a summary, where most of it is pasted.
const PASTED_REQUEST_SHARE: f64 = 0.4;
/// The least of a limit that is left beside a request.
const BESIDE_REQUEST_SHARE: f64 = 0.1;
/// The most of a target that a summary may count on beside a tail that would fill it.
const SUMMARY_SHARE: f64 = 0.25;
/// The least that a tail keeps of what it may, when its start moves to the beginning of a later turn.
const NEAR_TURN_SHARE: f64 = 0.75;
/// A text clipped to less says nothing.
const CLIP_MIN: Tokens = Tokens::new(20);

/// The messages that stay verbatim: the newest from a place on, and single messages before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedTail {
    /// The first message of the tail.
    pub from: usize,
    /// Whether the tail begins inside a turn.
    pub splits_turn: bool,
    /// The first task, if it is protected and before the tail.
    pub first_task: Option<usize>,
    /// What stays of a long part when the tail has to be clipped.
    pub clip: Tokens,
    /// System messages and items nobody may touch.
    held: Vec<usize>,
}

impl Planner<'_> {
    /// What the policy protects.
    pub(super) fn protected_tail(&self) -> ProtectedTail {
        let thread = self.thread;
        let wanted = self.protected_from();
        let most = self.tail_most();
        let mut clip = self.policy.trim.clip(self.room.target);
        if thread.tokens(wanted..thread.len()) <= most {
            return ProtectedTail { clip, ..self.tail_at(wanted) };
        }
        let whole = self.newest_within(most);
        // A tail of so many tokens stays as it is; one of turns loses the middles of long parts before it loses exchanges.
        if !self.may_trim() || !self.protects_turns_alone() && whole < thread.len() {
            return ProtectedTail { clip, ..self.tail_at(whole) };
        }
        let mut from = newest(thread, most, clip);
        // The newest exchange is worth more than long texts in it. What nobody has answered stays in any case.
        let is_open = self.unanswered_start().is_some();
        while !is_open && from == thread.len() && clip.share(0.5) >= CLIP_MIN {
            clip = clip.share(0.5);
            from = newest(thread, most, clip);
        }
        let tail = ProtectedTail { clip, ..self.tail_at(from) };
        // With nothing before it to summarize, all that is long would be clipped and nothing told of it.
        let is_all = (0..tail.from).all(|place| tail.holds(place));
        if is_all && thread.tokens(0..thread.len()) > self.room.target {
            return self.tail_at(whole);
        }
        tail
    }

    /// Returns where the newest messages begin that the policy protects: the earliest start that any of its rules asks for.
    pub(super) fn protected_from(&self) -> usize {
        let (thread, protect) = (self.thread, &self.policy.protect);
        let end = thread.len();
        let by_turns = match protect.recent_turns {
            0 => end,
            turns => {
                let first = thread.turn().saturating_sub(turns - 1);
                thread.messages().partition_point(|message| message.turn() < first)
            }
        };
        let by_messages = end.saturating_sub(protect.recent_messages);
        let by_tokens = match self.protected_tokens() {
            Tokens::ZERO => end,
            most => self.cut_near(most),
        };
        let start = by_turns.min(by_messages).min(by_tokens);
        if start >= end { end } else { thread.exchange_at(start).range().start }
    }

    /// Returns the newest tokens that the policy protects, by number or by share.
    fn protected_tokens(&self) -> Tokens {
        let (protect, target) = (&self.policy.protect, self.room.target);
        let share = match protect.tail_limit {
            _ if protect.recent_share == 0.0 => Tokens::ZERO,
            Some(limit) => target.share(protect.recent_share).clamp(limit.min, limit.max.max(limit.min)),
            None => target.share(protect.recent_share),
        };
        protect.recent_tokens.max(share)
    }

    /// Returns where a tail of so many tokens begins: at an exchange, or at the turn that the policy wants it to begin at.
    ///
    /// ```text
    /// turns         |u...............|u..........................|u.........|
    /// exchange                  |------------------------------------------->   as many exchanges as fit
    /// near-turn                       |------------------------------------->   the next turn, if it keeps three quarters of them
    /// turn           |------------------------------------------------------>   the turn around it, if `tail_max` has room;
    ///                                                                           else the next; the newest turn if there is none
    /// ```
    fn cut_near(&self, most: Tokens) -> usize {
        let (thread, end) = (self.thread, self.thread.len());
        let start = newest(thread, most, Tokens::new(u64::MAX));
        let opens = |place: &usize| thread.message(*place).opens_turn();
        let later = (start..end).find(opens);
        match self.policy.protect.cut {
            CutPlace::Exchange => start,
            CutPlace::NearTurn => {
                let keeps_most = |place: &usize| thread.tokens(*place..end) >= most.share(NEAR_TURN_SHARE);
                later.filter(keeps_most).unwrap_or(start)
            }
            CutPlace::Turn => {
                let around = (0..(start + 1).min(end)).rev().find(opens).unwrap_or(start);
                let fits = thread.tokens(around..end) <= self.tail_most();
                if fits { around } else { later.unwrap_or(around) }
            }
        }
    }

    /// Returns where the longest tail begins that takes no more than this: with as many whole turns as fit, where the policy wants it
    /// to begin with a turn. If the newest turn alone is too much, what the policy protects in tokens stays of it.
    fn newest_within(&self, most: Tokens) -> usize {
        let protected = self.protected_tokens();
        let within = if protected > Tokens::ZERO { most.min(protected) } else { most };
        let from = newest(self.thread, most, Tokens::new(u64::MAX));
        let turn = (from..self.thread.len()).find(|place| self.thread.message(*place).opens_turn());
        match self.policy.protect.cut {
            CutPlace::Exchange => from,
            CutPlace::NearTurn => turn.into_iter().fold(self.cut_near(within), usize::min),
            CutPlace::Turn => turn.unwrap_or_else(|| newest(self.thread, within, Tokens::new(u64::MAX))),
        }
    }

    /// Whether so many turns are all that the policy protects.
    fn protects_turns_alone(&self) -> bool {
        let protect = &self.policy.protect;
        protect.recent_turns > 0 && protect.recent_share == 0.0
    }

    /// Whether long parts of the tail may lose their middle.
    fn may_trim(&self) -> bool {
        self.policy.rungs.contains(&Rung::Trim)
    }

    /// The smallest tail: what is in flight, or nothing.
    pub(super) fn smallest_tail(&self) -> ProtectedTail {
        self.tail_at(self.thread.len())
    }

    /// A tail without its oldest exchange, unless something in it is in flight.
    pub(super) fn shorter_tail(&self, tail: &ProtectedTail) -> Option<ProtectedTail> {
        if tail.from >= self.thread.len() {
            return None;
        }
        let shorter = self.tail_at(self.thread.exchange_at(tail.from).range().end);
        (shorter.from > tail.from).then_some(ProtectedTail { clip: tail.clip, ..shorter })
    }

    /// The tails from a place on, longest first, down to the smallest.
    pub(super) fn shorter_tails(&self, tail: &ProtectedTail) -> Vec<ProtectedTail> {
        let smallest = self.smallest_tail();
        let starts = self.thread.exchanges().iter().map(|exchange| exchange.range().start);
        let mut tails: Vec<ProtectedTail> = starts
            .filter(|start| (tail.from + 1..smallest.from).contains(start))
            .map(|start| ProtectedTail { clip: tail.clip, ..self.tail_at(start) })
            .collect();
        tails.dedup_by_key(|tail| tail.from);
        tails.push(smallest);
        tails
    }

    /// The most that the tail may take: its share of the target, as far as the limit has room for it.
    pub(super) fn tail_most(&self) -> Tokens {
        let protect = &self.policy.protect;
        let is_exact = self.room.limit <= self.room.target;
        let most = protect.tail_max_exact.filter(|_| is_exact).unwrap_or(protect.tail_max);
        let share = self.room.target.share(most);
        (share + self.kept_unanswered_tokens()).min(self.room.limit - self.before_tail() - self.summary_room())
    }

    /// What stays before the tail, or is quoted in full there: system messages, the first task, the request of the turn.
    fn before_tail(&self) -> Tokens {
        let thread = self.thread;
        let task = self.first_task();
        let unloaded = thread.evicted().map(|evicted| evicted.at);
        let request = Some(thread.turn_start()).filter(|place| Some(*place) != task && Some(*place) != unloaded);
        // The newest message is in the tail.
        let request = request.filter(|place| place + 1 < thread.len());
        let task_tokens = task.map_or(Tokens::ZERO, |place| thread.message(place).tokens());
        let request_tokens = request.map_or(Tokens::ZERO, |place| {
            let message = thread.message(place);
            // What a person pasted is quoted by its outline where it is too long.
            let most = if is_pasted_mostly(&message.own_text()) { PASTED_REQUEST_SHARE } else { 1.0 };
            message.tokens().min(self.room.target.share(most))
        });
        task_tokens + request_tokens + self.held_tokens()
    }

    fn held_tokens(&self) -> Tokens {
        let held = held_before(self.thread, self.thread.len(), self.room.target);
        held.into_iter().map(|place| self.thread.message(place).tokens()).sum()
    }

    /// The room that a summary is left beside a tail that would fill the prompt: its own bound, a quarter at most.
    pub(super) fn summary_room(&self) -> Tokens {
        let most = self.room.target.share(SUMMARY_SHARE);
        match self.policy.summarize.tokens_max {
            Tokens::ZERO => most,
            own => own.min(most),
        }
    }

    /// Returns the first user message, unless it alone would fill most of the prompt, or leave no room for the open request.
    fn first_task(&self) -> Option<usize> {
        if !self.policy.protect.first_task {
            return None;
        }
        let place = self.thread.messages().iter().position(|message| message.opens_turn())?;
        let message = self.thread.message(place);
        // The first that is loaded, or that an earlier summary left in a list, need not be the first there was; a list counts its
        // turns anew.
        let is_behind_summary = || self.thread.messages()[..place].iter().any(|message| message.is_summary());
        let is_first = if self.thread.evicted().is_some() { message.turn() <= 1 } else { !is_behind_summary() };
        // What the user took back is told in the summary, with the words that took it back.
        let is_taken_back = is_taken_back(self.thread, place);
        let is_small = message.tokens() <= self.room.target.share(REQUEST_SHARE);
        let is_open = unanswered_from(self.thread).is_some_and(|open| open <= place);
        let leaves_room = message.tokens() + unanswered_tokens(self.thread) <= self.room.limit.share(OPEN_SHARE);
        (is_first && is_small && !is_taken_back && (is_open || leaves_room)).then_some(place)
    }

    /// Returns the tokens of the unanswered messages if the room is made for all of them, otherwise none.
    fn kept_unanswered_tokens(&self) -> Tokens {
        let tokens = unanswered_tokens(self.thread);
        if self.has_room_for_unanswered() && tokens <= self.room.target.share(OPEN_SHARE) {
            tokens
        } else {
            Tokens::ZERO
        }
    }

    /// Returns where the unanswered messages begin, if there is room for all of them: trimming leaves those alone.
    pub(super) fn kept_unanswered_from(&self) -> Option<usize> {
        unanswered_from(self.thread).filter(|_| self.kept_unanswered_tokens() > Tokens::ZERO)
    }

    /// Tells whether unanswered messages have room of their own, between target and limit. A policy that keeps no tail gives none.
    fn has_room_for_unanswered(&self) -> bool {
        let protect = &self.policy.protect;
        let keeps_any = protect.recent_turns > 0
            || protect.recent_messages > 0
            || protect.recent_tokens > Tokens::ZERO
            || protect.recent_share > 0.0;
        keeps_any && self.room.limit > self.room.target && self.options.shape == PromptShape::Free
    }

    fn tail_at(&self, from: usize) -> ProtectedTail {
        let thread = self.thread;
        let in_flight = thread.in_flight().filter(|_| !self.hands_over());
        let from = self.allowed_start(from.min(in_flight.or_else(|| self.unanswered_start()).unwrap_or(from)));
        let (mut held, mut task) = (Vec::new(), None);
        if self.options.shape == PromptShape::Free {
            let request = open_request_with_media(thread).filter(|place| *place < from);
            held = held_before(thread, from, self.room.target);
            held.extend(request);
            held.sort_unstable();
            held.dedup();
            task = self.first_task().filter(|place| *place < from);
        }
        let inside = from < thread.len() && from > 0;
        let splits_turn = inside && !thread.message(from).opens_turn() && thread.message(from).turn() > 0;
        ProtectedTail { from, splits_turn, first_task: task, clip: self.policy.trim.clip(self.room.target), held }
    }

    /// Returns where the tail must begin at the latest, so that unanswered messages stay whole: always with media, otherwise
    /// while they fit.
    fn unanswered_start(&self) -> Option<usize> {
        // Nothing but the summary goes into the new thread.
        if self.hands_over() {
            return None;
        }
        if let Some(shown) = unanswered_media_from(self.thread) {
            return Some(shown);
        }
        let open = unanswered_from(self.thread).filter(|_| self.options.shape == PromptShape::Free)?;
        let clip = self.policy.trim.clip(self.room.target);
        let tokens: Tokens = (open..self.thread.len()).map(|place| clipped(self.thread.message(place), clip)).sum();
        let is_request = self.thread.message(open).opens_turn();
        // Nobody else can say a request again: it stays as long as there is room for it.
        let fits =
            is_request && tokens <= self.room.limit - self.held_tokens() - self.room.limit.share(BESIDE_REQUEST_SHARE);
        (fits || self.has_room_for_unanswered() && tokens <= self.room.target.share(OPEN_SHARE)).then_some(open)
    }

    /// The next place where the tail may begin; before what is in flight if it must be.
    fn allowed_start(&self, from: usize) -> usize {
        let Some(cuts) = &self.options.cuts else { return from };
        let latest =
            self.thread.in_flight().or_else(|| unanswered_media_from(self.thread)).unwrap_or(self.thread.len());
        let starts = self.thread.exchanges().iter().map(|exchange| exchange.range().start);
        let places: Vec<usize> =
            starts.chain([self.thread.len()]).filter(|place| *place <= latest && cuts.contains(place)).collect();
        let later = places.iter().find(|place| **place >= from);
        later.or_else(|| places.last()).copied().unwrap_or(from)
    }
}

impl ProtectedTail {
    /// Tells whether a message before the tail stays.
    pub fn holds(&self, place: usize) -> bool {
        self.first_task == Some(place) || self.held.binary_search(&place).is_ok()
    }
}

/// Returns where the **unanswered** messages begin: the newest request, or the newest exchange if it ends with results that the
/// model has not seen. Everything after an assistant's closing answer is unanswered; after one there is none.
fn unanswered_from(thread: &Thread) -> Option<usize> {
    // A harness's note in the user's name is not an answer.
    let newest = (0..thread.len()).rev().find(|place| !is_harness_note(thread.message(*place)))?;
    let message = thread.message(newest);
    match message.opens_turn() {
        true => Some(newest),
        false => message.results().next().map(|_| thread.exchange_at(newest).range().start),
    }
}

/// Tells whether a message in the user's name contains only a harness's text.
fn is_harness_note(message: &Message) -> bool {
    let is_text = |part: &Part| matches!(part, Part::Text(_));
    message.role() == Role::User
        && !message.is_summary()
        && !message.opens_turn()
        && message.parts().iter().all(is_text)
}

/// Returns where the unanswered messages begin, if they show the model media, which no words can replace.
fn unanswered_media_from(thread: &Thread) -> Option<usize> {
    unanswered_from(thread)
        .filter(|from| (*from..thread.len()).any(|place| thread.message(place).media().next().is_some()))
}

/// The request that is being worked on, if it came with media: they are what it is about until it is answered.
fn open_request_with_media(thread: &Thread) -> Option<usize> {
    let is_open = unanswered_from(thread).is_some() || thread.in_flight().is_some();
    let request = is_open.then(|| thread.turn_start()).filter(|place| *place < thread.len())?;
    thread.message(request).media().next().map(|_| request)
}

/// What a shortfall calls the media that stay whatever the pressure.
pub const OPEN_MEDIA: &str = "images and files of the open request";

/// Returns the tokens of the media that always stay: those of the open request and of unanswered messages.
pub fn open_media_tokens(thread: &Thread, meter: Meter<'_>) -> Tokens {
    let newest = unanswered_media_from(thread).unwrap_or(thread.len());
    let request = open_request_with_media(thread).filter(|place| *place < newest);
    let shown = request.into_iter().chain(newest..thread.len()).flat_map(|place| thread.message(place).media());
    shown.map(|media| meter.media(media).tokens).sum()
}

/// Returns the tokens of the unanswered messages.
pub fn unanswered_tokens(thread: &Thread) -> Tokens {
    unanswered_from(thread).map_or(Tokens::ZERO, |from| thread.tokens(from..thread.len()))
}

/// The share of the target that system messages in the middle of a thread may take.
const SYSTEM_SHARE: f64 = 0.5;

/// The most tokens of system messages that stay before a tail.
pub fn system_most(target: Tokens) -> Tokens {
    target.share(SYSTEM_SHARE)
}

/// System messages stay: those that open a thread in any case, later ones, newest first, while they leave room for the
/// conversation. A thread that was put together of many has as many system prompts.
fn held_before(thread: &Thread, from: usize, target: Tokens) -> Vec<usize> {
    // A summary in the system's voice is replaced like any other.
    let is_system = |place: &usize| {
        let message = thread.message(*place);
        message.role() == Role::System && !message.is_summary()
    };
    let opening = (0..from).take_while(is_system).count();
    let most = system_most(target);
    let mut taken = thread.tokens(0..opening);
    let later = (opening..from).rev().filter(is_system).take_while(|place| {
        taken += thread.message(*place).tokens();
        taken <= most
    });
    let mut held: Vec<usize> = later.collect();
    held.extend(0..opening);
    held.sort_unstable();
    held
}

/// Where the newest exchanges that fit in `most` begin, long parts counted at the `clip` they can be clipped to.
fn newest(thread: &Thread, most: Tokens, clip: Tokens) -> usize {
    let mut start = thread.len();
    let mut taken = Tokens::ZERO;
    for exchange in thread.exchanges().iter().rev() {
        taken += exchange.range().map(|place| clipped(thread.message(place), clip)).sum();
        if taken > most {
            break;
        }
        start = exchange.range().start;
    }
    start
}

/// What a message takes when its long results and arguments are clipped. Media are not.
fn clipped(message: &Message, clip: Tokens) -> Tokens {
    let mut tokens = message.tokens();
    for (at, part) in message.parts().iter().enumerate() {
        let own = message.part_tokens(at);
        let can_shrink = match part {
            Part::ToolResult(result) => result.form == ResultForm::Words && result.media.is_empty(),
            Part::ToolCall(_) => true,
            _ => false,
        };
        if own > clip && can_shrink {
            tokens = tokens - own + clip;
        }
    }
    tokens
}
