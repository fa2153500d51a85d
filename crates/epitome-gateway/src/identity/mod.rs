//! Identity: which thread a history belongs to.
//!
//! ```text
//! the history goes on from a thread's end      continue
//! it is a thread, or the beginning of one      again
//! it leaves a thread before its end            fork
//! it shares nothing with any                   new
//! ```
//!
//! Histories are compared by their messages: the longest shared beginning wins. Whose key it is, which user the request
//! names and what the client calls its conversation say where to look, and nothing is looked for anywhere else: what is in
//! one scope never reaches another.

mod cached_thread;
mod client;
mod thread_cache;

pub use cached_thread::{CachedThread, Counted, Origin, Parent, RequestFrame};
pub use client::{Client, Named, Program};
pub use thread_cache::{Relation, ThreadCache, ThreadMatch, ThreadQuery, loaded_bytes};

use epitome::thread::{Chain, MessageId, Raw};
use epitome::wire::{Dialect, decode_message, unmarked};
use epitome_runtime::ids::TenantId;

use crate::caller::Caller;

/// The name of conversations without a name.
const UNNAMED: &str = "-";

/// The scope in which a thread is searched, and that pins, answers and traces belong to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The tenant; no thread of another one is found, whatever key and messages a request has.
    pub tenant: TenantId,
    /// The threads of this caller, in this dialect, of this conversation and this user, as far as the request names them.
    pub name: String,
    pub dialect: Dialect,
    /// The same without the words that a request brought for itself alone.
    party: String,
    is_named: bool,
    keeps_pins: bool,
}

impl Scope {
    /// The scope of a caller's request, in a dialect.
    ///
    /// Where a request names neither its conversation nor its user, two people behind one key who say the same cannot be told
    /// apart. Then the words that it wants in its prompt (its pins and instructions) are part of the scope: a thread is only
    /// shared by requests that bring the same, and no one's words get into a plan that another's prompt is made of.
    pub fn of(dialect: Dialect, caller: &Caller, client: &Client, words: Option<&str>) -> Scope {
        let hashed = |text: &str| short(&blake3::hash(text.as_bytes()));
        let key = short(&blake3::Hash::from_bytes(caller.scope));
        let session = client.session.as_deref().map_or_else(|| UNNAMED.to_owned(), hashed);
        let user = client.user.as_deref().map(|user| format!("~{}", hashed(user))).unwrap_or_default();
        let party = format!("{}:{key}/{session}{user}", dialect.name());
        let keeps_pins = client.user.is_some() || client.names_its_conversation();
        let name = match words.filter(|_| !keeps_pins) {
            Some(words) => format!("{party}+{}", hashed(words)),
            None => party.clone(),
        };
        Scope { tenant: caller.tenant.clone(), name, dialect, party, is_named: client.session.is_some(), keeps_pins }
    }

    /// The fingerprint that its histories begin with.
    fn root(&self) -> blake3::Hash {
        let mut hash = blake3::Hasher::new();
        hash.update(self.tenant.as_str().as_bytes()).update(b"/").update(self.name.as_bytes());
        hash.finalize()
    }

    /// Returns its name among documents.
    pub fn document(&self) -> String {
        self.name.replace('/', "-")
    }

    /// Returns the name of an answer among documents. Pins and instructions are no part of it: the history of an answer has
    /// none of them.
    pub fn answer(&self, id: &str) -> String {
        format!("{}-{id}", self.party.replace('/', "-"))
    }

    /// True if the client names its conversation.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// True if pins outlive the request that brings them: only if it is known whose they are.
    pub fn keeps_pins(&self) -> bool {
        self.keeps_pins
    }
}

fn short(hash: &blake3::Hash) -> String {
    hash.to_hex()[..24].to_owned()
}

/// Computes the ids that these messages have as a thread of their own.
pub fn message_ids(dialect: Dialect, messages: &[Raw]) -> Vec<MessageId> {
    let mut chain = Chain::from(MessageId::ROOT);
    messages.iter().map(|raw| chain.push(&decode_message(dialect, raw))).collect()
}

/// Computes a history's fingerprint up to each of its messages, without cache marks, which clients move about.
pub fn fingerprints(scope: &Scope, messages: &[Raw]) -> Vec<blake3::Hash> {
    let mut tip = scope.root();
    let next = |raw: &Raw| {
        let mut hash = blake3::Hasher::new();
        hash.update(tip.as_bytes());
        for piece in unmarked(raw.as_str()) {
            hash.update(piece.as_bytes());
        }
        tip = hash.finalize();
        tip
    };
    messages.iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(tenant: &str, key: u8) -> Caller {
        Caller { tenant: tenant.parse().unwrap(), scope: [key; 32], replaces_key: false }
    }

    #[test]
    fn marks_that_move_do_not_change_a_fingerprint() {
        let scope = Scope::of(Dialect::Anthropic, &caller("acme", 0), &Client::default(), None);
        let print = |text: &str| fingerprints(&scope, &[Raw::whole(text)])[0];
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

    fn client(session: Option<&str>, user: Option<&str>) -> Client {
        Client { session: session.map(str::to_owned), user: user.map(str::to_owned), ..Client::default() }
    }

    #[test]
    fn scopes_tell_callers_dialects_conversations_and_users_apart() {
        let scope =
            |dialect, key, session, user| Scope::of(dialect, &caller("acme", key), &client(session, user), None).name;
        let all = [
            scope(Dialect::Chat, 1, None, None),
            scope(Dialect::Chat, 2, None, None),
            scope(Dialect::Chat, 1, Some("a"), None),
            scope(Dialect::Chat, 1, Some("b"), None),
            scope(Dialect::Chat, 1, None, Some("a")),
            scope(Dialect::Chat, 1, None, Some("b")),
            scope(Dialect::Chat, 1, Some("a"), Some("a")),
            scope(Dialect::Chat, 1, Some("a"), Some("b")),
            scope(Dialect::Anthropic, 1, None, None),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one));
        }
        let root = |tenant| Scope::of(Dialect::Chat, &caller(tenant, 1), &client(None, None), None).root();
        assert_ne!(root("acme"), root("beta"));
    }

    #[test]
    fn words_are_part_of_the_scope_where_nobody_says_whose_they_are() {
        let scope = |session, user, words| Scope::of(Dialect::Chat, &caller("acme", 1), &client(session, user), words);
        let plain = scope(None, None, None);
        let pinned = scope(None, None, Some("a"));
        assert_ne!(pinned.name, plain.name);
        assert_ne!(pinned.name, scope(None, None, Some("b")).name);
        assert_eq!(pinned.answer("r"), plain.answer("r"));
        for (session, user) in [(Some("s"), None), (None, Some("u")), (Some("s"), Some("u"))] {
            let [kept, plain] = [Some("a"), None].map(|words| scope(session, user, words));
            assert!(kept.keeps_pins());
            assert_eq!(kept.name, plain.name);
        }
        let by_cache_key = Client { is_cache_key: true, ..client(Some("my-app"), None) };
        assert!(!Scope::of(Dialect::Chat, &caller("acme", 1), &by_cache_key, None).keeps_pins());
    }
}
