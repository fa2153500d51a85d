//! A server of a few lines: it answers each request with the next of its replies, the last one for ever.
//!
//! It understands just enough of HTTP to be asked; it keeps what it was asked and tells when a client goes away.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What is sent for one request.
#[derive(Clone, Debug)]
pub struct Reply {
    head: String,
    chunks: Vec<Vec<u8>>,
    pause: Duration,
    end: End,
}

/// What happens after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The response is complete.
    Close,
    /// The connection breaks in the middle of the response.
    Break,
    /// Nothing, until the client goes away.
    Hang,
}

impl Reply {
    pub fn json(status: u16, body: &str) -> Self {
        Reply::new(status, "application/json", body)
    }

    pub fn events(body: &str) -> Self {
        Reply::new(200, "text/event-stream", body)
    }

    pub fn hang() -> Self {
        Reply { head: String::new(), ..Reply::new(200, "", "") }.and_hang()
    }

    pub fn new(status: u16, kind: &str, body: &str) -> Self {
        let head = format!("HTTP/1.1 {status} -\r\ncontent-type: {kind}\r\nconnection: close\r\n");
        Reply { head, chunks: vec![body.as_bytes().to_vec()], pause: Duration::ZERO, end: End::Close }
    }

    pub fn header(mut self, line: &str) -> Self {
        self.head += &format!("{line}\r\n");
        self
    }

    /// The body in pieces of so many bytes, wherever they fall.
    pub fn in_pieces(mut self, bytes: usize) -> Self {
        self.chunks = self.chunks.concat().chunks(bytes).map(<[u8]>::to_vec).collect();
        self
    }

    /// A pause before each piece of the body.
    pub fn slowly(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    pub fn and_break(mut self) -> Self {
        self.head += "transfer-encoding: chunked\r\n";
        let chunk = |bytes: &Vec<u8>| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.chunks = self.chunks.iter().map(chunk).collect();
        self.end = End::Break;
        self
    }

    pub fn and_hang(mut self) -> Self {
        self.end = End::Hang;
        self
    }
}

/// A server on the loopback, for as long as it is held.
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<String>>>,
    gone: mpsc::UnboundedReceiver<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (tell, gone) = mpsc::unbounded_channel();
        let mut replies: VecDeque<Reply> = replies.into_iter().collect();
        let kept = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let reply = if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() };
                let reply = reply.expect("there is a reply");
                tokio::spawn(serve(stream, reply, Arc::clone(&kept), tell.clone()));
            }
        });
        Server { url, asked, gone, task }
    }

    /// The requests so far: head and body.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until a client has gone away from a reply that hangs.
    pub async fn client_gone(&mut self) {
        tokio::time::timeout(Duration::from_secs(30), self.gone.recv()).await.expect("the client should go away");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, reply: Reply, asked: Arc<Mutex<Vec<String>>>, gone: mpsc::UnboundedSender<()>) {
    stream.set_nodelay(true).unwrap();
    let request = read(&mut stream).await;
    asked.lock().unwrap().push(request);
    let head = if reply.head.is_empty() { String::new() } else { format!("{}\r\n", reply.head) };
    if stream.write_all(head.as_bytes()).await.is_err() {
        return;
    }
    for chunk in &reply.chunks {
        if !reply.pause.is_zero() {
            tokio::time::sleep(reply.pause).await;
        }
        if stream.write_all(chunk).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
    if reply.end == End::Hang {
        let _ = stream.read(&mut [0; 1]).await;
        let _ = gone.send(());
    }
}

/// One request: its head, and as much of a body as it names.
async fn read(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let named = |line: &str| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
            if body.len() >= head.lines().find_map(named).unwrap_or(0) {
                return text;
            }
        }
        let mut more = [0; 16 * 1024];
        match stream.read(&mut more).await {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&more[..count]),
        }
    }
}
