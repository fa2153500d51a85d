//! The words of each fault, as the providers send them, with the numbers of the request in them.
//!
//! Nothing is added to the providers' words.

use serde_json::{Value, json};

use super::{FaultBody, FaultResponse, RequestFacts};
use crate::encode::SseFrame;
use crate::endpoint::ProviderProtocol;
use crate::rejection::{ProviderRejection, openai_error};

fn refuse(status: u16, body: Value) -> FaultResponse {
    FaultResponse { status, headers: Vec::new(), content: FaultBody::Json(body) }
}

fn stream(frames: Vec<SseFrame>) -> FaultResponse {
    FaultResponse { status: 200, headers: Vec::new(), content: FaultBody::Stream(frames) }
}

impl FaultResponse {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> FaultResponse {
        self.headers.push((name, value.into()));
        self
    }
}

fn too_long(message: &str) -> FaultResponse {
    refuse(400, openai_error(message, "invalid_request_error", Some("messages"), Some("context_length_exceeded")))
}

fn resulted_in(f: &RequestFacts<'_>) -> String {
    format!(
        "This model's maximum context length is {} tokens. However, your messages resulted in {} tokens. Please reduce \
         the length of the messages.",
        f.window, f.input
    )
}

fn requested(f: &RequestFacts<'_>) -> String {
    format!(
        "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in the messages, {} in \
         the completion). Please reduce the length of the messages or completion.",
        f.window,
        f.total(),
        f.input,
        f.output
    )
}

pub(super) fn openai(f: &RequestFacts<'_>) -> FaultResponse {
    too_long(&resulted_in(f))
}

pub(super) fn openai_requested(f: &RequestFacts<'_>) -> FaultResponse {
    too_long(&requested(f))
}

pub(super) fn openai_functions(f: &RequestFacts<'_>) -> FaultResponse {
    let functions = f.input / 10;
    too_long(&format!(
        "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in the messages, \
         {functions} in the functions, and {} in the completion). Please reduce the length of the messages, functions, or \
         completion.",
        f.window,
        f.total(),
        f.input - functions,
        f.output
    ))
}

pub(super) fn openai_configured(f: &RequestFacts<'_>) -> FaultResponse {
    too_long(&format!(
        "Input tokens exceed the configured limit of {} tokens. Your messages resulted in {} tokens. Please reduce the \
         length of the messages.",
        f.window, f.input
    ))
}

const RESPONSES: &str = "Your input exceeds the context window of this model. Please adjust your input and try again.";

pub(super) fn responses(_: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, openai_error(RESPONSES, "invalid_request_error", Some("input"), Some("context_length_exceeded")))
}

pub(super) fn responses_failed(f: &RequestFacts<'_>) -> FaultResponse {
    if !(f.stream && f.protocol == ProviderProtocol::Responses) {
        return responses(f);
    }
    let response = |status: &str, error: Value| {
        json!({"id": f.seed.id("resp_", 0, 32), "object": "response", "created_at": crate::encode::CREATED,
            "status": status, "error": error, "incomplete_details": null, "model": f.model, "output": [],
            "parallel_tool_calls": true, "tools": [], "tool_choice": "auto", "usage": null, "metadata": {}})
    };
    let begun = response("in_progress", Value::Null);
    let failed = response("failed", json!({"code": "context_length_exceeded", "message": RESPONSES}));
    stream(vec![
        SseFrame::event(&json!({"type": "response.created", "sequence_number": 0, "response": begun})),
        SseFrame::event(&json!({"type": "response.in_progress", "sequence_number": 1, "response": begun})),
        SseFrame::event(&json!({"type": "response.failed", "sequence_number": 2, "response": failed})),
    ])
}

pub(super) fn string_too_long(_: &RequestFacts<'_>) -> FaultResponse {
    let message = "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760, but got \
                   a string with length 11534336 instead.";
    let error =
        openai_error(message, "invalid_request_error", Some("messages[0].content"), Some("string_above_max_length"));
    refuse(400, error)
}

pub(super) fn tpm(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "Request too large for {} in organization org-mock on tokens per min (TPM): Limit 30000, Requested {}. The input \
         or output tokens must be reduced in order to run successfully.",
        f.model, f.input
    );
    refuse(429, openai_error(&message, "tokens", None, Some("rate_limit_exceeded"))).with("retry-after", "1")
}

pub(super) fn azure(f: &RequestFacts<'_>) -> FaultResponse {
    too_long(&resulted_in(f)).with("apim-request-id", f.seed.id("", 1, 32)).with("x-ms-region", "Mock")
}

