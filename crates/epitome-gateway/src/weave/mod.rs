//! Weaving: the gateway's own tools inside an answer. Their calls are answered in here and the model goes on, in what
//! the client takes for one answer.
//!
//! ```text
//! upstream   start  text  call(recall)  end │ start  text  call(read)  end
//! client     start  text                    │        text  call(read)  end
//! ```
//!
//! - Words, reasoning and the client's calls are forwarded as they come, in the very bytes where nothing has to be
//!   numbered anew. A call of ours is withheld from its beginning, and with it the end of its answer.
//! - An answer that calls **ours alone** is followed up: the request, the answer as the provider gave it and the results
//!   go upstream, and the next answer continues the client's.
//! - An answer that calls **ours and the client's** ends with the client's calls. Ours are dropped: they cannot be
//!   answered before the client has answered its own. Nothing is lost, because they only read; a model that still wants
//!   to know calls again in its next answer.
//! - What the client sends back the next time holds neither our calls nor their results, and the thread has them
//!   neither. Whatever they found can be found again.
//! - **Usage** reaches the client as the provider reported it with the last answer, in the provider's own bytes. Agents
//!   take the last reported prompt for the size of their context: a sum over several calls would count the same prompt
//!   several times. What each call took is in [`Weaver::usage`], for whoever keeps accounts.
//!
//! It does no I/O and performs no call. Drive it like this:
//!
//! ```
//! # use epitome::wire::Dialect;
//! # use epitome_gateway::{sse::Framer, tools::{Outcome, Tool}, weave::{Turn, Weaver, can_weave, inject}};
//! # const TOOLS: [Tool; 1] = [Tool { name: "recall", description: "Finds.", parameters: r#"{"type":"object"}"# }];
//! # fn upstream(_: &str) -> &'static str { "data: [DONE]\n\n" }
//! # fn send(_: bytes::Bytes) {}
//! # fn perform(_: &epitome::thread::ToolCall) -> Outcome { Outcome::answer("it") }
//! # let request = r#"{"messages":[{"role":"user","content":"hi"}],"stream":true}"#;
//! assert!(can_weave(request, Dialect::Chat));
//! let injected = inject(request, Dialect::Chat, &TOOLS).unwrap();
//! let mut weaver = Weaver::streaming(Dialect::Chat, &injected.tools);
//! let mut body = injected.body.clone();
//! for round in 0.. {
//!     let mut framer = Framer::default();
//!     let events: Vec<_> = framer.push(upstream(&body)).collect();
//!     events.iter().chain(&framer.rest()).flat_map(|event| weaver.push(event)).for_each(send);
//!     match weaver.end_of_answer() {
//!         Turn::Done(rest) | Turn::Broken(rest) => {
//!             rest.into_iter().for_each(send);
//!             break;
//!         }
//!         Turn::Ours(_) if round == 3 => body = weaver.give_up(&injected.body).unwrap(),
//!         Turn::Ours(calls) => {
//!             let outcomes: Vec<Outcome> = calls.iter().map(perform).collect();
//!             body = weaver.follow_up(&injected.body, &outcomes).unwrap();
//!         }
//!     }
//! }
//! ```

mod anthropic;
mod chat;
mod edit;
mod follow_up;
mod inject;
mod responses;
#[cfg(test)]
mod tests;
mod whole;

use bytes::Bytes;
use epitome::summary::Finish;
use epitome::thread::ToolCall;
use epitome::wire::Dialect;
use epitome_runtime::model::{AnswerReader, ModelAnswer, Usage};
use serde_json::{Value, json};

use self::anthropic::AnthropicStream;
use self::chat::ChatStream;
use self::responses::ResponsesStream;
use self::whole::Whole;
use crate::sse::Event;
use crate::tools::{Outcome, Tool};

pub use self::inject::{Injected, can_weave, inject};

/// What a model is told that goes on calling: the tools are answered no more.
pub const GIVEN_UP: &str = "This tool cannot be used any more in this turn. Answer with what you know already.";

