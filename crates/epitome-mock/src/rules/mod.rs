//! The rules of each protocol, in the words of its provider.
//!
//! The library's `check` finds what the request alone shows; this adds what only the provider knows: headers, seals it
//! made, items it stored. The first violation is the answer, as with the real providers.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use epitome::wire::{Dialect, LastExchange, Rule, Severity, Violation, check};

use super::endpoint::ProviderProtocol;
use super::prompt::CountedPrompt;
use super::rejection::ProviderRejection;
use super::request::MockRequest;

/// Checks everything about a request that does not need its prompt.
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

/// Checks signatures and encrypted content against the prompt they were made for.
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
    let violations = check(dialect, &request.body, LastExchange::Closed);
    violations.into_iter().find(|violation| violation.severity() == Severity::Error || counts(violation.rule))
}
