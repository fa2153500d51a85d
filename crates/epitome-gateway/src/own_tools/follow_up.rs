//! The follow-up: the request as it was sent, with the model's answer and the results at the end of its messages.
//!
//! What was sent before stays byte for byte, so the provider finds all of it in its cache.

use epitome::thread::{Media, MediaKind, MediaSource};
use epitome::wire::{Dialect, RawFields, extend_list, item_id, set_field, splice, without_id};
use epitome_runtime::model::ModelAnswer;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::edit::text_at;
use crate::tools::Outcome;

/// An answer that calls nothing but ours, and what came of the calls, in their order: items for the end of the request.
pub(super) fn items(
    dialect: Dialect,
    request: &str,
    answer: &ModelAnswer,
    outcomes: &[Outcome],
) -> Option<Vec<String>> {
    let fields: RawFields<'_> = serde_json::from_str(request).ok()?;
    let mut items = match dialect {
        // The provider stores nothing, so that it cannot look up an id.
        Dialect::Responses if fields.get("store").map(RawValue::get) == Some("false") => {
            without_lost_reasoning(&answer.messages)
        }
        _ => answer.messages.clone(),
    };
    items.extend(results(dialect, answer, outcomes));
    Some(items)
}

/// The request with items at the end of its messages.
pub(super) fn with_items(dialect: Dialect, request: &str, items: &[String]) -> Option<String> {
    let fields: RawFields<'_> = serde_json::from_str(request).ok()?;
    let key = if dialect == Dialect::Responses { "input" } else { "messages" };
    let before = fields.get(key)?.get();
    if before.starts_with('"') {
        // An input that is nothing but words stands for this list.
        let list = format!(r#"[{{"type":"message","role":"user","content":{before}}}]"#);
        Some(set_field(request, key, &extend_list(&list, &items.join(","))))
    } else {
        Some(splice(request, before, &extend_list(before, &items.join(","))))
    }
}

fn results(dialect: Dialect, answer: &ModelAnswer, outcomes: &[Outcome]) -> Vec<String> {
    let answered = answer.calls.iter().zip(outcomes);
    match dialect {
        Dialect::Anthropic => {
            let block = |(call, outcome): (&epitome::thread::ToolCall, &Outcome)| {
                let content = content(dialect, outcome).unwrap_or_else(|| outcome.text.as_str().into());
                let mut block = json!({"type": "tool_result", "tool_use_id": call.id, "content": content});
                if outcome.is_error {
                    block["is_error"] = Value::Bool(true);
                }
                block
            };
            let blocks: Vec<Value> = answered.map(block).collect();
            vec![json!({"role": "user", "content": blocks}).to_string()]
        }
        Dialect::Responses => answered
            .map(|(call, outcome)| {
                let output = content(dialect, outcome).unwrap_or_else(|| outcome.text.as_str().into());
                json!({"type": "function_call_output", "call_id": call.id, "output": output}).to_string()
            })
            .collect(),
        Dialect::Chat | Dialect::AiSdk => {
            let told = answered.map(|(call, outcome)| {
                json!({"role": "tool", "tool_call_id": call.id, "content": outcome.text}).to_string()
            });
            // A tool's message takes words alone: what it shows follows as the user's.
            let shown = outcomes.iter().filter_map(|outcome| content(dialect, outcome));
            told.chain(shown.map(|content| json!({"role": "user", "content": content}).to_string())).collect()
        }
    }
}

/// An outcome as blocks, where it has media that the dialect can show.
fn content(dialect: Dialect, outcome: &Outcome) -> Option<Value> {
    let media: Vec<Value> = outcome.media.iter().filter_map(|media| shown(dialect, media)).collect();
    let kind = if dialect == Dialect::Responses { "input_text" } else { "text" };
    let blocks = std::iter::once(json!({"type": kind, "text": outcome.text}));
    (!media.is_empty()).then(|| blocks.chain(media).collect())
}

/// Media as a block of a request: the part it came as, or a picture of it where only a provider may send that.
fn shown(dialect: Dialect, media: &Media) -> Option<Value> {
    let fits = match dialect {
        Dialect::Anthropic => matches!(&*media.shape, "image" | "document" | "search_result"),
        Dialect::Responses => matches!(&*media.shape, "input_image" | "input_file" | "input_audio"),
        Dialect::Chat | Dialect::AiSdk => matches!(&*media.shape, "image_url" | "file" | "input_audio"),
    };
    if fits {
        let mut block: Value = serde_json::from_str(media.json.as_str()).ok()?;
        block.as_object_mut()?.remove("cache_control");
        return Some(block);
    }
    let MediaSource::Base64(data) = &media.source else { return None };
    let url = format!("data:{};base64,{data}", media.media_type.as_deref().unwrap_or("image/png"));
    match (dialect, media.kind) {
        (Dialect::Responses, MediaKind::Image) => Some(json!({"type": "input_image", "image_url": url})),
        (Dialect::Chat, MediaKind::Image) => Some(json!({"type": "image_url", "image_url": {"url": url}})),
        _ => None,
    }
}

/// The items without reasoning that only an id tells of. What stood behind such an item loses its id as well, by which
/// the provider would miss the reasoning.
fn without_lost_reasoning(items: &[String]) -> Vec<String> {
    let is_lost = |item: &String| {
        text_at(item, "type").as_deref() == Some("reasoning")
            && item_id(item).is_some()
            && text_at(item, "encrypted_content").is_none_or(|sealed| sealed.is_empty())
    };
    if !items.iter().any(is_lost) {
        return items.to_vec();
    }
    items.iter().filter(|item| !is_lost(item)).map(|item| without_id(item)).collect()
}

#[cfg(test)]
mod tests {
    use epitome::wire::media_in;

    use super::*;

    fn shows(dialect: Dialect, block: &Value) -> Option<Value> {
        let outcome = Outcome { media: media_in(&block.to_string()), ..Outcome::answer("Here it is.") };
        assert_eq!(outcome.media.len(), 1, "{block}");
        content(dialect, &outcome).map(|content| content[1].clone())
    }

    #[test]
    fn media_is_shown_as_the_part_it_came_as_or_as_a_picture_where_only_a_provider_sends_that() {
        let data = "iVBORw0KGgoAAAANSUhEUgAAASwAAADICAAAAAB3tIOJAAAA";
        let url = format!("data:image/png;base64,{data}");
        let source = json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"});
        let picture = json!({"type": "input_image", "image_url": url});
        for (dialect, came, shown) in [
            (
                Dialect::Anthropic,
                json!({"type": "document", "source": source, "cache_control": {"type": "ephemeral"}}),
                Some(json!({"type": "document", "source": source})),
            ),
            (
                Dialect::Anthropic,
                json!({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "document", "source": source}]}),
                Some(json!({"type": "document", "source": source})),
            ),
            (Dialect::Responses, picture.clone(), Some(picture.clone())),
            (Dialect::Responses, json!({"type": "image_generation_call", "result": data}), Some(picture.clone())),
            (
                Dialect::Responses,
                json!({"type": "computer_call_output", "call_id": "a", "output": {"type": "computer_screenshot", "image_url": url}}),
                Some(picture),
            ),
            (
                Dialect::Chat,
                json!({"type": "file", "file": {"file_id": "f"}}),
                Some(json!({"type": "file", "file": {"file_id": "f"}})),
            ),
            (Dialect::Anthropic, json!({"type": "container_upload", "file_id": "f"}), None),
        ] {
            assert_eq!(shows(dialect, &came), shown, "{came}");
        }
    }
}
