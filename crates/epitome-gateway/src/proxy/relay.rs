//! The relay: a turn is sent, and again while the provider says that it is too long and something can be done about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use epitome::budget::{Overflow, Tokens, Window};
use epitome::wire::BINDING_HEADER;
use epitome_runtime::model::{ModelError, OverflowRetry, Usage};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, Response};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::answer::{Answer, End, Hold, Passing};
use super::beside::Pledge;
use super::ear::Ear;
use super::prompt::Sending;
use super::reading::UnderWay;
use super::record::{self, Gone};
use super::suspicion::{Shown, WINDOW_MIN};
use super::turn::{Pressure, Told, Turn};
use super::way::Way;
use super::weaving::{self, Weaving, Woven};
use super::{Inner, headers};
use crate::fail_open::FailOpenReason;
use crate::refusal::Refusal;
use crate::serve::{Call, LogNote};
use crate::settings::Persist;
use crate::upstream;

/// A smaller prompt is not too long for anybody who does not say so.
pub(super) const UNSAID_MIN: Tokens = Tokens::new(1500);
/// More bytes than a token of plain text has.
const BYTES_PER_TOKEN: u64 = 5;
/// Nor is one that takes less than this share of the window that is known.
const UNSAID_SHARE: f64 = 0.5;

/// What came on its way into the log: the tokens of it, when it is there.
pub(super) type Settling = JoinHandle<Option<Tokens>>;

/// What the provider answered to one prompt.
struct Tried {
    answer: Answer,
    /// What it said instead of an answer: that the prompt is too long.
    error: Option<ModelError>,
    told: Told,
    /// What the prompt was counted as.
    counted: Option<Tokens>,
    woven: Option<Woven>,
    /// Whether the prompt needs the header that lets thinking of another prefix be dropped.
    drops_thinking: bool,
    /// What the answers took that were thrown away for this one.
    discarded: Vec<Usage>,
}

impl Inner {
    /// Sends a turn until there is an answer that the client may have.
    pub(super) async fn relay(
        self: Arc<Self>,
        way: Arc<Way>,
        packed: Bytes,
        UnderWay { turn, mut settling, pledge }: UnderWay,
        call: &Call,
    ) -> Result<Response<Passing>, Refusal> {
        let mut pressure = Pressure::default();
        let mut first: Option<Tried> = None;
        let mut sent: Option<Bytes> = None;
        let mut discarded = Vec::new();
        loop {
            let sending = self.sending(&turn, &pressure).await;
            if sent.as_ref() == Some(&sending.body)
                && let Some(first) = first.take()
            {
                return Ok(self.finished(&way, (&turn, pledge, settling), first, call).await);
            }
            sent = Some(sending.body.clone());
            let (sending, woven) = if turn.has_tools && way.is_for_an_answer() && !pressure.as_it_came {
                with_tools(sending, &turn, &pressure)
            } else {
                (sending, None)
            };
            let response = Box::pin(self.sent(&way, &packed, &sending)).await?;
            if !way.is_for_an_answer() {
                return Ok(self.unread(response));
            }
            let ear = Ear::new(turn.asked.dialect(), response.headers());
            let most = sending.counted.or_else(|| turn.tokens_at_most());
            let holds_stream = !turn.is_small() && most.is_none_or(|most| self.may_be_too_long(&turn, most));
            let (answer, error) =
                Answer::begin(response, ear, holds_stream, self.settings.serve.idle_timeout_s.0).await;
            let counted = match sending.counted.or_else(|| turn.known_tokens()) {
                Some(counted) if turn.wishes.pins.is_empty() => Some(counted),
                counted => {
                    let waits = self.has_to_be_found(&turn) || may_be_odd(&turn, &answer, &error);
                    self.settled_tokens(&turn, &mut settling, waits).await.or(counted)
                }
            };
            let told = Told { retries: pressure.retries, ..sending.told.clone() };
            let mut tried = Tried {
                answer,
                error,
                told,
                counted,
                woven,
                drops_thinking: sending.drops_thinking,
                discarded: Vec::new(),
            };
            if tried.is_refused_for_how_it_is_written() && !sending.is_original && !pressure.as_it_came {
                // Whatever is wrong with what was made of it, the provider may take what came.
                let status = tried.answer.parts.status.as_u16();
                tracing::error!(status, "the provider rejected the compacted prompt; sending the request unchanged");
                self.metrics.failed_open(FailOpenReason::Refused);
                pressure = Pressure { as_it_came: true, ..Pressure::default() };
                continue;
            }
            let verdict = self.verdict(&turn, &mut tried);
            if let (Verdict::CountsLess, Some(mut first)) = (&verdict, first.take_if(|first| first.is_success())) {
                // What was taken for cut off was not; its answer is to all that came.
                discarded.push(tried.usage());
                first.discarded = discarded.split_off(1);
                return Ok(self.finished(&way, (&turn, pledge, settling), first, call).await);
            }
            let Verdict::TooLong(error) = verdict else {
                if let Some(window) = pressure.window.filter(|_| pressure.retries > 0) {
                    self.suspicions.refused(&turn.served, window);
                }
                tried.discarded = discarded;
                return Ok(self.finished(&way, (&turn, pledge, settling), tried, call).await);
            };
            let more = pressure.more(&turn, tried.tokens(&turn), &error);
            discarded.push(tried.usage());
            let mut original = first.take().unwrap_or(tried);
            let Some(more) = more else {
                original.discarded = discarded.split_off(1);
                return Ok(self.finished(&way, (&turn, pledge, settling), original, call).await);
            };
            first = Some(original);
            self.metrics.retried();
            pressure = more;
        }
    }
}

