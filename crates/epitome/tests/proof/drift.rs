//! No drift: fifty rounds of compaction on a growing thread lose no pin and no constraint.

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::plan::Room;
use epitome::planner::PlanOptions;
use epitome::summary::RequestState;
use epitome::thread::Thread;
use epitome::wire::Dialect;

use crate::claims::words;
use crate::generate::{Answer, Bit, Call, Entry, Script, document, plain};
use crate::world::{PRESETS, Under, World, compact, prompt};

const ROUNDS: usize = 50;
const PINS: [&str; 2] = ["the staging host is db-7.internal", "ключ лежит в сейфе"];
/// What the user demands, and in which turn.
const CONSTRAINTS: [(usize, &str); 7] = [
    (0, "Never delete production data."),
    (1, "Bitte niemals auf main pushen."),
    (2, "不要修改生产数据库。"),
    (3, "本番のデータは絶対に消さないでください。"),
    (5, "Никогда не трогай config.yaml!"),
    (8, "Il faut toujours écrire les tests d'abord."),
    (13, "You must keep `parse_line` backwards compatible."),
];

/// One turn: a request, two rounds of tool work, an answer.
fn turn(at: usize) -> Script {
    let demand =
        CONSTRAINTS.iter().find(|(turn, _)| *turn == at).map(|(_, text)| format!(" {text}")).unwrap_or_default();
    let mut entries = vec![Entry::User(vec![Bit::Text(format!("Request {at}: make module_{at} faster.{demand}"))])];
    for step in 0..2 {
        let id = format!("toolu_{at}_{step}");
        let path = format!("src/module_{at}_{step}.rs");
        let arguments = serde_json::json!({"path": path});
        let text = (0..12).map(|line| format!("{line}: fn work_{at}_{step}_{line}() {{ unfold({line}) }}\n")).collect();
        entries.push(Entry::Assistant {
            thought: None,
            words: Some(format!("I read {path} now.")),
            calls: vec![Call { id: id.clone(), tool: "read".into(), arguments }],
        });
        entries.push(Entry::Results(vec![Answer { id, tool: "read".into(), text, failed: false, image: false }]));
    }
    entries.push(Entry::Assistant {
        thought: None,
        words: Some(format!("Module {at} is faster now.")),
        calls: Vec::new(),
    });
    Script(entries)
}

/// Compacts a growing thread fifty times and looks for every pin and constraint in every prompt on the way.
fn holds_for_fifty_rounds(under: &Under, dialect: Dialect, size: u64, loaded: Loaded) {
    let name = format!("{} in {dialect} with {size}, {loaded:?}", under.policy.name);
    let size = Tokens::new(size);
    let room = Room { trigger: size, target: size.share(under.policy.target.low_water), limit: size.scaled(1.1) };
    let pins: Vec<String> = PINS.iter().map(|pin| (*pin).to_owned()).collect();
    let (mut thread, mut previous, mut rounds, mut at) = (Thread::new(), None, 0, 0);
    while rounds < ROUNDS {
        assert!(at < 40 * ROUNDS, "{name}: {rounds} rounds in {at} turns");
        let text = document(&turn(at), dialect, plain());
        thread.extend(World::read(text, dialect, under).document.messages(), &under.meter(dialect));
        let ask = PlanOptions {
            previous: previous.clone().map(Arc::new),
            pins: pins.clone(),
            force: !under.policy.trigger.auto,
            ..PlanOptions::default()
        };
        at += 1;
        let Some(compaction) = compact(&thread, room, under, dialect, &ask) else { continue };
        rounds += 1;
        assert_eq!(compaction.plan.round as usize, rounds, "{name}");
        let said = words(&prompt(&thread, Some(&compaction), under, dialect), &thread);
        for pin in PINS {
            assert!(said.contains(pin), "{name}: round {rounds} lost the pin {pin:?}");
        }
        for (_, text) in CONSTRAINTS.iter().filter(|(turn, _)| *turn < at) {
            assert!(said.contains(text), "{name}: round {rounds} lost {text:?}");
        }
        assert_eq!(compaction.receipt.missing_required().count(), 0, "{name}");
        if let Some(summary) = compaction.summaries.first() {
            let early = summary.items.requests.iter().find(|request| request.text.starts_with("Request 0:"));
            let state = early.map(|request| request.state);
            assert!(
                state.is_none_or(|state| state == RequestState::Answered || at == 1),
                "{name}: round {rounds} reopened a request"
            );
        }
        previous = Some(compaction);
        if let (Loaded::FromTheLastCompaction, Some((small, moved))) =
            (loaded, previous.as_ref().and_then(|compaction| compaction.evict(&thread)))
        {
            assert!(small.len() < thread.len() || small.len() < 12, "{name}: it grows to {} messages", small.len());
            (thread, previous) = (small, Some(moved));
        }
    }
}

/// How much of the thread is there.
#[derive(Clone, Copy, Debug)]
enum Loaded {
    All,
    FromTheLastCompaction,
}

#[test]
fn fifty_rounds_keep_every_pin_and_every_constraint_verbatim() {
    for (at, under) in PRESETS.iter().enumerate() {
        // A tight window in one dialect, a wider one in another.
        holds_for_fifty_rounds(under, Dialect::ALL[at % 4], 900, Loaded::All);
        holds_for_fifty_rounds(under, Dialect::ALL[(at + 1) % 4], 1600, Loaded::All);
    }
}

