//! `epitome mcp`: an MCP server on standard input and output, until the client closes it or somebody stops it.
//!
//! Standard output is the protocol's. Whatever else there is to say goes to standard error.

use std::io;
use std::path::Path;

use epitome::budget::Tokens;
use epitome_gateway::mcp::{Server, Session, serve_stdio};
use epitome_gateway::serve::signaled;
use epitome_gateway::tools::Caps;
use epitome_runtime::artifact::Access;
use serde_json::json;

use crate::cli::Mcp;
use crate::failure::{Answer, Exit, Failure, sentence};
use crate::open_store::{OpenStore, runtime, thread_id};
use crate::progress::Progress;
use crate::settings::{Configured, Flags};
use crate::telemetry;

/// Serves.
pub fn run(args: &Mcp, config: Option<&Path>, json: bool, progress: Progress) -> Result<Answer, Failure> {
    // It runs as long as its client: there is no end to wait for.
    drop(progress);
    let runtime = runtime()?;
    let served = runtime.block_on(serve(args, config, json));
    // A read of standard input that is under way cannot be called back.
    runtime.shutdown_background();
    served.map(|()| Answer { data: Some(String::new()), ..Answer::new("", json!({"served": true})) })
}

async fn serve(args: &Mcp, config: Option<&Path>, json: bool) -> Result<(), Failure> {
    let thread = args.thread.as_deref().map(thread_id).transpose()?;
    let store_args = &args.store_args;
    let flags =
        Flags::default().with("store.url", store_args.store.as_ref()).with("tenant.id", store_args.tenant.as_ref());
    let configured = Configured::load(config, flags)?;
    let exporter = telemetry::start(&configured, json)?;
    let parts = configured.config().parts(&configured.environment).await?;
    if let Some(writer) = configured.summary_writer().filter(|_| !json) {
        let _ = io::Write::write_all(&mut io::stderr(), writer.as_bytes());
    }
    let open_store = OpenStore::over(configured, parts).await?;
    let session = Session { access: Access::owner(open_store.access.tenant.clone(), "mcp"), thread };
    let caps = Caps { read_tokens_max: Tokens::new(args.read_tokens) };
    let server = Server::new(open_store.engine.clone(), caps, session);
    let served = tokio::select! {
        served = serve_stdio(server) => served,
        () = signaled() => Ok(()),
    };
    drop(exporter);
    served.map_err(|error| Failure::new(Exit::CannotWrite, sentence(&error)))
}
