//! The proxy: a request comes in, its thread is found, what fits goes on as it came and what does not is compacted, and
//! the answer goes back as the provider gave it.
//!
//! ```text
//! body ──► asked ──► line ──► prompt ──► upstream ──► answer
//!                      │        ▲                       │
//!                      │        └── harder ◄── too long ┘   before the client sees a byte
//!                      └── the log, beside
//! ```
//!
//! What fails in here never fails a request: it goes out as it came, and a header says so.

mod answer;
mod asked;
mod beside;
mod body;
mod compact;
mod ear;
mod endpoint;
mod headers;
mod prompt;
mod reading;
mod record;
mod relay;
mod suspicion;
mod trace;
mod turn;
mod way;
mod weaving;
pub mod wishes;

pub use answer::Passing;
pub use endpoint::Endpoint;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use epitome::policy::Policy;
use epitome_runtime::engine::Engine;
use epitome_runtime::ids::TenantId;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use asked::Asked;
use beside::Beside;
use body::{Packing, Unpackable};
use reading::{Tuned, UnderWay};
use record::Kept;
use suspicion::Suspicions;
use way::{Head, Way};

use crate::body_memory::{BodyMemory, Reservation};
use crate::caller::Callers;
use crate::fail_open::{FailOpenReason, PassReason};
use crate::identity::{Scope, ThreadCache};
use crate::ledger::Ledger;
use crate::refusal::Refusal;
use crate::serve::{Call, LogNote, Metrics, Proxy};
use crate::settings::{Provider, Settings};
use crate::upstream::{self, UpBody, Upstreams};

/// The most answers that are kept at hand for whoever goes on from them.
const ANSWERS_MAX: usize = 1024;
/// For how long a store that did not answer is not asked again.
const STORE_REST: Duration = Duration::from_secs(5);
/// Larger bodies are passed on unread: what is larger than any window is not worth the memory that understanding it takes.
const READ_BYTES_MAX: usize = 8 << 20;
/// How many times its size reading a body takes besides.
const READ_COPIES: usize = 2;
/// The most bytes of answers that are kept at hand.
const ANSWERS_BYTES_MAX: usize = 64 << 20;

/// Answers what is not the gateway's own. A clone is the same.
#[derive(Clone, Debug)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Arc<Settings>,
    engine: Engine,
    engines: Mutex<Vec<Tuned>>,
    policies: BTreeMap<String, Policy>,
    callers: Callers,
    upstreams: Upstreams,
    lines: ThreadCache,
    metrics: Arc<Metrics>,
    ledger: Arc<Ledger>,
    suspicions: Suspicions,
    answers: Mutex<HashMap<(TenantId, String), Kept>>,
    /// The thread that was last begun in each scope.
    scopes: Mutex<HashMap<Scope, String>>,
    store_rests: AtomicI64,
    beside: Beside,
    /// What request bodies may take, all of them together.
    body_memory: BodyMemory,
    /// How many large bodies are unpacked at once.
    unpacking: Arc<Semaphore>,
    started: Instant,
    /// Where everything is done that may take long or asks the store.
    work: Handle,
}

impl Relay {
    /// A relay that keeps its threads with this engine. Requests may name one of these policies. It works in the runtime
    /// that it is made in.
    pub fn new(
        settings: Arc<Settings>,
        engine: Engine,
        policies: BTreeMap<String, Policy>,
        metrics: Arc<Metrics>,
        ledger: Arc<Ledger>,
    ) -> Self {
        let inner = Inner {
            callers: Callers::of(&settings),
            upstreams: Upstreams::new(settings.upstreams.clone(), &settings.serve),
            lines: ThreadCache::new(settings.serve.memory_mb_max.0),
            engines: Mutex::default(),
            suspicions: Suspicions::default(),
            answers: Mutex::default(),
            scopes: Mutex::default(),
            store_rests: AtomicI64::new(i64::MIN),
            beside: Beside::default(),
            body_memory: BodyMemory::new(settings.serve.body_memory_mb_max.0),
            unpacking: Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from))),
            started: Instant::now(),
            work: Handle::current(),
            settings,
            engine,
            policies,
            metrics,
            ledger,
        };
        Relay { inner: Arc::new(inner) }
    }

    /// Waits until everything that came so far is written down; returns false if that takes longer than `timeout`. The relay
    /// goes on as before.
    pub async fn flush(&self, timeout: Duration) -> bool {
        self.inner.flush(timeout).await
    }

    /// Waits until everything that came is in the log, as long as somebody has patience; whether it is. To be asked for
    /// when no more requests come.
    pub async fn ended(&self, patience: Duration) -> bool {
        self.inner.ended(patience).await
    }
}

