//! Which of a provider's doors a request knocks at.
//!
//! Paths are taken with and without `/v1`, because base URLs are written both ways.

/// The provider whose manners an endpoint has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

/// A door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The model answers.
    Generate(Protocol),
    /// The model answers Gemini's way, where model and streaming are in the path.
    Gemini { model: String, stream: bool },
    /// `/v1/responses/compact`.
    Compact,
    /// The tokens of a request, in the protocol's own way.
    Count(Protocol),
    /// The tokens of a Gemini request.
    GeminiCount { model: String },
    /// A stored response.
    Stored(String),
    /// A new conversation.
    Conversations,
    /// The models.
    Models,
    /// `/mock/stats`.
    Stats,
    /// `/mock/reset`.
    Reset,
    /// `/mock/faults`.
    Faults,
    /// `/mock/window`.
    Window,
    /// No door.
    Unknown(Protocol),
}

impl Endpoint {
    /// The door at a path.
    pub(crate) fn at(method: &str, path: &str, speaks_anthropic: bool) -> Endpoint {
        let short = path.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(path);
        match (method, short.trim_end_matches('/')) {
            ("POST", "/chat/completions") => Endpoint::Generate(Protocol::Chat),
            ("POST", "/responses") => Endpoint::Generate(Protocol::Responses),
            ("POST", "/responses/compact") => Endpoint::Compact,
            ("POST", "/responses/input_tokens") => Endpoint::Count(Protocol::Responses),
            ("POST", "/conversations") => Endpoint::Conversations,
            ("POST", "/messages") => Endpoint::Generate(Protocol::Anthropic),
            ("POST", "/messages/count_tokens") => Endpoint::Count(Protocol::Anthropic),
            ("GET", "/models" | "/v1beta/models") => Endpoint::Models,
            ("GET", "/mock/stats") => Endpoint::Stats,
            ("POST", "/mock/reset") => Endpoint::Reset,
            ("POST", "/mock/faults") => Endpoint::Faults,
            ("POST", "/mock/window") => Endpoint::Window,
            ("GET", rest) if rest.starts_with("/responses/resp_") => {
                Endpoint::Stored(rest["/responses/".len()..].to_owned())
            }
            ("POST", rest) => Endpoint::gemini(rest).unwrap_or_else(|| Endpoint::unknown(rest, speaks_anthropic)),
            (_, rest) => Endpoint::unknown(rest, speaks_anthropic),
        }
    }

    fn gemini(path: &str) -> Option<Endpoint> {
        let (model, verb) = path.strip_prefix("/v1beta/models/")?.split_once(':')?;
        let model = model.to_owned();
        match verb {
            "generateContent" => Some(Endpoint::Gemini { model, stream: false }),
            "streamGenerateContent" => Some(Endpoint::Gemini { model, stream: true }),
            "countTokens" => Some(Endpoint::GeminiCount { model }),
            _ => None,
        }
    }

    fn unknown(path: &str, speaks_anthropic: bool) -> Endpoint {
        Endpoint::Unknown(match path {
            _ if path.starts_with("/v1beta") => Protocol::Gemini,
            _ if path.starts_with("/messages") || speaks_anthropic => Protocol::Anthropic,
            _ => Protocol::Chat,
        })
    }

    /// Whose manners it has.
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Endpoint::Generate(protocol) | Endpoint::Count(protocol) | Endpoint::Unknown(protocol) => *protocol,
            Endpoint::Gemini { .. } | Endpoint::GeminiCount { .. } => Protocol::Gemini,
            Endpoint::Compact | Endpoint::Stored(_) | Endpoint::Conversations => Protocol::Responses,
            Endpoint::Models => Protocol::Chat,
            Endpoint::Stats | Endpoint::Reset | Endpoint::Faults | Endpoint::Window => Protocol::Chat,
        }
    }

    /// Whether it is the mock's own and needs no key.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Endpoint::Stats | Endpoint::Reset | Endpoint::Faults | Endpoint::Window)
    }
}
