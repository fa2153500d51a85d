//! The presets do what their sources say, on threads of several shapes.

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::plan::{Compaction, Room};
use epitome::planner::{PlanOptions, Planner};
use epitome::policy::{Policy, Rung, preset};
use epitome::session::Session;
use epitome::thread::{Raw, Thread};
use epitome::wire::{PromptMessage, decode_message};
use epitome::{Limit, compact as compact_text};
use serde_json::{Value, json};

use crate::claims::{compaction_holds, words};
use crate::protect::{DIALECT, SHAPES, at_trigger, step, thread, user};
use crate::world::{PRESETS, Under, World, compact, prompt};

fn under(name: &str) -> Under {
    Under::new(preset(name).expect("a preset"))
}

fn world(messages: &[Value], under: &Under) -> World {
    World::read(Value::Array(messages.to_vec()).to_string(), DIALECT, under)
}

fn said(world: &World, under: &Under, compaction: &Compaction) -> String {
    words(&prompt(&world.thread, Some(compaction), under, DIALECT), &world.thread)
}

/// A policy of one's own with these rungs.
fn own(rungs: &str, more: &str) -> Under {
    let head = "name = \"own\"\nversion = 1\nabout = \"\"\n[trigger]\nat = { share_of_window = 0.9 }\n";
    let toml = format!("rungs = [{rungs}]\n{head}{more}");
    Under::new(Policy::parse(&toml).expect("a policy"))
}

fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

// --- tails -----------------------------------------------------------------------------------------------------------

#[test]
fn a_tail_has_the_number_of_messages_and_tokens_that_its_source_names() {
    for shape in SHAPES {
        for (name, window) in
            [("layer", 128_000), ("workstream", 200_000), ("pi", 200_000), ("timeline", 80_000), ("opencode", 200_000)]
        {
            let under = under(name);
            let world = thread(shape, &under);
            // Twice as much as fits, whatever the shape's own size.
            let window = window.min(world.thread.total().get() / 2);
            let Some((room, compaction)) = at_trigger(&world, &under, window) else { continue };
            let (from, end) = (compaction.plan.tail_from, world.thread.len());
            let kept = world.thread.tokens(from..end);
            let most = room.target.share(under.policy.protect.tail_max);
            let what = format!("{name}, {shape}: {} messages, {kept} tokens of {}", end - from, room.target);
            let opens = world.thread.message(from).opens_turn();
            match name {
                // So many messages, and those that belong to the oldest of them.
                "layer" | "workstream" => {
                    let count = under.policy.protect.recent_messages;
                    let wanted = world.thread.exchange_at(end - count).range().start;
                    assert!(from == wanted || world.thread.tokens(wanted..end) > most, "{what}");
                }
                "pi" => {
                    let newest = (0..end - 1).rev().find(|at| world.thread.message(*at).opens_turn()).unwrap_or(0);
                    assert!(opens || world.thread.tokens(newest..end) > most, "{what}: a turn is cut");
                    assert!(kept <= most.max(Tokens::new(20_000)), "{what}");
                }
                "timeline" => {
                    let six = (0..end).find(|at| world.thread.message(*at).turn() + 6 > world.thread.turn());
                    let six = six.map_or(Tokens::ZERO, |at| world.thread.tokens(at..end));
                    let share = room.target.share(0.7);
                    assert!(kept <= share.max(six), "{what}");
                    let next = world.thread.exchange_at(from - 1).range().start;
                    let is_near = opens && kept >= share.share(0.75);
                    assert!(is_near || world.thread.tokens(next..end) > share, "{what}: more of the 70 % fits");
                }
                _ => assert!(kept <= Tokens::new(15_000).max(most) && kept <= most.max(Tokens::new(2_000)), "{what}"),
            }
        }
    }
}

#[test]
fn the_newest_three_turns_of_a_ladder_stay_while_the_target_holds_them() {
    let under = under("ladder");
    for lines in [20, 60, 150] {
        let mut messages = Vec::new();
        (0..60).for_each(|at| {
            messages.push(user(&format!("Look at file {at}.")));
            messages.extend(step(at, lines));
            messages.extend(step(1000 + at, lines));
            messages.push(assistant("It is fine."));
        });
        let world = world(&messages, &under);
        let window = (world.thread.total().get() / 2).min(100_000);
        let (room, compaction) = at_trigger(&world, &under, window).expect("it is over the trigger");
        let wanted = messages.len() - 18;
        let three = world.thread.tokens(wanted..messages.len());
        assert!(three < room.target.share(0.6), "{lines}: {three} of {}", room.target);
        assert_eq!(compaction.plan.tail_from, wanted, "{lines}: {:?}", compaction.plan.warnings);
    }
}

