//! The log itself: append, fork, match, and the partition into exchanges and turns.
//!
//! A message in the log is never changed and never removed. Hiding one is a note beside the log.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::chain::Chain;
use super::evicted::{EvictedRun, RestoredMessage};
use super::exchange::{Exchange, Span};
use super::message::{Message, MessageId};
use crate::budget::{Meter, Tokens};
use crate::message::{Determinism, NewMessage, Part, Raw, Role, ToolCall, ToolResult};
use crate::wire::{Dialect, decode_message};

/// An append-only log of messages.
///
/// A message enters in one of three ways: [`append`](Thread::append) gives a new one its id, turn and counts;
/// [`restore`](Thread::restore) takes one back that had them, from wherever it was kept; [`stand_for`](Thread::stand_for) puts
/// one entry where a run of messages is not loaded. Nothing is ever changed or removed. Whatever is derived is kept up as
/// messages enter: ids, running sums, turns, and exchanges, which later messages may only extend or join:
///
/// ```text
/// place      0 user    1 calls a, b   2 user    3 result b   4 result a
/// after 2    [0]       [1]            [2]                                  a and b are unanswered, so 1 is in flight
/// after 3    [0]       [1             2         3]                         b's result joins its call; 2 lies between them
/// after 4    [0]       [1             2         3            4]            all answered: the exchange may be summarized
/// ```
///
/// A plan names places of one thread. It stays valid while messages are appended; a restored thread that lacks a message, or
/// has one more, gives the same places to other messages, which is why ids are a chain that tells.
#[derive(Clone, Debug)]
pub struct Thread {
    messages: Vec<Arc<Message>>,
    /// The tokens of all messages up to and including each.
    totals: Vec<Tokens>,
    exchanges: Vec<Exchange>,
    calls: HashMap<Box<str>, CallSite>,
    chain: Chain,
    /// The id before the first loaded message.
    base: MessageId,
    turn: u32,
    hidden: BTreeMap<usize, Box<str>>,
    evicted: Option<EvictedRun>,
}

/// Where a call was made and whether it has its result.
#[derive(Clone, Debug)]
struct CallSite {
    message: usize,
    tool: Box<str>,
    answered: bool,
}

impl Default for Thread {
    fn default() -> Self {
        Thread::new()
    }
}

impl Thread {
    /// An empty thread.
    pub fn new() -> Self {
        Thread::continuing(MessageId::ROOT, 0)
    }

    /// A thread that is loaded from some message onward: `parent` is the id of the last message left unloaded, `turn`
    /// its turn.
    pub(crate) fn continuing(parent: MessageId, turn: u32) -> Self {
        Thread {
            messages: Vec::new(),
            totals: Vec::new(),
            exchanges: Vec::new(),
            calls: HashMap::new(),
            chain: Chain::from(parent),
            base: parent,
            turn,
            hidden: BTreeMap::new(),
            evicted: None,
        }
    }

    /// Appends one message and gives it its id, its turn and its count.
    pub fn append(&mut self, message: NewMessage, meter: &Meter<'_>) -> MessageId {
        let part_tokens = meter.parts(&message);
        self.place(message, part_tokens, meter)
    }

    /// Appends many messages; the counting is shared out over the cores.
    pub fn extend(&mut self, messages: Vec<NewMessage>, meter: &Meter<'_>) {
        let counts = meter.parts_of_all(&messages);
        for (message, part_tokens) in messages.into_iter().zip(counts) {
            self.place(message, part_tokens, meter);
        }
    }

    fn place(&mut self, mut body: NewMessage, part_tokens: Vec<Tokens>, meter: &Meter<'_>) -> MessageId {
        let place = self.messages.len();
        let id = self.chain.push(&body);
        self.name_results(&mut body);
        let tokens = meter.message(&part_tokens);
        let number = body.number.unwrap_or(place + 1 + self.unloaded());
        let mut message = Message::new(id, body, number, tokens, part_tokens);
        if message.opens_turn() {
            self.turn += 1;
        }
        message.turn = self.turn;
        self.join_exchange(place, &message);
        self.totals.push(self.total() + tokens);
        self.messages.push(Arc::new(message));
        id
    }

