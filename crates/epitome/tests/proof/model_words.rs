//! What a model writes of a summary: shown in every preset, and replaced by the next model's words, round after round.

use std::sync::Arc;

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
            "Keep layout 1. (it is smaller)",
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
