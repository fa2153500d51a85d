//! Chat Completions: one stream of chunks for the client out of several, its calls numbered through.
//!
//! The name of a call may come in pieces, so a call is withheld until it is clear whose it is: at once for a name that
//! none of ours begins with, and with the first of its arguments at the latest.

use bytes::Bytes;
use epitome::wire::{may_spell, set_field, splice, without_field};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::OwnNames;
use super::edit::{elements, fields, list, new_event, replace_field, text_at, with_data};
use crate::sse::Event;

/// The parts of an answer that the client was sent, and those of the current one that are withheld.
#[derive(Debug, Default)]
pub(super) struct ChatStream {
    /// The `id` and `created` of the first chunk, each as JSON.
    first: Option<[String; 2]>,
    /// True for a later answer than the first.
    later: bool,
    calls: Vec<Call>,
    /// The index of the client's next call.
    next: u64,
    finished: bool,
    /// Events since it was last clear whose every call is.
    waiting: Vec<Waiting>,
    /// The end of an answer that calls ours.
    held: Vec<Event>,
    /// True if the client was sent the end.
    pub(super) ended: bool,
}

#[derive(Debug)]
struct Waiting {
    event: Event,
    /// The calls that it has pieces of, in the order of the pieces.
    calls: Vec<usize>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    owner: Option<Owner>,
    /// The client's index of it.
    shown: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Client,
    Gateway,
}

/// A piece of a call, as far as it is read.
#[derive(Default, Deserialize)]
struct Piece {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
    custom: Option<Value>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<Value>,
}

impl Piece {
    fn name(&self) -> &str {
        self.function.as_ref().and_then(|function| function.name.as_deref()).unwrap_or_default()
    }

    fn has_arguments(&self) -> bool {
        let arguments = self.function.as_ref().and_then(|function| function.arguments.as_ref());
        arguments.is_some_and(|arguments| !arguments.is_null() && arguments != "")
    }
}

impl ChatStream {
    pub(super) fn take(&mut self, event: &Event, data: &str, own: &OwnNames) -> Vec<Bytes> {
        if self.is_plain(data) {
            return vec![event.raw.clone()];
        }
        let is_last = data.trim() == "[DONE]";
        let choice = choice_of(data);
        let calls = choice.map_or_else(Vec::new, |choice| {
            pieces_of(delta_of(choice)).iter().map(|piece| self.look_at_piece(piece.get(), own)).collect()
        });
        if is_last || choice.is_some_and(ends) {
            // Names cannot go on any more.
            for call in &mut self.calls {
                call.owner.get_or_insert_with(|| owner(&call.name, own));
            }
        }
        self.waiting.push(Waiting { event: event.clone(), calls });
        if self.calls.iter().any(|call| call.owner.is_none()) {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut self.waiting);
        waiting.iter().flat_map(|waiting| self.show(waiting)).collect()
    }

