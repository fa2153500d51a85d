//! Any sequence of writes gives the same answers in memory and in SQLite.

use std::sync::Arc;

use epitome_runtime::ids::{Moment, TenantId, ThreadKey};
use epitome_runtime::store::{
    ArtifactRow, DocumentKey, DocumentKind, EventRow, IndexRow, JobEnd, JobId, JobKind, Lease, MemoryStore, NewJob,
    SearchOrder, Segment, Sensitivity, SqliteStore, Store, StoreError, StoredVector, ThreadRow, VectorRow, Write,
};
use proptest::prelude::*;
use uuid::Uuid;

use crate::sample::{create, message, plan};

/// A step: a batch of writes, or something that changes a store otherwise.
#[derive(Clone, Debug)]
enum Step {
    Apply(Vec<Intent>),
    Claim { kind: u8, token: u8, now: i64, length: i64 },
    Vacuum(i64),
}

/// A write, with places and versions counted from where the thread stands.
#[derive(Clone, Debug)]
enum Intent {
    Create(u8),
    Fork { from: u8, to: u8 },
    Append { thread: u8, skip: u64, count: u64 },
    Commit { thread: u8, skip: u64 },
    Index { thread: u8, place: u64, passage: u32, words: Vec<u8> },
    DropIndex(u8),
    Vectors { thread: u8, place: u64, passage: u32, space: u8, sealed: bool },
    Label(u8, Vec<u8>),
    Put { name: u8, expected: Option<u64>, expires: Option<i64> },
    Remove(u8),
    Artifact { id: u8, tenant: u8, expires: Option<i64>, sensitivity: usize },
    RemoveArtifact { id: u8, tenant: u8 },
    Event(u8),
    Enqueue { id: u8, thread: u8, kind: u8, attempts_max: u32, due: i64 },
    Extend { id: u8, token: u8, until: i64 },
    Finish { id: u8, token: u8, again: Option<i64> },
    Reseal { thread: u8, what: u8, place: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => prop::collection::vec(intent(), 1..4).prop_map(Step::Apply),
        2 => (0..2_u8, any::<u8>(), 0..60_i64, 1..20_i64)
            .prop_map(|(kind, token, now, length)| Step::Claim { kind, token: token % 4, now, length }),
        1 => (0..60_i64).prop_map(Step::Vacuum),
    ];
    prop::collection::vec(step, 1..60)
}

fn intent() -> impl Strategy<Value = Intent> {
    let skip = || prop_oneof![6 => Just(0_u64), 1 => Just(1_u64)];
    let moment = || prop::option::of(0..60_i64);
    prop_oneof![
        2 => (0..6_u8).prop_map(Intent::Create),
        1 => (0..6_u8, 0..6_u8).prop_map(|(from, to)| Intent::Fork { from, to }),
        4 => (0..6_u8, skip(), 0..4_u64).prop_map(|(thread, skip, count)| Intent::Append { thread, skip, count }),
        3 => (0..6_u8, skip()).prop_map(|(thread, skip)| Intent::Commit { thread, skip }),
        3 => (0..6_u8, 0..4_u64, 0..2_u32, prop::collection::vec(0..5_u8, 0..6))
            .prop_map(|(thread, place, passage, words)| Intent::Index { thread, place, passage, words }),
        1 => (0..6_u8).prop_map(Intent::DropIndex),
        2 => (0..6_u8, 0..4_u64, 0..2_u32, 0..2_u8, any::<bool>()).prop_map(
            |(thread, place, passage, space, sealed)| Intent::Vectors { thread, place, passage, space, sealed }
        ),
        1 => (0..6_u8, prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(thread, bytes)| Intent::Label(thread, bytes)),
        3 => (0..4_u8, prop::option::of(0..3_u64), moment())
            .prop_map(|(name, expected, expires)| Intent::Put { name, expected, expires }),
        1 => (0..4_u8).prop_map(Intent::Remove),
        3 => (0..3_u8, 0..2_u8, moment(), 0..4_usize)
            .prop_map(|(id, tenant, expires, sensitivity)| Intent::Artifact { id, tenant, expires, sensitivity }),
        1 => (0..3_u8, 0..2_u8).prop_map(|(id, tenant)| Intent::RemoveArtifact { id, tenant }),
        2 => (0..6_u8).prop_map(Intent::Event),
        4 => (any::<u8>(), 0..6_u8, 0..2_u8, 0..3_u32, 0..40_i64)
            .prop_map(|(id, thread, kind, attempts_max, due)| Intent::Enqueue { id: id % 12, thread, kind, attempts_max, due }),
        1 => (any::<u8>(), any::<u8>(), 0..90_i64)
            .prop_map(|(id, token, until)| Intent::Extend { id: id % 12, token: token % 4, until }),
        3 => (any::<u8>(), any::<u8>(), moment())
            .prop_map(|(id, token, again)| Intent::Finish { id: id % 12, token: token % 4, again }),
        2 => (0..6_u8, 0..3_u8, 0..4_u64).prop_map(|(thread, what, place)| Intent::Reseal { thread, what, place }),
    ]
}

