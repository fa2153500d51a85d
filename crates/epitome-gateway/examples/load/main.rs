//! What a gateway costs, measured for `scripts/bench-gateway`: the same requests to a provider directly and through each
//! proxy in front of it, in turns, so that a busy machine is busy for all of them. Prints tables, and exits with 1 when a
//! target is missed.
//!
//! It states no absolute time as a target. Run by hand:
//!
//! ```text
//! load speed   ROUNDS direct=URL nginx=URL litellm=URL epitome=URL
//! load first   ROUNDS direct=URL nginx=URL epitome=URL
//! load streams COUNT PID URL
//! ```

mod body;
mod first;
mod line;
mod sample;
mod speed;
mod streams;

use std::process::ExitCode;

use line::Line;

/// Whatever goes wrong ends the run.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "load speed ROUNDS NAME=URL… | load first ROUNDS NAME=URL… | load streams COUNT PID URL";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let misses = match words[..] {
        ["speed", rounds, ref ways @ ..] => speed::measure(&mut lines(ways)?, rounds.parse()?).await?,
        ["first", rounds, ref ways @ ..] => first::measure(&mut lines(ways)?, rounds.parse()?).await?,
        ["streams", count, pid, url] => streams::measure(count.parse()?, pid.parse()?, url).await?,
        _ => return Err(USAGE.into()),
    };
    for missed in &misses {
        say(&format!("MISSED: {missed}"));
    }
    Ok(if misses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn lines(ways: &[&str]) -> Outcome<Vec<Line>> {
    ways.iter().map(|way| Line::to(way)).collect()
}

/// Prints a line.
#[expect(clippy::print_stdout, reason = "the table is the output")]
fn say(text: &str) {
    println!("{text}");
}
