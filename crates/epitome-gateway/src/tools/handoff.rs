//! Handing a thread over as a tool: MCP has it, a proxied model has not, because it begins no thread.

use epitome::budget::Tokens;
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::Engine;
use epitome_runtime::ids::ThreadId;
use serde::Deserialize;
use serde_json::Value;

use super::refusal::sentence;
use super::{Outcome, Tool};

/// Writes a handoff.
pub(crate) const HANDOFF: Tool = Tool {
    name: "handoff",
    description: "Writes what a new thread needs of this one to reach a goal: what was said and done about it, and every word \
                  that binds. Begin the new thread with the text. This thread stays as it is.",
    parameters: r#"{"type":"object","properties":{"goal":{"type":"string","minLength":1,"description":"What the new thread is for"},"budget":{"type":"integer","minimum":1,"description":"The most tokens of the text"}},"required":["goal"],"additionalProperties":false}"#,
};

/// What is asked for: MCP and the API take the same.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandoffRequest {
    pub(crate) goal: String,
    #[serde(default)]
    budget: Option<u64>,
}

impl HandoffRequest {
    /// The most tokens of the text, where somebody says.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        self.budget.map(Tokens::new)
    }
}

/// Performs a call: the text for a model, and the same with its size for a program.
pub(crate) async fn handoff(
    engine: &Engine,
    access: &Access,
    thread: ThreadId,
    arguments: Value,
) -> (Outcome, Option<Value>) {
    let request: HandoffRequest = match serde_json::from_value(arguments) {
        Ok(request) => request,
        Err(error) => {
            let text = format!("The arguments of `handoff` cannot be used: {error}. Call it again with its schema.");
            return (Outcome::failure(text), None);
        }
    };
    let written = match engine.resume(access, thread).await {
        Ok(open) => open.handoff(&request.goal, request.tokens()).await,
        Err(error) => Err(error),
    };
    match written {
        Ok(handoff) => (Outcome::answer(handoff.text.clone()), serde_json::to_value(&handoff).ok()),
        Err(error) => (Outcome::failure(sentence(&error)), None),
    }
}
