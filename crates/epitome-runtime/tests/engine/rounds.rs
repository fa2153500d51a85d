//! A hundred compactions of one stored thread, in every preset: plans count on, facts stay, and a number in the last prompt
//! reads back the message that was meant.

use epitome::budget::Tokens;
use epitome::policy::Preset;
use epitome_runtime::engine::{Background, Engine, EngineParts, EngineSettings, StepRequest};
use serde_json::json;

use crate::world::{open, owner, says, thread_id};

const ROUNDS: usize = 100;
const FACTS: [&str; 2] = ["I prefer Python.", "My budget is $1000."];

/// Each thing in it has a name of its own: `quarry_ROUND_STEP`.
fn work(round: usize) -> Vec<String> {
    let mut messages = vec![says("user", &format!("Now dig quarry_{round}_0."))];
    for step in 0..3 {
        let (id, item) = (format!("call_{round}_{step}"), format!("quarry_{round}_{step}"));
        let arguments = json!({"command": format!("dig {item}")}).to_string();
        let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}});
        let lines: String =
            (0..10).map(|line| format!("{item} layer {line} holds {} stones\n", round + line)).collect();
        messages
            .push(json!({"role": "assistant", "content": format!("I dig {item}."), "tool_calls": [call]}).to_string());
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": lines}).to_string());
    }
    messages.push(says("assistant", &format!("quarry_{round}_2 gave {} stones in all.", 40 + round)));
    messages
}

/// The first `quarry_…` of a line.
fn item(line: &str) -> Option<&str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_')).find(|word| word.starts_with("quarry_"))
}

/// The messages that a line names.
fn numbers(line: &str) -> Vec<u64> {
    let words = line.split(|c: char| !c.is_alphanumeric());
    words.filter_map(|word| word.strip_prefix('m')?.parse().ok()).collect()
}

async fn a_hundred_rounds(preset: Preset) {
    let settings = EngineSettings {
        window: Some(Tokens::new(40_000)),
        background: Background::Off,
        ..EngineSettings::new(preset.policy())
    };
    let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
    let mut thread = open(&engine).await;
    let begin =
        [says("user", "Help me with the quarry."), says("assistant", "Gladly."), says("user", &FACTS.join(" "))];
    thread.append(begin).await.unwrap();
    let request = StepRequest { force: true, budget: Some(Tokens::new(3_200)), ..StepRequest::default() };
    let (mut rounds, mut at) = (0, 0);
    let mut last = String::new();
    while rounds < ROUNDS {
        at += 1;
        assert!(at < 4 * ROUNDS, "{preset:?}: {rounds} rounds in {at} pieces of work");
        thread.append(work(at)).await.unwrap();
        let step = thread.prepare_step(&request).await.unwrap();
        if step.compacted.is_none() {
            continue;
        }
        rounds += 1;
        assert_eq!(step.version as usize, rounds, "{preset:?}");
        last = step.messages.iter().map(|message| format!("{message}\n")).collect();
        for fact in FACTS {
            assert!(last.contains(fact), "{preset:?}, round {rounds}: {fact}\n{last}");
        }
        if rounds % 10 == 0 {
            thread = engine.resume(&owner(), thread_id("t1")).await.unwrap();
        }
    }
    let plan = engine.log().plan(thread.key(), None).await.unwrap().unwrap().1.compaction;
    assert_eq!(plan.plan.round as usize, ROUNDS, "{preset:?}");
    let mut read_back = 0;
    for line in plan.summaries[0].text.lines() {
        let (numbers, Some(item)) = (numbers(line), item(line)) else { continue };
        let [number] = numbers[..] else { continue };
        // The message, or the result of the call that it is.
        let mut told = thread.read_message(&format!("m{number}"), None).await.unwrap();
        told.push_str(&thread.read_message(&format!("m{}", number + 1), None).await.unwrap_or_default());
        assert!(told.contains(item), "{preset:?}: m{number} is not {item} but {told}\n{last}");
        read_back += 1;
    }
    assert!(read_back > 5, "{preset:?} names too little to be a test: {read_back}\n{last}");
}

#[tokio::test]
async fn a_hundred_rounds_of_a_stored_thread_count_on_in_every_preset() {
    for preset in Preset::ALL {
        a_hundred_rounds(preset).await;
    }
}
