//! Responses: one response for the client out of the events of several, its items and events numbered through.
//!
//! A reasoning item belongs to the item behind it, and a provider that keeps items wants both back or neither. So one
//! that has shown nothing yet is held until it is clear whom it belongs to, and goes with a call of the gateway's. One
//! that streams its summary is shown at once: where the provider keeps items, [`can_inject`](super::can_inject) refuses
//! such requests.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use epitome::wire::splice;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::OwnNames;
use super::edit::{edit_field, elements, fields, new_event, replace_field, with_data, with_list};
use super::inject::tool_name;
use crate::sse::Event;

/// The parts of a response that the client was sent, and those of the current answer that are withheld.
#[derive(Debug, Default)]
pub(super) struct ResponsesStream {
    /// The response as it was announced: `id`, `created_at` and `model`, each as JSON.
    announced: Option<[String; 3]>,
    /// The number of the client's next event, and the index of its next item.
    sequence: u64,
    next: u64,
    fates: HashMap<u64, Fate>,
    /// Reasoning items that nobody has claimed.
    unclaimed: Vec<Unclaimed>,
    /// The items that the client was sent whole.
    shown: Vec<String>,
    own: bool,
    /// True if anything was ever withheld, so that the list at the end is not the client's.
    withheld: bool,
    /// True for a later answer than the first.
    later: bool,
    held: Vec<Event>,
    /// True if the client was sent the end.
    pub(super) ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The client has it, as its item of this index.
    Shown(u64),
    Unclaimed,
    Hidden,
}

/// A reasoning item whose follower has not come.
#[derive(Debug)]
struct Unclaimed {
    index: u64,
    events: Vec<Event>,
    /// True if one of our calls came after it.
    precedes_own: bool,
}

/// An event, as far as it is read.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    output_index: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

/// An item, as far as it is read.
#[derive(Deserialize)]
struct ItemHead<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

fn item_head(item: &str) -> Option<ItemHead<'_>> {
    serde_json::from_str(item).ok()
}

fn is_own(item: &str, own: &OwnNames) -> bool {
    item_head(item).is_some_and(|item| item.r#type == "function_call" && own.has(&item.name))
}

fn is_reasoning(item: &str) -> bool {
    item_head(item).is_some_and(|item| item.r#type == "reasoning")
}

/// The items that a client is shown: none of ours, and no reasoning that belongs to ours alone.
pub(super) fn shown_items<'a>(items: &[&'a RawValue], own: &OwnNames) -> Vec<&'a str> {
    let mut shown = Vec::new();
    let mut unclaimed: Vec<(&str, bool)> = Vec::new();
    for item in items.iter().map(|item| item.get()) {
        if is_own(item, own) {
            unclaimed.iter_mut().for_each(|(_, precedes_own)| *precedes_own = true);
        } else if is_reasoning(item) {
            unclaimed.retain(|(_, precedes_own)| !precedes_own);
            unclaimed.push((item, false));
        } else {
            shown.extend(unclaimed.drain(..).map(|(item, _)| item));
            shown.push(item);
        }
    }
    shown.extend(unclaimed.into_iter().filter(|(_, precedes_own)| !precedes_own).map(|(item, _)| item));
    shown
}

/// A response whose list of tools is the client's.
pub(super) fn without_own_tools(response: &str, own: &OwnNames) -> String {
    let Some(list) = fields(response).and_then(|fields| fields.get("tools")) else { return response.to_owned() };
    let tools = elements(list.get());
    let theirs: Vec<&str> = tools
        .iter()
        .map(|tool| tool.get())
        .filter(|tool| !tool_name(tool).is_some_and(|name| own.has(&name)))
        .collect();
    if theirs.len() == tools.len() { response.to_owned() } else { with_list(response, "tools", &theirs) }
}

