//! Vectors of passages, sealed like the passages: who has a vector can guess what was said.

use super::{Log, LogError, Result};
use crate::ids::{TenantId, ThreadKey};
use crate::store::{StoredVector, VectorRow, number_bytes, numbers_from};
use crate::vault::Sealing;

impl Log {
    /// The name in the open of what a model makes vectors of: a model's name stays unnamed.
    pub(crate) fn vector_space(&self, tenant: &TenantId, model: &str) -> String {
        self.vault.blind_name(tenant, "vector space", model)
    }

    /// The row of a passage's vector.
    pub(crate) fn vector_row(&self, key: &ThreadKey, at: (u64, u32), space: &str, numbers: Vec<f32>) -> VectorRow {
        let (place, passage) = at;
        let mut row = VectorRow { place, passage, space: space.to_owned(), vector: StoredVector::Plain(Vec::new()) };
        row.vector = match self.vault.is_sealing() {
            true => self.sealed(key, &row, &number_bytes(&numbers)),
            false => StoredVector::Plain(numbers),
        };
        row
    }

    /// The numbers of a vector.
    pub(crate) fn open_vector(&self, key: &ThreadKey, row: &VectorRow) -> Result<Vec<f32>> {
        let body = match &row.vector {
            StoredVector::Plain(numbers) => return Ok(numbers.clone()),
            StoredVector::Sealed(body) => body,
        };
        let plain = self.vault.open(&key.tenant, Sealing::Vector, &name(key, row), body);
        let plain = plain.map_err(|error| LogError::sealed(in_words(key, row), error))?;
        numbers_from(&plain).ok_or_else(|| LogError::Unreadable(in_words(key, row)))
    }

    /// Tells whether a vector is to be sealed again: it is plain while there is a key, or under an older one.
    pub(crate) fn is_stale_vector(&self, row: &VectorRow) -> bool {
        match &row.vector {
            StoredVector::Plain(_) => self.vault.is_sealing(),
            StoredVector::Sealed(body) => self.vault.needs_reseal(body),
        }
    }

    /// A vector under the current key; `None` when it is under it already.
    pub(crate) fn reseal_vector(&self, key: &ThreadKey, row: &VectorRow) -> Result<Option<VectorRow>> {
        if !self.is_stale_vector(row) {
            return Ok(None);
        }
        let vector = self.sealed(key, row, &number_bytes(&self.open_vector(key, row)?));
        Ok(Some(VectorRow { vector, ..row.clone() }))
    }

    fn sealed(&self, key: &ThreadKey, row: &VectorRow, plain: &[u8]) -> StoredVector {
        StoredVector::Sealed(self.vault.seal(&key.tenant, Sealing::Vector, &name(key, row), plain))
    }
}

/// What a vector is bound to.
fn name(key: &ThreadKey, row: &VectorRow) -> String {
    format!("{}@{}.{}/{}", key.thread, row.place, row.passage, row.space)
}

fn in_words(key: &ThreadKey, row: &VectorRow) -> String {
    format!("the vector of message {} of {key}", row.place + 1)
}
