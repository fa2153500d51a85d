//! Golden prompts: what every preset makes of the same fixtures, to be read.
//!
//! `EPITOME_BLESS=1` writes them anew.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use epitome::budget::Tokens;
use epitome::plan::{Compaction, Room};
use epitome::planner::{PlanOptions, Planner, Verdict};
use epitome::policy::Policy;
use epitome::render::layout;
use epitome::wire::{Dialect, Document};

use crate::claims::compaction_holds;
use crate::world::{PRESETS, Under, World, prompt};

/// The fixtures.
const FIXTURES: [(&str, Dialect); 4] = [
    ("tools", Dialect::Chat),
    ("thinking", Dialect::Anthropic),
    ("constraints", Dialect::Chat),
    ("long-turn", Dialect::Responses),
];

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

/// A preset in miniature: every absolute number of tokens shrinks by the same factor, every share stays.
fn miniature(policy: &Policy, factor: f64) -> Policy {
    let mut small = policy.clone();
    let shrink = |tokens: &mut Tokens| *tokens = tokens.scaled(factor);
    shrink(&mut small.protect.recent_tokens);
    shrink(&mut small.clear.protect);
    shrink(&mut small.clear.minimum);
    shrink(&mut small.externalize.tokens_min);
    shrink(&mut small.summarize.tokens_max);
    shrink(&mut small.summarize.user_messages);
    shrink(&mut small.trim.keep);
    shrink(&mut small.reserve.safety);
    shrink(&mut small.reserve.rehydration);
    if let Some(limit) = &mut small.protect.tail_limit {
        shrink(&mut limit.min);
        shrink(&mut limit.max);
    }
    // A summary is not smaller than its headings.
    if small.summarize.tokens_max > Tokens::ZERO {
        small.summarize.tokens_max = small.summarize.tokens_max.max(Tokens::new(200));
    }
    small
}

/// The room of the preset's own window, in miniature.
fn room(policy: &Policy, factor: f64) -> Room {
    let own = Room::in_window(policy, policy.trigger.window, Tokens::ZERO);
    Room { trigger: own.trigger.scaled(factor), target: own.target.scaled(factor), limit: own.limit.scaled(factor) }
}

#[test]
fn every_preset_yields_its_golden_prompt_on_every_fixture() {
    let bless = std::env::var_os("EPITOME_BLESS").is_some();
    let mut stale = Vec::new();
    for (fixture, dialect) in FIXTURES {
        let text = fs::read_to_string(testdata().join(format!("prompts/{fixture}.json"))).expect("a fixture");
        for under in PRESETS.iter() {
            let shown = golden(&text, dialect, under);
            let path = testdata().join(format!("golden/{}/{fixture}.txt", under.policy.name));
            if bless {
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                fs::write(&path, &shown).expect("a golden file");
            } else if fs::read_to_string(&path).unwrap_or_default() != shown {
                stale.push(format!("{}\n{shown}", path.display()));
            }
        }
    }
    assert!(stale.is_empty(), "EPITOME_BLESS=1 writes these anew, if they are right:\n{}", stale.join("\n\n"));
}

/// One golden file: the room, what the plan did, the layout, and every written text in full.
fn golden(text: &str, dialect: Dialect, under: &Under) -> String {
    let total = World::read(text.to_owned(), dialect, under).thread.total();
    let own = room(&under.policy, 1.0).trigger;
    // So small that the fixture is a fifth larger than the trigger.
    let factor = total.get() as f64 / own.get() as f64 / 1.2;
    let small = Under::new(miniature(&under.policy, factor));
    let world = World::read(text.to_owned(), dialect, &small);
    let ask = PlanOptions { force: !small.policy.trigger.auto, ..PlanOptions::default() };
    let room = room(&under.policy, factor);
    let planner = Planner::new(&world.thread, &small.policy, small.meter(dialect), room, &ask);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "# {} on {} messages of {} tokens, {dialect}",
        under.policy.name,
        world.thread.len(),
        world.thread.total()
    );
    let _ = writeln!(
        out,
        "# window {} x {factor:.4}: trigger {}, target {}, limit {}",
        under.policy.trigger.window, room.trigger, room.target, room.limit
    );
    match planner.decide() {
        Verdict::Act(draft) => acted(&mut out, &world, &small, &ask, &planner.finish(*draft, None)),
        other => {
            let _ = writeln!(out, "\n{other:?}");
        }
    }
    out
}

fn acted(out: &mut String, world: &World, under: &Under, ask: &PlanOptions, compaction: &Compaction) {
    compaction_holds(world, under, ask, compaction)
        .unwrap_or_else(|wrong| panic!("{}: {wrong}\n{out}", under.policy.name));
    let plan = &compaction.plan;
    let _ = writeln!(out, "# {} -> {} tokens", plan.before, plan.after);
    for step in &plan.steps {
        let rung = step.rung.map_or("own", |rung| rung.name());
        let note = if step.note.is_empty() { String::new() } else { format!(", {}", step.note) };
        let _ = writeln!(out, "# {rung}: {} touched, {} freed{note}", step.touched, step.freed);
    }
    if let Some(shortfall) = &plan.shortfall {
        let _ = writeln!(
            out,
            "# {} over the limit; the floor is {}: {:?}",
            shortfall.over, shortfall.floor, shortfall.parts
        );
    }
    let rendered = prompt(&world.thread, Some(compaction), under, world.dialect);
    let _ = writeln!(out, "\n{}", layout(&rendered, &world.thread));
    for summary in &compaction.summaries {
        let dressed = format!("{}{}{}", under.policy.render.prefix, summary.text, under.policy.render.suffix);
        let _ = writeln!(out, "\n--- the summary, {} tokens ---\n{dressed}", summary.tokens);
    }
}

#[test]
fn every_fixture_is_what_its_dialect_asks_for() {
    use epitome::wire::{LastExchange, Severity, check};
    for (fixture, dialect) in FIXTURES {
        let text = fs::read_to_string(testdata().join(format!("prompts/{fixture}.json"))).expect("a fixture");
        assert_eq!(Document::decode(&text, None).expect("a document").dialect(), dialect, "{fixture}");
        let request = serde_json::from_str(&text).expect("JSON");
        let errors: Vec<String> = check(dialect, &request, LastExchange::Closed)
            .iter()
            .filter(|found| found.severity() == Severity::Error)
            .map(ToString::to_string)
            .collect();
        assert!(errors.is_empty(), "{fixture}: {errors:?}");
    }
}
