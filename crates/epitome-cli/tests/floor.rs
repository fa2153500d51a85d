//! The least that a file can be brought to: the number in the error is reached, and one less is not.

#![allow(clippy::unwrap_used)]

mod bench;

use bench::Bench;
use serde_json::{Value, json};

/// A list of turns with large results, the last of which is open or not.
fn list(turns: usize, is_open: bool, systems: usize) -> String {
    let mut messages = vec![json!({"role": "system", "content": "You are careful."})];
    for turn in 0..turns {
        if turn > 0 && turn <= systems {
            messages.push(json!({"role": "system", "content": format!("Rules of part {turn}. ").repeat(40)}));
        }
        messages.push(
            json!({"role": "user", "content": format!("Please look at part {turn}, and never touch vendor_{turn}/.")}),
        );
        let id = format!("call_{turn}");
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "read", "arguments": format!("{{\"path\":\"src/part_{turn}.rs\"}}")}}]}));
        let body: String = (0..40).map(|n| format!("fn item_{turn}_{n}() -> usize {{ {n} }}\n")).collect();
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": body}));
        messages.push(json!({"role": "assistant", "content": format!("Part {turn} is fine.")}));
    }
    if is_open {
        messages.push(json!({"role": "user", "content": "And what is the state of all of it now? Answer in three sentences, please."}));
    }
    Value::from(messages).to_string()
}

/// The same list with an image in its open request, which no plan takes out.
fn list_with_image(turns: usize) -> String {
    let mut messages: Vec<Value> = serde_json::from_str(&list(turns, false, 0)).unwrap();
    let png = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAASwAAADICAAAAAB3tIOJAAAA";
    let image = json!({"type": "image_url", "image_url": {"url": png}});
    messages.push(json!({"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}));
    Value::from(messages).to_string()
}

/// The floor that the error names.
fn floor(bench: &Bench, file: &str, policy: &str, budget: u64, more: &[&str]) -> Option<u64> {
    let words = ["compact", file, "--policy", policy, "--dry-run", "--json", "--budget", &budget.to_string()];
    let run = bench.run(&[&words[..], more].concat());
    match run.code {
        0 => None,
        4 => Some(run.json()["error"]["facts"]["floor"].as_u64().unwrap()),
        _ => panic!("{}", run.whole()),
    }
}

#[test]
fn the_floor_is_reached_and_one_less_is_not_whatever_is_asked_first() {
    let bench = Bench::new()
        .with("sample/session.jsonl")
        .holding("closed.json", list(12, false, 0))
        .holding("open.json", list(12, true, 0))
        .holding("short.json", list(2, true, 0))
        .holding("image.json", list_with_image(12));
    for file in ["session.jsonl", "closed.json", "open.json", "short.json", "image.json"] {
        for policy in ["ladder", "layer", "pi", "codex", "workstream"] {
            let Some(least) = floor(&bench, file, policy, 0, &[]) else { continue };
            for budget in [1, least / 2, least - 1] {
                assert_eq!(floor(&bench, file, policy, budget, &[]), Some(least), "{file}, {policy}, budget {budget}");
            }
            for budget in [least, least + 1, least + 7, least + least / 4, least * 2] {
                assert_eq!(
                    floor(&bench, file, policy, budget, &[]),
                    None,
                    "{file}, {policy}, budget {budget} of {least}"
                );
            }
        }
    }
}

#[test]
fn the_hint_speaks_of_pins_only_where_there_are_some() {
    let bench = Bench::new().holding("l.json", list(12, true, 0));
    let hint = |more: &[&str]| bench.run(&[&["compact", "l.json", "--budget", "1"], more].concat()).ended(4).err;
    assert!(!hint(&[]).contains("pins"), "{}", hint(&[]));
    assert!(hint(&["--pin", "The release is called Kestrel."]).contains("less with fewer pins"));
}

#[test]
fn a_list_with_more_system_messages_than_the_window_holds_is_compacted() {
    let bench = Bench::new().holding("l.json", list(120, true, 119));
    let run = bench.run(&["compact", "l.json", "--window", "12000", "--json"]).ended(0).json();
    assert!(run["after"].as_u64().unwrap() <= 12_000, "{run}");
    let small = bench.text("l.compacted.json");
    assert!(small.contains("You are careful.") && small.contains("Answer in three sentences"), "{small}");
    assert!(small.contains("Rules of part 119"), "the newest of them stay");
}

#[test]
fn a_list_of_twice_the_length_takes_about_twice_the_time_even_where_it_cannot_be_done() {
    let bench = Bench::new().holding("one.json", list(400, true, 0)).holding("two.json", list(800, true, 0));
    let seconds = |file: &str| bench.cpu_seconds(&format!("compact {file} --budget 1 --dry-run"), 4);
    let (one, two) = (seconds("one.json"), seconds("two.json"));
    // What a process takes to begin is in both; a quadratic search would make it four times as long.
    assert!(two <= one * 3.0 + 0.1, "{one} s for the one, {two} s for the list of twice its length");
}