/// The most bytes of one answer that are kept to follow it up. A longer one is forwarded and ends where it ends.
pub const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// One answer for the client out of as many as it takes.
#[derive(Debug)]
pub struct Weaver {
    dialect: Dialect,
    own: Own,
    form: Form,
    /// Reads the answer at hand, as long as it can be read.
    reader: Option<AnswerReader>,
    read_bytes: usize,
    /// The last answer, if it called ours alone.
    answer: Option<ModelAnswer>,
    /// The answers that were followed up, and what came of their calls.
    items: Vec<String>,
    usage: Vec<Usage>,
    given_up: bool,
    failed: bool,
}

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is the client's: these bytes are the last of it.
    Done(Vec<Bytes>),
    /// It calls tools of the gateway and nobody else's: perform them and follow up.
    Ours(Vec<ToolCall>),
    /// It broke off or ended in an error: after these bytes the client's stream ends as the provider's did. In a later
    /// answer than the first, [`Weaver::fail`] tells the client why.
    Broken(Vec<Bytes>),
}

/// The names of the gateway's tools.
#[derive(Debug)]
struct Own(Vec<&'static str>);

impl Own {
    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// Whether a name that begins like this may still be one of ours.
    fn may_begin(&self, name: &str) -> bool {
        self.0.iter().any(|own| own.starts_with(name))
    }
}

/// How answers come, and in which dialect.
#[derive(Debug)]
enum Form {
    Chat(ChatStream),
    Responses(ResponsesStream),
    Anthropic(AnthropicStream),
    Whole(Whole),
}

impl Weaver {
    /// For answers that are streamed to a request that these tools were injected into.
    pub fn streaming(dialect: Dialect, tools: &[Tool]) -> Self {
        let form = match dialect {
            Dialect::Chat | Dialect::AiSdk => Form::Chat(ChatStream::default()),
            Dialect::Responses => Form::Responses(ResponsesStream::default()),
            Dialect::Anthropic => Form::Anthropic(AnthropicStream::default()),
        };
        Weaver::new(dialect, tools, form)
    }

    /// For answers that come whole to a request that these tools were injected into.
    pub fn whole(dialect: Dialect, tools: &[Tool]) -> Self {
        Weaver::new(dialect, tools, Form::Whole(Whole::new(dialect)))
    }

    fn new(dialect: Dialect, tools: &[Tool], form: Form) -> Self {
        Weaver {
            dialect,
            own: Own(tools.iter().map(|tool| tool.name).collect()),
            form,
            reader: AnswerReader::new(dialect),
            read_bytes: 0,
            answer: None,
            items: Vec::new(),
            usage: Vec::new(),
            given_up: false,
            failed: false,
        }
    }

    /// Withholds the chunk of a Chat stream that holds nothing but the usage, for a client that did not ask for it.
    #[must_use]
    pub fn hiding_usage(mut self) -> Self {
        if let Form::Chat(chat) = &mut self.form {
            chat.hides_usage = true;
        }
        self
    }

    /// Takes the next event of an answer and gives what the client gets now.
    pub fn push(&mut self, event: &Event) -> Vec<Bytes> {
        let Some(data) = event.text() else { return vec![event.raw.clone()] };
        self.read(event.name(), data);
        match &mut self.form {
            Form::Chat(chat) => chat.take(event, data, &self.own),
            Form::Responses(responses) => responses.take(event, data, &self.own),
            Form::Anthropic(anthropic) => anthropic.take(event, data, &self.own),
            Form::Whole(_) => vec![event.raw.clone()],
        }
    }

    /// Takes the body of an answer that came whole.
    pub fn push_body(&mut self, body: Bytes) {
        if let Form::Whole(whole) = &mut self.form {
            whole.take(body);
        }
    }

    /// What the answer comes to, once all of it was pushed.
    pub fn end_of_answer(&mut self) -> Turn {
        let reader = std::mem::replace(&mut self.reader, AnswerReader::new(self.dialect));
        self.read_bytes = 0;
        let answer = match &self.form {
            Form::Whole(whole) => whole.text().and_then(|body| AnswerReader::read(self.dialect, body)?.ok()),
            _ => reader.and_then(|reader| reader.finish().ok()),
        };
        let Some(answer) = answer else { return self.broken() };
        self.usage.extend(answer.usage);
        if !self.is_ours(&answer) {
            return Turn::Done(self.release());
        }
        let calls = answer.calls.clone();
        self.answer = Some(answer);
        Turn::Ours(calls)
    }

    /// What goes on after [`Turn::Ours`], with what came of each call: the first request, followed by everything since.
    /// `None` if it cannot be extended.
    pub fn follow_up(&mut self, request: &str, outcomes: &[Outcome]) -> Option<String> {
        let answer = self.answer.take().filter(|answer| answer.calls.len() == outcomes.len())?;
        match &mut self.form {
            Form::Chat(chat) => chat.next_answer(),
            Form::Responses(responses) => responses.next_answer(),
            Form::Anthropic(anthropic) => anthropic.next_answer(),
            Form::Whole(whole) => whole.next_answer(&self.own),
        }
        self.items.extend(follow_up::items(self.dialect, request, &answer, outcomes)?);
        self.onto(request)
    }

    /// The same with every call refused: the model is told to answer without. If it calls all the same, its answer is
    /// the last one and ends for the client as if it had not.
    pub fn give_up(&mut self, request: &str) -> Option<String> {
        self.given_up = true;
        let refused = Outcome::failure(GIVEN_UP);
        let calls = self.answer.as_ref().map_or(0, |answer| answer.calls.len());
        self.follow_up(request, &vec![refused; calls])
    }

    /// What goes on, onto another first request: for one that was too long.
    pub fn onto(&self, request: &str) -> Option<String> {
        follow_up::with_items(self.dialect, request, &self.items)
    }

    /// What follows the first request by now.
    pub fn items(&self) -> &[String] {
        &self.items
    }

    /// Ends the client's stream with an error, for an upstream that failed after the client was sent something: the
    /// provider's own error where its body holds one. Nothing for answers that come whole, or if the client was sent the
    /// end or an error already.
    pub fn fail(&mut self, body: Option<&str>) -> Vec<Bytes> {
        if std::mem::replace(&mut self.failed, true) || self.has_ended() {
            return Vec::new();
        }
        let error = error_of(body);
        match &mut self.form {
            Form::Chat(_) => vec![ChatStream::failure(&error)],
            Form::Responses(responses) => vec![responses.failure(&error)],
            Form::Anthropic(_) => vec![AnthropicStream::failure(&error)],
            Form::Whole(_) => Vec::new(),
        }
    }

    /// What each answer took, in their order, where the provider told.
    pub fn usage(&self) -> &[Usage] {
        &self.usage
    }

    /// What an answer comes to that could not be read: the client's all the same, if it was sent its end.
    fn broken(&mut self) -> Turn {
        let rest = if self.failed { Vec::new() } else { self.release() };
        match self.has_ended() {
            true => Turn::Done(rest),
            false => Turn::Broken(rest),
        }
    }

    fn has_ended(&self) -> bool {
        match &self.form {
            Form::Chat(chat) => chat.ended,
            Form::Responses(responses) => responses.ended,
            Form::Anthropic(anthropic) => anthropic.ended,
            Form::Whole(_) => true,
        }
    }

    fn read(&mut self, name: &str, data: &str) {
        let name = if name.is_empty() { "message" } else { name };
        self.read_bytes += data.len();
        if self.read_bytes > ANSWER_BYTES_MAX {
            self.reader = None;
        }
        if let Some(reader) = &mut self.reader
            && reader.take(name, data).is_err()
        {
            self.reader = None;
            self.failed |= is_error(name, data);
        }
    }

    /// Whether an answer calls tools, all of them ours, and ended for that.
    fn is_ours(&self, answer: &ModelAnswer) -> bool {
        let ours = !answer.calls.is_empty() && answer.calls.iter().all(|call| self.own.has(&call.name));
        let withheld = match &self.form {
            Form::Chat(chat) => chat.calls_own(),
            Form::Responses(responses) => responses.calls_own(),
            Form::Anthropic(anthropic) => anthropic.calls_own(),
            Form::Whole(_) => true,
        };
        ours && withheld && answer.finish == Finish::ToolCall && !self.given_up
    }

    fn release(&mut self) -> Vec<Bytes> {
        match &mut self.form {
            Form::Chat(chat) => chat.release(),
            Form::Responses(responses) => responses.release(),
            Form::Anthropic(anthropic) => anthropic.release(),
            Form::Whole(whole) => vec![whole.release(&self.own)],
        }
    }
}

/// Whether an event is an error that the client understands as the end.
fn is_error(name: &str, data: &str) -> bool {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let kind = value.get("type").and_then(Value::as_str).unwrap_or(name);
    matches!(kind, "error" | "response.failed") || value.get("error").is_some_and(|error| !error.is_null())
}

/// The error in a provider's body, or one in its stead.
fn error_of(body: Option<&str>) -> Value {
    let told = body.and_then(|body| serde_json::from_str::<Value>(body).ok());
    let told = told.and_then(|mut body| body.get_mut("error").map(Value::take)).filter(Value::is_object);
    told.unwrap_or_else(|| json!({"message": "The upstream provider failed in the middle of the answer."}))
}