#[test]
fn what_a_tail_keeps_is_kept_byte_for_byte_unless_the_policy_trims() {
    for under in PRESETS.iter().filter(|under| !under.policy.rungs.contains(&Rung::Trim)) {
        for shape in SHAPES {
            let world = thread(shape, under);
            for window in [16_385, 60_000, 128_000] {
                let Some((_, compaction)) = at_trigger(&world, under, window) else { continue };
                let shown = prompt(&world.thread, Some(&compaction), under, DIALECT);
                let edited = shown.messages.iter().filter_map(|message| match message {
                    PromptMessage::Edited { place, .. } if *place >= compaction.plan.tail_from => Some(*place),
                    _ => None,
                });
                // OpenCode prunes old tool output wherever it is.
                let edited: Vec<usize> = edited.filter(|_| under.policy.clear.by_durability).collect();
                assert_eq!(edited, [0; 0], "{}, {shape}, {window}", under.policy.name);
            }
        }
    }
}

#[test]
fn a_turn_that_a_cut_splits_has_its_section_wherever_the_cut_falls() {
    let under = under("timeline");
    for turns_behind in 0..4 {
        let mut messages = Vec::new();
        (0..6).for_each(|at| {
            messages.push(user(&format!("Look at part {at} alone.")));
            messages.extend(step(at, 40));
            messages.push(assistant("It is fine."));
        });
        messages.push(user("Move all forty handlers, one after the other."));
        (100..160).for_each(|at| messages.extend(step(at, 40)));
        messages.push(assistant("All are moved."));
        (0..turns_behind).for_each(|at| {
            messages.push(user(&format!("And what of part {at}?")));
            messages.push(assistant("It stays."));
        });
        let world = world(&messages, &under);
        let window = world.thread.total().get() * 3 / 4;
        let (_, compaction) = at_trigger(&world, &under, window).expect("it is over the trigger");
        let cut = world.thread.message(compaction.plan.tail_from);
        assert_eq!((cut.turn(), cut.opens_turn()), (7, false), "{turns_behind}: the cut is inside the long turn");
        let text = &compaction.summaries[0].text;
        assert!(text.contains("## Turn Context (split turn)"), "{turns_behind}: {text}");
        assert!(text.contains("Move all forty handlers, one after the other."), "{turns_behind}: {text}");
    }
}

#[test]
fn the_user_messages_of_a_codex_stay_newest_first_and_the_one_that_does_not_fit_is_cut() {
    let under = under("codex");
    let long = |at: usize| format!("ORDER {at} {}END {at}", "and one more detail of the order. ".repeat(900));
    for (shape, newest) in [("small ones behind it", 30), ("nothing behind it", 1)] {
        let mut messages = Vec::new();
        (0..6).for_each(|at| {
            messages.push(user(&format!("yes {at}")));
            messages.push(user(&long(at)));
            messages.extend(step(at, 60));
        });
        (0..newest).for_each(|at| {
            messages.push(user(&format!("Now part {at}.")));
            messages.push(assistant("Done."));
        });
        (100..190).for_each(|at| messages.extend(step(at, 120)));
        let world = world(&messages, &under);
        let window = world.thread.total().get() * 4 / 5;
        let (_, compaction) = at_trigger(&world, &under, window).expect("it is over the trigger");
        let shown = prompt(&world.thread, Some(&compaction), &under, DIALECT);
        let kept: Vec<usize> = shown.messages.iter().filter_map(PromptMessage::place).collect();
        let users: Vec<usize> = (0..world.thread.len()).filter(|at| world.thread.message(*at).opens_turn()).collect();
        let first = *kept.first().expect("user messages stay");
        let since: Vec<usize> = users.iter().copied().filter(|at| *at >= first).collect();
        let kept_users: Vec<usize> = kept.iter().copied().filter(|at| users.contains(at)).collect();
        assert_eq!(kept_users, since, "{shape}: no gap");
        let tokens: Tokens = kept_users.iter().map(|at| world.thread.message(*at).tokens()).sum();
        assert!(tokens > Tokens::new(20_000), "{shape}: whole they would be more: {tokens}");
        let cut = shown.to_json(&world.thread)[0].clone();
        assert!(
            cut.contains("ORDER") && cut.contains("END") && cut.contains("the middle is left out"),
            "{shape}: {cut}"
        );
        let in_prompt: Tokens = compaction.plan.after - compaction.summaries[0].tokens;
        assert!(in_prompt >= Tokens::new(18_000) && in_prompt <= Tokens::new(20_200), "{shape}: {in_prompt}");
    }
}

