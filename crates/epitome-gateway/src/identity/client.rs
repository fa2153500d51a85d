//! Clients: which program sends a request, and what it calls its conversation.
//!
//! What a client calls its conversation and which user it names narrow the search for a thread; whether two histories are
//! one is told by their messages alone.

use epitome_runtime::named_enum;
use http::header::{HeaderMap, HeaderName, USER_AGENT};
use serde::Deserialize;

/// Headers that name a conversation, the most telling first.
const NAMES: [HeaderName; 12] = [
    HeaderName::from_static("x-epitome-thread"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("thread-id"),
    HeaderName::from_static("conversation_id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("session_id"),
    HeaderName::from_static("x-session-id"),
    HeaderName::from_static("x-opencode-session"),
    HeaderName::from_static("x-session-affinity"),
    HeaderName::from_static("x-litellm-session-id"),
    HeaderName::from_static("x-litellm-trace-id"),
    HeaderName::from_static("x-conversation-id"),
];

named_enum! {
    /// A program that sends requests.
    #[derive(Default)]
    pub enum Program {
        ClaudeCode = "claude-code",
        Codex = "codex",
        Opencode = "opencode",
        Pi = "pi",
        QwenCode = "qwen-code",
        GeminiCli = "gemini-cli",
        OpenAiPython = "openai-python",
        OpenAiNode = "openai-node",
        AnthropicPython = "anthropic-python",
        AnthropicNode = "anthropic-node",
        #[default]
        Other = "other",
    }
}

/// The signs of programs: a header that only they send, and the beginning of their user agent.
const PROGRAMS: [(Program, Option<HeaderName>, &str); 10] = [
    (Program::ClaudeCode, Some(HeaderName::from_static("x-claude-code-session-id")), "claude-cli/"),
    (Program::Codex, Some(HeaderName::from_static("x-codex-turn-state")), "codex_"),
    (Program::Opencode, Some(HeaderName::from_static("x-opencode-session")), "opencode/"),
    (Program::Pi, None, "pi ("),
    (Program::QwenCode, None, "qwencode/"),
    (Program::GeminiCli, None, "geminicli/"),
    (Program::OpenAiPython, None, "openai/python"),
    (Program::OpenAiNode, None, "openai/js"),
    (Program::AnthropicPython, None, "anthropic/python"),
    (Program::AnthropicNode, None, "anthropic/js"),
];

/// The header that names a helper of Claude Code.
const HELPER: HeaderName = HeaderName::from_static("x-claude-code-agent-id");
/// The header that names a helper of Codex.
const ROLE: HeaderName = HeaderName::from_static("x-openai-subagent");

/// The program that sends a request, and the names that it gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    pub program: Program,
    /// The name that it has for its conversation.
    pub session: Option<String>,
    /// True if that is only a cache key, which many conversations may share.
    pub is_cache_key: bool,
    /// The user that the request is for, where it names one.
    pub user: Option<String>,
    /// The helper that it says the request is of.
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
    /// `user`, as JSON.
    pub user: Option<&'a str>,
    /// `safety_identifier`, as JSON.
    pub safety_identifier: Option<&'a str>,
}

impl Client {
    /// Reads headers and body.
    pub fn of(headers: &HeaderMap, body: &Named<'_>) -> Client {
        let header = |name: &HeaderName| {
            headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty())
        };
        let agent = header(&USER_AGENT).unwrap_or_default();
        let is = |(_, own, begins): &&(Program, Option<HeaderName>, &str)| {
            own.as_ref().is_some_and(|own| headers.contains_key(own))
                || agent.get(..begins.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(begins))
        };
        let program = PROGRAMS.iter().find(is).map_or(Program::Other, |(program, ..)| *program);
        let session = NAMES.iter().find_map(header).map(str::to_owned).or_else(|| body.session());
        let cache_key = body.cache_key();
        let (is_cache_key, session) = match session {
            Some(session) => (false, Some(session)),
            None => (cache_key.is_some(), cache_key),
        };
        // A helper shares its master's session and has a conversation of its own.
        let helper = header(&HELPER);
        let session = match (session, helper) {
            (Some(session), Some(helper)) => Some(format!("{session}/{helper}")),
            (session, _) => session,
        };
        let role = header(&ROLE).or(helper).map(str::to_owned);
        Client { program, session, is_cache_key, user: body.user(), role }
    }

    /// True if it has a name for this conversation and no other.
    pub fn names_its_conversation(&self) -> bool {
        self.session.is_some() && !self.is_cache_key
    }

    /// True if its headers say that it compacts its history by itself.
    pub fn is_compacting(&self) -> bool {
        self.role.as_deref() == Some("compact")
    }
}

