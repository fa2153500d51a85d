//! The `epitome` binary: compacts sessions and message lists, runs the gateway, and looks after the store.
//!
//! Every verb returns a value; this file prints it once and exits with its code.

mod artifact_folder;
mod cli;
mod cli_config;
mod clock;
mod commands;
mod excerpt;
mod failure;
mod file_compaction;
mod find_message;
mod imported_file;
mod input;
mod mistyped;
mod numbers;
mod open_store;
mod pi_settings;
mod progress;
mod receipt;
mod replayable;
mod screen;
mod summary_writer;
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

/// mimalloc, instead of the C library's allocator, for the gateway: it runs for days, and a request's many small parts are
/// allocated on one thread, planned on another and freed on a third. glibc keeps an arena for each thread and rarely gives
/// memory back from one that others freed into, so its resident size grows with the number of threads; musl takes one lock
/// for all of them. The figures in docs/performance.md are with mimalloc; none were taken without it. Verbs that read one
/// file and end would do with either.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return print_usage(&error),
    };
    let exit = match commands::run(&cli, Screen::of_stdout(cli.color, cli.width)) {
        Ok(answer) => print_answer(&answer, cli.json),
        Err(failure) => print_failure(&failure, cli.json),
    };
    ExitCode::from(exit as u8)
}

/// Parses the command line. Its help and errors are colored before anything is parsed, so `--color` is looked for here.
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

/// Prints help, the version, or what is wrong with the command line.
fn print_usage(error: &clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = std::env::args().any(|arg| arg == "--json");
    if asked || !json {
        let _ = error.print();
        return ExitCode::from(if asked { Exit::Fine } else { Exit::Usage } as u8);
    }
    // The first paragraph is the error; clap may list what is missing on lines of its own.
    let text = error.to_string();
    let lines = text.trim_start_matches("error: ").lines().map(str::trim).take_while(|line| !line.is_empty());
    let sentence = lines.collect::<Vec<&str>>().join(" ");
    let failure = Failure::new(Exit::Usage, sentence).hint("`epitome --help` lists the commands.");
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
    // If this fails too, there is nowhere left to report it.
    let _ = if json {
        print(io::stdout().lock(), &format!("{:#}\n", failure.to_json()))
    } else {
        print(io::stderr().lock(), &failure.to_string())
    };
    failure.exit
}

/// Prints. A closed pipe is no error: `epitome show FILE | head` has read enough.
fn print(mut out: impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
