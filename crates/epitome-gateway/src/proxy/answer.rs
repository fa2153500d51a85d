//! Answers on their way to the client: the first words held back for a moment, then passed on as they come.
//!
//! Until something was passed on, a request can be made smaller and sent again. What is passed on is the provider's own
//! bytes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use epitome_runtime::model::{ModelAnswer, ModelError, Usage, read_refusal};
use http::Response;
use http::response::Parts;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use memchr::memmem;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

use super::ear::{Ear, WHOLE_BYTES_MAX};
use crate::serve::{BoxError, LogNote};

/// How long a stream that has only announced itself is held back.
const HOLD: Duration = Duration::from_millis(1000);
/// The most bytes of a stream that are held back.
const HELD_BYTES_MAX: usize = 1 << 20;
/// How long an answer is held back that makes sense only whole. An error is little and comes at once; one that does not is
/// the client's to wait for.
const HOLD_WHOLE: Duration = Duration::from_secs(30);
const HOLD_ERROR: Duration = Duration::from_secs(3);

const DAY: Duration = Duration::from_secs(86_400);

/// What to do with an answer once it is over, or the client has gone. The last of it goes when the hold is over.
pub type AtEnd = Box<dyn FnOnce(End) -> Option<Hold> + Send>;

/// Keeps the last piece of an answer back until it is ready. It is bounded: whoever makes one sees to it that it ends.
pub type Hold = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// What the last event of a stream holds, in any dialect. Words of the model that look like it only make a piece wait that
/// need not.
const LAST_EVENTS: [&str; 5] =
    ["[DONE]", "message_stop", "response.completed", "response.incomplete", "response.failed"];
/// As many bytes of a piece as may be the beginning of one of these.
const TAIL_BYTES: usize = 32;

/// How an answer ended: as somebody has heard it, to be read when there is time, or read.
#[derive(Debug)]
pub enum End {
    /// It was listened to.
    Heard {
        ear: Box<Ear>,
        /// Whether the client left before it was over.
        is_left: bool,
    },
    Known(Known),
}

/// How an answer ended, as far as it was understood.
#[derive(Debug, Default)]
pub struct Known {
    /// The answer, where it was understood.
    pub answer: Option<Result<ModelAnswer, ModelError>>,
    /// Whether the client left before it was over.
    pub is_left: bool,
    /// Whether it was cut because the window was full.
    pub has_filled: bool,
    /// What there is of it, where it was begun.
    pub said: Option<Said>,
}

impl End {
    /// How an answer ended that somebody has listened to.
    pub fn heard(ear: Box<Ear>, is_left: bool) -> End {
        End::Heard { ear, is_left }
    }

    pub fn known(self) -> Known {
        match self {
            End::Heard { ear, is_left } => {
                let (has_filled, said) = (ear.has_filled(), ear.said());
                Known { answer: ear.finish(), is_left, has_filled, said }
            }
            End::Known(known) => known,
        }
    }
}

/// What was heard of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The bytes of its words.
    pub bytes: usize,
    /// What the provider has said of what it took.
    pub usage: Option<Usage>,
}

/// An answer whose beginning is known.
pub struct Answer {
    /// Its status and headers.
    pub parts: Parts,
    held: VecDeque<Bytes>,
    rest: Option<Incoming>,
    /// How it broke off while it was held back.
    broke: Option<BoxError>,
    ear: Box<Ear>,
}

impl Answer {
    /// Whether it comes in events.
    pub fn is_of_events(&self) -> bool {
        self.ear.is_of_events()
    }

