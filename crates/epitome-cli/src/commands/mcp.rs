//! `epitome mcp`: an MCP server on standard input and output, until the client closes it or a signal stops it.
//!
//! Standard output carries the protocol alone; everything else goes to standard error.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_gateway::mcp::{Server, Session, serve_stdio};
use epitome_gateway::serve::signaled;
use epitome_gateway::tools::Caps;
use epitome_runtime::artifact::Access;
use epitome_runtime::sentence;
use serde_json::json;

use crate::cli::McpArgs;
use crate::cli_config::{CliConfig, Flags};
use crate::failure::{Answer, Exit, Failure, Result};
use crate::open_store::{OpenStore, runtime, thread_id};
use crate::progress::Progress;
use crate::telemetry::{self, say};

pub fn run(args: &McpArgs, config: Option<&Path>, json: bool, progress: Progress) -> Result<Answer> {
    drop(progress);
    let runtime = runtime()?;
    let served = runtime.block_on(serve(args, config, json));
    // A read of standard input in progress cannot be canceled.
    runtime.shutdown_background();
    served.map(|()| Answer { data: Some(String::new()), ..Answer::new("", json!({"served": true})) })
}

async fn serve(args: &McpArgs, config: Option<&Path>, json: bool) -> Result<()> {
    let thread = args.thread.as_deref().map(thread_id).transpose()?;
    let config = CliConfig::load(config, Flags::of_store(&args.store_options))?;
    let exporter = telemetry::start(&config, json)?;
    let parts = config.values().parts(&config.environment).await?;
    if let Some(line) = config.summarizer_line().filter(|_| !json) {
        say(&line);
    }
    let store = OpenStore::from_parts(config, parts).await?;
    let session = Session { access: Access::owner(store.access.tenant.clone(), "mcp"), thread };
    let caps = Caps { read_tokens_max: Tokens::new(args.read_tokens) };
    // Without an embedding endpoint there is nothing to do for it.
    let worker = store.engine.embed_in_background();
    let server = Server::new(store.engine.clone(), caps, session);
    let served = tokio::select! {
        served = serve_stdio(server) => served,
        () = signaled() => Ok(()),
    };
    // What it was at is found again: a client that leaves is not to wait for it.
    drop(worker);
    drop(exporter);
    served.map_err(|error| Failure::new(Exit::CannotWrite, sentence(&error)))
}
