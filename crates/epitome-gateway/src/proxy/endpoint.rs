//! Endpoints: what a path asks for, and in which dialect.

use epitome::wire::Dialect;
use http::Method;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An answer of the model.
    Answer(Dialect),
    /// How many tokens a request would be.
    Count(Dialect),
    /// The provider's own compaction of a Responses history.
    Compact,
    /// Anything else; it is passed through unread.
    Other,
}

impl Endpoint {
    /// What a path asks for; its query does not matter.
    pub fn of(method: &Method, path: &str) -> Endpoint {
        if method != Method::POST {
            return Endpoint::Other;
        }
        // Base URLs often end with a slash.
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        match parts.strip_prefix(&["v1"]).unwrap_or(&parts) {
            ["chat", "completions"] => Endpoint::Answer(Dialect::Chat),
            ["responses"] => Endpoint::Answer(Dialect::Responses),
            ["messages"] => Endpoint::Answer(Dialect::Anthropic),
            ["messages", "count_tokens"] => Endpoint::Count(Dialect::Anthropic),
            ["responses", "input_tokens"] => Endpoint::Count(Dialect::Responses),
            ["responses", "compact"] => Endpoint::Compact,
            _ => Endpoint::Other,
        }
    }

    /// The dialect of its body.
    pub fn dialect(self) -> Option<Dialect> {
        match self {
            Endpoint::Answer(dialect) | Endpoint::Count(dialect) => Some(dialect),
            Endpoint::Compact => Some(Dialect::Responses),
            Endpoint::Other => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_asked_for() {
        for (path, endpoint) in [
            ("/v1/chat/completions", Endpoint::Answer(Dialect::Chat)),
            ("/chat/completions", Endpoint::Answer(Dialect::Chat)),
            ("/v1//chat/completions", Endpoint::Answer(Dialect::Chat)),
            ("/v1/responses", Endpoint::Answer(Dialect::Responses)),
            ("/v1/responses/", Endpoint::Answer(Dialect::Responses)),
            ("/v1/responses/compact", Endpoint::Compact),
            ("/v1/responses/input_tokens", Endpoint::Count(Dialect::Responses)),
            ("/v1/responses/resp_1", Endpoint::Other),
            ("/v1/messages", Endpoint::Answer(Dialect::Anthropic)),
            ("/v1/messages/count_tokens", Endpoint::Count(Dialect::Anthropic)),
            ("/v1/messages/batches", Endpoint::Other),
            ("/v1/models", Endpoint::Other),
        ] {
            assert_eq!(Endpoint::of(&Method::POST, path), endpoint, "{path}");
            assert_eq!(Endpoint::of(&Method::GET, path), Endpoint::Other, "{path}");
        }
    }
}
