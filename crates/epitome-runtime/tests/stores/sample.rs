//! Threads, messages and plans that differ by a number.

use epitome::budget::Tokens;
use epitome::thread::MessageId;
use epitome_runtime::ids::{Moment, TenantId, ThreadKey};
use epitome_runtime::store::{MessageRow, PlanRow, ThreadRow, Write};

pub fn key(thread: &str) -> ThreadKey {
    ThreadKey::new(TenantId::local(), thread.parse().expect("the name of a thread in a test is a name"))
}

pub fn create(key: &ThreadKey) -> Write {
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

pub fn message(place: u64, bytes: usize) -> MessageRow {
    MessageRow {
        place,
        id: MessageId::parse(&format!("{:064x}", place + 1)).expect("64 digits are an id"),
        turn: u32::try_from(place / 4).expect("a test has few turns"),
        part_tokens: vec![Tokens::new(place)],
        at: Moment(place.cast_signed()),
        body: format!("{place} ").into_bytes().into_iter().cycle().take(bytes).collect(),
    }
}

pub fn append(key: &ThreadKey, place: u64, bytes: usize) -> Write {
    Write::Append { key: key.clone(), messages: vec![message(place, bytes)], tokens: 1 }
}

pub fn plan(version: u64, body: &str) -> PlanRow {
    PlanRow {
        version,
        at: Moment(version.cast_signed()),
        covers: 0,
        live_from: 0,
        policy: "ladder 1".into(),
        before: 2,
        after: 1,
        compacted: vec![(0, 1)],
        body: body.as_bytes().to_vec(),
    }
}

pub fn commit(key: &ThreadKey, version: u64, body: &str) -> Write {
    Write::CommitPlan { key: key.clone(), plan: Box::new(plan(version, body)) }
}
