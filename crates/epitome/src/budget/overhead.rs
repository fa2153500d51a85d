//! What a provider adds to what we send: the wrapping of messages, calls and results, tool declarations, the start of
//! the reply.
//!
//! Providers do not publish most of these numbers; they are chosen to be a little high. Content is counted elsewhere,
//! once for each message; images have their own rule in `image.rs`.

use serde_json::Value;

use super::tokens::{TokenCounter, Tokens};
use crate::wire::Dialect;

/// The tokens that one dialect adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overhead {
    /// For each message: its role and its delimiters.
    pub per_message: Tokens,
    /// For each tool call beside its name and arguments: id, type, delimiters.
    pub per_call: Tokens,
    /// For each tool result beside its content: the id it answers.
    pub per_result: Tokens,
    /// Once, when any tool is declared.
    pub tools: Tokens,
    /// For each declared tool beside its schema.
    pub per_tool: Tokens,
    /// Once for each request: the start of the reply.
    pub reply: Tokens,
}

impl Overhead {
    /// What this dialect adds.
    pub const fn of(dialect: Dialect) -> Overhead {
        let chat = Overhead {
            per_message: Tokens::new(4),
            per_call: Tokens::new(8),
            per_result: Tokens::new(4),
            tools: Tokens::new(12),
            per_tool: Tokens::new(8),
            reply: Tokens::new(3),
        };
        match dialect {
            Dialect::Chat | Dialect::Responses | Dialect::AiSdk => chat,
            // Declaring a tool makes Anthropic add a system prompt of its own.
            Dialect::Anthropic => Overhead {
                per_call: Tokens::new(12),
                per_result: Tokens::new(12),
                tools: Tokens::new(550),
                per_tool: Tokens::new(16),
                reply: Tokens::new(6),
                ..chat
            },
        }
    }

    /// A system prompt given beside the messages, in one text or in several.
    pub(crate) fn system_prompt<'t>(
        &self,
        counter: &dyn TokenCounter,
        texts: impl IntoIterator<Item = &'t str>,
    ) -> Tokens {
        let texts: Tokens = texts.into_iter().map(|text| counter.count(text)).sum();
        if texts == Tokens::ZERO { Tokens::ZERO } else { texts + self.per_message }
    }

    /// The tools of a request, as the list in its `tools`. Providers rewrite a schema more tersely than its JSON.
    pub(crate) fn tool_schemas(&self, counter: &dyn TokenCounter, tools: &[Value]) -> Tokens {
        if tools.is_empty() {
            return Tokens::ZERO;
        }
        self.tools + tools.iter().map(|tool| self.tool_schema(counter, tool)).sum()
    }

    /// One tool of a request.
    pub fn tool_schema(&self, counter: &dyn TokenCounter, tool: &Value) -> Tokens {
        counter.count(&tool.to_string()) + self.per_tool
    }
}

/// The tokens of a request that are not its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FixedOverhead {
    /// The system prompt.
    pub system: Tokens,
    /// The tools.
    pub tools: Tokens,
    /// The start of the reply.
    pub reply: Tokens,
}

impl FixedOverhead {
    /// All of it.
    pub fn total(self) -> Tokens {
        self.system + self.tools + self.reply
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::budget::Characters;

    #[test]
    fn no_tools_and_no_system_prompt_cost_nothing() {
        for dialect in Dialect::ALL {
            let overhead = Overhead::of(dialect);
            assert_eq!(overhead.tool_schemas(&Characters::Four, &[]), Tokens::ZERO);
            assert_eq!(overhead.system_prompt(&Characters::Four, [""]), Tokens::ZERO);
        }
    }

    #[test]
    fn a_tool_costs_its_json_and_what_its_dialect_adds() {
        let tool = json!({"name": "ls", "description": "lists"});
        for (dialect, cost) in [(Dialect::Chat, 9 + 8 + 12), (Dialect::Anthropic, 9 + 16 + 550)] {
            let tools = [tool.clone()];
            assert_eq!(Overhead::of(dialect).tool_schemas(&Characters::Four, &tools), Tokens::new(cost), "{dialect}");
        }
    }
}
