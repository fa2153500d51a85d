//! Whether an exchange can be sent as it stands: every call answered once, right after it.

use std::collections::HashSet;

use crate::thread::{Exchange, Message, Part, Role, Thread};

/// Whether every call of an exchange is answered once and in time, and every result has its call. The calls of the
/// thread's last exchange may still be in flight.
pub fn is_well_formed(thread: &Thread, exchange: &Exchange) -> bool {
    let in_flight = exchange.range().end == thread.len();
    let mut open: HashSet<&str> = HashSet::new();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut before = None;
    for place in exchange.range() {
        let message = thread.message(place);
        let calls_follow_on = open.is_empty() || before == Some(Role::Assistant);
        for part in message.parts() {
            match part {
                Part::ToolCall(call) => {
                    if !calls_follow_on || call.id.is_empty() || !seen.insert(&call.id) {
                        return false;
                    }
                    open.insert(&call.id);
                }
                Part::ToolResult(result) => {
                    if !open.remove(&*result.call_id) {
                        return false;
                    }
                }
                _ => {}
            }
        }
        if message.results().next().is_none() && message.role() != Role::Assistant && !open.is_empty() {
            return false;
        }
        before = Some(message.role());
    }
    open.is_empty() || in_flight
}

/// Whether a message says nothing at all: providers refuse such messages.
pub fn is_empty(message: &Message) -> bool {
    message.parts().iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty()))
}