    /// The next piece of it.
    pub async fn piece(&mut self) -> Option<Result<Bytes, BoxError>> {
        if let Some(held) = self.held.pop_front() {
            return Some(Ok(held));
        }
        if let Some(error) = self.broke.take() {
            self.rest = None;
            return Some(Err(error));
        }
        loop {
            match self.rest.as_mut()?.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    Err(_) => continue,
                },
                Err(error) => return Some(Err(error.into())),
            }
        }
    }

    /// Everything that is left of it, behind what is there, up to so many bytes; whether that is all.
    pub async fn rest_into(&mut self, body: &mut Vec<u8>, max: usize) -> Result<bool, BoxError> {
        while body.len() <= max {
            match self.piece().await {
                Some(piece) => body.extend_from_slice(&piece?),
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Puts bytes back that were taken of it.
    pub fn put_back(&mut self, bytes: Bytes) {
        self.held.push_front(bytes);
    }

    /// Reads as much of an answer as is needed to tell whether it is one. The error, where it is that the prompt is too
    /// long. Where the prompt may be, a stream is held until the model speaks; otherwise it is passed on at once.
    pub async fn begin(
        response: Response<Incoming>,
        mut ear: Box<Ear>,
        holds_stream: bool,
        idle: Duration,
    ) -> (Answer, Option<ModelError>) {
        let (parts, body) = response.into_parts();
        let is_fine = parts.status.is_success();
        if !is_fine && !ear.is_of_whole() {
            // Errors are read however they are labeled.
            ear = Ear::new(ear.dialect(), &without_type(&parts.headers));
        }
        let mut answer = Answer { parts, held: VecDeque::new(), rest: Some(body), broke: None, ear };
        if is_fine && !answer.ear.is_of_events() && !answer.ear.is_of_whole() {
            return (answer, None);
        }
        if answer.ear.is_of_events() {
            if is_fine && !holds_stream {
                return (answer, None);
            }
            answer.hold_events(idle).await;
        } else {
            answer.hold_all(idle, if is_fine { HOLD_WHOLE } else { HOLD_ERROR }).await;
        }
        let error = answer.too_long(is_fine);
        (answer, error)
    }

    /// Holds a stream back until the model speaks, it ends, or it has been held for long enough.
    async fn hold_events(&mut self, idle: Duration) {
        let mut until = Instant::now() + idle;
        let mut bytes = 0;
        while !self.ear.has_spoken && self.ear.error.is_none() && bytes <= HELD_BYTES_MAX {
            let more = tokio::time::timeout_at(until, self.next()).await;
            if !matches!(more, Ok(true)) {
                return;
            }
            bytes += self.held.back().map_or(0, Bytes::len);
            if self.held.len() == 1 {
                until = Instant::now() + HOLD;
            }
        }
    }

    /// Holds an answer back that makes sense only whole.
    async fn hold_all(&mut self, idle: Duration, hold: Duration) {
        let until = Instant::now() + hold;
        let mut bytes = 0;
        while self.rest.is_some() && bytes <= WHOLE_BYTES_MAX {
            let left = until.saturating_duration_since(Instant::now());
            if !matches!(tokio::time::timeout(idle.min(left), self.next()).await, Ok(true)) {
                return;
            }
            bytes += self.held.back().map_or(0, Bytes::len);
        }
    }

    /// Takes the next piece in; answers whether there was one.
    async fn next(&mut self) -> bool {
        let Some(rest) = &mut self.rest else { return false };
        match rest.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.ear.hear(&data);
                    self.held.push_back(data);
                }
                if rest.is_end_stream() {
                    self.rest = None;
                }
                true
            }
            Some(Err(error)) => {
                self.broke = Some(error.into());
                false
            }
            None => {
                self.rest = None;
                false
            }
        }
    }

    /// The error that the prompt is too long, where that is what the answer says.
    fn too_long(&self, is_fine: bool) -> Option<ModelError> {
        let error = match (is_fine, &self.ear.error) {
            (true, Some(error)) => error.clone(),
            (true, None) if self.ear.is_of_events() => {
                let is_over = self.rest.is_none() && self.ear.is_empty();
                is_over.then(|| read_refusal(200, "")).filter(is_overflow)?
            }
            (true, None) => self.ear.whole()?.as_ref().err()?.clone(),
            (false, _) => read_refusal(self.parts.status.as_u16(), &self.ear.text().unwrap_or_default()),
        };
        is_overflow(&error).then_some(error)
    }

    /// Whether it is over and has nothing in it: some servers say so that the prompt was too long.
    pub fn is_hollow(&self) -> bool {
        let is_over = self.rest.is_none() && self.parts.status.is_success();
        if self.ear.is_of_events() {
            is_over && !self.ear.has_spoken
        } else {
            self.known().is_some_and(|answer| answer.text.is_empty() && answer.calls.is_empty())
        }
    }

    /// Whether it was cut because the window was full, and can still be asked for again.
    pub fn is_cut_at_the_window(&self) -> bool {
        self.rest.is_none() && self.ear.has_filled()
    }

    /// The answer as far as it is known and worth reading: a whole one, or nothing yet.
    pub fn known(&self) -> Option<&ModelAnswer> {
        self.rest.is_none().then(|| self.ear.whole())??.as_ref().ok()
    }

    /// What the provider says that it took, as far as that is known before it goes.
    pub fn usage(&self) -> Option<Usage> {
        let heard = || self.rest.is_none().then(|| self.ear.said())??.usage;
        self.known().and_then(|answer| answer.usage).or_else(heard)
    }

    /// Sends it on; `at_end` is told how it ended.
    /// Its last piece goes when `hold` is over.
    pub fn pass_on(self, idle: Duration, hold: Option<Hold>, at_end: AtEnd) -> Response<Passing> {
        let Answer { parts, held, rest, broke, ear } = self;
        let rest = match broke {
            Some(error) => Some(Rest::Broken { error: Some(error), has_waited: false }),
            None => rest.map(Rest::Provider),
        };
        let mut passing = Passing::of(held, rest, idle);
        (passing.ear, passing.at_end, passing.hold) = (Some(ear), Some(at_end), hold.map(Held::new));
        Response::from_parts(parts, passing)
    }
}

