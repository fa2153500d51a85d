//! The id of a request: the client's own where it is a plain name, a new one otherwise.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header that clients name their requests in, and that the gateway's own endpoints echo it in.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The header that proxied answers carry it in: theirs has the provider's.
pub const PROXIED_REQUEST_ID: HeaderName = HeaderName::from_static("x-epitome-request");

/// The longest name that is taken over.
const CHARS_MAX: usize = 128;

/// The id of a request: letters, digits and a few marks, safe in a log line and in a header.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// The id that a request came with, or a new one.
    pub fn of(headers: &HeaderMap) -> Self {
        match headers.get(REQUEST_ID).filter(|value| is_plain(value)) {
            Some(value) => RequestId(value.clone()),
            None => RequestId::new(),
        }
    }

    /// A new id; later ones sort after earlier ones.
    #[allow(clippy::new_without_default, reason = "no two are equal")]
    pub fn new() -> Self {
        let text = uuid::Uuid::now_v7().simple().to_string();
        RequestId(HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("none")))
    }

    /// It as text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// It as a header's value.
    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

fn is_plain(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let fine = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
    !bytes.is_empty() && bytes.len() <= CHARS_MAX && bytes.iter().all(fine)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_id_is_kept_where_it_is_a_plain_name() {
        let of = |value: &str| {
            let value = HeaderValue::from_str(value).expect("a header");
            RequestId::of(&[(REQUEST_ID, value)].into_iter().collect()).to_string()
        };
        assert_eq!(of("abc-1.2_3:4"), "abc-1.2_3:4");
        for odd in ["", "a b", "{\"a\":1}", &"x".repeat(CHARS_MAX + 1)] {
            assert_eq!(of(odd).len(), 32, "{odd:?}");
        }
        let drawn: Vec<String> = (0..100).map(|_| RequestId::new().to_string()).collect();
        assert!(drawn.is_sorted() && drawn.windows(2).all(|two| two[0] != two[1]), "{drawn:?}");
    }
}
