//! What a model writes of a summary: shown in every preset, and replaced by the next model's words, round after round.

use std::collections::HashSet;
use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::plan::{Compaction, Room};
use epitome::planner::{Draft, PlanOptions, Planner, Questions, Verdict};
use epitome::summary::{Fate, Finish, ItemKind, Progress, Reply, StructuredSummary, SummaryAuthor};
use epitome::wire::Dialect;
use serde_json::{Value, json};

use crate::claims::words;
use crate::world::{PRESETS, Under, World, prompt};

const DIALECT: Dialect = Dialect::Chat;
const CONSTRAINT: &str = "Never delete production data.";

/// A thread of some turns, each with a call, in which the user forbids something once.
fn thread(turns: usize, under: &Under) -> World {
    let mut messages = Vec::new();
    for turn in 0..turns {
        let order = if turn == 1 { format!(" {CONSTRAINT}") } else { String::new() };
        messages.push(json!({"role": "user", "content": format!("Look at part {turn}.{order}")}));
        let arguments = json!({"path": format!("src/part_{turn}.rs")}).to_string();
        let id = format!("call_{turn}");
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}]}));
        let text: String = (0..60).map(|line| format!("{line}: let part_{turn}_{line} = shape({line});\n")).collect();
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
        messages.push(json!({"role": "assistant", "content": format!("Part {turn} is fine.")}));
    }
    World::read(Value::Array(messages).to_string(), DIALECT, under)
}

fn planner<'a>(world: &'a World, under: &'a Under, room: Room, options: &'a PlanOptions) -> Planner<'a> {
    Planner::new(&world.thread, &under.policy, under.meter(DIALECT), room, options)
}

fn draft(planner: &Planner<'_>, under: &Under) -> Draft {
    match planner.decide() {
        Verdict::Act(draft) => *draft,
        other => panic!("{}: {other:?}", under.policy.name),
    }
}

/// What a model answers, taken through the dialogue that a caller drives.
fn answered(planner: &Planner<'_>, draft: &Draft, under: &Under, answer: &Value) -> StructuredSummary {
    let mut dialogue =
        planner.dialogue(draft, &Questions { model: "m", ..Questions::default() }).expect("a summary is needed");
    loop {
        let text = answer.to_string();
        match dialogue.answer(&Reply { text: &text, finish: Finish::Stop }, &*under.counter) {
            Progress::Done(done) => return done.summary,
            Progress::Ask(_) | Progress::RollUp(_) => {}
            Progress::Refused(error) => panic!("{}: {error}", under.policy.name),
        }
    }
}

fn room(world: &World) -> Room {
    let total = world.thread.total();
    Room { trigger: total.share(0.6), target: total.share(0.5), limit: total.share(0.7) }
}

fn forced(previous: Option<&Compaction>) -> PlanOptions {
    PlanOptions { force: true, previous: previous.cloned().map(Arc::new), ..PlanOptions::default() }
}

fn said(world: &World, under: &Under, compaction: &Compaction) -> String {
    words(&prompt(&world.thread, Some(compaction), under, DIALECT), &world.thread)
}

fn answer(round: usize) -> Value {
    json!({
        "goal": format!("Bring the parts into order, stage {round}."),
        "progress": [{"text": format!("Finding {round}: the shapes agree."), "message": 2}, {"text": "The parser is sound.", "message": 2}],
        "decisions": [{"decision": format!("Keep layout {round}."), "rationale": "it is smaller", "message": 3}, {"decision": "Use one shape.", "rationale": "", "message": 3}],
        "open_items": [
            {"description": format!("Write the notes of stage {round}."), "context": "asked for at the start", "priority": "high"},
            {"description": "Rename the module.", "context": "", "priority": "low"}
        ],
        "next": [format!("Look at part {round} again.")],
        "user_words": [],
        "turn_progress": []
    })
}