impl Proxy for Relay {
    type Body = Passing;

    fn note(body: &mut Passing) -> LogNote {
        body.note.take().unwrap_or_default()
    }

    async fn answer(&self, request: Request<Incoming>, call: Call) -> Response<Passing> {
        let (parts, body) = request.into_parts();
        let (answered, family) = match self.inner.head(&parts) {
            Ok(head) => {
                let family = head.family;
                (Arc::clone(&self.inner).answer(Arc::new(head), parts, body, &call).await, family)
            }
            Err(refusal) => (Err(refusal), Provider::of(parts.uri.path(), &parts.headers)),
        };
        match answered {
            Ok(response) => response,
            Err(refusal) => {
                self.inner.metrics.refused(refusal.kind());
                own(refusal.response(family)).await
            }
        }
    }
}

async fn own(response: Response<Full<Bytes>>) -> Response<Passing> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Response::from_parts(parts, Passing::whole(bytes))
}

impl Inner {
    async fn answer(
        self: Arc<Self>,
        head: Arc<Head>,
        parts: Parts,
        body: Incoming,
        call: &Call,
    ) -> Result<Response<Passing>, Refusal> {
        let Some(dialect) = head.endpoint.dialect() else {
            return Box::pin(self.pass_through(&head, parts, body)).await;
        };
        let serve = &self.settings.serve;
        let packed = body::take(body, serve.body_mb_max.0, serve.body_timeout_s.0, &self.body_memory).await?;
        self.metrics.request_bytes(packed.len() as u64);
        let is_read = !head.wishes.bypass || self.upstreams.are_by_model();
        let readable = if is_read { self.readable(&parts.headers, &packed).await } else { Ok(None) };
        let (plain, unreadable) = match readable {
            Ok(plain) => (plain, PassReason::NothingToDo),
            Err(reason) => (None, reason.into()),
        };
        let asked = plain.as_deref().and_then(|plain| Asked::read(dialect, plain)).map(Arc::new);
        let model = asked.as_deref().map(Asked::model).filter(|model| !model.is_empty());
        let way = Way::new(&head, self.onward_for(&head, model)?, parts);
        let (Some(asked), Some(plain), false) = (asked, plain, head.wishes.bypass) else {
            return self.go_on(way, packed, Err(unreadable), call).await;
        };
        if head.endpoint == Endpoint::Compact {
            return Box::pin(self.compact(&way, packed, asked)).await;
        }
        if let Endpoint::Count(_) = head.endpoint
            && !self.is_known_with_a_plan(&head, &asked)
        {
            return self.send_unread(&way, packed).await;
        }
        let found = match self.read(asked, &plain, &way) {
            Some(read) => self.found(read).await.map_err(PassReason::from),
            None => Err(PassReason::NothingToDo),
        };
        self.go_on(way, packed, found, call).await
    }

    /// A body as it can be read: unpacked, and counted with the copies that reading makes of it. Nothing where it is
    /// larger than any window or is none that can be unpacked; why not, where there is no memory for it now.
    async fn readable(&self, headers: &HeaderMap, packed: &Bytes) -> Result<Option<Bytes>, FailOpenReason> {
        let (plain, mut room) = match Packing::of(headers) {
            Ok(None) => (packed.clone(), self.body_memory.reservation()),
            Ok(Some(packing)) => match self.unpacked(packing, packed).await {
                Ok(unpacked) => unpacked,
                Err(Unpackable::OutOfMemory) => return Err(FailOpenReason::Memory),
                Err(Unpackable::Unknown | Unpackable::Broken | Unpackable::TooLarge) => return Ok(None),
            },
            Err(_) => return Ok(None),
        };
        if plain.len() > READ_BYTES_MAX {
            return Ok(None);
        }
        if room.grow(READ_COPIES * plain.len()) { Ok(Some(room.keep(plain))) } else { Err(FailOpenReason::Memory) }
    }

