//! The tail: the newest exchanges, which stay verbatim.

use super::{PlanOptions, Shape};
use crate::budget::{Meter, Tokens};
use crate::policy::{Policy, ProtectRules, Rung};
use crate::thread::{Message, Part, ResultForm, Role, Thread};

/// The most of a prompt that a single request takes as a message of its own.
const REQUEST_SHARE: f64 = 0.6;
/// The most of a target that is taken by what nobody has answered, where there is room between target and limit.
const OPEN_SHARE: f64 = 0.9;
/// The least of a limit that is left beside a request.
const BESIDE_REQUEST_SHARE: f64 = 0.1;
/// The most of a target that a summary may count on beside a tail that would fill it.
const SUMMARY_SHARE: f64 = 0.25;
/// A text clipped to less says nothing.
const CLIP_MIN: Tokens = Tokens::new(20);

/// What stays: the newest messages from a place on, and single messages before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
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

/// What decides the tail.
#[derive(Clone, Copy)]
pub struct Protection<'a> {
    /// The thread.
    pub thread: &'a Thread,
    /// The policy.
    pub policy: &'a Policy,
    /// What the prompt is brought down to.
    pub target: Tokens,
    /// What the prompt must stay within.
    pub limit: Tokens,
    /// The caller's options: the shape of the prompt, and where its format lets a tail begin.
    pub options: &'a PlanOptions,
}