fn without_type(headers: &http::HeaderMap) -> http::HeaderMap {
    let packing = headers.get(http::header::CONTENT_ENCODING).cloned();
    packing.map(|packing| (http::header::CONTENT_ENCODING, packing)).into_iter().collect()
}

fn is_overflow(error: &ModelError) -> bool {
    matches!(error, ModelError::Overflow { .. })
}

/// An answer that is passed on.
pub struct Passing {
    held: VecDeque<Bytes>,
    rest: Option<Rest>,
    ear: Option<Box<Ear>>,
    idle: Duration,
    /// Until when is waited, where nothing was there yet.
    until: Option<Pin<Box<Sleep>>>,
    at_end: Option<AtEnd>,
    /// What its last piece waits for, from the beginning on.
    hold: Option<Held>,
    /// What is kept back, and what for: a piece, or that there is none any more.
    kept_back: Option<(Hold, Option<Frame<Bytes>>)>,
    /// What the log says of its request besides.
    pub note: Option<LogNote>,
}

/// Where the rest of an answer comes from.
enum Rest {
    Provider(Incoming),
    /// It broke off where it is; what came before it is given time to leave.
    Broken {
        error: Option<BoxError>,
        has_waited: bool,
    },
    Woven(mpsc::Receiver<Result<Bytes, BoxError>>),
}

impl Rest {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self {
            Rest::Provider(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            Rest::Broken { has_waited, .. } if !*has_waited => {
                *has_waited = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Rest::Broken { error, .. } => Poll::Ready(error.take().map(Err)),
            Rest::Woven(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Rest::Provider(body) if body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Rest::Provider(body) => body.size_hint(),
            Rest::Broken { .. } | Rest::Woven(_) => SizeHint::default(),
        }
    }
}

impl Passing {
    fn of(held: VecDeque<Bytes>, rest: Option<Rest>, idle: Duration) -> Self {
        Passing { held, rest, ear: None, idle, until: None, at_end: None, hold: None, kept_back: None, note: None }
    }

    /// An answer that is woven of several.
    pub fn woven(pieces: mpsc::Receiver<Result<Bytes, BoxError>>, idle: Duration) -> Self {
        Passing::of(VecDeque::new(), Some(Rest::Woven(pieces)), idle)
    }

    /// An answer that is passed on without being listened to.
    pub fn unread(body: Incoming, idle: Duration) -> Self {
        Passing::of(VecDeque::new(), Some(Rest::Provider(body)), idle)
    }

    /// Bytes of our own.
    pub fn whole(body: Bytes) -> Self {
        Passing::of(VecDeque::from([body]), None, Duration::ZERO)
    }

    /// Whether the last event was heard: what is known of an answer is known before the client has the last of it.
    fn has_heard_all(&self) -> bool {
        self.ear.as_ref().is_some_and(|ear| ear.is_whole() && ear.ends_with_its_last_event())
    }

