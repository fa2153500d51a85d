//! The `epitome` binary: context compaction for recorded agent sessions, and the store that keeps them.
//!
//! Every verb answers with a value; this file prints it once and ends with its exit code.

mod author;
mod cli;
mod clock;
mod commands;
mod excerpt;
mod failure;
mod find;
mod nearest;
mod numbers;
mod open;
mod open_store;
mod planning;
mod progress;
mod receipt;
mod screen;
mod settings;
mod source;
mod store;
mod table;
mod telemetry;
mod write;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};

use cli::Cli;
use failure::{Answer, Exit, Failure, words};
use screen::Screen;

/// Requests come and go by the thousand, each with many small things.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let exit = match commands::run(&cli, Screen::of_stdout(cli.color, cli.width)) {
        Ok(answer) => print_answer(&answer, cli.json),
        Err(failure) => print_failure(&failure, cli.json),
    };
    ExitCode::from(exit as u8)
}

/// Parses the command line. Help and errors of it are colored before anything is parsed, so `--color` is looked for here.
fn parse() -> Result<Cli, clap::Error> {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let asked = args.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix("--color") {
        Some("") => args.get(at + 1).map(String::as_str),
        Some(value) => value.strip_prefix('='),
        None => None,
    });
    let color = match asked {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    };
    Cli::from_arg_matches(&Cli::command().color(color).try_get_matches()?)
}

/// Help and version are answers; everything else is a mistake on the command line.
fn refuse(error: &clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = std::env::args().any(|arg| arg == "--json");
    if asked || !json {
        let _ = error.print();
        return ExitCode::from(if asked { Exit::Fine } else { Exit::Usage } as u8);
    }
    let text = error.to_string();
    let sentence = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    let failure = Failure::new(Exit::Usage, sentence).hint("`epitome --help` tells what can be typed.");
    ExitCode::from(print_failure(&failure, true) as u8)
}

fn print_answer(answer: &Answer, json: bool) -> Exit {
    let said = if json { format!("{:#}\n", answer.json) } else { answer.text.clone() };
    let printed = match &answer.data {
        None => print(io::stdout().lock(), &said),
        Some(data) => print(io::stdout().lock(), data).and_then(|()| print(anstream::stderr().lock(), &said)),
    };
    match printed {
        Ok(()) => answer.exit,
        Err(error) => {
            let failure = Failure::new(Exit::CannotWrite, format!("The output cannot be written: {}.", words(&error)));
            print_failure(&failure, false)
        }
    }
}

fn print_failure(failure: &Failure, json: bool) -> Exit {
    // Nobody is left to be told when this fails too.
    let _ = match json {
        true => print(io::stdout().lock(), &format!("{:#}\n", failure.to_json())),
        false => print(io::stderr().lock(), &failure.to_string()),
    };
    failure.exit
}

/// Prints; a reader that has gone away has seen enough.
fn print(mut out: impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
