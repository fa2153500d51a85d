//! The dialects a message list can be written in.

use std::str::FromStr;

crate::named_enum! {
    /// The protocol whose rules a message list follows.
    #[derive(PartialOrd, Ord)]
    pub enum Dialect {
        /// OpenAI Chat Completions: `messages` with `role` and `tool_calls`.
        Chat = "chat",
        /// OpenAI Responses: `input` items with `type`.
        Responses = "responses",
        /// Anthropic Messages: `messages` whose content is a list of blocks.
        Anthropic = "anthropic",
        /// Vercel AI SDK `CoreMessage` lists: content parts `tool-call` and `tool-result`.
        AiSdk = "ai-sdk",
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Dialect::from_name(name)
            .ok_or_else(|| format!("`{name}` is not a dialect; the dialects are chat, responses, anthropic and ai-sdk"))
    }
}