// --- rungs -----------------------------------------------------------------------------------------------------------

#[test]
fn a_ladder_moves_results_out_before_it_summarizes_where_that_suffices() {
    let mut under = under("ladder");
    // Of a prompt that shrinks to less than `first_below`, pointers would be most of what is left.
    for (low_water, first_below) in [(0.5, 0.35), (0.2, 0.1)] {
        under.policy.target.low_water = low_water;
        under.policy.summarize.first_below = first_below;
        // Nearly all is in large results.
        let mut messages = Vec::new();
        (0..30).for_each(|at| {
            messages.push(user(&format!("Look at file {at}.")));
            messages.extend(step(at, 300));
        });
        messages.extend([assistant("All are fine."), user("Go on.")]);
        let large = world(&messages, &under);
        let (_, compaction) = at_trigger(&large, &under, large.thread.total().get() * 9 / 10).expect("it is due");
        let rungs: Vec<Option<Rung>> = compaction.plan.steps.iter().map(|step| step.rung).collect();
        assert_eq!(rungs.last(), Some(&Some(Rung::Externalize)), "{low_water}: {rungs:?}");
        assert!(compaction.summaries.is_empty(), "{low_water}");
        under.policy.summarize.first_below = 0.95;
        let (_, compaction) = at_trigger(&large, &under, large.thread.total().get() * 9 / 10).expect("it is due");
        assert_eq!(compaction.plan.steps[0].rung, Some(Rung::Summarize), "{low_water}, below `first_below`");
        // Nearly all is in words: results cannot make room, so their pointers are not made either.
        let mut messages: Vec<Value> = Vec::new();
        (0..400).for_each(|at| {
            messages.push(user(&format!("Question {at} about part {at}, of some length and with a reason?")));
            messages.push(assistant(&format!("Answer {at}: part {at} is fine as it stands, and nobody needs it.")));
        });
        messages.extend(step(1, 300));
        messages.push(user("Go on."));
        let wordy = world(&messages, &under);
        let (_, compaction) = at_trigger(&wordy, &under, wordy.thread.total().get() * 9 / 10).expect("it is due");
        assert_eq!(compaction.plan.steps[0].rung, Some(Rung::Summarize), "{low_water}");
    }
}

/// Turns with results of every durability.
fn durable() -> Vec<Value> {
    let call = |id: &str, tool: &str, result: String| {
        let function = json!({"name": tool, "arguments": json!({"query": id}).to_string()});
        [
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]}),
            json!({"role": "tool", "tool_call_id": id, "content": result}),
        ]
    };
    let lines = |word: &str| (0..220).map(|at| format!("{word} {at}\n")).collect::<String>();
    let order = json!({"order_id": "A-17", "status": "paid", "rows": lines("row")}).to_string();
    let mut messages = vec![user("Buy tea.")];
    messages.extend(call("s1", "web_search", lines("hit")));
    messages.extend(call("o1", "create_order", order));
    messages.extend(call("l1", "ls", lines("file")));
    messages.push(assistant("It is ordered."));
    (0..12).for_each(|at| {
        messages.push(user(&format!("Look at file {at}.")));
        messages.extend(step(at, 40));
    });
    messages.extend(call("s2", "web_search", lines("hit")));
    messages.extend([assistant("Found."), user("And now?")]);
    messages
}