    /// Fills in the tool's name where only the call knew it.
    fn name_results(&self, body: &mut NewMessage) {
        for part in &mut body.parts {
            if let Part::ToolResult(result) = part
                && result.tool.is_empty()
                && let Some(site) = self.calls.get(&result.call_id)
            {
                result.tool = site.tool.clone();
            }
        }
    }

    /// Puts a message into the exchange that it belongs to. One that answers an older call merges all exchanges since into that
    /// call's: a span of whole exchanges can then never part a result from its call.
    fn join_exchange(&mut self, place: usize, message: &Message) {
        let from = self.exchange_for(place, message);
        while self.exchanges.last().is_some_and(|exchange| exchange.first > from) {
            let late = self.exchanges.pop().expect("just seen");
            let before = self.exchanges.last_mut().expect("an earlier exchange holds `from`");
            before.unanswered += late.unanswered;
        }
        match self.exchanges.last_mut() {
            Some(last) if last.first == from && from < place => last.end = place + 1,
            _ => self.exchanges.push(Exchange { first: place, end: place + 1, unanswered: 0 }),
        }
        self.note_calls(place, message);
    }

    /// The place where the exchange that a message belongs to begins; its own place if it begins one.
    fn exchange_for(&self, place: usize, message: &Message) -> usize {
        let mut from = place;
        for (_, result) in message.results() {
            if let Some(site) = self.calls.get(&result.call_id)
                && (!site.answered || self.exchanges.last().is_some_and(|last| last.range().contains(&site.message)))
            {
                from = from.min(self.exchange_at(site.message).first);
            }
        }
        if message.role() == Role::Assistant
            && let Some(last) = self.exchanges.last()
            && self.continues_response(message)
        {
            from = from.min(last.first);
        }
        from
    }

    fn continues_response(&self, message: &Message) -> bool {
        let Some(before) = self.messages.last() else { return false };
        if before.role() == Role::Assistant {
            return true;
        }
        let Some(response) = &message.body.response else { return false };
        let last = self.exchanges.last().expect("a message has an exchange");
        self.messages[last.range()].iter().any(|m| m.body.response.as_ref() == Some(response))
    }

    fn note_calls(&mut self, place: usize, message: &Message) {
        let mut balance = 0i64;
        for part in message.parts() {
            match part {
                Part::ToolCall(call) => {
                    let site = CallSite { message: place, tool: call.name.clone(), answered: false };
                    self.calls.insert(call.id.clone(), site);
                    balance += 1;
                }
                Part::ToolResult(result) => {
                    if let Some(site) = self.calls.get_mut(&result.call_id)
                        && !site.answered
                    {
                        site.answered = true;
                        balance -= 1;
                    }
                }
                _ => {}
            }
        }
        let last = self.exchanges.last_mut().expect("just joined");
        last.unanswered = u32::try_from(i64::from(last.unanswered) + balance).unwrap_or(0);
    }

    /// Notes the state that the sources of tool results were in when they were made, by call id. What is noted already stays.
    pub fn note_determinism(&mut self, states: &BTreeMap<String, Determinism>) {
        for message in &mut self.messages {
            let lacks = |result: &ToolResult| result.determinism.is_none() && states.contains_key(&*result.call_id);
            if !message.results().any(|(_, result)| lacks(result)) {
                continue;
            }
            for part in &mut Arc::make_mut(message).body.parts {
                if let Part::ToolResult(result) = part
                    && lacks(result)
                {
                    result.determinism = states.get(&*result.call_id).cloned();
                }
            }
        }
    }

    /// Hides a message from prompts; the replacement is shown in its place.
    pub fn hide(&mut self, place: usize, replacement: impl Into<Box<str>>) {
        assert!(place < self.len(), "message {place} does not exist");
        self.hidden.insert(place, replacement.into());
    }

    /// The replacement of a hidden message.
    pub fn hidden(&self, place: usize) -> Option<&str> {
        self.hidden.get(&place).map(|text| &**text)
    }

