//! The events of each protocol, in the order of the real provider, saying what the whole answer says.

use epitome_mock::{MockSettings, MockWork, Timing};
use serde_json::{Value, json};

use crate::bench::{Bench, chat, gemini, messages, responses, with};

fn streamed(request: Value) -> Value {
    with(request, json!({"stream": true}))
}

#[tokio::test]
async fn chat_streams_chunks_and_an_end_mark() {
    let bench = Bench::new();
    let plain = bench.post("/v1/chat/completions", &streamed(chat(10))).await.fine();
    assert!(plain.text().ends_with("data: [DONE]\n\n"));
    assert!(plain.events().iter().all(|event| event.get("usage").is_none()));
    let body = with(streamed(chat(10)), json!({"stream_options": {"include_usage": true}}));
    let got = bench.post("/v1/chat/completions", &body).await.fine();
    let events = got.events();
    let (last, before) = events.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    assert!(before.iter().all(|event| event["usage"].is_null()));
    assert_eq!(before.last().unwrap()["choices"][0]["finish_reason"], "stop");
    let text: String = before.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "This is the mock provider. I saw 1 messages.");
}

#[tokio::test]
async fn responses_streams_numbered_events_from_created_to_completed() {
    let bench = Bench::new();
    let body = with(streamed(responses(10)), json!({"reasoning": {"effort": "low", "summary": "auto"}}));
    let got = bench.post("/v1/responses", &body).await.fine();
    assert_eq!(
        got.kinds(),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let events = got.events();
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    let last = events.last().unwrap();
    assert_eq!(last["response"]["output"], json!(done));
    assert!(last["response"]["usage"]["input_tokens"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn messages_streams_from_message_start_to_message_stop() {
    let bench = Bench::new();
    let body = with(streamed(messages(10)), json!({"thinking": {"type": "adaptive"}}));
    let got = bench.post("/v1/messages", &body).await.fine();
    assert_eq!(
        got.kinds(),
        [
            "message_start",
            "content_block_start",
            "ping",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let events = got.events();
    assert_eq!(events[0]["message"]["model"], "mock");
    let deltas: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "content_block_delta").map(|event| &event["delta"]).collect();
    let whole = bench.post("/v1/messages", &with(body, json!({"stream": false}))).await.fine().json();
    let text: String = deltas.iter().filter_map(|delta| delta["text"].as_str()).collect();
    assert_eq!(whole["content"][1]["text"], text);
    let signature = deltas.iter().find_map(|delta| delta["signature"].as_str()).unwrap();
    assert_eq!(whole["content"][0]["signature"], signature);
}

#[tokio::test]
async fn gemini_streams_whole_responses() {
    let bench = Bench::new();
    let got = bench.post("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", &gemini(10)).await.fine();
    let events = got.events();
    let text: String =
        events.iter().filter_map(|event| event["candidates"][0]["content"]["parts"][0]["text"].as_str()).collect();
    assert_eq!(text, "This is the mock provider. I saw 1 messages.");
    assert_eq!(events.last().unwrap()["candidates"][0]["finishReason"], "STOP");
    let count = bench.post("/v1beta/models/gemini-2.5-flash:countTokens", &gemini(10)).await.fine().json();
    assert_eq!(count["totalTokens"], events[0]["usageMetadata"]["promptTokenCount"]);
}

#[tokio::test]
async fn tool_calls_stream_as_they_are_whole() {
    let work = MockWork { turns: 1_000, ..MockWork::default() };
    let bench = Bench::over(MockSettings { work, ..MockSettings::default() });
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
    // The body differs in `stream` alone, so the two answers are of two turns; the second of them is asked for twice.
    let request = with(
        streamed(chat(10)),
        json!({"tools": [{"type": "function", "function": {"name": "bash", "parameters": schema}}]}),
    );
    let got = bench.post("/v1/chat/completions", &request).await.fine();
    let again = bench.post("/v1/chat/completions", &request).await.fine();
    assert_eq!(got.text(), again.text());
    let deltas: Vec<Value> =
        got.events().iter().map(|event| event["choices"][0]["delta"]["tool_calls"][0].clone()).collect();
    let named = deltas.iter().find(|delta| delta["id"].is_string()).unwrap();
    assert_eq!(named["function"]["name"], "bash");
    let arguments: String = deltas.iter().filter_map(|delta| delta["function"]["arguments"].as_str()).collect();
    assert!(serde_json::from_str::<Value>(&arguments).unwrap()["command"].as_str().unwrap().starts_with("seq"));
    assert_eq!(got.events().last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
}

#[tokio::test]
async fn an_answer_takes_its_time_and_has_its_length() {
    let timing = Timing {
        first_token: std::time::Duration::from_millis(120),
        between_tokens: std::time::Duration::from_millis(10),
        answer_tokens: 11,
    };
    let bench = Bench::over(MockSettings { timing, ..MockSettings::default() });
    let start = std::time::Instant::now();
    let got = bench.post("/v1/chat/completions", &streamed(chat(10))).await.fine();
    assert!(start.elapsed().as_millis() >= 220, "{:?}", start.elapsed());
    let tokens = got
        .events()
        .iter()
        .filter(|event| event["choices"][0]["delta"]["content"].as_str().is_some_and(|text| !text.is_empty()))
        .count();
    assert_eq!(tokens, 11);
}

#[tokio::test]
async fn an_answer_ends_where_the_reserved_output_ends() {
    let timing = Timing { answer_tokens: 500, ..Timing::default() };
    let bench = Bench::over(MockSettings { timing, ..MockSettings::default() });
    let got = bench.post("/v1/messages", &messages(10)).await.fine().json();
    assert_eq!(got["stop_reason"], "max_tokens");
    assert_eq!(got["content"][0]["text"].as_str().unwrap().split(' ').count(), 100);
}
