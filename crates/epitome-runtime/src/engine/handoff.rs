//! A handoff: the text that a new thread with a goal begins with. The thread that it is made of stays as it is.
//!
//! It is made of all messages of the thread, those that earlier compactions took out of the prompt included, and nothing is committed:
//! neither a plan nor an artifact.

use std::sync::Arc;

use epitome::budget::{Meter, Tokens};
use epitome::plan::Room;
use epitome::planner::PlanOptions;
use epitome::policy::preset;
use serde::Serialize;

use super::compact::{CompactOptions, run_blocking};
use super::error::{EngineError, Result};
use super::snapshot::Snapshot;
use super::thread::OpenThread;

/// The preset that hands over.
const PRESET: &str = "amp";

/// What a new thread begins with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Handoff {
    /// The goal, as it was given.
    pub goal: String,
    /// The text.
    pub text: String,
    /// Its tokens.
    pub tokens: Tokens,
    /// The model that wrote a part of it; without one, code alone did.
    pub model: Option<String>,
}

impl OpenThread {
    /// Writes what a new thread needs of this one to reach a goal, in at most `budget` tokens where one is given.
    pub async fn handoff(&self, goal: &str, budget: Option<Tokens>) -> Result<Handoff> {
        self.may_read_back()?;
        let goal = goal.trim();
        if goal.is_empty() {
            return Err(EngineError::Handoff("the goal is empty: say what the new thread is for".to_owned()));
        }
        let engine = &self.engine;
        let snapshot = Arc::new(self.whole_snapshot(goal, budget).await?);
        let draft = Arc::new(engine.draft(&snapshot).await.map_err(|why| nothing(&why))?);
        let options = CompactOptions::default();
        let prose = engine.ask_for_summary(&snapshot, &draft, &options).await.map_err(|why| nothing(&why))?;
        let model = engine.inner.summarizer.model().filter(|_| prose.is_some()).map(|model| model.id().to_owned());
        let (planned, written) = (Arc::clone(&snapshot), prose.map(|prose| prose.summary));
        let finished = run_blocking(move || planned.planner().finish(Arc::unwrap_or_clone(draft), written)).await;
        let compaction = finished.map_err(|why| nothing(&why))?;
        let summary = compaction.summaries.first().ok_or_else(|| nothing(&"nothing would be summarized"))?;
        if let Some(budget) = budget.filter(|budget| summary.tokens > *budget) {
            let least = format!("it takes {} tokens, more than {budget}: allow more", summary.tokens);
            return Err(EngineError::Handoff(least));
        }
        let text = format!(
            "{}\n\nNumbers such as m12 name messages of thread {}; the tool `read_artifact` and `epitome read` show them.\n",
            snapshot.policy.render.wrap(&summary.text).trim_end(),
            self.key.thread
        );
        Ok(Handoff { goal: goal.to_owned(), text, tokens: summary.tokens, model })
    }

    /// Takes a snapshot of all messages, to be summarized whole for a goal.
    async fn whole_snapshot(&self, goal: &str, budget: Option<Tokens>) -> Result<Snapshot> {
        let engine = &self.engine;
        let mut policy = preset(PRESET).unwrap_or_else(|| (*engine.policy()).clone());
        policy.trigger.auto = true;
        policy.protect.pins.extend(engine.policy().protect.pins.iter().cloned());
        let meter = Meter::new(&**engine.counter(), self.dialect);
        let mut thread = engine.log().load_whole(&self.state.row, &meter, engine.counter_label()).await?;
        self.state.annotations.apply(&mut thread);
        let least = thread.total().share(policy.target.low_water);
        let room = match budget {
            Some(budget) => Room::exactly(budget),
            None => Room { target: least, ..Room::in_window(&policy, policy.trigger.window, Tokens::ZERO) },
        };
        let options = PlanOptions {
            force: true,
            hands_over: true,
            instructions: Some(goal.to_owned()),
            pins: self.state.annotations.pins.clone(),
            ..PlanOptions::default()
        };
        Ok(Snapshot {
            key: self.key.clone(),
            thread: Arc::new(thread),
            hints: Vec::new(),
            length: self.state.row.length,
            version: self.state.row.version,
            policy: Arc::new(policy),
            counter: Arc::clone(engine.counter()),
            dialect: self.dialect,
            room,
            options,
        })
    }
}

fn nothing(why: &dyn std::fmt::Display) -> EngineError {
    EngineError::Handoff(why.to_string())
}
