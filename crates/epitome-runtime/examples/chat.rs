//! A chat with background compaction: at the soft mark a job is queued, a worker summarizes with a model, and the result
//! is swapped in while the chat goes on. A memory block goes along with every prompt.
//!
//! ```text
//! cargo run -p epitome-runtime --example chat
//! ```

#![allow(clippy::print_stdout, reason = "this is an example")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use epitome::budget::Tokens;
use epitome::policy::preset;
use epitome::wire::Dialect;
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Background, Engine, EngineParts, EngineSettings, Jobs, StepRequest};
use epitome_runtime::event::{Bus, Event, EventKind, Listener};
use epitome_runtime::ids::{TenantId, ThreadId};
use epitome_runtime::model::{Model, Scripted};
use epitome_runtime::summarize::{ModelSummarizer, Summarizer};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let chat = Scripted::parse(CHAT)?;
    let compacter: Arc<dyn Model> = Arc::new(Scripted::parse(COMPACTER)?);
    // The `workstream` preset: the newest six messages stay; a model keeps key facts and a state of the work.
    let settings = EngineSettings {
        window: Some(Tokens::new(60_000)),
        background: Background::On { wait: Duration::from_secs(10) },
        jobs: Jobs { poll: Duration::from_millis(20), ..Jobs::default() },
        ..EngineSettings::new(preset("workstream").ok_or("no such preset")?)
    };
    let parts = EngineParts {
        bus: Bus::new().with_listener(Arc::new(Printer)),
        summarizer: Summarizer::WithFallback(Arc::new(ModelSummarizer::new(compacter, Duration::from_secs(20)))),
        ..EngineParts::in_memory(settings)
    };
    let engine = Engine::new(parts).await?;
    let worker = engine.work();
    let access = Access::owner(TenantId::local(), "example");
    let mut thread = engine.open(&access, "launch-plan".parse::<ThreadId>()?, Dialect::Chat).await?;

    for turn in 1..=24 {
        let asked = format!("Day {turn}: what about the launch? Here are the notes:\n{}", notes(turn));
        thread.append([json!({"role": "user", "content": asked}).to_string()]).await?;
        thread.remember(&format!("day {turn}: notes were shared")).await?;
        let request = StepRequest { with_memory: true, ..StepRequest::default() };
        let step = thread.prepare_step(&request).await?;
        let state = if step.is_compacting { "compacting in the background" } else { "" };
        println!("turn {turn:>2}: plan {}, {:>6} tokens  {state}", step.version, step.tokens.to_string());
        let answer = chat.answer(&step.prompt(), &mut |_| {}).await?;
        thread.append(answer.messages.iter().map(String::as_str)).await?;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    worker.stop().await;

    let row = thread.row();
    println!("\nthe log: {} messages, {} compactions; nothing of it is lost", row.length, row.version);
    println!("the memory block: {} entries, the older ones folded", thread.memory().await?.entries().len());
    let state = engine.log().document::<epitome::summary::WorkstreamState>(
        &row.key.tenant,
        epitome_runtime::store::DocumentKind::State,
        row.key.thread.as_str(),
    );
    println!("the state of the work:\n{}", state.await?.0.unwrap_or_default().render());
    Ok(())
}

struct Printer;

impl Listener for Printer {
    fn hear(&self, event: &Event) {
        match event.kind {
            EventKind::JobQueued => println!("         queued: a compaction"),
            EventKind::CompactionCompleted => println!(
                "         swapped in: {} -> {} tokens, summary by {}",
                event.tokens_before, event.tokens_after, event.details["author"]
            ),
            _ => {}
        }
    }
}

fn notes(turn: usize) -> String {
    let line = |number| {
        format!(
            "- item {turn}.{number}: the supplier confirmed lot {}, price {} francs",
            turn * 100 + number,
            number * 7 + turn
        )
    };
    (0..110).map(line).collect::<Vec<_>>().join("\n")
}

const CHAT: &str = r#"
model = "scripted-chat"
dialect = "chat"

[[answer]]
text = "Noted. The launch stays on Friday."
repeat = true
"#;

const COMPACTER: &str = r#"
model = "scripted-compacter"
dialect = "chat"

[[answer]]
for = "summary"
repeat = true
delay_ms = 50
[answer.json]
goal = "Prepare the launch on Friday."
progress = [{ text = "The suppliers confirmed their lots day by day.", message = 0 }]
decisions = [{ decision = "The launch stays on Friday.", rationale = "Nothing speaks against it.", message = 1 }]
next = ["Wait for the notes of the next day."]
[answer.json.state]
decisions = [{ text = "The launch stays on Friday.", reason = "Nothing speaks against it." }]
risks = ["A supplier may be late."]
"#;