impl Protection<'_> {
    /// What the policy protects.
    pub fn tail(&self) -> Tail {
        let thread = self.thread;
        let wanted = self.wanted();
        let most = self.most();
        let mut clip = self.policy.trim.clip(self.target);
        if thread.tokens(wanted..thread.len()) <= most {
            return Tail { clip, ..self.at(wanted) };
        }
        let whole = newest(thread, most, Tokens::new(u64::MAX));
        // A tail of so many tokens stays as it is; one of turns loses the middles of long parts before it loses exchanges.
        if !self.trims() || !self.by_turns_alone() && whole < thread.len() {
            return Tail { clip, ..self.at(whole) };
        }
        let mut from = newest(thread, most, clip);
        // The newest exchange is worth more than long texts in it. What nobody has answered stays in any case.
        let is_open = self.unanswered().is_some();
        while !is_open && from == thread.len() && clip.share(0.5) >= CLIP_MIN {
            clip = clip.share(0.5);
            from = newest(thread, most, clip);
        }
        let tail = Tail { clip, ..self.at(from) };
        // With nothing before it to summarize, all that is long would be clipped and nothing told of it.
        let is_all = (0..tail.from).all(|place| tail.holds(place));
        if is_all && thread.tokens(0..thread.len()) > self.target {
            return self.at(whole);
        }
        tail
    }

    /// Where the newest messages begin that the policy protects.
    pub fn wanted(&self) -> usize {
        wanted_start(self.thread, &self.policy.protect, self.target)
    }

    /// Whether so many turns are all that the policy protects.
    fn by_turns_alone(&self) -> bool {
        let protect = &self.policy.protect;
        protect.recent_turns > 0 && protect.recent_share == 0.0
    }

    /// Whether long parts of the tail may lose their middle.
    fn trims(&self) -> bool {
        self.policy.rungs.contains(&Rung::Trim)
    }

    /// The smallest tail: what is in flight, or nothing.
    pub fn smallest(&self) -> Tail {
        self.at(self.thread.len())
    }

    /// A tail without its oldest exchange, unless something in it is in flight.
    pub fn shorter(&self, tail: &Tail) -> Option<Tail> {
        if tail.from >= self.thread.len() {
            return None;
        }
        let shorter = self.at(self.thread.exchange_at(tail.from).range().end);
        (shorter.from > tail.from).then_some(Tail { clip: tail.clip, ..shorter })
    }

    /// The tails from a place on, longest first, down to the smallest.
    pub fn shorter_than(&self, tail: &Tail) -> Vec<Tail> {
        let smallest = self.smallest();
        let starts = self.thread.exchanges().iter().map(|exchange| exchange.range().start);
        let mut tails: Vec<Tail> = starts
            .filter(|start| (tail.from + 1..smallest.from).contains(start))
            .map(|start| Tail { clip: tail.clip, ..self.at(start) })
            .collect();
        tails.dedup_by_key(|tail| tail.from);
        tails.push(smallest);
        tails
    }

    /// The most that the tail may take: its share of the target, as far as the limit has room for it.
    pub fn most(&self) -> Tokens {
        let roominess = if self.by_turns_alone() { roominess(self.target) } else { 1.0 };
        let share = self.target.share(self.policy.protect.tail_max * roominess);
        (share + self.open_whole()).min(self.limit - self.before_tail() - self.summary_room())
    }

    /// What stays before the tail, or is quoted in full there: system messages, the first task, the request of the turn.
    fn before_tail(&self) -> Tokens {
        let thread = self.thread;
        let task = self.first_task();
        let unloaded = thread.evicted().map(|evicted| evicted.at);
        let request = Some(thread.turn_start()).filter(|place| Some(*place) != task && Some(*place) != unloaded);
        // The newest message is in the tail.
        let request = request.filter(|place| place + 1 < thread.len());
        let quoted: Tokens = task.into_iter().chain(request).map(|place| thread.message(place).tokens()).sum();
        quoted + self.held_tokens()
    }

    fn held_tokens(&self) -> Tokens {
        let held = held_before(self.thread, self.thread.len(), self.target);
        held.into_iter().map(|place| self.thread.message(place).tokens()).sum()
    }

    /// The room that a summary is left beside a tail that would fill the prompt: its own bound, a quarter at most.
    pub fn summary_room(&self) -> Tokens {
        let most = self.target.share(SUMMARY_SHARE);
        match self.policy.summarize.tokens_max {
            Tokens::ZERO => most,
            own => own.min(most),
        }
    }

    /// The first user message, unless it alone would fill most of the prompt, or leave no room for the open request.
    fn first_task(&self) -> Option<usize> {
        let place = first_task(self.thread, &self.policy.protect, self.target)?;
        let both = self.thread.message(place).tokens() + open_tokens(self.thread);
        let is_open = open(self.thread).is_some_and(|open| open <= place);
        (is_open || both <= self.limit.share(OPEN_SHARE)).then_some(place)
    }

    /// The tokens of what nobody has answered, where the room is made for all of it.
    fn open_whole(&self) -> Tokens {
        let tokens = open_tokens(self.thread);
        if self.keeps_open() && tokens <= self.target.share(OPEN_SHARE) { tokens } else { Tokens::ZERO }
    }

    /// Where what nobody has answered begins, where there is room for all of it.
    pub fn open_from(&self) -> Option<usize> {
        open(self.thread).filter(|_| self.open_whole() > Tokens::ZERO)
    }

    /// Whether what nobody has answered has room of its own: between target and limit, unless the policy keeps no tail.
    fn keeps_open(&self) -> bool {
        let protect = &self.policy.protect;
        let keeps_any = protect.recent_turns > 0
            || protect.recent_messages > 0
            || protect.recent_tokens > Tokens::ZERO
            || protect.recent_share > 0.0;
        keeps_any && self.limit > self.target && self.options.shape == Shape::Free
    }

    fn at(&self, from: usize) -> Tail {
        let thread = self.thread;
        let from = self.allowed(from.min(thread.in_flight().or_else(|| self.unanswered()).unwrap_or(from)));
        let (mut held, mut task) = (Vec::new(), None);
        if self.options.shape == Shape::Free {
            let request = open_request_with_media(thread).filter(|place| *place < from);
            held = held_before(thread, from, self.target);
            held.extend(request);
            held.sort_unstable();
            held.dedup();
            task = self.first_task().filter(|place| *place < from);
        }
        let inside = from < thread.len() && from > 0;
        let splits_turn = inside && !thread.message(from).opens_turn() && thread.message(from).turn() > 0;
        Tail { from, splits_turn, first_task: task, clip: self.policy.trim.clip(self.target), held }
    }

    /// Where what nobody has answered begins: a request, or results that the model has not seen, that leave room for
    /// more.
    fn unanswered(&self) -> Option<usize> {
        if let Some(shown) = open_media(self.thread) {
            return Some(shown);
        }
        let open = open(self.thread).filter(|_| self.options.shape == Shape::Free)?;
        let clip = self.policy.trim.clip(self.target);
        let tokens: Tokens = (open..self.thread.len()).map(|place| clipped(self.thread.message(place), clip)).sum();
        let is_request = self.thread.message(open).opens_turn();
        // Nobody else can say a request again: it stays as long as there is room for it.
        let fits = is_request && tokens <= self.limit - self.held_tokens() - self.limit.share(BESIDE_REQUEST_SHARE);
        (fits || self.keeps_open() && tokens <= self.target.share(OPEN_SHARE)).then_some(open)
    }

    /// The next place where the tail may begin; before what is in flight if it must be.
    fn allowed(&self, from: usize) -> usize {
        let Some(cuts) = &self.options.cuts else { return from };
        let latest = self.thread.in_flight().or_else(|| open_media(self.thread)).unwrap_or(self.thread.len());
        let starts = self.thread.exchanges().iter().map(|exchange| exchange.range().start);
        let places: Vec<usize> =
            starts.chain([self.thread.len()]).filter(|place| *place <= latest && cuts.contains(place)).collect();
        let later = places.iter().find(|place| **place >= from);
        later.or_else(|| places.last()).copied().unwrap_or(from)
    }
}

