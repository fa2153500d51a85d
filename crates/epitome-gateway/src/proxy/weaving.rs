//! Weaving at work: calls of the gateway's own tools are answered in here, and the model goes on in what the client takes
//! for one answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use epitome::budget::{Meter, Tokens};
use epitome::thread::{Raw, ToolCall};
use epitome::wire::decode_message;
use epitome_runtime::engine::EngineError;
use epitome_runtime::model::{ModelError, Usage};
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Response};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Inner;
use super::answer::{Answer, End, Hold, Known, Passing};
use super::ear::Ear;
use super::prompt::is_outgrown;
use super::record;
use super::turn::{Pressure, Turn};
use super::way::Way;
use crate::own_tools::{self, AnswerSplicer};
use crate::refusal::Refusal;
use crate::serve::BoxError;
use crate::sse::Framer;
use crate::tools::{Caps, Outcome, TOOLS, Tool, perform};
use crate::upstream;

/// How often the tools are answered within one answer.
const ROUNDS_MAX: usize = 4;
/// How long one call may take.
const CALL_PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a whole answer that are looked into for calls.
const WOVEN_BYTES_MAX: usize = 16 << 20;
/// How many pieces wait for a slow client.
const PIECES_MAX: usize = 16;

/// The tools that a request was given.
#[derive(Clone, Debug)]
pub struct Woven {
    /// The request with them in it.
    pub body: String,
    /// Which they are.
    pub tools: Vec<Tool>,
    /// How hard it was pressed.
    pub pressure: Pressure,
}

/// A request with the gateway's own tools, where it can have them.
pub fn given(body: &str, turn: &Turn, pressure: &Pressure) -> Option<Woven> {
    let dialect = turn.asked.dialect();
    if !own_tools::can_inject(body, dialect) {
        return None;
    }
    let injected = own_tools::inject(body, dialect, &TOOLS)?;
    let own_tools::Injected { body, tools } = injected;
    (!tools.is_empty()).then(|| Woven { body, tools, pressure: pressure.clone() })
}

/// One answer of as many as it takes.
pub(super) struct Weaving {
    pub relay: Arc<Inner>,
    pub turn: Arc<Turn>,
    pub way: Arc<Way>,
    pub woven: Woven,
    /// What the request was counted as.
    pub counted: Option<Tokens>,
    /// Whether the request needs the header that lets thinking of another prefix be dropped.
    pub drops_thinking: bool,
    /// What the last piece of the answer waits for.
    pub hold: Option<Hold>,
    pub at_end: Box<dyn FnOnce(End, Vec<Usage>) -> Option<Hold> + Send + Sync>,
}

impl Weaving {
    /// Sends the answer on, with whatever follows it. One that comes whole goes when the last of them is there, and one
    /// that fails on the way is the provider's own error.
    pub async fn pass_on(self, answer: Answer) -> Response<Passing> {
        if answer.is_of_events() {
            self.stream(answer)
        } else {
            let (work, family) = (self.relay.work.clone(), self.way.head.family);
            // It ends when nobody waits for it any more.
            let mut weaving = JoinSet::new();
            weaving.spawn_on(self.whole(answer), &work);
            match weaving.join_next().await {
                Some(Ok(response)) => response,
                _ => super::own(Refusal::Broken.response(family)).await,
            }
        }
    }

    async fn whole(mut self, mut answer: Answer) -> Response<Passing> {
        let dialect = self.turn.asked.dialect();
        let mut splicer = AnswerSplicer::whole(dialect, &self.woven.tools);
        let mut parts = answer.parts.clone();
        for round in 0.. {
            let mut body = Vec::new();
            match answer.rest_into(&mut body, WOVEN_BYTES_MAX).await {
                Ok(true) => {}
                // What is too large to be looked into goes on as it came.
                Ok(false) => {
                    answer.put_back(body.into());
                    let (idle, usage) = (self.relay.settings.serve.idle_timeout_s.0, splicer.usage().to_vec());
                    let at_end = self.at_end;
                    return answer.pass_on(idle, None, Box::new(move |end| at_end(end, usage)));
                }
                Err(error) => return self.broken(&error, &splicer).await,
            }
            if !answer.parts.status.is_success() {
                parts = answer.parts;
                return self.ended(parts, vec![body.into()], &splicer).await;
            }
            splicer.push_body(body.into());
            match splicer.end_of_answer() {
                own_tools::AnswerEnd::Done(bytes) | own_tools::AnswerEnd::Broken(bytes) => {
                    return self.ended(parts, bytes, &splicer).await;
                }
                own_tools::AnswerEnd::OwnCalls(calls) => match self.asked_on(&calls, &mut splicer, round).await {
                    Some(Ok(next)) => answer = next,
                    Some(Err(refusal)) => {
                        return super::own(refusal.response(self.way.head.family)).await;
                    }
                    None => return self.ended(parts, splicer.fail(None), &splicer).await,
                },
            }
        }
        unreachable!("the rounds are bounded by what is given up")
    }

