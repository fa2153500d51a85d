//! Performs what the core plans: keeps threads, asks models, works in the background.
//!
//! The core ([`epitome`]) decides, as data, what a model sees next, and touches nothing. This crate does the touching: a
//! [`store`] keeps threads, plans and jobs (in memory, SQLite, Postgres); [`artifact`] keeps the bytes that leave a prompt; a
//! [`model`] writes summaries; an [`event`] tells listeners what happened. The [`engine`] is the one type a program uses.
//!
//! # A loop that never outgrows its window
//!
//! Append what was said, prepare the prompt, send it, append the answer. The compaction happens on the way:
//!
//! ```
//! use epitome::{budget::Tokens, policy::preset, wire::Dialect};
//! use epitome_runtime::artifact::Access;
//! use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, StepRequest};
//! use epitome_runtime::ids::{TenantId, ThreadId};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = EngineSettings { window: Some(Tokens::new(6_000)), ..EngineSettings::new(preset("ladder").ok_or("no preset")?) };
//! let engine = Engine::new(EngineParts::in_memory(settings)).await?;
//! let access = Access::owner(TenantId::local(), "my-service");
//! let mut thread = engine.open(&access, ThreadId::new(), Dialect::Chat).await?;
//! for turn in 0..60 {
//!     let asked = format!(r#"{{"role":"user","content":"Turn {turn}: {}"}}"#, "the river is high today. ".repeat(20));
//!     thread.append([asked.as_str()]).await?;
//!     let step = thread.prepare_step(&StepRequest::default()).await?;
//!     assert!(step.tokens <= Tokens::new(6_000));
//!     // … send `step.messages` to the provider …
//!     thread.append([r#"{"role":"assistant","content":"Noted."}"#]).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Words that must not get lost
//!
//! A pin is in every later prompt, verbatim, however often the thread is compacted:
//!
//! ```
//! # use epitome::{budget::Tokens, policy::preset, wire::Dialect};
//! # use epitome_runtime::artifact::Access;
//! # use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, StepRequest};
//! # use epitome_runtime::ids::{TenantId, ThreadId};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let engine = Engine::new(EngineParts::in_memory(EngineSettings::new(preset("ladder").ok_or("no preset")?))).await?;
//! # let access = Access::owner(TenantId::local(), "my-service");
//! let mut thread = engine.open(&access, "orders".parse::<ThreadId>()?, Dialect::Chat).await?;
//! for turn in 0..40 {
//!     let asked = format!(r#"{{"role":"user","content":"Turn {turn}: {}"}}"#, "the river is high today. ".repeat(20));
//!     thread.append([asked.as_str()]).await?;
//!     thread.append([r#"{"role":"assistant","content":"Noted."}"#]).await?;
//! }
//! let request = StepRequest {
//!     pins: vec!["Never call the staging API.".into()],
//!     budget: Some(Tokens::new(2_000)),
//!     force: true,
//!     ..StepRequest::default()
//! };
//! let step = thread.prepare_step(&request).await?;
//! let compaction = step.compaction().ok_or("it was forced")?;
//! assert!(compaction.receipt.entries.len() > 0);
//! assert!(step.messages.iter().any(|message| message.as_str().contains("Never call the staging API.")));
//! # Ok(())
//! # }
//! ```
//!
//! # Nothing is lost
//!
//! What left the prompt is read back by its number, or searched. With a file as the store, it is there after a restart:
//!
//! ```
//! # use epitome::{budget::Tokens, policy::preset, wire::Dialect};
//! # use epitome_runtime::artifact::Access;
//! # use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, StepRequest};
//! # use epitome_runtime::ids::{TenantId, ThreadId};
//! use std::sync::Arc;
//!
//! use epitome_runtime::store::SqliteStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("epitome-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let settings = EngineSettings::new(preset("ladder").ok_or("no preset")?);
//! let parts = EngineParts { store: Arc::new(SqliteStore::open(folder.join("threads.db"))?), ..EngineParts::in_memory(settings) };
//! let engine = Engine::new(parts).await?;
//! # let access = Access::owner(TenantId::local(), "my-service");
//! let mut thread = engine.open(&access, "talk".parse::<ThreadId>()?, Dialect::Chat).await?;
//! thread.append([r#"{"role":"user","content":"The harbor code is V-17."}"#]).await?;
//! for turn in 0..40 {
//!     let said = format!(r#"{{"role":"assistant","content":"Reading {turn}: {}"}}"#, "all is well. ".repeat(40));
//!     thread.append([said.as_str(), r#"{"role":"user","content":"Go on."}"#]).await?;
//! }
//! let request = StepRequest { budget: Some(Tokens::new(1_500)), force: true, ..StepRequest::default() };
//! thread.prepare_step(&request).await?;
//! assert!(thread.read_message("m2", None).await?.contains("Reading 0"));
//! assert!(!thread.recall("Reading 3").await?.hits.is_empty());
//! # std::fs::remove_dir_all(folder)?;
//! # Ok(())
//! # }
//! ```

pub mod artifact;
pub mod config;
pub mod engine;
pub mod event;
pub mod ids;
pub mod log;
pub mod model;
pub mod recall;
pub mod rehydrate;
mod sentence;
pub mod store;
pub mod summarize;
mod tls;
pub mod upkeep;
pub mod vault;

pub use epitome::named_enum;
pub use sentence::sentence;
