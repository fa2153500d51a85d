//! The front door: `epitome::compact` on every format, and the compactor behind it.

use epitome::budget::Tokens;
use epitome::planner::PlanOptions;
use epitome::policy::{Preset, preset};
use epitome::session::{Format, Session};
use epitome::wire::{Dialect, LastExchange, Severity, check};
use epitome::{CompactError, Compactor, Conversation, Limit, compact, embedded};
use serde_json::{Value, json};

/// A talk about a module, in messages of a dialect.
fn messages(dialect: Dialect, turns: usize) -> Vec<Value> {
    let mut messages = vec![json!({"role": "user", "content": "Never touch main.c. Port the parser to Rust."})];
    for turn in 0..turns {
        let words = format!("Module {turn} is ported: {}", "it parses the header and keeps the order. ".repeat(6));
        messages.push(match dialect {
            Dialect::Responses => {
                json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]})
            }
            _ => json!({"role": "assistant", "content": words}),
        });
        messages.push(json!({"role": "user", "content": format!("Go on with module {}.", turn + 1)}));
    }
    messages
}

/// A request with a system prompt and a tool.
fn request(dialect: Dialect, turns: usize) -> String {
    let system = "You are a careful engineer. ".repeat(40);
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let mut messages = messages(dialect, turns);
    match dialect {
        Dialect::Chat => {
            messages.insert(0, json!({"role": "system", "content": system}));
            let tool = json!({"type": "function", "function": {"name": "read_file", "parameters": schema}});
            json!({"model": "gpt-4o", "tools": [tool], "messages": messages})
        }
        Dialect::Responses => json!({"model": "gpt-5", "instructions": system, "input": messages,
            "tools": [{"type": "function", "name": "read_file", "parameters": schema}]}),
        Dialect::Anthropic => json!({"model": "claude-sonnet-4-5", "max_tokens": 1000, "system": system,
            "messages": messages, "tools": [{"name": "read_file", "input_schema": schema}]}),
        _ => json!(messages),
    }
    .to_string()
}

const DIALECTS: [Dialect; 4] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic, Dialect::AiSdk];

#[test]
fn a_request_comes_back_smaller_in_its_own_format_with_system_prompt_and_tools_untouched() {
    for dialect in DIALECTS {
        for preset in Preset::ALL {
            let policy = preset.policy();
            let claim = format!("{} in {dialect}", policy.name);
            let request = request(dialect, 120);
            let compacted =
                compact(&request, &policy, Limit::budget(3_000)).unwrap_or_else(|error| panic!("{claim}: {error}"));
            let (before, after): (Value, Value) =
                (serde_json::from_str(&request).unwrap(), serde_json::from_str(&compacted.text).unwrap());
            for kept in ["model", "system", "instructions", "tools", "max_tokens"] {
                assert_eq!(before.get(kept), after.get(kept), "{claim}: {kept}");
            }
            let compaction = compacted.compaction.expect("it was larger than that");
            assert!(compaction.plan.shortfall.is_none() && compaction.plan.after < compaction.plan.before, "{claim}");
            assert!(compacted.text.contains("Never touch main.c."), "{claim}: a constraint stays");
            let broken: Vec<_> = check(dialect, &after, LastExchange::Open)
                .into_iter()
                .filter(|violation| violation.rule.severity() == Severity::Error)
                .collect();
            assert!(broken.is_empty(), "{claim}: {broken:?}");
            let again = Conversation::read(&compacted.text).unwrap();
            let most = Tokens::new(3_000) + again.system_messages();
            assert!(again.thread.total() <= most, "{claim}: {} of {most}", again.thread.total());
        }
    }
}

#[test]
fn a_window_is_shared_with_the_system_prompt_and_the_tools() {
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
        let (request, policy) = (request(dialect, 300), preset("ladder").unwrap());
        let conversation = Conversation::read(&request).unwrap();
        let compacted = compact(&request, &policy, Limit::window(9_000)).unwrap();
        let plan = compacted.compaction.expect("it was larger than that").plan;
        let whole = plan.after + conversation.beside();
        assert!(conversation.beside() > Tokens::ZERO, "{dialect}: tools and prompt are counted");
        assert!(whole <= Tokens::new(9_000), "{dialect}: {whole}");
    }
}