/// A request with the gateway's own tools, where it can have them.
fn with_tools(sending: Sending, turn: &Turn, pressure: &Pressure) -> (Sending, Option<Woven>) {
    let woven = std::str::from_utf8(&sending.body).ok().and_then(|body| weaving::given(body, turn, pressure));
    match &woven {
        Some(given) => (Sending { body: given.body.clone().into(), is_original: false, ..sending }, woven),
        None => (sending, None),
    }
}

/// Whether the size of the prompt has to be known to tell what an answer is. Who counts as many tokens as there are in plain
/// text has left nothing out.
fn may_be_odd(turn: &Turn, answer: &Answer, error: &Option<ModelError>) -> bool {
    if error.is_some() || turn.is_small() {
        return error.is_some();
    }
    let bytes = turn.asked.document.source().len() as u64;
    let is_little =
        |usage: Usage| usage.input + usage.output >= WINDOW_MIN.get() && usage.input * BYTES_PER_TOKEN < bytes;
    answer.is_hollow() || answer.known().and_then(|answer| answer.usage).is_some_and(is_little)
}

/// What an answer says of its prompt.
enum Verdict {
    Fine,
    TooLong(ModelError),
    /// The provider counts less than we do, and did before.
    CountsLess,
}

fn unsaid(limit: Option<Tokens>, message: &str) -> Verdict {
    let overflow = Overflow::InputTooLong { used: None, limit };
    Verdict::TooLong(ModelError::Overflow { status: 200, overflow, message: message.to_owned(), quoted: false })
}

/// Whether a refusal names a size.
fn says_a_number(error: &ModelError) -> bool {
    let ModelError::Overflow { overflow, status, message, .. } = error else { return false };
    overflow.limit().is_some() || (*status != 200 && !message.starts_with("it gives no reason"))
}

impl Tried {
    /// Whether a provider refuses a request for anything but its size, the caller, or the moment.
    fn is_refused_for_how_it_is_written(&self) -> bool {
        matches!(self.answer.parts.status.as_u16(), 400 | 422) && self.error.is_none()
    }

    fn is_success(&self) -> bool {
        self.answer.parts.status.is_success()
    }

    /// What the prompt was counted as, or is now.
    fn tokens(&self, turn: &Turn) -> Tokens {
        self.counted.unwrap_or_else(|| record::all_tokens(turn))
    }

