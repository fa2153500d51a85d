//! The verbs, one file each: from parsed arguments to an answer.
//!
//! Only `compact`, `branch` and `export` write files; the others write to the store, or nothing.

mod branch;
mod check;
mod compact;
mod config;
mod count;
mod diff;
mod export;
mod facts;
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

use crate::cli::{CheckArgs, Cli, GoalArgs, Verb};
use crate::cli_config::CliConfig;
use crate::failure::{Answer, Result};
use crate::file_compaction::load_policy;
use crate::mistyped::check_model;
use crate::progress::Progress;
use crate::screen::Screen;

/// Runs the verb.
pub fn run(cli: &Cli, screen: Screen) -> Result<Answer> {
    let config = cli.config.as_deref();
    let progress = Progress::start(first_activity(&cli.verb));
    check_model_of(&cli.verb, config)?;
    match &cli.verb {
        Verb::Compact(args) => compact::run(args, config, screen, &progress),
        Verb::Show(args) => show::run(args, config, screen),
        Verb::Plan(args) => plan::run(args, config, screen),
        Verb::Diff(args) => diff::run(args, config, screen),
        Verb::Read(args) => read::run(args, config),
        Verb::Branch(args) => branch::run(args, screen),
        Verb::Check(args) => check::run(args, screen),
        Verb::Count(args) => count::run(args, screen),
        Verb::Facts(args) => facts::run(args, config, screen),
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

/// Refuses a mistyped model, and prints what is assumed of one that is not known.
fn check_model_of(verb: &Verb, config: Option<&Path>) -> Result<()> {
    let goal = |goal: &GoalArgs| (goal.model.clone(), goal.window, goal.policy.clone());
    let (model, window, policy) = match verb {
        Verb::Compact(args) => goal(&args.plan.goal),
        Verb::Plan(args) => goal(&args.goal),
        Verb::Diff(args) => goal(&args.plan.goal),
        Verb::Show(args) => (args.model.clone(), None, None),
        Verb::Count(args) => (args.model.clone(), None, None),
        _ => return Ok(()),
    };
    let (Some(model), None) = (model, window) else { return Ok(()) };
    if check_model(&model)? != Known::Fallback {
        return Ok(());
    }
    let config = CliConfig::for_file(config)?;
    let policy = match policy {
        Some(name) => load_policy(&name)?,
        None => config.values().compaction_policy()?,
    };
    let window = config.values().model.window.unwrap_or(policy.trigger.window);
    let _ = writeln!(
        std::io::stderr(),
        "notice: unknown model `{model}`: assuming a window of {window} tokens and estimating counts; \
         `--window N` sets the window."
    );
    Ok(())
}

/// Returns what a verb does first, for the progress line.
fn first_activity(verb: &Verb) -> String {
    let file = match verb {
        Verb::Compact(args) => &args.plan.input.file,
        Verb::Show(args) => &args.input.file,
        Verb::Plan(args) => &args.input.file,
        Verb::Diff(args) => &args.plan.input.file,
        Verb::Read(args) => &args.input.file,
        Verb::Branch(args) => &args.input.file,
        Verb::Check(CheckArgs { file: Some(file), .. }) => file,
        Verb::Count(args) => &args.input.file,
        Verb::Facts(args) => &args.source,
        Verb::Recall(args) => &args.source,
        _ => return "Opening the store".to_owned(),
    };
    format!("Reading {}", file.display())
}
