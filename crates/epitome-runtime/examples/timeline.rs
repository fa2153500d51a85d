//! A timeline with hooks and a forced retry: the hooks say "compacting" and "back to work", and a prompt that the
//! provider refuses as too long is compacted by force and sent again.
//!
//! ```text
//! cargo run -p epitome-runtime --example timeline
//! ```

#![allow(clippy::print_stdout, reason = "this is an example")]

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use epitome::budget::Tokens;
use epitome::policy::preset;
use epitome::wire::Dialect;
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, StepRequest};
use epitome_runtime::event::{Bus, CompactionStats, Hook};
use epitome_runtime::ids::{TenantId, ThreadId, ThreadKey};
use epitome_runtime::model::{Model, ModelError, Scripted, ServedModel};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The provider takes 9 000 tokens and says so only when it is sent more.
    let model = Scripted::parse(MODEL)?;
    let settings = EngineSettings {
        model: Some(model.id().to_owned()),
        ..EngineSettings::new(preset("timeline").ok_or("no such preset")?)
    };
    let bus = Bus::new().with_hook(Arc::new(Status));
    let engine = Engine::new(EngineParts { bus, ..EngineParts::in_memory(settings) }).await?;
    let access = Access::owner(TenantId::local(), "example");
    let mut thread = engine.open(&access, "timeline".parse::<ThreadId>()?, Dialect::Anthropic).await?;

    let served = ServedModel::new(TenantId::local(), model.upstream(), model.id());
    for turn in 1..=14 {
        let asked =
            json!({"role": "user", "content": format!("Turn {turn}: {}", "the river is high today. ".repeat(120))});
        thread.append([asked.to_string()]).await?;
        let mut request = StepRequest { max_output: Some(Tokens::new(200)), ..StepRequest::default() };
        let answer = loop {
            let step = thread.prepare_step(&request).await?;
            println!("turn {turn:>2}: {:>2} messages, {:>5} tokens", step.messages.len(), step.tokens.to_string());
            match model.answer(&step.prompt(), &mut |_| {}).await {
                Err(error @ ModelError::Overflow { .. }) if request.harder < 3 => {
                    println!("         {error}");
                    thread.learn_overflow(&served, step.tokens, &error).await;
                    request.harder += 1;
                }
                Err(error) => return Err(error.into()),
                Ok(answer) => {
                    thread.confirm_window(&served, step.tokens, answer.usage.as_ref()).await;
                    break answer;
                }
            }
        };
        thread.append(answer.messages.iter().map(String::as_str)).await?;
    }
    println!("\nthe window as the engine knows it now: {} tokens", engine.window_of(&served).tokens());
    Ok(())
}

struct Status;

#[async_trait]
impl Hook for Status {
    async fn on_before_compaction(&self, _: &ThreadKey, stats: &CompactionStats) {
        println!("         compacting: {} tokens, {} messages", stats.tokens_before, stats.compacted_blocks);
    }

    async fn on_after_compaction(&self, _: &ThreadKey, stats: &CompactionStats) {
        println!("         back to work: {} tokens, {} summary", stats.tokens_after, stats.summary_block_count);
    }
}

const MODEL: &str = r#"
model = "scripted-timeline"
dialect = "anthropic"
window = 9000

[[answer]]
text = "The river is high, yes."
repeat = true
"#;
