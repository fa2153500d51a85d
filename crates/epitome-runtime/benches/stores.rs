//! What the SQLite store costs beside SQLite itself: an append against a bare transaction with the same bytes, and a
//! search against the bare full-text query. Ratios, taken in turns in one run; `cargo bench -p epitome-runtime`.

#![allow(clippy::print_stdout, reason = "a table is what a benchmark is for")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use epitome::budget::Tokens;
use epitome::thread::MessageId;
use epitome_runtime::ids::{Moment, TenantId, ThreadKey};
use epitome_runtime::store::{IndexRow, MessageRow, SearchOrder, Segment, SqliteStore, Store, ThreadRow, Write};
use rusqlite::{Connection, params};

const ROUNDS: usize = 40;
const APPENDS: u64 = 50;
const BODY_BYTES: usize = 2_000;
const PASSAGES: u64 = 100_000;
const OTHER_THREADS: u64 = 50;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let folder = std::env::temp_dir().join(format!("epitome-bench-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
    println!("{:<52}{:>12}{:>12}{:>8}", "median", "bare", "store", "ratio");
    runtime.block_on(appends(folder.join("append.db"), folder.join("bare.db")));
    runtime.block_on(searches(folder.join("search.db"), folder.join("bare_search.db")));
    drop(std::fs::remove_dir_all(&folder));
}

fn row(name: &str, mut bare: Vec<Duration>, mut store: Vec<Duration>) {
    bare.sort_unstable();
    store.sort_unstable();
    let (bare, store) = (bare[bare.len() / 2], store[store.len() / 2]);
    println!("{name:<52}{bare:>12.1?}{store:>12.1?}{:>8.2}", store.as_secs_f64() / bare.as_secs_f64());
}

fn key(thread: &str) -> ThreadKey {
    ThreadKey::new(TenantId::local(), thread.parse().expect("it is a name"))
}

fn thread(key: &ThreadKey) -> Write {
    Write::CreateThread(Box::new(ThreadRow {
        key: key.clone(),
        created: Moment(0),
        updated: Moment(0),
        length: 0,
        tip: MessageId::ROOT,
        turn: 0,
        tokens: 0,
        version: 0,
        dialect: "chat".into(),
        counter: "o200k".into(),
        shared: Vec::new(),
        scope: String::new(),
        labels: Vec::new(),
    }))
}

fn message(place: u64) -> MessageRow {
    let (id, part_tokens) = (MessageId::ROOT, vec![Tokens::new(500)]);
    MessageRow { place, id, turn: 0, part_tokens, at: Moment(0), body: vec![7; BODY_BYTES] }
}

fn append(key: &ThreadKey, places: std::ops::Range<u64>) -> Write {
    Write::Append { key: key.clone(), messages: places.map(message).collect(), tokens: 1 }
}

async fn appends(file: PathBuf, bare_file: PathBuf) {
    let bare = bare_log(bare_file);
    let store = SqliteStore::open(file).expect("a new database can be opened");
    let key = key("appended");
    store.apply(&[thread(&key)]).await.expect("a thread can be made");
    let mut place = 0;
    let (plain, ours) = append_rounds(&bare, &store, &key, &mut place).await;
    row("append of 2 kB, short thread", plain, ours);
    for _ in 0..100 {
        store.apply(&[append(&key, place..place + 1_000)]).await.expect("messages can be appended");
        place += 1_000;
    }
    let (plain, ours) = append_rounds(&bare, &store, &key, &mut place).await;
    row("append of 2 kB, thread of 100 000", plain, ours);
}

async fn append_rounds(
    bare: &Connection,
    store: &SqliteStore,
    key: &ThreadKey,
    place: &mut u64,
) -> (Vec<Duration>, Vec<Duration>) {
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..APPENDS {
            let begun = Instant::now();
            bare_append(bare);
            plain.push(begun.elapsed());
        }
        for _ in 0..APPENDS {
            let write = [append(key, *place..*place + 1)];
            *place += 1;
            let begun = Instant::now();
            store.apply(&write).await.expect("a message can be appended");
            ours.push(begun.elapsed());
        }
    }
    (plain, ours)
}

