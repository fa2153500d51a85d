//! The gateway: stands in front of any provider, so that an agent's prompt never outgrows its window.
//!
//! ```text
//! client ──► proxy ──► identity ──► (plan) ──► upstream ──► stream ──► client
//!               │          │                                  │
//!               │          └ which thread is this?            └ usage ──► ledger
//!               └ under budget: the very bytes
//! ```
//!
//! It fails open: whatever breaks in here, the provider gets the request that the client sent.
//!
//! # A gateway in your own program
//!
//! A gateway is one value: it starts, serves on the current Tokio runtime, and stops. Its store is the engine's:
//!
//! ```
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use epitome_gateway::serve::{Gateway, Listening, Openness};
//! use epitome_gateway::settings::{Provider, Serve, Settings, Upstream, UpstreamRoute};
//! use epitome_runtime::engine::{Engine, EngineParts};
//! use epitome_runtime::event::CompactionMetrics;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let openai = Upstream { route: UpstreamRoute::Provider(Provider::OpenAi), url: "https://api.openai.com".parse()?, key: None };
//! let serve = Serve { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..Serve::default() };
//! let settings = Settings { serve, upstreams: vec![openai], ..Settings::default() };
//! let engine = Engine::new(EngineParts::in_memory(Default::default())).await?;
//! let listening = Listening::on(&settings, Openness::Local).await?;
//! println!("export OPENAI_BASE_URL={}/v1", listening.url());
//! let gateway = Gateway::start(Arc::new(settings), engine, Arc::new(CompactionMetrics::new()), listening);
//! let report = gateway.stop(Duration::from_secs(5)).await;
//! assert!(report.is_log_complete);
//! # Ok(())
//! # }
//! ```
//!
//! # What a client sees
//!
//! The provider's answer, and headers that say what was done. Here the provider is the mock, and a budget of 2 000 tokens is
//! too small for what is sent:
//!
//! ```
//! # use std::net::SocketAddr;
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use epitome::budget::Tokens;
//! # use epitome_gateway::serve::{Gateway, Listening, Openness};
//! # use epitome_gateway::settings::{Provider, Serve, Settings, Upstream, UpstreamRoute};
//! # use epitome_mock::{MockServer, MockSettings};
//! # use epitome_runtime::engine::{Engine, EngineParts};
//! # use epitome_runtime::event::CompactionMetrics;
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mock = MockServer::start(MockSettings::default())?;
//! # let openai = Upstream { route: UpstreamRoute::Provider(Provider::OpenAi), url: mock.url().parse()?, key: None };
//! # let listen = SocketAddr::from(([127, 0, 0, 1], 0));
//! let serve = Serve { budget: Some(Tokens::new(2_000)), listen, ..Serve::default() };
//! let settings = Settings { serve, upstreams: vec![openai], ..Settings::default() };
//! # let engine = Engine::new(EngineParts::in_memory(Default::default())).await?;
//! # let listening = Listening::on(&settings, Openness::Local).await?;
//! let url = format!("{}/v1/chat/completions", listening.url());
//! let gateway = Gateway::start(Arc::new(settings), engine, Arc::new(CompactionMetrics::new()), listening);
//! let turns: Vec<String> = (0..80)
//!     .map(|at| format!(r#"{{"role":"user","content":"Step {at}: port module {at}."}},{{"role":"assistant","content":"Module {at} is ported, and its tests pass. {}"}}"#, "It parses the header. ".repeat(5)))
//!     .collect();
//! let body = format!(r#"{{"model":"gpt-4o","messages":[{},{{"role":"user","content":"Go on."}}]}}"#, turns.join(","));
//! let answer = reqwest::Client::new().post(&url).header("authorization", "Bearer any").header("content-type", "application/json").body(body).send().await?;
//! let number = |name: &str| answer.headers()[name].to_str().unwrap().parse::<u64>().unwrap();
//! assert_eq!(answer.status(), 200);
//! assert!(number("x-epitome-tokens-after") < number("x-epitome-tokens-before"));
//! assert_eq!(number("x-epitome-plan"), 1);
//! assert!(mock.violations().is_empty(), "the mock checks every rule of the provider");
//! # gateway.stop(Duration::from_secs(5)).await;
//! # mock.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Under budget, the very bytes
//!
//! What fits passes untouched, and is kept in the log all the same:
//!
//! ```
//! # use std::net::SocketAddr;
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use epitome::budget::Tokens;
//! # use epitome_gateway::serve::{Gateway, Listening, Openness};
//! # use epitome_gateway::settings::{Provider, Serve, Settings, Upstream, UpstreamRoute};
//! # use epitome_mock::{MockServer, MockSettings};
//! # use epitome_runtime::engine::{Engine, EngineParts};
//! # use epitome_runtime::event::CompactionMetrics;
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mock = MockServer::start(MockSettings::default())?;
//! # let openai = Upstream { route: UpstreamRoute::Provider(Provider::OpenAi), url: mock.url().parse()?, key: None };
//! # let serve = Serve { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..Serve::default() };
//! # let settings = Settings { serve, upstreams: vec![openai], ..Settings::default() };
//! # let engine = Engine::new(EngineParts::in_memory(Default::default())).await?;
//! # let listening = Listening::on(&settings, Openness::Local).await?;
//! # let url = format!("{}/v1/chat/completions", listening.url());
//! # let gateway = Gateway::start(Arc::new(settings), engine, Arc::new(CompactionMetrics::new()), listening);
//! let body = r#"{ "model": "gpt-4o",  "messages": [ {"role": "user", "content": "hello"} ] }"#;
//! let answer = reqwest::Client::new().post(&url).header("authorization", "Bearer any").header("content-type", "application/json").body(body).send().await?;
//! assert_eq!(answer.status(), 200);
//! assert_eq!(mock.requests().last().unwrap().body, body.as_bytes());
//! # gateway.stop(Duration::from_secs(5)).await;
//! # mock.stop().await;
//! # Ok(())
//! # }
//! ```

pub mod api;
mod body_memory;
mod caller;
mod fail_open;
mod identity;
pub mod ledger;
pub mod mcp;
mod own_tools;
pub mod policy;
pub mod proxy;
mod refusal;
mod running;
pub mod serve;
pub mod settings;
pub mod sse;
pub mod tools;
mod upstream;

pub use running::{RunningGateway, StopReport};
