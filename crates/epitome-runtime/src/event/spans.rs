//! Spans: how long a call or a compaction took, under the names of OpenTelemetry's conventions for generative AI.
//!
//! They are `tracing` spans; whoever subscribes sees them, with or without an exporter. A span holds names, numbers and
//! ids. Nothing that was said, and no words of a provider, can get into one through these functions.

use tracing::Span;
use tracing::field::Empty;

use epitome::summary::Finish;

use super::CompactionStats;
use crate::ids::{ThreadId, ThreadKey};
use crate::model::{ModelAnswer, ModelError};

/// The target of all these spans.
pub const TARGET: &str = "epitome";

crate::named_enum! {
    /// The purposes of a model call.
    pub enum CallPurpose {
        /// The agent's next step.
        Turn = "turn",
        /// A summary.
        Summary = "summary",
    }
}

/// A call of a model, named `chat` and the model. The answer is recorded when it comes.
pub fn chat(purpose: CallPurpose, provider: &str, model: &str, thread: Option<&ThreadId>) -> Span {
    tracing::info_span!(
        target: TARGET,
        "chat",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.conversation.id = thread.map(ThreadId::as_str),
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        error.type = Empty,
        epitome.purpose = purpose.name(),
    )
}

/// Records how a call ended and what it took.
pub fn record_answer(span: &Span, answer: &ModelAnswer) {
    record_finish(span, finish_reason(answer.finish));
    if let Some(usage) = answer.usage {
        span.record("gen_ai.usage.input_tokens", usage.input);
        span.record("gen_ai.usage.output_tokens", usage.output);
        span.record("gen_ai.usage.cache_read.input_tokens", usage.cached);
        span.record("gen_ai.usage.cache_creation.input_tokens", usage.written);
    }
}

/// Records that a call failed, and of what kind the failure was.
pub fn record_error(span: &Span, error: &ModelError) {
    span.record("error.type", error_type(error));
    span.record("otel.status_code", "error");
}

/// A compaction of a thread. What came of it is recorded when it is done.
pub fn compaction(key: &ThreadKey, policy: &str, tokens_before: u64) -> Span {
    tracing::info_span!(
        target: TARGET,
        "compaction",
        otel.name = "epitome compaction",
        otel.status_code = Empty,
        gen_ai.conversation.id = key.thread.as_str(),
        epitome.tenant = key.tenant.as_str(),
        epitome.policy = policy,
        epitome.tokens.before = tokens_before,
        epitome.tokens.after = Empty,
        epitome.compacted_blocks = Empty,
        epitome.summary_blocks = Empty,
        epitome.outcome = Empty,
    )
}

crate::named_enum! {
    /// The outcomes of a compaction.
    pub enum CompactionOutcome {
        /// A plan was committed.
        Committed = "committed",
        /// There was nothing to do.
        Nothing = "nothing",
        /// Somebody else committed first.
        Conflict = "conflict",
        /// It was made and not committed.
        Failed = "failed",
    }
}

/// Records what came of a compaction.
pub fn record_compaction(span: &Span, stats: &CompactionStats, outcome: CompactionOutcome) {
    span.record("epitome.tokens.after", stats.tokens_after);
    span.record("epitome.compacted_blocks", stats.compacted_blocks);
    span.record("epitome.summary_blocks", stats.summary_block_count);
    span.record("epitome.outcome", outcome.name());
    if outcome == CompactionOutcome::Failed {
        span.record("otel.status_code", "error");
    }
}

/// By the conventions it is a list, which a `tracing` field cannot be.
#[cfg(feature = "otel")]
fn record_finish(span: &Span, reason: &'static str) {
    use opentelemetry::{Array, StringValue, Value};
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    let reasons = Array::String(vec![StringValue::from(reason)]);
    span.set_attribute("gen_ai.response.finish_reasons", Value::Array(reasons));
}

#[cfg(not(feature = "otel"))]
fn record_finish(span: &Span, reason: &'static str) {
    span.record("gen_ai.response.finish_reasons", reason);
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCall => "tool_calls",
        Finish::Refusal => "content_filter",
    }
}

fn error_type(error: &ModelError) -> &'static str {
    match error {
        ModelError::Overflow { .. } => "overflow",
        ModelError::Throttled { .. } => "throttled",
        ModelError::Refused(..) => "refused",
        ModelError::Failed(..) => "failed",
        ModelError::Unreachable(_) => "unreachable",
        ModelError::TimedOut(..) => "timed_out",
        ModelError::Garbled(_) => "garbled",
        ModelError::Open(..) => "circuit_open",
    }
}
