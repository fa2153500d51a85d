//! Recall over a hundred thousand messages, against the bare full-text query on the same file.

use std::path::Path;
use std::time::Instant;

use epitome::budget::Meter;
use epitome::thread::{Raw, Thread};
use epitome::wire::{Dialect, decode_message};
use epitome_runtime::engine::{Engine, OpenThread, StepRequest};
use epitome_runtime::ids::Moment;
use epitome_runtime::log::{total, words_of};
use epitome_runtime::recall::index_rows;
use epitome_runtime::store::Write;
use epitome_runtime::vault::Keys;
use rusqlite::Connection;

use crate::Outcome;
use crate::house::{House, open};
use crate::speech::{Speech, said};
use crate::table::{Table, Times};

const MESSAGES: usize = 100_000;
const WORDS: usize = 60;
const BATCH: usize = 4_000;
/// As many as recall itself looks at.
const CANDIDATES: i64 = 44;
const BARE: &str = "SELECT rowid, bm25(search) AS fit FROM search WHERE search MATCH ? ORDER BY fit LIMIT ?";

/// Measures several queries.
pub async fn measure(folder: &Path, table: &mut Table) -> Outcome<()> {
    let house = House::new(folder, "recall")?;
    let engine = house.engine(200_000, Keys::none()).await?;
    let mut thread = filled(&engine).await?;
    let bare = house.bare_reader()?;
    let mut speech = Speech::new(5);
    for (name, ranks, rounds) in [
        ("a rare word", &[3_011][..], 200),
        ("a word of one message in twenty", &[151], 100),
        ("the commonest word", &[0], 10),
        ("three words", &[41, 211, 5_013], 60),
    ] {
        let words: Vec<String> = ranks.iter().map(|rank| speech.word(*rank)).collect();
        query(&bare, &mut thread, (name, &words), rounds, &mut speech, table).await?;
    }
    drop((thread, engine, bare));
    house.leave()
}

async fn query(
    bare: &Connection,
    thread: &mut OpenThread,
    (name, words): (&str, &[String]),
    rounds: usize,
    speech: &mut Speech,
    table: &mut Table,
) -> Outcome<()> {
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let (asked, matched) = (words.join(" "), quoted.join(" OR "));
    let (mut hits, mut rows) = (0, 0);
    for _ in 0..rounds {
        speech.pause();
        let start = Instant::now();
        rows = bare_query(bare, &matched)?;
        theirs.add(start.elapsed());
        speech.pause();
        let start = Instant::now();
        hits = thread.recall(&asked).await?.hits.len();
        ours.add(start.elapsed());
    }
    if hits == 0 || rows == 0 {
        return Err(format!("nothing was found by {asked}").into());
    }
    let details = format!("{ours} to {theirs}; {hits} passages of {rows} candidates");
    table.ratio(format!("recall, {name}: of the bare query"), ours.of(&theirs), 3.0, details);
    Ok(())
}

fn bare_query(conn: &Connection, matched: &str) -> Outcome<usize> {
    let mut select = conn.prepare_cached(BARE)?;
    let found = select.query_map((matched, CANDIDATES), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?)))?;
    Ok(found.collect::<Result<Vec<_>, _>>()?.len())
}

/// A thread of many messages, nearly all of them compacted and in the index.
async fn filled(engine: &Engine) -> Outcome<OpenThread> {
    let key = open(engine, "long").await?.key().clone();
    let (log, meter) = (engine.log(), Meter::new(&**engine.counter(), Dialect::Chat));
    let (mut speech, mut thread) = (Speech::new(3), Thread::new());
    while thread.len() < MESSAGES {
        let from = thread.len();
        let new = (from..from + BATCH).map(|at| said(["user", "assistant"][at % 2], &speech.words(WORDS)));
        thread.extend(new.map(|json| decode_message(Dialect::Chat, &Raw::whole(json))).collect(), &meter);
        let new = &thread.messages()[from..];
        let messages: Vec<_> =
            new.iter().map(|message| log.message_row(&key, message, &[], None, Moment::now())).collect();
        let passages = |(place, message): (usize, &std::sync::Arc<epitome::thread::Message>)| {
            index_rows(log.vault(), &key.tenant, (from + place) as u64, &words_of(message.parts()))
        };
        let rows = new.iter().enumerate().flat_map(passages).collect();
        let tokens = total(&messages);
        let append = Write::Append { key: key.clone(), messages, tokens };
        log.apply(&[append, Write::Index { key: key.clone(), rows }]).await?;
    }
    let mut thread = open(engine, "long").await?;
    let step = thread.prepare_step(&StepRequest::default()).await?;
    step.compacted.ok_or("a thread of so many messages is compacted")?;
    Ok(thread)
}
