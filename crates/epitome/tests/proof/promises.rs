//! What the presets promise, case by case, through the public API.

use std::sync::Arc;

use epitome::budget::{Threshold, Tokens};
use epitome::plan::{Compaction, Room};
use epitome::planner::{PlanOptions, Planner, Verdict};
use epitome::policy::preset;
use epitome::render::layout;
use epitome::thread::Role;
use epitome::wire::{Dialect, PromptMessage};
use serde_json::{Value, json};

use crate::claims::{compaction_holds, words};
use crate::world::{Under, World, compact, prompt};

fn under(name: &str) -> Under {
    Under::new(preset(name).expect("a preset"))
}

/// Turns of a chat: a request, one tool call with a result of some lines, an answer.
fn chat(turns: usize, lines: usize) -> Vec<Value> {
    let mut messages = Vec::new();
    for turn in 1..=turns {
        messages.push(json!({"role": "user", "content": format!("Request {turn}: look at file_{turn}.rs.")}));
        messages.extend(step(turn, 0, lines));
        messages.push(json!({"role": "assistant", "content": format!("File {turn} is fine.")}));
    }
    messages
}

/// One call and its result.
fn step(turn: usize, at: usize, lines: usize) -> [Value; 2] {
    let id = format!("call_{turn}_{at}");
    let arguments = json!({"path": format!("src/file_{turn}_{at}.rs")}).to_string();
    let text: String =
        (0..lines).map(|line| format!("{line}: let part_{turn}_{at}_{line} = shape({line});\n")).collect();
    [
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}]}),
        json!({"role": "tool", "tool_call_id": id, "content": text}),
    ]
}

fn world(messages: &[Value], under: &Under) -> World {
    World::read(Value::Array(messages.to_vec()).to_string(), Dialect::Chat, under)
}

/// The one door: a thread compacted to a share of itself, with every invariant checked.
fn compacted(world: &World, under: &Under, share: f64, ask: &PlanOptions) -> Compaction {
    let room = under.room(world.thread.total(), share);
    let compaction = compact(&world.thread, room, under, world.dialect, ask).expect("it is over the trigger");
    compaction_holds(world, under, ask, &compaction).unwrap_or_else(|wrong| panic!("{wrong}"));
    compaction
}

fn shown(world: &World, under: &Under, compaction: &Compaction) -> Vec<String> {
    layout(&prompt(&world.thread, Some(compaction), under, world.dialect), &world.thread)
        .lines()
        .map(str::to_owned)
        .collect()
}

// --- the timeline ------------ ----------------------------------------------------------------------------------------

#[test]
fn timeline_case_1_a_summary_is_inserted_and_the_cut_point_stays_visible() {
    let under = under("timeline");
    let world = world(&chat(16, 6), &under);
    let compaction = compacted(&world, &under, 0.8, &PlanOptions::default());
    let lines = shown(&world, &under, &compaction);
    let cut = compaction.plan.tail_from;
    assert_eq!(lines.iter().filter(|line| line.contains("+ summary")).count(), 1, "{lines:#?}");
    let after = lines.iter().position(|line| line.contains("+ summary")).expect("a summary") + 1;
    assert!(lines[after].contains(&format!(" m{} ", cut + 1)), "{lines:#?}");
}

#[test]
fn timeline_case_2_the_prefix_of_a_split_turn_is_summarized_under_its_heading() {
    let under = under("timeline");
    let mut messages = vec![json!({"role": "user", "content": "Move all forty handlers, one after the other."})];
    (0..40).for_each(|at| messages.extend(step(1, at, 6)));
    let world = world(&messages, &under);
    let compaction = compacted(&world, &under, 0.6, &PlanOptions::default());
    let text = &compaction.summaries[0].text;
    assert!(text.contains("## Turn Context (split turn)"), "{text}");
    assert!(text.contains("Move all forty handlers, one after the other."), "{text}");
}

#[test]
fn timeline_case_3_below_the_threshold_nothing_changes_unless_forced() {
    let under = under("timeline");
    let world = world(&chat(10, 6), &under);
    let meter = under.meter(Dialect::Chat);
    let room = Room::in_window(&under.policy, Tokens::new(80_000), Tokens::ZERO);
    let verdict = Planner::new(&world.thread, &under.policy, meter, room, &PlanOptions::default()).decide();
    assert!(matches!(verdict, Verdict::Fits { .. }), "{verdict:?}");
    let rendered = prompt(&world.thread, None, &under, Dialect::Chat);
    assert_eq!(world.document.encode(&rendered.marked_messages(&world.thread)), world.text);
}