fn tenant(number: u8) -> TenantId {
    ["one", "two"][usize::from(number % 2)].parse().expect("it is a name")
}

/// Six threads, three to a tenant, under the same names.
fn thread(number: u8) -> ThreadKey {
    ThreadKey::new(tenant(number), ["a", "b", "c"][usize::from(number / 2 % 3)].parse().expect("it is a name"))
}

fn uuid(number: u8) -> Uuid {
    Uuid::from_u128(u128::from(number) + 1)
}

fn kind(number: u8) -> JobKind {
    JobKind::from_name(&format!("kind{number}"))
}

fn document(number: u8) -> DocumentKey {
    DocumentKey::new(tenant(number), DocumentKind::Memory, format!("name{}", number / 2))
}

async fn write(store: &MemoryStore, intent: &Intent) -> Write {
    let row = |number: u8| {
        let key = thread(number);
        async move { store.thread(&key).await.unwrap() }
    };
    match intent.clone() {
        Intent::Create(number) => create(&thread(number)),
        Intent::Fork { from, to } => {
            let (Write::CreateThread(mut fork), Some(parent)) = (create(&thread(to)), row(from).await) else {
                return create(&thread(to));
            };
            let shared = vec![Segment { thread: parent.key.thread, until: parent.length }];
            *fork = ThreadRow { length: parent.length, tip: parent.tip, shared, ..*fork };
            Write::CreateThread(fork)
        }
        Intent::Append { thread: number, skip, count } => {
            let first = row(number).await.map_or(0, |row| row.length) + skip;
            let messages = (first..first + count).map(|place| message(place, 10)).collect();
            Write::Append { key: thread(number), messages, tokens: count }
        }
        Intent::Commit { thread: number, skip } => {
            let version = row(number).await.map_or(0, |row| row.version) + 1 + skip;
            Write::CommitPlan { key: thread(number), plan: Box::new(plan(version, "a plan")) }
        }
        Intent::Index { thread: number, place, passage, words } => {
            let terms = words.iter().map(|word| format!("word{word}")).collect();
            Write::Index {
                key: thread(number),
                rows: vec![IndexRow { place, passage, first_line: 1, last_line: 2, terms }],
            }
        }
        Intent::DropIndex(number) => Write::DropIndex(thread(number)),
        Intent::Vectors { thread: number, place, passage, space, sealed } => {
            let vector = match sealed {
                true => StoredVector::Sealed(vec![space, number]),
                false => StoredVector::Plain(vec![f32::from(space), -0.5]),
            };
            let rows = vec![VectorRow { place, passage, space: format!("space{space}"), vector }];
            Write::PutVectors { key: thread(number), rows }
        }
        Intent::Label(number, labels) => Write::Label { key: thread(number), labels },
        Intent::Put { name, expected, expires } => {
            let (key, body) = (document(name), b"body".to_vec());
            Write::PutDocument { key, expected, at: Moment(5), expires: expires.map(Moment), body }
        }
        Intent::Remove(name) => Write::DeleteDocument(document(name)),
        Intent::Artifact { id, tenant: owner, expires, sensitivity } => Write::PutArtifact(Box::new(ArtifactRow {
            id: format!("artifact{id}"),
            tenant: tenant(owner),
            thread: thread(owner + id).thread,
            at: Moment(id.into()),
            expires: expires.map(Moment),
            key_id: expires.map(|moment| format!("key{moment}")),
            sensitivity: Sensitivity::ALL[sensitivity],
            bytes: 7,
            tokens: 3,
        })),
        Intent::RemoveArtifact { id, tenant: owner } => {
            Write::DeleteArtifact { tenant: tenant(owner), id: format!("artifact{id}") }
        }
        Intent::Event(number) => {
            let event = EventRow { number: 9, at: Moment(3), kind: "planned".into(), body: vec![number] };
            Write::AddEvent { key: thread(number), event }
        }
        Intent::Enqueue { id, thread: number, kind: of, attempts_max, due } => Write::Enqueue(Box::new(NewJob {
            id: JobId(uuid(id)),
            key: thread(number),
            kind: kind(of),
            attempts_max,
            due: Moment(due),
            queued: Moment(due / 2),
            payload: "{}".into(),
        })),
        Intent::Extend { id, token, until } => {
            Write::ExtendLease { job: JobId(uuid(id)), token: uuid(token), until: Moment(until) }
        }
        Intent::Finish { id, token, again } => {
            let failed = |again| JobEnd::Failed { again: Moment(again), error: "it failed".into() };
            Write::FinishJob { job: JobId(uuid(id)), token: uuid(token), end: again.map_or(JobEnd::Done, failed) }
        }
        Intent::Reseal { thread: number, what, place } => {
            let (key, body) = (thread(number), b"anew".to_vec());
            match what {
                0 => Write::Reseal { key, place, id: epitome::thread::MessageId::from_bytes([place as u8; 32]), body },
                1 => Write::ResealPlan { key, version: place, body },
                _ => Write::ResealEvent { key, number: place, body },
            }
        }
    }
}

