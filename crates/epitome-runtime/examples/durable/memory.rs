//! The memory of an open thread: what its prompt needs, not what its log holds. Each figure is a process's own.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use epitome_runtime::engine::{Engine, OpenThread, StepRequest};
use epitome_runtime::ids::ThreadId;
use epitome_runtime::vault::Keys;

use crate::Outcome;
use crate::house::{House, open, owner};
use crate::speech::Speech;
use crate::table::Table;

const WINDOW: u64 = 20_000;
const SHORT: u64 = 2_000;
const LONG: u64 = 20_000;
const FEW: usize = 20;
const MANY: usize = 200;
const RESULT_BYTES: usize = 1_000;
/// The calls of an agent for each request of a person. All that a person said stays in every prompt, so a log that is ten times as
/// long has no more to carry only where they did not say more.
const READS: usize = 24;
const MANY_READS: usize = 249;
/// The files that an agent reads again and again.
const FILES: usize = 300;
/// The messages between two prompts.
const STEP_MESSAGES: usize = 20;

/// Measures what one more open thread takes, after a long log and after one ten times as long.
pub async fn measure(folder: &Path, table: &mut Table) -> Outcome<()> {
    let house = House::new(folder, "memory")?;
    let mut loaded = Vec::new();
    for (name, messages, reads) in [("short", SHORT, READS), ("long", LONG, MANY_READS), ("talk", LONG, READS)] {
        let engine = house.engine(WINDOW, Keys::none()).await?;
        let thread = grown(&engine, name, messages, reads).await?;
        loaded.push(format!("{} messages, plan {}", thread.thread().len(), thread.row().version));
        // No message is copied: each fork is opened, and loaded, as a thread of its own.
        for at in 0..MANY {
            engine.fork(&owner(), name.parse()?, thread.row().length, fork(name, at)?).await?;
        }
    }
    let (short, long, talk) = (each(folder, "short")?, each(folder, "long")?, each(folder, "talk")?);
    let details = format!("{MANY} against {FEW} open, {SHORT} messages each, window of 20 000; loaded: {}", loaded[0]);
    table.shown("memory of an open thread", format!("{:.0} kB", short / 1e3), details);
    let details = format!("{:.0} kB to {:.0} kB; loaded: {}", long / 1e3, short / 1e3, loaded[1]);
    table.ratio("memory of an open thread at 10x the log", long / short, 1.3, details);
    let details = format!("{:.0} kB to {:.0} kB; loaded: {}", talk / 1e3, short / 1e3, loaded[2]);
    table.shown("the same with 10x the requests of a person", format!("{:.2}x", talk / short), details);
    house.leave()
}

/// Grows a thread to its first compaction behind so many messages. What is loaded grows from one compaction to the next, so two
/// threads are compared at the same point.
async fn grown(engine: &Engine, name: &str, messages: u64, reads: usize) -> Outcome<OpenThread> {
    let (mut thread, mut speech, mut turn) = (open(engine, name).await?, Speech::new(4), 0);
    loop {
        let files: Vec<String> = (0..reads).map(|at| format!("src/{}.rs", (turn * reads + at) % FILES)).collect();
        for messages_of_step in speech.task(turn, &files, RESULT_BYTES).chunks(STEP_MESSAGES) {
            thread.append(messages_of_step).await?;
            let version = thread.row().version;
            thread.prepare_step(&StepRequest::default()).await?;
            if thread.row().length >= messages && thread.row().version > version {
                return Ok(thread);
            }
        }
        turn += 1;
    }
}

fn fork(name: &str, at: usize) -> Outcome<ThreadId> {
    Ok(format!("{name}{at}").parse()?)
}

/// The bytes of one more open thread.
fn each(folder: &Path, name: &str) -> Outcome<f64> {
    let few = resident_after(folder, name, FEW)?;
    let many = resident_after(folder, name, MANY)?;
    Ok((many - few) / (MANY - FEW) as f64)
}

/// The bytes that a process of its own has when it has opened so many.
fn resident_after(folder: &Path, name: &str, count: usize) -> Outcome<f64> {
    let program = std::env::current_exe()?;
    let answer = Command::new(program).arg(folder).args(["opened", name, &count.to_string()]).output()?;
    match answer.status.success() {
        true => Ok(String::from_utf8(answer.stdout)?.trim().parse()?),
        false => Err(String::from_utf8_lossy(&answer.stderr).into()),
    }
}

/// Opens so many threads, prepares a prompt of each, and prints what the process has then.
pub async fn opened(folder: &Path, name: &str, count: usize) -> Outcome<()> {
    let engine = House::at(folder, "memory").engine(WINDOW, Keys::none()).await?;
    let mut threads = Vec::new();
    for at in 0..count {
        let mut thread = engine.resume(&owner(), fork(name, at)?).await?;
        thread.prepare_step(&StepRequest::default()).await?;
        threads.push(thread);
    }
    writeln!(io::stdout(), "{}", resident()?)?;
    drop(threads);
    Ok(())
}

fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("there is no VmRSS")?;
    Ok(1024 * line.trim().trim_end_matches(" kB").parse::<u64>()?)
}
