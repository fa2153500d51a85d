//! The verbs, one file each. A verb takes what was typed and answers.
//!
//! Of a session's file only `compact` and `branch` write; the others write to the store, or nothing.

mod branch;
mod check;
mod compact;
mod config;
mod count;
mod diff;
mod export;
mod import;
mod ledger;
mod log;
mod mcp;
mod mock;
mod models;
mod plan;
mod policy;
mod read;
mod recall;
mod serve;
mod show;
mod store;
mod threads;
mod work;

use crate::cli::{Cli, Verb};
use crate::failure::{Answer, Failure};
use crate::paint::Paint;
use crate::progress::Progress;

/// Does what was asked.
pub fn run(cli: &Cli, paint: Paint) -> Result<Answer, Failure> {
    let config = cli.config.as_deref();
    let progress = Progress::of(subject(&cli.verb));
    match &cli.verb {
        Verb::Compact(args) => compact::run(args, config, paint, &progress),
        Verb::Show(args) => show::run(args, config, paint),
        Verb::Plan(args) => plan::run(args, config, paint),
        Verb::Diff(args) => diff::run(args, config, paint),
        Verb::Read(args) => read::run(args),
        Verb::Branch(args) => branch::run(args),
        Verb::Check(args) => check::run(args, paint),
        Verb::Count(args) => count::run(args, paint),
        Verb::Policy(args) => policy::run(args, paint),
        Verb::Config(args) => self::config::run(args, config, paint),
        Verb::Import(args) => import::run(args, config, paint, &progress),
        Verb::Export(args) => export::run(args, config),
        Verb::Threads(args) => threads::run(args, config, paint),
        Verb::Log(args) => log::run(args, config, paint),
        Verb::Models(args) => models::run(args, config, paint),
        Verb::Ledger(args) => ledger::run(args, config, paint),
        Verb::Recall(args) => recall::run(args, config),
        Verb::Store(args) => store::run(args, config, paint, &progress),
        Verb::Serve(args) => serve::run(args, config, cli.json, progress),
        Verb::Work(args) => work::run(args, config, cli.json, progress),
        Verb::Mcp(args) => mcp::run(args, config, cli.json, progress),
        Verb::Mock(args) => mock::run(args, progress),
    }
}

/// What a verb does at first.
fn subject(verb: &Verb) -> String {
    let file = match verb {
        Verb::Compact(args) => Some(&args.planned.input.file),
        Verb::Show(args) => Some(&args.input.file),
        Verb::Plan(args) => Some(&args.input.file),
        Verb::Diff(args) => Some(&args.planned.input.file),
        Verb::Read(args) => Some(&args.input.file),
        Verb::Branch(args) => Some(&args.input.file),
        Verb::Check(args) => args.file.as_ref(),
        Verb::Count(args) => Some(&args.input.file),
        _ => None,
    };
    file.map_or_else(|| "Opening the store".to_owned(), |file| format!("Reading {}", file.display()))
}
