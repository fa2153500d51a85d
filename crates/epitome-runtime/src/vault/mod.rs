//! The vault: bodies are sealed before they reach a store, and opened after they leave it.
//!
//! ```text
//! master key ─┬─ key of tenant a ── seals its bodies, bound to their kind and place
//!             └─ key of tenant b
//! ```
//!
//! With a key, whoever has the store's files alone reads nothing of what was said, and a row put in the place of another
//! one does not open. Without a key everything is kept as it is. A vault with a key still opens what was written before
//! there was one; resealing ends that state. It keeps no plain text, asks no clock, and decides nothing about who may
//! read.

mod key;
mod sealed;
mod tenant;

pub use key::{KeyId, Keys, MasterKey, NotAKey, random_secret};

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use epitome::thread::MessageId;

use crate::ids::TenantId;
use sealed::Parts;
use tenant::{NAME_DIGITS, TenantKey, TenantKeys};

/// Keys of this many tenants are kept at hand; after that they are derived anew.
const TENANTS_MAX: usize = 4096;

/// The first character of a blinded name. No name of a thread, a day or a client's key has it.
const BLINDED: char = '~';

/// The kinds of sealed bodies. One kind does not open as another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sealing {
    /// A message of a thread.
    Message,
    /// A plan.
    Plan,
    /// A document.
    Document,
    /// An event.
    Event,
    /// A thread's labels.
    Label,
    /// An artifact's content.
    Artifact,
    /// The vector of a passage.
    Vector,
}

impl Sealing {
    /// Its number in what is authenticated; never given to another kind.
    fn number(self) -> u8 {
        match self {
            Sealing::Message => 1,
            Sealing::Plan => 2,
            Sealing::Document => 3,
            Sealing::Event => 4,
            Sealing::Label => 5,
            Sealing::Artifact => 6,
            Sealing::Vector => 7,
        }
    }
}

/// The reasons for which sealed bytes do not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A key of that name is configured, but it is another one.
    #[error("it was sealed with another key of the same name")]
    WrongKey,
    /// No key of that name is configured.
    #[error("it was sealed with the key {0}, which is not configured")]
    UnknownKey(String),
    /// The bytes are not those that were written, or they were written for another place.
    #[error("it is damaged, or it was written for another place")]
    Damaged,
}

/// Seals and opens bodies. A clone is the same vault.
///
/// It has two kinds of secrets. The *configured keys* seal bodies and blind message ids and index terms: the first seals,
/// the others only open, until a rotation has resealed everything. The *store's own secret* makes names that have to stay
/// the same under every key; it is random, made with the store, and kept in it, sealed. [`Vault::adopt`] sets it once the
/// store is open. A vault that writes names before that writes them under a secret that no later process has: the rows
/// would never be found again. Keys of tenants are derived on first use and cached.
#[derive(Clone)]
pub struct Vault {
    shared: Arc<Shared>,
}

struct Shared {
    keys: Keys,
    /// The secret that names are made with, whatever the key: see [`Vault::blind_name`] and [`Vault::pseudonym`]. Without a key content
    /// addresses are, too: see [`Vault::artifact_key`].
    store: RwLock<MasterKey>,
    tenants: RwLock<HashMap<TenantId, Arc<TenantKeys>>>,
}

impl Vault {
    /// A vault with these keys, for the store whose random secret this is.
    pub fn new(keys: Keys, secret: [u8; 32]) -> Self {
        let store = RwLock::new(MasterKey::of_store(secret));
        Vault { shared: Arc::new(Shared { keys, store, tenants: RwLock::default() }) }
    }

