//! A policy means what it says: what it protects stays as long as the limit allows it, and what gave way is named.

use epitome::budget::Tokens;
use epitome::plan::{Compaction, Room};
use epitome::planner::PlanOptions;
use epitome::policy::CutPlace;
use epitome::wire::Dialect;
use serde_json::{Value, json};

use crate::claims::{compaction_holds, words};
use crate::world::{PRESETS, Under, World, compact, prompt};

pub const DIALECT: Dialect = Dialect::Chat;
const REQUEST: &str = "Now rename the quince module, and nothing else.";

/// A thread of some shape; the user's newest request is the last message.
pub fn thread(shape: &str, under: &Under) -> World {
    let mut messages = vec![json!({"role": "system", "content": "You are careful."})];
    match shape {
        "one long turn" => {
            messages.push(user("Move all handlers, one after the other."));
            (0..120).for_each(|at| messages.extend(step(at, 40)));
        }
        "many short turns" => (0..700).for_each(|at| {
            messages.push(user(&format!("Question {at}, of some length, about part {at}?")));
            messages
                .push(json!({"role": "assistant", "content": format!("Answer {at}: part {at} is fine as it stands.")}));
        }),
        "huge results" => (0..24).for_each(|at| {
            messages.push(user(&format!("Look at file {at}.")));
            messages.extend(step(at, 900));
        }),
        "a large tail" => {
            (0..60).for_each(|at| {
                messages.push(user(&format!("Look at file {at}.")));
                messages.extend(step(at, if at < 50 { 20 } else { 160 }));
            });
        }
        "parallel calls" => (0..40).for_each(|at| {
            messages.push(user(&format!("Look at the files of part {at}.")));
            messages.extend(parallel(at, 5, 30));
            messages.push(json!({"role": "assistant", "content": format!("Part {at} is fine.")}));
        }),
        other => panic!("{other}"),
    }
    messages.push(user(REQUEST));
    World::read(Value::Array(messages).to_string(), DIALECT, under)
}

pub const SHAPES: [&str; 5] = ["one long turn", "many short turns", "huge results", "a large tail", "parallel calls"];

pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Several calls at once, and their results.
fn parallel(at: usize, calls: usize, lines: usize) -> Vec<Value> {
    let steps: Vec<[Value; 2]> = (0..calls).map(|call| step(1000 * (at + 1) + call, lines)).collect();
    let calls: Vec<Value> = steps.iter().map(|[call, _]| call["tool_calls"][0].clone()).collect();
    let mut messages = vec![json!({"role": "assistant", "content": null, "tool_calls": calls})];
    messages.extend(steps.into_iter().map(|[_, result]| result));
    messages
}

pub fn step(at: usize, lines: usize) -> [Value; 2] {
    let id = format!("call_{at}");
    let arguments = json!({"path": format!("src/file_{at}.rs")}).to_string();
    let text: String = (0..lines).map(|line| format!("{line}: let part_{at}_{line} = shape({line});\n")).collect();
    [
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}]}),
        json!({"role": "tool", "tool_call_id": id, "content": text}),
    ]
}

/// Where what the policy protects begins, by the words of its rules alone.
fn protected_from(world: &World, under: &Under, target: Tokens) -> usize {
    let (thread, protect) = (&world.thread, &under.policy.protect);
    let end = thread.len();
    let mut from = end.saturating_sub(protect.recent_messages);
    if protect.recent_turns > 0 {
        let oldest = thread.turn() - (protect.recent_turns - 1).min(thread.turn());
        from = from.min((0..end).find(|at| thread.message(*at).turn() >= oldest).unwrap_or(end));
    }
    let mut share = target.share(protect.recent_share);
    if let Some(limit) = protect.tail_limit {
        share = share.clamp(limit.min, limit.max);
    }
    let tokens = protect.recent_tokens.max(share);
    let starts = thread.exchanges().iter().map(|exchange| exchange.range().start);
    let mut by_tokens = starts.filter(|start| thread.tokens(*start..end) <= tokens).min().unwrap_or(end);
    let opens = |place: &usize| thread.message(*place).opens_turn();
    let later = (by_tokens..end).find(opens);
    if protect.cut == CutPlace::NearTurn {
        let keeps_most = |place: &usize| thread.tokens(*place..end) >= tokens.share(0.75);
        by_tokens = later.filter(keeps_most).unwrap_or(by_tokens);
    }
    if protect.cut == CutPlace::Turn && tokens > Tokens::ZERO {
        let around = (0..(by_tokens + 1).min(end)).rev().find(opens).unwrap_or(by_tokens);
        let fits = thread.tokens(around..end) <= target.share(protect.tail_max);
        by_tokens = if fits { around } else { later.unwrap_or(around) };
    }
    let from = from.min(by_tokens);
    if from < end { thread.exchange_at(from).range().start } else { end }
}

