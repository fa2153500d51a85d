//! Repairs: what must become of a message for a provider to take it in a prompt that is written anew.
//!
//! A prompt that nothing left is passed on as it came, faults and all; these are for prompts that a plan rewrites.

use std::collections::{HashMap, HashSet};

use super::stand_in::media_lines;
use crate::budget::{Meter, Tokens};

use crate::thread::{Exchange, Message, Part, Role, Seal, Thread};
use crate::wire::{Dialect, Voice};

/// What must become of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing.
    Fine,
    /// It goes on without these parts.
    Without(Vec<usize>),
    /// It is told in words: it cannot be sent as what it is.
    Retold,
    /// It says nothing at all: providers refuse such messages.
    Gone,
}

/// What must become of every message when sealed reasoning before `reasoning_from` is no longer valid.
pub(crate) fn repairs(thread: &Thread, dialect: Dialect, reasoning_from: usize) -> Vec<Repair> {
    let mut repairs = Vec::with_capacity(thread.len());
    let mut used: HashSet<&str> = HashSet::new();
    for exchange in thread.exchanges() {
        let well_formed = is_well_formed(thread, exchange, dialect)
            && !(dialect == Dialect::Anthropic && is_repeated(thread, exchange, &used));
        used.extend(exchange.range().flat_map(|place| thread.message(place).calls()).map(|call| &*call.id));
        for place in exchange.range() {
            let message = thread.message(place);
            repairs.push(match well_formed && message.role() != Role::Other {
                true => repair(message, dialect, place < reasoning_from),
                false if retold(thread, place, HashMap::new()).is_empty() => Repair::Gone,
                false => Repair::Retold,
            });
        }
    }
    if dialect == Dialect::Responses {
        drop_childless_reasoning(thread, &mut repairs);
    }
    repairs
}

fn repair(message: &Message, dialect: Dialect, is_rewritten: bool) -> Repair {
    let leaves = |part: &Part| match part {
        Part::Reasoning(reasoning) => reasoning.seal != Seal::Open && is_rewritten,
        Part::Text(text) => dialect == Dialect::Anthropic && text.trim().is_empty(),
        _ => false,
    };
    let says = |part: &Part| !leaves(part) && !matches!(part, Part::Text(text) if text.trim().is_empty());
    if !message.parts().iter().any(says) {
        return Repair::Gone;
    }
    let without: Vec<usize> = (0..message.parts().len()).filter(|at| leaves(&message.parts()[*at])).collect();
    if without.is_empty() { Repair::Fine } else { Repair::Without(without) }
}

/// A reasoning item whose message is gone has nothing to stand before.
fn drop_childless_reasoning(thread: &Thread, repairs: &mut [Repair]) {
    for place in (0..thread.len().saturating_sub(1)).rev() {
        let reasons = matches!(thread.message(place).parts(), [Part::Reasoning(_)]) && repairs[place] == Repair::Fine;
        if !reasons || !matches!(repairs[place + 1], Repair::Gone | Repair::Retold) {
            continue;
        }
        let next = (place + 1..thread.len()).find(|next| repairs[*next] != Repair::Gone);
        let has_child =
            next.is_some_and(|next| thread.message(next).role() == Role::Assistant && repairs[next] == Repair::Fine);
        if !has_child {
            repairs[place] = Repair::Gone;
        }
    }
}

/// What each message costs once it is repaired.
pub(crate) fn repaired_tokens(thread: &Thread, reasoning_from: usize, meter: Meter<'_>) -> Vec<Tokens> {
    let repairs = repairs(thread, meter.dialect(), reasoning_from);
    let cost = |(place, repair): (usize, &Repair)| {
        let message = thread.message(place);
        match repair {
            Repair::Fine => message.tokens(),
            Repair::Without(parts) => message.tokens() - parts.iter().map(|part| message.part_tokens(*part)).sum(),
            Repair::Retold => meter.text_message(&retold(thread, place, HashMap::new())),
            Repair::Gone => Tokens::ZERO,
        }
    };
    repairs.iter().enumerate().map(cost).collect()
}

/// A message in words, with the stand-ins of what left it.
pub(crate) fn retold(thread: &Thread, place: usize, mut stand_ins: HashMap<usize, String>) -> String {
    let message = thread.message(place);
    let mut words: Vec<String> = Vec::new();
    for (at, part) in message.parts().iter().enumerate() {
        let stand_in = stand_ins.remove(&at);
        match part {
            Part::Text(text) if text.trim().is_empty() => {}
            Part::Text(text) => words.push(stand_in.unwrap_or_else(|| text.to_string())),
            Part::ToolCall(call) => words.push(format!("[called {} {}]", call.name, call.arguments)),
            Part::ToolResult(result) => {
                let text = stand_in.unwrap_or_else(|| format!("{}{}", result.text, media_lines(result)));
                words.push(format!("[result of {}]\n{text}", result.call_id));
            }
            Part::Media(media) => {
                words.push(stand_in.unwrap_or_else(|| format!("[{}: {media}]", media.kind.label())));
            }
            Part::Opaque(opaque) => words.push(opaque.json.as_str().to_owned()),
            Part::Reasoning(_) => {}
        }
    }
    if message.parts().is_empty() && message.role() == Role::Other {
        words.push(message.raw().as_str().to_owned());
    }
    words.join("\n")
}
pub(crate) fn retold_voice(message: &Message) -> Voice {
    if message.role() == Role::Assistant { Voice::Assistant } else { Voice::User }
}

/// Whether a call of an exchange has an id that was used before: Anthropic takes each id once.
fn is_repeated(thread: &Thread, exchange: &Exchange, used: &HashSet<&str>) -> bool {
    exchange.range().flat_map(|place| thread.message(place).calls()).any(|call| used.contains(&*call.id))
}

/// Whether every call of an exchange is answered once and in time, and every result has its call. The calls of the
/// thread's last exchange may still be in flight.
fn is_well_formed(thread: &Thread, exchange: &Exchange, dialect: Dialect) -> bool {
    let in_flight = exchange.range().end == thread.len();
    let mut open: HashSet<&str> = HashSet::new();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut before = None;
    for place in exchange.range() {
        let message = thread.message(place);
        // Chat wants the results of each message directly after it; elsewhere one answer may be several messages.
        let goes_on = message.role() == Role::Assistant && dialect != Dialect::Chat;
        if !open.is_empty() && message.results().next().is_none() && !goes_on {
            return false;
        }
        let calls_follow_on = open.is_empty() || before == Some(Role::Assistant);
        for part in message.parts() {
            match part {
                Part::ToolCall(call) => {
                    if !calls_follow_on || call.id.is_empty() || !seen.insert(&call.id) {
                        return false;
                    }
                    open.insert(&call.id);
                }
                Part::ToolResult(result) if !open.remove(&*result.call_id) => return false,
                _ => {}
            }
        }
        before = Some(message.role());
    }
    open.is_empty() || in_flight
}
