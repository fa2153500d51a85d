//! Every shape in which a dialect carries media, as short threads, and what is said around them.

use epitome::budget::CountSource;
use epitome::thread::MediaKind;
use epitome::wire::Dialect;
use serde_json::{Value, json};

use crate::files;

/// The call whose result is of a fixed form.
pub const FIXED_CALL: &str = "fixed";
/// What a tool says beside the media in its result.
pub const RESULT_WORDS: &str = "RESULT-WORDS";

/// A short thread with one piece of media in it.
pub struct Shape {
    pub claim: &'static str,
    pub dialect: Dialect,
    pub messages: Vec<Value>,
    pub kind: MediaKind,
    pub name: Option<&'static str>,
    pub media_type: Option<&'static str>,
    pub source: CountSource,
    /// Whether the model made it: it is nobody's request.
    pub is_made: bool,
}

impl Shape {
    /// Whether it stands in what a person asks.
    pub fn is_request(&self) -> bool {
        !self.is_made && self.messages.len() == 1
    }
}

use CountSource::{Estimated, Exact};
use Dialect::{AiSdk, Anthropic, Chat, Responses};
use MediaKind::{Audio, Document, File, Image};

fn asked(claim: &'static str, dialect: Dialect, block: Value) -> Shape {
    let words = match dialect {
        Responses => json!({"type": "input_text", "text": "What is in it?"}),
        _ => json!({"type": "text", "text": "What is in it?"}),
    };
    let messages = vec![json!({"role": "user", "content": [block, words]})];
    Shape { claim, dialect, messages, kind: File, name: None, media_type: None, source: Estimated, is_made: false }
}

impl Shape {
    fn is(self, kind: MediaKind, name: Option<&'static str>, media_type: &'static str, source: CountSource) -> Shape {
        Shape { kind, name, media_type: Some(media_type).filter(|known| !known.is_empty()), source, ..self }
    }
}