    /// What the provider says that it took, where it said so.
    fn usage(&self) -> Usage {
        self.answer.usage().unwrap_or_default()
    }
}

impl Pressure {
    /// How to go on after a refusal; `None` when going on cannot help.
    pub(super) fn more(&self, turn: &Turn, counted: Tokens, error: &ModelError) -> Option<Pressure> {
        let ModelError::Overflow { overflow, .. } = error else { return None };
        let retries = self.retries + 1;
        let refused = Some((error.clone(), counted));
        let harder = match OverflowRetry::after(error, self.harder, self.output) {
            OverflowRetry::LowerOutput(output) => {
                return Some(Pressure { output: Some(output), refused, retries, ..self.clone() });
            }
            OverflowRetry::CompactHarder(harder)
                if !turn.asked.messages().is_empty() && turn.engine.settings().compacts_on_overflow() =>
            {
                harder
            }
            OverflowRetry::CompactHarder(_) | OverflowRetry::GiveUp => return None,
        };
        // Who names no limit has one below what it was sent.
        let window = match overflow.limit() {
            Some(_) => self.window,
            None => Some(self.window.unwrap_or(counted)),
        };
        let named = overflow.limit().or(self.named);
        Some(Pressure { harder, refused, window, named, retries, ..self.clone() })
    }
}

