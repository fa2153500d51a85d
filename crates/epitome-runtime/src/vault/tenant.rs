//! A tenant's keys, derived from the master keys. None of them leads back to a master key or to another tenant's.

use chacha20poly1305::aead::{AeadInOut as _, Generate as _, KeyInit as _};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use epitome::thread::MessageId;
use zeroize::Zeroizing;

use super::OpenError;
use super::key::{KeyId, MasterKey};
use super::sealed::{Header, MARK_BYTES, TAG_BYTES};
use crate::ids::TenantId;

// One context for each use, so that no key serves two.
const SEAL: &str = "epitome 2026-11-16 vault: key that seals a tenant's bodies";
const ADDRESS: &str = "epitome 2026-11-16 vault: key of a tenant's content addresses";
const BLIND: &str = "epitome 2026-11-16 vault: key that blinds a tenant's index terms";
const NAMES: &str = "epitome 2026-11-17 vault: key that blinds the names a tenant's rows are kept under";
const PSEUDONYM: &str = "epitome 2026-11-16 vault: name of a tenant in an object store";
const MARK: &str = "epitome 2026-11-16 vault: mark of a master key";

/// The hex digits of a blinded name: 128 bits.
pub(super) const NAME_DIGITS: usize = 32;

pub(super) struct TenantKeys {
    configured: Vec<TenantKey>,
    store: TenantKey,
}

impl TenantKeys {
    pub(super) fn new(configured: Vec<TenantKey>, store: TenantKey) -> Self {
        TenantKeys { configured, store }
    }

    /// Those from configured master keys, the current one first.
    pub(super) fn configured(&self) -> &[TenantKey] {
        &self.configured
    }

    /// The one that seals.
    pub(super) fn current(&self) -> Option<&TenantKey> {
        self.configured.first()
    }

    /// The one from the store's own secret.
    pub(super) fn store(&self) -> &TenantKey {
        &self.store
    }

    pub(super) fn named(&self, id: &str) -> Option<&TenantKey> {
        self.configured.iter().find(|key| key.id.as_str() == id)
    }
}

/// A master key derived for one tenant.
pub(super) struct TenantKey {
    id: KeyId,
    mark: [u8; MARK_BYTES],
    cipher: XChaCha20Poly1305,
    address: Zeroizing<[u8; 32]>,
    blind: Zeroizing<[u8; 32]>,
    names: Zeroizing<[u8; 32]>,
    pseudonym: [u8; 16],
}

impl TenantKey {
    pub(super) fn derived(master: &MasterKey, tenant: &TenantId) -> Self {
        // The secret has a fixed length, so secret and tenant cannot be told apart in two ways.
        let material = Zeroizing::new([master.secret().as_slice(), tenant.as_str().as_bytes()].concat());
        let derive = |context| Zeroizing::new(blake3::derive_key(context, &material));
        TenantKey {
            id: master.id().clone(),
            mark: beginning(&blake3::derive_key(MARK, master.secret())),
            cipher: XChaCha20Poly1305::new((&*derive(SEAL)).into()),
            address: derive(ADDRESS),
            blind: derive(BLIND),
            names: derive(NAMES),
            pseudonym: beginning(&derive(PSEUDONYM)),
        }
    }

    pub(super) fn seal(&self, bound: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce = XNonce::generate();
        let header = Header { key_id: self.id.as_str(), mark: self.mark, nonce: nonce.into() };
        let mut sealed = header.with_room(plain.len());
        let start = sealed.len();
        sealed.extend_from_slice(plain);
        let encrypted = self.cipher.encrypt_inout_detached(&nonce, bound, (&mut sealed[start..]).into());
        let tag = encrypted.expect("a body is far below the 256 GiB that one nonce is good for");
        sealed.extend_from_slice(&tag);
        sealed
    }

    pub(super) fn open(&self, bound: &[u8], header: &Header<'_>, body: &[u8]) -> Result<Vec<u8>, OpenError> {
        if header.mark != self.mark {
            return Err(OpenError::WrongKey);
        }
        let (ciphertext, tag) = body.split_last_chunk::<TAG_BYTES>().ok_or(OpenError::Damaged)?;
        let mut content = ciphertext.to_vec();
        let (nonce, tag) = (XNonce::from(header.nonce), Tag::from(*tag));
        let opened = self.cipher.decrypt_inout_detached(&nonce, bound, content.as_mut_slice().into(), &tag);
        opened.map(|()| content).map_err(|_| OpenError::Damaged)
    }

    pub(super) fn address(&self) -> &[u8; 32] {
        &self.address
    }

    pub(super) fn blind_id(&self, id: MessageId) -> MessageId {
        let mut hash = blake3::Hasher::new_keyed(&self.address);
        hash.update(b"message id").update(id.as_bytes());
        MessageId::from_bytes(*hash.finalize().as_bytes())
    }

    pub(super) fn blind(&self, term: &str) -> String {
        let hash = blake3::keyed_hash(&self.blind, term.as_bytes());
        hash.to_hex()[..16].to_owned()
    }

    /// The hash that stands for a text; the purpose keeps equal texts of two uses apart.
    pub(super) fn name(&self, purpose: &str, text: &str) -> String {
        let mut hash = blake3::Hasher::new_keyed(&self.names);
        hash.update(&(purpose.len() as u64).to_le_bytes()).update(purpose.as_bytes()).update(text.as_bytes());
        hash.finalize().to_hex()[..NAME_DIGITS].to_owned()
    }

    pub(super) fn pseudonym(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.pseudonym))
    }
}

fn beginning<const N: usize>(bytes: &[u8; 32]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}
