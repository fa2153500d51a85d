//! Clients: which program sends a request, and what it calls its conversation.
//!
//! What a client calls its conversation only narrows the search for a thread; whether two histories are one is told by
//! their messages alone.

use http::HeaderMap;
use serde::Deserialize;

/// Headers that name a conversation, the most telling first.
const NAMES: [&str; 12] = [
    "x-epitome-thread",
    "x-claude-code-session-id",
    "thread-id",
    "conversation_id",
    "session-id",
    "session_id",
    "x-session-id",
    "x-opencode-session",
    "x-session-affinity",
    "x-litellm-session-id",
    "x-litellm-trace-id",
    "x-conversation-id",
];

/// How programs introduce themselves: by a header that only they send, or by how their user agent begins.
const PROGRAMS: [(&str, &str, &str); 10] = [
    ("claude-code", "x-claude-code-session-id", "claude-cli/"),
    ("codex", "x-codex-turn-state", "codex_"),
    ("opencode", "x-opencode-session", "opencode/"),
    ("pi", "", "pi ("),
    ("qwen-code", "", "qwencode/"),
    ("gemini-cli", "", "geminicli/"),
    ("openai-python", "", "openai/python"),
    ("openai-node", "", "openai/js"),
    ("anthropic-python", "", "anthropic/python"),
    ("anthropic-node", "", "anthropic/js"),
];

/// Who sends a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The program; `other` where it does not say.
    pub name: &'static str,
    /// What it calls its conversation.
    pub session: Option<String>,
    /// What it says the request is part of, where it is a helper's.
    pub role: Option<String>,
}

/// The fields of a body that may name a conversation.
#[derive(Clone, Debug, Default)]
pub struct Named<'a> {
    /// `prompt_cache_key`, as JSON.
    pub prompt_cache_key: Option<&'a str>,
    /// `session_id`, as JSON.
    pub session_id: Option<&'a str>,
    /// `metadata`, as JSON.
    pub metadata: Option<&'a str>,
}

impl Client {
    /// Reads headers and body.
    pub fn of(headers: &HeaderMap, body: &Named<'_>) -> Client {
        let header =
            |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
        let agent = header("user-agent").unwrap_or_default().to_ascii_lowercase();
        let is = |(_, own, begins): &&(&str, &str, &str)| {
            (!own.is_empty() && headers.contains_key(*own)) || agent.starts_with(begins)
        };
        let name = PROGRAMS.iter().find(is).map_or("other", |(name, ..)| name);
        let session = NAMES.iter().find_map(|name| header(name)).map(str::to_owned).or_else(|| body.session());
        // A helper shares its master's session and has a conversation of its own.
        let helper = header("x-claude-code-agent-id");
        let session = match (session, helper) {
            (Some(session), Some(helper)) => Some(format!("{session}/{helper}")),
            (session, _) => session,
        };
        let role =
            ["x-openai-subagent", "x-claude-code-agent-id"].iter().find_map(|name| header(name)).map(str::to_owned);
        Client { name, session, role }
    }

    /// Whether it is about to compact its history by itself, as far as its headers say.
    pub fn is_compacting(&self) -> bool {
        self.role.as_deref() == Some("compact")
    }
}

impl Named<'_> {
    fn session(&self) -> Option<String> {
        let text = |json: Option<&str>| json.and_then(|json| serde_json::from_str::<String>(json).ok());
        text(self.session_id).or_else(|| text(self.prompt_cache_key)).or_else(|| self.metadata.and_then(of_metadata))
    }
}

#[derive(Deserialize)]
struct Metadata {
    session_id: Option<String>,
    user_id: Option<String>,
}

/// The session that Anthropic's `metadata` names: `user_…_session_UUID`, or JSON in a string.
fn of_metadata(json: &str) -> Option<String> {
    let metadata: Metadata = serde_json::from_str(json).ok()?;
    let of_user = |user: String| match user.rsplit_once("_session_") {
        Some((_, session)) => Some(session.to_owned()),
        None => serde_json::from_str::<Metadata>(&user).ok()?.session_id,
    };
    metadata.session_id.or_else(|| metadata.user_id.and_then(of_user))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn client(lines: &[(&'static str, &'static str)], body: Named<'_>) -> (&'static str, Option<String>) {
        let headers =
            lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        let client = Client::of(&headers, &body);
        (client.name, client.session)
    }

    #[test]
    fn programs_and_their_conversations_are_known() {
        let metadata = Named { metadata: Some(r#"{"user_id":"user_1_account_2_session_s-9"}"#), ..Named::default() };
        let newer = Named { metadata: Some(r#"{"user_id":"{\"session_id\":\"s-8\"}"}"#), ..Named::default() };
        let key = Named { prompt_cache_key: Some("\"t-1\""), ..Named::default() };
        for (lines, body, name, session) in [
            (vec![("user-agent", "claude-cli/2.1 (external, cli)")], metadata, "claude-code", Some("s-9")),
            (vec![("x-claude-code-session-id", "s-7")], newer.clone(), "claude-code", Some("s-7")),
            (vec![], newer, "other", Some("s-8")),
            (
                vec![("user-agent", "codex_exec/0.166"), ("session-id", "s"), ("thread-id", "t")],
                key.clone(),
                "codex",
                Some("t"),
            ),
            (vec![("user-agent", "OpenAI/Python 3.49")], key, "openai-python", Some("t-1")),
            (vec![("user-agent", "curl/8")], Named::default(), "other", None),
        ] {
            assert_eq!(client(&lines, body), (name, session.map(str::to_owned)), "{lines:?}");
        }
    }
}