impl Tail {
    /// Whether a message before the tail stays all the same.
    pub fn holds(&self, place: usize) -> bool {
        self.first_task == Some(place) || self.held.binary_search(&place).is_ok()
    }
}

/// Where what nobody has answered begins: the newest request, or the newest exchange where it ends with results.
fn open(thread: &Thread) -> Option<usize> {
    // What a harness says in the user's name after it is no answer either.
    let newest = (0..thread.len()).rev().find(|place| !is_harness_note(thread.message(*place)))?;
    let message = thread.message(newest);
    match message.opens_turn() {
        true => Some(newest),
        false => message.results().next().map(|_| thread.exchange_at(newest).range().start),
    }
}

/// Whether a message in the user's name holds nothing but a harness's text.
fn is_harness_note(message: &Message) -> bool {
    let is_text = |part: &Part| matches!(part, Part::Text(_));
    message.role() == Role::User
        && !message.is_summary()
        && !message.opens_turn()
        && message.parts().iter().all(is_text)
}

/// Where what nobody has answered begins, if it shows the model media: that cannot be told in other words.
fn open_media(thread: &Thread) -> Option<usize> {
    open(thread).filter(|from| (*from..thread.len()).any(|place| thread.message(place).media().next().is_some()))
}

/// The request that is being worked on, if it came with media: they are what it is about until it is answered.
fn open_request_with_media(thread: &Thread) -> Option<usize> {
    let is_open = open(thread).is_some() || thread.in_flight().is_some();
    let request = is_open.then(|| thread.turn_start()).filter(|place| *place < thread.len())?;
    thread.message(request).media().next().map(|_| request)
}

/// What a shortfall calls the media that stay whatever the pressure.
pub const OPEN_MEDIA: &str = "images and files of the open request";

/// The tokens of the media that stay whatever the pressure: those of the open request and of what nobody has answered.
pub fn open_media_tokens(thread: &Thread, meter: Meter<'_>) -> Tokens {
    let newest = open_media(thread).unwrap_or(thread.len());
    let request = open_request_with_media(thread).filter(|place| *place < newest);
    let shown = request.into_iter().chain(newest..thread.len()).flat_map(|place| thread.message(place).media());
    shown.map(|media| meter.media(media).tokens).sum()
}

/// The tokens of what nobody has answered.
pub fn open_tokens(thread: &Thread) -> Tokens {
    open(thread).map_or(Tokens::ZERO, |from| thread.tokens(from..thread.len()))
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
    let is_system = |place: &usize| thread.message(*place).role() == Role::System;
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

/// The first user message, unless it alone would fill most of the prompt.
fn first_task(thread: &Thread, protect: &ProtectRules, target: Tokens) -> Option<usize> {
    if !protect.first_task {
        return None;
    }
    let place = thread.messages().iter().position(|message| message.opens_turn())?;
    let message = thread.message(place);
    // The first that is loaded need not be the first there was.
    let is_first = message.turn() <= 1 || thread.evicted().is_none();
    (message.tokens() <= target.share(REQUEST_SHARE) && is_first).then_some(place)
}

/// The earliest start that any of the policy's rules asks for.
fn wanted_start(thread: &Thread, protect: &ProtectRules, target: Tokens) -> usize {
    let end = thread.len();
    let by_turns = match protect.recent_turns {
        0 => end,
        turns => turn_start(thread, turns),
    };
    let by_messages = match protect.recent_messages {
        0 => end,
        count => end.saturating_sub(count),
    };
    let share = match protect.tail_limit {
        _ if protect.recent_share == 0.0 => Tokens::ZERO,
        Some(limit) => target.share(protect.recent_share).clamp(limit.min, limit.max.max(limit.min)),
        None => target.share(protect.recent_share),
    };
    let by_tokens = match protect.recent_tokens.max(share) {
        Tokens::ZERO => end,
        most => newest(thread, most, Tokens::new(u64::MAX)),
    };
    let start = by_turns.min(by_messages).min(by_tokens);
    if start >= end { end } else { thread.exchange_at(start).range().start }
}

/// Where the nth newest turn begins.
fn turn_start(thread: &Thread, turns: u32) -> usize {
    let turn = thread.turn().saturating_sub(turns - 1);
    thread.messages().partition_point(|message| message.turn() < turn)
}

/// The target at which the tail may take half of its share.
const ROOMY: f64 = 20_000.0;

/// The part of its share that a tail of whole turns may take: in a small prompt, lines chosen from all of the past say
/// more than the newest exchanges in full. A tail of so many messages or tokens is as long as was asked for.
fn roominess(target: Tokens) -> f64 {
    let target = target.get() as f64;
    target / (target + ROOMY)
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
