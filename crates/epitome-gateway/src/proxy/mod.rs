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
mod record;
mod suspicion;
mod turn;
mod weaving;
pub mod wishes;

pub use answer::Passing;
pub use endpoint::Endpoint;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use epitome::budget::{Overflow, Tokens, Window};
use epitome::policy::{Policy, ReadBy};
use epitome::wire::BINDING_HEADER;
use epitome_runtime::engine::Engine;
use epitome_runtime::ids::{Moment, TenantId};
use epitome_runtime::model::{ModelError, Usage};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use answer::{Answer, End};
use asked::Asked;
use beside::{Beside, Pledge};
use ear::Ear;
use prompt::Sending;
use record::{Gone, Kept};
use suspicion::Suspicions;
use turn::{Pressure, Told, Turn};
use weaving::{Weaving, Woven};
use wishes::Wishes;

use crate::caller::{Caller, Callers};
use crate::identity::{Client, Ids, Lines, Placed, Relation, Scope, Wanted, fingerprints};
use crate::ledger::Ledger;
use crate::refusal::Refusal;
use crate::serve::{Call, LogNote, Metrics, Proxy, is_local};
use crate::settings::{Family, Settings, Upstream};
use crate::upstream::{self, UpBody, Upstreams};

/// How often a prompt that the provider refuses is made smaller.
const HARDER_MAX: u8 = 3;
/// What is left free when the answer's limit is lowered to what fits.
const OUTPUT_MARGIN: Tokens = Tokens::new(16);
/// The least output that is worth asking for.
const OUTPUT_MIN: Tokens = Tokens::new(64);
/// A smaller prompt is not too long for anybody who does not say so.
const UNSAID_MIN: Tokens = Tokens::new(1500);
/// Nor is one that takes less than this share of the window that is known.
const UNSAID_SHARE: f64 = 0.5;
/// The most answers that are kept at hand for whoever goes on from them.
const ANSWERS_MAX: usize = 1024;
/// The most engines for different policies and models at hand.
const ENGINES_MAX: usize = 256;
/// For how long a store that did not answer is not asked again.
const STORE_REST: Duration = Duration::from_secs(5);
/// Larger bodies are passed on unread.
const READ_BYTES_MAX: usize = 8 << 20;
/// Histories larger than this are read beside the async threads.
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
    /// The thread that was last begun in each scope.
    scopes: Mutex<HashMap<String, String>>,
    store_rests: AtomicI64,
    beside: Beside,
    started: Instant,
}

impl Relay {
    /// A relay that keeps its threads with this engine. Requests may name one of these policies.
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
            scopes: Mutex::default(),
            store_rests: AtomicI64::new(i64::MIN),
            beside: Beside::default(),
            started: Instant::now(),
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

    async fn answer(&self, request: Request<Incoming>, call: Call) -> Response<Passing> {
        let family = Family::of(request.uri().path(), request.headers());
        match Arc::clone(&self.inner).answer(request, &call).await {
            Ok(response) => response,
            Err(refusal) => {
                self.inner.metrics.refused(refusal.name());
                own(refusal.response(family)).await
            }
        }
    }
}

/// The tokens of a request that has nothing new in it, as it was counted before.
fn known_tokens(turn: &Turn) -> Option<Tokens> {
    let facts = turn.placed.line.facts();
    let is_settled = facts.pending.is_empty() && facts.version == 0;
    let counted = facts.counted.filter(|counted| is_settled && counted.messages == turn.asked.messages().len())?;
    Some(counted.tokens + counted.fixed)
}

fn too_long(overflow: Overflow, message: &str) -> ModelError {
    ModelError::Overflow { status: 200, overflow, message: message.to_owned() }
}

/// Whether a refusal names a size.
fn says_a_number(error: &ModelError) -> bool {
    let ModelError::Overflow { overflow, status, message } = error else { return false };
    overflow.limit().is_some() || (*status != 200 && !message.starts_with("it gives no reason"))
}

/// Whether a provider refuses a request for anything but its size, the caller, or the moment.
fn is_refused_for_how_it_is_written(answer: &Answer, error: &Option<ModelError>) -> bool {
    matches!(answer.parts.status.as_u16(), 400 | 422) && error.is_none()
}

async fn own(response: Response<Full<Bytes>>) -> Response<Passing> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Response::from_parts(parts, Passing::whole(bytes))
}

