//! A line to one contestant: one connection, one request at a time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::Outcome;

const PATH: &str = "/v1/chat/completions";

/// A connection to a contestant.
pub struct Line {
    /// What it is called.
    pub name: String,
    host: String,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// How long one request took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Until the first byte of the answer's body.
    pub first: Duration,
    /// Until the first byte of what the model says, where it streams.
    pub token: Duration,
    /// Until its last byte.
    pub all: Duration,
}

impl Line {
    /// A line as it is named on the command line: `NAME=http://HOST:PORT`.
    pub fn to(way: &str) -> Outcome<Line> {
        let (name, url) = way.split_once('=').ok_or("a contestant is NAME=URL")?;
        Ok(Line { name: name.to_owned(), host: host(url)?, sender: None })
    }

    /// Sends a body and reads the answer.
    pub async fn ask(&mut self, body: &Bytes) -> Outcome<Took> {
        let mut sender = match self.sender.take().filter(|sender| !sender.is_closed()) {
            Some(sender) => sender,
            None => connect(&self.host).await?,
        };
        sender.ready().await?;
        let request = request(&self.host, body)?;
        let started = Instant::now();
        let response = sender.send_request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        let (mut first, mut token, mut answer) = (None, None, Vec::new());
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                first.get_or_insert_with(|| started.elapsed());
                answer.extend_from_slice(&data);
                if token.is_none() && speaks(&answer) {
                    token = Some(started.elapsed());
                }
            }
        }
        let all = started.elapsed();
        if !status.is_success() {
            return Err(format!("{} answered {status}: {}", self.name, String::from_utf8_lossy(&answer)).into());
        }
        self.sender = Some(sender);
        Ok(Took { first: first.unwrap_or(all), token: token.unwrap_or(all), all })
    }
}

/// Whether an event of a stream has something of the model's in it.
fn speaks(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    text.match_indices("\"content\":\"").any(|(at, found)| !text[at + found.len()..].starts_with('"'))
}

/// The host and port of an address.
pub fn host(url: &str) -> Outcome<String> {
    Ok(url.strip_prefix("http://").ok_or("an address begins with http://")?.trim_end_matches('/').to_owned())
}

/// A connection.
pub async fn connect(host: &str) -> Outcome<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(host).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// A request with a body.
pub fn request(host: &str, body: &Bytes) -> Outcome<Request<Full<Bytes>>> {
    let request = Request::post(PATH)
        .header("host", host)
        .header("authorization", "Bearer sk-bench")
        .header("content-type", "application/json")
        .header("user-agent", "load/1");
    Ok(request.body(Full::new(body.clone()))?)
}