impl Inner {
    /// What goes out. Whatever fails, that is what came.
    pub(super) async fn sending(self: &Arc<Self>, turn: &Arc<Turn>, pressure: &Pressure) -> Sending {
        let told = Told::of(turn);
        if pressure.as_it_came {
            return Sending::original(turn, Told { failed_open: Some(FailOpenReason::Refused), ..told });
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
            return failed(FailOpenReason::Store);
        }
        // It goes on by itself even if it is not waited for: nothing that came may be lost on the way.
        let prompt = Arc::clone(self).prompt(Arc::clone(turn), pressure.clone());
        let made = self.work.spawn(Arc::clone(&turn.store_wait).during(prompt));
        let made = tokio::time::timeout(self.patience(turn), made).await;
        // A store that only says no is gone on without; one that is waited for each time is left alone for a while.
        let is_saved = matches!(&made, Ok(Ok(Ok(sending))) if sending.is_saved);
        if !is_saved && made.is_ok() && turn.store_wait.left().is_zero() {
            self.store_failed();
        }
        match made {
            Ok(Ok(Ok(sending))) => sending,
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "failed to prepare a prompt; sending the request unchanged");
                failed(FailOpenReason::Store)
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "planning panicked; sending the request unchanged");
                failed(FailOpenReason::Broken)
            }
            Err(_) => {
                tracing::warn!("preparing a prompt timed out; sending the request unchanged");
                failed(FailOpenReason::Slow)
            }
        }
    }

    /// How long a request waits for its prompt: as long as the store may take, and a compaction besides.
    fn patience(&self, turn: &Turn) -> Duration {
        let wait = match turn.engine.settings().background {
            epitome_runtime::engine::Background::On { wait } => wait,
            epitome_runtime::engine::Background::Off => Duration::from_secs(30),
        };
        turn.store_wait.left() + wait
    }

    /// Sends a prompt.
    async fn sent(&self, way: &Way, packed: &Bytes, sending: &Sending) -> Result<Response<Incoming>, Refusal> {
        let body = if sending.is_original { packed.clone() } else { sending.body.clone() };
        let length = body.len();
        let edit = |headers: &mut HeaderMap| {
            if !sending.is_original {
                upstream::rewritten(headers);
                headers.insert(CONTENT_LENGTH, length.into());
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            if sending.drops_thinking {
                headers::add_beta(headers, BINDING_HEADER);
            }
        };
        self.asked(way, upstream::whole(body), edit).await
    }

    /// What an answer says, or shows, of the prompt.
    fn verdict(&self, turn: &Turn, tried: &mut Tried) -> Verdict {
        if turn.asked.is_native() {
            return Verdict::Fine;
        }
        match tried.error.take() {
            Some(error) if self.is_too_long(turn, &error, tried.tokens(turn)) => Verdict::TooLong(error),
            Some(_) => Verdict::Fine,
            None if tried.is_success() && !turn.is_small() => self.shown(turn, tried),
            None => Verdict::Fine,
        }
    }

    /// What an answer shows of the prompt without a word.
    fn shown(&self, turn: &Turn, tried: &Tried) -> Verdict {
        if tried.answer.is_cut_at_the_window() {
            let limit = tried
                .answer
                .usage()
                .map(|usage| Tokens::new(usage.input + usage.output))
                .filter(|limit| *limit > UNSAID_MIN);
            return unsaid(limit, "it stopped where its window ends");
        }
        if tried.answer.is_hollow() && self.may_be_too_long(turn, tried.tokens(turn)) {
            return unsaid(None, "it answered without a word");
        }
        let usage = tried.answer.known().and_then(|answer| answer.usage);
        let (Some(counted), Some(usage)) = (tried.counted, usage) else { return Verdict::Fine };
        match self.suspicions.went_through(&turn.served, counted, &usage) {
            Shown::Fine => Verdict::Fine,
            // Its window is suspected, and not learned for good.
            Shown::Cut(_) => unsaid(None, "it counted far less than it was sent"),
            Shown::CountsLess => Verdict::CountsLess,
        }
    }

    /// Whether a provider that says so finds a prompt too long.
    pub(super) fn is_too_long(&self, turn: &Turn, error: &ModelError, counted: Tokens) -> bool {
        !turn.asked.is_native() && (says_a_number(error) || self.may_be_too_long(turn, counted))
    }

    /// Whether a prompt of this size may be too long for a model that only says so.
    fn may_be_too_long(&self, turn: &Turn, counted: Tokens) -> bool {
        if counted <= UNSAID_MIN {
            return false;
        }
        let is_known = !matches!(turn.engine.window_of(&turn.served), Window::Fallback(_));
        !is_known || counted > self.window_of(turn).share(UNSAID_SHARE)
    }

    /// The window of the model that a turn is for, as far as it is known.
    pub(super) fn window_of(&self, turn: &Turn) -> Tokens {
        let known = turn.window();
        self.suspicions.window(&turn.served).map_or(known, |suspected| suspected.min(known))
    }

    /// Brings what came into the log while the provider thinks.
    pub(super) fn settling(self: &Arc<Self>, turn: &Arc<Turn>) -> Settling {
        self.work.spawn(Arc::clone(self).settled_at_last(Arc::clone(turn)))
    }

    /// Brings what came into the log. The tokens of it, where that was done.
    pub(super) async fn settled_at_last(self: Arc<Self>, turn: Arc<Turn>) -> Option<Tokens> {
        let (line, begun) = (Arc::clone(&turn.placed.thread), Instant::now());
        let open = match self.settled(&turn, &line).await {
            Ok(open) => open,
            Err(error) => {
                tracing::warn!(%error, "failed to persist request messages; retrying");
                self.store_failed_after(begun);
                return None;
            }
        };
        if let Some(pins) = self.kept_pins(&turn)
            && let Err(error) = self.engine.log().apply(&[pins]).await
        {
            tracing::warn!(%error, "failed to store pins");
        }
        let thread = open.as_ref().filter(|thread| thread.thread().evicted().is_none())?;
        Some(record::counted_in(&turn, thread))
    }

    /// Whether what came has to be in the log before its answer is passed on: another gateway may be asked next, or the client
    /// goes on from it by a name. Otherwise nobody waits for it: it is on its way, and the client brings it again.
    fn has_to_be_found(&self, turn: &Turn) -> bool {
        self.engine.log().store().is_shared() || turn.is_kept_by_name() || !turn.wishes.pins.is_empty()
    }

    /// The tokens of what came, once the log has it; nothing where that takes longer and nobody waits for it.
    async fn settled_tokens(&self, turn: &Turn, settling: &mut Option<Settling>, waits: bool) -> Option<Tokens> {
        // What is not waited for here, the last piece of the answer waits for, where anything does.
        let under_way = settling.take_if(|settling| waits || settling.is_finished())?;
        // A store that does not answer is noticed by whoever asks it.
        match turn.store_wait.wait(under_way).await {
            Some(counted) => counted.ok().flatten(),
            // One that takes long may be large: whether the store is well is not said by it.
            None => {
                tracing::warn!("request messages are not persisted yet; continuing the answer without waiting");
                None
            }
        }
    }

    /// What the last piece of an answer waits for: that the messages of its request are in the store.
    fn hold_for_messages(&self, turn: &Arc<Turn>, settling: Option<Settling>) -> Option<Hold> {
        let settling = settling.filter(|_| self.settings.serve.persist == Persist::BeforeAnswer)?;
        let turn = Arc::clone(turn);
        Some(Box::pin(async move {
            if turn.store_wait.wait(settling).await.is_none() {
                tracing::warn!("request messages are not persisted yet; ending the answer without waiting");
            }
        }))
    }

    /// Records a request that is over. What the end of its answer waits for: that all of it is in the store.
    fn record_at_end(self: &Arc<Self>, turn: Arc<Turn>, mut gone: Gone) -> Option<Hold> {
        if self.settings.serve.persist == Persist::AfterAnswer || self.store_rests() {
            self.aside(|relay| async move { relay.record(turn, gone).await });
            return None;
        }
        let (persisted, is_persisted) = oneshot::channel();
        gone.persisted = Some(persisted);
        let of_turn = Arc::clone(&turn);
        self.aside(|relay| async move { relay.record(turn, gone).await });
        Some(Box::pin(async move {
            if of_turn.store_wait.wait(is_persisted).await.is_none() {
                // It may be behind a long compaction of its thread: whether the store is well is not said by it.
                tracing::warn!("the answer is not persisted yet; ending it without waiting");
            }
        }))
    }

    /// The answer on its way, with what is told of it.
    async fn finished(
        self: &Arc<Self>,
        way: &Arc<Way>,
        (turn, pledge, settling): (&Arc<Turn>, Pledge, Option<Settling>),
        tried: Tried,
        call: &Call,
    ) -> Response<Passing> {
        let Tried { mut answer, mut told, counted, woven, drops_thinking, discarded, .. } = tried;
        if let (true, Some(before), Some(after)) = (told.plan > 0, told.before, told.after) {
            self.metrics.compacted(before.get().saturating_sub(after.get()));
        }
        told.before = told.before.or(counted);
        told.after = told.after.or(counted);
        headers::put(&mut answer.parts.headers, &told);
        let note = LogNote { thread: told.thread.clone(), client: Some(turn.client.program) };
        let status = answer.parts.status;
        let hold = self.hold_for_messages(turn, settling);
        let ended = {
            let (relay, turn, id) = (Arc::clone(self), Arc::clone(turn), call.id.clone());
            move |end: End, rounds: Vec<Usage>| {
                pledge.redeem();
                let end = relay.remember(&turn, end);
                let gone = Gone { told, counted, status, end, id, rounds, discarded, persisted: None };
                relay.record_at_end(turn, gone)
            }
        };
        let mut response = match woven.filter(|_| status.is_success()) {
            Some(woven) => {
                let (relay, way, turn) = (Arc::clone(self), Arc::clone(way), Arc::clone(turn));
                let weaving =
                    Weaving { relay, turn, way, woven, counted, drops_thinking, hold, at_end: Box::new(ended) };
                Box::pin(weaving.pass_on(answer)).await
            }
            None => {
                let at_end = Box::new(move |end| ended(end, Vec::new()));
                answer.pass_on(self.settings.serve.idle_timeout_s.0, hold, at_end)
            }
        };
        response.body_mut().note = Some(note);
        response
    }
}
