//! What an answer tells of the gateway, in headers.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::turn::Told;
use crate::fail_open::FailOpenReason;

/// The thread that a request belongs to.
pub const THREAD: HeaderName = HeaderName::from_static("x-epitome-thread");
/// How it relates to it: `new`, `continue`, `again` or `fork`.
pub const RELATION: HeaderName = HeaderName::from_static("x-epitome-relation");
/// The version of the plan that the prompt is under.
pub const PLAN: HeaderName = HeaderName::from_static("x-epitome-plan");
/// The tokens of what came.
pub const TOKENS_BEFORE: HeaderName = HeaderName::from_static("x-epitome-tokens-before");
/// The tokens of what was sent.
pub const TOKENS_AFTER: HeaderName = HeaderName::from_static("x-epitome-tokens-after");
/// What became of the provider's cache: `kept` or `rewritten`.
pub const CACHE: HeaderName = HeaderName::from_static("x-epitome-cache");
/// What the plan retained, made recoverable and lost, and how many messages gave way that the policy protects.
pub const RECEIPT: HeaderName = HeaderName::from_static("x-epitome-receipt");
/// How often the thread was compacted.
pub const ROUNDS: HeaderName = HeaderName::from_static("x-epitome-rounds");
/// What a person should know: that the thread was compacted so often that answers suffer.
pub const WARNING: HeaderName = HeaderName::from_static("x-epitome-warning");
/// How often the request was made smaller and sent again.
pub const RETRIES: HeaderName = HeaderName::from_static("x-epitome-retries");
/// How long the request's pins hold: `kept` for its conversation or user, or `this-request`.
pub const PINS: HeaderName = HeaderName::from_static("x-epitome-pins");
/// Why the request went out as it came although something was to be done.
pub const FAILED_OPEN: HeaderName = HeaderName::from_static("x-epitome-failed-open");

/// How many of these an answer usually has.
const MOST: usize = 10;

/// Puts what is told of a request into the headers of its answer.
pub fn put(headers: &mut HeaderMap, told: &Told) {
    headers.reserve(MOST);
    let mut set = |name: HeaderName, value: Option<HeaderValue>| {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    };
    let text = |text: &str| HeaderValue::from_str(text).ok();
    set(THREAD, told.thread.as_ref().and_then(|thread| text(thread.as_str())));
    set(RELATION, told.relation.map(|relation| HeaderValue::from_static(relation.name())));
    set(PLAN, Some(told.plan.into()));
    set(TOKENS_BEFORE, told.before.map(|tokens| tokens.get().into()));
    set(TOKENS_AFTER, told.after.map(|tokens| tokens.get().into()));
    set(CACHE, Some(HeaderValue::from_static(if told.is_rewritten { "rewritten" } else { "kept" })));
    let gave_way = match told.gave_way {
        0 => String::new(),
        messages => format!(" gave-way={messages}"),
    };
    let receipt = |[retained, recoverable, lost]: [usize; 3]| {
        text(&format!("retained={retained} recoverable={recoverable} lost={lost}{gave_way}"))
    };
    set(RECEIPT, told.receipt.and_then(receipt));
    set(ROUNDS, (told.rounds > 0).then(|| told.rounds.into()));
    set(WARNING, told.warning.as_deref().and_then(text));
    set(RETRIES, (told.retries > 0).then(|| u16::from(told.retries).into()));
    set(PINS, told.pins.map(|hold| HeaderValue::from_static(hold.name())));
    set(FAILED_OPEN, told.failed_open.map(|reason| HeaderValue::from_static(reason.name())));
}

/// Says that a request was sent as it came, and why.
pub fn put_failed_open(headers: &mut HeaderMap, reason: FailOpenReason) {
    headers.insert(FAILED_OPEN, HeaderValue::from_static(reason.name()));
}

/// Adds a beta to those that a client asked for.
pub fn add_beta(headers: &mut HeaderMap, (name, beta): (&'static str, &'static str)) {
    let name = HeaderName::from_static(name);
    let asked = headers.get(&name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if asked.split(',').any(|one| one.trim() == beta) {
        return;
    }
    let all = if asked.is_empty() { beta.to_owned() } else { format!("{asked},{beta}") };
    if let Ok(value) = HeaderValue::try_from(all) {
        headers.insert(name, value);
    }
}
