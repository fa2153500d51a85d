//! What the SQL stores have in common: how they write ids, lists and limits, and a query.

use epitome::thread::MessageId;
use serde::Serialize;

/// The tenants that have anything.
pub(super) const TENANTS: &str = "SELECT tenant FROM threads UNION SELECT tenant FROM documents \
     UNION SELECT tenant FROM artifacts UNION SELECT tenant FROM jobs ORDER BY tenant";

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

/// The most rows of a query, as both databases take it.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A vector's numbers as bytes.
pub(crate) fn number_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// A vector's numbers from their bytes.
pub(crate) fn numbers_from(bytes: &[u8]) -> Option<Vec<f32>> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}
