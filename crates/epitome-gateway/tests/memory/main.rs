//! Memory: what the gateway takes follows what arrived and the limits that were set, never what somebody announced, packed
//! or goes on sending. Every byte that this process allocates is counted; the provider and the clients here hold next to
//! nothing.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]

#[allow(dead_code, reason = "the tests of the proxy use the rest")]
#[path = "../proxy/world.rs"]
mod world;

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use epitome_gateway::settings::Settings;
use peak_alloc::PeakAlloc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use world::{Gate, Plan, SOON};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Runs a test alone, and until nothing of it is left: there is one count for all of them.
fn alone(test: impl Future<Output = ()>) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

const MB: usize = 1 << 20;
const REQUEST: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]"#;
/// Waits for as long as a body may, at most.
const LONG: Duration = Duration::from_secs(120);

/// The bytes that something takes at its worst, beyond what there was before. `--nocapture` shows them.
#[allow(clippy::print_stdout, reason = "the figures are what it is about")]
async fn peak_of<T>(what: &str, work: impl Future<Output = T>) -> (usize, T) {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let done = work.await;
    let peak = ALLOCATOR.peak_usage().saturating_sub(before);
    println!("{what}: {:.1} MB", peak as f64 / MB as f64);
    (peak, done)
}

async fn gate(upstream: &str, change: impl FnOnce(&mut Settings)) -> Gate {
    Plan::new().settings(change).gate(upstream).await
}

/// A provider that takes requests and answers none. How many it has.
async fn silent() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut piece = [0; 4096];
                let mut is_first = true;
                while stream.read(&mut piece).await.is_ok_and(|read| read > 0) {
                    count.fetch_add(usize::from(std::mem::take(&mut is_first)), Ordering::SeqCst);
                }
            });
        }
    });
    (url, taken)
}

