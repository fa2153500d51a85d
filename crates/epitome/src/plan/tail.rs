//! The tail: the newest exchanges, which stay verbatim.

use crate::budget::Tokens;
use crate::policy::Protect;
use crate::thread::{Message, Role, Thread};

/// What stays: the newest messages from a place on, and single messages before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The first message of the tail.
    pub from: usize,
    /// Whether the tail begins inside a turn.
    pub splits_turn: bool,
    /// The first task, if it is protected and before the tail.
    pub first_task: Option<usize>,
    /// System messages and items nobody may touch.
    held: Vec<usize>,
}

impl Tail {
    /// What a policy protects of a thread when the prompt is to be brought down to `target`.
    pub fn of(thread: &Thread, protect: &Protect, target: Tokens) -> Tail {
        let wanted = wanted_start(thread, protect, target);
        let most = target.share(protect.tail_max);
        let from = match thread.tokens(wanted..thread.len()) > most {
            true => newest(thread, most),
            false => wanted,
        };
        Tail::at(thread, protect, target, from.min(thread.in_flight().unwrap_or(from)))
    }

    /// The smallest tail: the newest exchange alone.
    pub fn smallest(thread: &Thread, protect: &Protect, target: Tokens) -> Tail {
        Tail::at(thread, protect, target, newest(thread, Tokens::ZERO))
    }

    fn at(thread: &Thread, protect: &Protect, target: Tokens, from: usize) -> Tail {
        let held = (0..from).filter(|place| is_held(thread.message(*place))).collect();
        let first_task = first_task(thread, protect, target).filter(|place| *place < from);
        let splits_turn = from < thread.len() && from > 0 && !thread.message(from).opens_turn() && thread.message(from).turn() > 0;
        Tail { from, splits_turn, first_task, held }
    }

    /// Whether a message before the tail stays all the same.
    pub fn holds(&self, place: usize) -> bool {
        self.first_task == Some(place) || self.held.binary_search(&place).is_ok()
    }
}

fn is_held(message: &Message) -> bool {
    message.role() == Role::System
}

/// The first user message, unless it alone would fill most of the prompt.
fn first_task(thread: &Thread, protect: &Protect, target: Tokens) -> Option<usize> {
    if !protect.first_task {
        return None;
    }
    let place = thread.messages().iter().position(|message| message.opens_turn())?;
    let message = thread.message(place);
    (message.tokens() <= target.share(0.6) && !message.is_summary()).then_some(place)
}

/// The earliest start that any of the policy's rules asks for.
fn wanted_start(thread: &Thread, protect: &Protect, target: Tokens) -> usize {
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
        most => newest(thread, most),
    };
    let start = by_turns.min(by_messages).min(by_tokens);
    if start >= end { end } else { thread.exchange_at(start).range().start }
}

/// Where the nth newest turn begins.
fn turn_start(thread: &Thread, turns: u32) -> usize {
    let turn = thread.turn().saturating_sub(turns - 1);
    thread.messages().partition_point(|message| message.turn() < turn)
}

/// Where the newest exchanges that fit in `most` begin; at least the newest exchange.
fn newest(thread: &Thread, most: Tokens) -> usize {
    let mut start = thread.len();
    for exchange in thread.exchanges().iter().rev() {
        let first = exchange.range().start;
        if start < thread.len() && thread.tokens(first..thread.len()) > most {
            break;
        }
        start = first;
    }
    start
}