/// Media in what a person asks, or in what a model answers.
pub fn shapes() -> Vec<Shape> {
    let (pdf, png, wav, mp3) = (files::pdf(), files::png(), files::wav(), files::mp3());
    let url = |media: &str, data: &str| format!("data:{media};base64,{data}");
    let (pdf_url, png_url) = (url("application/pdf", &pdf), url("image/png", &png));
    let source = |media: &str, data: &str| json!({"type": "base64", "media_type": media, "data": data});
    let report = Some("report.pdf");
    vec![
        asked("claude: image", Anthropic, json!({"type": "image", "source": source("image/png", &png)}))
            .is(Image, None, "image/png", Exact),
        asked("claude: image by address", Anthropic, json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}))
            .is(Image, None, "", Estimated),
        asked("claude: document", Anthropic, json!({"type": "document", "title": "report.pdf", "source": source("application/pdf", &pdf), "cache_control": {"type": "ephemeral"}}))
            .is(Document, report, "application/pdf", Estimated),
        asked("claude: document of text", Anthropic, json!({"type": "document", "title": "notes", "source": {"type": "text", "media_type": "text/plain", "data": "The words of it. ".repeat(900)}}))
            .is(Document, Some("notes"), "text/plain", Exact),
        asked("claude: document by address", Anthropic, json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}))
            .is(Document, None, "", Estimated),
        asked("claude: document by id", Anthropic, json!({"type": "document", "title": "report.pdf", "source": {"type": "file", "file_id": "file_011"}}))
            .is(Document, report, "", Estimated),
        asked("claude: search result", Anthropic, json!({"type": "search_result", "title": "Guide", "source": "https://example.com", "content": [{"type": "text", "text": "A passage. ".repeat(900)}]}))
            .is(Document, Some("Guide"), "text/plain", Exact),
        asked("chat: image", Chat, json!({"type": "image_url", "image_url": {"url": png_url}})).is(Image, None, "image/png", Exact),
        asked("chat: image, low", Chat, json!({"type": "image_url", "image_url": {"url": png_url, "detail": "low"}})).is(Image, None, "image/png", Exact),
        asked("chat: file", Chat, json!({"type": "file", "file": {"filename": "report.pdf", "file_data": pdf_url}}))
            .is(Document, report, "application/pdf", Estimated),
        asked("chat: file by id", Chat, json!({"type": "file", "file": {"file_id": "file-abc"}})).is(Document, None, "", Estimated),
        asked("chat: audio", Chat, json!({"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}})).is(Audio, None, "audio/wav", Exact),
        asked("chat: audio, packed", Chat, json!({"type": "input_audio", "input_audio": {"data": mp3, "format": "mp3"}})).is(Audio, None, "audio/mp3", Estimated),
        asked("chat: something new", Chat, json!({"type": "hologram", "hologram": {"blob": files::unknown()}, "name": "a.holo"}))
            .is(File, Some("a.holo"), "", Estimated),
        Shape {
            messages: vec![
                json!({"role": "user", "content": "Say it aloud."}),
                json!({"role": "assistant", "content": null, "audio": {"id": "audio_1", "data": wav, "transcript": "It is sunny.", "expires_at": 1}}),
            ],
            is_made: true,
            ..asked("chat: what the model said", Chat, Value::Null).is(Audio, None, "audio/wav", Exact)
        },
        asked("responses: image", Responses, json!({"type": "input_image", "image_url": png_url})).is(Image, None, "image/png", Exact),
        asked("responses: image by id", Responses, json!({"type": "input_image", "file_id": "file-abc"})).is(Image, None, "", Estimated),
        asked("responses: file", Responses, json!({"type": "input_file", "filename": "report.pdf", "file_data": pdf_url}))
            .is(Document, report, "application/pdf", Estimated),
        asked("responses: file by address", Responses, json!({"type": "input_file", "file_url": "https://example.com/a.pdf"})).is(Document, None, "", Estimated),
        asked("responses: file by id", Responses, json!({"type": "input_file", "file_id": "file-abc"})).is(Document, None, "", Estimated),
        asked("responses: audio", Responses, json!({"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}})).is(Audio, None, "audio/wav", Exact),
        Shape {
            messages: vec![
                json!({"role": "user", "content": "Draw a cat."}),
                json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": png}),
            ],
            is_made: true,
            ..asked("responses: generated image", Responses, Value::Null).is(Image, None, "image/png", Exact)
        },
        asked("ai sdk: image", AiSdk, json!({"type": "image", "image": png_url})).is(Image, None, "image/png", Exact),
        asked("ai sdk: file", AiSdk, json!({"type": "file", "data": pdf, "mediaType": "application/pdf", "filename": "report.pdf"}))
            .is(Document, report, "application/pdf", Estimated),
        asked("ai sdk: audio file", AiSdk, json!({"type": "file", "data": wav, "mimeType": "audio/wav"})).is(Audio, None, "audio/wav", Exact),
    ]
}

/// Media in what a tool of the client's answers.
pub fn result_shapes() -> Vec<Shape> {
    let (pdf, png) = (files::pdf(), files::png());
    let (pdf_url, png_url) = (format!("data:application/pdf;base64,{pdf}"), format!("data:image/png;base64,{png}"));
    let claude = |block: Value| {
        let content = json!([{"type": "text", "text": RESULT_WORDS}, block]);
        vec![
            json!({"role": "user", "content": "Look at it."}),
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "shot", "name": "look", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "shot", "content": content}]}),
        ]
    };
    let responses = |block: Value| {
        vec![
            json!({"role": "user", "content": "Look at it."}),
            json!({"type": "function_call", "call_id": "shot", "name": "look", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "shot", "output": [{"type": "input_text", "text": RESULT_WORDS}, block]}),
        ]
    };
    let ai_sdk = |block: Value| {
        let output = json!({"type": "content", "value": [{"type": "text", "text": RESULT_WORDS}, block]});
        vec![
            json!({"role": "user", "content": "Look at it."}),
            json!({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "shot", "toolName": "look", "input": {}}]}),
            json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "shot", "toolName": "look", "output": output}]}),
        ]
    };
    let of = |claim, dialect, messages| Shape { messages, ..asked(claim, dialect, Value::Null) };
    let source = |media: &str, data: &str| json!({"type": "base64", "media_type": media, "data": data});
    vec![
        of("claude: image in a result", Anthropic, claude(json!({"type": "image", "source": source("image/png", &png)}))).is(Image, None, "image/png", Exact),
        of("claude: document in a result", Anthropic, claude(json!({"type": "document", "source": source("application/pdf", &pdf)})))
            .is(Document, None, "application/pdf", Estimated),
        of("claude: search result in a result", Anthropic, claude(json!({"type": "search_result", "title": "Guide", "source": "s", "content": [{"type": "text", "text": "A passage. ".repeat(900)}]})))
            .is(Document, Some("Guide"), "text/plain", Exact),
        of("responses: image in an output", Responses, responses(json!({"type": "input_image", "image_url": png_url}))).is(Image, None, "image/png", Exact),
        of("responses: file in an output", Responses, responses(json!({"type": "input_file", "filename": "report.pdf", "file_data": pdf_url})))
            .is(Document, Some("report.pdf"), "application/pdf", Estimated),
        of("ai sdk: media in a result", AiSdk, ai_sdk(json!({"type": "media", "data": png, "mediaType": "image/png"}))).is(Image, None, "image/png", Exact),
        of("ai sdk: file in a result", AiSdk, ai_sdk(json!({"type": "file-data", "data": pdf, "mediaType": "application/pdf", "filename": "report.pdf"})))
            .is(Document, Some("report.pdf"), "application/pdf", Estimated),
    ]
}