const RULES: &str = "[tools.rules.web_search]\ndurability = \"non-replayable\"\n[tools.rules.ls]\ndurability = \"ephemeral\"\n\
    [tools.rules.create_order]\ndurability = \"anchoring\"\npreserve = [\"order_id\", \"status\"]\n\
    [protect]\nrecent_turns = 1\n";

#[test]
fn what_cannot_be_had_again_stays_or_moves_out_on_every_rung_and_what_anchors_keeps_its_fields() {
    for rung in Rung::ALL {
        let under = own(&format!("\"{rung}\""), RULES);
        let world = world(&durable(), &under);
        let ask = PlanOptions { force: true, ..PlanOptions::default() };
        for share in [0.3, 0.6] {
            let room = under.room(world.thread.total(), share);
            let Some(compaction) = compact(&world.thread, room, &under, DIALECT, &ask) else { continue };
            compaction_holds(&world, &under, &ask, &compaction).unwrap_or_else(|wrong| panic!("{rung}: {wrong}"));
            let shown = prompt(&world.thread, Some(&compaction), &under, DIALECT);
            for place in [2, world.thread.len() - 3] {
                let at = shown.messages.iter().position(|message| message.place() == Some(place));
                let json = at.map(|at| shown.to_json(&world.thread)[at].clone()).unwrap_or_default();
                let is_whole = (0..220).all(|line| json.contains(&format!("hit {line}\\n")));
                let can_be_read = json.contains("artifact:") || json.contains("the middle is left out; whole: m");
                assert!(is_whole || can_be_read, "{rung}, {share}: m{} is {json:?}", place + 1);
            }
            let said = said(&world, &under, &compaction);
            assert!(said.contains("A-17") && said.contains("paid"), "{rung}, {share}: {said}");
        }
    }
}

#[test]
fn what_moved_out_is_told_with_its_summary_its_fields_and_when_to_read_it() {
    let under = own("\"externalize\"", &format!("{RULES}[externalize]\ntokens_min = 200\npreview = 20\n"));
    let mut messages = durable();
    let failed =
        format!("{}error: no field `tax` on `Cart`\ntest result: FAILED. 1 passed; 1 failed\n", "ok\n".repeat(300));
    let arguments = json!({"command": "cargo test -p cart"}).to_string();
    let function = json!({"name": "bash", "arguments": arguments});
    messages.splice(1..1, [
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "t", "type": "function", "function": function}]}),
        json!({"role": "tool", "tool_call_id": "t", "content": failed}),
    ]);
    let world = world(&messages, &under);
    let ask = PlanOptions { force: true, ..PlanOptions::default() };
    let room = Room::exactly(Tokens::new(100));
    let compaction = compact(&world.thread, room, &under, DIALECT, &ask).expect("it is forced");
    let said = said(&world, &under, &compaction);
    for words in [
        "\nSummary: m3, 302 lines; failure, error: no field `tax` on `Cart`",
        "\nRead it when the full text of cargo test -p cart is needed.\nTo retrieve full content, call: read_artifact(\"",
        "\nKey data: {\"order_id\":\"A-17\",\"status\":\"paid\"}",
        "\nRead it when the full text of src/file_3.rs is needed.\n",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
}

#[test]
fn a_summary_sees_nothing_of_tools_that_its_policy_does_not_show() {
    let under = under("workstream");
    let mut messages = vec![user("Plan the release with the team.")];
    let call = |id: &str, tool: &str, result: &str| {
        let arguments = json!({"command": format!("make {id}"), "path": format!("src/{id}.rs")}).to_string();
        [
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}]}),
            json!({"role": "tool", "tool_call_id": id, "content": result}),
        ]
    };
    (0..40).for_each(|at| {
        messages.extend(call(&format!("hidden{at}"), "Bash", "Exit code 2\nerror: hiddenfault in the build"));
        messages.extend(call(
            &format!("shown{at}"),
            "linearCreateIssue",
            "Exit code 1\nerror: shownfault in the tracker",
        ));
        messages.extend([assistant("One more is filed."), user(&format!("Go on with number {at}."))]);
    });
    let world = world(&messages, &under);
    let window = world.thread.total().get() / 2;
    let (_, compaction) = at_trigger(&world, &under, window).expect("it is over the trigger");
    let text = &compaction.summaries[0].text;
    assert!(!text.contains("hidden"), "{text}");
    assert!(text.contains("shownfault"), "{text}");
}

