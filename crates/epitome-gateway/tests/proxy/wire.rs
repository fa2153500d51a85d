//! A provider that is only bytes: it keeps what it is sent as it came on the line, and says what it was told to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::world::SOON;

/// A provider that is only bytes.
pub struct Line {
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
    closed: Arc<Mutex<usize>>,
    task: JoinHandle<()>,
}

/// How it goes on after its words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It hangs up.
    Close,
    /// It says nothing more, and waits until the other side hangs up.
    Wait,
    /// It repeats the last bytes for ever.
    Flood,
}

impl Line {
    /// Says these bytes to whoever asks.
    pub async fn saying(bytes: impl Into<Vec<u8>>, then: Then) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, closed) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<usize>>::default());
        let (all, count, bytes) = (heard.clone(), closed.clone(), Arc::new(bytes.into()));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (all, count, bytes) = (all.clone(), count.clone(), bytes.clone());
                tokio::spawn(async move {
                    answer(stream, &all, &bytes, then).await;
                    *count.lock().unwrap() += 1;
                });
            }
        });
        Line { address, heard, closed, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was sent, as it came.
    pub fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// Waits until so many connections are over.
    pub async fn closed(&self, count: usize) {
        let over = async {
            while *self.closed.lock().unwrap() < count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(SOON, over).await.expect("the connection is closed soon");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(mut stream: TcpStream, heard: &Mutex<Vec<String>>, bytes: &[u8], then: Then) {
    let Some(request) = request(&mut stream).await else { return };
    heard.lock().unwrap().push(request);
    if stream.write_all(bytes).await.is_err() {
        return;
    }
    match then {
        Then::Close => {}
        Then::Wait => {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
        Then::Flood => {
            let piece = [b'x'; 4096];
            let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
            while stream.write_all(&chunk).await.is_ok() {}
        }
    }
}

/// One request with its body, by its length.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        all.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&all).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or(0) {
            return Some(text);
        }
    }
}
