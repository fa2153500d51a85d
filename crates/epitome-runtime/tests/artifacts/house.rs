//! A house to test in: artifacts over a memory store and an object store that can be told to fail.

use std::sync::Arc;
use std::time::Duration;

use epitome::budget::Tokens;
use epitome_runtime::artifact::{Access, Artifacts, PutOptions};
use epitome_runtime::ids::{Moment, TenantId, ThreadId};
use epitome_runtime::store::{ArtifactRow, MemoryStore, Sensitivity, Store, Write};
use epitome_runtime::vault::{Keys, MasterKey, Vault};
use epitome_testkit::FaultyObjects;
use object_store::ObjectStore;
use object_store::memory::InMemory;

pub const HOUR: Duration = Duration::from_secs(60 * 60);
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub struct House {
    pub artifacts: Artifacts,
    pub store: Arc<MemoryStore>,
    pub objects: FaultyObjects,
}

pub fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

pub fn owner(of: &str) -> Access {
    Access::owner(tenant(of), format!("{of}-agent"))
}

pub fn options() -> PutOptions {
    PutOptions { at: Moment::now(), sensitivity: Sensitivity::Internal, ttl: None, tokens: Tokens::new(7) }
}

pub fn vault(keys: &[(&str, u8)]) -> Vault {
    let mut keys = keys.iter().map(|(id, byte)| MasterKey::new(id.parse().unwrap(), [*byte; 32]));
    let keys = match keys.next() {
        Some(current) => Keys::new(current, keys.collect()),
        None => Keys::none(),
    };
    Vault::new(keys, [7; 32])
}

pub fn row_of(write: &Write) -> &ArtifactRow {
    match write {
        Write::PutArtifact(row) => row,
        other => panic!("{other:?} puts no artifact"),
    }
}

impl House {
    /// In memory, under these keys.
    pub fn new(keys: &[(&str, u8)]) -> Self {
        House::at(Arc::new(InMemory::new()), keys)
    }

    /// In this place, under these keys.
    pub fn at(place: Arc<dyn ObjectStore>, keys: &[(&str, u8)]) -> Self {
        let (store, objects) = (Arc::new(MemoryStore::new()), FaultyObjects::new(place));
        let artifacts = Artifacts::new(Arc::new(objects.clone()), store.clone(), vault(keys));
        House { artifacts, store, objects }
    }

    /// The same place and store, under other keys.
    pub fn rekeyed(&self, keys: &[(&str, u8)]) -> Self {
        let artifacts = Artifacts::new(Arc::new(self.objects.clone()), self.store.clone(), vault(keys));
        House { artifacts, store: self.store.clone(), objects: self.objects.clone() }
    }

    /// Puts content and commits its metadata; returns its id.
    pub async fn keep(&self, access: &Access, content: &str, options: PutOptions) -> String {
        let write = self.artifacts.put(access, &ThreadId::new(), content.as_bytes(), options).await.unwrap();
        let id = row_of(&write).id.clone();
        self.store.apply(&[write]).await.unwrap();
        id
    }

    pub async fn findings(&self, of: &str) -> Vec<String> {
        let findings = self.artifacts.check(&tenant(of)).await.unwrap();
        findings.iter().map(ToString::to_string).collect()
    }
}