fn prompt_too_long(f: &RequestFacts<'_>) -> String {
    format!("prompt is too long: {} tokens > {} maximum", f.input, f.window)
}

fn anthropic_error(f: &RequestFacts<'_>, kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": f.seed.id("req_", 0, 24)})
}

pub(super) fn anthropic(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, anthropic_error(f, "invalid_request_error", &prompt_too_long(f)))
}

pub(super) fn anthropic_output(f: &RequestFacts<'_>) -> FaultResponse {
    if f.input > f.window {
        return anthropic(f);
    }
    let message = format!(
        "input length and `max_tokens` exceed context limit: {} + {} > {}, decrease input length or `max_tokens` and try \
         again",
        f.input, f.output, f.window
    );
    refuse(400, anthropic_error(f, "invalid_request_error", &message))
}

pub(super) fn anthropic_413(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(413, anthropic_error(f, "request_too_large", "Request exceeds the maximum size"))
}

pub(super) fn vertex(f: &RequestFacts<'_>) -> FaultResponse {
    let inner = anthropic_error(f, "invalid_request_error", &prompt_too_long(f)).to_string();
    refuse(400, json!({"error": {"code": 400, "message": inner, "status": "INVALID_ARGUMENT"}}))
}

fn gemini_error(message: &str) -> Value {
    json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}})
}

fn gemini_counted(f: &RequestFacts<'_>) -> Value {
    gemini_error(&format!(
        "The input token count ({}) exceeds the maximum number of tokens allowed ({}).",
        f.input, f.window
    ))
}

pub(super) fn gemini(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, gemini_counted(f))
}

pub(super) fn gemini_no_count(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!("The input token count exceeds the maximum number of tokens allowed ({}).", f.window);
    refuse(400, gemini_error(&message))
}

pub(super) fn gemini_bytes(_: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, gemini_error("Request payload size exceeds the limit: 20971520 bytes."))
}

pub(super) fn gemini_array(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, json!([gemini_counted(f)]))
}

fn bedrock_error(status: u16, kind: &str, message: &str) -> FaultResponse {
    refuse(status, json!({"message": message})).with("x-amzn-errortype", kind)
}

pub(super) fn bedrock(_: &RequestFacts<'_>) -> FaultResponse {
    bedrock_error(400, "ValidationException", "Input is too long for requested model.")
}

pub(super) fn bedrock_claude(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!("The model returned the following errors: {}", prompt_too_long(f));
    bedrock_error(400, "ValidationException", &message)
}

pub(super) fn bedrock_many(_: &RequestFacts<'_>) -> FaultResponse {
    bedrock_error(400, "ValidationException", "Too many input tokens. Max input tokens exceeded.")
}

pub(super) fn bedrock_max_length(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "Malformed input request: expected maxLength: {}, actual: {}, please reformat your input and try again.",
        f.window, f.body_bytes
    );
    bedrock_error(400, "ValidationException", &message)
}

pub(super) fn bedrock_throttle(_: &RequestFacts<'_>) -> FaultResponse {
    bedrock_error(429, "ThrottlingException", "Too many tokens, please wait before trying again.")
}

fn top_level(message: &str, kind: &str, code: Value) -> Value {
    json!({"object": "error", "message": message, "type": kind, "param": null, "code": code})
}

pub(super) fn mistral(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "Prompt contains {} tokens and 0 draft tokens, too large for model with {} maximum context length",
        f.input, f.window
    );
    refuse(400, top_level(&message, "invalid_request_invalid_args", "3051".into()))
}

pub(super) fn deepseek(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, openai_error(&requested(f), "invalid_request_error", None, Some("invalid_request_error")))
}

pub(super) fn groq(_: &RequestFacts<'_>) -> FaultResponse {
    too_long("Please reduce the length of the messages or completion.")
}

pub(super) fn groq_tpm(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "Request too large for model `{}` in organization `org_mock` service tier `on_demand` on tokens per minute (TPM): \
         Limit 12000, Requested {}, please reduce your message size and try again.",
        f.model, f.input
    );
    refuse(413, openai_error(&message, "tokens", None, Some("rate_limit_exceeded")))
}

pub(super) fn cerebras(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "Please reduce the length of the messages or completion. Current length is {} while limit is {}",
        f.input, f.window
    );
    refuse(
        400,
        json!({"message": message, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}),
    )
}

pub(super) fn cerebras_empty(_: &RequestFacts<'_>) -> FaultResponse {
    FaultResponse { status: 400, headers: Vec::new(), content: FaultBody::Text(String::new()) }
}