    /// Unpacks what is worth reading, on threads that may block, and not all of it at once.
    async fn unpacked(&self, packing: Packing, packed: &Bytes) -> Result<(Bytes, Reservation), Unpackable> {
        let permit = Arc::clone(&self.unpacking).acquire_owned().await.map_err(|_| Unpackable::OutOfMemory)?;
        let (packed, mut room) = (packed.clone(), self.body_memory.reservation());
        let unpacking = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let plain = body::unpack(packing, &packed, READ_BYTES_MAX, &mut room)?;
            Ok((plain, room))
        });
        unpacking.await.unwrap_or(Err(Unpackable::Broken))
    }

    /// Goes on with a request that was understood, or could not be: then it goes out as it came, with why if that is worth
    /// a word.
    async fn go_on(
        self: Arc<Self>,
        way: Way,
        packed: Bytes,
        found: Result<UnderWay, PassReason>,
        call: &Call,
    ) -> Result<Response<Passing>, Refusal> {
        let pass_reason = match found {
            Ok(under_way) => return Arc::clone(&self).relay(Arc::new(way), packed, under_way, call).await,
            Err(reason) => reason,
        };
        let mut response = self.send_unread(&way, packed).await?;
        if let PassReason::FailedOpen(reason) = pass_reason {
            self.metrics.failed_open(reason);
            headers::put_failed_open(response.headers_mut(), reason);
        }
        Ok(response)
    }

    /// Passes anything on, as it comes, in both directions. Where models have a say in where it goes, a request in JSON is
    /// looked at for the one that it names.
    async fn pass_through(&self, head: &Arc<Head>, parts: Parts, body: Incoming) -> Result<Response<Passing>, Refusal> {
        let is_small = body.size_hint().exact().is_some_and(|bytes| bytes > 0 && bytes <= READ_BYTES_MAX as u64);
        let kind = parts.headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        if !is_small || head.onward.is_some() || !kind.starts_with(b"application/json") {
            let way = Way::new(head, self.onward_for(head, None)?, parts);
            return Ok(self.unread(self.sent_on(&way, body.boxed_unsync(), |_| {}).await?));
        }
        let serve = &self.settings.serve;
        let packed = body::take(body, serve.body_mb_max.0, serve.body_timeout_s.0, &self.body_memory).await?;
        let plain = self.readable(&parts.headers, &packed).await.ok().flatten();
        let model = plain.as_deref().and_then(asked::model);
        let way = Way::new(head, self.onward_for(head, model.as_deref())?, parts);
        self.send_unread(&way, packed).await
    }

    /// Sends a body that was taken in but cannot or need not be understood.
    async fn send_unread(&self, way: &Way, packed: Bytes) -> Result<Response<Passing>, Refusal> {
        Ok(self.unread(self.sent_on(way, upstream::whole(packed), |_| {}).await?))
    }

    /// Sends a body on.
    async fn sent_on(
        &self,
        way: &Way,
        body: UpBody,
        edit: impl FnOnce(&mut HeaderMap),
    ) -> Result<Response<Incoming>, Refusal> {
        self.upstreams.send(&way.onward.upstream, way.request(body, edit)).await
    }

    /// Asks a provider for an answer.
    async fn asked(
        &self,
        way: &Way,
        body: UpBody,
        edit: impl FnOnce(&mut HeaderMap),
    ) -> Result<Response<Incoming>, Refusal> {
        let asked_at = Instant::now();
        let mut response = self.sent_on(way, body, edit).await?;
        self.metrics.first_byte(asked_at.elapsed());
        upstream::without_connection(response.headers_mut());
        Ok(response)
    }

    fn unread(&self, mut response: Response<Incoming>) -> Response<Passing> {
        upstream::without_connection(response.headers_mut());
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, Passing::unread(body, self.settings.serve.idle_timeout_s.0))
    }

    fn store_rests(&self) -> bool {
        let now = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        now < self.store_rests.load(Ordering::Relaxed)
    }

    /// A store that took as long as it may before it failed is left alone for a while; one that says no at once is not.
    fn store_failed_after(&self, begun: Instant) {
        if begun.elapsed() >= self.settings.serve.store_patience_ms.0 / 2 {
            self.store_failed();
        }
    }

    fn store_failed(&self) {
        let until = self.started.elapsed() + STORE_REST;
        self.store_rests.store(i64::try_from(until.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}
