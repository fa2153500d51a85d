//! The state OpenAI keeps for its clients: responses, conversations and their items, each under the key that made it.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::prompt::input_items;
use super::rejection::ProviderRejection;
use super::request::MockRequest;

/// The most responses and items that are kept; beyond it everything is forgotten, as if it had expired.
const KEPT_MAX: usize = 20_000;

/// Holds stored responses, conversations and items.
#[derive(Default)]
pub(crate) struct ResponseArchive {
    /// All items up to and including a response's own, and the response.
    responses: HashMap<KeyedId, (Vec<Value>, Value)>,
    conversations: HashMap<KeyedId, Vec<Value>>,
    items: HashMap<KeyedId, ArchivedItem>,
}

/// An API key and an id; one key never sees another's ids.
type KeyedId = (String, String);

/// An item that was handed out.
struct ArchivedItem {
    item: Value,
    /// The reasoning that came before it.
    reasoning: Option<String>,
}

impl ResponseArchive {
    /// Returns the request with the items that `previous_response_id`, `conversation` and references stand for.
    pub(crate) fn expand(&self, mut request: MockRequest) -> Result<MockRequest, ProviderRejection> {
        if request.field("previous_response_id").is_some() && request.field("conversation").is_some() {
            return Err(ProviderRejection::invalid(
                "Mutually exclusive parameters: Ensure you are only providing one of: 'previous_response_id' or \
                 'conversation'.",
            )
            .coded("mutually_exclusive_parameters"));
        }
        let mut items = self.held(&request)?;
        items.extend(input_items(&request));
        let items: Result<Vec<Value>, ProviderRejection> =
            items.into_iter().map(|item| self.resolve(&request, item)).collect();
        let items = items?;
        self.judge_reasoning(&request, &items)?;
        let has_input = request.field("input").is_some() || !items.is_empty();
        if let Some(body) = request.body.as_object_mut() {
            if has_input {
                body.insert("input".into(), items.into());
            }
            body.remove("previous_response_id");
            body.remove("conversation");
        }
        Ok(request)
    }

    fn held(&self, request: &MockRequest) -> Result<Vec<Value>, ProviderRejection> {
        if let Some(id) = request.text("previous_response_id") {
            let kept = self.responses.get(&owned(request, id));
            return kept.map(|(items, _)| items.clone()).ok_or_else(|| {
                ProviderRejection::invalid(format!("Previous response with id '{id}' not found."))
                    .about("previous_response_id")
                    .coded("previous_response_not_found")
                    .breaking("previous-response")
            });
        }
        let Some(id) = conversation_id(request) else { return Ok(Vec::new()) };
        self.conversations.get(&owned(request, id)).cloned().ok_or_else(|| {
            ProviderRejection::invalid(format!("Conversation with id '{id}' not found."))
                .with_status(404)
                .breaking("conversation")
        })
    }

    /// Returns the stored item that a reference, or a reasoning without content, stands for.
    fn resolve(&self, request: &MockRequest, item: Value) -> Result<Value, ProviderRejection> {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let sealed = !text("encrypted_content").is_empty();
        let by_id =
            text("type") == "item_reference" || (text("type") == "reasoning" && !text("id").is_empty() && !sealed);
        // With `store: false` the check says it in its own words.
        if !by_id || request.field("store") == Some(&Value::Bool(false)) {
            return Ok(item);
        }
        let id = text("id").to_owned();
        match self.items.get(&owned(request, &id)) {
            Some(kept) => Ok(kept.item.clone()),
            None => {
                Err(ProviderRejection::invalid(format!("Item with id '{id}' not found.")).about("input").breaking("R5"))
            }
        }
    }

    /// Rejects an item that was stored after a reasoning and is sent without it.
    fn judge_reasoning(&self, request: &MockRequest, items: &[Value]) -> Result<(), ProviderRejection> {
        let id = |item: &Value| item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (at, item) in items.iter().enumerate() {
            let Some(kept) = self.items.get(&owned(request, &id(item))) else { continue };
            let Some(reasoning) = &kept.reasoning else { continue };
            if !items[..at].iter().any(|before| id(before) == *reasoning) {
                let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
                let message = format!(
                    "Item '{}' of type '{kind}' was provided without its required 'reasoning' item: '{reasoning}'.",
                    id(item)
                );
                return Err(ProviderRejection::invalid(message).about("input").breaking("R4"));
            }
        }
        Ok(())
    }

    /// Stores an answer, unless the request says `store: false`; a conversation grows either way.
    pub(crate) fn keep(&mut self, request: &MockRequest, original: &MockRequest, response: &Value, output: &[Value]) {
        let mut all = request.list("input").to_vec();
        all.extend_from_slice(output);
        if let Some(id) = conversation_id(original) {
            self.conversations.insert(owned(request, id), all.clone());
        }
        if request.field("store") == Some(&Value::Bool(false)) {
            return;
        }
        if self.items.len() + self.responses.len() >= KEPT_MAX {
            self.items.clear();
            self.responses.clear();
        }
        let mut reasoning = None;
        for item in output {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            let kind = item.get("type").and_then(Value::as_str);
            self.items.insert(owned(request, id), ArchivedItem { item: item.clone(), reasoning: reasoning.clone() });
            if kind == Some("reasoning") {
                reasoning = Some(id.to_owned());
            }
        }
        let id = response.get("id").and_then(Value::as_str).unwrap_or_default();
        self.responses.insert(owned(request, id), (all, response.clone()));
    }

    /// Returns a stored response.
    pub(crate) fn response(&self, key: &str, id: &str) -> Option<Value> {
        self.responses.get(&(key.to_owned(), id.to_owned())).map(|(_, response)| response.clone())
    }

    /// Creates a conversation.
    pub(crate) fn converse(&mut self, request: &MockRequest) -> Value {
        let id = request.seed.id("conv_", self.conversations.len(), 32);
        self.conversations.insert(owned(request, &id), request.list("items").to_vec());
        json!({"id": id, "object": "conversation", "created_at": super::encode::CREATED, "metadata": {}})
    }
}

fn owned(request: &MockRequest, id: &str) -> KeyedId {
    (request.key.clone(), id.to_owned())
}

fn conversation_id(request: &MockRequest) -> Option<&str> {
    let conversation = request.field("conversation")?;
    conversation.as_str().or_else(|| conversation.get("id")?.as_str())
}