fn bare_log(file: PathBuf) -> Connection {
    let conn = Connection::open(file).expect("a new database can be opened");
    let schema = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                  CREATE TABLE log (place INTEGER PRIMARY KEY, id BLOB, parts TEXT, body BLOB);";
    conn.execute_batch(schema).expect("a table can be made");
    conn
}

fn bare_append(conn: &Connection) {
    let inserted = (|| {
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        conn.prepare_cached("INSERT INTO log (id, parts, body) VALUES (?, ?, ?)")?.execute(params![
            [0_u8; 32],
            "[500]",
            vec![7_u8; BODY_BYTES]
        ])?;
        conn.prepare_cached("COMMIT")?.execute([])
    })();
    inserted.expect("a row can be inserted");
}

/// Words as frequent as words are: the n-th about 1/n of the time.
fn terms(seed: u64) -> Vec<String> {
    let mut state = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
        format!("w{}", 20_000_f64.powf(share) as u64)
    };
    (0..60).map(|_| word()).collect()
}

fn passages(from: u64, count: u64) -> Vec<IndexRow> {
    let of = |place| IndexRow { place, passage: 0, first_line: 1, last_line: 9, terms: terms(place) };
    (from..from + count).map(of).collect()
}

async fn searches(file: PathBuf, bare_file: PathBuf) {
    let store = SqliteStore::open(&file).expect("a new database can be opened");
    let own = key("searched");
    store.apply(&[thread(&own)]).await.expect("a thread can be made");
    for other in 0..OTHER_THREADS {
        let key = key(&format!("other{other}"));
        store.apply(&[thread(&key)]).await.expect("a thread can be made");
        let rows = passages(PASSAGES + other * 2_000, 2_000);
        store.apply(&[Write::Index { key, rows }]).await.expect("passages can be indexed");
        let rows = passages(other * 2_000, 2_000);
        store.apply(&[Write::Index { key: own.clone(), rows }]).await.expect("passages can be indexed");
    }
    let alone = bare_index(bare_file);
    let whole = Connection::open(&file).expect("a database can be opened twice");
    let segments = [Segment { thread: own.thread.clone(), until: PASSAGES }];
    let half = [Segment { thread: own.thread, until: PASSAGES / 2 }];
    for words in [&["w3000", "w7000", "w12000"][..], &["w40", "w200", "w5000"], &["w1", "w2", "w900"]] {
        let terms: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let query = words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" OR ");
        let (mut own_only, mut all, mut ours, mut ours_half) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..20 {
            own_only.push(bare_search(&alone, &query));
            all.push(bare_search(&whole, &query));
            ours.push(search(&store, &segments, &terms).await);
            ours_half.push(search(&store, &half, &terms).await);
        }
        row(&format!("search {words:?}, thread alone"), own_only, ours.clone());
        row(&format!("search {words:?}, whole database"), all.clone(), ours);
        row(&format!("search {words:?}, half of the thread"), all, ours_half);
    }
}

fn bare_index(file: PathBuf) -> Connection {
    let conn = Connection::open(file).expect("a new database can be opened");
    let filled = (|| {
        conn.execute_batch(
            "CREATE VIRTUAL TABLE search USING fts5 (terms, content = '', contentless_delete = 1); BEGIN",
        )?;
        for row in passages(0, PASSAGES) {
            conn.prepare_cached("INSERT INTO search (terms) VALUES (?)")?.execute([row.terms.join(" ")])?;
        }
        conn.execute_batch("COMMIT")
    })();
    filled.expect("an index can be filled");
    conn
}

fn bare_search(conn: &Connection, query: &str) -> Duration {
    let begun = Instant::now();
    let found = (|| {
        let sql = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY bm25(search) LIMIT 20";
        let mut select = conn.prepare_cached(sql)?;
        select.query_map([query], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()
    })();
    assert!(!found.expect("an index can be searched").is_empty());
    begun.elapsed()
}

async fn search(store: &SqliteStore, segments: &[Segment], terms: &[String]) -> Duration {
    let begun = Instant::now();
    let found = store
        .search(&TenantId::local(), segments, terms, SearchOrder::Best, 20)
        .await
        .expect("an index can be searched");
    assert!(!found.is_empty());
    begun.elapsed()
}
