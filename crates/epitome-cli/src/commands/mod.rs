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

use std::io::Write as _;
use std::path::Path;

use epitome::budget::Known;

use crate::cli::{Aim, Cli, Verb};
use crate::failure::{Answer, Failure};
use crate::nearest::check_model;
use crate::planning;
use crate::progress::Progress;
use crate::screen::Screen;
use crate::settings::Configured;

/// Does what was asked.
pub fn run(cli: &Cli, screen: Screen) -> Result<Answer, Failure> {
    let config = cli.config.as_deref();
    let progress = Progress::of(subject(&cli.verb));
    warn_of_unknown_model(&cli.verb, config)?;
    match &cli.verb {
        Verb::Compact(args) => compact::run(args, config, screen, &progress),
        Verb::Show(args) => show::run(args, config, screen),
        Verb::Plan(args) => plan::run(args, config, screen),
        Verb::Diff(args) => diff::run(args, config, screen),
        Verb::Read(args) => read::run(args),
        Verb::Branch(args) => branch::run(args, screen),
        Verb::Check(args) => check::run(args, screen),
        Verb::Count(args) => count::run(args, screen),
        Verb::Policy(args) => policy::run(args, screen),
        Verb::Config(args) => self::config::run(args, config, screen),
        Verb::Import(args) => import::run(args, config, screen, &progress),
        Verb::Export(args) => export::run(args, config),
        Verb::Threads(args) => threads::run(args, config, screen),
        Verb::Log(args) => log::run(args, config, screen),
        Verb::Models(args) => models::run(args, config, screen),
        Verb::Ledger(args) => ledger::run(args, config, screen),
        Verb::Recall(args) => recall::run(args, config),
        Verb::Store(args) => store::run(args, config, screen, &progress),
        Verb::Serve(args) => serve::run(args, config, cli.json, progress),
        Verb::Work(args) => work::run(args, config, cli.json, progress),
        Verb::Mcp(args) => mcp::run(args, config, cli.json, progress),
        Verb::Mock(args) => mock::run(args, progress),
    }
}

/// Refuses a mistyped model, and says of one that nobody knows what is assumed.
fn warn_of_unknown_model(verb: &Verb, config: Option<&Path>) -> Result<(), Failure> {
    let (model, window, policy) = match verb {
        Verb::Compact(args) => aimed(&args.planned.aim),
        Verb::Plan(args) => aimed(&args.aim),
        Verb::Diff(args) => aimed(&args.planned.aim),
        Verb::Show(args) => (args.model.as_deref(), None, None),
        Verb::Count(args) => (args.model.as_deref(), None, None),
        _ => return Ok(()),
    };
    let Some(model) = model.filter(|_| window.is_none()) else { return Ok(()) };
    if check_model(model)? != Known::Fallback {
        return Ok(());
    }
    let configured = Configured::for_file(config)?;
    let assumed = match policy {
        Some(name) => planning::policy(Some(name))?,
        None => configured.config().compaction_policy()?,
    };
    let window = configured.config().model.window.unwrap_or(assumed.trigger.window);
    // Nobody is left to be told when this fails.
    let _ = writeln!(
        std::io::stderr(),
        "notice: the model `{model}` is not known; its window is taken as {window} tokens and counts are estimates. \
         Set `--window N` if you know better."
    );
    Ok(())
}

/// The model, the window and the policy that a compaction is asked for.
fn aimed(aim: &Aim) -> (Option<&str>, Option<u64>, Option<&str>) {
    (aim.model.as_deref(), aim.window, aim.policy.as_deref())
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