fn inputs_and_new(f: &RequestFacts<'_>) -> String {
    format!(
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {}. Given: {} `inputs` tokens and {} \
         `max_new_tokens`",
        f.window, f.input, f.output
    )
}

pub(super) fn together_422(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(422, openai_error(&inputs_and_new(f), "invalid_request_error", None, None))
}

fn longer(f: &RequestFacts<'_>) -> String {
    format!("The input ({} tokens) is longer than the model's context length ({} tokens).", f.input, f.window)
}

pub(super) fn together(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, openai_error(&longer(f), "invalid_request_error", None, None))
}

pub(super) fn tgi(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(422, json!({"error": inputs_and_new(f), "error_type": "validation"}))
}

fn openrouter_error(f: &RequestFacts<'_>) -> Value {
    let tools = f.input / 10;
    let message = format!(
        "This endpoint's maximum context length is {} tokens. However, you requested about {} tokens ({} of text input, \
         {tools} of tool input, {} in the output). Please reduce the length of either one, or use the context-compression \
         plugin to compress your prompt automatically.",
        f.window,
        f.total(),
        f.input - tools,
        f.output
    );
    json!({"message": message, "code": 400, "metadata": {"provider_name": null}})
}

pub(super) fn openrouter(f: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, json!({"error": openrouter_error(f), "user_id": "user_mock"}))
}

pub(super) fn openrouter_raw(f: &RequestFacts<'_>) -> FaultResponse {
    let raw = anthropic_error(f, "invalid_request_error", &prompt_too_long(f)).to_string();
    refuse(
        400,
        json!({"error": {"message": "Provider returned error", "code": 400,
            "metadata": {"provider_name": "Anthropic", "raw": raw}}, "user_id": "user_mock"}),
    )
}

pub(super) fn openrouter_stream(f: &RequestFacts<'_>) -> FaultResponse {
    if !f.stream {
        return openrouter(f);
    }
    let chunk = json!({
        "id": f.seed.id("gen-", 0, 24), "object": "chat.completion.chunk", "created": crate::encode::CREATED,
        "model": f.model, "provider": "Mock", "error": openrouter_error(f),
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
    });
    stream(vec![
        SseFrame::raw(": OPENROUTER PROCESSING\n\n"),
        SseFrame::data(&chunk),
        SseFrame::raw("data: [DONE]\n\n"),
    ])
}

pub(super) fn xai(f: &RequestFacts<'_>) -> FaultResponse {
    let message =
        format!("This model's maximum prompt length is {} but the request contains {} tokens.", f.window, f.input);
    refuse(400, json!({"code": "Client specified an invalid argument", "error": message}))
}

fn vllm_error(message: &str, param: Option<&str>) -> FaultResponse {
    refuse(400, json!({"error": {"message": message, "type": "BadRequestError", "param": param, "code": 400}}))
}

pub(super) fn vllm(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "This model's maximum context length is {} tokens. However, you requested {} output tokens and your prompt \
         contains at least {} input tokens, for a total of at least {} tokens. Please reduce the length of the input \
         prompt or the number of requested output tokens.",
        f.window,
        f.output,
        f.input,
        f.total()
    );
    vllm_error(&message, Some("input_tokens"))
}

pub(super) fn vllm_characters(f: &RequestFacts<'_>) -> FaultResponse {
    let room = f.window.saturating_sub(f.output);
    let message = format!(
        "This model's maximum context length is {} tokens. However, you requested {} output tokens and your prompt \
         contains {} characters (more than {} characters, which is the upper bound for {room} input tokens). Please \
         reduce the length of the input prompt or the number of requested output tokens.",
        f.window,
        f.output,
        f.input * 20,
        room * 16
    );
    vllm_error(&message, Some("input_text"))
}

pub(super) fn vllm_older(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "You passed {} input tokens and requested {} output tokens. However, the model's context length is only {} \
         tokens, resulting in a maximum input length of {} tokens. Please reduce the length of the input prompt or the \
         number of requested output tokens.",
        f.input,
        f.output,
        f.window,
        f.window.saturating_sub(f.output)
    );
    refuse(400, top_level(&message, "BadRequestError", 400.into()))
}

pub(super) fn vllm_decoder(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "The decoder prompt (length {}) is longer than the maximum model length of {}. Make sure that `max_model_len` is \
         no smaller than the number of text tokens.",
        f.input, f.window
    );
    vllm_error(&message, None)
}

fn sglang_error(message: &str) -> FaultResponse {
    refuse(400, top_level(message, "BadRequestError", 400.into()))
}