pub fn at_trigger(world: &World, under: &Under, window: u64) -> Option<(Room, Compaction)> {
    let room = Room::in_window(&under.policy, Tokens::new(window), Tokens::ZERO);
    let ask = PlanOptions { force: !under.policy.trigger.auto, ..PlanOptions::default() };
    let compaction = compact(&world.thread, room, under, DIALECT, &ask)?;
    compaction_holds(world, under, &ask, &compaction).unwrap_or_else(|wrong| panic!("{}: {wrong}", under.policy.name));
    Some((room, compaction))
}

#[test]
fn no_window_leaves_a_threshold_of_nothing() {
    for under in PRESETS.iter() {
        for (window, fixed) in
            [(4_096, 0), (8_192, 0), (8_192, 4_000), (16_385, 12_000), (32_768, 0), (200_000, 60_000)]
        {
            let room = Room::in_window(&under.policy, Tokens::new(window), Tokens::new(fixed));
            assert!(
                room.trigger > Tokens::ZERO && room.trigger >= room.limit.share(0.24),
                "{} in {window} beside {fixed}: {room:?}",
                under.policy.name
            );
            assert!(room.trigger <= room.limit && room.limit <= Tokens::new(window), "{}: {room:?}", under.policy.name);
        }
    }
}

#[test]
fn what_a_policy_protects_stays_or_the_plan_names_what_gave_way() {
    for under in PRESETS.iter() {
        let (name, protect) = (&under.policy.name, &under.policy.protect);
        for shape in SHAPES {
            let world = thread(shape, under);
            for window in [8_192, 16_385, 32_768, 60_000, 128_000] {
                let Some((room, compaction)) = at_trigger(&world, under, window) else { continue };
                let what = format!("{name}, {shape}, {window}");
                let said = words(&prompt(&world.thread, Some(&compaction), under, DIALECT), &world.thread);
                let asked = said.matches(REQUEST).count();
                assert!(
                    asked == 1 && said.trim_end().ends_with(REQUEST),
                    "{what}: the open request is the last word\n{said}"
                );
                let (wanted, from) = (protected_from(&world, under, room.target), compaction.plan.tail_from);
                let kept = world.thread.tokens(from..world.thread.len());
                if from > wanted {
                    let newest = world.thread.reference(world.thread.len() - 1);
                    let asked = format!("instead of {} to {newest}, because", world.thread.reference(wanted));
                    let named = compaction.plan.warnings.iter().any(|warning| warning.contains(&asked));
                    assert!(named, "{what}: the tail is cut and nobody is told: {:?}", compaction.plan.warnings);
                    // It is cut where the next exchange would be too much, not far before it.
                    let next = world.thread.exchange_at(from - 1).range().start;
                    let whole = world.thread.tokens(next..world.thread.len());
                    let most = room.target.share(protect.tail_max).min(room.limit.share(0.6));
                    let by_turns = protect.recent_turns > 0 && protect.recent_share == 0.0;
                    assert!(
                        whole > most || by_turns || kept > most.share(0.5),
                        "{what}: {kept} kept, {whole} would be {most}"
                    );
                }
                assert_eq!(compaction.plan.shortfall, None, "{what}");
            }
        }
    }
}