    /// A whole answer that broke off: nothing of it was passed on, so that it can be told as what it is.
    async fn broken(self, error: &BoxError, splicer: &AnswerSplicer) -> Response<Passing> {
        let host = self.way.onward.upstream.url.authority().map(ToString::to_string).unwrap_or_default();
        let refusal = Refusal::Unreachable { host, reason: format!("its answer broke off: {error}") };
        let family = self.way.head.family;
        (self.at_end)(End::Known(Known::default()), splicer.usage().to_vec());
        super::own(refusal.response(family)).await
    }

    async fn ended(
        self,
        mut parts: http::response::Parts,
        pieces: Vec<Bytes>,
        splicer: &AnswerSplicer,
    ) -> Response<Passing> {
        let body = Bytes::from(pieces.concat());
        parts.headers.remove(CONTENT_LENGTH);
        upstream::without_connection(&mut parts.headers);
        let mut ear = Ear::new(self.turn.asked.dialect(), &HeaderMap::new());
        ear.hear(&body);
        if let Some(hold) = (self.at_end)(End::heard(ear, false), splicer.usage().to_vec()) {
            hold.await;
        }
        Response::from_parts(parts, Passing::whole(body))
    }

    fn stream(self, mut answer: Answer) -> Response<Passing> {
        let idle = self.relay.settings.serve.idle_timeout_s.0;
        let (send, receive) = mpsc::channel(PIECES_MAX);
        let mut parts = answer.parts.clone();
        parts.headers.remove(CONTENT_LENGTH);
        answer.parts.headers.clone_from(&parts.headers);
        let work = self.relay.work.clone();
        work.spawn(self.run(answer, send));
        Response::from_parts(parts, Passing::woven(receive, idle))
    }

    async fn run(mut self, first: Answer, send: mpsc::Sender<Result<Bytes, BoxError>>) {
        let dialect = self.turn.asked.dialect();
        let mut splicer = AnswerSplicer::streaming(dialect, &self.woven.tools);
        let hold = self.hold.take();
        let mut out = Out { ear: Ear::new(dialect, &first.parts.headers), send, hold, is_left: false };
        let mut answer = first;
        for round in 0.. {
            let broke = feed(&mut answer, &mut splicer, &mut out).await;
            match splicer.end_of_answer() {
                own_tools::AnswerEnd::Done(bytes) => {
                    out.all(bytes).await;
                    break;
                }
                own_tools::AnswerEnd::Broken(bytes) => {
                    out.all(bytes).await;
                    if round > 0 {
                        out.all(splicer.fail(None)).await;
                    } else if let Some(error) = broke {
                        let _ = out.send.send(Err(error)).await;
                    }
                    break;
                }
                own_tools::AnswerEnd::OwnCalls(calls) => {
                    let Some(next) = self.next(&calls, &mut splicer, round).await else {
                        out.all(splicer.fail(None)).await;
                        break;
                    };
                    match next {
                        Ok(next) => answer = next,
                        Err(error) => {
                            out.all(splicer.fail(Some(&error))).await;
                            break;
                        }
                    }
                }
            }
            if out.is_left {
                break;
            }
        }
        let Out { ear, send, is_left, .. } = out;
        let is_left = is_left && !ear.is_whole();
        let usage = splicer.usage().to_vec();
        if let Some(hold) = (self.at_end)(End::heard(ear, is_left), usage) {
            hold.await;
        }
        // Only now the client is told that there is no more.
        drop(send);
    }

    /// Performs the calls and asks on. The provider's error, where it has one; nothing where it cannot be asked.
    async fn next(
        &mut self,
        calls: &[ToolCall],
        splicer: &mut AnswerSplicer,
        round: usize,
    ) -> Option<Result<Answer, String>> {
        let mut answer = match self.asked_on(calls, splicer, round).await? {
            Ok(answer) => answer,
            Err(refusal) => return Some(Err(json!({"error": {"message": refusal.to_string()}}).to_string())),
        };
        if answer.parts.status.is_success() {
            return Some(Ok(answer));
        }
        let mut body = Vec::new();
        answer.rest_into(&mut body, WOVEN_BYTES_MAX).await.ok()?;
        Some(Err(String::from_utf8_lossy(&body).into_owned()))
    }

    /// Asks on with what came of the calls. What the provider finds too long by now is made smaller, like a first request;
    /// if nothing helps, what it said first is the answer.
    async fn asked_on(
        &mut self,
        calls: &[ToolCall],
        splicer: &mut AnswerSplicer,
        round: usize,
    ) -> Option<Result<Answer, Refusal>> {
        let mut body = if round >= ROUNDS_MAX {
            splicer.give_up(&self.woven.body)?
        } else {
            let outcomes = self.performed(calls).await;
            splicer.follow_up(&self.woven.body, &outcomes)?
        };
        let mut first: Option<Answer> = None;
        loop {
            let (answer, error) = match self.sent(body.clone()).await {
                Ok(answered) => answered,
                Err(refusal) => return Some(Err(refusal)),
            };
            let Some(error) = error else { return Some(Ok(answer)) };
            let refused = first.take().unwrap_or(answer);
            let Some(smaller) = self.smaller(&error, splicer).await.filter(|smaller| *smaller != body) else {
                return Some(Ok(refused));
            };
            self.relay.metrics.retried();
            (first, body) = (Some(refused), smaller);
        }
    }

