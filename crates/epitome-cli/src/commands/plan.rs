//! `epitome plan`: what a compaction would do, rung by rung, and what each rung buys. Nothing is done.

use std::path::Path;

use epitome::plan::{Action, Cleared, Record};
use serde_json::{Value, json};

use super::compact::nothing_to_do;
use crate::cli::Planned;
use crate::failure::{Answer, Exit, Failure};
use crate::open::Opened;
use crate::planning::{Job, Made};
use crate::receipt::{self, headed};
use crate::screen::Screen;
use crate::settings::Configured;
use crate::table::{Side, table};

/// The most records that are printed one by one.
const RECORDS_MAX: usize = 24;

/// Plans.
pub fn run(args: &Planned, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    let job = Job::new(args, &Configured::for_file(config)?)?;
    let Some(made) = job.preview()? else { return Ok(nothing(&job, screen)) };
    let plan = &made.compaction.plan;
    let mut text = receipt::headline(&job.opened, screen);
    text.push_str(&room(&job));
    text.push_str(&format!("policy {}: {} tokens become {}\n\n", plan.policy, plan.before, plan.after));
    text.push_str(&receipt::steps(plan, screen));
    text.push('\n');
    text.push_str(&records(&plan.records, &job.opened, screen));
    if plan.tail_from < job.opened.thread.len() {
        text.push_str(&format!("\n  Messages from {} on are kept as they are.\n", job.opened.label(plan.tail_from)));
    }
    for warning in &plan.warnings {
        text.push_str(&format!("  {warning}\n"));
    }
    let exit = if made.fits(job.limit) { Exit::Fine } else { Exit::CannotFit };
    if exit == Exit::CannotFit {
        text.push_str(&format!("\n  {}\n", screen.bad(&job.below_floor().sentence)));
    }
    text.push_str(&receipt::notices(&job.opened.session, screen));
    Ok(Answer { exit, ..Answer::new(text, to_json(&job, &made)) })
}

fn nothing(job: &Job, screen: Screen) -> Answer {
    let mut text = receipt::headline(&job.opened, screen);
    text.push_str(&nothing_to_do(job));
    let mut json = receipt::file_json(&job.opened);
    json["compacted"] = json!(false);
    json["room"] = json!(job.room);
    json["window"] = receipt::window_json(job);
    Answer::new(text, json)
}

fn room(job: &Job) -> String {
    let window = job.window.as_ref().map(|window| format!("window {}, {}; ", window.tokens, window.source));
    format!(
        "{}compacts above {} tokens, down to {}; hard limit {}; counted by {}\n",
        window.unwrap_or_default(),
        job.room.trigger,
        job.room.target,
        job.limit,
        job.opened.provenance()
    )
}

fn records(records: &[Record], opened: &Opened, screen: Screen) -> String {
    let mut rows = vec![["what", "by", "tokens", "becomes", "why"].map(str::to_owned).to_vec()];
    rows.extend(records.iter().take(RECORDS_MAX).map(|one| record(one, opened)));
    let mut out =
        headed(&table(&[Side::Left, Side::Left, Side::Right, Side::Right, Side::Left], &rows, screen), screen);
    if records.len() > RECORDS_MAX {
        out.push_str(&format!("  and {} more; `--json` lists them all\n", records.len() - RECORDS_MAX));
    }
    out
}

fn record(record: &Record, opened: &Opened) -> Vec<String> {
    let range = record.span.range();
    let what = match record.part {
        Some(part) => opened.label(part.place),
        None => format!("{} to {}", opened.label(range.start), opened.label(range.end - 1)),
    };
    vec![
        what,
        record.rung.name().to_owned(),
        record.before.to_string(),
        record.after.to_string(),
        reason(&record.action),
    ]
}

/// Why something leaves the prompt.
pub fn reason(action: &Action) -> String {
    match action {
        Action::Drop { .. } => "the oldest; an index of it stays".to_owned(),
        Action::Externalize { artifact, .. } => format!("large; moved out to {artifact}"),
        Action::Summarize { kept, .. } if kept.is_empty() => "a summary stands for it".to_owned(),
        Action::Summarize { kept, .. } => format!("a summary stands for it; {} of its messages stay", kept.len()),
        Action::Clear { why, .. } => match why {
            Cleared::Duplicate { .. } => "the same result comes again later".to_owned(),
            Cleared::Superseded { .. } => "a later message read or wrote the same thing".to_owned(),
            Cleared::Durability => "its durability allows it".to_owned(),
            Cleared::Policy { .. } | Cleared::Own { .. } => "the policy clears old results".to_owned(),
        },
    }
}

fn to_json(job: &Job, made: &Made) -> Value {
    let mut json = receipt::json(job, made);
    json["compacted"] = json!(false);
    json["plan"] = json!(made.compaction.plan);
    json
}
