//! The dialects that are spoken over HTTP, and what differs between them besides bodies: the address and the key.

use epitome::wire::Dialect;
use reqwest::Url;

use super::secret::Secret;

/// The version of the Messages protocol that is asked for.
pub(super) const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A dialect a provider can be spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Chat,
    Responses,
    Anthropic,
}

impl Protocol {
    /// The protocol of a dialect; one of them is only written, never spoken.
    pub(super) fn of(dialect: Dialect) -> Option<Self> {
        match dialect {
            Dialect::Chat => Some(Protocol::Chat),
            Dialect::Responses => Some(Protocol::Responses),
            Dialect::Anthropic => Some(Protocol::Anthropic),
            Dialect::AiSdk => None,
        }
    }

    pub(super) fn dialect(self) -> Dialect {
        match self {
            Protocol::Chat => Dialect::Chat,
            Protocol::Responses => Dialect::Responses,
            Protocol::Anthropic => Dialect::Anthropic,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Protocol::Chat => "/chat/completions",
            Protocol::Responses => "/responses",
            Protocol::Anthropic => "/messages",
        }
    }

    /// The base address with the protocol's path at its end, whatever part of it is already there.
    pub(super) fn address(self, base: &Url) -> Url {
        address_of(base, self.path())
    }

    /// The header that carries a key.
    pub(super) fn key_header(self, key: &Secret) -> (&'static str, String) {
        let is_token = key.reveal().starts_with("sk-ant-oat");
        match self {
            Protocol::Anthropic if !is_token => ("x-api-key", key.reveal().to_owned()),
            _ => ("authorization", format!("Bearer {}", key.reveal())),
        }
    }
}

/// The base address with a path at its end, whatever part of it is already there.
pub(super) fn address_of(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let given = base.path().trim_end_matches('/').to_owned();
    let path = match () {
        () if given.ends_with(path) => given,
        () if has_version(&given) => given + path,
        () => given + "/v1" + path,
    };
    url.set_path(&path);
    url
}

/// Tells whether a path names a version anywhere, as `/v1`, `/api/v4` and `/v1beta/openai` do.
fn has_version(path: &str) -> bool {
    let is_version =
        |part: &str| part.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    path.split('/').any(is_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_same_whatever_part_of_it_is_given() {
        for (base, protocol, address) in [
            ("http://h:1", Protocol::Chat, "http://h:1/v1/chat/completions"),
            ("http://h:1/", Protocol::Chat, "http://h:1/v1/chat/completions"),
            ("http://h:1/v1", Protocol::Chat, "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/", Protocol::Anthropic, "http://h:1/v1/messages"),
            ("http://h:1/v1/responses", Protocol::Responses, "http://h:1/v1/responses"),
            ("https://h/api", Protocol::Chat, "https://h/api/v1/chat/completions"),
            ("https://h/api/paas/v4", Protocol::Chat, "https://h/api/paas/v4/chat/completions"),
            ("https://h/v1beta/openai/", Protocol::Chat, "https://h/v1beta/openai/chat/completions"),
            ("https://h/vendor?a=b", Protocol::Responses, "https://h/vendor/v1/responses?a=b"),
        ] {
            assert_eq!(protocol.address(&base.parse().unwrap()).as_str(), address, "{base}");
        }
    }

    #[test]
    fn a_key_goes_where_the_protocol_looks_for_it() {
        let key = |protocol: Protocol, key: &str| protocol.key_header(&Secret::new(key));
        assert_eq!(key(Protocol::Chat, "k"), ("authorization", "Bearer k".into()));
        assert_eq!(key(Protocol::Anthropic, "sk-ant-api"), ("x-api-key", "sk-ant-api".into()));
        assert_eq!(key(Protocol::Anthropic, "sk-ant-oat01"), ("authorization", "Bearer sk-ant-oat01".into()));
    }
}
