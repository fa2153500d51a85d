//! Identity: which thread a history belongs to.
//!
//! ```text
//! the history goes on from a thread's end      continue
//! it is a thread, or the beginning of one      again
//! it leaves a thread before its end            fork
//! it shares nothing with any                   new
//! ```
//!
//! Histories are compared by their messages: the longest shared beginning wins. Whose key it is and what the client calls
//! its conversation only say where to look.

mod client;
mod line;
mod lines;

pub use client::{Client, Named};
pub use line::{Counted, Facts, Frame, Line, Origin, Parent};
pub use lines::{Lines, Placed, Relation, Wanted, weight};

use epitome::thread::{Chain, MessageId, Raw, Role};
use epitome::wire::{Dialect, decode_message, unmarked};
use epitome_runtime::ids::TenantId;

use crate::caller::Caller;

/// What stands for a conversation that has no name.
const UNNAMED: &str = "-";

/// Where a thread is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Whose threads they are: nobody is found among another's, whatever their key and their words.
    pub tenant: TenantId,
    /// The caller's threads in this dialect.
    pub caller: String,
    /// Those of the conversation that the client names.
    pub name: String,
    /// The dialect.
    pub dialect: Dialect,
}

impl Scope {
    /// The scope of a caller, in a dialect, with what the client calls its conversation.
    pub fn of(dialect: Dialect, caller: &Caller, session: Option<&str>) -> Scope {
        let tenant = caller.tenant.clone();
        let caller = format!("{}:{}/", dialect.name(), short(&blake3::Hash::from_bytes(caller.scope)));
        let session = session.map(|session| short(&blake3::hash(session.as_bytes())));
        let name = format!("{caller}{}", session.unwrap_or_else(|| UNNAMED.to_owned()));
        Scope { tenant, caller, name, dialect }
    }

    /// What its histories begin with.
    fn root(&self) -> blake3::Hash {
        let mut hash = blake3::Hasher::new();
        hash.update(self.tenant.as_str().as_bytes()).update(b"/").update(self.name.as_bytes());
        hash.finalize()
    }

    /// Its name among documents.
    pub fn document(&self) -> String {
        self.name.replace('/', "-")
    }

    /// Whether the client names its conversation.
    pub fn is_named(&self) -> bool {
        !self.name.ends_with(UNNAMED)
    }
}

fn short(hash: &blake3::Hash) -> String {
    hash.to_hex()[..24].to_owned()
}

/// The ids of messages, and where the first of the model's own stands.
#[derive(Clone, Debug, Default)]
pub struct Ids {
    /// The ids, oldest first.
    pub all: Vec<MessageId>,
    /// The place of the first message of the model.
    pub answered: Option<usize>,
}

impl Ids {
    /// The ids that these messages have one after the other.
    pub fn of(dialect: Dialect, messages: &[Raw]) -> Ids {
        let mut chain = Chain::from(MessageId::ROOT);
        let mut ids = Ids::default();
        for (at, raw) in messages.iter().enumerate() {
            let message = decode_message(dialect, raw);
            if ids.answered.is_none() && message.role == Role::Assistant {
                ids.answered = Some(at);
            }
            ids.all.push(chain.push(&message));
        }
        ids
    }
}

/// A history's fingerprint up to each of its messages, by what is written. Cache marks, which clients move about, do not
/// count. Those of the first messages may be known.
pub fn fingerprints(scope: &Scope, messages: &[Raw], known: &[blake3::Hash]) -> Vec<blake3::Hash> {
    let mut tip = known.last().copied().unwrap_or_else(|| scope.root());
    let next = |raw: &Raw| {
        let mut hash = blake3::Hasher::new();
        hash.update(tip.as_bytes());
        for piece in unmarked(raw.as_str()) {
            hash.update(piece.as_bytes());
        }
        tip = hash.finalize();
        tip
    };
    known.iter().copied().chain(messages[known.len()..].iter().map(next)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(tenant: &str, key: u8) -> Caller {
        Caller { tenant: tenant.parse().unwrap(), scope: [key; 32], replaces_key: false }
    }

    #[test]
    fn marks_that_move_do_not_change_a_fingerprint() {
        let scope = Scope::of(Dialect::Anthropic, &caller("acme", 0), None);
        let print = |text: &str| fingerprints(&scope, &[Raw::whole(text)], &[])[0];
        let plain = r#"{"role":"user","content":[{"type":"text","text":"a,\"cache_control\":{}"}]}"#;
        let marked = r#"{"role":"user","content":[{"type":"text","text":"a,\"cache_control\":{}","cache_control":{"type":"ephemeral","ttl":"1h"}}]}"#;
        assert_eq!(print(plain), print(marked));
        let spaced = r#"{"role": "user", "content": [{"type": "text", "text": "a"}]}"#;
        let last =
            r#"{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}"#;
        let first =
            r#"{"role": "user", "content": [{"cache_control": {"type": "ephemeral"}, "type": "text", "text": "a"}]}"#;
        assert_eq!(print(spaced), print(last));
        assert_eq!(print(spaced), print(first));
        assert_ne!(print(plain), print(&plain.replace("a,", "b,")));
    }

    #[test]
    fn scopes_tell_callers_dialects_and_conversations_apart() {
        let scope = |dialect, key, session| Scope::of(dialect, &caller("acme", key), session).name;
        let all = [
            scope(Dialect::Chat, 1, None),
            scope(Dialect::Chat, 2, None),
            scope(Dialect::Chat, 1, Some("a")),
            scope(Dialect::Chat, 1, Some("b")),
            scope(Dialect::Anthropic, 1, None),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one));
        }
        let root = |tenant| Scope::of(Dialect::Chat, &caller(tenant, 1), None).root();
        assert_ne!(root("acme"), root("beta"));
        assert!(!all[2].starts_with(&all[0]), "who names no conversation goes on with none that has a name");
    }
}