pub(super) fn sglang(f: &RequestFacts<'_>) -> FaultResponse {
    sglang_error(&longer(f))
}

pub(super) fn sglang_total(f: &RequestFacts<'_>) -> FaultResponse {
    sglang_error(&format!(
        "Requested token count exceeds the model's maximum context length of {} tokens. You requested a total of {} \
         tokens: {} tokens from the input messages and {} tokens for the completion. Please reduce the number of tokens \
         in the input messages or the completion to fit within the limit.",
        f.window,
        f.total(),
        f.input,
        f.output
    ))
}

pub(super) fn sglang_allowed(f: &RequestFacts<'_>) -> FaultResponse {
    sglang_error(&format!(
        "Input length ({} tokens) exceeds the maximum allowed length ({} tokens). Use a shorter input or enable \
         --allow-auto-truncate.",
        f.input, f.window
    ))
}

pub(super) fn llama_cpp(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "request ({} tokens) exceeds the available context size ({} tokens), try increasing it",
        f.input, f.window
    );
    refuse(
        400,
        json!({"error": {"code": 400, "message": message, "type": "exceed_context_size_error",
            "n_prompt_tokens": f.input, "n_ctx": f.window}}),
    )
    .with("connection", "close")
}

pub(super) fn llama_cpp_python(f: &RequestFacts<'_>) -> FaultResponse {
    if f.stream {
        return stream(Vec::new());
    }
    too_long(&requested(f))
}

fn said(status: u16, message: &str) -> FaultResponse {
    refuse(status, json!({"error": message}))
}

pub(super) fn ollama(_: &RequestFacts<'_>) -> FaultResponse {
    said(
        400,
        "the prompt is longer than the context length currently available to the model; shorten the prompt, or increase \
         the context length",
    )
}

pub(super) fn ollama_cloud(f: &RequestFacts<'_>) -> FaultResponse {
    let over = f.input.saturating_sub(f.window);
    said(400, &format!("prompt too long; exceeded max context length by {over} tokens"))
}

pub(super) fn lmstudio(f: &RequestFacts<'_>) -> FaultResponse {
    said(
        400,
        &format!(
            "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: {}>= n_ctx: \
             {}). Try to load the model with a larger context length, or provide a shorter input.",
            f.input, f.window
        ),
    )
}

pub(super) fn lmstudio_keep(f: &RequestFacts<'_>) -> FaultResponse {
    said(
        400,
        &format!(
            "Trying to keep the first {} tokens when context the overflows. However, the model is loaded with context \
             length of only {} tokens, which is not enough. Try to load the model with a larger context length, or \
             provide a shorter input.",
            f.input, f.window
        ),
    )
}

fn error_event(message: &str) -> SseFrame {
    let data = json!({"error": {"message": message}, "message": message});
    SseFrame::raw(format!("event: error\ndata: {data}\n\n"))
}

pub(super) fn lmstudio_event(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "Input does not fit in context length. The input has {} tokens, but the context length only supports {} tokens.",
        f.input, f.window
    );
    if f.stream { stream(vec![error_event(&message)]) } else { said(400, &message) }
}

pub(super) fn lmstudio_middle(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!(
        "Reached context length of {} tokens with model (arch: mock) that does not currently support mid-generation \
         context overflow. Try reloading with a larger context length or shortening the prompt/chat.",
        f.window
    );
    if !f.stream {
        return said(400, &message);
    }
    let mut frames = begun(f);
    frames.push(error_event(&message));
    stream(frames)
}

/// The beginning of an answer in the stream's own protocol.
fn begun(f: &RequestFacts<'_>) -> Vec<SseFrame> {
    match f.protocol {
        ProviderProtocol::Anthropic => {
            let message = json!({"id": f.seed.id("msg_01", 0, 22), "type": "message", "role": "assistant",
                "model": f.model, "content": [], "stop_reason": null, "stop_sequence": null,
                "usage": {"input_tokens": f.input, "output_tokens": 1}});
            vec![
                SseFrame::event(&json!({"type": "message_start", "message": message})),
                SseFrame::event(&json!({"type": "content_block_start", "index": 0,
                    "content_block": {"type": "text", "text": ""}})),
                SseFrame::event(&json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "text_delta", "text": "The "}})),
            ]
        }
        ProviderProtocol::Responses => {
            let response = json!({"id": f.seed.id("resp_", 0, 32), "object": "response", "status": "in_progress",
                "created_at": crate::encode::CREATED, "model": f.model, "output": []});
            vec![SseFrame::event(&json!({"type": "response.created", "sequence_number": 0, "response": response}))]
        }
        ProviderProtocol::Chat | ProviderProtocol::Gemini => {
            let chunk = json!({"id": f.seed.id("chatcmpl-", 0, 24), "object": "chat.completion.chunk",
                "created": crate::encode::CREATED, "model": f.model,
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": "The "}, "finish_reason": null}]});
            vec![SseFrame::data(&chunk)]
        }
    }
}