#[test]
fn system_messages_that_left_the_middle_of_a_thread_are_counted_and_named() {
    let system =
        |at: usize| json!({"role": "system", "content": format!("Rule {at}: keep part {at} whole. ").repeat(60)});
    let mut messages = vec![json!({"role": "system", "content": "You are careful."})];
    (0..12).for_each(|at| {
        messages.push(user(&format!("Look at file {at}.")));
        messages.extend(step(at, 40));
        messages.push(system(at));
    });
    messages.push(user(REQUEST));
    for under in PRESETS.iter() {
        let world = World::read(Value::Array(messages.clone()).to_string(), DIALECT, under);
        for window in [4_096, 8_192, 16_385] {
            let Some((_, compaction)) = at_trigger(&world, under, window) else { continue };
            let what = format!("{}, {window}: {:?}", under.policy.name, compaction.plan.warnings);
            let said = words(&prompt(&world.thread, Some(&compaction), under, DIALECT), &world.thread);
            let is_whole = |at: &usize| said.contains(&format!("Rule {at}: keep part {at} whole. ").repeat(60));
            let left: Vec<usize> = (0..12).filter(|at| !is_whole(at)).collect();
            let warning = compaction.plan.warnings.iter().find(|warning| warning.contains("system message"));
            let (Some(first), Some(last)) = (left.first(), left.last()) else {
                assert_eq!(warning, None, "{what}");
                continue;
            };
            assert_eq!(left, Vec::from_iter(0..=*last), "{what}: the oldest leave first");
            let count = format!("Left out {} system message", left.len());
            let until = if first == last { String::new() } else { format!(" to m{}", 5 + 4 * last) };
            let span = format!(", m{}{until},", 5 + 4 * first);
            assert!(
                warning.is_some_and(|said| said.contains(&count) && said.contains(&span)),
                "{what}: {count} {span}"
            );
        }
    }
}

#[test]
fn ten_large_messages_of_a_layer_stay_in_a_window_that_holds_them() {
    let under = PRESETS.iter().find(|under| under.policy.name == "layer").expect("a preset");
    let mut messages = vec![json!({"role": "system", "content": "You are careful."})];
    (0..30).for_each(|at| messages.extend(step(at, 1500)));
    let world = World::read(Value::Array(messages).to_string(), DIALECT, under);
    let (room, compaction) = at_trigger(&world, under, 128_000).expect("it is over the trigger");
    let end = world.thread.len();
    let ten = world.thread.tokens(end - 10..end);
    assert!(ten > room.target.share(0.5) && ten < room.target, "{ten} of {}", room.target);
    assert_eq!(compaction.plan.tail_from, end - 10);
    assert_eq!(compaction.plan.warnings, [""; 0]);
}

#[test]
fn seventy_percent_of_a_timeline_stay() {
    let under = PRESETS.iter().find(|under| under.policy.name == "timeline").expect("a preset");
    let world = thread("many short turns", under);
    let total = world.thread.total().get();
    let window = total * 10 / 12;
    let (room, compaction) = at_trigger(&world, under, window).expect("it is over the trigger");
    let kept = world.thread.tokens(compaction.plan.tail_from..world.thread.len());
    assert!(kept >= room.target.share(0.68) && kept <= room.target.share(0.7), "{kept} of {}", room.target);
}

#[test]
fn a_request_stays_whole_in_any_budget_that_holds_it() {
    for under in PRESETS.iter() {
        let long: String = (0..400).map(|at| format!("point {at} of the order. ")).collect();
        let mut messages = vec![user("Start.")];
        (0..12).for_each(|at| messages.extend(step(at, 60)));
        messages.push(user(&long));
        let world = World::read(Value::Array(messages).to_string(), DIALECT, under);
        let request = world.thread.message(world.thread.len() - 1).tokens();
        for share in [0.3, 0.55, 0.7, 0.85] {
            let room = Room::exactly(request.scaled(1.0 / share));
            let ask = PlanOptions { force: true, ..PlanOptions::default() };
            let Some(compaction) = compact(&world.thread, room, under, DIALECT, &ask) else { continue };
            let said = words(&prompt(&world.thread, Some(&compaction), under, DIALECT), &world.thread);
            assert!(said.contains(&long), "{}: a request of {share} of the budget is cut", under.policy.name);
            assert!(
                compaction.plan.after <= room.limit,
                "{}, {share}: {:?}",
                under.policy.name,
                compaction.plan.shortfall
            );
        }
    }
}
