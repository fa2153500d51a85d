//! The rules of each protocol, told as its provider tells them.
//!
//! What a request alone can show is judged by the library's check; this adds what only the provider can know: headers,
//! seals it made, items it kept. The first fault is the answer, as with the real ones.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use epitome::wire::{Dialect, Rule, Severity, Tail, Violation, check};

use super::endpoint::ProviderProtocol;
use super::prompt::CountedPrompt;
use super::rejection::ProviderRejection;
use super::request::MockRequest;

/// Judges a request by everything that does not need its prompt.
pub(super) fn judge(request: &MockRequest, pedantic: bool) -> Result<(), ProviderRejection> {
    if request.model().is_empty() {
        return Err(missing_model(request.protocol()));
    }
    match request.protocol() {
        ProviderProtocol::Chat => chat::judge(request, pedantic),
        ProviderProtocol::Responses => responses::judge(request),
        ProviderProtocol::Anthropic => anthropic::judge(request),
        ProviderProtocol::Gemini => gemini::judge(request),
    }
}

/// Judges the seals of a request.
pub(super) fn judge_seals(request: &MockRequest, prompt: &CountedPrompt) -> Result<(), ProviderRejection> {
    match request.protocol() {
        ProviderProtocol::Responses => responses::judge_seals(request),
        ProviderProtocol::Anthropic => anthropic::judge_seals(request, prompt),
        ProviderProtocol::Gemini => gemini::judge_seals(request),
        ProviderProtocol::Chat => Ok(()),
    }
}

fn missing_model(protocol: ProviderProtocol) -> ProviderRejection {
    match protocol {
        ProviderProtocol::Anthropic => ProviderRejection::invalid("model: Field required"),
        _ => ProviderRejection::invalid("you must provide a model parameter"),
    }
}

/// The first violation of a dialect's check that counts.
fn first(dialect: Dialect, request: &MockRequest, counts: impl Fn(Rule) -> bool) -> Option<Violation> {
    let violations = check(dialect, &request.body, Tail::Closed);
    violations.into_iter().find(|violation| violation.severity() == Severity::Error || counts(violation.rule))
}
