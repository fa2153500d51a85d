//! Finds the gateway's own keys inside of longer texts: header values, queries, paths.
//!
//! Clients write a key in more ways than anybody can list (`Bearer K`, `Token K`, `Bearer<TAB>K`, a comma list, a cookie,
//! `user:K` in base64, `%6B…`), so no grammar is read here: every window of a text that is as long as a key is compared. A
//! rolling hash under a secret of this process makes that cheap, and its time depends on the lengths of text and keys
//! alone; a window that looks right is compared once more by its keyed BLAKE3 hash. Keys are not kept in the open.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use blake3::Hash;
use epitome_runtime::ids::TenantId;
use epitome_runtime::vault::random_secret;

/// A key of so many bytes cannot be part of another text by accident.
const UNMISTAKABLE_BYTES: usize = 16;
/// The least bytes of base64 that are decoded.
const BASE64_BYTES_MIN: usize = 4;
/// The most times that a text is percent-decoded.
const DECODED_MAX: usize = 3;
/// A Mersenne prime: what the rolling hash is taken modulo of.
const PRIME: u128 = (1 << 61) - 1;
/// The words that may stand right before a key, without anything between the two.
const SCHEMES: [&str; 6] = ["bearer", "token", "basic", "apikey", "key", "digest"];
/// Parts of the names of headers and parameters that carry credentials.
const CREDENTIAL_WORDS: [&str; 9] =
    ["auth", "key", "token", "secret", "cookie", "credential", "passw", "session", "websocket-protocol"];

/// The place of a text in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A place for keys: every key is searched for.
    Credential,
    /// Anywhere else: a short key could be a word of the text, so only long ones are looked for.
    Other,
}

impl Place {
    /// The place that a header or parameter of this name is.
    pub(super) fn named(name: &str) -> Place {
        let name = name.to_ascii_lowercase();
        if CREDENTIAL_WORDS.iter().any(|word| name.contains(word)) { Place::Credential } else { Place::Other }
    }
}

/// The gateway's own keys, by their hashes.
#[derive(Clone)]
pub(super) struct KeyFinder {
    /// A secret of this process, so that nobody can work on the hashes from outside.
    secret: [u8; 32],
    /// The base of the rolling hash, another secret.
    base: u128,
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    bytes: usize,
    rolling: u128,
    hash: Hash,
    tenant: TenantId,
}

impl std::fmt::Debug for KeyFinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyFinder").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl KeyFinder {
    pub(super) fn new<'a>(keys: impl Iterator<Item = (&'a str, TenantId)>) -> KeyFinder {
        let (secret, other) = (random_secret(), random_secret());
        let base = other[..8].iter().fold(0, |base: u128, byte| base << 8 | u128::from(*byte)) % (PRIME - 256) + 256;
        let key = |(text, tenant): (&str, TenantId)| Key {
            bytes: text.len(),
            rolling: rolling(base, text.as_bytes()),
            hash: blake3::keyed_hash(&secret, text.as_bytes()),
            tenant,
        };
        KeyFinder { secret, base, keys: keys.filter(|(text, _)| !text.is_empty()).map(key).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// True if a text contains a key.
    pub(super) fn is_in(&self, text: &[u8], place: Place) -> bool {
        !self.find(text, place).is_empty()
    }

    /// The keys in a text, with their tenants: as it is written, percent-decoded, and what is base64 in it decoded.
    pub(super) fn find(&self, text: &[u8], place: Place) -> Vec<(&TenantId, Vec<u8>)> {
        let mut found = Vec::new();
        if self.keys.is_empty() {
            return found;
        }
        let mut text = text.to_vec();
        for _ in 0..=DECODED_MAX {
            self.find_plain(&text, place, &mut found);
            for decoded in base64_in(&text) {
                self.find_plain(&decoded, place, &mut found);
            }
            match percent_decoded(&text) {
                Some(decoded) => text = decoded,
                None => break,
            }
        }
        found
    }

    /// The text without those of its elements that have a key in them; `None` where it has no key.
    pub(super) fn without(&self, text: &[u8], separator: u8, place: Place) -> Option<Vec<u8>> {
        if !self.is_in(text, place) {
            return None;
        }
        let elements = text.split(|byte| *byte == separator).filter(|element| !self.is_in(element, place));
        let left = elements.collect::<Vec<_>>().join(&separator);
        // A key with a separator in it is in no element, and in the whole.
        Some(if self.is_in(&left, place) { Vec::new() } else { left })
    }

    fn find_plain<'k>(&'k self, text: &[u8], place: Place, found: &mut Vec<(&'k TenantId, Vec<u8>)>) {
        for (at, key) in self.keys.iter().enumerate() {
            let is_first_of_its_length = !self.keys[..at].iter().any(|other| other.bytes == key.bytes);
            if is_first_of_its_length && (place == Place::Credential || key.bytes >= UNMISTAKABLE_BYTES) {
                self.find_of_length(text, key.bytes, found);
            }
        }
    }

    /// Slides a window of this length over the text.
    fn find_of_length<'k>(&'k self, text: &[u8], bytes: usize, found: &mut Vec<(&'k TenantId, Vec<u8>)>) {
        if text.len() < bytes {
            return;
        }
        let highest = (1..bytes).fold(1, |power, _| power * self.base % PRIME);
        let mut hash = rolling(self.base, &text[..bytes]);
        for start in 0..=text.len() - bytes {
            let window = &text[start..start + bytes];
            let is_like_one = self.keys.iter().fold(false, |is, key| is | (key.bytes == bytes && key.rolling == hash));
            if is_like_one && stands_alone(text, start, bytes) {
                let exact = blake3::keyed_hash(&self.secret, window);
                let known = self.keys.iter().filter(|key| key.hash == exact);
                found.extend(known.map(|key| (&key.tenant, window.to_vec())));
            }
            if let Some(next) = text.get(start + bytes) {
                let rest = (hash + PRIME - u128::from(window[0]) * highest % PRIME) % PRIME;
                hash = (rest * self.base + u128::from(*next)) % PRIME;
            }
        }
    }
}

fn rolling(base: u128, text: &[u8]) -> u128 {
    text.iter().fold(0, |hash, byte| (hash * base + u128::from(*byte)) % PRIME)
}

/// Whether a window is a word of its own, but for a scheme that is glued to it, or too long to be anything else.
fn stands_alone(text: &[u8], start: usize, bytes: usize) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let word = text[..start].iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
    let glued = &text[word..start];
    let begins = glued.is_empty() || SCHEMES.iter().any(|scheme| glued.eq_ignore_ascii_case(scheme.as_bytes()));
    bytes >= UNMISTAKABLE_BYTES || (begins && !text.get(start + bytes).is_some_and(is_word))
}

