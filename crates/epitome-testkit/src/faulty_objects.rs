//! An object store that fails when it is told to, for tests of programs that embed epitome.
//!
//! ```
//! use std::sync::Arc;
//! use epitome_testkit::{FaultyObjects, ObjectCall, ObjectFault};
//! use object_store::memory::InMemory;
//!
//! let objects = FaultyObjects::new(Arc::new(InMemory::new()));
//! objects.fail(ObjectCall::Get, 1, ObjectFault::Hung);
//! objects.fail_always(ObjectCall::Put, ObjectFault::Full);
//! ```
//!
//! It passes everything else on, and remembers what was called. It makes no fault by itself and none by chance.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// The calls of an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectCall {
    /// An object was written.
    Put,
    /// An object or its size was asked for.
    Get,
    /// An object was deleted.
    Delete,
    /// Objects were listed.
    List,
}

/// The ways in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectFault {
    /// Nobody answers the door.
    Refused,
    /// The answer never comes.
    Hung,
    /// A read returns other bytes than were written; other calls are refused.
    Garbage,
    /// The answer breaks off: half of what is read or listed, or a write that was made and is not confirmed.
    Half,
    /// There is no room; calls that write nothing are answered.
    Full,
    /// The answer is right and comes this much later.
    Slow(Duration),
}

/// An object store that fails as its script says. A clone has the same script.
#[derive(Clone, Debug)]
pub struct FaultyObjects {
    inner: Arc<dyn ObjectStore>,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug, Default)]
struct Script {
    once: Vec<(ObjectCall, usize, ObjectFault)>,
    always: Vec<(ObjectCall, ObjectFault)>,
    calls: Vec<ObjectCall>,
}

impl Script {
    /// Writes a call down, and says whether it is to fail.
    fn next(&mut self, call: ObjectCall) -> Option<ObjectFault> {
        self.calls.push(call);
        let number = self.calls.iter().filter(|earlier| **earlier == call).count();
        let once = self.once.iter().find(|(which, at, _)| (*which, *at) == (call, number)).map(|(_, _, fault)| *fault);
        once.or_else(|| self.always.iter().find(|(which, _)| *which == call).map(|(_, fault)| *fault))
    }
}

impl FaultyObjects {
    /// This store, without a fault so far.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        FaultyObjects { inner, script: Arc::default() }
    }

    /// The call of this kind that is the `number`th from the beginning, from 1, fails.
    pub fn fail(&self, call: ObjectCall, number: usize, fault: ObjectFault) {
        self.script().once.push((call, number, fault));
    }

    /// From now on every call of this kind fails.
    pub fn fail_always(&self, call: ObjectCall, fault: ObjectFault) {
        self.script().always.push((call, fault));
    }

    /// No call fails any more, and those so far are forgotten.
    pub fn mend(&self) {
        *self.script() = Script::default();
    }

    /// Returns the calls so far, in order.
    pub fn calls(&self) -> Vec<ObjectCall> {
        self.script().calls.clone()
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, call: ObjectCall) -> Option<ObjectFault> {
        self.script().next(call)
    }

    /// Waits as long as each call takes, and returns the planned fault.
    async fn turn(&self, call: ObjectCall) -> Option<ObjectFault> {
        match self.next(call) {
            Some(ObjectFault::Slow(time)) => {
                tokio::time::sleep(time).await;
                None
            }
            fault => fault,
        }
    }
}