    async fn sent(&self, body: String) -> Result<(Answer, Option<ModelError>), Refusal> {
        let body = upstream::whole(body.into());
        let response = self.relay.sent_on(&self.way, body, |headers| self.edit(headers)).await?;
        let ear = Ear::new(self.turn.asked.dialect(), response.headers());
        Ok(Answer::begin(response, ear, true, self.relay.settings.serve.idle_timeout_s.0).await)
    }

    /// The request made smaller, with everything since the first one behind it, after the provider found it too long.
    /// Nothing where that is not what it means, or cannot help.
    async fn smaller(&mut self, error: &ModelError, splicer: &AnswerSplicer) -> Option<String> {
        let dialect = self.turn.asked.dialect();
        let meter = Meter::new(&**self.turn.engine.counter(), dialect);
        let items = splicer.items().iter().map(|item| decode_message(dialect, &Raw::whole(item.as_str())));
        let beside: Tokens = items.map(|item| meter.count(&item)).sum();
        let counted = self.counted.unwrap_or_else(|| record::all_tokens(&self.turn)) + beside;
        if !self.relay.is_too_long(&self.turn, error, counted) {
            return None;
        }
        let pressure = Pressure { beside, ..self.woven.pressure.more(&self.turn, counted, error)? };
        let sending = self.relay.sending(&self.turn, &pressure).await;
        self.counted = sending.counted.map(|counted| counted - beside);
        self.drops_thinking = sending.drops_thinking;
        self.woven = given(std::str::from_utf8(&sending.body).ok()?, &self.turn, &pressure)?;
        splicer.onto(&self.woven.body)
    }

    fn edit(&self, headers: &mut HeaderMap) {
        upstream::rewritten(headers);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if self.drops_thinking {
            super::headers::add_beta(headers, epitome::wire::BINDING_HEADER);
        }
    }

    async fn performed(&self, calls: &[ToolCall]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(calls.len());
        for call in calls {
            let outcome = tokio::time::timeout(CALL_PATIENCE, self.perform(call)).await;
            outcomes.push(outcome.unwrap_or_else(|_| Outcome::failure("It took too long. Go on without it.")));
        }
        outcomes
    }

    async fn perform(&self, call: &ToolCall) -> Outcome {
        let line = match self.relay.line_of(&self.turn).await {
            Ok(line) => line,
            Err(error) => return unread(&error),
        };
        let settled = self.relay.settled(&self.turn, &line).await;
        match settled {
            Ok(mut open) => match open.as_mut().filter(|thread| is_outgrown(&self.turn, thread).is_none()) {
                Some(thread) => perform(&self.turn.engine, thread, Caps::default(), &call.name, &call.arguments).await,
                None => Outcome::failure("Nothing was left out of this conversation."),
            },
            Err(error) => unread(&error),
        }
    }
}

fn unread(error: &EngineError) -> Outcome {
    tracing::warn!(%error, "failed to answer a call of the gateway's own tools");
    Outcome::failure("What was left out cannot be read just now. Go on without it.")
}

/// Where the client's bytes go.
struct Out {
    ear: Box<Ear>,
    send: mpsc::Sender<Result<Bytes, BoxError>>,
    /// What the last event waits for.
    hold: Option<Hold>,
    is_left: bool,
}

impl Out {
    async fn all(&mut self, pieces: Vec<Bytes>) {
        for piece in pieces {
            self.ear.hear(&piece);
            if self.ear.is_whole()
                && let Some(hold) = self.hold.take()
            {
                hold.await;
            }
            self.is_left |= self.send.send(Ok(piece)).await.is_err();
        }
    }
}

/// Takes an answer in as it comes. The error, where it broke off.
async fn feed(answer: &mut Answer, splicer: &mut AnswerSplicer, out: &mut Out) -> Option<BoxError> {
    let mut framer = Framer::default();
    let broke = loop {
        let piece = tokio::select! {
            piece = answer.piece() => piece,
            // Whoever has left waits for nothing more.
            () = out.send.closed() => {
                out.is_left = true;
                return None;
            }
        };
        match piece {
            Some(Ok(piece)) => {
                let events: Vec<_> = framer.push(piece).collect();
                for event in &events {
                    out.all(splicer.push(event)).await;
                }
            }
            Some(Err(error)) => break Some(error),
            None => break None,
        }
        if out.is_left {
            return None;
        }
    };
    if let Some(event) = framer.rest() {
        out.all(splicer.push(&event)).await;
    }
    broke
}
