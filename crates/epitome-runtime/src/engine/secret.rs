//! The store's own secret: what names in the open are made of, and content addresses where no key is configured.
//!
//! It lies in the store. With a key it is sealed like everything else, so that whoever has the files alone can make no name
//! to compare with; without one it lies open, as all else does. It stays the same under every key.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::SYSTEM_TENANT;
use super::error::{EngineError, Result};
use crate::ids::TenantId;
use crate::log::{Log, LogError, NewDocument};
use crate::store::{DocumentKind, Store};
use crate::upkeep::blind_names;
use crate::vault::{Keys, Vault, random_secret};

/// The name of the document.
const NAME: &str = "store";
const RACES_MAX: usize = 3;

/// The secret as it is kept.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
enum StoreSecret {
    /// Of a store in which every name is made with it.
    Blinding { secret: [u8; 32], names: Names },
    /// Of a store that was written before names were.
    Bare([u8; 32]),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Names {
    Blinded,
}

/// The random secret of a store; made on first use. A store that was written before names were made with it is brought up to
/// date once. Fails when the secret is sealed with a key that is not there: nothing else would open either.
pub(super) async fn store_secret(store: &Arc<dyn Store>, keys: &Keys) -> Result<[u8; 32]> {
    let tenant: TenantId = SYSTEM_TENANT.parse().map_err(|_| EngineError::NotAllowed)?;
    let log = Log::new(Arc::clone(store), Vault::new(keys.clone(), [0; 32]));
    for _ in 0..RACES_MAX {
        let (secret, version, seals) = match log.document::<StoreSecret>(&tenant, DocumentKind::Secret, NAME).await {
            Ok((Some(StoreSecret::Blinding { secret, .. }), _)) => return Ok(secret),
            Ok((Some(StoreSecret::Bare(secret)), version)) => {
                blind_all_names(&Log::new(Arc::clone(store), Vault::new(keys.clone(), secret))).await?;
                // It lay in the open, and so did names that are in free pages now. It stays there until a rotation seals
                // it and writes the store anew, and a check says until then that one is due.
                (secret, version, Keys::none())
            }
            Ok((None, version)) => (random_secret(), version, keys.clone()),
            Err(LogError::Sealed(_, reason)) => {
                return Err(LogError::Sealed("the store".to_owned(), reason).into());
            }
            Err(error) => return Err(error.into()),
        };
        let secret = StoreSecret::Blinding { secret, names: Names::Blinded };
        let document = NewDocument::new(&tenant, DocumentKind::Secret, NAME, &secret).expecting(version);
        let write = Log::new(Arc::clone(store), Vault::new(seals, [0; 32])).put_document(document);
        match log.apply(&[write]).await {
            Err(error) if !error.is_conflict() => return Err(LogError::from(error).into()),
            // It is read back, because another process may have been faster.
            _ => {}
        }
    }
    Err(EngineError::NotAllowed)
}

async fn blind_all_names(log: &Log) -> Result<()> {
    for tenant in log.store().tenants().await? {
        let renamed = blind_names(log, &tenant).await?;
        tracing::info!(%tenant, renamed, "gave what was written before names were blinded new names");
    }
    Ok(())
}
