//! Invariants 1 to 7 and 10 over generated threads, in every dialect, with every preset.

use std::sync::Arc;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use epitome::budget::{Characters, CountSource, Meter, TokenCounter, Tokens};
use epitome::plan::Room;
use epitome::planner::{PlanOptions, Planner, PromptShape, Verdict};
use epitome::thread::Thread;
use epitome::wire::{Dialect, PromptMessage};
use proptest::prelude::*;
use proptest::sample::select;

use crate::claims::{Held, compaction_holds, hold, passes_the_check, readable_back, within_budget, words};
use crate::forall::forall;
use crate::generate::{Script, Style, finished, messages, oddity, script, style, tidy};
use crate::world::{PRESETS, Under, World, compact, prompt};

/// A script in a dialect and a style, with the share of it that may stay and the preset to compact it with.
type Given = (Script, Dialect, Style, f64, usize);

fn given(script: impl Strategy<Value = Script>) -> impl Strategy<Value = Given> {
    (script, select(&Dialect::ALL[..]), style(), select(vec![0.15, 0.4, 0.7, 0.95]), 0..PRESETS.len())
}

fn asked(at: usize) -> PlanOptions {
    match at % 4 {
        0 => PlanOptions::default(),
        1 => PlanOptions {
            pins: vec!["the database is called 'aurora'".into(), "秘密は守る".into()],
            ..PlanOptions::default()
        },
        2 => PlanOptions { force: true, ..PlanOptions::default() },
        _ => PlanOptions { shape: PromptShape::SummaryThenTail, ..PlanOptions::default() },
    }
}

/// The one door: whatever a preset does with a thread, the claim holds.
fn holds_for_every_compaction(
    cases: u32,
    scripts: impl Strategy<Value = Script>,
    claim: fn(&World, &Under, &PlanOptions, Room) -> Held,
) {
    forall(cases, &(given(scripts), 0usize..4), |((script, dialect, style, share, preset), ask)| {
        let under = &PRESETS[preset];
        let world = World::of(&script, dialect, style, under);
        let room = under.room(world.thread.total(), share);
        claim(&world, under, &asked(ask), room).map_err(|wrong| format!("{} in {dialect}: {wrong}", under.policy.name))
    });
}

fn all_claims(world: &World, under: &Under, ask: &PlanOptions, room: Room) -> Held {
    match compact(&world.thread, room, under, world.dialect, ask) {
        Some(compaction) => compaction_holds(world, under, ask, &compaction),
        None => Ok(()),
    }
}

#[test]
fn every_claim_holds_for_threads_that_a_provider_would_take() {
    holds_for_every_compaction(400, tidy(), all_claims);
}

#[test]
fn every_claim_holds_for_threads_as_they_are_found() {
    holds_for_every_compaction(400, oddity(), all_claims);
}

#[test]
fn planning_and_rendering_change_nothing_in_the_log() {
    holds_for_every_compaction(100, script(), |world, under, ask, room| {
        let fingerprint = |thread: &Thread| -> Vec<_> {
            thread
                .messages()
                .iter()
                .map(|message| (message.id(), message.raw().as_str().to_owned(), message.tokens()))
                .collect()
        };
        let before = fingerprint(&world.thread);
        if let Some(compaction) = compact(&world.thread, room, under, world.dialect, ask) {
            readable_back(&world.thread, &compaction, &prompt(&world.thread, Some(&compaction), under, world.dialect))?;
        }
        hold!(fingerprint(&world.thread) == before, "the log changed");
        let raws: Vec<&str> = world.document.items().iter().map(epitome::thread::Raw::as_str).collect();
        hold!(before.iter().map(|(_, raw, _)| raw.as_str()).eq(raws), "the log is not the document");
        Ok(())
    });
}

#[test]
fn under_budget_the_bytes_that_go_out_are_the_bytes_that_came_in() {
    holds_for_every_compaction(150, script(), |world, under, _, _| {
        let room = Room::exactly(world.thread.total() + Tokens::new(1));
        let ask = PlanOptions::default();
        match Planner::new(&world.thread, &under.policy, under.meter(world.dialect), room, &ask).decide() {
            Verdict::Fits { tokens } => hold!(tokens == world.thread.total(), "it says {tokens}"),
            other => return Err(format!("it does not fit: {other:?}")),
        }
        let mut plain = under.policy.clone();
        plain.render.checkpoints = false;
        let untouched = epitome::render::render(&world.thread, None, &plain, under.meter(world.dialect), &[]);
        let items = untouched.marked_messages(&world.thread);
        hold!(items.iter().enumerate().all(|(at, item)| *item == PromptMessage::Kept(at)), "something was touched");
        hold!(world.document.encode(&items) == world.text, "other bytes");
        Ok(())
    });
}

