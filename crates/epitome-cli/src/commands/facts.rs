//! `epitome facts`: what extraction takes from a conversation, fact by fact.

use std::path::Path;

use epitome::CountFor;
use epitome::summary::{Fact, FactKind, facts};
use epitome::thread::Thread;
use serde_json::json;

use super::export::stored_text;
use crate::cli::{FactsArgs, InputArgs};
use crate::cli_config::CliConfig;
use crate::excerpt;
use crate::failure::{Answer, Failure};
use crate::input::{open, session};
use crate::receipt::count;
use crate::screen::Screen;
use crate::table::Table;

pub fn run(args: &FactsArgs, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    let conversation = if args.source.exists() || args.source == Path::new("-") {
        open(&input(args), CountFor::default(), args.until)?.conversation
    } else {
        epitome::Conversation::until(
            session(stored_text(&args.source, &args.store_options, config)?, &input(args))?,
            CountFor::default(),
            args.until.unwrap_or(usize::MAX),
        )
    };
    let tools = CliConfig::for_file(config)?.values().compaction_policy()?.tools;
    let found = facts(&conversation.thread, &tools);
    let wanted = |fact: &&Fact| args.kind.is_empty() || args.kind.contains(&fact.kind);
    let shown: Vec<&Fact> = found.iter().filter(wanted).collect();
    Ok(Answer::new(text(&conversation.thread, &shown, screen), json!({ "facts": shown })))
}

fn input(args: &FactsArgs) -> InputArgs {
    InputArgs { file: args.source.clone(), format: args.format, skip_bad_lines: args.skip_bad_lines, artifacts: None }
}

/// Returns one table for each kind.
fn text(thread: &Thread, shown: &[&Fact], screen: Screen) -> String {
    let mut text = format!("{} in {}\n", count(shown.len(), "fact"), count(thread.len(), "message"));
    for kind in FactKind::ALL {
        let mut table = Table::new("lll");
        for fact in shown.iter().filter(|fact| fact.kind == kind) {
            let about = fact.about.as_ref().map(|about| format!(" ({about})")).unwrap_or_default();
            let words = format!("{}{about}", excerpt::first_words(&fact.quote));
            table.row(&[&fact.message, &fact.status.name(), &words]);
        }
        let rows = table.text(screen);
        if !rows.is_empty() {
            text.push_str(&format!("\n{}\n{rows}", screen.head(kind.name())));
        }
    }
    text
}