/// The text with its percent signs decoded; `None` where there are none.
fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'%', [high, low, after @ ..]) if digit(high).is_some() && digit(low).is_some() => {
                decoded.push((digit(high).unwrap_or(0) * 16 + digit(low).unwrap_or(0)) as u8);
                rest = after;
            }
            _ => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    (decoded.len() < text.len()).then_some(decoded)
}

/// What the words of a text are that can be read as base64.
fn base64_in(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let engines = [GeneralPurpose::new(&STANDARD, config), GeneralPurpose::new(&URL_SAFE, config)];
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    let words = text.split(move |byte| !is_base64(byte)).filter(|word| word.len() >= BASE64_BYTES_MIN);
    words.filter_map(move |word| engines.iter().find_map(|engine| engine.decode(word).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "ek-acme-0123456789abcdef";
    const SHORT: &str = "ek-acme";

    fn finder(key: &str) -> KeyFinder {
        KeyFinder::new(
            [(key, "acme".parse().expect("a name")), ("another-key/+=", "bolt".parse().expect("a name"))].into_iter(),
        )
    }

    #[test]
    fn a_key_is_found_however_it_is_written() {
        for key in [SHORT, LONG] {
            let basic = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
            let percent: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
            for text in [
                key.to_owned(),
                format!("Bearer {key}"),
                format!("bearer\t{key}"),
                format!("Bearer{key}"),
                format!("TOKEN {key}"),
                format!("token=\"{key}\""),
                format!("sk-theirs, Bearer {key}"),
                format!("a=1; session={key}; b=2"),
                format!("Basic {}", basic(key)),
                format!("Basic {}", basic(&format!("user:{key}"))),
                format!("basic {}", basic(&format!("{key}:"))),
                format!("openai-insecure-api-key.{key}"),
                percent.clone(),
                percent.replace('%', "%25"),
            ] {
                let found = finder(key);
                let tenants: Vec<_> =
                    found.find(text.as_bytes(), Place::Credential).into_iter().map(|(t, _)| t).collect();
                assert!(!tenants.is_empty() && tenants.iter().all(|tenant| tenant.as_str() == "acme"), "{text}");
            }
        }
        assert!(finder(SHORT).is_in(b"another-key/+=", Place::Credential));
    }

    #[test]
    fn a_short_key_is_no_part_of_a_word_and_no_word_of_another_text() {
        for text in ["ek-acme2", "xek-acme", "sk-ek-acme", "ek-acm", "", "ek-acm\u{e9}"] {
            assert!(!finder(SHORT).is_in(text.as_bytes(), Place::Credential), "{text}");
        }
        assert!(!finder(SHORT).is_in(b"agent (ek-acme)", Place::Other));
        assert!(finder(LONG).is_in(format!("agent ({LONG})").as_bytes(), Place::Other));
    }

    #[test]
    fn what_is_left_has_no_key_and_all_the_rest() {
        let left = |text: &str, separator| {
            finder(LONG)
                .without(text.as_bytes(), separator, Place::Credential)
                .map(|left| String::from_utf8(left).expect("text"))
        };
        assert_eq!(left("Bearer sk-theirs", b','), None);
        assert_eq!(left(&format!("Bearer {LONG}"), b','), Some(String::new()));
        assert_eq!(left(&format!("Bearer sk-theirs, Bearer {LONG}"), b','), Some("Bearer sk-theirs".to_owned()));
        assert_eq!(left(&format!("a=1; k={LONG}; b=2"), b';'), Some("a=1; b=2".to_owned()));
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        assert!(!format!("{:?}", finder(LONG)).contains("acme"));
    }
}