#[test]
fn fifty_rounds_keep_them_when_only_what_came_after_the_last_compaction_is_loaded() {
    for (at, under) in PRESETS.iter().enumerate() {
        holds_for_fifty_rounds(under, Dialect::ALL[(at + 2) % 4], 900, Loaded::FromTheLastCompaction);
        holds_for_fifty_rounds(under, Dialect::ALL[(at + 3) % 4], 1600, Loaded::FromTheLastCompaction);
    }
}

#[test]
fn one_long_turn_keeps_its_tail_round_after_round_when_only_what_came_after_the_last_compaction_is_loaded() {
    let under = PRESETS.iter().find(|under| under.policy.name == "layer").expect("a preset");
    let dialect = Dialect::Chat;
    let size = Tokens::new(9000);
    let room = Room { trigger: size, target: size.share(under.policy.target.low_water), limit: size.scaled(1.1) };
    let Script(entries) = turn(0);
    let mut thread = Thread::new();
    let first = document(&Script(entries[..1].to_vec()), dialect, plain());
    thread.extend(World::read(first, dialect, under).document.messages(), &under.meter(dialect));
    let (mut previous, mut tails) = (None, Vec::new());
    for at in 0..400 {
        let Script(entries) = turn(at);
        let work = document(&Script(entries[1..5].to_vec()), dialect, plain());
        thread.extend(World::read(work, dialect, under).document.messages(), &under.meter(dialect));
        let ask = PlanOptions { previous: previous.clone().map(Arc::new), ..PlanOptions::default() };
        let Some(compaction) = compact(&thread, room, under, dialect, &ask) else { continue };
        tails.push(thread.len() - compaction.plan.tail_from);
        let (small, moved) = compaction.evict(&thread).expect("something to leave unloaded");
        (thread, previous) = (small, Some(moved));
    }
    assert!(tails.len() > 3 && tails.iter().all(|kept| *kept >= 10), "{tails:?}");
}

/// A turn that writes one of a few files, or runs a command.
fn work(at: usize) -> Script {
    let id = format!("toolu_{at}");
    let (tool, arguments) = match at % 4 {
        0 => (
            "write",
            serde_json::json!({"path": format!("src/m{}.rs", at % 12), "content": format!("fn f{at}() {{}}")}),
        ),
        _ => ("read", serde_json::json!({"path": format!("src/m{}.rs", at % 12)})),
    };
    let text = (0..30).map(|line| format!("{line}: let value_{at}_{line} = compute({at}, {line});\n")).collect();
    Script(vec![
        Entry::User(vec![Bit::Text(format!("Request {at}: look after quarter_{at}."))]),
        Entry::Assistant {
            thought: None,
            words: Some(format!("I look after quarter_{at} now.")),
            calls: vec![Call { id: id.clone(), tool: tool.into(), arguments }],
        },
        Entry::Results(vec![Answer { id, tool: tool.into(), text, failed: false, image: false }]),
        Entry::Assistant { thought: None, words: Some(format!("quarter_{at} is settled.")), calls: Vec::new() },
    ])
}

/// How many messages one unit of work is.
const MESSAGES: usize = 4;

#[test]
fn round_after_round_a_summary_holds_no_summary_and_forgets_no_file_that_was_written() {
    for under in PRESETS.iter() {
        let dialect = Dialect::Chat;
        let size = Tokens::new(8000);
        let room = Room { trigger: size, target: size.share(under.policy.target.low_water), limit: size.scaled(1.1) };
        let (mut thread, mut previous, mut rounds) = (Thread::new(), None::<epitome::plan::Compaction>, 0);
        for at in 0..240 {
            let text = document(&work(at), dialect, plain());
            thread.extend(World::read(text, dialect, under).document.messages(), &under.meter(dialect));
            let force = !under.policy.trigger.auto && at % 16 == 15;
            let ask = PlanOptions { previous: previous.clone().map(Arc::new), force, ..PlanOptions::default() };
            let Some(compaction) = compact(&thread, room, under, dialect, &ask) else { continue };
            rounds += 1;
            let name = format!("{} in round {rounds}", under.policy.name);
            if let Some(summary) = compaction.summaries.first() {
                let text = &summary.text;
                assert!(text.matches("[Context Summary").count() <= 1 && !text.contains("earlier:"), "{name}: {text}");
                let tail =
                    thread.messages().get(compaction.plan.tail_from).map_or(usize::MAX, |message| message.log_place());
                let written: Vec<String> = (0..at)
                    .filter(|at| at % 4 == 0 && MESSAGES * (at + 1) <= tail)
                    // A policy may not show these tools to its summaries.
                    .filter(|_| under.policy.tools.summarized.is_none())
                    .map(|at| format!("src/m{}.rs", at % 12))
                    .collect();
                for path in written {
                    let fact = summary.items.files.iter().find(|file| file.path == path);
                    assert!(fact.is_some_and(|fact| fact.written.is_some()), "{name}: {path} was written");
                }
                let title = text.lines().next().unwrap_or_default();
                assert!(!title.contains("Turns") || title.contains("Turns 1-"), "{name}: {title}");
            }
            previous = Some(compaction);
            if let Some((small, moved)) = previous.as_ref().and_then(|compaction| compaction.evict(&thread)) {
                (thread, previous) = (small, Some(moved));
            }
        }
        assert!(rounds > 4, "{}: {rounds} rounds", under.policy.name);
    }
}