#[test]
fn timeline_case_4_a_second_compaction_takes_in_the_first_and_comes_after_it() {
    let under = under("timeline");
    let first = world(&chat(16, 6), &under);
    let once = compacted(&first, &under, 0.8, &PlanOptions::default());
    let longer = world(&chat(32, 6), &under);
    let ask = PlanOptions { previous: Some(Arc::new(once.clone())), ..PlanOptions::default() };
    let twice =
        compact(&longer.thread, once.plan.room, &under, Dialect::Chat, &ask).expect("it is over the trigger again");
    assert_eq!(twice.plan.round, 2);
    assert!(twice.plan.tail_from > once.plan.tail_from);
    let lines = shown(&longer, &under, &twice);
    assert_eq!(
        lines.iter().filter(|line| line.contains("+ summary")).count(),
        1,
        "one summary stands for both: {lines:#?}"
    );
    assert!(twice.summaries[0].items.requests.iter().any(|request| request.text.starts_with("Request 1:")));
}

#[test]
fn timeline_case_5_hidden_messages_are_surfaced_in_the_digest() {
    let under = under("timeline");
    let mut world = world(&chat(16, 6), &under);
    world.thread.hide(2, "[hidden: a listing of no interest]");
    let room = under.room(world.thread.total(), 0.8);
    let compaction =
        compact(&world.thread, room, &under, Dialect::Chat, &PlanOptions::default()).expect("it is over the trigger");
    let (_, digest) = compaction.summaries[0].text.split_once("## Compaction digest").expect("it has a digest");
    assert!(digest.contains("- hidden: m3: [hidden: a listing of no interest]\n"), "{digest}");
}

/// Turns in which an agent streams an artifact, writes, changes, runs and looks into a memory; then a chat.
fn work_with_a_memory() -> Vec<Value> {
    let found =
        json!({"hits": [{"path": "notes/tax.md", "turn_id": "turn_4"}, {"path": "notes/vat.md", "turn_id": "turn_7"}]});
    let calls = [
        (
            "write_artifact",
            json!({"path": "out/report.md", "mime": "text/markdown", "sources_used": ["notes/tax.md"]}),
            "shown".to_owned(),
        ),
        ("write_file", json!({"path": "src/tax.rs", "content": "fn tax() {}"}), "written".to_owned()),
        ("edit", json!({"path": "src/cart.rs", "old_string": "a", "new_string": "b"}), "edited".to_owned()),
        ("bash", json!({"command": "cargo test tax"}), "Exit code 101\ntest tax ... FAILED".to_owned()),
        ("memory_search", json!({"query": "which tax applies"}), found.to_string()),
    ];
    let mut messages = vec![json!({"role": "user", "content": "Do the tax."})];
    for (at, (tool, arguments, result)) in calls.into_iter().enumerate() {
        let call = json!({"id": format!("w{at}"), "type": "function", "function": {"name": tool, "arguments": arguments.to_string()}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("w{at}"), "content": result}));
    }
    messages.extend(chat(24, 6));
    messages
}

