//! How the SQL stores write what is not a number or a text: ids as bytes, lists as JSON.

use epitome::thread::MessageId;
use serde::Serialize;

/// A value as JSON.
pub(super) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A message's id as its 32 bytes.
pub(super) fn id_bytes(id: &MessageId) -> [u8; 32] {
    blake3::Hash::from_hex(id.to_string()).map_or([0; 32], Into::into)
}

/// A message's id from its 32 bytes.
pub(super) fn id_from(bytes: &[u8]) -> Option<MessageId> {
    MessageId::parse(&blake3::Hash::from_bytes(bytes.try_into().ok()?).to_hex())
}
