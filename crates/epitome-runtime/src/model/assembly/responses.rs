//! Responses: the output items, each as it came when it was done.

use epitome::summary::Finish;
use epitome::wire::Dialect;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Ears, Flow, StreamEvent, garbled, str_at};
use crate::model::refusal::refused_within;
use crate::model::{ModelAnswer, ModelError, StreamPiece, Usage};

/// Items in the making.
#[derive(Debug, Default)]
pub(in crate::model) struct ResponsesAssembly {
    items: Vec<(u64, String)>,
    any: bool,
    end: Option<String>,
}

/// An event that holds an item, and the response at the end.
#[derive(Deserialize)]
struct Holding<'a> {
    #[serde(default)]
    output_index: u64,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

/// A response, as far as it is read.
#[derive(Deserialize)]
struct Response<'a> {
    id: Option<String>,
    status: Option<String>,
    #[serde(borrow, default)]
    output: Vec<&'a RawValue>,
    usage: Option<Value>,
    incomplete_details: Option<Value>,
}

impl ResponsesAssembly {
    pub(super) fn take(&mut self, event: StreamEvent<'_>, ears: &mut Ears<'_, '_>) -> Result<Flow, ModelError> {
        if event.data.trim() == "[DONE]" {
            return Ok(Flow::Done);
        }
        let value = event.value()?;
        self.any = true;
        let delta = str_at(&value, "delta");
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(event.name);
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => ears.words(delta, StreamPiece::Text),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                ears.words(delta, StreamPiece::Reasoning);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                ears.words(delta, StreamPiece::Arguments);
            }
            "response.output_item.added" => tell_call(value.get("item"), ears),
            "response.output_item.done" => self.keep_item(event.data)?,
            "response.failed" => return Err(refused_within(event.data)),
            "response.completed" | "response.incomplete" | "response.cancelled" => {
                self.end = held(event.data)?.response.map(|response| response.get().to_owned());
                return Ok(Flow::Done);
            }
            _ => {}
        }
        Ok(Flow::On)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any
    }

    pub(super) fn finish(mut self) -> Result<ModelAnswer, ModelError> {
        self.items.sort_by_key(|(index, _)| *index);
        let items = self.items.into_iter().map(|(_, item)| item).collect();
        answer(items, &self.end.unwrap_or_default())
    }

    fn keep_item(&mut self, data: &str) -> Result<(), ModelError> {
        let held = held(data)?;
        self.items.extend(held.item.map(|item| (held.output_index, item.get().to_owned())));
        Ok(())
    }
}

fn held(data: &str) -> Result<Holding<'_>, ModelError> {
    serde_json::from_str(data).map_err(|error| garbled("an event holds no item", &error))
}

fn tell_call(item: Option<&Value>, ears: &mut Ears<'_, '_>) {
    let Some(item) = item else { return };
    if matches!(str_at(item, "type"), "function_call" | "custom_tool_call") {
        ears.call(str_at(item, "call_id"), str_at(item, "name"));
    }
}

/// Reads a response that came whole.
pub(super) fn whole(body: &str) -> Result<ModelAnswer, ModelError> {
    answer(Vec::new(), body)
}

/// The answer of the items that were done, or of those in the response at the end where no event held one.
fn answer(items: Vec<String>, response: &str) -> Result<ModelAnswer, ModelError> {
    let response: Response<'_> =
        serde_json::from_str(response).map_err(|error| garbled("it is no response", &error))?;
    let status = response.status.as_deref().unwrap_or("completed");
    if !matches!(status, "completed" | "incomplete") {
        return Err(ModelError::Garbled(format!("the response is {status:?} and not complete")));
    }
    let listed = || response.output.iter().map(|item| item.get().to_owned()).collect();
    let items: Vec<String> = if items.is_empty() { listed() } else { items };
    let reason = response.incomplete_details.as_ref().map(|details| str_at(details, "reason"));
    let finish = match (status, reason) {
        ("incomplete", Some(reason)) if !reason.is_empty() => Finish::parse(reason),
        _ if items.iter().any(|item| refuses(item)) => Finish::Refusal,
        _ => Finish::parse(status),
    };
    let usage = response.usage.as_ref().and_then(Usage::of_openai);
    Ok(ModelAnswer { id: response.id, ..ModelAnswer::of(Dialect::Responses, items, finish, usage) })
}

fn refuses(item: &str) -> bool {
    let Ok(item) = serde_json::from_str::<Value>(item) else { return false };
    let content = item.get("content").and_then(Value::as_array);
    content.is_some_and(|parts| parts.iter().any(|part| str_at(part, "type") == "refusal"))
}
