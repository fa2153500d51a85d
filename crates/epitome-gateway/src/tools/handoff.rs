//! Handing a thread over as a tool: MCP has it, a proxied model has not, because it begins no thread.

use epitome::budget::Tokens;
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::Engine;
use epitome_runtime::ids::ThreadId;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

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
    #[serde(default, deserialize_with = "whole_number")]
    budget: Option<u64>,
}

/// A number that may be written with a point: to JSON schema, `800.0` is an integer.
fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let whole = || number.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
    let number = number.as_u64().or_else(|| whole().map(|number| number as u64));
    number.map(Some).ok_or_else(|| D::Error::custom("`budget` is not a whole number from 1 up"))
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

#[cfg(test)]
mod tests {
    use super::HandoffRequest;

    #[test]
    fn a_budget_is_a_whole_number_however_it_is_written() {
        let cases = [
            ("800", Some(800)),
            ("800.0", Some(800)),
            ("1e30", Some(u64::MAX)),
            ("0.5", None),
            ("-3", None),
            ("\"800\"", None),
            ("null", None),
        ];
        for (written, expected) in cases {
            let request = serde_json::from_str(&format!(r#"{{"goal":"go on","budget":{written}}}"#));
            let budget = request.ok().and_then(|request: HandoffRequest| request.tokens());
            assert_eq!(budget.map(epitome::budget::Tokens::get), expected, "{written}");
        }
    }
}