    /// The places of all hidden messages with their replacements.
    pub fn all_hidden(&self) -> impl Iterator<Item = (usize, &str)> {
        self.hidden.iter().map(|(place, text)| (*place, &**text))
    }

    /// A thread that shares the first `at` messages with this one. No message is copied.
    pub fn fork(&self, at: usize) -> Thread {
        let mut fork = Thread::continuing(self.base, 0);
        for message in &self.messages[..at] {
            fork.adopt(Arc::clone(message));
        }
        fork.hidden = self.hidden.range(..at).map(|(k, v)| (*k, v.clone())).collect();
        fork.evicted = self.evicted.clone().filter(|evicted| evicted.at < at);
        fork
    }

    /// Takes over a message that has its id, its turn and its counts.
    fn adopt(&mut self, message: Arc<Message>) {
        self.chain.adopt(&message.body, message.id);
        self.turn = message.turn;
        self.join_exchange(self.messages.len(), &message);
        self.totals.push(self.total() + message.tokens);
        self.messages.push(message);
    }

    /// Appends a message that was appended before and comes back from wherever it was kept.
    pub fn restore(&mut self, restored: RestoredMessage, meter: &Meter<'_>) {
        let RestoredMessage { mut body, id, turn, part_tokens } = restored;
        self.name_results(&mut body);
        let number = body.number.unwrap_or(self.len() + 1 + self.unloaded());
        let tokens = meter.message(&part_tokens);
        let message = Message::new(id, body, number, tokens, part_tokens);
        self.adopt(Arc::new(Message { turn, ..message }));
    }

    /// Appends what stands for messages that are not loaded. A thread has one such place at most.
    pub fn stand_for(&mut self, evicted: EvictedRun) {
        assert!(self.evicted.is_none(), "a thread leaves one run of messages unloaded");
        let body = NewMessage { summary: true, number: Some(0), ..evicted.body() };
        let part_tokens = vec![Tokens::ZERO; body.parts.len()];
        let EvictedRun { id, turn, tokens, .. } = evicted;
        self.evicted = Some(EvictedRun { at: self.len(), ..evicted });
        let message = Message::new(id, body, 0, tokens, part_tokens);
        self.adopt(Arc::new(Message { turn, ..message }));
    }

    /// What stands for messages that are not loaded.
    pub fn evicted(&self) -> Option<&EvictedRun> {
        self.evicted.as_ref()
    }

    /// How many fewer messages it has than its log.
    fn unloaded(&self) -> usize {
        self.evicted.as_ref().map_or(0, |evicted| evicted.messages.saturating_sub(1))
    }

    /// The thread with a run of its messages left unloaded, but for those that stay: `text` stands for them.
    pub(crate) fn evict(&self, run: Range<usize>, stays: &dyn Fn(usize) -> bool, text: &str) -> Option<Thread> {
        let gone: Vec<usize> = run.clone().filter(|place| !stays(*place)).collect();
        let last = self.message(*gone.last()?);
        let before = self.evicted.as_ref().filter(|evicted| gone.contains(&evicted.at));
        let evicted = EvictedRun {
            at: run.start,
            messages: gone.len() + before.map_or(0, |evicted| evicted.messages - 1),
            id: last.id,
            oldest: before.map_or(Some(self.message(gone[0]).id), |evicted| evicted.oldest),
            first_turn: before.map_or(self.message(gone[0]).turn, |evicted| evicted.first_turn),
            turn: last.turn,
            tokens: gone.iter().map(|place| self.message(*place).tokens).sum(),
            text: text.to_owned(),
        };
        let mut thread = Thread::continuing(self.base, 0);
        for (place, message) in self.messages.iter().enumerate() {
            if place == run.start {
                thread.stand_for(evicted.clone());
            }
            if gone.binary_search(&place).is_ok() {
                continue;
            }
            if let Some(words) = self.hidden.get(&place) {
                thread.hidden.insert(thread.messages.len(), words.clone());
            }
            thread.adopt(Arc::clone(message));
        }
        // Late results find their calls even where these are not loaded.
        thread.chain = self.chain.clone();
        thread.turn = self.turn;
        Some(thread)
    }