/// A request on its way: where it goes and with which headers.
struct Way {
    upstream: Arc<Upstream>,
    path: PathAndQuery,
    headers: HeaderMap,
    method: http::Method,
    extensions: http::Extensions,
    endpoint: Endpoint,
}

impl Way {
    /// The request with this body.
    fn request(&self, body: UpBody, edit: impl FnOnce(&mut HeaderMap)) -> Request<UpBody> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.upstream.uri_of(&self.path);
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        edit(request.headers_mut());
        request
    }
}

impl Inner {
    async fn answer(self: Arc<Self>, request: Request<Incoming>, call: &Call) -> Result<Response<Passing>, Refusal> {
        let caller = self.callers.of_proxied(request.headers()).map_err(Refusal::Unknown)?;
        let wishes =
            Wishes::read(request.headers()).map_err(|unclear| Refusal::Unclear { reason: unclear.to_string() })?;
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let family = Family::of(parts.uri.path(), &parts.headers);
        let by_path = self.upstreams.of(parts.uri.path(), None, family);
        let inner_path = by_path.as_ref().map_or_else(|| path.clone(), |upstream| upstream.path_of(&path));
        let endpoint = Endpoint::of(&parts.method, inner_path.path());
        let Some(dialect) = endpoint.dialect() else {
            let upstream = by_path.ok_or(Refusal::NoUpstream)?;
            self.may_spend(&upstream, &parts.headers)?;
            return self.pass_through(&upstream, &caller, parts, body).await;
        };
        let limits = &self.settings.limits;
        let packed = body::take(body, limits.body_bytes_max, limits.body_timeout).await?;
        self.metrics.request_bytes(packed.len() as u64);
        let plain = body::unpacked(&parts.headers, &packed, limits.body_bytes_max);
        // What is larger than any window is not worth the memory that understanding it takes.
        let asked = plain.as_ref().filter(|plain| plain.len() <= READ_BYTES_MAX);
        let asked = asked.and_then(|plain| Asked::read(dialect, plain));
        let model = asked.as_ref().map(Asked::model).filter(|model| !model.is_empty());
        let upstream = self.upstreams.of(parts.uri.path(), model, family).ok_or(Refusal::NoUpstream)?;
        self.may_spend(&upstream, &parts.headers)?;
        let way = Way {
            headers: upstream::headers(&upstream, &parts.headers, family, caller.replaces_key),
            upstream,
            path,
            method: parts.method,
            extensions: parts.extensions,
            endpoint,
        };
        let (Some(asked), Some(plain), false) = (asked, plain, wishes.bypass) else {
            return self.send_unread(&way, packed).await;
        };
        if endpoint == Endpoint::Compact {
            return self.compact(&way, packed, asked, &caller).await;
        }
        if let Endpoint::Count(_) = endpoint
            && !self.is_known_with_a_plan(&caller, &parts.headers, &asked)
        {
            return self.send_unread(&way, packed).await;
        }
        let turn = self.turn(caller, wishes, &parts.headers, asked, plain).await?;
        match turn {
            Ok(turn) => {
                let turn = Arc::new(turn);
                let pledge = Pledge::of(&self, &turn);
                let answered = Arc::clone(&self).relay(Arc::new(way), packed, turn, call).await;
                // Who has a note is recorded when it is over.
                if answered.as_ref().is_ok_and(|response| response.extensions().get::<LogNote>().is_some()) {
                    pledge.redeem();
                }
                answered
            }
            Err(why) => {
                self.metrics.failed_open(why);
                let mut response = self.send_unread(&way, packed).await?;
                headers::put_failed_open(response.headers_mut(), why);
                Ok(response)
            }
        }
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
        parts: http::request::Parts,
        body: Incoming,
    ) -> Result<Response<Passing>, Refusal> {
        let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        let mut request = Request::new(body.boxed_unsync());
        *request.method_mut() = parts.method;
        *request.uri_mut() = upstream.uri_of(&path);
        *request.headers_mut() = upstream::headers(
            upstream,
            &parts.headers,
            Family::of(parts.uri.path(), &parts.headers),
            caller.replaces_key,
        );
        *request.extensions_mut() = parts.extensions;
        let response = self.upstreams.send(request).await?;
        Ok(self.unread(response))
    }

    /// Sends a body that was taken in but cannot or need not be understood.
    async fn send_unread(&self, way: &Way, packed: Bytes) -> Result<Response<Passing>, Refusal> {
        let response = self.upstreams.send(way.request(upstream::whole(packed), |_| {})).await?;
        Ok(self.unread(response))
    }

