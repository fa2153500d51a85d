//! Many streams at once: how much memory a gateway takes while they are all open.

use std::time::Duration;

use http_body_util::BodyExt as _;

use crate::body::Conversation;
use crate::line::{connect, host, request};
use crate::{Outcome, say};

/// The most memory while they are open.
const MB_MAX: f64 = 300.0;
const BODY_BYTES: usize = 4096;
/// How many are begun before the next ones wait for a moment.
const AT_ONCE: usize = 50;

/// Opens so many streams, holds them until each has spoken, and looks at the process.
pub async fn measure(count: usize, pid: u32, url: &str) -> Outcome<Vec<String>> {
    let host = host(url)?;
    let before = resident_mb(pid)?;
    let mut open = Vec::with_capacity(count);
    let mut most = before;
    for at in 0..count {
        let body = Conversation::new(format!("stream{at}"), BODY_BYTES).request(true);
        let mut sender = connect(&host).await?;
        let asked = request(&host, &body)?;
        open.push(tokio::spawn(async move {
            let response = sender.send_request(asked).await?;
            let mut body = response.into_body();
            let first = body.frame().await.is_some_and(|frame| frame.is_ok());
            Ok::<_, hyper::Error>((sender, body, first))
        }));
        if at % AT_ONCE == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            most = resident_mb(pid)?.max(most);
        }
    }
    let mut held = Vec::with_capacity(count);
    for stream in open {
        held.push(stream.await??);
    }
    most = resident_mb(pid)?.max(most);
    let spoken = held.iter().filter(|(.., first)| *first).count();
    let mut finished = 0;
    for (_sender, mut body, _) in held {
        let mut is_whole = true;
        while let Some(frame) = body.frame().await {
            is_whole &= frame.is_ok();
        }
        finished += usize::from(is_whole);
    }
    most = resident_mb(pid)?.max(most);
    say(&format!(
        "{count} streams at once: {spoken} open together, {finished} finished, {before:.0} MB before, {most:.0} MB at most"
    ));
    let mut misses = Vec::new();
    if spoken < count || finished < count {
        misses.push(format!("Only {spoken} of {count} streams were open and {finished} finished."));
    }
    if most > MB_MAX {
        misses.push(format!("{count} streams take {most:.0} MB; the target is at most {MB_MAX} MB."));
    }
    Ok(misses)
}

/// The memory that a process has resident.
fn resident_mb(pid: u32) -> Outcome<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kb: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kb / 1024.0)
}
