//! An agent's loop: before each step the prompt is prepared, after each step the answer is appended. When the prompt
//! outgrows its window it is compacted on the way, and the loop never notices.
//!
//! ```text
//! cargo run -p epitome-runtime --example agent_loop
//! ```
//!
//! The model is scripted, so that it runs without a key: put an `HttpModel` in its place for a real one.

#![allow(clippy::print_stdout, reason = "this is an example")]

use std::error::Error;

use epitome::budget::Tokens;
use epitome::policy::preset;
use epitome::wire::Dialect;
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, StepRequest};
use epitome_runtime::ids::{TenantId, ThreadId};
use epitome_runtime::model::{Model, Scripted};
use serde_json::{Value, json};

/// How many steps the agent may take.
const STEPS_MAX: usize = 50;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = Scripted::parse(&script())?;
    // The `layer` preset: the newest ten messages stay, the rest becomes a session summary, round after round.
    let settings = EngineSettings {
        model: Some(model.id().to_owned()),
        window: Some(Tokens::new(24_000)),
        ..EngineSettings::new(preset("layer").ok_or("no such preset")?)
    };
    let engine = Engine::new(EngineParts::in_memory(settings)).await?;
    let access = Access::owner(TenantId::local(), "example");
    let mut thread = engine.open(&access, "build-flashcards".parse::<ThreadId>()?, Dialect::Chat).await?;
    let task = "Build a flashcard app in src/. Never touch the migrations folder. Start by reading every file.";
    thread.append([json!({"role": "user", "content": task}).to_string()]).await?;

    for step in 1..=STEPS_MAX {
        let prepared = thread.prepare_step(&StepRequest::default()).await?;
        let note = match prepared.compacted {
            Some(stats) => format!("compacted {} -> {} tokens", stats.tokens_before, stats.tokens_after),
            None => String::new(),
        };
        let (tokens, count) = (prepared.tokens, prepared.messages.len());
        let answer = model.answer(&prepared.prompt(), &mut |_| {}).await?;
        thread.append(answer.messages.iter().map(String::as_str)).await?;
        println!("step {step:>2}: {count:>2} messages, {:>6} tokens  {note}", tokens.to_string());
        if answer.calls.is_empty() {
            println!("\nthe agent: {}", answer.text);
            break;
        }
        let results = answer.calls.iter().map(|call| {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            json!({"role": "tool", "tool_call_id": *call.id, "content": read(arguments["path"].as_str())}).to_string()
        });
        thread.append(results.collect::<Vec<_>>()).await?;
    }

    let row = thread.row();
    println!("\nthe log: {} messages, {} tokens, {} compactions", row.length, row.tokens, row.version);
    println!("\nwhat the model sees at the end begins with:");
    thread.end_task(true).await;
    let last = thread.prepare_step(&StepRequest::default()).await?;
    for message in last.messages.iter().take(2) {
        let message: Value = serde_json::from_str(message)?;
        let words: String = message["content"].as_str().unwrap_or_default().chars().take(420).collect();
        println!("[{}] {words}…", message["role"].as_str().unwrap_or_default());
    }
    let found = thread.recall("ease factor interval").await?;
    println!("\nrecall(\"ease factor interval\"), the best of {}:", found.hits.len() + found.left_out);
    let best = found.hits.first().map(|hit| format!("[{} lines {:?}] {}", hit.reference, hit.lines, hit.text));
    println!("{}…", best.unwrap_or_default().chars().take(160).collect::<String>());
    Ok(())
}

/// A tool: reads a file that does not exist.
fn read(path: Option<&str>) -> String {
    let path = path.unwrap_or("?");
    let line = |number| {
        format!("{number:>3}: export function {}_{number}(card) {{ return card.ease * {number}; }}", stem(path))
    };
    let head = if path.ends_with("sm2.ts") { "// ease factor starts at 2.5; the interval grows with it\n" } else { "" };
    format!("{head}{}", (1..=60).map(line).collect::<Vec<_>>().join("\n"))
}

fn stem(path: &str) -> &str {
    path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or("file")
}

/// Forty reads, then the end.
fn script() -> String {
    let files = ["db", "sm2", "index", "review", "cards", "users", "auth", "routes", "store", "cli"];
    let mut script = String::from("model = \"scripted-agent\"\ndialect = \"chat\"\n");
    for round in 1..=4 {
        for file in files {
            script.push_str(&format!(
                "\n[[answer]]\ntext = \"I read {file}.ts now, round {round}.\"\n\
                 calls = [{{ name = \"read\", arguments = {{ path = \"src/{file}.ts\" }} }}]\n"
            ));
        }
    }
    script + "\n[[answer]]\ntext = \"All files are read. The app is built, and the migrations are untouched.\"\n"
}