#[test]
fn goal_open_items_decisions_and_findings_of_a_model_are_in_the_prompt_of_every_preset() {
    for under in PRESETS.iter() {
        let world = thread(40, under);
        let options = forced(None);
        let planner = planner(&world, under, room(&world), &options);
        let draft = draft(&planner, under);
        let model = answered(&planner, &draft, under, &answer(1));
        let compaction = planner.finish(draft, Some(model));
        let said = said(&world, under, &compaction);
        let name = &under.policy.name;
        for words in [
            "Bring the parts into order, stage 1.",
            "Finding 1: the shapes agree.",
            "The parser is sound.",
            "Keep layout 1. (it is smaller; m3)",
            "Use one shape.",
            "Write the notes of stage 1. (asked for at the start)",
            "Rename the module.",
            "Look at part 1 again.",
        ] {
            assert_eq!(said.matches(words).count(), 1, "{name}: {words}\n{said}");
        }
        assert!(said.contains(CONSTRAINT), "{name}: {said}");
        let receipt = &compaction.receipt;
        assert_eq!(receipt.of_kind(ItemKind::Goal, Fate::Retained).count(), 1, "{name}");
        assert_eq!(receipt.of_kind(ItemKind::OpenItem, Fate::Retained).count(), 2, "{name}");
        assert_eq!(receipt.count(Fate::Lost), 0, "{name}: {receipt:?}");
    }
}

#[test]
fn what_does_not_fit_of_a_models_words_is_in_the_receipt() {
    let under = preset("layer");
    let world = thread(40, under);
    let options = forced(None);
    let planner = planner(&world, under, room(&world), &options);
    let draft = draft(&planner, under);
    let items: Vec<Value> = (0..80)
        .map(
            |n| json!({"description": format!("Write chapter {n} of the notes."), "context": "", "priority": "medium"}),
        )
        .collect();
    let model = answered(&planner, &draft, under, &json!({"goal": "Notes.", "open_items": items}));
    let compaction = planner.finish(draft, Some(model));
    let (kept, lost) = (
        compaction.receipt.of_kind(ItemKind::OpenItem, Fate::Retained).count(),
        compaction.receipt.of_kind(ItemKind::OpenItem, Fate::Lost).count(),
    );
    assert!(kept > 0 && lost > 0 && kept + lost == 80, "{kept} kept, {lost} told as lost");
}

/// Tells whether a line is the heading of a section: `## Plan`, `KEY FACTS:`.
fn is_heading(line: &str) -> bool {
    let is_capital =
        line.strip_suffix(':').is_some_and(|words| !words.is_empty() && !words.contains(char::is_lowercase));
    line.starts_with("##") || is_capital
}

#[test]
fn a_later_models_words_replace_the_earlier_ones_and_what_code_carries_stays() {
    for under in PRESETS.iter() {
        let name = &under.policy.name;
        let room = room(&thread(70, under));
        let mut previous: Option<Compaction> = None;
        for round in 1..=4 {
            let world = thread(40 + 30 * round, under);
            let options = forced(previous.as_ref());
            let planner = planner(&world, under, room, &options);
            let draft = draft(&planner, under);
            let model = answered(&planner, &draft, under, &answer(round));
            let compaction = planner.finish(draft, Some(model));
            let said = said(&world, under, &compaction);
            for words in ["The parser is sound.", "Use one shape.", "Rename the module."] {
                assert_eq!(said.matches(words).count(), 1, "{name}, round {round}: {words}\n{said}");
            }
            assert!(said.contains(CONSTRAINT), "{name}, round {round}: {said}");
            for stage in 1..=round {
                let count = usize::from(stage == round);
                for words in [
                    format!("Bring the parts into order, stage {stage}."),
                    format!("Finding {stage}: the shapes agree."),
                    format!("Keep layout {stage}."),
                    format!("Write the notes of stage {stage}."),
                    format!("Look at part {stage} again."),
                ] {
                    assert_eq!(said.matches(&words).count(), count, "{name}, round {round}: {words}\n{said}");
                }
            }
            let items = &compaction.summaries[0].items;
            assert_eq!(items.facts.len(), 2, "{name}, round {round}: {:?}", items.facts);
            let text = &compaction.summaries[0].text;
            let headings: Vec<&str> = text.lines().filter(|line| is_heading(line)).collect();
            let once: HashSet<&str> = headings.iter().copied().collect();
            assert!(headings.len() > 2 && once.len() == headings.len(), "{name}, round {round}: {headings:?}");
            previous = Some(compaction);
        }
    }
}