impl fmt::Display for FaultyObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyObjects({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyObjects {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        match self.turn(ObjectCall::Put).await {
            None => self.inner.put_opts(location, payload, options).await,
            Some(ObjectFault::Half) => {
                self.inner.put_opts(location, payload, options).await?;
                Err(broken_off())
            }
            Some(fault) => Err(failed(fault).await),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.turn(ObjectCall::Put).await {
            None => self.inner.put_multipart_opts(location, options).await,
            Some(fault) => Err(failed(fault).await),
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.turn(ObjectCall::Get).await {
            None | Some(ObjectFault::Full) => self.inner.get_opts(location, options).await,
            Some(ObjectFault::Garbage) => garbled(self.inner.get_opts(location, options).await?).await,
            Some(ObjectFault::Half) => halved(self.inner.get_opts(location, options).await?).await,
            Some(fault) => Err(failed(fault).await),
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.next(ObjectCall::Delete) {
            None | Some(ObjectFault::Full) => self.inner.delete_stream(locations),
            Some(ObjectFault::Half) => self.inner.delete_stream(locations).map(|_| Err(broken_off())).boxed(),
            Some(ObjectFault::Slow(time)) => later(time, self.inner.delete_stream(locations)),
            Some(fault) => locations.then(move |_| async move { Err(failed(fault).await) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.next(ObjectCall::List) {
            None | Some(ObjectFault::Full) => self.inner.list(prefix),
            Some(ObjectFault::Half) => half_a_list(self.inner.list(prefix)),
            Some(ObjectFault::Slow(time)) => later(time, self.inner.list(prefix)),
            Some(fault) => stream::once(async move { Err(failed(fault).await) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        match self.turn(ObjectCall::List).await {
            None | Some(ObjectFault::Full) => self.inner.list_with_delimiter(prefix).await,
            Some(fault) => Err(failed(fault).await),
        }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        match self.turn(ObjectCall::Put).await {
            None => self.inner.copy_opts(from, to, options).await,
            Some(fault) => Err(failed(fault).await),
        }
    }
}

/// The error of a fault, when it comes at all.
async fn failed(fault: ObjectFault) -> Error {
    match fault {
        ObjectFault::Hung => std::future::pending().await,
        ObjectFault::Full => error(std::io::ErrorKind::StorageFull),
        ObjectFault::Half => broken_off(),
        ObjectFault::Slow(time) => {
            tokio::time::sleep(time).await;
            error(std::io::ErrorKind::TimedOut)
        }
        ObjectFault::Refused | ObjectFault::Garbage => error(std::io::ErrorKind::ConnectionRefused),
    }
}

fn broken_off() -> Error {
    error(std::io::ErrorKind::ConnectionReset)
}

fn error(kind: std::io::ErrorKind) -> Error {
    Error::Generic { store: "FaultyObjects", source: Box::new(std::io::Error::from(kind)) }
}

/// As many bytes, but others.
async fn garbled(result: GetResult) -> Result<GetResult> {
    let (meta, range, attributes) = (result.meta.clone(), result.range.clone(), result.attributes.clone());
    let garbage: Vec<u8> = result.bytes().await?.iter().map(|byte| byte ^ 0xff).collect();
    let payload = GetResultPayload::Stream(stream::once(async move { Ok(garbage.into()) }).boxed());
    Ok(GetResult { payload, meta, range, attributes, extensions: object_store::Extensions::default() })
}

/// The first half, and then an error.
async fn halved(result: GetResult) -> Result<GetResult> {
    let (meta, range, attributes) = (result.meta.clone(), result.range.clone(), result.attributes.clone());
    let bytes = result.bytes().await?;
    let parts = vec![Ok(bytes.slice(..bytes.len() / 2)), Err(broken_off())];
    let payload = GetResultPayload::Stream(stream::iter(parts).boxed());
    Ok(GetResult { payload, meta, range, attributes, extensions: object_store::Extensions::default() })
}

fn later<T: Send + 'static>(time: Duration, answers: BoxStream<'static, T>) -> BoxStream<'static, T> {
    let waited = async move {
        tokio::time::sleep(time).await;
        answers
    };
    stream::once(waited).flatten().boxed()
}

fn half_a_list(list: BoxStream<'static, Result<ObjectMeta>>) -> BoxStream<'static, Result<ObjectMeta>> {
    let halved = async move {
        let mut found: Vec<ObjectMeta> = list.try_collect().await?;
        found.truncate(found.len() / 2);
        let entries = found.into_iter().map(Ok).chain([Err(broken_off())]);
        Ok::<_, Error>(stream::iter(entries.collect::<Vec<_>>()))
    };
    stream::once(halved).try_flatten().boxed()
}