    /// True for a chunk of the first answer that holds words only, as nearly all do: it need not be parsed.
    fn is_plain(&self, data: &str) -> bool {
        let is_quiet = self.first.is_some() && !self.later && self.calls.is_empty() && !self.finished;
        // Another spelling of the same is read.
        is_quiet && data.contains(r#""finish_reason":null"#) && !may_spell(data, "tool_calls")
    }

    pub(super) fn calls_own(&self) -> bool {
        self.calls.iter().any(|call| call.owner == Some(Owner::Gateway))
    }

    pub(super) fn next_answer(&mut self) {
        self.waiting.clear();
        self.held.clear();
        self.calls.clear();
        self.next = 0;
        self.finished = false;
        self.later = true;
    }

    pub(super) fn release(&mut self) -> Vec<Bytes> {
        self.ended |= !self.held.is_empty();
        let theirs = self.calls.iter().any(|call| call.owner == Some(Owner::Client));
        let shown = |event: Event| match event.text().and_then(|data| choice_of(data).map(|choice| (data, choice))) {
            Some((data, choice)) if !theirs => with_data(&event, &splice(data, choice, &stopped(choice))),
            _ => event.raw,
        };
        let waiting = self.waiting.drain(..).map(|waiting| waiting.event.raw);
        waiting.chain(self.held.drain(..).map(shown)).collect()
    }

    /// The error that a stream of this kind ends with.
    pub(super) fn failure(error: &Value) -> Bytes {
        let mut told = json!({"message": "", "type": "server_error", "param": null, "code": null});
        for (name, value) in error.as_object().into_iter().flatten() {
            told[name] = value.clone();
        }
        new_event("", &json!({ "error": told }).to_string())
    }

    fn look_at_piece(&mut self, json: &str, own: &OwnNames) -> usize {
        let piece: Piece = serde_json::from_str(json).unwrap_or_default();
        let at = self.slot(piece.index, piece.id.as_deref().unwrap_or_default());
        let call = &mut self.calls[at];
        match piece.name() {
            name if name.starts_with(call.name.as_str()) => name.clone_into(&mut call.name),
            more => call.name.push_str(more),
        }
        if call.owner.is_none() {
            call.owner = if piece.custom.is_some() || !own.may_begin(&call.name) {
                Some(Owner::Client)
            } else {
                piece.has_arguments().then(|| owner(&call.name, own))
            };
        }
        at
    }

    /// The place of a call. Some servers give every call the same index, but never the same id.
    fn slot(&mut self, index: Option<u64>, id: &str) -> usize {
        let is_same = |call: &Call| {
            let same_id = id.is_empty() || call.id.is_empty() || call.id == id;
            same_id && (index.is_none() || call.index == index)
        };
        if let Some(at) = self.calls.iter().rposition(is_same) {
            return at;
        }
        self.calls.push(Call { index, id: id.to_owned(), ..Call::default() });
        self.calls.len() - 1
    }

    /// Returns what the client sees of an event, once the owner of each call is known.
    fn show(&mut self, waiting: &Waiting) -> Vec<Bytes> {
        let event = &waiting.event;
        let Some((data, chunk)) = event.text().and_then(|data| Some((data, fields(data)?))) else {
            return self.end(event.clone());
        };
        match choice_of(data) {
            Some(choice) => self.show_choice(waiting, data, choice),
            None if chunk.get("choices").is_some_and(|choices| !elements(choices.get()).is_empty()) => {
                vec![self.renamed(event).raw]
            }
            None if self.finished => self.end(self.renamed(event)),
            None => vec![self.renamed(event).raw],
        }
    }

    fn show_choice(&mut self, waiting: &Waiting, data: &str, choice: &str) -> Vec<Bytes> {
        let event = &waiting.event;
        self.remember(data);
        let ends = ends(choice);
        let holds = ends && self.calls_own();
        self.finished |= ends;
        self.ended |= ends && !holds;
        let delta = delta_of(choice);
        let shown = self.shown(delta, &waiting.calls);
        if shown == delta && !holds {
            return vec![self.renamed(event).raw];
        }
        let with = |choice: &str| self.renamed(&Event::read(with_data(event, &exchange_choice(data, choice))));
        let chosen = replace_field(choice, "delta", &shown);
        match (carries(&shown), holds) {
            (true, true) => {
                let last = with(&replace_field(choice, "delta", "{}"));
                let open = with(&replace_field(&chosen, "finish_reason", "null"));
                let open = with_data(&open, &replace_field(open.text().unwrap_or_default(), "usage", "null"));
                self.held.push(last);
                vec![open]
            }
            (false, true) => {
                let last = with(&chosen);
                self.held.push(last);
                Vec::new()
            }
            (false, false) if !ends => Vec::new(),
            _ => vec![with(&chosen).raw],
        }
    }

    /// The delta as the client sees it.
    fn shown(&mut self, delta: &str, calls: &[usize]) -> String {
        let mut shown = delta.to_owned();
        if self.later && fields(delta).is_some_and(|delta| delta.get("role").is_some()) {
            shown = without_field(&shown, "role");
        }
        let pieces = pieces_of(delta);
        let seen: Vec<String> =
            pieces.iter().zip(calls).filter_map(|(piece, call)| self.piece(piece.get(), *call)).collect();
        let is_same = seen.len() == pieces.len() && seen.iter().zip(&pieces).all(|(seen, piece)| seen == piece.get());
        match seen.is_empty() {
            _ if is_same => shown,
            true => without_field(&shown, "tool_calls"),
            false => set_field(&shown, "tool_calls", &list(&seen)),
        }
    }

    /// A piece of a call of the client's, with the client's index.
    fn piece(&mut self, json: &str, call: usize) -> Option<String> {
        let call = &mut self.calls[call];
        if call.owner == Some(Owner::Gateway) {
            return None;
        }
        let next = &mut self.next;
        let index = *call.shown.get_or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        Some(with_index(json, index))
    }

    fn end(&mut self, event: Event) -> Vec<Bytes> {
        if self.calls_own() {
            self.held.push(event);
            return Vec::new();
        }
        self.ended = true;
        vec![event.raw]
    }

    fn remember(&mut self, data: &str) {
        let Some(chunk) = fields(data) else { return };
        let field = |name: &str| chunk.get(name).map_or("null", RawValue::get).to_owned();
        self.first.get_or_insert_with(|| [field("id"), field("created")]);
    }

    /// A chunk of a later answer, as one of the first.
    fn renamed(&self, event: &Event) -> Event {
        let (Some([id, created]), Some(data), true) = (&self.first, event.text(), self.later) else {
            return event.clone();
        };
        let data = replace_field(&replace_field(data, "id", id), "created", created);
        Event::read(with_data(event, &data))
    }
}

fn owner(name: &str, own: &OwnNames) -> Owner {
    if own.has(name) { Owner::Gateway } else { Owner::Client }
}

/// The choice of a chunk, if it has that one alone.
fn choice_of(data: &str) -> Option<&str> {
    match elements(fields(data)?.get("choices")?.get())[..] {
        [choice] if is_first(choice.get()) => Some(choice.get()),
        _ => None,
    }
}

fn exchange_choice(data: &str, choice: &str) -> String {
    choice_of(data).map_or_else(|| data.to_owned(), |old| splice(data, old, choice))
}

fn is_first(choice: &str) -> bool {
    fields(choice).and_then(|choice| choice.get("index")).is_none_or(|index| index.get() == "0")
}

/// True if a choice says why the answer ends.
fn ends(choice: &str) -> bool {
    fields(choice).and_then(|choice| choice.get("finish_reason")).is_some_and(|word| word.get() != "null")
}

fn delta_of(choice: &str) -> &str {
    fields(choice).and_then(|choice| choice.get("delta")).map_or("{}", RawValue::get)
}

fn pieces_of(delta: &str) -> Vec<&RawValue> {
    elements(fields(delta).and_then(|delta| delta.get("tool_calls")).map_or("[]", RawValue::get))
}

/// True if a delta holds anything to read.
fn carries(delta: &str) -> bool {
    let is_empty = |value: &str| matches!(value, "null" | "\"\"" | "[]" | "{}");
    fields(delta).is_some_and(|delta| delta.iter().any(|(_, value)| !is_empty(value.get())))
}

fn with_index(piece: &str, index: u64) -> String {
    let own = fields(piece).and_then(|piece| piece.get("index"));
    match own {
        Some(own) if own.get() != index.to_string() => splice(piece, own.get(), &index.to_string()),
        _ => piece.to_owned(),
    }
}

/// A choice that calls no tool of the client's, which it does not stop for.
pub(super) fn stopped(choice: &str) -> String {
    match text_at(choice, "finish_reason").as_deref() {
        Some("tool_calls") => replace_field(choice, "finish_reason", r#""stop""#),
        _ => choice.to_owned(),
    }
}