#[test]
fn a_round_without_a_model_keeps_the_last_models_words_and_the_next_model_replaces_them() {
    let under = preset("ladder");
    let room = room(&thread(70, under));
    let mut previous: Option<Compaction> = None;
    for (round, is_asked) in [(1, true), (2, false), (3, true)] {
        let world = thread(40 + 30 * round, under);
        let options = forced(previous.as_ref());
        let planner = planner(&world, under, room, &options);
        let draft = draft(&planner, under);
        let model = is_asked.then(|| answered(&planner, &draft, under, &answer(round)));
        let compaction = planner.finish(draft, model);
        let said = said(&world, under, &compaction);
        let stage = if round == 2 { 1 } else { round };
        assert!(said.contains(&format!("Bring the parts into order, stage {stage}.")), "round {round}: {said}");
        assert!(said.contains(&format!("Finding {stage}: the shapes agree.")), "round {round}: {said}");
        assert_eq!(said.contains("Finding 1: the shapes agree."), stage == 1, "round {round}: {said}");
        let author = if is_asked { SummaryAuthor::Model } else { SummaryAuthor::Embedded };
        assert_eq!(compaction.summaries[0].author, author);
        previous = Some(compaction);
    }
}

fn preset(name: &str) -> &'static Under {
    PRESETS.iter().find(|under| under.policy.name == name).expect("a preset")
}

/// One long turn after some short ones, cut in its middle, in which the agent keeps a to-do list.
fn long_turn(under: &Under) -> World {
    let mut messages = vec![
        json!({"role": "user", "content": format!("Build the shop. {CONSTRAINT}")}),
        json!({"role": "assistant", "content": "It stands."}),
        json!({"role": "user", "content": "Now round the totals, everywhere they are shown."}),
    ];
    for step in 0..60 {
        let (id, name) = (format!("call_{step}"), if step == 3 { "TodoWrite" } else { "read" });
        let arguments = match name {
            "TodoWrite" => json!({"todos": [
                {"content": "Round the cart total", "status": "completed"},
                {"content": "Round the invoice total", "status": "pending"}
            ]}),
            _ => json!({"path": format!("src/part_{step}.rs")}),
        };
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}]}));
        let text: String = (0..30).map(|line| format!("{line}: let part_{step}_{line} = shape({line});\n")).collect();
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
    }
    World::read(Value::Array(messages).to_string(), DIALECT, under)
}

#[test]
fn what_a_model_tells_of_the_turn_that_a_cut_parts_is_in_the_prompt_of_every_preset() {
    for under in PRESETS.iter() {
        let name = &under.policy.name;
        let world = long_turn(under);
        let options = forced(None);
        let planner = planner(&world, under, room(&world), &options);
        let draft = draft(&planner, under);
        let pending = draft.pending().expect("a summary is needed");
        let question = planner
            .dialogue(&draft, &Questions { model: "m", ..Questions::default() })
            .and_then(|dialogue| dialogue.prompt())
            .expect("a question");
        assert_eq!(question.message.contains("<epitome-turn>"), pending.splits_turn, "{name}");
        let told = json!({"goal": "Round.", "turn_progress": [{"text": "The cart is rounded.", "messages": [4]}]});
        let model = answered(&planner, &draft, under, &told);
        let compaction = planner.finish(draft, Some(model));
        let said = said(&world, under, &compaction);
        assert_eq!(said.matches("The cart is rounded. (m4)").count(), 1, "{name}: {said}");
    }
}

#[test]
fn instructions_that_ask_for_the_to_dos_alone_give_them_with_and_without_a_model() {
    for under in PRESETS.iter().filter(|under| !under.policy.is_handoff()) {
        let name = &under.policy.name;
        let world = long_turn(under);
        let summary = |words: Option<&str>, is_asked: bool| {
            let options = PlanOptions { instructions: words.map(str::to_owned), ..forced(None) };
            let planner = planner(&world, under, room(&world), &options);
            let draft = draft(&planner, under);
            let told = json!({"goal": "Round.", "progress": [{"text": "Rounding is banker's.", "messages": [4]}],
                "open_items": [{"description": "Ask for the currency.", "context": "", "priority": "high"}]});
            let model = is_asked.then(|| answered(&planner, &draft, under, &told));
            planner.finish(draft, model).summaries[0].clone()
        };
        for is_asked in [false, true] {
            let (all, some) = (summary(None, is_asked), summary(Some("only the to-dos"), is_asked));
            assert!(some.text.contains("Round the invoice total"), "{name}: {}", some.text);
            assert_eq!(some.text.contains("Ask for the currency."), is_asked, "{name}: {}", some.text);
            assert!(!some.text.contains("banker") && !some.text.contains("let part_"), "{name}: {}", some.text);
            assert!(some.text.contains(CONSTRAINT) || !all.text.contains(CONSTRAINT), "{name}: {}", some.text);
            assert!(some.tokens < all.tokens, "{name}: {} of {}", some.tokens, all.tokens);
        }
    }
}