// --- the renderer ----------------------------------------------------------------------------------------------------

#[test]
fn a_question_stands_before_a_summary_only_where_the_assistant_answers_it() {
    let under = under("opencode");
    let mut voices = [0, 0];
    for shape in SHAPES {
        let world = thread(shape, &under);
        for window in [30_000, 60_000] {
            let Some((_, compaction)) = at_trigger(&world, &under, window) else { continue };
            let shown = prompt(&world.thread, Some(&compaction), &under, DIALECT);
            let json = shown.to_json(&world.thread);
            let is_summary = |message: &PromptMessage| matches!(message, PromptMessage::Written { summary: true, .. });
            let Some(at) = shown.messages.iter().position(is_summary) else { continue };
            let answers = json[at].contains("\"assistant\"");
            voices[usize::from(answers)] += 1;
            let asks = json[at - 1].contains(&under.policy.render.question);
            assert_eq!(asks, answers, "{shape}, {window}: {} {}", json[at - 1], json[at]);
        }
    }
    assert!(voices.iter().all(|count| *count > 0), "both were seen: {voices:?}");
}

#[test]
fn opencode_sends_the_model_on_after_a_compaction_that_nobody_asked_for() {
    let under = under("opencode");
    let words = under.policy.render.resume.clone();
    let automatic = PlanOptions::default();
    let asked = PlanOptions { force: true, ..PlanOptions::default() };
    let mut messages = vec![user("Move all handlers, one after the other.")];
    (0..120).for_each(|at| messages.extend(step(at, 40)));
    let with = |more: &[Value]| [&messages[..], more].concat();
    let call = &step(500, 40)[..1];
    let cases = [
        ("results nobody has seen", with(&[]), &automatic, 1),
        ("asked for", with(&[]), &asked, 0),
        ("the user's own request is the last word", with(&[user("Stop.")]), &automatic, 0),
        ("a call is in flight", with(call), &automatic, 0),
    ];
    for (case, messages, ask, expected) in cases {
        let world = world(&messages, &under);
        let room = under.room(world.thread.total(), 0.6);
        let compaction = compact(&world.thread, room, &under, DIALECT, ask).expect("it is over the trigger");
        let shown = said(&world, &under, &compaction);
        assert_eq!(shown.matches(&words).count(), expected, "{case}");
        if expected == 1 {
            assert!(shown.trim_end().ends_with(&words), "{case}: it is the last word");
            // What comes later stands behind it.
            let longer = self::world(&[&messages[..], &[assistant("Next.")], &step(600, 4)].concat(), &under);
            let before = prompt(&world.thread, Some(&compaction), &under, DIALECT).to_json(&world.thread);
            let after = prompt(&longer.thread, Some(&compaction), &under, DIALECT).to_json(&longer.thread);
            assert_eq!(after[..before.len()], before, "{case}");
        }
    }
}

#[test]
fn old_tool_output_of_a_file_that_fits_is_pruned_all_the_same() {
    let mut messages = vec![user("Move all handlers, one after the other.")];
    (0..160).for_each(|at| messages.extend(step(at, 60)));
    messages.extend([user("Is it done?"), assistant("Yes."), user("And the tests?"), assistant("Green.")]);
    let text = Value::Array(messages).to_string();
    let opencode = preset("opencode").expect("a preset");
    let pruned = compact_text(&text, &opencode, Limit::window(1_000_000)).expect("a list");
    let plan = &pruned.compaction.expect("there is something to prune").plan;
    assert!(plan.steps.iter().all(|step| step.rung == Some(Rung::Clear)), "{:?}", plan.steps);
    assert!(pruned.text.contains("[Old tool result content cleared]"));
    let session = Session::read(&*pruned.text, &epitome::session::ReadOptions::default()).expect("a list");
    assert_eq!(session.context().len(), 325, "no message is missing");
    // Less than 20 000 tokens to gain: nothing happens.
    let again = compact_text(&pruned.text, &opencode, Limit::window(1_000_000)).expect("a list");
    assert!(again.compaction.is_none() && again.text == pruned.text);
}