    /// Takes over the secret of another store, before anything is read from it or written to it.
    pub fn adopt(&self, secret: [u8; 32]) {
        *self.shared.store.write().unwrap_or_else(PoisonError::into_inner) = MasterKey::of_store(secret);
        self.shared.tenants.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// The bytes to store: sealed under the current key for this tenant, kind and name, or marked as plain without one.
    ///
    /// # Panics
    ///
    /// When the system has no randomness to give, or for more than 256 GiB.
    pub fn seal(&self, tenant: &TenantId, what: Sealing, name: &str, plain: &[u8]) -> Vec<u8> {
        match self.tenant(tenant).current() {
            Some(key) => key.seal(&bound_to(tenant, what, name), plain),
            None => sealed::plain(plain),
        }
    }

    /// The content of stored bytes that were sealed for this tenant, kind and name.
    pub fn open(&self, tenant: &TenantId, what: Sealing, name: &str, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        match sealed::parts(sealed)? {
            Parts::Plain(content) => Ok(content.to_vec()),
            Parts::Sealed { header, body } => {
                let keys = self.tenant(tenant);
                let unknown = || OpenError::UnknownKey(header.key_id.to_owned());
                keys.named(header.key_id).ok_or_else(unknown)?.open(&bound_to(tenant, what, name), &header, body)
            }
        }
    }

    /// Tells whether bytes are to be sealed again: they are plain while there is a key, or under an older one.
    pub fn needs_reseal(&self, sealed: &[u8]) -> bool {
        match (self.current_key_id(), key_id_of(sealed)) {
            (None, _) => false,
            (Some(current), used) => used != Some(current),
        }
    }

    /// Tells whether bytes are whole, as far as their form tells, and are to be sealed again.
    pub fn is_stale(&self, sealed: &[u8]) -> bool {
        sealed::parts(sealed).is_ok() && self.needs_reseal(sealed)
    }

    /// Tells whether there is a key.
    pub fn is_sealing(&self) -> bool {
        self.current_key_id().is_some()
    }

    /// The name of the key that seals.
    pub fn current_key_id(&self) -> Option<&str> {
        self.shared.keys.all().first().map(|key| key.id().as_str())
    }

    /// Tells whether a key of this name is configured.
    pub fn knows(&self, key_id: &str) -> bool {
        self.shared.keys.all().iter().any(|key| key.id().as_str() == key_id)
    }

    /// The key of the tenant's content addresses, so that an id tells nothing to who guesses at content.
    pub fn artifact_key(&self, tenant: &TenantId) -> [u8; 32] {
        let keys = self.tenant(tenant);
        *keys.current().unwrap_or(keys.store()).address()
    }

    /// Every key that the tenant's content addresses may have been made with, the one of now first.
    pub fn artifact_keys(&self, tenant: &TenantId) -> Vec<[u8; 32]> {
        let keys = self.tenant(tenant);
        keys.configured().iter().chain([keys.store()]).map(|key| *key.address()).collect()
    }

    /// A name for the tenant that tells nothing of it and stays the same under every key.
    pub fn pseudonym(&self, tenant: &TenantId) -> String {
        self.tenant(tenant).store().pseudonym()
    }

    /// A message's id as it stands in the open: nobody without the key can tell from it what was said. The id itself
    /// without a key.
    pub fn blind_id(&self, tenant: &TenantId, id: MessageId) -> MessageId {
        self.tenant(tenant).current().map_or(id, |key| key.blind_id(id))
    }

    /// Every form that a message's id may have in the store, the one of now first. A row keeps the id that it was written
    /// with until a rotation: under an older key, or as it is where there was none. Whoever looks for the form of now alone
    /// takes a conversation for a new one between the day a key is named and the day the store is rotated.
    pub fn blind_ids(&self, tenant: &TenantId, id: MessageId) -> Vec<MessageId> {
        self.tenant(tenant).configured().iter().map(|key| key.blind_id(id)).chain([id]).collect()
    }

    /// The name that stands in the open for a text which a client or a model chose. It is made with the store's own secret,
    /// which is sealed as soon as there is a key: nobody without the key can tell from a name what it stands for, and
    /// names stay the same under every key, so that what is kept under them is found again after a rotation.
    pub fn blind_name(&self, tenant: &TenantId, purpose: &str, text: &str) -> String {
        format!("{BLINDED}{}", self.tenant(tenant).store().name(purpose, text))
    }

    /// A term of the full-text index, blinded under the current key; as it is without one.
    pub fn blind(&self, tenant: &TenantId, term: &str) -> String {
        match self.tenant(tenant).current() {
            Some(key) => key.blind(term),
            None => term.to_owned(),
        }
    }

    /// Every form that a term may have in the full-text index, the one of now first.
    pub fn blind_all(&self, tenant: &TenantId, term: &str) -> Vec<String> {
        match self.tenant(tenant).configured() {
            [] => vec![term.to_owned()],
            keys => keys.iter().map(|key| key.blind(term)).collect(),
        }
    }

    fn tenant(&self, tenant: &TenantId) -> Arc<TenantKeys> {
        let at_hand = self.shared.tenants.read().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned();
        at_hand.unwrap_or_else(|| self.derive(tenant))
    }

    fn derive(&self, tenant: &TenantId) -> Arc<TenantKeys> {
        let configured = self.shared.keys.all().iter().map(|key| TenantKey::derived(key, tenant)).collect();
        let store = self.shared.store.read().unwrap_or_else(PoisonError::into_inner);
        let keys = Arc::new(TenantKeys::new(configured, TenantKey::derived(&store, tenant)));
        let mut tenants = self.shared.tenants.write().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= TENANTS_MAX {
            tenants.clear();
        }
        tenants.insert(tenant.clone(), keys.clone());
        keys
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("keys", &self.shared.keys).finish_non_exhaustive()
    }
}

/// Tells whether a name is one that [`Vault::blind_name`] made.
pub fn is_blinded(name: &str) -> bool {
    let digits = name.strip_prefix(BLINDED);
    digits.is_some_and(|digits| digits.len() == NAME_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

/// The name of the key that bytes are sealed with; `None` when they are plain or damaged.
pub fn key_id_of(sealed: &[u8]) -> Option<&str> {
    match sealed::parts(sealed) {
        Ok(Parts::Sealed { header, .. }) => Some(header.key_id),
        _ => None,
    }
}

/// Returns the bytes that are authenticated with a body. Only the name is of open length, so that no two places read the same.
fn bound_to(tenant: &TenantId, what: Sealing, name: &str) -> Vec<u8> {
    let tenant = tenant.as_str().as_bytes();
    let mut bound = Vec::with_capacity(5 + tenant.len() + name.len());
    bound.push(what.number());
    bound.extend_from_slice(&u32::try_from(tenant.len()).unwrap_or(u32::MAX).to_le_bytes());
    bound.extend_from_slice(tenant);
    bound.extend_from_slice(name.as_bytes());
    bound
}

#[cfg(test)]
mod tests;
