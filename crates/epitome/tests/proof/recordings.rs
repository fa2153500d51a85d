//! The invariants over real recordings, when they are there: each with one preset in one dialect, in turn.
//!
//! `EPITOME_FULL=1` takes all of them in all dialects with all presets.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use epitome::budget::Tokens;
use epitome::plan::Room;
use epitome::planner::{PlanOptions, Planner, Verdict};
use epitome::wire::{Dialect, Document, PromptMessage};
use serde_json::Value;

use crate::claims::compaction_holds;
use crate::generate::{Answer, Bit, Call, Entry, Script, document, plain};
use crate::world::{PRESETS, Under, World, compact};

/// The recordings, smallest first; empty with a line that says so when they are not there.
fn recordings() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/threads");
    let mut files = Vec::new();
    for family in ["entire", "miniswe", "pi", "tau"] {
        let entries = std::fs::read_dir(folder.join(family)).into_iter().flatten();
        files.extend(
            entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| path.extension().is_some_and(|end| end == "jsonl")),
        );
    }
    if files.is_empty() {
        eprintln!("skipped: there are no recordings in {}", folder.display());
    }
    files.sort();
    let mut read: Vec<_> =
        files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("a recording"))).collect();
    read.sort_by_key(|(_, text)| text.len());
    read
}

fn is_full() -> bool {
    std::env::var_os("EPITOME_FULL").is_some()
}

#[test]
fn every_recording_under_budget_goes_out_as_it_came_in() {
    for (path, text) in recordings() {
        let document =
            Document::decode(&text, Some(Dialect::Chat)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let kept: Vec<PromptMessage> = (0..document.items().len()).map(PromptMessage::Kept).collect();
        assert_eq!(document.encode(&kept), text, "{}", path.display());
        let under = &PRESETS[2];
        let world = World::read(text, Dialect::Chat, under);
        let room = Room::exactly(world.thread.total());
        let options = PlanOptions::default();
        let planner = Planner::new(&world.thread, &under.policy, under.meter(Dialect::Chat), room, &options);
        let verdict = planner.decide();
        assert!(matches!(verdict, Verdict::Fits { .. }), "{}", path.display());
    }
}

#[test]
fn every_recording_keeps_every_claim() {
    for (at, (path, text)) in recordings().into_iter().enumerate() {
        // A turn for each preset and dialect; the heavy ones are left to the full run.
        if is_full() {
            let all = PRESETS.iter().flat_map(|under| Dialect::ALL.map(|dialect| (under, dialect)));
            all.for_each(|(under, dialect)| holds(&path, &text, under, dialect, at));
        } else if text.len() < 150_000 || at % 16 == 0 {
            holds(&path, &text, &PRESETS[at % PRESETS.len()], Dialect::ALL[(at / PRESETS.len()) % 4], at);
        }
    }
}

fn holds(path: &Path, text: &str, under: &Under, dialect: Dialect, at: usize) {
    let text = match dialect {
        Dialect::Chat => text.to_owned(),
        other => document(&script(text), other, plain()),
    };
    let world = World::read(text, dialect, under);
    let share = [0.2, 0.5, 0.8][at % 3];
    let room = under.room(world.thread.total(), share);
    let ask =
        PlanOptions { force: !under.policy.trigger.auto, pins: vec!["never forget".into()], ..PlanOptions::default() };
    let name = format!("{} in {dialect}, {}, {share}", under.policy.name, path.display());
    match compact(&world.thread, room, under, dialect, &ask) {
        Some(compaction) => {
            compaction_holds(&world, under, &ask, &compaction).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert!(compaction.plan.after < world.thread.total(), "{name}");
        }
        None => assert!(world.thread.total() < Tokens::new(4000) || world.thread.len() < 12, "{name}: it does not act"),
    }
}

/// A recorded chat, in no dialect. One recorded agent gave two calls the same id, which other dialects do not take: the later call and
/// its result get one of their own.
fn script(text: &str) -> Script {
    let mut script = Script::default();
    let (mut called, mut answered) = (HashMap::new(), HashMap::new());
    for message in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let words = message["content"].as_str().map(str::to_owned);
        script.0.push(match message["role"].as_str() {
            Some("system") => Entry::System(words.unwrap_or_default()),
            Some("assistant") => {
                let calls = message["tool_calls"].as_array().into_iter().flatten().map(call);
                let calls = calls.map(|call| Call { id: own_id(call.id, &mut called), ..call }).collect();
                Entry::Assistant { thought: None, words: words.filter(|words| !words.is_empty()), calls }
            }
            Some("tool") => {
                let id = own_id(message["tool_call_id"].as_str().unwrap_or_default().to_owned(), &mut answered);
                Entry::Results(vec![Answer {
                    id,
                    tool: "tool".into(),
                    text: words.unwrap_or_default(),
                    failed: false,
                    image: false,
                }])
            }
            _ => Entry::User(vec![Bit::Text(words.unwrap_or_default())]),
        });
    }
    script
}

/// An id, with how often it was there before where it was.
fn own_id(id: String, seen: &mut HashMap<String, usize>) -> String {
    let times = seen.entry(id.clone()).or_default();
    *times += 1;
    if *times == 1 { id } else { format!("{id}_{times}") }
}

fn call(call: &Value) -> Call {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let arguments = serde_json::from_str(call["function"]["arguments"].as_str().unwrap_or("{}")).unwrap_or_default();
    Call { id: text(&call["id"]), tool: text(&call["function"]["name"]), arguments }
}