/// How a batch ended, without the words.
fn ending(outcome: Result<(), StoreError>) -> &'static str {
    match outcome {
        Ok(()) => "applied",
        Err(StoreError::Conflict(_)) => "conflict",
        Err(StoreError::Refused(_)) => "refused",
        Err(other) => panic!("{other}"),
    }
}

/// Everything that a store shows, as text.
async fn everything(store: &dyn Store) -> String {
    let mut shown = format!("{:?} {:?}\n", store.tenants().await.unwrap(), store.check().await.unwrap());
    for number in 0..2 {
        let tenant = tenant(number);
        shown += &format!("{:?}\n", store.threads(&tenant, None, 10).await.unwrap());
        shown += &format!("{:?}\n", store.documents(&tenant, DocumentKind::Memory, None, 10).await.unwrap());
        shown += &format!("{:?}\n", store.artifacts(&tenant, None, 10).await.unwrap());
    }
    for number in 0..6 {
        let key = thread(number);
        shown += &format!("{key} {:?}\n", store.messages(&key, 0..100).await.unwrap());
        for version in 1..4 {
            shown += &format!("{:?}\n", store.plan(&key, Some(version)).await.unwrap());
        }
        shown +=
            &format!("{:?} {:?}\n", store.plan(&key, None).await.unwrap(), store.events(&key, 0, 100).await.unwrap());
        for of in 0..2 {
            shown += &format!("{:?}\n", store.job(&key, &kind(of)).await.unwrap());
        }
        shown += &format!("{:?}\n", found(store, &key).await);
        shown += &format!("{:?}\n", store.vectors(&key, (u64::MAX, 0), 100).await.unwrap());
        shown += &format!("{:?}\n", store.unembedded(&key, "space1", 100).await.unwrap());
    }
    shown
}

/// What a search finds, in order of place: how two back-ends rank is their own affair.
async fn found(store: &dyn Store, key: &ThreadKey) -> Vec<(u64, u32)> {
    let segments = [Segment { thread: key.thread.clone(), until: 3 }];
    let terms = ["word1".to_owned(), "word3".to_owned()];
    let answer = store.search(&key.tenant, &segments, &terms, SearchOrder::Best, 100).await.unwrap();
    let mut places: Vec<_> = answer.into_iter().map(|candidate| (candidate.place, candidate.passage)).collect();
    places.sort_unstable();
    places
}

async fn same_answers(steps: Vec<Step>) {
    let memory = MemoryStore::new();
    let sqlite: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
    for step in &steps {
        match step {
            Step::Apply(intents) => {
                let mut writes = Vec::new();
                for intent in intents {
                    writes.push(write(&memory, intent).await);
                }
                let endings = (ending(memory.apply(&writes).await), ending(sqlite.apply(&writes).await));
                assert_eq!(endings.0, endings.1, "after {writes:?}");
            }
            Step::Claim { kind: of, token, now, length } => {
                let lease = Lease { worker: "w".into(), token: uuid(*token), until: Moment(now + length) };
                let taken = memory.claim(&kind(*of), &lease, Moment(*now)).await.unwrap();
                assert_eq!(taken, sqlite.claim(&kind(*of), &lease, Moment(*now)).await.unwrap());
            }
            Step::Vacuum(before) => {
                let removed = memory.vacuum(Moment(*before)).await.unwrap();
                assert_eq!(removed, sqlite.vacuum(Moment(*before)).await.unwrap());
            }
        }
    }
    assert_eq!(everything(&memory).await, everything(&*sqlite).await);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_sqlite_give_the_same_answers_after_any_writes(steps in steps()) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(same_answers(steps));
    }
}