    /// The same thread with its messages as they are written now: other cache marks, other provider ids, the same
    /// meaning. Messages are asked for by their places in the log; one that nobody has stays as it was.
    pub fn rewritten(&self, dialect: Dialect, written: &dyn Fn(usize) -> Option<Raw>) -> Thread {
        let mut thread = Thread::continuing(self.base, 0);
        for (place, message) in self.messages.iter().enumerate() {
            if let Some(evicted) = self.evicted.as_ref().filter(|evicted| evicted.at == place) {
                thread.stand_for(evicted.clone());
                continue;
            }
            let now = written(message.log_place()).filter(|raw| raw.as_str() != message.raw().as_str());
            let body = now.map(|raw| decode_message(dialect, &raw));
            // A plan names parts by their number.
            match body.filter(|body| body.parts.len() == message.body.parts.len()) {
                Some(mut body) => {
                    thread.name_results(&mut body);
                    let body = NewMessage { number: message.body.number, ..body };
                    thread.adopt(Arc::new(Message { body, ..Message::clone(message) }));
                }
                None => thread.adopt(Arc::clone(message)),
            }
        }
        thread.hidden = self.hidden.clone();
        thread.chain = self.chain.clone();
        thread.turn = self.turn;
        thread
    }

    /// How many messages it has.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Its messages, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The message at a place.
    pub fn message(&self, place: usize) -> &Message {
        &self.messages[place]
    }

    /// What people and summaries call the message at a place: `m41`.
    pub fn reference(&self, place: usize) -> String {
        format!("m{}", self.message(place).number())
    }

    /// The id of the newest message.
    pub fn tip(&self) -> MessageId {
        self.chain.tip()
    }

    /// The tokens of all its messages.
    pub fn total(&self) -> Tokens {
        self.totals.last().copied().unwrap_or_default()
    }

    /// The tokens of the messages in a range.
    pub fn tokens(&self, range: Range<usize>) -> Tokens {
        if range.is_empty() {
            return Tokens::ZERO;
        }
        let before = if range.start == 0 { Tokens::ZERO } else { self.totals[range.start - 1] };
        self.totals[range.end - 1] - before
    }

    /// The number of the current turn.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Its exchanges, oldest first.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// The call that a result at a place answers. It is looked for in the result's exchange: an id may be used again
    /// later.
    pub fn call_of(&self, place: usize, result: &ToolResult) -> Option<&ToolCall> {
        let before = &self.messages[self.exchange_at(place).first..=place];
        before.iter().rev().flat_map(|message| message.calls()).find(|call| call.id == result.call_id)
    }

    /// The exchange that a message belongs to.
    pub fn exchange_at(&self, place: usize) -> Exchange {
        self.exchanges[self.exchanges.partition_point(|exchange| exchange.end <= place)]
    }

    /// Where the last exchange with a call still waiting for its result begins, if that call can still be answered.
    pub fn in_flight(&self) -> Option<usize> {
        self.exchanges.last().filter(|exchange| exchange.unanswered > 0).map(|exchange| exchange.first)
    }

    /// The place of the message that opened the current turn.
    pub(crate) fn turn_start(&self) -> usize {
        self.messages.iter().rposition(|message| message.opens_turn()).unwrap_or(0)
    }

    /// The smallest span of whole exchanges that covers a range of messages; `None` for an empty range.
    pub fn span(&self, range: Range<usize>) -> Option<Span> {
        if range.is_empty() || range.end > self.len() {
            return None;
        }
        let first = self.exchange_at(range.start).first;
        let end = self.exchange_at(range.end - 1).end;
        let messages = &self.messages[first..end];
        let unloaded = self.evicted.as_ref().filter(|evicted| evicted.at == first);
        let first_turn = unloaded.map_or(messages[0].turn, |evicted| evicted.first_turn);
        let newest = &messages[messages.len() - 1];
        let oldest = unloaded.map_or(Some(messages[0].id), |evicted| evicted.oldest);
        Some(Span {
            first,
            messages: messages.iter().map(|message| message.id).collect(),
            turns: (first_turn, newest.turn),
            ends: oldest.map(|oldest| (oldest, newest.id)),
        })
    }
}