#[test]
fn the_workstream_state_is_in_the_prompt_and_a_model_changes_it_over_rounds() {
    let under = preset("workstream");
    let mut previous: Option<Compaction> = None;
    for round in 1..=3 {
        let world = thread(40 + 30 * round, under);
        let options = forced(previous.as_ref());
        let planner = planner(&world, under, room(&thread(70, under)), &options);
        let draft = draft(&planner, under);
        let status = if round == 3 { "done" } else { "doing" };
        let told = json!({"goal": "Parts.", "state": {
            "tasks": [{"id": "T1", "text": "check the parts", "status": status}], "risks": [format!("risk {round}")]}});
        let model = answered(&planner, &draft, under, &told);
        let compaction = planner.finish(draft, Some(model));
        let said = said(&world, under, &compaction);
        let risks: Vec<String> = (1..=round).map(|round| format!("- risk {round}")).collect();
        assert!(said.contains(&format!("Risks:\n{}", risks.join("\n"))), "{said}");
        assert!(said.contains(&format!("WORKSTREAM STATE:\nTasks:\n- [{status}] T1: check the parts")), "{said}");
        let state = compaction.summaries[0].items.workstream.clone().expect("a state");
        assert_eq!(state.constraints, [CONSTRAINT], "{state:?}");
        previous = Some(compaction);
    }
}

#[test]
fn the_workstream_state_is_in_the_prompt_without_a_model() {
    let under = preset("workstream");
    let world = long_turn(under);
    let options = forced(None);
    let planner = planner(&world, under, room(&world), &options);
    let compaction = planner.finish(draft(&planner, under), None);
    let said = said(&world, under, &compaction);
    assert!(
        said.contains("WORKSTREAM STATE:\nTasks:\n- [done] Round the cart total\n- [open] Round the invoice total"),
        "{said}"
    );
    assert_eq!(said.matches(CONSTRAINT).count(), 1, "{said}");
}

#[test]
fn words_that_a_later_round_tells_as_taken_back_bind_no_longer_unless_code_found_them() {
    let under = preset("ladder");
    let words = ["Look at part 30.", CONSTRAINT];
    let first = thread(40, under);
    let answer_in = |world: &World, previous: Option<&Compaction>, told: &Value| {
        let options = forced(previous);
        let planner = planner(world, under, room(world), &options);
        let draft = draft(&planner, under);
        let model = answered(&planner, &draft, under, told);
        planner.finish(draft, Some(model))
    };
    let one = answer_in(&first, None, &json!({"goal": "Parts.", "user_words": words}));
    let bound = |compaction: &Compaction| -> Vec<bool> {
        let constraints = &compaction.summaries[0].items.constraints;
        words.iter().map(|words| constraints.iter().any(|quote| quote.text == *words)).collect()
    };
    assert_eq!(bound(&one), [true, true]);
    let withdrawn: Vec<Value> = words.iter().map(|words| json!({"text": words, "messages": [201]})).collect();
    let later = thread(70, under);
    let kept = answer_in(&later, Some(&one), &json!({"goal": "Parts."}));
    assert_eq!(bound(&kept), [true, true], "what is not told as taken back stays");
    let two = answer_in(&later, Some(&one), &json!({"goal": "Parts.", "withdrawn": withdrawn}));
    assert_eq!(bound(&two), [false, true]);
}

#[test]
fn no_summary_is_larger_than_the_size_at_which_it_is_rolled_up() {
    let mut policy = preset("workstream").policy.clone();
    policy.summarize.rollup = Tokens::new(300);
    let under = Under::new(policy);
    let world = thread(40, &under);
    let options = forced(None);
    let planner = planner(&world, &under, room(&world), &options);
    let compaction = planner.finish(draft(&planner, &under), None);
    assert!(compaction.summaries[0].tokens <= Tokens::new(300), "{}", compaction.summaries[0].tokens);
}

