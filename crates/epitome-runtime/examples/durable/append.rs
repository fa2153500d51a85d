//! An append costs what is appended, however long the thread is.

use std::path::Path;
use std::time::Instant;

use epitome_runtime::engine::{Engine, OpenThread, Saved, StepRequest};
use epitome_runtime::vault::Keys;

use crate::Outcome;
use crate::house::{House, open};
use crate::speech::{Speech, said};
use crate::table::{Table, Times};

const SHORT_TOKENS: u64 = 1_000;
const LONG_TOKENS: u64 = 1_000_000;
const ROUNDS: usize = 400;
/// A short thread is exchanged for a new one before it is a long one.
const ROUNDS_A_SHORT_THREAD: usize = 10;
const RESULT_BYTES: usize = 12_000;

/// Measures appends to a short thread, to a long one that was compacted, and to a long one that is loaded whole.
pub async fn measure(folder: &Path, table: &mut Table) -> Outcome<()> {
    let house = House::new(folder, "append")?;
    let whole_engine = house.engine(2 * LONG_TOKENS, Keys::none()).await?;
    let mut speech = Speech::new(2);
    let mut whole = open(&whole_engine, "whole").await?;
    grow(&mut whole, &mut speech, LONG_TOKENS).await?;
    let mut compacted = {
        let engine = house.engine(200_000, Keys::none()).await?;
        let mut thread = open(&engine, "compacted").await?;
        grow(&mut thread, &mut speech, LONG_TOKENS).await?;
        thread
    };
    let mut times = [Times::default(), Times::default(), Times::default()];
    let mut short = short_thread(&whole_engine, &mut speech, 0).await?;
    for round in 0..ROUNDS {
        if round % ROUNDS_A_SHORT_THREAD == 0 {
            short = short_thread(&whole_engine, &mut speech, round).await?;
        }
        for turn in 0..3 {
            let at = (round + turn) % 3;
            let thread = [&mut short, &mut compacted, &mut whole].into_iter().nth(at).ok_or("there are three")?;
            let message = said(["user", "assistant"][round % 2], &speech.words(20));
            speech.pause();
            let start = Instant::now();
            let saved = thread.append([message]).await?;
            times[at].add(start.elapsed());
            assert_eq!(saved, Saved::Yes);
        }
    }
    let [to_short, to_compacted, to_whole] = times;
    let told = |thread: &OpenThread| {
        format!("{} messages loaded, {} compactions", thread.thread().len(), thread.row().version)
    };
    for (name, times, thread) in
        [("compacted on the way", &to_compacted, &compacted), ("loaded whole", &to_whole, &whole)]
    {
        let ratio = times.of(&to_short);
        let ratio = ratio.max(1.0 / ratio);
        let details = format!("{times} to {to_short}; {}", told(thread));
        table.ratio(format!("append to 1M tokens, {name}: of one to 1k"), ratio, 1.5, details);
    }
    drop((short, compacted, whole, whole_engine));
    house.leave()
}

async fn grow(thread: &mut OpenThread, speech: &mut Speech, tokens: u64) -> Outcome<()> {
    let mut turn = 0;
    while thread.row().tokens < tokens {
        thread.append((turn..turn + 5).flat_map(|at| speech.turn(at, RESULT_BYTES)).collect::<Vec<_>>()).await?;
        turn += 5;
        thread.prepare_step(&StepRequest::default()).await?;
    }
    Ok(())
}

async fn short_thread(engine: &Engine, speech: &mut Speech, number: usize) -> Outcome<OpenThread> {
    let mut thread = open(engine, &format!("short{number}")).await?;
    while thread.row().tokens < SHORT_TOKENS {
        thread.append([said("user", &speech.words(60)), said("assistant", &speech.words(60))]).await?;
    }
    Ok(thread)
}
