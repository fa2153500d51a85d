//! A process that is killed while it writes, again and again: what was acknowledged is there, and nothing is torn.
//! `STORE_KILLS` says how often; 200 times unless it is set.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write as _};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use epitome_runtime::store::{Store, Write};

use crate::process::{Shared, store_of_second};
use crate::sample::{append, commit, create, key, message, plan};

const KILL_AFTER_MS: std::ops::Range<u64> = 20..200;
const FIRST_LINE_WAIT_MAX: Duration = Duration::from_secs(60);
const BODY_BYTES: usize = 2_000;

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_keeps_what_it_acknowledged_over_many_kills() {
    killed_again_and_again(Shared::sqlite, "crash::sqlite_keeps_what_it_acknowledged_over_many_kills").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_keeps_what_it_acknowledged_over_many_kills() {
    killed_again_and_again(Shared::postgres, "crash::postgres_keeps_what_it_acknowledged_over_many_kills").await;
}

async fn killed_again_and_again(shared: fn() -> Shared, test: &str) {
    if let Some(store) = store_of_second().await {
        return write_for_ever(&store).await;
    }
    let shared = shared();
    let mut known = Acknowledged::default();
    let kills = std::env::var("STORE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(200);
    for kill in 0..kills {
        // Half of the processes are killed wherever they are, half of them while they write.
        let told = Acknowledged::told_by(kill_soon(shared.second(test), kill % 2 == 0));
        known = Acknowledged { length: known.length.max(told.length), version: known.version.max(told.version) };
        known = still_there(&shared.open().await, &known).await;
    }
    assert!(known.length > kills / 2 && known.version > 0, "the killed processes wrote next to nothing: {known:?}");
    let all = shared.open().await.messages(&key("killed"), 0..u64::MAX).await.unwrap();
    assert!(all.into_iter().zip(0..).all(|(row, place)| row == message(place, BODY_BYTES)), "a message is torn");
}

/// What a process was told is written.
#[derive(Debug, Default)]
struct Acknowledged {
    length: u64,
    version: u64,
}

impl Acknowledged {
    fn told_by(lines: Vec<String>) -> Self {
        let mut told = Acknowledged::default();
        for line in lines {
            match line.split_once(' ') {
                Some(("length", number)) => told.length = number.parse().unwrap_or(told.length),
                Some(("version", number)) => told.version = number.parse().unwrap_or(told.version),
                _ => {}
            }
        }
        told
    }
}

/// The complete lines that the process wrote before it was killed. On a busy machine, minutes of kills may pass before a process
/// gets to write anything: where that is wanted, the time begins with its first line.
fn kill_soon(mut process: Child, writing: bool) -> Vec<String> {
    let span = KILL_AFTER_MS.end - KILL_AFTER_MS.start;
    let moment = KILL_AFTER_MS.start + RandomState::new().hash_one(0) % span;
    let output = process.stdout.take().expect("the process writes to a pipe");
    let (began, begins) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || complete_lines(BufReader::new(output), &began));
    if writing {
        begins.recv_timeout(FIRST_LINE_WAIT_MAX).expect("the process writes something");
    }
    std::thread::sleep(Duration::from_millis(moment));
    process.kill().expect("the process can be killed");
    process.wait().expect("the process has ended");
    reading.join().expect("the pipe can be read")
}

fn complete_lines(mut output: impl BufRead, began: &std::sync::mpsc::Sender<()>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if line.ends_with('\n') {
            lines.push(line.trim_end().to_owned());
            // Nobody listens any more once it has begun.
            let _ = began.send(());
        }
        line.clear();
    }
    lines
}

/// All that was acknowledged is there, in a row; what is there now is known from here on.
async fn still_there(store: &Arc<dyn Store>, known: &Acknowledged) -> Acknowledged {
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let Some(row) = store.thread(&key("killed")).await.unwrap() else {
        assert_eq!((known.length, known.version), (0, 0), "the thread is lost");
        return Acknowledged::default();
    };
    assert!(row.length >= known.length && row.version >= known.version, "{row:?} has lost something of {known:?}");
    let newest = store.messages(&key("killed"), known.length.saturating_sub(1)..row.length).await.unwrap();
    let places = known.length.saturating_sub(1)..row.length;
    assert_eq!(newest, places.map(|place| message(place, BODY_BYTES)).collect::<Vec<_>>());
    for version in [known.version, row.version].into_iter().filter(|version| *version > 0) {
        let wanted = plan(version, &format!("plan {version}"));
        assert_eq!(store.plan(&key("killed"), Some(version)).await.unwrap(), Some(wanted));
    }
    Acknowledged { length: row.length, version: row.version }
}

/// Appends and commits until it is killed, and tells each success to whoever reads.
async fn write_for_ever(store: &Arc<dyn Store>) {
    let key = key("killed");
    drop(store.apply(&[create(&key)]).await);
    loop {
        let row = store.thread(&key).await.unwrap().expect("the thread is there");
        let (place, version) = (row.length, row.version + 1);
        acknowledged(store, append(&key, place, BODY_BYTES), &format!("length {}", place + 1)).await;
        acknowledged(store, append(&key, place + 1, BODY_BYTES), &format!("length {}", place + 2)).await;
        acknowledged(store, commit(&key, version, &format!("plan {version}")), &format!("version {version}")).await;
    }
}

async fn acknowledged(store: &Arc<dyn Store>, write: Write, words: &str) {
    match store.apply(&[write]).await {
        Ok(()) => writeln!(std::io::stdout(), "{words}").expect("the pipe is read"),
        Err(error) => assert!(error.is_conflict(), "{error}"),
    }
}
