//! `epitome plan`: what a compaction would do, and what each rung frees. Nothing is written.

use std::path::Path;

use epitome::plan::{Action, ClearReason, Record};
use serde_json::json;

use super::compact::nothing_to_do;
use crate::cli::PlanArgs;
use crate::cli_config::CliConfig;
use crate::failure::{Answer, Exit, Result};
use crate::file_compaction::FileCompaction;
use crate::input::OpenedFile;
use crate::receipt;
use crate::screen::Screen;
use crate::summary_writer::SummarySource;
use crate::table::Table;

/// The most records that are printed one by one.
const RECORDS_MAX: usize = 24;

pub fn run(args: &PlanArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    let job = FileCompaction::new(args, &CliConfig::for_file(config)?)?;
    let mut text = receipt::headline(&job.opened, screen);
    let Some(fitted) = job.preview()? else {
        return Ok(Answer::new(text + &nothing_to_do(&job), receipt::unchanged_json(&job)));
    };
    let plan = &fitted.compaction.plan;
    let FileCompaction { opened, limit, .. } = &job;
    text.push_str(&format!("counted by {}; policy {}\n", opened.provenance(), plan.policy));
    text.push_str(&receipt::limits(&job));
    text.push_str(&format!("{} tokens become {}\n\n", plan.before, plan.after));
    text.push_str(&receipt::steps(plan, screen));
    text.push_str(&format!("\n{}", records(&plan.records, opened, screen)));
    if plan.tail_from < opened.conversation.thread.len() {
        text.push_str(&format!("\n  Messages from {} on are kept as they are.\n", opened.label(plan.tail_from)));
    }
    for warning in &plan.warnings {
        text.push_str(&format!("  {warning}\n"));
    }
    let exit = if fitted.fits(*limit) { Exit::Fine } else { Exit::CannotFit };
    if exit == Exit::CannotFit {
        text.push_str(&format!("\n  {}\n", screen.bad(&job.below_floor().sentence)));
    }
    text.push_str(&receipt::notices(&opened.conversation.session, screen));
    let mut json = receipt::json(&job, &fitted, &SummarySource::by_code(&fitted));
    json["compacted"] = json!(false);
    json["plan"] = json!(plan);
    Ok(Answer { exit, ..Answer::new(text, json) })
}

fn records(records: &[Record], opened: &OpenedFile, screen: Screen) -> String {
    let mut table = Table::with_heads("llrrl", ["what", "by", "tokens", "becomes", "why"]);
    for record in records.iter().take(RECORDS_MAX) {
        let range = record.span.range();
        let what = match record.part {
            Some(part) => opened.label(part.place),
            None => format!("{} to {}", opened.label(range.start), opened.label(range.end - 1)),
        };
        table.row(&[&what, &record.rung.name(), &record.before, &record.after, &reason(&record.action)]);
    }
    let mut out = table.text(screen);
    if records.len() > RECORDS_MAX {
        out.push_str(&format!("  and {} more; `--json` lists them all\n", records.len() - RECORDS_MAX));
    }
    out
}

/// Explains why something leaves the prompt.
pub fn reason(action: &Action) -> String {
    match action {
        Action::Drop { .. } => "the oldest; an index of it stays".to_owned(),
        Action::Externalize { artifact, .. } => format!("large; moved out to {artifact}"),
        Action::Summarize { kept, .. } if kept.is_empty() => "replaced by a summary".to_owned(),
        Action::Summarize { kept, .. } => format!("replaced by a summary; {} of its messages stay", kept.len()),
        Action::Clear { why, .. } => match why {
            ClearReason::Duplicate { .. } => "the same result comes again later".to_owned(),
            ClearReason::Superseded { .. } => "a later message read or wrote the same thing".to_owned(),
            ClearReason::Durability => "its durability allows it".to_owned(),
            ClearReason::Policy { .. } | ClearReason::Own { .. } => "the policy clears old results".to_owned(),
        },
    }
}
