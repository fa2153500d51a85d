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
    /// For a name on a message.
    pub per_name: Tokens,
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
            per_name: Tokens::new(1),
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

    /// A system prompt given beside the messages.
    pub fn system_prompt(&self, counter: &dyn TokenCounter, text: &str) -> Tokens {
        if text.is_empty() { Tokens::ZERO } else { counter.count(text) + self.per_message }
    }

    /// The tools of a request, as the list in its `tools`. Providers rewrite a schema more tersely than its JSON.
    pub fn tool_schemas(&self, counter: &dyn TokenCounter, tools: &[Value]) -> Tokens {
        if tools.is_empty() {
            return Tokens::ZERO;
        }
        let each = |tool: &Value| counter.count(&tool.to_string()) + self.per_tool;
        self.tools + tools.iter().map(each).sum()
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
            assert_eq!(overhead.system_prompt(&Characters::Four, ""), Tokens::ZERO);
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