/// A thread about two files, with a word that binds and a request that nobody has answered.
fn two_subjects(under: &Under) -> World {
    let mut messages = vec![
        json!({"role": "user", "content": format!("Build the export in src/export.rs. {CONSTRAINT} Drafts go too.")}),
    ];
    for (at, (file, command)) in
        [("src/export.rs", "cargo test export"), ("src/dates.rs", "cargo test dates")].into_iter().enumerate()
    {
        if at == 1 {
            messages.push(json!({"role": "user", "content": "Now let src/dates.rs write ISO 8601."}));
        }
        for step in 0..12 {
            let (name, arguments) =
                if step == 11 { ("bash", json!({"command": command})) } else { ("read", json!({"path": file})) };
            let id = format!("call_{at}_{step}");
            messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}]}));
            let text: String =
                (0..30).map(|line| format!("{line}: let {}_{step}_{line} = shape({line});\n", &file[4..7])).collect();
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": if step == 11 { "test result: FAILED\nExit code 101".to_owned() } else { text }}));
        }
        messages.push(json!({"role": "assistant", "content": format!("{file} is written.")}));
    }
    messages.push(json!({"role": "user", "content": "Thanks. One more: show the totals in euros."}));
    World::read(Value::Array(messages).to_string(), DIALECT, under)
}

#[test]
fn a_handoff_takes_along_what_is_about_its_goal_and_what_binds_and_names_the_rest() {
    let under = preset("amp");
    let world = two_subjects(under);
    let numbers =
        |text: &str| text.lines().find(|line| line.contains("left out here")).map(str::to_owned).unwrap_or_default();
    let last = world.thread.len();
    let cases = [
        (
            "Finish src/dates.rs",
            vec!["m27: Now let src/dates.rs", "cargo test dates"],
            vec!["Drafts go too", "cargo test export", "in euros"],
            vec!["m1,".to_owned(), format!("m{last}.")],
        ),
        (
            "Show the totals of the report in euros",
            vec!["in euros"],
            vec!["ISO 8601", "Drafts go too", "cargo test"],
            vec!["m1,".to_owned(), "m27.".to_owned()],
        ),
        (
            "Write the release notes",
            vec!["Drafts go too", "ISO 8601", "in euros", "cargo test dates"],
            vec!["left out here"],
            vec![],
        ),
    ];
    for (goal, holds, lacks, named) in cases {
        let options = PlanOptions { instructions: Some(goal.to_owned()), hands_over: true, ..forced(None) };
        let planner = planner(&world, under, room(&world), &options);
        let text = planner.finish(draft(&planner, under), None).summaries[0].text.clone();
        assert!(text.contains(CONSTRAINT), "{goal}: what binds goes along: {text}");
        holds.iter().for_each(|words| assert!(text.contains(words), "{goal}: {words}: {text}"));
        lacks.iter().for_each(|words| assert!(!text.contains(words), "{goal}: {words}: {text}"));
        named.iter().for_each(|number| assert!(numbers(&text).contains(number), "{goal}: {number}: {text}"));
    }
    // In a thread that goes on, the same policy leaves no word of the user out.
    let options = PlanOptions { instructions: Some("Finish src/dates.rs".to_owned()), ..forced(None) };
    let planner = planner(&world, under, room(&world), &options);
    let said = said(&world, under, &planner.finish(draft(&planner, under), None));
    for words in ["Drafts go too", "ISO 8601", "in euros"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_handoff_begins_with_the_goal_that_was_given_and_leaves_out_what_it_does_not_need() {
    let under = preset("amp");
    let world = long_turn(under);
    let goal = "Write the tests of src/part_17.rs";
    for is_asked in [false, true] {
        let options = PlanOptions { instructions: Some(goal.to_owned()), hands_over: true, ..forced(None) };
        let planner = planner(&world, under, room(&world), &options);
        let draft = draft(&planner, under);
        let question =
            planner.dialogue(&draft, &Questions { model: "m", ..Questions::default() }).unwrap().prompt().unwrap();
        assert!(question.message.contains("begins a new thread with this goal") && question.message.contains(goal));
        let model = is_asked.then(|| answered(&planner, &draft, under, &json!({"goal": "Tests of part 17."})));
        let text = planner.finish(draft, model).summaries[0].text.clone();
        assert!(text.starts_with(&format!("## Goal\n{goal}\n")), "{text}");
        assert!(text.contains("part_17_"), "{text}");
        assert!(!text.contains("part_40_2"), "{text}");
    }
}
