//! Master keys: the secrets that an operator configures, each under a short name.
//!
//! A secret is wiped when it is let go, and is in no `Debug` output and no error.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chacha20poly1305::aead::Generate as _;
use chacha20poly1305::aead::array::Array;
use chacha20poly1305::aead::consts::U32;
use zeroize::{Zeroize, Zeroizing};

/// The most characters of a key's name.
const ID_CHARS_MAX: usize = 32;

/// 32 bytes that nobody can guess, from the system.
///
/// # Panics
///
/// When the system has no randomness to give.
pub fn random_secret() -> [u8; 32] {
    Array::<u8, U32>::generate().into()
}

/// The short name of a master key; it stands in what is sealed with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(Box<str>);

impl KeyId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KeyId {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let fine = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_id = !text.is_empty() && text.len() <= ID_CHARS_MAX && text.chars().all(fine);
        if is_id { Ok(KeyId(text.into())) } else { Err(NotAKey::Name) }
    }
}

/// Why a text or a file is not a master key. Never holds any of the text but a key's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotAKey {
    /// There is no name before the secret.
    #[error("a key is written as its name, a colon and its secret, for example `2026-11:` and 64 hex digits")]
    Shape,
    /// The name is not one.
    #[error("the name of a key has 1 to {ID_CHARS_MAX} letters, digits, or any of . _ -")]
    Name,
    /// The secret is not one.
    #[error("the secret of the key {0} is not 32 bytes in base64 or in hex")]
    Secret(KeyId),
    /// Two keys have one name.
    #[error("there are two keys with the name {0}; give each its own")]
    Twice(KeyId),
    /// There is no key in it.
    #[error("there is no key in it; write one as its name, a colon and its secret")]
    Empty,
    /// The file cannot be read.
    #[error("the key file {0} cannot be read: {1}")]
    Unreadable(String, std::io::Error),
}

/// A master key: the secret that the keys of all tenants are derived from.
#[derive(Clone)]
pub struct MasterKey {
    id: KeyId,
    secret: Zeroizing<[u8; 32]>,
}

impl MasterKey {
    /// A key of this name.
    pub fn new(id: KeyId, secret: [u8; 32]) -> Self {
        MasterKey { id, secret: Zeroizing::new(secret) }
    }

    /// A new key with a secret from the system.
    pub fn generate(id: KeyId) -> Self {
        MasterKey::new(id, random_secret())
    }

    /// Its name.
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// Name and secret as they are written into a key file. Whoever has this text can open everything.
    pub fn exposed(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(BASE64.encode(self.secret.as_ref()));
        Zeroizing::new(format!("{}:{}", self.id, secret.as_str()))
    }

    /// A store's own secret in the form of a key; it never seals.
    pub(super) fn of_store(secret: [u8; 32]) -> Self {
        MasterKey::new(KeyId("store".into()), secret)
    }

    pub(super) fn secret(&self) -> &[u8; 32] {
        &self.secret
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl FromStr for MasterKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let (id, secret) = text.trim().split_once(':').ok_or(NotAKey::Shape)?;
        let id: KeyId = id.parse()?;
        match secret_of(secret) {
            Some(secret) => Ok(MasterKey { id, secret }),
            None => Err(NotAKey::Secret(id)),
        }
    }
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

fn secret_of(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let decoded = || BASE64.decode(text).or_else(|_| BASE64_URL.decode(text)).ok().map(Zeroizing::new);
    let bytes = if text.len() == 64 { from_hex(text)? } else { decoded()? };
    let mut secret = Zeroizing::new([0; 32]);
    if bytes.len() != secret.len() {
        return None;
    }
    secret.copy_from_slice(&bytes);
    Some(secret)
}

fn from_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    for pair in text.as_bytes().chunks_exact(2) {
        bytes.push(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?);
    }
    Some(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The configured master keys: the one that seals, and older ones that only open.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// The current one first.
    all: Vec<MasterKey>,
}

impl Keys {
    /// No key: nothing is sealed.
    pub fn none() -> Self {
        Keys::default()
    }

