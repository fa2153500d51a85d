//! The rules of each protocol, told as its provider tells them.
//!
//! What a request alone can show is judged by the library's check; this adds what only the provider can know: headers,
//! seals it made, items it kept. The first fault is the answer, as with the real ones.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use epitome::wire::{Dialect, Rule, Severity, Tail, Violation, check};

use super::asked::Asked;
use super::endpoint::Protocol;
use super::prompt::Prompt;
use super::refusal::Complaint;

/// Judges a request by everything that does not need its prompt.
pub(super) fn judge(asked: &Asked, pedantic: bool) -> Result<(), Complaint> {
    if asked.model().is_empty() {
        return Err(missing_model(asked.protocol()));
    }
    match asked.protocol() {
        Protocol::Chat => chat::judge(asked, pedantic),
        Protocol::Responses => responses::judge(asked),
        Protocol::Anthropic => anthropic::judge(asked),
        Protocol::Gemini => gemini::judge(asked),
    }
}

/// Judges the seals of a request.
pub(super) fn judge_seals(asked: &Asked, prompt: &Prompt) -> Result<(), Complaint> {
    match asked.protocol() {
        Protocol::Responses => responses::judge_seals(asked),
        Protocol::Anthropic => anthropic::judge_seals(asked, prompt),
        Protocol::Gemini => gemini::judge_seals(asked),
        Protocol::Chat => Ok(()),
    }
}

fn missing_model(protocol: Protocol) -> Complaint {
    match protocol {
        Protocol::Anthropic => Complaint::invalid("model: Field required"),
        _ => Complaint::invalid("you must provide a model parameter"),
    }
}

/// The first violation of a dialect's check that counts.
fn first(dialect: Dialect, asked: &Asked, counts: impl Fn(Rule) -> bool) -> Option<Violation> {
    let violations = check(dialect, &asked.body, Tail::Closed);
    violations.into_iter().find(|violation| violation.severity() == Severity::Error || counts(violation.rule))
}
