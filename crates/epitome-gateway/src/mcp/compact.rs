//! `compact`: makes a thread's prompt smaller now, and says what became of what was in it.

use epitome::budget::Tokens;
use epitome::summary::{Fate, Receipt};
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::{Engine, EngineError, OpenThread, Step, StepRequest};
use epitome_runtime::ids::ThreadId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tools::{Outcome, Tool, sentence};

/// Compacts a thread.
pub(super) const COMPACT: Tool = Tool {
    name: "compact",
    description: "Compacts a thread now: old content is summarized and moved out, so that every later prompt of the \
                  thread is smaller. Nothing is lost: `recall` and `read_artifact` give it back.",
    parameters: r#"{"type":"object","properties":{"instructions":{"type":"string","description":"What the summary should look at"},"pins":{"type":"array","items":{"type":"string"},"description":"Words that every later prompt must hold"}},"additionalProperties":false}"#,
};

/// The parameters of a compaction.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompactParams {
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    pins: Option<Vec<String>>,
}

/// The result of a compaction, for people and for programs.
pub(super) struct CompactReport {
    pub outcome: Outcome,
    pub facts: Option<Value>,
}

impl CompactReport {
    fn failure(text: String) -> Self {
        CompactReport { outcome: Outcome::failure(text), facts: None }
    }
}

impl CompactParams {
    /// The wishes in the arguments of a call.
    pub fn parse(arguments: Value) -> Result<CompactParams, Outcome> {
        serde_json::from_value(arguments).map_err(|error| {
            Outcome::failure(format!(
                "The arguments of `compact` cannot be used: {error}. Call it again with its schema."
            ))
        })
    }

    fn into_request(self) -> StepRequest {
        let is_said = |text: &String| !text.trim().is_empty();
        StepRequest {
            force: true,
            instructions: self.instructions.filter(is_said),
            pins: self.pins.unwrap_or_default().into_iter().filter(is_said).collect(),
            ..StepRequest::default()
        }
    }
}

/// Compacts a thread now.
pub(super) async fn compact(
    engine: &Engine,
    access: &Access,
    thread: ThreadId,
    wishes: CompactParams,
) -> CompactReport {
    let mut open = match engine.resume(access, thread).await {
        Ok(open) => open,
        Err(error) => return CompactReport::failure(sentence(&error)),
    };
    match open.prepare_step(&wishes.into_request()).await {
        Ok(step) => report(engine, &open, &step).await,
        Err(EngineError::NotAllowed) => CompactReport::failure("You may read this thread, not compact it.".to_owned()),
        Err(error) => CompactReport::failure(sentence(&error)),
    }
}

async fn report(engine: &Engine, open: &OpenThread, step: &Step) -> CompactReport {
    let thread = &open.key().thread;
    let warnings = step.warnings.join(" ");
    let Some(stats) = step.compacted else {
        let text = format!(
            "Thread {thread} was not compacted: its prompt has {} tokens, and nothing in it can \
                            become smaller now. {warnings}",
            step.tokens
        );
        let facts = json!({
            "thread": thread, "compacted": false, "tokens_before": step.tokens, "tokens_after": step.tokens,
            "plan_version": step.version, "warnings": step.warnings,
        });
        return CompactReport { outcome: Outcome::answer(text.trim_end()), facts: Some(facts) };
    };
    let receipt = receipt(engine, open).await;
    let text = format!(
        "Compacted thread {thread}: {} tokens before, {} after, plan version {}. {} {warnings}",
        Tokens::new(stats.tokens_before),
        step.tokens,
        step.version,
        items(&receipt),
    );
    let facts = json!({
        "thread": thread, "compacted": true, "tokens_before": stats.tokens_before, "tokens_after": step.tokens,
        "plan_version": step.version, "warnings": step.warnings,
        "receipt": {
            "retained": receipt.count(Fate::Retained), "recoverable": receipt.count(Fate::Recoverable),
            "lost": receipt.count(Fate::Lost), "repaired": receipt.repaired,
        },
    });
    CompactReport { outcome: Outcome::answer(text.trim_end()), facts: Some(facts) }
}

fn items(receipt: &Receipt) -> String {
    let count = |fate| receipt.count(fate);
    format!(
        "Of {} items that the receipt lists, {} are still in the prompt, {} can be read back, {} are lost.",
        receipt.entries.len(),
        count(Fate::Retained),
        count(Fate::Recoverable),
        count(Fate::Lost),
    )
}

/// The receipt of the thread's newest plan.
async fn receipt(engine: &Engine, open: &OpenThread) -> Receipt {
    match engine.log().plan(open.key(), None).await {
        Ok(plan) => plan.map(|(_, stored)| stored.compaction.receipt).unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "failed to read the receipt of a compaction");
            Receipt::default()
        }
    }
}