    /// This key seals; these open what was sealed before. Of two with one name the first one counts.
    pub fn new(current: MasterKey, older: Vec<MasterKey>) -> Self {
        Keys { all: std::iter::once(current).chain(older).collect() }
    }

    /// The keys of a file: one in a line, the current one first; empty lines and those after `#` do not count.
    pub fn from_file(path: &Path) -> Result<Self, NotAKey> {
        let unreadable = |reason| NotAKey::Unreadable(path.display().to_string(), reason);
        let mut text = std::fs::read_to_string(path).map_err(unreadable)?;
        let keys = text.parse();
        text.zeroize();
        keys
    }

    pub(super) fn all(&self) -> &[MasterKey] {
        &self.all
    }
}

impl FromStr for Keys {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let lines = text.split(['\n', ',']).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let all = lines.map(str::parse).collect::<Result<Vec<MasterKey>, _>>()?;
        if all.is_empty() {
            return Err(NotAKey::Empty);
        }
        let seen_before = |(at, key): &(usize, &MasterKey)| all[..*at].iter().any(|earlier| earlier.id == key.id);
        match all.iter().enumerate().find(seen_before) {
            Some((_, key)) => Err(NotAKey::Twice(key.id.clone())),
            None => Ok(Keys { all }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    const PADDED: &str = "ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=";
    const URL_SAFE: &str = "ABEiM0RVZneImaq7zN3u_wARIjNEVWZ3iJmqu8zd7v8";

    #[test]
    fn hex_and_both_alphabets_of_base64_are_the_same_secret() {
        let secrets = [HEX, PADDED, URL_SAFE].map(|secret| {
            let key: MasterKey = format!("k1:{secret}").parse().unwrap();
            *key.secret()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
        assert_eq!(secrets[0][..3], [0x00, 0x11, 0x22]);
    }

    #[test]
    fn what_is_not_a_key_is_refused_without_showing_it() {
        let long = "n".repeat(ID_CHARS_MAX + 1);
        let cases = [
            (HEX.to_owned(), "a colon"),
            (format!(":{HEX}"), "the name of a key"),
            (format!("{long}:{HEX}"), "the name of a key"),
            (format!("k 1:{HEX}"), "the name of a key"),
            (format!("k1:{}", &HEX[2..]), "the secret of the key k1"),
            (format!("k1:{}zz", &HEX[2..]), "the secret of the key k1"),
            (format!("k1:{PADDED}AAAA"), "the secret of the key k1"),
            (format!("k1:{HEX}\nk1:{PADDED}"), "two keys with the name k1"),
            ("# nothing\n\n".to_owned(), "no key in it"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Keys>().unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
            let told = format!("{error} {error:?}");
            assert!(!told.contains(&HEX[8..24]) && !told.contains(&PADDED[8..24]), "{told}");
        }
    }

    #[test]
    fn a_key_does_not_show_its_secret() {
        let key: MasterKey = format!("k1:{HEX}").parse().unwrap();
        let keys = Keys::new(key.clone(), vec![]);
        assert_eq!(format!("{key:?}"), r#"MasterKey { id: KeyId("k1"), .. }"#);
        assert_eq!(format!("{keys:?}"), r#"Keys { all: [MasterKey { id: KeyId("k1"), .. }] }"#);
    }

    #[test]
    fn a_key_that_was_written_out_is_read_back() {
        let key = MasterKey::generate("2026-11".parse().unwrap());
        let again: MasterKey = key.exposed().parse().unwrap();
        assert_eq!(again.id(), key.id());
        assert_eq!(again.secret(), key.secret());
    }

    #[test]
    fn a_file_holds_the_current_key_and_then_older_ones() {
        let path = std::env::temp_dir().join(format!("epitome-keys-{}", uuid::Uuid::now_v7()));
        std::fs::write(&path, format!("# rotated in May\nnew:{HEX}\n\n  old:{PADDED}\n")).unwrap();
        let keys = Keys::from_file(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let ids: Vec<&str> = keys.all().iter().map(|key| key.id().as_str()).collect();
        assert_eq!(ids, ["new", "old"]);
        let gone = Keys::from_file(&path).unwrap_err();
        assert!(gone.to_string().contains("cannot be read"), "{gone}");
    }
}
