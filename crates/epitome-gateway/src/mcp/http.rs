//! The server over HTTP: one POST, one JSON answer, nothing kept in between.
//!
//! Who asks is decided for each request by the gateway. A page in a browser is turned away: by the host that it asked for,
//! where the gateway listens on the loopback alone, and by where it comes from in any case.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use epitome_runtime::artifact::Access;
use epitome_runtime::engine::Engine;
use epitome_runtime::ids::ThreadId;
use http::request::Parts;
use http::{StatusCode, header};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;

use super::server::{Server, Session};
use crate::tools::Caps;

/// The header that says which thread a client is about; `?thread=` says the same.
pub const THREAD_HEADER: &str = "x-epitome-thread";

/// The origins of pages that may talk to the server: this machine.
const LOOPBACK_ORIGINS: [&str; 6] = [
    "http://localhost:*",
    "https://localhost:*",
    "http://127.0.0.1:*",
    "https://127.0.0.1:*",
    "http://[::1]:*",
    "https://[::1]:*",
];

/// By which names the server may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Those of the loopback: what listens on nothing else is called nothing else.
    Loopback,
    /// These, each with or without a port.
    Named(Vec<String>),
    /// Any: for a server that is reached by names it does not know.
    Any,
}

impl Hosts {
    fn config(self) -> StreamableHttpServerConfig {
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_allowed_origins(LOOPBACK_ORIGINS);
        match self {
            Hosts::Loopback => config,
            Hosts::Named(names) => config.with_allowed_hosts(names),
            Hosts::Any => config.disable_allowed_hosts(),
        }
    }
}

/// The server as a service to be nested at `/mcp`. A request for which `who` finds nobody is answered with 401.
pub fn http_service<W>(engine: Engine, caps: Caps, hosts: Hosts, who: W) -> Router
where
    W: Fn(&Parts) -> Option<Access> + Clone + Send + Sync + 'static,
{
    let server = Server::for_requests(engine, caps);
    let made = move || Ok(server.clone());
    let service = StreamableHttpService::new(made, Arc::new(NeverSessionManager::default()), hosts.config());
    let admit = move |request: Request, next: Next| {
        let admitted = admitted(request, &who);
        async move {
            match admitted {
                Ok(request) => next.run(request).await,
                Err(refused) => *refused,
            }
        }
    };
    Router::new().fallback_service(service).layer(from_fn(admit))
}

/// A request with its session, if it has one.
fn admitted<W>(request: Request, who: &W) -> Result<Request, Box<Response>>
where
    W: Fn(&Parts) -> Option<Access>,
{
    let (mut parts, body) = request.into_parts();
    let access = who(&parts).ok_or_else(|| Box::new(unknown()))?;
    let thread = thread(&parts).map_err(|name| Box::new(no_name(&name)))?;
    parts.extensions.insert(Session { access, thread });
    Ok(Request::from_parts(parts, body))
}

/// The thread that a request is about, or what it said that cannot be one.
fn thread(parts: &Parts) -> Result<Option<ThreadId>, String> {
    let in_header =
        parts.headers.get(THREAD_HEADER).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let pairs = parts.uri.query().unwrap_or_default().split('&');
    let in_query = || pairs.filter_map(|pair| pair.strip_prefix("thread=")).next().map(decoded);
    match in_header.or_else(in_query).filter(|name| !name.is_empty()) {
        Some(name) => name.parse().map(Some).map_err(|_| name),
        None => Ok(None),
    }
}

/// A part of a query without its percent signs.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

fn unknown() -> Response {
    let said = json!({"error": {"message": "This endpoint needs a key of the gateway: send it as `x-epitome-key`, or as `Authorization: Bearer KEY`."}});
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, axum::Json(said)).into_response()
}

fn no_name(name: &str) -> Response {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    let said = json!({"error": {"message": format!("`{name}` is not the name of a thread.")}});
    (StatusCode::BAD_REQUEST, axum::Json(said)).into_response()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn a_name_in_a_query_reads_as_it_was_meant() {
        for (text, name) in [("a-b", "a-b"), ("a%3Ab", "a:b"), ("100%", "100%"), ("%zz%41", "%zzA"), ("", "")] {
            assert_eq!(decoded(text), name);
        }
    }
}
