//! The gateway's own tools inside an answer: the gateway answers their calls and the model continues, and the client sees
//! one answer.
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
//!   several times. What each call took is in [`AnswerSplicer::usage`], for whoever keeps accounts.
//!
//! Nothing here does I/O or performs a call; `proxy/weaving.rs` drives it.

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
use self::whole::WholeAnswer;
use crate::sse::Event;
use crate::tools::{Outcome, Tool};

pub use self::inject::{Injected, can_inject, inject};

/// The result of a call that is no longer answered.
pub const GIVEN_UP: &str = "This tool cannot be used any more in this turn. Answer with what you know already.";

/// The most bytes of one answer that are kept to follow it up. A longer one is forwarded and ends where it ends.
pub const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Splices the provider's answers into one answer for the client.
///
/// It is *reading* an answer (`push`, `push_body`), or *between* two. [`end_of_answer`](AnswerSplicer::end_of_answer) moves it on:
/// to done, to broken, or to waiting for the results of its own calls, which `follow_up` or `give_up` provide; these return the
/// next request, and the splicer reads again. The client has seen everything except the withheld calls and the end of the
/// stream. If a withheld call were shown, the client would try to run a tool that it does not have; if the end were shown
/// before the calls are known to be its own, the rest of the answer would be lost.
#[derive(Debug)]
pub struct AnswerSplicer {
    dialect: Dialect,
    own: OwnNames,
    form: AnswerForm,
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

/// The end of one of the provider's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The client's answer is complete with these bytes.
    Done(Vec<Bytes>),
    /// It calls tools of the gateway only: perform them and follow up.
    OwnCalls(Vec<ToolCall>),
    /// It broke off or ended in an error: after these bytes the client's stream ends as the provider's did. In a later
    /// answer than the first, [`AnswerSplicer::fail`] tells the client why.
    Broken(Vec<Bytes>),
}