#[test]
fn timeline_the_digest_is_data_and_tells_what_a_memory_found_in_every_later_round() {
    let under = under("timeline");
    let first = world(&work_with_a_memory(), &under);
    let once = compacted(&first, &under, 0.6, &PlanOptions::default());
    let longer = world(&[work_with_a_memory(), chat(12, 6)].concat(), &under);
    let ask = PlanOptions { previous: Some(Arc::new(once.clone())), ..PlanOptions::default() };
    let twice = compact(&longer.thread, once.plan.room, &under, Dialect::Chat, &ask).expect("it is over the trigger");
    for compaction in [once, twice] {
        let digest = serde_json::to_value(compaction.digest()).expect("it is data");
        assert_eq!(
            digest["artifacts"],
            json!([{"message": "m2", "path": "out/report.md", "mime": "text/markdown", "visibility": null, "sources_used": ["notes/tax.md"]}])
        );
        assert_eq!(digest["writes"], json!([{"message": "m4", "path": "src/tax.rs"}]));
        assert_eq!(digest["patches"], json!([{"message": "m6", "path": "src/cart.rs"}]));
        assert_eq!(digest["commands"][0]["command"], "cargo test tax");
        assert_eq!(digest["commands"][0]["exit"], 101);
        assert_eq!(
            digest["memory_reads"],
            json!([{"message": "m11", "query": "which tax applies", "paths": ["notes/tax.md", "notes/vat.md"], "turn_ids": ["turn_4", "turn_7"]}])
        );
        let text = &compaction.summaries[0].text;
        let line = "- memory: query=which tax applies paths=notes/tax.md, notes/vat.md turn_ids=turn_4, turn_7 (m11)\n";
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn layer_calls_beside_the_content_of_an_old_message_count_and_keep_their_results() {
    let mut messages = Vec::new();
    for turn in 1..=14 {
        let id = format!("call_{turn}");
        let args = json!({"path": format!("src/file_{turn}.rs"), "content": "let a = 1;\n".repeat(20)});
        messages.push(json!({"role": "user", "content": format!("Request {turn}: write file_{turn}.rs.")}));
        messages.push(json!({"role": "assistant", "content": "", "toolCalls": [{"toolCallId": id, "toolName": "write", "args": args}]}));
        messages.push(json!({"role": "tool", "content": [{"type": "tool-result", "toolCallId": id, "toolName": "write", "result": "written"}]}));
        messages.push(json!({"role": "assistant", "content": format!("File {turn} is written.")}));
    }
    for policy in ["layer", "ladder", "opencode", "pi"] {
        let under = under(policy);
        let world = World::read(Value::Array(messages.clone()).to_string(), Dialect::AiSdk, &under);
        let call = world.thread.message(1);
        assert!(call.tokens() > Tokens::new(40), "{policy}: its arguments count: {}", call.tokens());
        assert_eq!(&*world.thread.message(2).results().next().expect("a result").1.tool, "write");
        let compaction = compacted(&world, &under, 0.6, &PlanOptions { force: true, ..PlanOptions::default() });
        let files = &compaction.summaries[0].items.files;
        assert!(files.iter().any(|file| file.path == "src/file_1.rs" && file.written.is_some()), "{policy}: {files:?}");
    }
}

#[test]
fn timeline_case_6_the_first_message_kept_is_never_a_tool_result() {
    let under = under("timeline");
    let world = world(&chat(16, 6), &under);
    for share in [0.3, 0.45, 0.5, 0.55, 0.6, 0.7, 0.75, 0.85, 0.95] {
        let compaction = compacted(&world, &under, share, &PlanOptions::default());
        let first = world.thread.message(compaction.plan.tail_from);
        assert_ne!(first.role(), Role::Tool, "{share}");
        let starts = world.thread.exchanges().iter().map(|exchange| exchange.range().start);
        assert!(starts.into_iter().any(|start| start == compaction.plan.tail_from), "{share}");
    }
}

#[test]
fn timeline_case_7_cache_checkpoints_are_in_the_prompt_after_a_compaction() {
    let under = under("timeline");
    let talk: Vec<Value> = (0..60)
        .map(|at| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": format!("Word {at} of many, said at some length so that it counts.")}))
        .collect();
    let world = World::read(Value::Array(talk).to_string(), Dialect::Anthropic, &under);
    let compaction = compacted(&world, &under, 0.8, &PlanOptions::default());
    let rendered = prompt(&world.thread, Some(&compaction), &under, Dialect::Anthropic);
    let json = rendered.to_json(&world.thread);
    let marked: Vec<usize> = (0..json.len()).filter(|at| json[*at].contains("cache_control")).collect();
    let summary = rendered
        .messages
        .iter()
        .position(|message| matches!(message, PromptMessage::Written { summary: true, .. }))
        .expect("a summary");
    assert_eq!(marked, [summary, json.len() - 1], "one before the tail and one at its end");
}

// --- the ladder ------------ ------------------------------------------------------------------------------------------

#[test]
fn ladder_facts_are_preserved_after_five_compactions() {
    let under = under("ladder");
    let mut messages = vec![json!({"role": "user", "content": "You must use Python. The budget is at most $1000."})];
    let mut previous = None;
    for round in 1..=5 {
        messages.extend(chat(8, 30).into_iter().map(|message| renamed(message, round)));
        let world = world(&messages, &under);
        let room = Room { trigger: Tokens::new(4000), target: Tokens::new(2000), limit: Tokens::new(4400) };
        let ask = PlanOptions { previous: previous.clone().map(Arc::new), ..PlanOptions::default() };
        let compaction = compact(&world.thread, room, &under, Dialect::Chat, &ask).expect("it is over the trigger");
        let said = words(&prompt(&world.thread, Some(&compaction), &under, Dialect::Chat), &world.thread);
        assert!(said.contains("Python") && said.contains("$1000"), "round {round}: {said}");
        previous = Some(compaction);
    }
}

/// A message whose call ids belong to a round.
fn renamed(message: Value, round: usize) -> Value {
    serde_json::from_str(&message.to_string().replace("\"call_", &format!("\"call_{round}_"))).expect("JSON")
}

#[test]
fn ladder_ten_summaries_do_not_drift_from_a_constraint() {
    let under = under("ladder");
    let constraint = "Never delete production data.";
    let mut messages = chat(3, 10);
    messages.push(json!({"role": "user", "content": format!("Clean up the tables. {constraint}")}));
    messages.push(json!({"role": "assistant", "content": "I will."}));
    let mut previous = None;
    for round in 1..=10 {
        messages.extend(chat(8, 30).into_iter().map(|message| renamed(message, round)));
        let world = world(&messages, &under);
        let room = Room { trigger: Tokens::new(3000), target: Tokens::new(1500), limit: Tokens::new(3300) };
        let ask = PlanOptions { previous: previous.clone().map(Arc::new), force: true, ..PlanOptions::default() };
        let compaction = compact(&world.thread, room, &under, Dialect::Chat, &ask).expect("it is forced");
        let said = words(&prompt(&world.thread, Some(&compaction), &under, Dialect::Chat), &world.thread);
        assert!(said.contains(constraint), "round {round}");
        previous = Some(compaction);
    }
}

#[test]
fn ladder_a_request_stays_under_budget_with_its_system_prompt_tools_and_formatting() {
    let under = under("ladder");
    let world = world(&chat(60, 40), &under);
    let window = Tokens::new(20_000);
    for fixed in [0, 2_000, 6_000] {
        let room = Room::in_window(&under.policy, window, Tokens::new(fixed));
        let compaction = compact(&world.thread, room, &under, Dialect::Chat, &PlanOptions::default())
            .expect("it is over the trigger");
        let tokens = prompt(&world.thread, Some(&compaction), &under, Dialect::Chat)
            .tokens(&world.thread, under.meter(Dialect::Chat));
        let reserved = under.policy.reserve.safety + under.policy.reserve.rehydration;
        assert!(tokens + Tokens::new(fixed) + reserved <= window, "{tokens} beside {fixed}");
        assert_eq!(compaction.plan.shortfall, None);
    }
}

// --- the layer ------------ -------------------------------------------------------------------------------------------

#[test]
fn layer_the_threshold_of_a_128k_window_is_93_600() {
    let policy = preset("layer").expect("a preset");
    assert_eq!(policy.trigger.at.trigger_at(Tokens::new(128_000)), Tokens::new(93_600));
    assert!(matches!(policy.trigger.at, Threshold::ShareOfAvailable { .. }));
}

#[test]
fn layer_the_boundary_moves_back_rather_than_part_a_result_from_its_call() {
    let under = under("layer");
    for extra in 0..4 {
        let mut messages = vec![json!({"role": "system", "content": "Build a flashcard app."})];
        messages.extend(chat(12, 8));
        (0..extra).for_each(|at| {
            messages.push(json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": "Go on."}));
        });
        let world = world(&messages, &under);
        let compaction = compacted(&world, &under, 0.6, &PlanOptions::default());
        let (from, end) = (compaction.plan.tail_from, world.thread.len());
        assert_ne!(world.thread.message(from).role(), Role::Tool, "{extra}");
        assert!((10..=11).contains(&(end - from)), "{extra}: {} messages stay", end - from);
        let lines = shown(&world, &under, &compaction);
        assert!(
            lines[0].contains("system m1") && lines[1].contains("## Session Summary (Compaction Round 1)"),
            "{lines:#?}"
        );
    }
}

#[test]
fn layer_a_chained_round_counts_itself_and_builds_on_the_last() {
    let under = under("layer");
    let mut previous: Option<Compaction> = None;
    for round in 1..=3 {
        let world = world(&chat(12 * round, 8), &under);
        let room = Room { trigger: Tokens::new(1200), target: Tokens::new(1200), limit: Tokens::new(2000) };
        let ask = PlanOptions { previous: previous.clone().map(Arc::new), ..PlanOptions::default() };
        let compaction = compact(&world.thread, room, &under, Dialect::Chat, &ask).expect("it is over the trigger");
        let text = &compaction.summaries[0].text;
        assert!(text.starts_with(&format!("## Session Summary (Compaction Round {round})")), "{text}");
        assert_eq!(text.contains("earlier round"), round > 1, "{text}");
        assert!(text.contains("Request 1: look at file_1.rs."), "the first task is in every round: {text}");
        previous = Some(compaction);
    }
}

#[test]
fn layer_fewer_than_twelve_messages_are_left_alone() {
    let under = under("layer");
    let world = world(&chat(2, 200), &under);
    let room = under.room(world.thread.total(), 0.5);
    assert!(compact(&world.thread, room, &under, Dialect::Chat, &PlanOptions::default()).is_none());
}
