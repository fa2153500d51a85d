//! The dialects a message list can be written in.

use std::fmt;
use std::str::FromStr;

/// The protocol whose rules a message list follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// OpenAI Chat Completions: `messages` with `role` and `tool_calls`.
    Chat,
    /// OpenAI Responses: `input` items with `type`.
    Responses,
    /// Anthropic Messages: `messages` whose content is a list of blocks.
    Anthropic,
    /// Vercel AI SDK `CoreMessage` lists: content parts `tool-call` and `tool-result`.
    AiSdk,
}

impl Dialect {
    /// Every dialect, in the order in which they are listed to people.
    pub const ALL: [Dialect; 4] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic, Dialect::AiSdk];

    /// The name used in commands and messages.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Chat => "chat",
            Dialect::Responses => "responses",
            Dialect::Anthropic => "anthropic",
            Dialect::AiSdk => "ai-sdk",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Dialect::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(|| format!("`{name}` is not a dialect; the dialects are chat, responses, anthropic and ai-sdk"))
    }
}
