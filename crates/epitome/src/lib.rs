//! epitome decides, as data, what a model sees next.
//!
//! A request is decoded into a [`thread`]; a [`budget`] is taken of it; a [`policy`] makes a [`plan`] of what to leave
//! out; the thread is rendered under the plan into a prompt. The crate is pure: it opens no file or socket, starts no
//! async task, reads no clock and draws no random number.
//!
//! ```
//! use epitome::budget::{Meter, Tokens, counter_for};
//! use epitome::plan::{PlanOptions, Planner, Room};
//! use epitome::policy::preset;
//! use epitome::thread::Thread;
//! use epitome::wire::Document;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let request = r#"{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}"#;
//! let document = Document::decode(request, None)?;
//! let counter = counter_for(document.model());
//! let meter = Meter::new(&*counter, document.dialect());
//! let mut thread = Thread::new();
//! thread.extend(document.messages(), &meter);
//!
//! let policy = preset("ladder").ok_or("no such preset")?;
//! let room = Room::in_window(&policy, Tokens::new(128_000), Tokens::ZERO);
//! let options = PlanOptions::default();
//! let planner = Planner::new(&thread, &policy, meter, room, &options);
//! if let Some(compaction) = planner.compact() {
//!     let prompt = planner.render(Some(&compaction), &[]);
//!     let smaller = document.encode(&prompt.items(&thread));
//!     # let _ = smaller;
//! }
//! # Ok(())
//! # }
//! ```

pub mod budget;
pub mod plan;
pub mod policy;
pub mod render;
pub mod session;
pub mod summary;
pub mod thread;
pub mod wire;
