//! epitome decides, as data, what a model sees next.
//!
//! An agent's conversation outgrows its model's window. [`compact`] takes it, in any format that agents and providers write,
//! and gives it back in the same format, smaller, with a plan that says what left and a receipt that says what became of
//! everything that matters. Nothing is lost: what leaves the prompt stays in the log and can be read back.
//!
//! ```
//! use epitome::{Limit, compact, policy::preset};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let turns: Vec<String> = (0..400).map(|at| format!(r#"{{"role":"user","content":"Go on with module {at}."}},{{"role":"assistant","content":"Module {at} is ported and parses its header."}}"#)).collect();
//! # let request = format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, turns.join(","));
//! let policy = preset("ladder").ok_or("no such preset")?;
//! let compacted = compact(&request, &policy, Limit::window(8_000))?;
//! send(&compacted.text);
//! # fn send(_: &str) {}
//! # Ok(())
//! # }
//! ```
//!
//! The crate is pure: it opens no file or socket, starts no async task, reads no clock and draws no random number.
//!
//! # The pipeline
//!
//! A text is decoded into a [`thread`]; a [`budget`] is taken of it; a [`policy`] makes a [`plan`] of what to leave out; the
//! thread is rendered under the plan into a prompt. [`compact`] walks all of it. Whoever needs more takes the parts:
//!
//! | type | holds |
//! |---|---|
//! | [`Conversation`] | a session, request or list, read and counted, with what stands beside its messages |
//! | [`Compactor`] | a conversation with a policy and a limit: finds the plan whose written result fits |
//! | [`planner::Planner`] | a thread with everything that decides one plan of it |
//!
//! # Examples
//!
//! Look at what a compaction did:
//!
//! ```
//! # use epitome::{Limit, compact, policy::preset};
//! use epitome::summary::Fate;
//! # let turns: Vec<String> = (0..400).map(|at| format!(r#"{{"role":"user","content":"Go on with module {at}."}},{{"role":"assistant","content":"Module {at} is ported and parses its header."}}"#)).collect();
//! # let session = format!("[{}]", turns.join(","));
//! let compacted = compact(&session, &preset("claude-code").unwrap(), Limit::budget(2_000))?;
//! let Some(compaction) = compacted.compaction else { panic!("it is larger than that") };
//! println!("{} tokens became {}", compaction.plan.before, compaction.plan.after);
//! for step in &compaction.plan.steps {
//!     println!("{:?}: {} touched, {} freed", step.rung, step.touched, step.freed);
//! }
//! let lost = compaction.receipt.entries.iter().filter(|entry| entry.fate == Fate::Lost).count();
//! assert_eq!(lost, 0);
//! # Ok::<(), epitome::CompactError>(())
//! ```
//!
//! Pin words that every later prompt must hold, and say what the summary should look at:
//!
//! ```
//! use epitome::{Compactor, Conversation, Limit, embedded, planner::PlanOptions, policy::preset};
//! # let turns: Vec<String> = (0..400).map(|at| format!(r#"{{"role":"user","content":"Go on with module {at}."}},{{"role":"assistant","content":"Module {at} is ported and parses its header."}}"#)).collect();
//! # let session = format!("[{}]", turns.join(","));
//!
//! let conversation = Conversation::read(&session)?;
//! let options = PlanOptions {
//!     pins: vec!["The release is on Friday.".into()],
//!     instructions: Some("the failing tests".into()),
//!     ..PlanOptions::default()
//! };
//! let compactor = Compactor::new(&conversation, &preset("pi").unwrap(), Limit::budget(2_000), options);
//! let fitted = compactor.run(&mut embedded).unwrap().unwrap();
//! let text = fitted.write(&conversation, "2026-11-17T12:00:00Z")?.apply(&session);
//! assert!(text.contains("The release is on Friday."));
//! # Ok::<(), epitome::session::SessionError>(())
//! ```
//!
//! Let a model of yours write the summary. The crate never calls one: it returns the request, and checks the answer:
//!
//! ```
//! use epitome::planner::{Draft, Planner, Questions};
//! use epitome::summary::{Finish, Progress, Reply, StructuredSummary};
//! # use epitome::{Compactor, Conversation, Limit, planner::PlanOptions, policy::preset};
//! # fn ask(system: Option<&str>, question: &str) -> String { r#"{"goal":"Keep the tests green."}"#.into() }
//! # let turns: Vec<String> = (0..400).map(|at| format!(r#"{{"role":"user","content":"Go on with module {at}."}},{{"role":"assistant","content":"Module {at} is ported and parses its header."}}"#)).collect();
//! # let session = format!("[{}]", turns.join(","));
//!
//! let mut writer = |planner: &Planner<'_>, draft: &Draft| -> Result<Option<StructuredSummary>, std::io::Error> {
//!     let questions = Questions { model: "my-model", ..Questions::default() };
//!     let Some(mut dialogue) = planner.dialogue(draft, &questions) else { return Ok(None) };
//!     while let Some(prompt) = dialogue.prompt() {
//!         let text = ask(prompt.system.as_deref(), &prompt.message);
//!         match dialogue.answer(&Reply { text: &text, finish: Finish::Stop }, planner.meter.counter()) {
//!             Progress::Done(done) => return Ok(Some(done.summary)),
//!             Progress::Refused(_) => return Ok(None), // the embedded summarizer writes instead
//!             Progress::Ask(_) | Progress::RollUp(_) => {}
//!         }
//!     }
//!     Ok(None)
//! };
//! # let conversation = Conversation::read(&session)?;
//! # let compactor = Compactor::new(&conversation, &preset("pi").unwrap(), Limit::budget(2_000), PlanOptions::default());
//! let fitted = compactor.run(&mut writer).unwrap().unwrap();
//! assert!(fitted.was_asked);
//! # Ok::<(), epitome::session::SessionError>(())
//! ```
//!
//! Keep a growing thread within its window, request by request; between compactions the prompt's prefix stays the same bytes:
//!
//! ```
//! use std::sync::Arc;
//!
//! use epitome::budget::{Meter, Tokens, counter_for};
//! use epitome::plan::Room;
//! use epitome::planner::{PlanOptions, Planner};
//! use epitome::thread::{Raw, Thread};
//! use epitome::wire::{Dialect, decode_message};
//! use epitome::policy::preset;
//!
//! let (policy, counter) = (preset("ladder").unwrap(), counter_for(Some("gpt-4o")));
//! let meter = Meter::new(&*counter, Dialect::Chat);
//! let room = Room::in_window(&policy, Tokens::new(8_000), Tokens::ZERO);
//! let (mut thread, mut options) = (Thread::new(), PlanOptions::default());
//! for at in 0..600 {
//!     let json = format!(r#"{{"role":"user","content":"message {at}: {}"}}"#, "some words ".repeat(8));
//!     thread.append(decode_message(Dialect::Chat, &Raw::whole(json.as_str())), &meter);
//!     if let Some(compaction) = Planner::new(&thread, &policy, meter, room, &options).compact() {
//!         options.previous = Some(Arc::new(compaction));
//!     }
//!     let prompt = Planner::new(&thread, &policy, meter, room, &options).render(options.previous.as_deref(), &[]);
//!     assert!(prompt.tokens(&thread, meter) <= room.limit);
//! }
//! assert!(options.previous.is_some());
//! ```
//!
//! Check a request by the provider's own rules before it is sent:
//!
//! ```
//! use epitome::wire::{Dialect, LastExchange, check};
//!
//! let request = serde_json::json!({"model": "gpt-4o", "messages": [
//!     {"role": "user", "content": "hello"},
//!     {"role": "tool", "tool_call_id": "call_1", "content": "nobody asked for this"},
//! ]});
//! let violations = check(Dialect::Chat, &request, LastExchange::Open);
//! assert!(!violations.is_empty());
//! ```

mod compactor;
mod conversation;
mod message;
mod named_enum;

pub mod budget;
pub mod files;
pub mod plan;
pub mod planner;
pub mod policy;
pub mod render;
pub mod session;
pub mod summary;
pub mod table;
pub mod thread;
pub mod wire;

pub use compactor::{
    BelowFloor, CompactError, Compacted, Compactor, CompactorError, Fitted, Limit, SummaryWriter, compact, embedded,
};
pub use conversation::{Conversation, CountFor};