impl ResponsesStream {
    pub(super) fn take(&mut self, event: &Event, data: &str, own: &OwnNames) -> Vec<Bytes> {
        if data.trim() == "[DONE]" {
            return self.end(event.clone());
        }
        let Ok(head) = serde_json::from_str::<Head<'_>>(data) else { return vec![event.raw.clone()] };
        let response = head.response.map_or("{}", RawValue::get);
        match &*head.r#type {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.announce(event, data, response, own)
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.unclaimed.retain(|item| !item.precedes_own);
                let mut out = self.claim();
                let data = self.ended(data, response, own);
                out.extend(self.end(Event::read(with_data(event, &data))));
                out
            }
            "response.output_item.added" => self.item(event, data, &head, own),
            _ if head.output_index.is_some() => self.within(event, data, &head, own),
            _ => vec![self.numbered(event, data)],
        }
    }

    pub(super) fn calls_own(&self) -> bool {
        self.own
    }

    pub(super) fn next_answer(&mut self) {
        self.held.clear();
        self.fates.clear();
        self.unclaimed.clear();
        self.own = false;
        self.later = true;
    }

    pub(super) fn release(&mut self) -> Vec<Bytes> {
        let held: Vec<Event> = self.held.drain(..).collect();
        self.ended |= !held.is_empty();
        held.iter().map(|event| event.text().map_or(event.raw.clone(), |data| self.numbered(event, data))).collect()
    }

    /// The end of a response that failed.
    pub(super) fn failure(&mut self, error: &Value) -> Bytes {
        let null = || ["null", "0", "null"].map(str::to_owned);
        let [id, created_at, model] = self.announced.clone().unwrap_or_else(null);
        let told = |name: &str| error.get(name).and_then(Value::as_str).filter(|told| !told.is_empty());
        let code = told("code").or_else(|| told("type")).unwrap_or("server_error");
        let error = json!({"code": code, "message": told("message").unwrap_or_default()});
        let response = format!(
            r#"{{"id":{id},"object":"response","created_at":{created_at},"status":"failed","error":{error},"incomplete_details":null,"model":{model},"output":[{}],"usage":null}}"#,
            self.shown.join(",")
        );
        let sequence = self.sequence;
        self.sequence += 1;
        let data = format!(r#"{{"type":"response.failed","sequence_number":{sequence},"response":{response}}}"#);
        new_event("response.failed", &data)
    }

    fn announce(&mut self, event: &Event, data: &str, response: &str, own: &OwnNames) -> Vec<Bytes> {
        let Some(told) = fields(response).filter(|_| !self.later) else { return Vec::new() };
        let field = |name: &str| told.get(name).map_or("null", RawValue::get).to_owned();
        self.announced.get_or_insert_with(|| ["id", "created_at", "model"].map(field));
        let data = edit_field(data, "response", |response| without_own_tools(response, own));
        vec![self.numbered(event, &data)]
    }

    /// The start of an item: shown, held until somebody claims it, or withheld.
    fn item(&mut self, event: &Event, data: &str, head: &Head<'_>, own: &OwnNames) -> Vec<Bytes> {
        let (Some(index), Some(item)) = (index_of(head), head.item.map(RawValue::get)) else {
            return vec![self.numbered(event, data)];
        };
        if is_own(item, own) {
            self.fates.insert(index, Fate::Hidden);
            self.unclaimed.iter_mut().for_each(|item| item.precedes_own = true);
            (self.own, self.withheld) = (true, true);
            return Vec::new();
        }
        if is_reasoning(item) {
            self.unclaimed.retain(|item| !item.precedes_own);
            self.fates.insert(index, Fate::Unclaimed);
            self.unclaimed.push(Unclaimed { index, events: vec![event.clone()], precedes_own: false });
            return Vec::new();
        }
        let mut out = self.claim();
        out.push(self.show(event, data, index));
        out
    }

    /// An event of an item that has begun.
    fn within(&mut self, event: &Event, data: &str, head: &Head<'_>, own: &OwnNames) -> Vec<Bytes> {
        let Some(index) = index_of(head) else { return vec![self.numbered(event, data)] };
        let is_done = head.r#type == "response.output_item.done";
        match self.fates.get(&index) {
            None if is_done => {
                let out = self.item(event, data, head, own);
                self.finish_item(head, index);
                out
            }
            None | Some(Fate::Shown(_)) => {
                let out = vec![self.show(event, data, index)];
                if is_done {
                    self.finish_item(head, index);
                }
                out
            }
            Some(Fate::Hidden) => Vec::new(),
            Some(Fate::Unclaimed) => {
                let waiting = self.unclaimed.iter_mut().find(|item| item.index == index);
                waiting.into_iter().for_each(|item| item.events.push(event.clone()));
                // Words of it are on their way: whoever reads along is not kept waiting.
                if is_done { Vec::new() } else { self.claim() }
            }
        }
    }

    /// Keeps an item that the client has whole.
    fn finish_item(&mut self, head: &Head<'_>, index: u64) {
        if matches!(self.fates.get(&index), Some(Fate::Shown(_))) {
            self.shown.extend(head.item.map(|item| item.get().to_owned()));
        }
    }

    /// Shows the reasoning that was held.
    fn claim(&mut self) -> Vec<Bytes> {
        let claimed = std::mem::take(&mut self.unclaimed);
        let mut out = Vec::new();
        for item in claimed {
            for event in &item.events {
                let Some(data) = event.text() else { continue };
                out.push(self.show(event, data, item.index));
                if let Ok(head) = serde_json::from_str::<Head<'_>>(data)
                    && head.r#type == "response.output_item.done"
                {
                    self.finish_item(&head, item.index);
                }
            }
        }
        out
    }

    /// An event of an item that the client sees, with the client's index.
    fn show(&mut self, event: &Event, data: &str, index: u64) -> Bytes {
        let shown = match self.fates.get(&index) {
            Some(Fate::Shown(shown)) => *shown,
            _ => {
                self.next += 1;
                self.fates.insert(index, Fate::Shown(self.next - 1));
                self.next - 1
            }
        };
        if shown == index {
            self.numbered(event, data)
        } else {
            self.numbered(event, &replace_field(data, "output_index", &shown.to_string()))
        }
    }

    /// The event with the client's next number.
    fn numbered(&mut self, event: &Event, data: &str) -> Bytes {
        let number = fields(data).and_then(|fields| fields.get("sequence_number"));
        let sequence = self.sequence;
        self.sequence += u64::from(number.is_some());
        let data = match number {
            Some(number) if number.get() != sequence.to_string() => {
                Cow::Owned(splice(data, number.get(), &sequence.to_string()))
            }
            _ => Cow::Borrowed(data),
        };
        if event.text() == Some(&*data) { event.raw.clone() } else { with_data(event, &data) }
    }

    /// The end of an answer, holding what the client was shown.
    fn ended(&self, data: &str, response: &str, own: &OwnNames) -> String {
        let announced = self.announced.as_ref().map(|[id, ..]| id.clone());
        let edited = without_own_tools(response, own);
        let told = fields(&edited);
        let kept = told.as_ref().and_then(|told| told.get("store")).is_none_or(|store| store.get() != "false");
        let edited = match announced {
            // A provider that keeps responses knows the whole exchange under the last id alone.
            Some(id) if !kept => replace_field(&edited, "id", &id),
            _ => edited,
        };
        if !self.withheld {
            return replace_field(data, "response", &edited);
        }
        replace_field(data, "response", &with_list(&edited, "output", &self.shown))
    }

    fn end(&mut self, event: Event) -> Vec<Bytes> {
        if self.own {
            self.held.push(event);
            return Vec::new();
        }
        self.ended = true;
        vec![event.text().map_or(event.raw.clone(), |data| self.numbered(&event, data))]
    }
}

fn index_of(head: &Head<'_>) -> Option<u64> {
    head.output_index?.get().parse().ok()
}