#[test]
fn what_fits_comes_back_byte_for_byte() {
    let policy = preset("ladder").unwrap();
    for dialect in DIALECTS {
        let request = request(dialect, 3);
        for limit in [Limit::Auto, Limit::window(200_000), Limit::budget(100_000)] {
            let compacted = compact(&request, &policy, limit).unwrap();
            assert_eq!(compacted.text, request, "{dialect}, {limit:?}");
            assert!(compacted.compaction.is_none());
        }
    }
}

#[test]
fn the_floor_that_an_error_names_is_kept_and_one_token_less_is_not() {
    let policy = preset("ladder").unwrap();
    for dialect in DIALECTS {
        let request = request(dialect, 60);
        let Err(CompactError::BelowFloor(floor)) = compact(&request, &policy, Limit::budget(1)) else {
            panic!("{dialect}: one token is too little")
        };
        let least = floor.floor - floor.system;
        assert!(compact(&request, &policy, Limit::Budget(least)).is_ok(), "{dialect}: {least} is kept");
        let less = Limit::Budget(least - Tokens::new(1));
        assert!(matches!(compact(&request, &policy, less), Err(CompactError::BelowFloor(_))), "{dialect}: {less:?}");
    }
}

#[test]
fn a_session_file_keeps_every_line_and_reads_back_smaller() {
    let lines: Vec<String> = messages(Dialect::Anthropic, 80)
        .into_iter()
        .enumerate()
        .map(|(at, message)| {
            let parent = if at == 0 { Value::Null } else { json!(format!("u{}", at - 1)) };
            json!({"type": message["role"], "uuid": format!("u{at}"), "parentUuid": parent, "sessionId": "s",
                "isSidechain": false, "userType": "external", "cwd": "/tmp", "version": "2.1.0",
                "timestamp": "2026-11-17T10:00:00.000Z", "message": message})
            .to_string()
        })
        .collect();
    let session = format!("{}\n", lines.join("\n"));
    let compacted = compact(&session, &preset("claude-code").unwrap(), Limit::budget(2_000)).unwrap();
    assert!(compacted.text.starts_with(&session), "what was in the file stays");
    let (before, after) = (Conversation::read(&session).unwrap(), Conversation::read(&compacted.text).unwrap());
    assert_eq!(after.session.format(), Format::ClaudeCode);
    assert!(after.thread.total() < before.thread.total());
    assert_eq!(after.session.newest_stamp(), before.session.newest_stamp(), "the crate has no clock");
}

#[test]
fn a_text_that_is_no_conversation_is_refused_with_a_sentence() {
    let policy = preset("ladder").unwrap();
    for text in ["", "   \n", "hello", "[{\"role\":", "\u{0}"] {
        let error = compact(text, &policy, Limit::Auto).expect_err(text).to_string();
        assert!(error.len() > 10, "{text:?}: {error}");
    }
}

#[test]
fn a_forced_compaction_shrinks_what_fits() {
    let request = request(Dialect::Chat, 20);
    let conversation = Conversation::read(&request).unwrap();
    let options = PlanOptions { force: true, pins: vec!["The port is 5433.".into()], ..PlanOptions::default() };
    let compactor = Compactor::new(&conversation, &preset("pi").unwrap(), Limit::Auto, options);
    let fitted = compactor.run(&mut embedded).unwrap().expect("it is forced");
    assert!(!fitted.was_asked || fitted.compaction.summaries.len() == 1);
    assert!(fitted.tokens() < conversation.thread.total());
    let text = fitted.write(&conversation, "2026-11-17T10:00:00Z").unwrap().apply(&request);
    assert!(text.contains("The port is 5433.") && Session::read(&text, &Default::default()).is_ok());
}
