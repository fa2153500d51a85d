//! A step of an agent: one message appended, one prompt prepared. Against a bare commit of the same bytes.

use std::path::Path;
use std::time::Instant;

use epitome_runtime::engine::{OpenThread, Saved, Step, StepRequest};
use epitome_runtime::vault::Keys;
use rusqlite::{Connection, TransactionBehavior};

use crate::Outcome;
use crate::house::{House, open};
use crate::speech::{Speech, said};
use crate::table::{Table, Times};

const LIVE_MESSAGES: usize = 200;
const MESSAGE_BYTES: usize = 4096;
const ROUNDS: usize = 200;
const COMPACTIONS: usize = 7;
/// Nothing is compacted in this one.
const WINDOW: u64 = 2_000_000;
const SMALL_WINDOW: u64 = 200_000;

/// Measures steps with and without a key, and those that compact.
pub async fn measure(folder: &Path, table: &mut Table) -> Outcome<()> {
    let house = House::new(folder, "step")?;
    let engine = house.engine(WINDOW, Keys::none()).await?;
    let sealing = house.sealed(WINDOW).await?;
    let mut bare = house.bare()?;
    let mut speech = Speech::new(1);
    let mut plain = grown(open(&engine, "plain").await?, &mut speech).await?;
    let mut sealed = grown(open(&sealing, "sealed").await?, &mut speech).await?;
    let (mut ours, mut sealed_ours, mut theirs) = (Times::default(), Times::default(), Times::default());
    for round in 0..ROUNDS {
        for turn in 0..3 {
            // Each has a message of its own: one that was just counted is counted again at less cost.
            let message = said(["user", "assistant"][round % 2], &speech.bytes(MESSAGE_BYTES));
            speech.pause();
            let start = Instant::now();
            match (round + turn) % 3 {
                0 => {
                    commit(&mut bare, &message)?;
                    theirs.add(start.elapsed());
                }
                1 => {
                    step(&mut plain, &message).await?;
                    ours.add(start.elapsed());
                }
                _ => {
                    step(&mut sealed, &message).await?;
                    sealed_ours.add(start.elapsed());
                }
            }
        }
    }
    let details = format!("{ours} to {theirs}; {LIVE_MESSAGES} to {} live messages", plain.thread().len());
    table.ratio("step of 4 KB: of a bare commit of the same bytes", ours.of(&theirs), 2.0, details);
    let details = format!("{sealed_ours} to {ours}");
    table.shown("step of 4 KB with a key: of one without", format!("{:.2}x", sealed_ours.of(&ours)), details);
    drop((plain, sealed, engine, sealing, bare));
    compacting(&house, &mut speech, table).await?;
    house.leave()
}

async fn grown(mut thread: OpenThread, speech: &mut Speech) -> Outcome<OpenThread> {
    let messages = (0..LIVE_MESSAGES).map(|at| said(["user", "assistant"][at % 2], &speech.bytes(MESSAGE_BYTES)));
    let messages: Vec<String> = messages.collect();
    thread.append(messages).await?;
    Ok(thread)
}

fn commit(conn: &mut Connection, message: &str) -> Outcome<()> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.prepare_cached("INSERT INTO blobs (body) VALUES (?)")?.execute([message.as_bytes()])?;
    Ok(transaction.commit()?)
}

async fn step(thread: &mut OpenThread, message: &str) -> Outcome<Step> {
    let saved = thread.append([message]).await?;
    let step = thread.prepare_step(&StepRequest::default()).await?;
    match saved == Saved::Yes && step.compacted.is_none() && step.messages.len() == thread.thread().len() {
        true => Ok(step),
        false => Err(format!("a step was not what is measured: {saved:?}, {:?}", step.compacted).into()),
    }
}

/// Steps that compact, and threads loaded after them.
async fn compacting(house: &House, speech: &mut Speech, table: &mut Table) -> Outcome<()> {
    let engine = house.engine(SMALL_WINDOW, Keys::none()).await?;
    let mut thread = open(&engine, "compacted").await?;
    let (mut compacts, mut loads, mut turn) = (Times::default(), Times::default(), 0);
    for _ in 0..COMPACTIONS {
        let tokens = loop {
            thread.append(speech.turn(turn, MESSAGE_BYTES)).await?;
            turn += 1;
            let start = Instant::now();
            let step = thread.prepare_step(&StepRequest::default()).await?;
            if let Some(stats) = step.compacted {
                compacts.add(start.elapsed());
                break stats.tokens_after;
            }
        };
        assert!(tokens < SMALL_WINDOW);
        let start = Instant::now();
        let loaded = open(&engine, "compacted").await?;
        loads.add(start.elapsed());
        assert_eq!(loaded.thread().len(), thread.thread().len());
    }
    table.shown(
        "step that compacts, embedded, window of 200 000",
        compacts.to_string(),
        format!("{turn} turns in all"),
    );
    let details = format!("{} of {} messages", thread.thread().len(), thread.row().length);
    table.shown("thread loaded after its compaction", loads.to_string(), details);
    Ok(())
}