#[test]
fn between_compactions_a_longer_threads_prompt_begins_with_the_shorter_ones_bytes() {
    let values = (given(finished()), 0.0..1.0);
    forall(200, &values, |((script, dialect, style, share, preset), cut)| {
        let mut under = Under::new(PRESETS[preset].policy.clone());
        // Checkpoints move with the tail: that is what they are for.
        under.policy.render.checkpoints = false;
        let whole = World::of(&script, dialect, style, &under);
        let short = whole.thread.fork(1 + (cut * (whole.thread.len() - 1) as f64) as usize);
        let room = under.room(short.total(), share);
        let compaction = compact(&short, room, &under, dialect, &PlanOptions::default());
        let long = prompt(&whole.thread, compaction.as_ref(), &under, dialect).to_json(&whole.thread);
        let short = prompt(&short, compaction.as_ref(), &under, dialect).to_json(&short);
        hold!(
            long.len() >= short.len() && long[..short.len()] == short[..],
            "{}: the prefix was rewritten\n{short:#?}\n{long:#?}",
            under.policy.name
        );
        Ok(())
    });
}

#[test]
fn every_claim_holds_round_after_round() {
    let values = (
        proptest::collection::vec(script(), 3..6),
        select(&Dialect::ALL[..]),
        style(),
        0..PRESETS.len(),
        select(vec![300u64, 1500, 5000]),
    );
    forall(40, &values, |(scripts, dialect, style, preset, size)| {
        // Cache marks are for one request, not for many in one.
        let style = Style { extra: false, ..style };
        let under = &PRESETS[preset];
        let all: Vec<_> =
            scripts.iter().enumerate().flat_map(|(round, script)| renamed(script, dialect, style, round)).collect();
        let text = style.write(&serde_json::Value::Array(all));
        let whole = World::read(text, dialect, under);
        let room = Room {
            trigger: Tokens::new(size),
            target: Tokens::new(size).share(under.policy.target.low_water),
            limit: Tokens::new(size * 11 / 10),
        };
        let mut thread = Thread::new();
        let mut previous = None;
        let pins = vec!["pinned: ünïcode 🏴".to_owned()];
        for message in whole.document.messages() {
            thread.append(message, &under.meter(dialect));
            let ask = PlanOptions {
                previous: previous.clone().map(Arc::new),
                pins: pins.clone(),
                force: !under.policy.trigger.auto && thread.len().is_multiple_of(20),
                ..PlanOptions::default()
            };
            if let Some(compaction) = compact(&thread, room, under, dialect, &ask) {
                let world =
                    World { dialect, text: String::new(), document: whole.document.clone(), thread: thread.clone() };
                let rendered = prompt(&thread, Some(&compaction), under, dialect);
                let note = |wrong: String| {
                    format!("{} in {dialect}, at {} messages: {wrong}", under.policy.name, thread.len())
                };
                readable_back(&thread, &compaction, &rendered).map_err(note)?;
                passes_the_check(&thread, &rendered, &world).map_err(note)?;
                within_budget(&world, under, &compaction, &rendered).map_err(note)?;
                if !compaction.summaries.is_empty() {
                    hold!(words(&rendered, &thread).contains(&pins[0]), "{}: the pin is gone", under.policy.name);
                }
                previous = Some(compaction);
            }
        }
        Ok(())
    });
}

