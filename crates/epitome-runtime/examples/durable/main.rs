//! What durability costs, measured for `scripts/bench`: steps, appends, recall and memory, each against what it cannot
//! do without. Prints one table and exits with 1 when a target is missed.
//!
//! Two sides of a ratio take turns in one run and their medians are compared, so that a busy machine is busy for both.
//! It states no absolute time as a target. Run it by hand with
//! `cargo run --release -p epitome-runtime --no-default-features --example durable -- FOLDER [step|append|recall|memory]`.

mod append;
mod house;
mod memory;
mod recall;
mod speech;
mod step;
mod table;

use std::path::Path;
use std::process::ExitCode;

use table::Table;

/// Whatever goes wrong ends the run.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "durable FOLDER [step|append|recall|memory] | durable FOLDER opened THREAD COUNT";

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut table = Table::new();
    match words[..] {
        [folder] => {
            step::measure(Path::new(folder), &mut table).await?;
            append::measure(Path::new(folder), &mut table).await?;
            recall::measure(Path::new(folder), &mut table).await?;
            memory::measure(Path::new(folder), &mut table).await?;
        }
        [folder, "step"] => step::measure(Path::new(folder), &mut table).await?,
        [folder, "append"] => append::measure(Path::new(folder), &mut table).await?,
        [folder, "recall"] => recall::measure(Path::new(folder), &mut table).await?,
        [folder, "memory"] => memory::measure(Path::new(folder), &mut table).await?,
        [folder, "opened", thread, count] => {
            memory::opened(Path::new(folder), thread, count.parse()?).await?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => return Err(USAGE.into()),
    }
    table.print()?;
    Ok(if table.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
