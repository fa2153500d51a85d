//! An answer of the provider, put in the form everybody else reads. Its messages stay as they came.

use epitome::summary::Finish;
use epitome::thread::{Part, Raw, ToolCall};
use epitome::wire::{Dialect, decode_message, may_spell};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{ModelAnswer, Usage};

impl ModelAnswer {
    /// The answer that these messages of a dialect amount to. One that calls tools has ended for that.
    pub fn of(dialect: Dialect, messages: Vec<String>, finish: Finish, usage: Option<Usage>) -> Self {
        let mut text = String::new();
        let mut calls = Vec::new();
        for message in &messages {
            for part in decode_message(dialect, &Raw::whole(message.as_str())).parts {
                match part {
                    Part::Text(words) => text.push_str(&words),
                    Part::ToolCall(call) if dialect != Dialect::Anthropic && !runs_at_provider(message) => {
                        calls.push(call);
                    }
                    _ => {}
                }
            }
            if dialect == Dialect::Anthropic {
                calls.extend(own_calls(message));
            }
        }
        let finish = if finish == Finish::Stop && !calls.is_empty() { Finish::ToolCall } else { finish };
        ModelAnswer { messages, text, calls, finish, usage, id: None }
    }

    /// Tells whether nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }
}

/// Tells whether an item is a call that the provider performs itself.
fn runs_at_provider(item: &str) -> bool {
    may_spell(item, "execution")
        && serde_json::from_str::<Value>(item)
            .is_ok_and(|item| item.get("execution").is_some_and(|who| who == "server"))
}

/// The calls of an Anthropic message that are ours to answer, with their arguments letter for letter.
fn own_calls(message: &str) -> Vec<ToolCall> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Use<'a> {
        r#type: String,
        id: String,
        name: String,
        #[serde(borrow)]
        input: &'a RawValue,
    }
    let Ok(message) = serde_json::from_str::<Message<'_>>(message) else { return Vec::new() };
    let uses = message.content.iter().filter_map(|block| serde_json::from_str::<Use<'_>>(block.get()).ok());
    let call = |own: Use<'_>| ToolCall { id: own.id.into(), name: own.name.into(), arguments: own.input.get().into() };
    uses.filter(|own| own.r#type == "tool_use").map(call).collect()
}

impl Usage {
    /// The usage in an answer of either OpenAI dialect, whose prompt includes what was cached.
    pub(super) fn of_openai(value: &Value) -> Option<Self> {
        let amount = |paths: &[&str]| paths.iter().find_map(|path| value.pointer(path)?.as_u64());
        Some(Usage {
            input: amount(&["/prompt_tokens", "/input_tokens"])?,
            cached: amount(&[
                "/prompt_tokens_details/cached_tokens",
                "/input_tokens_details/cached_tokens",
                "/prompt_cache_hit_tokens",
            ])
            .unwrap_or_default(),
            written: amount(&["/prompt_tokens_details/cache_write_tokens", "/input_tokens_details/cache_write_tokens"])
                .unwrap_or_default(),
            output: amount(&["/completion_tokens", "/output_tokens"]).unwrap_or_default(),
        })
    }

    /// The usage in an answer of Anthropic's, whose input leaves out what was cached.
    pub(super) fn of_anthropic(value: &Value) -> Option<Self> {
        let amount = |name: &str| value.get(name).and_then(Value::as_u64);
        let cached = amount("cache_read_input_tokens").unwrap_or_default();
        let written = amount("cache_creation_input_tokens").unwrap_or_default();
        let input = amount("input_tokens")? + cached + written;
        Some(Usage { input, cached, written, output: amount("output_tokens").unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_prompt_is_whole_in_every_usage() {
        let chat = json!({"prompt_tokens": 25, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 20}});
        assert_eq!(Usage::of_openai(&chat), Some(Usage { input: 25, cached: 20, written: 0, output: 8 }));
        let responses = json!({"input_tokens": 9, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}});
        assert_eq!(Usage::of_openai(&responses), Some(Usage { input: 9, cached: 4, written: 2, output: 1 }));
        let anthropic = json!({"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 7});
        assert_eq!(Usage::of_anthropic(&anthropic), Some(Usage { input: 113, cached: 100, written: 10, output: 7 }));
        assert_eq!(Usage::of_openai(&Value::Null), None);
    }

    #[test]
    fn calls_that_the_provider_answers_are_not_ours_to_answer() {
        let message = json!({"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"p": 1}},
        ]});
        let answer = ModelAnswer::of(Dialect::Anthropic, vec![message.to_string()], Finish::Stop, None);
        let names: Vec<&str> = answer.calls.iter().map(|call| &*call.name).collect();
        assert_eq!((names, answer.finish), (vec!["read"], Finish::ToolCall));
        let items = ["server", "client"].map(|who| {
            json!({"type": "tool_search_call", "call_id": who, "execution": who, "arguments": {}}).to_string()
        });
        let answer = ModelAnswer::of(Dialect::Responses, items.to_vec(), Finish::Stop, None);
        let ids: Vec<&str> = answer.calls.iter().map(|call| &*call.id).collect();
        assert_eq!(ids, ["client"]);
    }
}
