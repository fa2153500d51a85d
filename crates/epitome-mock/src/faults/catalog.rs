//! The catalog as data: name, kind, what comes, and the function that writes it.

use super::FaultKind::{Broken, LooksLikeOverflow, Overflow};
use super::shapes as s;
use super::{CatalogEntry, Delivery, FaultAction, HiddenOverflow};

const fn tells(
    name: &'static str,
    summary: &'static str,
    tell: fn(&super::RequestFacts<'_>) -> super::FaultResponse,
) -> CatalogEntry {
    CatalogEntry { name, kind: Overflow, counts_output: false, summary, act: FaultAction::Tell(tell) }
}

const fn pretends(name: &'static str, summary: &'static str, hidden: HiddenOverflow) -> CatalogEntry {
    CatalogEntry { name, kind: Overflow, counts_output: false, summary, act: FaultAction::Pretend(hidden) }
}

const fn delivers(name: &'static str, summary: &'static str, delivery: fn(Option<u64>) -> Delivery) -> CatalogEntry {
    CatalogEntry { name, kind: Broken, counts_output: false, summary, act: FaultAction::Deliver(delivery) }
}

impl CatalogEntry {
    const fn counting_output(self) -> CatalogEntry {
        CatalogEntry { counts_output: true, ..self }
    }

    const fn no_overflow(self) -> CatalogEntry {
        CatalogEntry { kind: LooksLikeOverflow, ..self }
    }

    const fn broken(self) -> CatalogEntry {
        CatalogEntry { kind: Broken, ..self }
    }
}

/// Every fault.
pub(super) const CATALOG: &[CatalogEntry] = &[
    tells("openai", "400 context_length_exceeded, the messages resulted in N tokens", s::openai),
    tells("openai-requested", "400, messages and completion are too much together", s::openai_requested)
        .counting_output(),
    tells("openai-functions", "400, the same with functions counted apart", s::openai_functions).counting_output(),
    tells("openai-configured", "400, the input exceeds the configured limit", s::openai_configured),
    tells("responses-400", "400 context_length_exceeded without a number", s::responses),
    tells("responses-failed-stream", "200, `response.failed` in the stream; 400 without one", s::responses_failed),
    tells("string-too-long", "400 string_above_max_length, one field is too long", s::string_too_long).no_overflow(),
    tells("tpm-429", "429 tokens per minute", s::tpm).no_overflow(),
    tells("azure", "400, as OpenAI says it, with Azure's headers", s::azure),
    tells("anthropic", "400, the prompt is too long", s::anthropic),
    tells("anthropic-output", "400, input and max_tokens are too much together", s::anthropic_output).counting_output(),
    pretends("anthropic-stop-reason", "200, stop_reason model_context_window_exceeded", HiddenOverflow::WindowFull),
    tells("anthropic-413", "413 request_too_large", s::anthropic_413),
    tells("vertex-nested", "400, Anthropic's error as JSON inside a message", s::vertex),
    tells("gemini", "400 INVALID_ARGUMENT with both numbers", s::gemini),
    tells("gemini-no-count", "400 INVALID_ARGUMENT with the limit only", s::gemini_no_count),
    tells("gemini-bytes", "400, the payload has too many bytes", s::gemini_bytes),
    tells("gemini-array", "400, the same in an array", s::gemini_array),
    tells("bedrock", "400 ValidationException, the input is too long", s::bedrock),
    tells("bedrock-claude", "400 ValidationException with Anthropic's numbers", s::bedrock_claude),
    tells("bedrock-many", "400 ValidationException, too many input tokens", s::bedrock_many),
    tells("bedrock-max-length", "400 ValidationException, expected maxLength", s::bedrock_max_length),
    tells("bedrock-throttle", "429 ThrottlingException, too many tokens", s::bedrock_throttle).no_overflow(),
    tells("mistral", "400 code 3051, no error wrapper", s::mistral),
    tells("deepseek", "400 without a code, input and output together", s::deepseek).counting_output(),
    tells("groq", "400 context_length_exceeded without a number", s::groq),
    tells("groq-tpm-413", "413 tokens per minute", s::groq_tpm).no_overflow(),
    tells("cerebras", "400, the current length and the limit", s::cerebras),
    tells("cerebras-empty-body", "400 without a body", s::cerebras_empty),
    tells("together-422", "422, inputs and max_new_tokens together", s::together_422).counting_output(),
    tells("together", "400, the input is longer than the context length", s::together),
    tells("tgi", "422 validation, inputs and max_new_tokens together", s::tgi).counting_output(),
    tells("openrouter", "400 with an integer code, text, tools and output counted", s::openrouter).counting_output(),
    tells("openrouter-raw", "400, the provider's error as JSON in metadata.raw", s::openrouter_raw),
    tells("openrouter-mid-stream", "200, a chunk with an error in the stream; 400 without one", s::openrouter_stream),
    tells("xai", "400, the error is a string", s::xai),
    tells("vllm", "400, at least N input tokens and the requested output", s::vllm).counting_output(),
    tells("vllm-characters", "400, more characters than fit", s::vllm_characters),
    tells("vllm-older", "400, the context length is only N tokens", s::vllm_older).counting_output(),
    tells("vllm-decoder", "400, the decoder prompt is longer than the model length", s::vllm_decoder),
    tells("sglang", "400 top-level error, the input is longer", s::sglang),
    tells("sglang-total", "400, input and completion together", s::sglang_total).counting_output(),
    tells("sglang-allowed", "400, the input exceeds the allowed length", s::sglang_allowed),
    pretends(
        "sglang-truncates",
        "200, the oldest messages were dropped; only usage shows it",
        HiddenOverflow::Truncated,
    ),
    tells("llama-cpp", "400 exceed_context_size_error with both numbers", s::llama_cpp),
    tells("llama-cpp-python", "200 with an empty stream; 400 without one", s::llama_cpp_python),
    tells("ollama", "400, the error is a string", s::ollama),
    tells("ollama-cloud", "400, the prompt is too long, in a string", s::ollama_cloud),
    pretends(
        "ollama-truncates",
        "200, the oldest messages were dropped; only usage shows it",
        HiddenOverflow::Truncated,
    ),
    tells("lmstudio", "400, tokens to keep, in a string", s::lmstudio),
    tells("lmstudio-keep", "400, trying to keep the first tokens, in a string", s::lmstudio_keep),
    tells("lmstudio-event", "200, `event: error` in the stream; 400 without one", s::lmstudio_event),
    pretends("lmstudio-empty", "200, a stream without a delta", HiddenOverflow::Empty),
    tells("lmstudio-middle", "200, an error after some tokens; 400 without a stream", s::lmstudio_middle),
    tells("copilot", "400 model_max_prompt_tokens_exceeded", s::copilot),
    tells("minimax", "400, the context window exceeds the limit", s::minimax),
    tells("kimi", "400, the request exceeded the model's token limit", s::kimi),
    tells("zai", "400 code 1261", s::zai),
    pretends("zai-silent", "200, finish_reason model_context_window_exceeded", HiddenOverflow::WindowFull),
    tells("qwen", "400, the input length exceeds the allowed one", s::qwen),
    tells("qwen-range", "400, the range of the input length", s::qwen_range),
    tells("litellm", "400, ContextWindowExceededError without a number", s::litellm),
    tells("litellm-telling", "400, ContextWindowExceededError around the provider's error", s::litellm_telling),
    tells("quota", "400, the quota is used up", s::quota).no_overflow(),
    tells("429", "429, too many requests", s::too_many).broken(),
    tells("500", "500, an internal error", s::internal).broken(),
    tells("503", "503, unavailable", s::unavailable).broken(),
    tells("529", "529, overloaded", s::overloaded).broken(),
    tells(
        "overloaded-mid-stream",
        "200, `overloaded_error` after the stream began; 529 without one",
        s::overloaded_stream,
    )
    .broken(),
    tells("garbage", "200 with bytes that are neither JSON nor events", s::garbage).broken(),
    delivers("die-mid-stream", "the connection is cut after N events (=N, 3)", |n| Delivery::CutAfter(n.unwrap_or(3))),
    delivers("stall", "nothing comes after N events (=N, 3)", |n| Delivery::StallAfter(n.unwrap_or(3))),
    delivers("stall-head", "the head of the answer does not come", |_| Delivery::StallBeforeHead),
    delivers("slow", "an event every N ms (=N, 100)", |n| Delivery::Drip(n.unwrap_or(100))),
];