    fn unread(&self, mut response: Response<Incoming>) -> Response<Passing> {
        upstream::without_connection(response.headers_mut());
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, Passing::unread(body, self.settings.limits.idle_timeout))
    }

    /// Understands a request: who sends it, and which thread it belongs to. Why not, where that cannot be told now.
    async fn turn(
        &self,
        caller: Caller,
        wishes: Wishes,
        headers: &HeaderMap,
        asked: Asked,
        original: Bytes,
    ) -> Result<Result<Turn, &'static str>, Refusal> {
        let policy = match &wishes.policy {
            None => None,
            Some(name) => Some((name.as_str(), self.policy(name)?)),
        };
        let client = Client::of(headers, &asked.named());
        let scope = Scope::of(asked.dialect(), &caller.scope, client.session.as_deref());
        let has_tools = self.gives_tools(&client, &wishes, &asked);
        let engine = self.engine_for(policy, asked.model(), has_tools);
        let asked = match self.completed(&engine, &caller, asked).await {
            Ok(asked) => asked,
            Err(why) => return Ok(Err(why)),
        };
        if asked.is_hidden() {
            return Ok(Err("hidden"));
        }
        let prints = fingerprints(&scope, asked.messages());
        let placed = match self.placed(&engine, &caller, &client, (&scope, &prints), &asked).await {
            Ok(placed) => placed,
            Err(why) => return Ok(Err(why)),
        };
        placed.line.facts().pin(&wishes.pins);
        let at = Moment::now();
        Ok(Ok(Turn { at, caller, client, wishes, original, asked, scope, prints, placed, engine, has_tools }))
    }

    /// Whether a history is one of a thread at hand that has a plan.
    fn is_known_with_a_plan(&self, caller: &Caller, headers: &HeaderMap, asked: &Asked) -> bool {
        let client = Client::of(headers, &asked.named());
        let scope = Scope::of(asked.dialect(), &caller.scope, client.session.as_deref());
        let line = self.lines.known(&fingerprints(&scope, asked.messages()));
        line.is_some_and(|line| line.facts().version > 0)
    }

    fn policy(&self, name: &str) -> Result<&Policy, Refusal> {
        self.policies.get(name).ok_or_else(|| {
            let known: Vec<String> = self.policies.keys().cloned().collect();
            Refusal::Unclear { reason: Wishes::no_policy(name, &known).to_string() }
        })
    }

    /// Whether a request gets the gateway's own tools.
    fn gives_tools(&self, client: &Client, wishes: &Wishes, asked: &Asked) -> bool {
        let rules = &self.settings.tools;
        let by_client = || rules.clients.iter().find(|(name, _)| name == client.name).map(|(_, on)| *on);
        // Who has no tools at all is not given ours unless they ask for them: titles and summaries are such requests.
        let has_any = asked.document.tools().is_some_and(|tools| tools.as_str() != "[]");
        wishes.tools.unwrap_or_else(|| has_any && by_client().unwrap_or(rules.others))
    }

    /// The engine for a policy and a model. A prompt without our tools does not speak of them.
    fn engine_for(&self, policy: Option<(&str, &Policy)>, model: &str, has_tools: bool) -> Engine {
        let key = (format!("{}/{has_tools}", policy.map_or("", |(name, _)| name)), model.to_owned());
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = engines.get(&key) {
            return engine.clone();
        }
        if engines.len() >= ENGINES_MAX {
            engines.clear();
        }
        let mut policy = policy.map_or_else(|| self.engine.settings().policy.clone(), |(_, policy)| policy.clone());
        if !has_tools {
            policy.externalise.by = ReadBy::Nobody;
        }
        let engine = self.engine.under(Some(&policy), Some(model).filter(|model| !model.is_empty()));
        engines.insert(key, engine.clone());
        engine
    }

    /// The thread of a history: at hand, in the store, or new.
    async fn placed(
        &self,
        engine: &Engine,
        caller: &Caller,
        client: &Client,
        (scope, prints): (&Scope, &[blake3::Hash]),
        asked: &Asked,
    ) -> Result<Placed, &'static str> {
        let messages = asked.messages();
        let labels = prompt::labels(client, asked.model(), None);
        let frame = asked.frame();
        let mut wanted = Wanted { tenant: &caller.tenant, scope, messages, prints, labels, frame };
        if let Some(placed) = self.lines.at_hand(&wanted) {
            return Ok(placed);
        }
        if self.store_rests() {
            return Err("store");
        }
        let ids = match asked.document.source().len() > ASIDE_BYTES {
            false => Ids::of(asked.dialect(), messages),
            true => {
                let (dialect, messages) = (asked.dialect(), messages.to_vec());
                let read = tokio::task::spawn_blocking(move || Ids::of(dialect, &messages));
                read.await.map_err(|_| "broken")?
            }
        };
        let sought = async {
            if let Some(earlier) = self.earlier(engine, caller, scope).await {
                wanted.labels = prompt::labels(client, asked.model(), Some(&earlier));
            }
            self.lines.seek(engine, &wanted, &ids).await
        };
        match tokio::time::timeout(self.settings.limits.store_patience, sought).await {
            Ok(Ok(placed)) => {
                if placed.relation == Relation::New && scope.is_named() {
                    self.note_scope(scope, &placed.line.key().thread);
                }
                Ok(placed)
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a thread could not be looked for");
                self.store_failed();
                Err("store")
            }
            Err(_) => {
                tracing::warn!("the store did not answer in time");
                self.store_failed();
                Err("store")
            }
        }
    }

    fn store_rests(&self) -> bool {
        let now = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        now < self.store_rests.load(Ordering::Relaxed)
    }

    fn store_failed(&self) {
        let until = self.started.elapsed() + STORE_REST;
        self.store_rests.store(i64::try_from(until.as_millis()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Sends a turn, and again while the provider says that it is too long and something can be done about it.
    async fn relay(
        self: Arc<Self>,
        way: Arc<Way>,
        packed: Bytes,
        turn: Arc<Turn>,
        call: &Call,
    ) -> Result<Response<Passing>, Refusal> {
        let is_answer = matches!(way.endpoint, Endpoint::Answer(_));
        let mut pressure = Pressure::default();
        let mut first: Option<(Answer, Told, Option<Woven>)> = None;
        let mut sent: Option<Bytes> = None;
        let mut retries = 0;
        loop {
            let mut sending = self.sending(&turn, &pressure).await;
            sending.counted = sending.counted.or_else(|| known_tokens(&turn));
            let settling = (sending.counted.is_none() && !self.store_rests()).then(|| self.settling(&turn));
            if sent.as_ref() == Some(&sending.body)
                && let Some((answer, told, woven)) = first.take()
            {
                return Ok(self.finished(&way, &turn, answer, told, (None, woven, false), call).await);
            }
            sent = Some(sending.body.clone());
            let woven = match is_answer && turn.has_tools && !pressure.as_it_came {
                true => std::str::from_utf8(&sending.body).ok().and_then(|body| weaving::given(body, &turn)),
                false => None,
            };
            if let Some(woven) = &woven {
                (sending.body, sending.is_original) = (woven.body.clone().into(), false);
            }
            let answer = self.sent(&way, &packed, &sending, &turn, !is_answer).await?;
            let (answer, error) = match answer {
                Ok(passing) => return Ok(passing),
                Err(begun) => begun,
            };
            if let Some(settling) = settling {
                let patience = self.settings.limits.store_patience;
                match tokio::time::timeout(patience, settling).await {
                    Ok(counted) => sending.counted = counted.ok().flatten(),
                    // One that takes long may be large: whether the store is well is not said by it.
                    Err(_) => tracing::warn!("what came is still on its way into the log"),
                }
            }
            let told = Told { retries, ..sending.told.clone() };
            if is_refused_for_how_it_is_written(&answer, &error) && !sending.is_original && !pressure.as_it_came {
                // Whatever is wrong with what was made of it, the provider may take what came.
                tracing::error!(status = answer.parts.status.as_u16(), "a prompt was refused; what came goes out");
                self.metrics.failed_open("refused");
                pressure = Pressure { as_it_came: true, ..Pressure::default() };
                continue;
            }
            let counted = || sending.counted.unwrap_or_else(|| record::all_tokens(&turn));
            let error = match error {
                Some(error) if says_a_number(&error) || self.may_be_too_long(&turn, counted()) => Some(error),
                Some(_) => None,
                None if answer.parts.status.is_success() => self.unsaid(&turn, &answer, counted()),
                None => None,
            };
            let Some(error) = error.filter(|_| !turn.asked.is_native()) else {
                if let Some(window) = pressure.window.filter(|_| retries > 0) {
                    self.suspicions.refused(turn.asked.model(), window);
                }
                let how = (sending.counted, woven, sending.drops_thinking);
                return Ok(self.finished(&way, &turn, answer, told, how, call).await);
            };
            let more = self.pressed(&turn, &pressure, &sending, &error);
            let original = first.take().unwrap_or((answer, told, woven));
            let Some(more) = more else {
                let (answer, told, woven) = original;
                return Ok(self.finished(&way, &turn, answer, told, (None, woven, false), call).await);
            };
            first = Some(original);
            self.metrics.retried();
            retries += 1;
            pressure = more;
        }
    }

    /// What goes out. Whatever fails, that is what came.
    async fn sending(self: &Arc<Self>, turn: &Arc<Turn>, pressure: &Pressure) -> Sending {
        let told = Told {
            thread: Some(turn.placed.line.key().thread),
            relation: Some(turn.placed.relation),
            plan: 0,
            ..Told::default()
        };
        if pressure.as_it_came {
            return Sending::original(turn, Told { failed_open: Some("refused"), ..told });
        }
        let is_first = pressure.harder == 0 && pressure.output.is_none();
        if is_first && (turn.asked.is_native() || self.certainly_fits(turn)) {
            return Sending::original(turn, told);
        }
        let failed = |why| {
            self.metrics.failed_open(why);
            Sending::original(turn, Told { failed_open: Some(why), ..told.clone() })
        };
        if self.store_rests() {
            return failed("store");
        }
        // It goes on by itself even if it is not waited for: nothing that came may be lost on the way.
        let begun = Instant::now();
        let made = tokio::spawn(Arc::clone(self).prompt(Arc::clone(turn), pressure.clone()));
        match tokio::time::timeout(self.patience(turn), made).await {
            Ok(Ok(Ok(sending))) => {
                // A store that only says no is gone on without; one that is waited for each time is left alone for a while.
                if !sending.is_saved && begun.elapsed() > self.settings.limits.store_patience {
                    self.store_failed();
                }
                sending
            }
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "a prompt could not be prepared; the request goes out as it came");
                failed("store")
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "planning broke off; the request goes out as it came");
                failed("broken")
            }
            Err(_) => {
                tracing::warn!("a prompt took too long; the request goes out as it came");
                failed("slow")
            }
        }
    }

    /// How long a request waits for its prompt: as long as the store may take, and a compaction besides.
    fn patience(&self, turn: &Turn) -> Duration {
        let wait = match turn.engine.settings().background {
            epitome_runtime::engine::Background::On { wait } => wait,
            epitome_runtime::engine::Background::Off => Duration::from_secs(30),
        };
        self.settings.limits.store_patience + wait
    }

    /// Sends a body. What need not be looked at is passed on at once.
    async fn sent(
        &self,
        way: &Way,
        packed: &Bytes,
        sending: &Sending,
        turn: &Turn,
        is_unread: bool,
    ) -> Result<Result<Response<Passing>, (Answer, Option<ModelError>)>, Refusal> {
        let body = if sending.is_original { packed.clone() } else { sending.body.clone() };
        let length = body.len();
        let request = way.request(upstream::whole(body), |headers| {
            if !sending.is_original {
                upstream::rewritten(headers);
                headers.insert(CONTENT_LENGTH, length.into());
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            if sending.drops_thinking {
                headers::add_beta(headers, BINDING_HEADER);
            }
        });
        let asked_at = Instant::now();
        let mut response = self.upstreams.send(request).await?;
        self.metrics.first_byte(asked_at.elapsed());
        upstream::without_connection(response.headers_mut());
        if is_unread {
            return Ok(Ok(self.unread(response)));
        }
        let ear = Ear::new(turn.asked.dialect(), response.headers());
        Ok(Err(Answer::begin(response, ear, self.settings.limits.idle_timeout).await))
    }

    /// How to go on after a refusal; `None` when going on cannot help.
    fn pressed(&self, turn: &Turn, before: &Pressure, sending: &Sending, error: &ModelError) -> Option<Pressure> {
        let ModelError::Overflow { overflow, .. } = error else { return None };
        let counted = sending.counted.unwrap_or_else(|| record::all_tokens(turn));
        let refused = Some((error.clone(), counted));
        let output = overflow.output_that_fits(OUTPUT_MARGIN).filter(|output| *output >= OUTPUT_MIN);
        if let Some(output) = output.filter(|output| before.output.is_none_or(|asked| *output < asked)) {
            return Some(Pressure { output: Some(output), refused, ..before.clone() });
        }
        if before.harder >= HARDER_MAX || turn.asked.messages().is_empty() {
            return None;
        }
        // Who names no limit has one below what it was sent.
        let window = match overflow.limit() {
            Some(_) => before.window,
            None => Some(before.window.unwrap_or(counted)),
        };
        Some(Pressure { harder: before.harder + 1, refused, window, ..before.clone() })
    }

    /// Whether an answer says, without a number, that the prompt was too long; and whether that can be.
    fn unsaid(&self, turn: &Turn, answer: &Answer, counted: Tokens) -> Option<ModelError> {
        let usage = answer.known().and_then(|answer| answer.usage);
        if answer.is_cut_at_the_window() {
            let limit = usage.map(|usage| Tokens::new(usage.input + usage.output)).filter(|limit| *limit > UNSAID_MIN);
            return Some(too_long(Overflow::InputTooLong { used: None, limit }, "it stopped where its window ends"));
        }
        if answer.is_hollow() && self.may_be_too_long(turn, counted) {
            return Some(too_long(Overflow::InputTooLong { used: None, limit: None }, "it answered without a word"));
        }
        let window = self.suspicions.went_through(turn.asked.model(), counted, &usage?)?;
        let overflow = Overflow::InputTooLong { used: None, limit: Some(window) };
        Some(too_long(overflow, "it counted far less than it was sent"))
    }

    /// Whether a prompt of this size may be too long for a model that only says so.
    fn may_be_too_long(&self, turn: &Turn, counted: Tokens) -> bool {
        if counted <= UNSAID_MIN {
            return false;
        }
        let is_known = !matches!(turn.engine.learnt().windows.of(turn.asked.model()), Window::Fallback(_));
        !is_known || counted > self.window_of(turn).share(UNSAID_SHARE)
    }

    /// The window of the model that a turn is for, as far as it is known.
    fn window_of(&self, turn: &Turn) -> Tokens {
        let known = record::window(turn);
        self.suspicions.window(turn.asked.model()).map_or(known, |suspected| suspected.min(known))
    }

    /// Brings what came into the log while the provider thinks. The tokens of the request, where that was done.
    fn settling(self: &Arc<Self>, turn: &Arc<Turn>) -> tokio::task::JoinHandle<Option<Tokens>> {
        let (relay, turn) = (Arc::clone(self), Arc::clone(turn));
        tokio::spawn(async move {
            let line = Arc::clone(&turn.placed.line);
            let open = relay.settled(&turn, &line).await;
            let open = open.inspect_err(|error| tracing::warn!(%error, "what came is not in the log yet")).ok()?;
            let thread = open.as_ref().filter(|thread| thread.thread().evicted().is_none())?.thread();
            let tokens = thread.tokens(0..turn.asked.messages().len().min(thread.len()));
            let fixed = line.facts().counted.map(|counted| counted.fixed);
            Some(tokens + fixed.unwrap_or_else(|| record::fixed_tokens(&turn)))
        })
    }

    /// The answer on its way, with what is told of it.
    async fn finished(
        self: &Arc<Self>,
        way: &Arc<Way>,
        turn: &Arc<Turn>,
        mut answer: Answer,
        told: Told,
        (counted, woven, drops_thinking): (Option<Tokens>, Option<Woven>, bool),
        call: &Call,
    ) -> Response<Passing> {
        if let (true, Some(before), Some(after)) = (told.plan > 0, told.before, told.after) {
            self.metrics.compacted(before.get().saturating_sub(after.get()));
        }
        headers::put(&mut answer.parts.headers, &told);
        answer.parts.extensions.insert(LogNote { thread: told.thread.clone(), client: Some(turn.client.name.into()) });
        let turn_of_weaving = turn;
        let (relay, turn, id) = (Arc::clone(self), Arc::clone(turn), call.id.clone());
        let status = answer.parts.status;
        let ended = move |end: End, rounds: Vec<Usage>| {
            relay.remember(&turn, &end);
            let gone = Gone { told, counted, status, end, id, rounds };
            relay.aside(|relay| relay.record(turn, gone));
        };
        match woven.filter(|_| status.is_success()) {
            Some(woven) => {
                let (relay, way, at_end) = (Arc::clone(self), Arc::clone(way), Box::new(ended));
                let turn = Arc::clone(turn_of_weaving);
                Weaving { relay, turn, way, woven, drops_thinking, at_end }.pass_on(answer).await
            }
            None => answer.pass_on(self.settings.limits.idle_timeout, Box::new(move |end| ended(end, Vec::new()))),
        }
    }
}
