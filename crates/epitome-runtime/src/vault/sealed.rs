//! The form of sealed bytes, and nothing of what they mean.
//!
//! ```text
//! plain:   00  content
//! sealed:  a5  length of the key's name  the name  mark of the key (4)  nonce (24)  ciphertext  tag (16)
//! ```
//!
//! The mark tells a key from another one of the same name, so that a wrong key is not taken for damage.

use super::OpenError;

/// Not sealed.
const PLAIN: u8 = 0x00;
/// Sealed. Four bits away from [`PLAIN`], so that no single flipped bit makes ciphertext pass for content.
const SEALED: u8 = 0xa5;

pub(super) const NONCE_BYTES: usize = 24;
/// The bytes of a key's mark.
pub(super) const MARK_BYTES: usize = 4;
/// The bytes of the authentication tag.
pub(super) const TAG_BYTES: usize = 16;

/// The header before the ciphertext.
pub(super) struct Header<'a> {
    pub(super) key_id: &'a str,
    pub(super) mark: [u8; MARK_BYTES],
    pub(super) nonce: [u8; NONCE_BYTES],
}

impl Header<'_> {
    /// The header, with room behind it for a body of this many bytes.
    pub(super) fn with_room(&self, body_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 + self.key_id.len() + MARK_BYTES + NONCE_BYTES + body_bytes + TAG_BYTES);
        bytes.push(SEALED);
        // A key's name is far shorter than 255 bytes.
        bytes.push(u8::try_from(self.key_id.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(self.key_id.as_bytes());
        bytes.extend_from_slice(&self.mark);
        bytes.extend_from_slice(&self.nonce);
        bytes
    }
}

/// Bytes taken apart.
pub(super) enum Parts<'a> {
    /// They were never sealed.
    Plain(&'a [u8]),
    /// They are sealed.
    Sealed {
        header: Header<'a>,
        /// Ciphertext and tag.
        body: &'a [u8],
    },
}

/// Plain bytes, marked as such.
pub(super) fn plain(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + content.len());
    bytes.push(PLAIN);
    bytes.extend_from_slice(content);
    bytes
}

/// Takes bytes apart.
pub(super) fn parts(bytes: &[u8]) -> Result<Parts<'_>, OpenError> {
    match bytes.split_first() {
        Some((&PLAIN, content)) => Ok(Parts::Plain(content)),
        Some((&SEALED, rest)) => sealed(rest).ok_or(OpenError::Damaged),
        _ => Err(OpenError::Damaged),
    }
}

fn sealed(bytes: &[u8]) -> Option<Parts<'_>> {
    let (&id_bytes, rest) = bytes.split_first()?;
    let (key_id, rest) = rest.split_at_checked(usize::from(id_bytes))?;
    let (&mark, rest) = rest.split_first_chunk::<MARK_BYTES>()?;
    let (&nonce, body) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let key_id = std::str::from_utf8(key_id).ok()?;
    (body.len() >= TAG_BYTES).then_some(Parts::Sealed { header: Header { key_id, mark, nonce }, body })
}
