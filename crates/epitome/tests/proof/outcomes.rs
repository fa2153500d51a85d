//! A run that failed is never told as done: through the default ladder, in every dialect.

use epitome::plan::Room;
use epitome::planner::PlanOptions;
use epitome::policy::preset;
use epitome::wire::Dialect;
use serde_json::{Value, json};

use crate::claims::words;
use crate::world::{Under, World, compact, prompt};

/// A call of a tool and its answer, as a dialect writes them.
pub fn step(dialect: Dialect, id: &str, tool: &str, arguments: &Value, output: &str) -> Vec<Value> {
    match dialect {
        Dialect::Chat => vec![
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": tool, "arguments": arguments.to_string()}}]}),
            json!({"role": "tool", "tool_call_id": id, "content": output}),
        ],
        Dialect::Responses => vec![
            json!({"type": "function_call", "call_id": id, "name": tool, "arguments": arguments.to_string()}),
            json!({"type": "function_call_output", "call_id": id, "output": output}),
        ],
        Dialect::Anthropic => vec![
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": tool, "input": arguments}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]}),
        ],
        Dialect::AiSdk => vec![
            json!({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": id, "toolName": tool, "input": arguments}]}),
            json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": id, "toolName": tool, "output": {"type": "text", "value": output}}]}),
        ],
    }
}

pub fn say(dialect: Dialect, role: &str, text: &str) -> Value {
    match dialect {
        Dialect::Responses => {
            let kind = if role == "user" { "input_text" } else { "output_text" };
            json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
        }
        _ => json!({"role": role, "content": text}),
    }
}

/// The same failing test run twice, a deployment that failed twice, a file read twice, then other turns.
fn failing(dialect: Dialect) -> String {
    let tests: String = (0..400).map(|n| format!("test module::case_{n} ... FAILED\n")).collect();
    let tests = format!("{tests}\ntest result: FAILED. 0 passed; 400 failed\nExit code: 101");
    let deploy = json!({"status": "failed", "log": "step ".repeat(300)}).to_string();
    let file: String = (0..200).map(|n| format!("{n}: // error: test failed, {n}\n")).collect();
    let mut messages = vec![say(dialect, "user", "Make the tests pass and deploy.")];
    for round in 0..2 {
        messages.extend(step(dialect, &format!("t{round}"), "bash", &json!({"command": "cargo test"}), &tests));
        messages.extend(step(dialect, &format!("d{round}"), "deploy", &json!({"to": "staging"}), &deploy));
        messages.extend(step(dialect, &format!("r{round}"), "read", &json!({"path": "src/lib.rs"}), &file));
    }
    for turn in 0..4 {
        messages.push(say(dialect, "assistant", &format!("Looked at it, {turn}.")));
        messages.push(say(dialect, "user", &format!("Go on, {turn}.")));
    }
    Value::Array(messages).to_string()
}

#[test]
fn a_failed_run_is_told_as_failed_by_the_ladder_in_every_dialect() {
    let under = Under::new(preset("ladder").expect("a preset"));
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic, Dialect::AiSdk] {
        let world = World::read(failing(dialect), dialect, &under);
        let total = world.thread.total();
        let room = Room { trigger: total.share(0.9), target: total.share(0.6), limit: total };
        let compaction =
            compact(&world.thread, room, &under, dialect, &PlanOptions::default()).expect("it is over the trigger");
        let said = words(&prompt(&world.thread, Some(&compaction), &under, dialect), &world.thread);
        assert!(said.contains("[bash: failure]\nThe same as in m"), "{dialect}: {said}");
        assert!(said.contains("[deploy: failure]\nThe same as in m"), "{dialect}: {said}");
        assert!(said.contains("[read]\n"), "{dialect}: nothing tells how a read ended: {said}");
        assert!(!said.contains(": success]"), "{dialect}: {said}");
    }
}

#[test]
fn a_summary_counts_a_failed_run_among_the_open_errors_in_every_dialect() {
    let under = Under::new(preset("timeline").expect("a preset"));
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic, Dialect::AiSdk] {
        let world = World::read(failing(dialect), dialect, &under);
        let total = world.thread.total();
        let room = Room { trigger: total.share(0.5), target: total.share(0.5), limit: total.share(0.6) };
        let compaction =
            compact(&world.thread, room, &under, dialect, &PlanOptions::default()).expect("it is over the trigger");
        let items = &compaction.summaries[0].items;
        assert!(
            items.commands.iter().all(|command| command.failed && command.exit == Some(101)),
            "{:?}",
            items.commands
        );
        let about: Vec<&str> = items.errors.iter().map(|error| error.about.as_str()).collect();
        assert!(about.contains(&"cargo test") && about.contains(&"deploy"), "{dialect}: {about:?}");
        assert!(
            !about.iter().any(|about| about.contains("read")),
            "{dialect}: a file that was read is no error: {about:?}"
        );
        let text = &compaction.summaries[0].text;
        assert!(text.contains("ran: `cargo test` exit 101"), "{dialect}: {text}");
    }
}
