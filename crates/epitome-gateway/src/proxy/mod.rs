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
mod glance;
mod headers;
mod memory;
mod prompt;
mod reading;
mod record;
mod relay;
mod suspicion;
mod turn;
mod weaving;
pub mod wishes;

pub use answer::Passing;
pub use endpoint::Endpoint;
pub use memory::Memory;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use epitome::policy::Policy;
use epitome_runtime::engine::Engine;
use epitome_runtime::ids::TenantId;
use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::runtime::Handle;

use asked::Asked;
use beside::Beside;
use memory::Before;
use reading::UnderWay;
use record::{Gone, Kept};
use suspicion::Suspicions;
use turn::Turn;
use wishes::Wishes;

use crate::caller::{Caller, Callers};
use crate::identity::Lines;
use crate::ledger::Ledger;
use crate::refusal::Refusal;
use crate::serve::{Call, LogNote, Metrics, Proxy, is_local};
use crate::settings::{Family, Settings, Upstream};
use crate::upstream::{self, Lent, UpBody, Upstreams};

/// The most answers that are kept at hand for whoever goes on from them.
const ANSWERS_MAX: usize = 1024;
/// For how long a store that did not answer is not asked again.
const STORE_REST: Duration = Duration::from_secs(5);
/// Larger bodies are passed on unread.
const READ_BYTES_MAX: usize = 8 << 20;

/// What is larger than this is read beside the threads that pass bytes on.
const ASIDE_BYTES: usize = 128 * 1024;

/// Answers what is not the gateway's own. A clone is the same.
#[derive(Clone, Debug)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: Arc<Settings>,
    engine: Engine,
    engines: Mutex<HashMap<(String, String), Engine>>,
    policies: BTreeMap<String, Policy>,
    callers: Callers,
    upstreams: Upstreams,
    lines: Lines,
    metrics: Arc<Metrics>,
    ledger: Arc<Ledger>,
    suspicions: Suspicions,
    answers: Mutex<HashMap<(TenantId, String), Kept>>,
    /// Requests that are over and not recorded yet.
    over: Mutex<Vec<(Arc<Turn>, Gone)>>,
    /// The thread that was last begun in each scope.
    scopes: Mutex<HashMap<String, String>>,
    store_rests: AtomicI64,
    beside: Beside,
    /// How many bytes the connections remember.
    remembered: Arc<AtomicUsize>,
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
            upstreams: Upstreams::new(settings.upstreams.clone(), &settings.limits),
            lines: Lines::new(settings.limits.memory_bytes_max),
            engines: Mutex::default(),
            suspicions: Suspicions::default(),
            answers: Mutex::default(),
            over: Mutex::default(),
            scopes: Mutex::default(),
            store_rests: AtomicI64::new(i64::MIN),
            beside: Beside::default(),
            remembered: Arc::default(),
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

    /// Waits until everything that came is in the log, as long as somebody has patience; whether it is. To be asked for
    /// when no more requests come.
    pub async fn ended(&self, patience: Duration) -> bool {
        self.inner.ended(patience).await
    }
}

impl Proxy for Relay {
    type Body = Passing;
    type Memory = Memory;

