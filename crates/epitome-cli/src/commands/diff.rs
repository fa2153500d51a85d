//! `epitome diff`: what a compaction removed, moved and kept, and the prompt it left.

use std::collections::HashMap;
use std::path::Path;

use epitome::plan::{Action, Compaction};
use epitome::render::{layout, render};
use epitome::session::{ContextMessage, Session};
use epitome::thread::Part;
use serde_json::{Value, json};

use super::compact::nothing_to_do;
use super::plan::reason;
use crate::cli::Diff;
use crate::failure::{Answer, Exit, Failure};
use crate::find::before_compaction;
use crate::open::{CountFor, Opened, open};
use crate::paint::Paint;
use crate::planning::Job;
use crate::receipt::{self, plural};
use crate::settings::Configured;
use crate::sketch;

/// Runs of changes of one kind longer than this are told in one line.
const RUN_MAX: usize = 3;

/// Shows the difference.
pub fn run(args: &Diff, config: Option<&Path>, paint: Paint) -> Result<Answer, Failure> {
    if args.planned.aim.is_empty() {
        let opened = open(&args.planned.input, CountFor::default(), None)?;
        if let Some(before) = before_compaction(&opened.session) {
            return Ok(recorded(&opened, &before, args.full, paint));
        }
    }
    planned(args, &Configured::for_file(config)?, paint)
}

/// What became of one message.
struct Change {
    mark: char,
    label: String,
    who: String,
    words: String,
    whole: String,
    tokens: u64,
    note: String,
}

/// The compaction that would be made.
fn planned(args: &Diff, configured: &Configured, paint: Paint) -> Result<Answer, Failure> {
    let job = Job::new(&args.planned, configured)?;
    let Some(made) = job.preview()? else {
        let text = receipt::headline(&job.opened, paint) + &nothing_to_do(&job);
        let mut json = receipt::file_json(&job.opened);
        json["changes"] = json!([]);
        return Ok(Answer::new(text, json));
    };
    let thread = &job.opened.thread;
    let mut changes = changes_of(&job.opened, &made.compaction);
    if let Some(summary) = made.compaction.summaries.first() {
        changes.push(said(&summary.text, summary.tokens.get()));
    }
    let before = render(thread, None, &job.policy, job.opened.meter(), &[]);
    let prompts = (layout(&before, thread), layout(&made.prompt, thread));
    let mut text = receipt::headline(&job.opened, paint);
    text.push_str("The compaction that would be made:\n");
    let exit = if made.fits(job.limit) { Exit::Fine } else { Exit::CannotFit };
    if exit == Exit::CannotFit {
        text.push_str(&format!("{}\n", paint.bad(&job.below_floor().sentence)));
    }
    Ok(Answer { exit, ..answer(text, receipt::file_json(&job.opened), &changes, prompts, args.full, paint) })
}

fn changes_of(opened: &Opened, compaction: &Compaction) -> Vec<Change> {
    let thread = &opened.thread;
    let mut notes: HashMap<usize, (char, String)> = HashMap::new();
    for record in &compaction.plan.records {
        match (&record.action, record.part) {
            (action, Some(part)) => {
                notes.insert(part.place, ('~', reason(action)));
            }
            (Action::Summarize { kept, .. }, None) => {
                let gone = record.span.range().filter(|place| !kept.contains(&thread.message(*place).id()));
                notes.extend(gone.map(|place| (place, ('-', String::new()))));
            }
            (_, None) => notes.extend(record.span.range().map(|place| (place, ('-', "dropped".to_owned())))),
        }
    }
    let change = |place: usize| {
        let message = thread.message(place);
        let (mark, note) = notes.remove(&place).unwrap_or((' ', String::new()));
        Change {
            mark,
            label: opened.label(place),
            who: message.role().name().to_owned(),
            words: sketch::line(message.parts()),
            whole: sketch::whole(message.parts()),
            tokens: message.tokens().get(),
            note,
        }
    };
    (0..thread.len()).map(change).collect()
}

fn said(summary: &str, tokens: u64) -> Change {
    Change {
        mark: '+',
        label: "summary".to_owned(),
        who: String::new(),
        words: sketch::begin(summary),
        whole: summary.to_owned(),
        tokens,
        note: String::new(),
    }
}

