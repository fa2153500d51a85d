//! What OpenAI keeps for its clients: responses, conversations, and the items in them, each for the key it belongs to.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::asked::Asked;
use super::prompt::input_items;
use super::refusal::Complaint;

/// The most responses and items that are kept; beyond it everything is forgotten, as if it had expired.
const KEPT_MAX: usize = 20_000;

/// What is kept.
#[derive(Default)]
pub(crate) struct Archive {
    /// All items up to and including a response's own, and the response.
    responses: HashMap<Owned, (Vec<Value>, Value)>,
    conversations: HashMap<Owned, Vec<Value>>,
    items: HashMap<Owned, Kept>,
}

/// A key and an id.
type Owned = (String, String);

/// An item that was handed out.
struct Kept {
    item: Value,
    /// The reasoning that came before it.
    reasoning: Option<String>,
}

impl Archive {
    /// The request with everything in it that the server keeps for it.
    pub(crate) fn expand(&self, mut asked: Asked) -> Result<Asked, Complaint> {
        if asked.field("previous_response_id").is_some() && asked.field("conversation").is_some() {
            return Err(Complaint::invalid(
                "Mutually exclusive parameters: Ensure you are only providing one of: 'previous_response_id' or \
                 'conversation'.",
            )
            .coded("mutually_exclusive_parameters"));
        }
        let mut items = self.held(&asked)?;
        items.extend(input_items(&asked));
        let items: Result<Vec<Value>, Complaint> = items.into_iter().map(|item| self.resolve(&asked, item)).collect();
        let items = items?;
        self.judge_reasoning(&asked, &items)?;
        let has_input = asked.field("input").is_some() || !items.is_empty();
        if let Some(body) = asked.body.as_object_mut() {
            if has_input {
                body.insert("input".into(), items.into());
            }
            body.remove("previous_response_id");
            body.remove("conversation");
        }
        Ok(asked)
    }

    fn held(&self, asked: &Asked) -> Result<Vec<Value>, Complaint> {
        if let Some(id) = asked.text("previous_response_id") {
            let kept = self.responses.get(&owned(asked, id));
            return kept.map(|(items, _)| items.clone()).ok_or_else(|| {
                Complaint::invalid(format!("Previous response with id '{id}' not found."))
                    .about("previous_response_id")
                    .coded("previous_response_not_found")
                    .breaking("previous-response")
            });
        }
        let Some(id) = conversation_id(asked) else { return Ok(Vec::new()) };
        self.conversations.get(&owned(asked, id)).cloned().ok_or_else(|| {
            Complaint::invalid(format!("Conversation with id '{id}' not found."))
                .with_status(404)
                .breaking("conversation")
        })
    }

    /// The item that a reference, or a reasoning without content, stands for.
    fn resolve(&self, asked: &Asked, item: Value) -> Result<Value, Complaint> {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let sealed = !text("encrypted_content").is_empty();
        let by_id =
            text("type") == "item_reference" || (text("type") == "reasoning" && !text("id").is_empty() && !sealed);
        // With `store: false` the check says it in its own words.
        if !by_id || asked.field("store") == Some(&Value::Bool(false)) {
            return Ok(item);
        }
        let id = text("id").to_owned();
        match self.items.get(&owned(asked, &id)) {
            Some(kept) => Ok(kept.item.clone()),
            None => Err(Complaint::invalid(format!("Item with id '{id}' not found.")).about("input").breaking("R5")),
        }
    }

    /// An item that was kept with its reasoning comes back with it.
    fn judge_reasoning(&self, asked: &Asked, items: &[Value]) -> Result<(), Complaint> {
        let id = |item: &Value| item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        for (at, item) in items.iter().enumerate() {
            let Some(kept) = self.items.get(&owned(asked, &id(item))) else { continue };
            let Some(reasoning) = &kept.reasoning else { continue };
            if !items[..at].iter().any(|before| id(before) == *reasoning) {
                let kind = item.get("type").and_then(Value::as_str).unwrap_or("message");
                let message = format!(
                    "Item '{}' of type '{kind}' was provided without its required 'reasoning' item: '{reasoning}'.",
                    id(item)
                );
                return Err(Complaint::invalid(message).about("input").breaking("R4"));
            }
        }
        Ok(())
    }

    /// Keeps an answer, unless the request says that it shall not be kept.
    pub(crate) fn keep(&mut self, asked: &Asked, original: &Asked, response: &Value, output: &[Value]) {
        let mut all = asked.list("input").to_vec();
        all.extend_from_slice(output);
        if let Some(id) = conversation_id(original) {
            self.conversations.insert(owned(asked, id), all.clone());
        }
        if asked.field("store") == Some(&Value::Bool(false)) {
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
            self.items.insert(owned(asked, id), Kept { item: item.clone(), reasoning: reasoning.clone() });
            if kind == Some("reasoning") {
                reasoning = Some(id.to_owned());
            }
        }
        let id = response.get("id").and_then(Value::as_str).unwrap_or_default();
        self.responses.insert(owned(asked, id), (all, response.clone()));
    }

    /// A kept response.
    pub(crate) fn response(&self, key: &str, id: &str) -> Option<Value> {
        self.responses.get(&(key.to_owned(), id.to_owned())).map(|(_, response)| response.clone())
    }

    /// A new conversation.
    pub(crate) fn converse(&mut self, asked: &Asked) -> Value {
        let id = asked.seed.id("conv_", self.conversations.len(), 32);
        self.conversations.insert(owned(asked, &id), asked.list("items").to_vec());
        json!({"id": id, "object": "conversation", "created_at": super::speak::CREATED, "metadata": {}})
    }
}

fn owned(asked: &Asked, id: &str) -> Owned {
    (asked.key.clone(), id.to_owned())
}

fn conversation_id(asked: &Asked) -> Option<&str> {
    let conversation = asked.field("conversation")?;
    conversation.as_str().or_else(|| conversation.get("id")?.as_str())
}
