//! A secret: a key or a header's value that must not be seen.
//!
//! It has no readable `Debug` or `Display`, is not serialized, and can be struck from a text that repeats it.

use std::fmt;
use std::sync::Arc;

const STRUCK: &str = "(secret)";

/// A key, or anything else that must not be seen.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

/// A secret that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} holds no key; set it to the provider's key")]
pub struct NoSecret {
    name: String,
}

impl Secret {
    /// A secret of this text; space around it is dropped, as no key has any.
    pub fn new(text: &str) -> Self {
        Secret(text.trim().into())
    }

    /// The secret in an environment variable.
    pub fn from_env(name: &str) -> Result<Self, NoSecret> {
        match std::env::var(name) {
            Ok(text) if !text.trim().is_empty() => Ok(Secret::new(&text)),
            _ => Err(NoSecret { name: name.to_owned() }),
        }
    }

    /// The secret itself, for whoever sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// A text without the secret in it.
    pub(crate) fn struck_from(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&*self.0, STRUCK) }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STRUCK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STRUCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_seen_nowhere() {
        let secret = Secret::new(" sk-hidden\n");
        assert_eq!(secret.reveal(), "sk-hidden");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "(secret) (secret) Some((secret))");
        assert_eq!(secret.struck_from("the key sk-hidden is wrong"), "the key (secret) is wrong");
        assert_eq!(Secret::new("").struck_from("as it was"), "as it was");
    }

    #[test]
    fn an_absent_variable_is_named() {
        let error = Secret::from_env("EPITOME_NO_SUCH_KEY").unwrap_err();
        assert!(error.to_string().contains("EPITOME_NO_SUCH_KEY"), "{error}");
    }
}
