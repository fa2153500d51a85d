//! The gateway's own tools, and the MCP server that offers them.

#![allow(clippy::unwrap_used)]

mod client;
mod http;
mod stdio;
mod tools;
mod world;