#[test]
fn what_is_not_loaded_changes_neither_the_prompt_nor_what_must_hold() {
    let values = (
        proptest::collection::vec(finished(), 3..6),
        select(&Dialect::ALL[..]),
        style(),
        0..PRESETS.len(),
        select(vec![300u64, 1500, 5000]),
    );
    // A result that comes after its call was summarized changes exchanges that are no longer there: finished scripts.
    forall(60, &values, |(scripts, dialect, style, preset, size)| {
        let style = Style { extra: false, ..style };
        let under = &PRESETS[preset];
        let all: Vec<_> =
            scripts.iter().enumerate().flat_map(|(round, script)| renamed(script, dialect, style, round)).collect();
        let whole = World::read(style.write(&serde_json::Value::Array(all)), dialect, under);
        let target = Tokens::new(size).share(under.policy.target.low_water);
        let room = Room { trigger: Tokens::new(size), target, limit: Tokens::new(size * 11 / 10) };
        let (mut thread, mut previous) = (Thread::new(), None);
        // The same thread with everything in it, under the compaction that the smaller one has.
        let mut full: Option<(Thread, epitome::plan::Compaction)> = None;
        let pins = vec!["pinned: ünïcode 🏴".to_owned()];
        for message in whole.document.messages() {
            if let Some((full, _)) = &mut full {
                full.append(message.clone(), &under.meter(dialect));
            }
            thread.append(message, &under.meter(dialect));
            let force = !under.policy.trigger.auto && thread.len().is_multiple_of(20);
            let ask = PlanOptions {
                previous: previous.clone().map(Arc::new),
                pins: pins.clone(),
                force,
                ..PlanOptions::default()
            };
            if let Some(compaction) = compact(&thread, room, under, dialect, &ask) {
                let rendered = prompt(&thread, Some(&compaction), under, dialect);
                let world =
                    World { dialect, text: String::new(), document: whole.document.clone(), thread: thread.clone() };
                passes_the_check(&thread, &rendered, &world)?;
                within_budget(&world, under, &compaction, &rendered)?;
                hold!(compaction.summaries.is_empty() || words(&rendered, &thread).contains(&pins[0]), "no pin");
                previous = Some(compaction);
                full = None;
                let evicted = previous.as_ref().and_then(|compaction| Some((compaction.evict(&thread)?, compaction)));
                if let Some(((small, moved), compaction)) = evicted {
                    full = Some((thread, compaction.clone()));
                    hold!(moved.prompt_tokens(&small) == compaction.plan.after, "it counts otherwise");
                    hold!(crate::claims::is_valid_for(&moved.plan, &small), "it is not valid for what is loaded");
                    (thread, previous) = (small, Some(moved));
                }
            }
            if let Some((full, compaction)) = &full {
                let one = prompt(full, Some(compaction), under, dialect).to_json(full);
                let other = prompt(&thread, previous.as_ref(), under, dialect).to_json(&thread);
                hold!(one == other, "{}: another prompt\n{one:#?}\n{other:#?}", under.policy.name);
                hold!(full.tip() == thread.tip() && full.total() == thread.total(), "another thread");
            }
        }
        Ok(())
    });
}

/// The messages of one of many scripts, its ids made its own.
fn renamed(script: &Script, dialect: Dialect, style: Style, round: usize) -> Vec<serde_json::Value> {
    let written = serde_json::Value::Array(messages(script, dialect, style)).to_string();
    let own = written
        .replace("\"toolu_", &format!("\"toolu_{round}x"))
        .replace("\"orphan_", &format!("\"orphan_{round}x"))
        .replace("\"fc_", &format!("\"fc_{round}x"))
        .replace("\"rs_", &format!("\"rs_{round}x"))
        .replace("\"msg_", &format!("\"msg_{round}x"));
    serde_json::from_str(&own).expect("still JSON")
}

/// Counts how much it is asked to count.
#[derive(Default)]
struct Tally {
    bytes: AtomicU64,
    calls: AtomicU64,
}

impl TokenCounter for Tally {
    fn count(&self, text: &str) -> Tokens {
        self.bytes.fetch_add(text.len() as u64, Relaxed);
        self.calls.fetch_add(1, Relaxed);
        Characters::Four.count(text)
    }

    fn source(&self) -> CountSource {
        CountSource::Characters
    }

    fn name(&self) -> &str {
        "tally"
    }
}

#[test]
fn a_step_counts_what_is_new_and_nothing_else_however_long_the_thread() {
    forall(
        40,
        &(tidy(), select(&Dialect::ALL[..]), style(), 0..PRESETS.len(), 1usize..12),
        |(script, dialect, style, preset, times)| {
            let policy = &PRESETS[preset].policy;
            let tally = Tally::default();
            let meter = Meter::new(&tally, dialect);
            let all: Vec<_> = (0..times).flat_map(|round| renamed(&script, dialect, style, round)).collect();
            let text = style.write(&serde_json::Value::Array(all));
            let document = epitome::wire::Document::decode(&text, Some(dialect)).expect("a list");
            let mut thread = Thread::new();
            let room = Room::exactly(Tokens::new(u64::MAX / 4));
            for message in document.messages() {
                let alone = {
                    let fresh = Tally::default();
                    let _ = Meter::new(&fresh, dialect).parts(&message);
                    (fresh.bytes.into_inner(), fresh.calls.into_inner())
                };
                let before = (tally.bytes.load(Relaxed), tally.calls.load(Relaxed));
                thread.append(message, &meter);
                // Pruning below the trigger looks at the whole thread, once for each turn.
                if policy.clear.eager && thread.messages().last().is_some_and(|message| message.opens_turn()) {
                    continue;
                }
                let verdict = Planner::new(&thread, policy, meter, room, &PlanOptions::default()).decide();
                hold!(matches!(verdict, Verdict::Fits { .. }), "{}: it acts", policy.name);
                let spent = (tally.bytes.load(Relaxed) - before.0, tally.calls.load(Relaxed) - before.1);
                hold!(spent == alone, "{}: a step counted {spent:?} for a message of {alone:?}", policy.name);
            }
            Ok(())
        },
    );
}
