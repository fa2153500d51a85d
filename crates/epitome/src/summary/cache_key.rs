//! The cache key of a model's summary.
//!
//! The content hash covers the span's Merkle ids, not its bytes: an id stands for a message and for all before it, so the same
//! words after another beginning have another key. That misses a few hits and never gives a wrong one. The key says nothing of
//! tenants; a store of summaries has to keep them apart.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::structured::SCHEMA_VERSION;
use crate::thread::Span;

/// The hash of everything that a summary is made from.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ContentHash(String);

impl ContentHash {
    pub(super) fn of(span: &Span) -> Self {
        let mut hash = blake3::Hasher::new();
        for id in span.messages() {
            hash.update(id.as_bytes());
        }
        ContentHash(hash.finalize().to_hex().to_string())
    }

    /// Adds something else that the summary is made from, under a name.
    #[must_use]
    pub(super) fn with(&self, name: &str, text: &str) -> Self {
        let mut hash = blake3::Hasher::new();
        for field in [&self.0, name, text] {
            hash.update(&(field.len() as u64).to_le_bytes()).update(field.as_bytes());
        }
        ContentHash(hash.finalize().to_hex().to_string())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0[..12.min(self.0.len())])
    }
}

/// The key under which a summary is cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CacheKey {
    content: ContentHash,
    schema: String,
    policy: String,
    model: String,
    prompt: String,
}

impl CacheKey {
    pub(super) fn new(content: ContentHash, policy: &str, model: &str, prompt: &str) -> Self {
        CacheKey {
            content,
            schema: SCHEMA_VERSION.into(),
            policy: policy.into(),
            model: model.into(),
            prompt: prompt.into(),
        }
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [schema, policy, model, prompt] =
            [&self.schema, &self.policy, &self.model, &self.prompt].map(|field| escape(field));
        write!(f, "{}:{schema}:{policy}:{model}:{prompt}", self.content)
    }
}

/// Escapes the separator: model ids such as `llama3:8b` have it.
fn escape(field: &str) -> String {
    field.replace('%', "%25").replace(':', "%3A")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CacheKey, ContentHash};
    use crate::summary::testing::thread;

    fn hash(lines: &str, from: usize) -> ContentHash {
        let thread = thread(lines);
        ContentHash::of(&thread.span(from..thread.len()).unwrap())
    }

    #[test]
    fn whatever_changes_a_summary_changes_its_key() {
        let base = hash("user: a\nassistant: b", 0);
        let keys = [
            CacheKey::new(base.clone(), "ladder@1", "m", "p"),
            CacheKey::new(hash("user: a\nassistant: c", 0), "ladder@1", "m", "p"),
            CacheKey::new(hash("user: z\nassistant: b", 1), "ladder@1", "m", "p"),
            CacheKey::new(base.with("earlier", "x"), "ladder@1", "m", "p"),
            CacheKey::new(base.with("earlie", "rx"), "ladder@1", "m", "p"),
            CacheKey::new(base.clone(), "ladder@2", "m", "p"),
            CacheKey::new(base.clone(), "ladder@1", "m:p", ""),
            CacheKey::new(base.clone(), "ladder@1", "m", ":p"),
            CacheKey::new(base, "ladder@1", "m", "q"),
        ];
        let different: BTreeSet<String> = keys.iter().map(ToString::to_string).collect();
        assert_eq!(different.len(), keys.len());
    }

    #[test]
    fn a_key_reads_as_five_fields_joined_by_colons() {
        let key = CacheKey::new(hash("user: a", 0), "ladder@1", "llama3:8b", "ab12").to_string();
        let fields: Vec<&str> = key.split(':').collect();
        assert_eq!(fields[0].len(), 64);
        assert_eq!(fields[1..], ["v1.1", "ladder@1", "llama3%3A8b", "ab12"]);
    }
}
