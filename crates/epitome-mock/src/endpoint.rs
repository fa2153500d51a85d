//! The endpoints of the mocked providers, and the mock's own.
//!
//! Paths are taken with and without `/v1`, because base URLs are written both ways.

/// The protocol that an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProviderProtocol {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

/// An endpoint that a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MockEndpoint {
    /// The model answers.
    Generate(ProviderProtocol),
    /// The model answers Gemini's way, where model and streaming are in the path.
    Gemini { model: String, stream: bool },
    /// `/v1/responses/compact`.
    Compact,
    /// The tokens of a request, in the protocol's own way.
    Count(ProviderProtocol),
    /// The tokens of a Gemini request.
    GeminiCount { model: String },
    /// `/v1/embeddings`.
    Embeddings,
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
    /// No endpoint; the protocol decides the form of the 404.
    Unknown(ProviderProtocol),
}

impl MockEndpoint {
    /// Finds the endpoint of a method and a path.
    pub(crate) fn at(method: &str, path: &str, speaks_anthropic: bool) -> MockEndpoint {
        let short = path.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(path);
        match (method, short.trim_end_matches('/')) {
            ("POST", "/chat/completions") => MockEndpoint::Generate(ProviderProtocol::Chat),
            ("POST", "/responses") => MockEndpoint::Generate(ProviderProtocol::Responses),
            ("POST", "/responses/compact") => MockEndpoint::Compact,
            ("POST", "/responses/input_tokens") => MockEndpoint::Count(ProviderProtocol::Responses),
            ("POST", "/embeddings") => MockEndpoint::Embeddings,
            ("POST", "/conversations") => MockEndpoint::Conversations,
            ("POST", "/messages") => MockEndpoint::Generate(ProviderProtocol::Anthropic),
            ("POST", "/messages/count_tokens") => MockEndpoint::Count(ProviderProtocol::Anthropic),
            ("GET", "/models" | "/v1beta/models") => MockEndpoint::Models,
            ("GET", "/mock/stats") => MockEndpoint::Stats,
            ("POST", "/mock/reset") => MockEndpoint::Reset,
            ("POST", "/mock/faults") => MockEndpoint::Faults,
            ("POST", "/mock/window") => MockEndpoint::Window,
            ("GET", rest) if rest.starts_with("/responses/resp_") => {
                MockEndpoint::Stored(rest["/responses/".len()..].to_owned())
            }
            ("POST", rest) => {
                MockEndpoint::gemini(rest).unwrap_or_else(|| MockEndpoint::unknown(rest, speaks_anthropic))
            }
            (_, rest) => MockEndpoint::unknown(rest, speaks_anthropic),
        }
    }

    fn gemini(path: &str) -> Option<MockEndpoint> {
        let (model, verb) = path.strip_prefix("/v1beta/models/")?.split_once(':')?;
        let model = model.to_owned();
        match verb {
            "generateContent" => Some(MockEndpoint::Gemini { model, stream: false }),
            "streamGenerateContent" => Some(MockEndpoint::Gemini { model, stream: true }),
            "countTokens" => Some(MockEndpoint::GeminiCount { model }),
            _ => None,
        }
    }

    fn unknown(path: &str, speaks_anthropic: bool) -> MockEndpoint {
        MockEndpoint::Unknown(match path {
            _ if path.starts_with("/v1beta") => ProviderProtocol::Gemini,
            _ if path.starts_with("/messages") || speaks_anthropic => ProviderProtocol::Anthropic,
            _ => ProviderProtocol::Chat,
        })
    }

    /// Returns the protocol it speaks.
    pub(crate) fn protocol(&self) -> ProviderProtocol {
        match self {
            MockEndpoint::Generate(protocol) | MockEndpoint::Count(protocol) | MockEndpoint::Unknown(protocol) => {
                *protocol
            }
            MockEndpoint::Gemini { .. } | MockEndpoint::GeminiCount { .. } => ProviderProtocol::Gemini,
            MockEndpoint::Compact | MockEndpoint::Stored(_) | MockEndpoint::Conversations => {
                ProviderProtocol::Responses
            }
            MockEndpoint::Models | MockEndpoint::Embeddings => ProviderProtocol::Chat,
            MockEndpoint::Stats | MockEndpoint::Reset | MockEndpoint::Faults | MockEndpoint::Window => {
                ProviderProtocol::Chat
            }
        }
    }

    /// Returns true for the mock's own endpoints, which need no key.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, MockEndpoint::Stats | MockEndpoint::Reset | MockEndpoint::Faults | MockEndpoint::Window)
    }
}
