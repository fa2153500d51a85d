//! The core's invariants, through the engine, on every store: generated threads in every dialect under every preset.

use std::sync::Arc;

use epitome::budget::Tokens;
use epitome::policy::Preset;
use epitome::wire::{Dialect, LastExchange, Severity, check};
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, OpenThread, Step, StepRequest};
use epitome_runtime::ids::ThreadId;
use epitome_runtime::store::{MemoryStore, PostgresStore, SqliteStore, Store};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use crate::forall::forall;
use crate::generate::{Script, Style, finished, messages, style};
use crate::world::owner;

const PIN: &str = "pinned: ünïcode 🏴";

type Given = (Vec<Script>, Dialect, Style, usize, u64);

fn given() -> impl Strategy<Value = Given> {
    let dialects = select(&[Dialect::Chat, Dialect::Responses, Dialect::Anthropic, Dialect::AiSdk][..]);
    let scripts = proptest::collection::vec(finished(), 3..6);
    (scripts, dialects, style(), 0..Preset::ALL.len(), select(vec![1500u64, 5000]))
}

/// The one door: whatever a preset does with a growing thread in a store, the invariants hold.
fn hold_on(cases: u32, make: impl Fn(&tokio::runtime::Runtime) -> Arc<dyn Store>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = make(&runtime);
    forall(cases, &given(), |given| runtime.block_on(grows(Arc::clone(&store), given)));
}

async fn grows(store: Arc<dyn Store>, (scripts, dialect, style, preset, window): Given) -> Result<(), String> {
    let policy = Preset::ALL[preset].policy();
    let name = policy.name.clone();
    let force = !policy.trigger.auto;
    let window = Some(Tokens::new(window));
    let settings = EngineSettings { window, ..EngineSettings::new(policy) };
    let engine = Engine::new(EngineParts { store, ..EngineParts::in_memory(settings) })
        .await
        .map_err(|error| error.to_string())?;
    let id = ThreadId::new();
    let mut thread = engine.open(&owner(), id.clone(), dialect).await.map_err(|error| error.to_string())?;
    let style = Style { extra: false, ..style };
    let all: Vec<String> = scripts
        .iter()
        .enumerate()
        .flat_map(|(round, script)| renamed(messages(script, dialect, style), round))
        .collect();
    let mut before: Option<Step> = None;
    for (at, message) in all.iter().enumerate() {
        thread.append([message.as_str()]).await.map_err(|error| error.to_string())?;
        if message.contains("\"type\":\"reasoning\"") {
            // The rest of the answer is still to come.
            continue;
        }
        let request =
            StepRequest { pins: vec![PIN.to_owned()], force: force && at % 20 == 19, ..StepRequest::default() };
        let step = thread.prepare_step(&request).await.map_err(|error| error.to_string())?;
        let note = |wrong: &str| format!("{name} in {dialect} after {} messages: {wrong}", at + 1);
        holds(&step, dialect, before.as_ref(), is_open(&thread)).map_err(|wrong| note(&wrong))?;
        if step.over() > Tokens::ZERO && step.shortfall.is_none() && step.warnings.is_empty() && !force {
            return Err(note(&format!("{} tokens too many, and nobody says why", step.over())));
        }
        before = Some(step);
    }
    reads_back(&engine, &mut thread, &all).await?;
    let mut again = engine.resume(&owner(), id).await.map_err(|error| error.to_string())?;
    let request = StepRequest { pins: vec![PIN.to_owned()], ..StepRequest::default() };
    let (one, other) = (thread.prepare_step(&request).await, again.prepare_step(&request).await);
    let (one, other) = (one.map_err(|e| e.to_string())?, other.map_err(|e| e.to_string())?);
    match one.messages == other.messages {
        true => Ok(()),
        false => Err(format!("{name} in {dialect}: opened anew it is another prompt")),
    }
}

fn is_open(thread: &OpenThread) -> bool {
    thread.thread().in_flight().is_some()
}

/// A provider takes it, it is within its room or says why not, and it begins as the one before did unless something was
/// compacted; pins stand in it once anything was.
fn holds(step: &Step, dialect: Dialect, before: Option<&Step>, open: bool) -> Result<(), String> {
    let list: Value = serde_json::from_str(&format!("[{}]", step.messages.join(","))).map_err(|e| e.to_string())?;
    let tail = if open { LastExchange::Open } else { LastExchange::Closed };
    if step.version > 0
        && let Some(wrong) = check(dialect, &list, tail).into_iter().find(|v| v.severity() == Severity::Error)
    {
        return Err(format!("{wrong:?}\n{list:#}"));
    }
    if step.version > 0 && list.to_string().contains("Summary") && !list.to_string().contains(PIN) {
        return Err("the pin is gone".to_owned());
    }
    match before {
        // Cache marks move with the tail, and what comes back is for one prompt.
        Some(before)
            if before.version == step.version
                && step.version > 0
                && dialect != Dialect::Anthropic
                && before.rehydrated.is_empty()
                && step.rehydrated.is_empty() =>
        {
            let same = step.messages.starts_with(&before.messages);
            if same { Ok(()) } else { Err("the prefix was rewritten between compactions".to_owned()) }
        }
        _ => Ok(()),
    }
}

/// Every byte is in the log, and every artifact can be read.
async fn reads_back(engine: &Engine, thread: &mut OpenThread, all: &[String]) -> Result<(), String> {
    let log = engine.log();
    let entries = log.read(thread.row(), 0..thread.row().length).await.map_err(|error| error.to_string())?;
    let raws: Vec<&str> = entries.iter().map(|entry| entry.message.raw.as_str()).collect();
    if raws != all.iter().map(String::as_str).collect::<Vec<_>>() {
        return Err("the log is not what was appended".to_owned());
    }
    if let Some((_, plan)) = log.plan(thread.key(), None).await.map_err(|error| error.to_string())? {
        for hint in plan.hints {
            thread.read_artifact(&hint.id).await.map_err(|error| format!("{}: {error}", hint.id))?;
        }
    }
    Ok(())
}

/// The messages of one of many scripts, their ids made their own.
fn renamed(messages: Vec<Value>, round: usize) -> Vec<String> {
    let own = |message: Value| {
        let mut text = message.to_string();
        for id in ["toolu_", "orphan_", "fc_", "rs_", "msg_"] {
            text = text.replace(&format!("\"{id}"), &format!("\"{id}{round}x"));
        }
        text
    };
    messages.into_iter().map(own).collect()
}

#[test]
fn the_cores_invariants_hold_on_the_store_in_memory() {
    hold_on(60, |_| Arc::new(MemoryStore::new()));
}

#[test]
fn the_cores_invariants_hold_on_sqlite() {
    hold_on(40, |_| Arc::new(SqliteStore::in_memory().unwrap()));
}

#[test]
fn the_cores_invariants_hold_on_postgres() {
    let url = std::env::var("EPITOME_TEST_POSTGRES")
        .expect("EPITOME_TEST_POSTGRES says where Postgres is; scripts/test starts it and sets this");
    hold_on(25, |runtime| Arc::new(runtime.block_on(PostgresStore::connect(&url)).unwrap()));
}