#[test]
fn codex_knows_every_summary_in_its_rollouts_by_its_own_words() {
    let own = "Another language model started to solve this problem and produced a summary of its thinking process. You \
               also have access to the state of the tools that were used by that language model. Use this to build on the \
               work that has already been done and avoid duplicating work. Here is the summary produced by the other \
               language model, use the information in this summary to assist with your own analysis:\n";
    let rollout = include_str!("../../../../testdata/sessions/codex.jsonl");
    for under in PRESETS.iter() {
        let made = compact_text(rollout, &under.policy, Limit::budget(600)).expect("a rollout");
        let Some(compaction) = made.compaction.filter(|made| !made.summaries.is_empty()) else { continue };
        let session = Session::read(made.text, &epitome::session::ReadOptions::default()).expect("a rollout");
        let summaries: Vec<String> = session
            .messages()
            .iter()
            .filter(|message| message.summary)
            .map(|message| serde_json::from_str::<Value>(message.raw.as_str()).expect("JSON"))
            .map(|json| json["content"][0]["text"].as_str().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(summaries, [format!("{own}{}", compaction.summaries[0].text)], "{}", under.policy.name);
    }
}

// --- triggers --------------------------------------------------------------------------------------------------------

#[test]
fn a_model_may_have_a_threshold_of_its_own() {
    let under = own(
        "\"summarize\"",
        "[trigger.models]\ngpt-5 = { tokens = 244000 }\ngpt-5-mini = { tokens = 180000 }\n\"claude-opus-4\" = { remaining = 50000 }\n",
    );
    for (model, trigger) in [
        (None, 360_000),
        (Some("gpt-4o"), 360_000),
        (Some("gpt-5-codex"), 244_000),
        (Some("openai/gpt-5-mini-2025"), 180_000),
        (Some("claude-opus-4-20250514"), 350_000),
    ] {
        let policy = under.policy.for_model(model);
        let room = Room::in_window(&policy, Tokens::new(400_000), Tokens::ZERO);
        assert_eq!(room.trigger, Tokens::new(trigger), "{model:?}");
    }
}

/// An agent's loop under a budget of 60 000 tokens: each request brings a call and its result.
fn compactions_among_the_last_forty(under: &Under, turn_every: usize) -> usize {
    let meter = under.meter(DIALECT);
    let own = Room::in_window(&under.policy, under.policy.trigger.window, Tokens::ZERO);
    let limit = Tokens::new(60_000);
    let share = limit.get() as f64 / own.limit.get() as f64;
    let room = Room { trigger: own.trigger.share(share), target: own.target.share(share), limit };
    let mut thread = Thread::new();
    let append = |thread: &mut Thread, message: &Value| {
        thread.append(decode_message(DIALECT, &Raw::whole(message.to_string())), &meter);
    };
    append(&mut thread, &user("Move all handlers, one after the other. Never touch main.rs."));
    let (mut options, mut late) = (PlanOptions::default(), 0);
    for request in 0..160 {
        if request % turn_every == turn_every - 1 {
            append(&mut thread, &assistant("That part is done."));
            append(&mut thread, &user(&format!("Now part {request}.")));
        }
        step(request, 240).iter().for_each(|message| append(&mut thread, message));
        let planner = Planner::new(&thread, &under.policy, meter, room, &options);
        let Some(compaction) = planner.compact() else { continue };
        assert!(compaction.plan.after <= room.limit, "{}: {:?}", under.policy.name, compaction.plan.shortfall);
        late += usize::from(request >= 120);
        let (left, compaction) = match compaction.evict(&thread) {
            Some((left, compaction)) => (left, compaction),
            None => (thread, compaction),
        };
        thread = left;
        options.previous = Some(Arc::new(compaction));
    }
    late
}

#[test]
fn no_preset_compacts_more_than_six_times_in_forty_requests() {
    let shapes = PRESETS.iter().flat_map(|under| [(under, 1000), (under, 12)]);
    let wrong: Vec<String> = shapes
        .map(|(under, turn_every)| (under, turn_every, compactions_among_the_last_forty(under, turn_every)))
        .filter(|(under, _, late)| *late > 6 || *late == 0 && under.policy.trigger.auto)
        .map(|(under, turn_every, late)| format!("{}, a turn each {turn_every}: {late} times", under.policy.name))
        .collect();
    assert_eq!(wrong, [""; 0]);
}