/// A provider that answers each request with a head, and then these bytes so many times.
async fn talkative(head: &'static str, bytes: Vec<u8>, times: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let bytes = Arc::new(bytes);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let bytes = Arc::clone(&bytes);
            tokio::spawn(async move {
                let mut piece = [0; 4096];
                let _ = stream.read(&mut piece).await;
                let _ = stream.write_all(head.as_bytes()).await;
                for _ in 0..times {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

fn head(content: &str, length: usize) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{content}content-length: {length}\r\nconnection: close\r\n\r\n"
    )
}

/// The status of an answer, once it is there. What follows is read and thrown away; how much there was of it.
async fn answer_of(stream: &mut TcpStream) -> (u16, usize) {
    let (mut first, mut bytes) = (Vec::new(), 0);
    let mut piece = vec![0; 64 << 10];
    loop {
        let read = tokio::time::timeout(LONG, stream.read(&mut piece)).await.expect("an answer");
        let Ok(count) = read else { break };
        if count == 0 {
            break;
        }
        if first.len() < 16 {
            first.extend_from_slice(&piece[..count.min(16)]);
        }
        bytes += count;
    }
    let status = String::from_utf8_lossy(&first).split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.unwrap_or(0), bytes)
}

#[test]
fn what_is_announced_takes_nothing_before_it_comes() {
    alone(async {
        const CONNECTIONS: usize = 40;
        const SENT: usize = 30_000;
        let (upstream, _) = silent().await;
        let gate = gate(&upstream, |settings| settings.serve.body_timeout_s.0 = Duration::from_secs(2)).await;
        let piece = vec![b' '; SENT / 3];
        let (peak, statuses) = peak_of("40 bodies of 30 KB, 63 MB announced", async {
            let mut streams = Vec::new();
            for _ in 0..CONNECTIONS {
                let mut stream = gate.connect().await;
                stream.write_all(head("", 63_000_000).as_bytes()).await.unwrap();
                streams.push(stream);
            }
            for _ in 0..3 {
                for stream in &mut streams {
                    stream.write_all(&piece).await.unwrap();
                }
                // Each comes as a piece of its own.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let mut statuses = Vec::new();
            for stream in &mut streams {
                statuses.push(answer_of(stream).await.0);
            }
            statuses
        })
        .await;
        assert_eq!(statuses, [408; CONNECTIONS], "each was taken in, and then not waited for");
        assert!(peak < 10 * CONNECTIONS * SENT, "{CONNECTIONS} times {SENT} bytes took {peak}");
    });
}

#[test]
fn all_bodies_together_take_what_they_may_and_the_others_are_told_to_come_back() {
    alone(async {
        const CONNECTIONS: usize = 40;
        let (upstream, taken) = silent().await;
        let gate = gate(&upstream, |settings| {
            settings.serve.body_timeout_s.0 = Duration::from_secs(3);
            settings.serve.body_memory_mb_max.0 = 8 * MB;
        })
        .await;
        let (peak, statuses) = peak_of("40 bodies of 4 MB within 8 MB", async {
            let mut clients = tokio::task::JoinSet::new();
            for _ in 0..CONNECTIONS {
                let mut stream = gate.connect().await;
                clients.spawn(async move {
                    let _ = stream.write_all(head("", 6 * MB).as_bytes()).await;
                    let piece = vec![b' '; 64 << 10];
                    for _ in 0..64 {
                        if stream.write_all(&piece).await.is_err() {
                            break;
                        }
                    }
                    answer_of(&mut stream).await.0
                });
            }
            clients.join_all().await
        })
        .await;
        // Some who are refused while they write learn it by a connection that is closed.
        assert!(statuses.contains(&503), "{statuses:?}");
        assert!(statuses.iter().all(|status| [503, 408, 0].contains(status)), "{statuses:?}");
        assert!(peak < 8 * MB * 3 + CONNECTIONS * MB / 2, "{CONNECTIONS} bodies of 4 MB within 8 MB took {peak}");
        // The room is free again.
        let mut stream = gate.connect().await;
        let body = format!("{REQUEST}}}");
        stream.write_all(format!("{}{body}", head("", body.len())).as_bytes()).await.unwrap();
        let began = std::time::Instant::now();
        while taken.load(Ordering::SeqCst) == 0 {
            assert!(began.elapsed() < SOON, "a small request does not go on");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// A request of so many bytes, packed in so many ways; nearly all of it is white space.
fn bombs(bytes: usize) -> Vec<(&'static str, Vec<u8>)> {
    let plain = format!("{REQUEST}{}}}", " ".repeat(bytes));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(plain.as_bytes()).unwrap();
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    deflate.write_all(plain.as_bytes()).unwrap();
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let brotli = match bytes == 7 * MB {
        true => BROTLI_7_MB,
        false => BROTLI_64_MB,
    };
    vec![
        ("gzip", gzip.finish().unwrap()),
        ("deflate", deflate.finish().unwrap()),
        ("zstd", ruzstd::encoding::compress_to_vec(plain.as_bytes(), level)),
        ("br", unhex(brotli)),
    ]
}

const BROTLI_7_MB: &str = "9b380070801c077633d7c06028162fefb5c85edad6d461e94b902e34a71cb01624515b16dc44ef393cfc72622dcd4de0c93860cbc8e10f23d569bcdcfbb7efc803";
const BROTLI_64_MB: &str = "cbffff3f801c07768ce3c52308f6e7b5c85edad604e9424b1d963ec738607dd8af6dd844f71c1e7e39b196e4c670320ee832b2f8c348751a1778fff71df1ffff0f7e0980382c02d0bdffe3ffff1ffc1200715800a07bffc7ffff3ff82500e2b00040f7fe8fffff7ff04b00c4610180eefd1fffffffe0970088c30200ddfb3ffeffffc12f0110870500baf77ffcffff835f02200e0b0074efff020700bf445f1da148004002";

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn a_packed_body_takes_what_is_worth_reading_of_it_and_all_of_them_what_they_may() {
    alone(async {
        const EACH: usize = 20;
        const LIMIT: usize = 64 * MB;
        for bytes in [7 * MB, 64 * MB] {
            let bombs = bombs(bytes);
            assert!(bombs.iter().all(|(_, packed)| packed.len() < 200_000), "they are small on the wire");
            for (packing, packed) in bombs {
                let (upstream, taken) = silent().await;
                let gate = gate(&upstream, |settings| settings.serve.body_memory_mb_max.0 = LIMIT).await;
                let (peak, _streams) = peak_of(&format!("{EACH} bodies of {bytes} bytes in {packing}"), async {
                    let mut streams = Vec::new();
                    for _ in 0..EACH {
                        let mut stream = gate.connect().await;
                        let head = head(&format!("content-encoding: {packing}\r\n"), packed.len());
                        stream.write_all(head.as_bytes()).await.unwrap();
                        stream.write_all(&packed).await.unwrap();
                        streams.push(stream);
                    }
                    let began = std::time::Instant::now();
                    while taken.load(Ordering::SeqCst) < EACH {
                        assert!(began.elapsed() < LONG, "{packing} of {bytes}: not all of them go on");
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    streams
                })
                .await;
                // Besides: what decoders hold, one for each thread that unpacks.
                assert!(peak < LIMIT + 64 * MB, "{EACH} bodies of {bytes} bytes in {packing} took {peak}");
            }
        }
    });
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const PACKED_STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
const PACKED_WHOLE: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n";
const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
const REFUSED: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";

/// What a request takes that is answered so, with the bytes that came back of the body.
async fn answered(what: &str, head_of_answer: &'static str, bytes: Vec<u8>, times: usize) -> (usize, usize) {
    let upstream = talkative(head_of_answer, bytes, times).await;
    let gate = gate(&upstream, |_| {}).await;
    let body = format!("{REQUEST}}}");
    let (peak, (status, came)) = peak_of(what, async {
        let mut stream = gate.connect().await;
        stream.write_all(format!("{}{body}", head("", body.len())).as_bytes()).await.unwrap();
        answer_of(&mut stream).await
    })
    .await;
    gate.flush().await;
    assert!([200, 400].contains(&status), "{status}");
    (peak, came)
}

#[test]
fn an_answer_passes_whole_and_little_of_it_is_kept() {
    alone(async {
        let event = |bytes: usize| {
            let text = "x".repeat(bytes);
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
            )
        };
        let gzip = |plain: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            gzip.write_all(plain).unwrap();
            gzip.finish().unwrap()
        };
        let spaces = vec![b' '; MB];
        for (what, head, bytes, times) in [
            ("a long stream", STREAM, event(50_000).into_bytes(), 200 * MB / 50_000),
            ("one event without end", STREAM, vec![b'x'; MB], 100),
            ("a stream that never speaks", STREAM, b": ping\n\n".repeat(MB / 8), 100),
            ("a packed stream", PACKED_STREAM, gzip(&event(10 * MB).into_bytes().repeat(20)), 1),
            ("a packed stream of nothing", PACKED_STREAM, gzip(&spaces.repeat(200)), 1),
            ("a whole answer", WHOLE, spaces.clone(), 100),
            ("a whole answer, packed", PACKED_WHOLE, gzip(&spaces.repeat(200)), 1),
            ("an error", REFUSED, spaces.clone(), 100),
        ] {
            let (sent, (peak, came)) = (bytes.len() * times, answered(what, head, bytes, times).await);
            assert!(came > sent, "{what}: {came} of {sent} bytes came through");
            assert!(peak < 64 * MB, "{what} of {sent} bytes took {peak}");
        }
    });
}
