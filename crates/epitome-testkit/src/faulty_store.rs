//! A store that fails when it is told to, for tests of programs that embed epitome.
//!
//! It makes no fault by itself and none by chance; everything that is not to fail is passed on.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use epitome_runtime::delegate_store;
use epitome_runtime::ids::TenantId;
use epitome_runtime::store::{
    ArtifactRow, Candidate, DocumentKey, DocumentRow, EventRow, Found, JobRow, MessageRow, Nearest, PlanRow, Store,
    StoreError, StoredVector, ThreadRow, VectorRow,
};

/// The ways in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreFault {
    /// Nobody answers the door.
    Refused,
    /// The answer never comes.
    Hung,
    /// A read returns other bytes than were written; a write is refused.
    Garbage,
    /// It is done, and the connection drops before the answer.
    Dropped,
    /// There is no room.
    Full,
}

impl StoreFault {
    /// All of them.
    pub const ALL: [StoreFault; 5] =
        [StoreFault::Refused, StoreFault::Hung, StoreFault::Garbage, StoreFault::Dropped, StoreFault::Full];
}

/// A store that fails as its script says. A clone has the same script.
#[derive(Clone, Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug, Default)]
struct Script {
    calls: Vec<&'static str>,
    /// Which call fails, counted from 0, how, and for how many calls.
    fails: Option<(usize, usize, StoreFault)>,
    /// The least time of each call.
    delay: Duration,
}

impl FaultyStore {
    /// A store that does not fail yet.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        FaultyStore { inner, script: Arc::default() }
    }

    /// Lets `count` calls fail, from the `first` one on, counted from 0 from now.
    pub fn fail(&self, first: usize, count: usize, fault: StoreFault) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.calls.clear();
        script.fails = Some((first, first.saturating_add(count), fault));
    }

    /// Makes every call take at least this long from now on.
    pub fn delay(&self, delay: Duration) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).delay = delay;
    }

    /// Lets nothing fail any more.
    pub fn heal(&self) {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).fails = None;
    }

    /// Returns the calls since the last planned fault.
    pub fn calls(&self) -> Vec<&'static str> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).calls.clone()
    }

    fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn fault(&self, name: &'static str) -> Option<StoreFault> {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let number = script.calls.len();
        script.calls.push(name);
        script.fails.filter(|(first, end, _)| (*first..*end).contains(&number)).map(|(_, _, fault)| fault)
    }

    async fn wrap_call<T: Garble>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let delay = self.script.lock().unwrap_or_else(PoisonError::into_inner).delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let broken = |reason: &str| Err(StoreError::Unavailable(reason.to_owned()));
        match self.fault(name) {
            None => call.await,
            Some(StoreFault::Refused) => broken("connection refused"),
            Some(StoreFault::Hung) => std::future::pending().await,
            Some(StoreFault::Full) => Err(StoreError::Full("no space left on device".to_owned())),
            Some(StoreFault::Dropped) => {
                call.await?;
                broken("connection reset by peer")
            }
            Some(StoreFault::Garbage) if name == "apply" => broken("unexpected message from the server"),
            Some(StoreFault::Garbage) => call.await.map(Garble::garbled),
        }
    }
}

delegate_store!(FaultyStore);

/// Damages or loses an answer.
trait Garble: Sized {
    fn garbled(self) -> Self {
        self
    }
}

impl Garble for () {}
impl Garble for Option<JobRow> {}
impl Garble for Option<Found> {}
impl Garble for Option<ArtifactRow> {}
impl Garble for Vec<ArtifactRow> {}
impl Garble for Vec<Candidate> {}
impl Garble for Vec<TenantId> {}
impl Garble for Vec<ThreadRow> {}
impl Garble for Vec<(u64, u32)> {}
impl Garble for Option<Nearest> {}

impl Garble for Vec<VectorRow> {
    fn garbled(self) -> Self {
        let garbled = |vector| match vector {
            StoredVector::Plain(numbers) => StoredVector::Plain(numbers.iter().map(|number| number * -3.5).collect()),
            StoredVector::Sealed(body) => StoredVector::Sealed(noise(body)),
        };
        self.into_iter().map(|row| VectorRow { vector: garbled(row.vector), ..row }).collect()
    }
}

impl Garble for Option<ThreadRow> {
    fn garbled(self) -> Self {
        self.map(|row| ThreadRow { length: row.length + 7, version: row.version + 3, ..row })
    }
}

impl Garble for Vec<MessageRow> {
    fn garbled(self) -> Self {
        self.into_iter().map(|row| MessageRow { body: noise(row.body), ..row }).collect()
    }
}

impl Garble for Option<PlanRow> {
    fn garbled(self) -> Self {
        self.map(|row| PlanRow { body: noise(row.body), ..row })
    }
}

impl Garble for Option<DocumentRow> {
    fn garbled(self) -> Self {
        self.map(|row| DocumentRow { body: noise(row.body), ..row })
    }
}

impl Garble for Vec<(DocumentKey, DocumentRow)> {}

impl Garble for Vec<EventRow> {
    fn garbled(self) -> Self {
        self.into_iter().map(|row| EventRow { body: noise(row.body), ..row }).collect()
    }
}

fn noise(body: Vec<u8>) -> Vec<u8> {
    body.into_iter().map(|byte| byte.wrapping_mul(31).wrapping_add(7)).collect()
}
