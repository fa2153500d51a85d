//! A thread with everything that is needed to plan and render it.

use std::sync::{Arc, LazyLock};

use epitome::budget::{Meter, TokenCounter, Tokens, counter_named};
use epitome::plan::{Compaction, Room};
use epitome::planner::{PlanOptions, Planner};
use epitome::policy::{Policy, Preset};
use epitome::render::{Prompt, render};
use epitome::thread::{Raw, Thread};
use epitome::wire::{Dialect, Document, decode_message};

use crate::generate::{self, Script, Style};

/// A preset with the counter it asks for.
pub struct Under {
    pub policy: Policy,
    pub counter: Arc<dyn TokenCounter>,
}

/// Every preset.
pub static PRESETS: LazyLock<Vec<Under>> =
    LazyLock::new(|| Preset::ALL.iter().map(|preset| Under::new(preset.policy())).collect());

impl Under {
    /// A policy with the counter it asks for; where it leaves that to the model, o200k.
    pub fn new(policy: Policy) -> Under {
        let counter = counter_named(&policy.count.tokenizer).or_else(|_| counter_named("o200k")).expect("a counter");
        Under { policy, counter }
    }

    /// The meter for a dialect.
    pub fn meter(&self, dialect: Dialect) -> Meter<'_> {
        Meter::new(&*self.counter, dialect)
    }

    /// The room when a thread of this size has outgrown it: `share` of it may stay.
    pub fn room(&self, total: Tokens, share: f64) -> Room {
        let trigger = total.share(share);
        Room { trigger, target: trigger.share(self.policy.target.low_water), limit: trigger.scaled(1.05) }
    }
}

/// A document, and the thread it is.
pub struct World {
    pub dialect: Dialect,
    pub text: String,
    pub document: Document,
    pub thread: Thread,
}

impl World {
    /// Reads a document; `None` when it has no messages.
    pub fn read(text: String, dialect: Dialect, under: &Under) -> World {
        let document = Document::decode(&text, Some(dialect)).unwrap_or_else(|error| panic!("{error}: {text}"));
        let mut thread = Thread::new();
        thread.extend(document.messages(), &under.meter(dialect));
        World { dialect, text, document, thread }
    }

    /// A script in a dialect.
    pub fn of(script: &Script, dialect: Dialect, style: Style, under: &Under) -> World {
        World::read(generate::document(script, dialect, style), dialect, under)
    }
}

/// Decides, and carries the plan out if there is one.
pub fn compact(thread: &Thread, room: Room, under: &Under, dialect: Dialect, ask: &PlanOptions) -> Option<Compaction> {
    Planner::new(thread, &under.policy, under.meter(dialect), room, ask).compact()
}

/// The prompt of a thread.
pub fn prompt(thread: &Thread, compaction: Option<&Compaction>, under: &Under, dialect: Dialect) -> Prompt {
    render(thread, compaction, &under.policy, under.meter(dialect), &[])
}

/// The tokens of written messages, counted from their JSON alone.
pub fn recount(messages: &[String], dialect: Dialect, meter: &Meter<'_>) -> Tokens {
    let message = |json: &String| decode_message(dialect, &Raw::whole(json.as_str()));
    messages.iter().map(message).map(|message| meter.message(&meter.parts(&message))).sum()
}