/// The newest compaction in the file.
fn recorded(opened: &Opened, before: &Session, full: bool, paint: Paint) -> Answer {
    let session = &opened.session;
    let Some(compaction) = session.compactions().last() else { unreachable!("there is something before it") };
    let log = session.log();
    // What is kept is there itself, or as a copy of its own.
    let stays: HashMap<usize, usize> =
        compaction.after.iter().map(|at| (log[*at].copy_of.unwrap_or(*at), *at)).collect();
    let meter = opened.meter();
    let mut changes: Vec<Change> = Vec::new();
    for seen in before.context() {
        let now = seen.logged.and_then(|at| stays.get(&at)).map(|at| &log[*at].message);
        let (mark, note) = match now {
            None => ('-', String::new()),
            Some(now) if same_words(&now.parts, &seen.message.parts) => (' ', String::new()),
            Some(now) => ('~', format!("now: {}", sketch::line(&now.parts))),
        };
        changes.push(Change {
            mark,
            label: session.reference(seen),
            who: seen.message.role.name().to_owned(),
            words: sketch::line(&seen.message.parts),
            whole: sketch::whole(&seen.message.parts),
            tokens: meter.message(&meter.parts(&seen.message)).get(),
            note,
        });
    }
    changes.push(said(&compaction.summary, meter.text_message(&compaction.summary).get()));
    let mut text = receipt::headline(opened, paint);
    text.push_str(&format!("The newest compaction, on line {}:\n", compaction.line));
    let mut json = receipt::file_json(opened);
    json["line"] = json!(compaction.line);
    let prompts = (listing(before.context()), listing(session.context()));
    answer(text, json, &changes, prompts, full, paint)
}

/// Whether two messages say the same, whatever the ids around it.
fn same_words(one: &[Part], other: &[Part]) -> bool {
    sketch::whole(one) == sketch::whole(other)
}

/// A context, one line for each message.
fn listing(context: &[ContextMessage]) -> String {
    let line = |(at, seen): (usize, &ContextMessage)| {
        let who = if seen.message.summary { "summary" } else { seen.message.role.name() };
        format!("{at:02} {who} L{} {}", seen.line, sketch::line(&seen.message.parts))
    };
    context.iter().enumerate().map(line).collect::<Vec<String>>().join("\n")
}

fn answer(
    head: String,
    mut json: Value,
    changes: &[Change],
    prompts: (String, String),
    full: bool,
    paint: Paint,
) -> Answer {
    let mut text = head;
    for (mark, name) in [('-', "removed"), ('~', "shortened or moved out"), (' ', "kept"), ('+', "added")] {
        let of_kind: Vec<&Change> = changes.iter().filter(|change| change.mark == mark).collect();
        let tokens: u64 = of_kind.iter().map(|change| change.tokens).sum();
        let count = of_kind.len();
        let tokens = epitome::budget::Tokens::new(tokens);
        text.push_str(&format!("  {mark} {count} message{} {name}, {tokens} tokens\n", plural(count)));
        json[name.split(' ').next().unwrap_or(name)] = json!({"messages": count, "tokens": tokens});
    }
    text.push('\n');
    for run in changes.chunk_by(|a, b| a.mark == b.mark) {
        text.push_str(&told(run, full, paint));
    }
    let (before, after) = prompts;
    if full {
        text.push_str(&format!("\n{}\n{before}\n", paint.head("The prompt before")));
    }
    text.push_str(&format!("\n{}\n{after}\n", paint.head("The prompt after")));
    let listed = |change: &Change| json!({"mark": change.mark, "message": change.label, "role": change.who, "tokens": change.tokens, "note": change.note});
    json["changes"] = changes.iter().map(listed).collect();
    json["prompt"] = json!({"before": before.lines().collect::<Vec<_>>(), "after": after.lines().collect::<Vec<_>>()});
    Answer::new(text, json)
}

/// A run of changes of one kind.
fn told(run: &[Change], full: bool, paint: Paint) -> String {
    if full {
        return run
            .iter()
            .map(|change| format!("{}\n{}\n", paint.head(&line(change)), indented(&change.whole)))
            .collect();
    }
    match run {
        [first, .., last] if run.len() > RUN_MAX && first.mark != '~' => {
            let tokens: u64 = run.iter().map(|change| change.tokens).sum();
            let count = run.len() - 2;
            let between = epitome::budget::Tokens::new(tokens - first.tokens - last.tokens);
            format!("{}{} … {count} more, {between} tokens\n{}", line_end(first), first.mark, line_end(last))
        }
        _ => run.iter().map(line_end).collect(),
    }
}

fn line_end(change: &Change) -> String {
    format!("{}\n", line(change))
}

fn line(change: &Change) -> String {
    let note = if change.note.is_empty() { String::new() } else { format!(" ({})", change.note) };
    let who = if change.who.is_empty() { String::new() } else { format!(" {}", change.who) };
    format!("{} {}{who} {}{note}", change.mark, change.label, change.words)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
