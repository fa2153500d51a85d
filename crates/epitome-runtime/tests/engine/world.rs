//! An engine with a long conversation in it.

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::policy::preset;
use epitome::wire::{Dialect, LastExchange, Severity, check};
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, OpenThread, Step, StepRequest};
use epitome_runtime::ids::{TenantId, ThreadId};
use epitome_runtime::log::ArtifactHint;
use epitome_runtime::recall::RecallResult;
use epitome_runtime::vault::Keys;
use serde_json::json;

pub const WINDOW: u64 = 6_000;
pub const KEY: &str = "k1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

pub fn settings() -> EngineSettings {
    EngineSettings { window: Some(Tokens::new(WINDOW)), ..EngineSettings::new(preset("ladder").unwrap()) }
}

pub fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

pub fn owner() -> Access {
    Access::owner(tenant("acme"), "tester")
}

pub fn thread_id(name: &str) -> ThreadId {
    name.parse().unwrap()
}

pub async fn engine() -> Engine {
    Engine::new(EngineParts::in_memory(settings())).await.unwrap()
}

pub async fn open(engine: &Engine) -> OpenThread {
    engine.open(&owner(), thread_id("t1"), Dialect::Chat).await.unwrap()
}

/// One turn of work: a request, a call, its result, an answer.
pub fn turn(at: usize) -> Vec<String> {
    let lines: String = (0..40)
        .map(|line| format!("{line}: let value_{at}_{line} = compute({at}, {line}); // part of module_{at}\n"))
        .collect();
    let demand = if at == 0 { " Never delete production data." } else { "" };
    vec![
        json!({"role": "user", "content": format!("Request {at}: look at module_{at}.rs.{demand}")}).to_string(),
        json!({"role": "assistant", "content": format!("I read module_{at}.rs now."), "tool_calls": [
            {"id": format!("call_{at}"), "type": "function",
             "function": {"name": "read", "arguments": json!({"path": format!("src/module_{at}.rs")}).to_string()}}]})
        .to_string(),
        json!({"role": "tool", "tool_call_id": format!("call_{at}"), "content": lines}).to_string(),
        json!({"role": "assistant", "content": format!("module_{at} computes value_{at}_39; the zephyr{at} is fine.")})
            .to_string(),
    ]
}

/// The turn with so many more lines in its result.
pub fn long(at: usize, lines: usize) -> Vec<String> {
    let padding = format!("// padding of module_{at}\\n").repeat(lines);
    let widen = |message: String| message.replacen("0: let value", &format!("{padding}0: let value"), 1);
    turn(at).into_iter().map(widen).collect()
}

pub fn says(role: &str, words: &str) -> String {
    json!({"role": role, "content": words}).to_string()
}

/// Appends long turns, then short ones until the first compaction.
pub async fn move_out(thread: &mut OpenThread, long_turns: usize) {
    for at in 0..long_turns {
        thread.append(long(at, 400)).await.unwrap();
    }
    for at in long_turns..long_turns + 60 {
        thread.append(turn(at)).await.unwrap();
        if thread.prepare_step(&StepRequest::default()).await.unwrap().version > 0 {
            return;
        }
    }
    panic!("nothing was compacted");
}

pub async fn hints(engine: &Engine, thread: &OpenThread) -> Vec<ArtifactHint> {
    engine.log().plan(thread.key(), None).await.unwrap().unwrap().1.hints
}

/// Every message of the log, as it came.
pub async fn raws(engine: &Engine, thread: &OpenThread) -> Vec<String> {
    let row = engine.log().thread(thread.key()).await.unwrap().unwrap();
    let entries = engine.log().read(&row, 0..row.length).await.unwrap();
    entries.iter().map(|entry| entry.message.raw.as_str().to_owned()).collect()
}

/// No key, and one.
pub fn keys() -> [Keys; 2] {
    [Keys::none(), KEY.parse().unwrap()]
}

/// The conversation goes on for some turns; each prompt on the way is checked.
pub async fn go_on(thread: &mut OpenThread, turns: std::ops::Range<usize>) -> Vec<Step> {
    let mut steps = Vec::new();
    for at in turns {
        for message in turn(at) {
            let is_question = message.contains("\"role\":\"user\"") || message.contains("\"role\":\"tool\"");
            thread.append([message]).await.unwrap();
            if is_question {
                let step = thread.prepare_step(&StepRequest::default()).await.unwrap();
                holds(&step);
                steps.push(step);
            }
        }
    }
    steps
}

/// A prompt that a provider takes, within its room.
pub fn holds(step: &Step) {
    let list = format!("[{}]", step.messages.join(","));
    let value = serde_json::from_str(&list).unwrap();
    let wrong: Vec<_> = check(Dialect::Chat, &value, LastExchange::Closed)
        .into_iter()
        .filter(|violation| violation.severity() == Severity::Error)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}\n{list}");
    assert!(step.tokens <= step.room.limit || step.shortfall.is_some(), "{} > {}", step.tokens, step.room.limit);
}

pub fn said(step: &Step) -> String {
    step.messages.join("\n")
}

/// True if a search found a word: in a passage, or in the line of one that is told by its number.
pub fn finds(found: &RecallResult, word: &str) -> bool {
    let lines = found.others.iter().map(|one| &one.line);
    found.hits.iter().map(|hit| &hit.text).chain(lines).any(|text| text.contains(word))
}

#[allow(dead_code)]
pub fn shared<T>(value: T) -> Arc<T> {
    Arc::new(value)
}