    async fn answer(&self, request: Request<Incoming>, call: Call, memory: &Memory) -> Response<Passing> {
        let family = Family::of(request.uri().path(), request.headers());
        match Arc::clone(&self.inner).answer(request, family, &call, memory).await {
            Ok(response) => response,
            Err(refusal) => {
                self.inner.metrics.refused(refusal.name());
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

/// A request on its way: where it goes, and what came with it.
struct Way {
    upstream: Arc<Upstream>,
    path: PathAndQuery,
    /// The client's headers.
    headers: HeaderMap,
    family: Family,
    /// Whether the client's key is one of the gateway's own.
    replaces_key: bool,
    method: http::Method,
    extensions: http::Extensions,
    endpoint: Endpoint,
}

impl Way {
    fn is_for_an_answer(&self) -> bool {
        matches!(self.endpoint, Endpoint::Answer(_))
    }

    /// The request with this body.
    fn request(&self, body: UpBody, edit: impl FnOnce(&mut HeaderMap)) -> Request<UpBody> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.upstream.uri_of(&self.path);
        *request.headers_mut() = upstream::headers(&self.upstream, &self.headers, self.family, self.replaces_key);
        *request.extensions_mut() = self.extensions.clone();
        edit(request.headers_mut());
        request
    }
}

impl Inner {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        family: Family,
        call: &Call,
        memory: &Memory,
    ) -> Result<Response<Passing>, Refusal> {
        let caller = self.callers.of_proxied(request.headers()).map_err(Refusal::Unknown)?;
        let wishes =
            Wishes::read(request.headers()).map_err(|unclear| Refusal::Unclear { reason: unclear.to_string() })?;
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let by_path = self.upstreams.of(parts.uri.path(), None, family);
        let inner_path = by_path.as_ref().map_or_else(|| path.clone(), |upstream| upstream.path_of(&path));
        let endpoint = Endpoint::of(&parts.method, inner_path.path());
        let Some(dialect) = endpoint.dialect() else {
            let upstream = by_path.ok_or(Refusal::NoUpstream)?;
            self.may_spend(&upstream, &parts.headers)?;
            return Box::pin(self.pass_through(&upstream, &caller, family, parts, body)).await;
        };
        if let Some(name) = wishes.policy.as_ref().filter(|_| !wishes.bypass) {
            self.policy(name)?;
        }
        let limits = &self.settings.limits;
        let packed = body::take(body, limits.body_bytes_max, limits.body_timeout).await?;
        self.metrics.request_bytes(packed.len() as u64);
        let plain = body::unpacked(&parts.headers, &packed, limits.body_bytes_max);
        let (method, headers, extensions) = (parts.method, parts.headers, parts.extensions);
        let by_path = by_path.filter(|_| !self.upstreams.are_by_model());
        let replaces_key = caller.replaces_key;
        let way = |upstream: Arc<Upstream>| {
            self.may_spend(&upstream, &headers)?;
            Ok::<_, Refusal>(Way { upstream, path, headers, family, replaces_key, method, extensions, endpoint })
        };
        let before = memory.last();
        if let (Some(plain), Some(upstream), Endpoint::Answer(_)) = (&plain, &by_path, endpoint)
            && self.goes_at_once(plain, &wishes, upstream, before.as_deref())
        {
            let way = way(Arc::clone(upstream))?;
            let found = async {
                // The connection writes first.
                tokio::task::yield_now().await;
                let asked = Asked::read(dialect, plain, before.as_deref().map(Before::asked)).ok_or(None)?;
                let read = self.read(caller, wishes, (asked, plain, before), &way).ok_or(None)?;
                let found = self.found(read).await.map_err(Some)?;
                memory.keep(&found.turn, true, &self.remembered);
                Ok(found)
            };
            let (early, found) = tokio::join!(self.asked(way.request(upstream::whole(packed.clone()), |_| {})), found);
            return self.go_on(way, packed, found, Some(early), call).await;
        }
        // What is larger than any window is not worth the memory that understanding it takes.
        let is_read = !wishes.bypass || self.upstreams.are_by_model();
        let asked = match plain.clone().filter(|plain| is_read && plain.len() <= READ_BYTES_MAX) {
            Some(plain) if plain.len() > ASIDE_BYTES => {
                let before = before.clone();
                self.work
                    .spawn(async move { Asked::read(dialect, &plain, before.as_deref().map(Before::asked)) })
                    .await
                    .ok()
                    .flatten()
            }
            plain => plain.and_then(|plain| Asked::read(dialect, &plain, before.as_deref().map(Before::asked))),
        };
        let model = asked.as_ref().map(Asked::model).filter(|model| !model.is_empty());
        let way = way(self.upstreams.of(parts.uri.path(), model, family).ok_or(Refusal::NoUpstream)?)?;
        let (Some(asked), Some(plain), false) = (asked, plain, wishes.bypass) else {
            return self.send_unread(&way, packed).await;
        };
        if endpoint == Endpoint::Compact {
            return Box::pin(self.compact(&way, packed, asked, &caller)).await;
        }
        if let Endpoint::Count(_) = endpoint
            && !self.is_known_with_a_plan(&caller, &way.headers, &asked)
        {
            return self.send_unread(&way, packed).await;
        }
        let found = match self.read(caller, wishes, (asked, &plain, before), &way) {
            Some(read) => self.found(read).await.map_err(Some),
            None => Err(None),
        };
        if let Ok(found) = &found {
            memory.keep(&found.turn, false, &self.remembered);
        }
        self.go_on(way, packed, found, None, call).await
    }

    /// Goes on with a request that was understood, or could not be: then it goes out as it came, with why if that is worth
    /// a word.
    async fn go_on(
        self: Arc<Self>,
        way: Way,
        packed: Bytes,
        found: Result<UnderWay, Option<&'static str>>,
        early: Option<Result<Response<Lent>, Refusal>>,
        call: &Call,
    ) -> Result<Response<Passing>, Refusal> {
        let why = match found {
            Ok(under_way) => {
                let UnderWay { turn, settling, pledge } = under_way;
                let answered = Arc::clone(&self).relay(Arc::new(way), packed, (turn, settling), early, call).await;
                // Who has a note is recorded when it is over.
                if answered.as_ref().is_ok_and(|response| response.extensions().get::<LogNote>().is_some()) {
                    pledge.redeem();
                }
                return answered;
            }
            Err(why) => why,
        };
        let mut response = match early {
            Some(early) => self.unread(early?),
            None => self.send_unread(&way, packed).await?,
        };
        if let Some(why) = why {
            self.metrics.failed_open(why);
            headers::put_failed_open(response.headers_mut(), why);
        }
        Ok(response)
    }

    /// A key of the gateway's own is not for pages in a browser on the same machine, where nothing else locks it.
    fn may_spend(&self, upstream: &Upstream, headers: &HeaderMap) -> Result<(), Refusal> {
        match upstream.key.is_some() && !self.callers.have_keys() && !is_local(headers) {
            true => Err(Refusal::Foreign),
            false => Ok(()),
        }
    }

    /// Passes anything on, as it comes, in both directions.
    async fn pass_through(
        &self,
        upstream: &Upstream,
        caller: &Caller,
        family: Family,
        parts: http::request::Parts,
        body: Incoming,
    ) -> Result<Response<Passing>, Refusal> {
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let mut request = Request::new(body.boxed_unsync());
        *request.method_mut() = parts.method;
        *request.uri_mut() = upstream.uri_of(&path);
        *request.headers_mut() = upstream::headers(upstream, &parts.headers, family, caller.replaces_key);
        *request.extensions_mut() = parts.extensions;
        let response = self.upstreams.send(request).await?;
        Ok(self.unread(response))
    }

    /// Sends a body that was taken in but cannot or need not be understood.
    async fn send_unread(&self, way: &Way, packed: Bytes) -> Result<Response<Passing>, Refusal> {
        let response = self.upstreams.send(way.request(upstream::whole(packed), |_| {})).await?;
        Ok(self.unread(response))
    }

    /// Asks a provider for an answer.
    async fn asked(&self, request: Request<UpBody>) -> Result<Response<Lent>, Refusal> {
        let asked_at = Instant::now();
        let mut response = self.upstreams.send(request).await?;
        self.metrics.first_byte(asked_at.elapsed());
        upstream::without_connection(response.headers_mut());
        Ok(response)
    }

    fn unread(&self, mut response: Response<Lent>) -> Response<Passing> {
        upstream::without_connection(response.headers_mut());
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, Passing::unread(body, self.settings.limits.idle_timeout))
    }

    fn store_rests(&self) -> bool {
        let now = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        now < self.store_rests.load(Ordering::Relaxed)
    }

    fn store_failed(&self) {
        let until = self.started.elapsed() + STORE_REST;
        self.store_rests.store(i64::try_from(until.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }
}