impl Named<'_> {
    fn session(&self) -> Option<String> {
        text(self.session_id).or_else(|| self.metadata.and_then(of_metadata))
    }

    fn cache_key(&self) -> Option<String> {
        text(self.prompt_cache_key)
    }

    /// Everything that says which user it is, together: whoever differs in one of them is another.
    fn user(&self) -> Option<String> {
        let named = [text(self.user), text(self.safety_identifier), self.metadata.and_then(user_in_metadata)];
        let named: Vec<String> = named.into_iter().flatten().collect();
        (!named.is_empty()).then(|| named.join("\n"))
    }
}

fn text(json: Option<&str>) -> Option<String> {
    json.and_then(|json| serde_json::from_str::<String>(json).ok()).filter(|text| !text.is_empty())
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

/// The user that Anthropic's `metadata` names: what stands before the session in `user_…_session_UUID` or beside it in JSON
/// in a string, or all of it.
fn user_in_metadata(json: &str) -> Option<String> {
    let user = serde_json::from_str::<Metadata>(json).ok()?.user_id.filter(|user| !user.is_empty())?;
    if let Some((user, _)) = user.rsplit_once("_session_") {
        return Some(user.to_owned()).filter(|user| !user.is_empty());
    }
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&user) {
        Ok(mut fields) => {
            fields.remove("session_id");
            (!fields.is_empty()).then(|| serde_json::Value::Object(fields).to_string())
        }
        Err(_) => Some(user),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(lines: &[(&'static str, &'static str)], body: Named<'_>) -> (&'static str, Option<String>) {
        let headers =
            lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        let client = Client::of(&headers, &body);
        (client.program.name(), client.session)
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

    fn metadata(metadata: &str) -> Named<'_> {
        Named { metadata: Some(metadata), ..Named::default() }
    }

    #[test]
    fn the_user_of_a_request_is_known_wherever_it_is_named() {
        let user = |body: Named<'_>| Client::of(&HeaderMap::new(), &body).user;
        assert_eq!(user(Named { user: Some("\"u1\""), ..Named::default() }).as_deref(), Some("u1"));
        assert_eq!(user(Named { safety_identifier: Some("\"u2\""), ..Named::default() }).as_deref(), Some("u2"));
        let both = Named { user: Some("\"app\""), safety_identifier: Some("\"u2\""), ..Named::default() };
        assert_eq!(user(both).as_deref(), Some("app\nu2"));
        let claude = user(metadata(r#"{"user_id":"user_1_account_2_session_s-9"}"#));
        assert_eq!(claude.as_deref(), Some("user_1_account_2"));
        let newer = |session| format!(r#"{{"user_id":"{{\"account_uuid\":\"a\",\"session_id\":\"{session}\"}}"}}"#);
        assert!(user(metadata(&newer("s-1"))).is_some());
        assert_eq!(user(metadata(&newer("s-1"))), user(metadata(&newer("s-2"))), "a session is no user");
        assert_eq!(user(metadata(r#"{"user_id":"{\"session_id\":\"s-8\"}"}"#)), None);
        assert_eq!(user(metadata(r#"{"user_id":"u3"}"#)).as_deref(), Some("u3"));
        assert_eq!(user(Named { user: Some("\"\""), ..Named::default() }), None);
        assert_eq!(user(Named::default()), None);
    }
}