/// The names of the gateway's tools.
#[derive(Debug)]
struct OwnNames(Vec<&'static str>);

impl OwnNames {
    fn has(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    /// True if a name that begins like this may still be one of ours.
    fn may_begin(&self, name: &str) -> bool {
        self.0.iter().any(|own| own.starts_with(name))
    }
}

/// The form of the answers: a stream in a dialect, or a whole body.
#[derive(Debug)]
enum AnswerForm {
    Chat(ChatStream),
    Responses(ResponsesStream),
    Anthropic(AnthropicStream),
    Whole(WholeAnswer),
}

impl AnswerSplicer {
    /// For answers that are streamed to a request that these tools were injected into.
    pub fn streaming(dialect: Dialect, tools: &[Tool]) -> Self {
        let form = match dialect {
            Dialect::Chat | Dialect::AiSdk => AnswerForm::Chat(ChatStream::default()),
            Dialect::Responses => AnswerForm::Responses(ResponsesStream::default()),
            Dialect::Anthropic => AnswerForm::Anthropic(AnthropicStream::default()),
        };
        AnswerSplicer::new(dialect, tools, form)
    }

    /// For answers that come whole to a request that these tools were injected into.
    pub fn whole(dialect: Dialect, tools: &[Tool]) -> Self {
        AnswerSplicer::new(dialect, tools, AnswerForm::Whole(WholeAnswer::new(dialect)))
    }

    fn new(dialect: Dialect, tools: &[Tool], form: AnswerForm) -> Self {
        AnswerSplicer {
            dialect,
            own: OwnNames(tools.iter().map(|tool| tool.name).collect()),
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

    /// Adds the next event of an answer, and returns what the client gets now.
    pub fn push(&mut self, event: &Event) -> Vec<Bytes> {
        let Some(data) = event.text() else { return vec![event.raw.clone()] };
        self.read(event.name(), data);
        match &mut self.form {
            AnswerForm::Chat(chat) => chat.take(event, data, &self.own),
            AnswerForm::Responses(responses) => responses.take(event, data, &self.own),
            AnswerForm::Anthropic(anthropic) => anthropic.take(event, data, &self.own),
            AnswerForm::Whole(_) => vec![event.raw.clone()],
        }
    }

    /// Adds the body of an answer that came whole.
    pub fn push_body(&mut self, body: Bytes) {
        if let AnswerForm::Whole(whole) = &mut self.form {
            whole.take(body);
        }
    }

    /// Ends an answer, once all of it was pushed.
    pub fn end_of_answer(&mut self) -> AnswerEnd {
        let reader = std::mem::replace(&mut self.reader, AnswerReader::new(self.dialect));
        self.read_bytes = 0;
        let answer = match &self.form {
            AnswerForm::Whole(whole) => whole.text().and_then(|body| AnswerReader::read(self.dialect, body)?.ok()),
            _ => reader.and_then(|reader| reader.finish().ok()),
        };
        let Some(answer) = answer else {
            // It is complete if the client was sent its end.
            let rest = if self.failed { Vec::new() } else { self.release() };
            return if self.has_ended() { AnswerEnd::Done(rest) } else { AnswerEnd::Broken(rest) };
        };
        self.usage.extend(answer.usage);
        if !self.is_ours(&answer) {
            return AnswerEnd::Done(self.release());
        }
        let calls = answer.calls.clone();
        self.answer = Some(answer);
        AnswerEnd::OwnCalls(calls)
    }

    /// Makes the request that follows [`AnswerEnd::OwnCalls`]: the first request, then every answer and result since. `None` if it
    /// cannot be extended.
    pub fn follow_up(&mut self, request: &str, outcomes: &[Outcome]) -> Option<String> {
        let answer = self.answer.take().filter(|answer| answer.calls.len() == outcomes.len())?;
        match &mut self.form {
            AnswerForm::Chat(chat) => chat.next_answer(),
            AnswerForm::Responses(responses) => responses.next_answer(),
            AnswerForm::Anthropic(anthropic) => anthropic.next_answer(),
            AnswerForm::Whole(whole) => whole.next_answer(&self.own),
        }
        self.items.extend(follow_up::items(self.dialect, request, &answer, outcomes)?);
        self.onto(request)
    }

    /// Makes the same request with every call refused, so that the model answers without them. If it calls again, its answer is
    /// the last one and ends for the client as if it had not called.
    pub fn give_up(&mut self, request: &str) -> Option<String> {
        self.given_up = true;
        let refused = Outcome::failure(GIVEN_UP);
        let calls = self.answer.as_ref().map_or(0, |answer| answer.calls.len());
        self.follow_up(request, &vec![refused; calls])
    }

    /// Makes the same request from another first one, because the first was too long.
    pub fn onto(&self, request: &str) -> Option<String> {
        follow_up::with_items(self.dialect, request, &self.items)
    }

    /// Returns the items that follow the first request by now.
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
            AnswerForm::Chat(_) => vec![ChatStream::failure(&error)],
            AnswerForm::Responses(responses) => vec![responses.failure(&error)],
            AnswerForm::Anthropic(_) => vec![AnthropicStream::failure(&error)],
            AnswerForm::Whole(_) => Vec::new(),
        }
    }

    /// Returns the usage of each answer, where the provider reported it.
    pub fn usage(&self) -> &[Usage] {
        &self.usage
    }

    fn has_ended(&self) -> bool {
        match &self.form {
            AnswerForm::Chat(chat) => chat.ended,
            AnswerForm::Responses(responses) => responses.ended,
            AnswerForm::Anthropic(anthropic) => anthropic.ended,
            AnswerForm::Whole(_) => true,
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

    /// True if an answer ended for tool calls, and all of them are ours.
    fn is_ours(&self, answer: &ModelAnswer) -> bool {
        let ours = !answer.calls.is_empty() && answer.calls.iter().all(|call| self.own.has(&call.name));
        let withheld = match &self.form {
            AnswerForm::Chat(chat) => chat.calls_own(),
            AnswerForm::Responses(responses) => responses.calls_own(),
            AnswerForm::Anthropic(anthropic) => anthropic.calls_own(),
            AnswerForm::Whole(_) => true,
        };
        ours && withheld && answer.finish == Finish::ToolCall && !self.given_up
    }

    fn release(&mut self) -> Vec<Bytes> {
        match &mut self.form {
            AnswerForm::Chat(chat) => chat.release(),
            AnswerForm::Responses(responses) => responses.release(),
            AnswerForm::Anthropic(anthropic) => anthropic.release(),
            AnswerForm::Whole(whole) => vec![whole.release(&self.own)],
        }
    }
}

/// True for an event that the client understands as the end with an error.
fn is_error(name: &str, data: &str) -> bool {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let kind = value.get("type").and_then(Value::as_str).unwrap_or(name);
    matches!(kind, "error" | "response.failed") || value.get("error").is_some_and(|error| !error.is_null())
}

/// Returns the error in a provider's body, or a general one.
fn error_of(body: Option<&str>) -> Value {
    let told = body.and_then(|body| serde_json::from_str::<Value>(body).ok());
    let told = told.and_then(|mut body| body.get_mut("error").map(Value::take)).filter(Value::is_object);
    told.unwrap_or_else(|| json!({"message": "The upstream provider failed in the middle of the answer."}))
}