/// Media in what only one object can hold.
pub fn fixed_shapes() -> Vec<Shape> {
    let (pdf, png) = (files::pdf(), files::png());
    let server = |tool: &str, kind: &str, content: Value| {
        vec![
            json!({"role": "user", "content": "Look at it."}),
            json!({"role": "assistant", "content": [
                {"type": "server_tool_use", "id": FIXED_CALL, "name": tool, "input": {}},
                {"type": kind, "tool_use_id": FIXED_CALL, "content": content},
                {"type": "text", "text": "I have seen it."},
            ]}),
            json!({"role": "user", "content": "Go on."}),
        ]
    };
    let document = json!({"type": "document", "title": "report.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": pdf}});
    let of = |claim, dialect, messages, is_made| Shape { messages, is_made, ..asked(claim, dialect, Value::Null) };
    vec![
        of(
            "responses: screenshot",
            Responses,
            vec![
                json!({"role": "user", "content": "Open the page."}),
                json!({"type": "computer_call", "id": "cu_1", "call_id": FIXED_CALL, "status": "completed", "pending_safety_checks": [], "action": {"type": "screenshot"}}),
                json!({"type": "computer_call_output", "call_id": FIXED_CALL, "output": {"type": "computer_screenshot", "image_url": format!("data:image/png;base64,{png}")}}),
            ],
            false,
        )
        .is(Image, None, "image/png", Exact),
        of(
            "claude: fetched document",
            Anthropic,
            server("web_fetch", "web_fetch_tool_result", json!({"type": "web_fetch_result", "url": "https://example.com/a.pdf", "content": document})),
            true,
        )
        .is(Document, Some("report.pdf"), "application/pdf", Estimated),
        of(
            "claude: file made by code",
            Anthropic,
            server(
                "code_execution",
                "code_execution_tool_result",
                json!({"type": "code_execution_result", "stdout": "ok", "stderr": "", "return_code": 0, "content": [{"type": "code_execution_output", "file_id": "file_1"}]}),
            ),
            true,
        )
        .is(File, None, "", Estimated),
    ]
}

/// What the assistant says.
pub fn answer(dialect: Dialect, words: &str) -> Value {
    match dialect {
        Responses => {
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]})
        }
        _ => json!({"role": "assistant", "content": words}),
    }
}

/// As many questions and answers of some length.
pub fn talk(dialect: Dialect, turns: usize) -> Vec<Value> {
    let mut messages = Vec::new();
    for at in 0..turns {
        let words: String =
            (0..30).map(|line| format!("Point {line} of answer {at} is about valve {}. ", at * 31 + line)).collect();
        messages.push(json!({"role": "user", "content": format!("And what about number {at}?")}));
        messages.push(answer(dialect, &words));
    }
    messages
}

/// A call of a tool, and its result.
pub fn call(dialect: Dialect, at: usize) -> Vec<Value> {
    let (id, words) = (format!("call_{at}"), format!("row {at} has a value\n").repeat(60));
    match dialect {
        Chat => vec![
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "read", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": id, "content": words}),
        ],
        Responses => vec![
            json!({"type": "function_call", "call_id": id, "name": "read", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": id, "output": words}),
        ],
        Anthropic => vec![
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "read", "input": {}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": words}]}),
        ],
        AiSdk => vec![
            json!({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": id, "toolName": "read", "input": {}}]}),
            json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": id, "toolName": "read", "output": {"type": "text", "value": words}}]}),
        ],
    }
}
