//! A store that is not waited for longer than so long: a database that hangs is one that cannot be reached.
//!
//! A write that was not confirmed in time may have been made; whoever writes looks before writing again.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::around::store_around;
use super::{
    ArtifactRow, Candidate, DocumentKey, DocumentRow, EventRow, JobRow, Lease, MessageRow, PlanRow, Segment, Store,
    StoreError, ThreadRow, Write,
};
use crate::ids::{Moment, TenantId, ThreadId, ThreadKey};

/// A store with a limit on every answer but those of maintenance.
#[derive(Clone, Debug)]
pub struct Patient {
    inner: Arc<dyn Store>,
    limit: Duration,
}

impl Patient {
    /// Waits this long for each answer.
    pub fn new(inner: Arc<dyn Store>, limit: Duration) -> Self {
        Patient { inner, limit }
    }

    async fn around<T>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(self.limit, call).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unavailable { reason: format!("no answer to `{name}` within {:?}", self.limit) }),
        }
    }
}

store_around!(Patient);