    /// Says how it ended, once. What its last piece waits for from then on.
    fn over(&mut self, is_left: bool) -> Option<Hold> {
        let ear = self.ear.take()?;
        // Some clients leave as soon as they have the last event.
        let is_left = is_left && !ear.is_whole();
        // Whatever the end waits for includes what the beginning does.
        self.hold = None;
        self.at_end.take().and_then(|at_end| at_end(End::heard(ear, is_left)))
    }

    /// Passes a piece on, or the end of all of them, once what it waits for is there.
    fn give(
        &mut self,
        cx: &mut Context<'_>,
        frame: Option<Frame<Bytes>>,
        hold: Option<Hold>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(mut hold) = hold else { return Poll::Ready(frame.map(Ok)) };
        if hold.as_mut().poll(cx).is_pending() {
            self.kept_back = Some((hold, frame));
            return Poll::Pending;
        }
        Poll::Ready(frame.map(Ok))
    }

    /// What a piece that is not the last waits for: nothing, unless a client may take it for the last.
    fn hold_for(&mut self, cx: &mut Context<'_>, data: &Bytes) -> Option<Hold> {
        let mut held = self.hold.take()?;
        if held.hold.as_mut().poll(cx).is_ready() {
            return None;
        }
        let is_packed = self.ear.as_ref().is_some_and(|ear| ear.is_packed());
        if is_packed || held.may_be_last(data) {
            return Some(held.hold);
        }
        self.hold = Some(held);
        None
    }
}

/// A hold, with the end of what went before: an event may come in two pieces.
struct Held {
    hold: Hold,
    tail: Vec<u8>,
}

impl Held {
    fn new(hold: Hold) -> Self {
        Held { hold, tail: Vec::new() }
    }

    /// Whether the last event of a stream may be in this piece.
    fn may_be_last(&mut self, data: &[u8]) -> bool {
        self.tail.extend_from_slice(data);
        let is_last = LAST_EVENTS.iter().any(|event| memmem::find(&self.tail, event.as_bytes()).is_some());
        self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
        is_last
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some((hold, frame)) = this.kept_back.take() {
            return this.give(cx, frame, Some(hold));
        }
        if let Some(bytes) = this.held.pop_front() {
            let is_last = this.is_end_stream() || (this.held.is_empty() && this.has_heard_all());
            let hold = if is_last { this.over(false) } else { this.hold_for(cx, &bytes) };
            return this.give(cx, Some(Frame::data(bytes)), hold);
        }
        let Some(rest) = &mut this.rest else {
            let hold = this.over(false);
            return this.give(cx, None, hold);
        };
        let frame = match rest.poll(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let idle = this.idle;
                ready!(this.until.get_or_insert_with(|| Box::pin(sleep(idle))).as_mut().poll(cx));
                this.rest = None;
                this.over(false);
                let seconds = this.idle.as_secs();
                return Poll::Ready(Some(Err(format!("the provider said nothing for {seconds} s").into())));
            }
        };
        match frame {
            Some(Ok(frame)) => {
                let mut hold = None;
                if let (Some(data), Some(ear)) = (frame.data_ref(), &mut this.ear) {
                    ear.hear(data);
                    let is_last = this.is_end_stream() || this.has_heard_all();
                    hold = if is_last { this.over(false) } else { this.hold_for(cx, data) };
                }
                if let Some(until) = &mut this.until {
                    let now = Instant::now();
                    until.as_mut().reset(now.checked_add(this.idle).unwrap_or_else(|| now + DAY));
                }
                this.give(cx, Some(frame), hold)
            }
            Some(Err(error)) if !matches!(rest, Rest::Broken { .. }) => {
                this.rest = Some(Rest::Broken { error: Some(error), has_waited: false });
                self.poll_frame(cx)
            }
            Some(Err(error)) => {
                this.rest = None;
                this.over(false);
                Poll::Ready(Some(Err(error)))
            }
            None => {
                this.rest = None;
                let hold = this.over(false);
                this.give(cx, None, hold)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.kept_back.is_none() && self.held.is_empty() && self.rest.as_ref().is_none_or(Rest::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let kept_back = self.kept_back.iter().filter_map(|(_, frame)| frame.as_ref()?.data_ref());
        let held: u64 = self.held.iter().chain(kept_back).map(|bytes| bytes.len() as u64).sum();
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Rest::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(held + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(held + upper);
        }
        hint
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        let is_left = !self.is_end_stream();
        self.over(is_left);
    }
}
