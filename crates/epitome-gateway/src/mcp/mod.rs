//! The MCP server: what left a thread's prompts, for any client that speaks the Model Context Protocol.
//!
//! ```text
//! stdio            ──► Server ──► the thread ──► tools: read_artifact, recall, compact
//! POST /mcp, JSON  ──►   │                       resources: epitome://thread/{thread}/artifact/{id}
//!                        └ whose data: the access of the process, or of the request
//! ```
//!
//! It keeps no session: every request stands for itself, so that any of several gateways may answer it. It opens no
//! thread for who has no access to it, and says the same of one that is another tenant's as of one that there is not.

mod compact;
mod http;
mod resource;
mod server;
mod stdio;
mod thread;

pub use http::{Hosts, THREAD_HEADER, http_service};
pub use server::{Server, Session};
pub use stdio::{ServeError, serve, serve_stdio};