pub(super) fn copilot(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!("prompt token count of {} exceeds the limit of {}", f.input, f.window);
    refuse(400, json!({"error": {"message": message, "code": "model_max_prompt_tokens_exceeded"}}))
}

pub(super) fn minimax(f: &RequestFacts<'_>) -> FaultResponse {
    let message = "invalid params, context window exceeds limit (2013)";
    refuse(400, anthropic_error(f, "bad_request_error", message))
}

pub(super) fn kimi(f: &RequestFacts<'_>) -> FaultResponse {
    let message =
        format!("Invalid request: Your request exceeded model token limit: {} (requested: {})", f.window, f.input);
    refuse(400, json!({"error": {"message": message, "type": "invalid_request_error"}}))
}

pub(super) fn zai(_: &RequestFacts<'_>) -> FaultResponse {
    refuse(400, json!({"error": {"code": "1261", "message": "Prompt exceeds max length"}}))
}

pub(super) fn qwen(f: &RequestFacts<'_>) -> FaultResponse {
    let message = format!("Input length {} exceeds the maximum allowed input length of {} tokens.", f.input, f.window);
    refuse(400, openai_error(&message, "invalid_request_error", None, Some("invalid_parameter_error")))
}

pub(super) fn qwen_range(f: &RequestFacts<'_>) -> FaultResponse {
    let message =
        format!("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, {}]", f.window);
    refuse(400, openai_error(&message, "invalid_request_error", None, Some("invalid_parameter_error")))
}

fn litellm_error(message: &str) -> FaultResponse {
    refuse(400, json!({"error": {"message": message, "type": null, "param": null, "code": "400"}}))
}

pub(super) fn litellm(_: &RequestFacts<'_>) -> FaultResponse {
    litellm_error("litellm.ContextWindowExceededError: litellm.BadRequestError: the request was refused")
}

pub(super) fn litellm_telling(f: &RequestFacts<'_>) -> FaultResponse {
    let inner = anthropic_error(f, "invalid_request_error", &prompt_too_long(f));
    litellm_error(&format!("litellm.ContextWindowExceededError: AnthropicException - {inner}"))
}

pub(super) fn quota(_: &RequestFacts<'_>) -> FaultResponse {
    let message = "You exceeded your current quota, please check your plan and billing details.";
    refuse(400, openai_error(message, "insufficient_quota", None, Some("insufficient_quota")))
}

fn complain(f: &RequestFacts<'_>, rejection: ProviderRejection) -> FaultResponse {
    refuse(rejection.status, rejection.body(f.protocol, f.seed))
}

pub(super) fn too_many(f: &RequestFacts<'_>) -> FaultResponse {
    let rejection = ProviderRejection::invalid("Rate limit reached for requests").with_status(429);
    complain(f, rejection.coded("rate_limit_exceeded")).with("retry-after", "1")
}

pub(super) fn internal(f: &RequestFacts<'_>) -> FaultResponse {
    complain(f, ProviderRejection::invalid("The server had an error while processing your request.").with_status(500))
}

pub(super) fn unavailable(f: &RequestFacts<'_>) -> FaultResponse {
    complain(f, ProviderRejection::invalid("The service is temporarily unavailable.").with_status(503))
}

pub(super) fn overloaded(f: &RequestFacts<'_>) -> FaultResponse {
    complain(f, ProviderRejection::invalid("Overloaded").with_status(529))
}

pub(super) fn overloaded_stream(f: &RequestFacts<'_>) -> FaultResponse {
    if !f.stream {
        return overloaded(f);
    }
    let mut frames = begun(f);
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    frames.push(SseFrame::event(&error));
    stream(frames)
}

pub(super) fn garbage(f: &RequestFacts<'_>) -> FaultResponse {
    let noise = "<html><body>\u{fffd}\u{0} not what you asked for";
    match f.stream {
        true => stream(vec![SseFrame::raw(format!("data: {{\"choices\": [{{\n\n{noise}\n\ndata: ]]\n\n"))]),
        false => FaultResponse { status: 200, headers: Vec::new(), content: FaultBody::Text(noise.into()) },
    }
}
