//! `epitome diff`: what a compaction removed, shortened and kept, and the prompt it left.

use std::path::Path;

use epitome::planner::PromptShape;
use epitome::session::{ContextMessage, Session};
use epitome::thread::Part;
use epitome::wire::PromptMessage;
use epitome::{CountFor, Fitted};
use serde_json::{Value, json};

use super::compact::nothing_to_do;
use super::plan::reason;
use crate::cli::DiffArgs;
use crate::cli_config::CliConfig;
use crate::excerpt;
use crate::failure::{Answer, Exit, Result};
use crate::file_compaction::FileCompaction;
use crate::find_message::before_compaction;
use crate::input::{OpenedFile, open};
use crate::receipt::{self, count};
use crate::screen::Screen;
use crate::table::Table;

/// Longer runs of changes of one kind are shown as their first and last.
const RUN_MAX: usize = 3;

pub fn run(args: &DiffArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    if args.plan.goal.is_empty() {
        let opened = open(&args.plan.input, CountFor::default(), None)?;
        if let Some(before) = before_compaction(&opened.conversation.session) {
            return Ok(recorded(&opened, &before, args.full, screen));
        }
    }
    planned(args, &CliConfig::for_file(config)?, screen)
}

/// The fate of one message.
struct Change {
    /// `-` removed, `~` shortened or moved out, `+` added, a blank for unchanged.
    mark: char,
    /// The name that `epitome read` takes.
    label: String,
    role: &'static str,
    /// One line of its content.
    excerpt: String,
    full_text: String,
    tokens: u64,
    note: String,
}

/// Shows the compaction that would be made.
fn planned(args: &DiffArgs, config: &CliConfig, screen: Screen) -> Result<Answer> {
    let job = FileCompaction::new(&args.plan, config)?;
    let mut text = receipt::headline(&job.opened, screen);
    let mut json = receipt::file_json(&job.opened);
    let Some(fitted) = job.preview()? else {
        json["changes"] = json!([]);
        return Ok(Answer::new(text + &nothing_to_do(&job), json));
    };
    text.push_str("The compaction that would be made:\n");
    let exit = if fitted.fits(job.limit) { Exit::Fine } else { Exit::CannotFit };
    if exit == Exit::CannotFit {
        text.push_str(&format!("{}\n", screen.bad(&job.below_floor().sentence)));
    }
    let changes = planned_changes(&job.opened, &fitted);
    Ok(Answer { exit, ..answer(text, json, &changes, args.full, screen) })
}

/// Lists every message of the thread in order, and each new text before the message that it will precede.
fn planned_changes(opened: &OpenedFile, fitted: &Fitted) -> Vec<Change> {
    let thread = &opened.conversation.thread;
    let mut marks = vec![('-', String::new()); thread.len()];
    let mut written: Vec<(usize, &str)> = Vec::new();
    let mut next = thread.len();
    // A session that can only express "this summary, then everything from here on" loses what the plan keeps before that
    // point, so there the messages that will be written count, not the plan's own.
    let messages = match opened.conversation.session.shape() {
        PromptShape::Free => &fitted.prompt.messages,
        PromptShape::SummaryThenTail => &fitted.context.messages,
    };
    for message in messages.iter().rev() {
        match message {
            PromptMessage::Kept(place) => (next, marks[*place]) = (*place, (' ', String::new())),
            PromptMessage::Edited { place, .. } => (next, marks[*place]) = (*place, ('~', edit_reason(fitted, *place))),
            PromptMessage::Written { text, .. } => written.push((next, text)),
        }
    }
    let mut changes = Vec::new();
    for place in 0..=thread.len() {
        let here = written.iter().rev().filter(|(before, _)| *before == place);
        changes.extend(here.map(|(_, text)| added("new".to_owned(), text, opened)));
        let Some((mark, note)) = marks.get(place).cloned() else { break };
        let message = thread.message(place);
        let (role, tokens) = (message.role().name(), message.tokens().get());
        changes.push(Change::of_message(mark, opened.label(place), role, message.parts(), tokens, note));
    }
    changes
}

/// Explains why a message is not in the prompt as it was.
fn edit_reason(fitted: &Fitted, place: usize) -> String {
    let mut records = fitted.compaction.plan.records.iter();
    let own = records.find(|record| record.part.is_some_and(|part| part.place == place));
    own.map_or_else(String::new, |record| reason(&record.action))
}

impl Change {
    fn of_message(mark: char, label: String, role: &'static str, parts: &[Part], tokens: u64, note: String) -> Change {
        let (excerpt, full_text) = (excerpt::line(parts), excerpt::full_text(parts));
        Change { mark, label, role, excerpt, full_text, tokens, note }
    }
}

fn added(label: String, text: &str, opened: &OpenedFile) -> Change {
    Change {
        mark: '+',
        label,
        role: "summary",
        excerpt: excerpt::first_words(text),
        full_text: text.to_owned(),
        tokens: opened.conversation.meter().text_message(text).get(),
        note: String::new(),
    }
}

/// Shows the newest compaction in the file.
fn recorded(opened: &OpenedFile, before: &Session, full: bool, screen: Screen) -> Answer {
    let session = &opened.conversation.session;
    let Some(compaction) = session.compactions().last() else { unreachable!("there is something before it") };
    let log = session.log();
    // A message that stays is there itself, as a copy that names it, or, in a format whose compactions write the whole
    // history again, as another message of the same words. Those that are certain are taken first.
    let mut after: Vec<usize> = compaction.after.clone();
    let mut take = |matches: &dyn Fn(usize) -> bool| {
        let found = after.iter().position(|at| matches(*at))?;
        Some(after.remove(found))
    };
    let mut itself_or_copy =
        |seen: &ContextMessage| seen.logged.and_then(|own| take(&|at| log[at].copy_of.unwrap_or(at) == own));
    let by_id: Vec<Option<usize>> = before.context().iter().map(&mut itself_or_copy).collect();
    let meter = opened.conversation.meter();
    let mut changes: Vec<Change> = Vec::new();
    for (seen, found) in before.context().iter().zip(by_id) {
        let message = &seen.message;
        let is_same =
            |at: usize| log[at].message.role == message.role && has_same_text(&log[at].message.parts, &message.parts);
        let now = found.or_else(|| take(&is_same)).map(|at| &log[at].message);
        let (mark, note) = match now {
            None => ('-', String::new()),
            Some(now) if has_same_text(&now.parts, &message.parts) => (' ', String::new()),
            Some(now) => ('~', format!("now: {}", excerpt::line(&now.parts))),
        };
        let tokens = meter.message(&meter.parts(message)).get();
        let (label, role) = (session.reference(seen), message.role.name());
        changes.push(Change::of_message(mark, label, role, &message.parts, tokens, note));
    }
    // The summary goes where the first messages left. A compaction that only shortened results wrote none; the summary in
    // its record is that of the one before.
    if !changes.iter().any(|change| change.mark != '-' && change.full_text.contains(&compaction.summary)) {
        let first_left = changes.iter().position(|change| change.mark == '-').unwrap_or(0);
        let stays = changes[first_left..].iter().position(|change| change.mark != '-');
        let place = stays.map_or(changes.len(), |stays| first_left + stays);
        changes.insert(place, added(format!("L{}", compaction.line), &compaction.summary, opened));
    }
    let mut text = receipt::headline(opened, screen);
    text.push_str(&format!("The newest compaction, on line {}:\n", compaction.line));
    let mut json = receipt::file_json(opened);
    json["line"] = json!(compaction.line);
    answer(text, json, &changes, full, screen)
}

/// Compares what two messages say, without the ids around it.
fn has_same_text(one: &[Part], other: &[Part]) -> bool {
    excerpt::full_text(one) == excerpt::full_text(other)
}

fn answer(head: String, mut json: Value, changes: &[Change], full: bool, screen: Screen) -> Answer {
    let mut text = head;
    for (mark, name) in [('-', "removed"), ('~', "shortened or moved out"), (' ', "kept"), ('+', "added")] {
        let of_kind: Vec<&Change> = changes.iter().filter(|change| change.mark == mark).collect();
        let tokens: u64 = of_kind.iter().map(|change| change.tokens).sum();
        let line = format!("  {mark} {} {name}, {tokens} tokens", count(of_kind.len(), "message"));
        text.push_str(&format!("{}\n", screen.marked(mark, &line)));
        json[name.split(' ').next().unwrap_or(name)] = json!({"messages": of_kind.len(), "tokens": tokens});
    }
    text.push_str("\nThe new prompt is every line without a `-`; `epitome read FILE NAME` shows one whole.\n\n");
    text.push_str(&if full { full_list(changes, screen) } else { short_list(changes, screen) });
    let to_json = |change: &Change| json!({"mark": change.mark, "message": change.label, "role": change.role, "tokens": change.tokens, "note": change.note});
    json["changes"] = changes.iter().map(to_json).collect();
    json["prompt"] = json!({"before": prompt(changes, '+'), "after": prompt(changes, '-')});
    Answer::new(text, json)
}

/// Returns a prompt for programs, one line for each message, without those of a mark.
fn prompt(changes: &[Change], without: char) -> Vec<String> {
    let there = changes.iter().filter(|change| change.mark != without);
    there.map(|change| format!("{} {} {}", change.label, change.role, change.excerpt)).collect()
}

/// Lists the changes, a line each; the middle of a long run is one line.
fn short_list(changes: &[Change], screen: Screen) -> String {
    let mut table = Table::new("lllrl");
    let mut marks: Vec<char> = Vec::new();
    for run in changes.chunk_by(|a, b| a.mark == b.mark) {
        let hides_middle = run.len() > RUN_MAX && run[0].mark != '~';
        for (at, change) in run.iter().enumerate() {
            let Change { mark, label, role, excerpt, tokens, note, .. } = change;
            if !hides_middle || at == 0 || at == run.len() - 1 {
                let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
                table.row(&[mark, label, role, tokens, &format!("{excerpt}{note}")]);
            } else if at == 1 {
                let middle = &run[1..run.len() - 1];
                let tokens: u64 = middle.iter().map(|change| change.tokens).sum();
                table.row(&[mark, &"", &"", &tokens, &format!("… {} more", middle.len())]);
            } else {
                continue;
            }
            marks.push(*mark);
        }
    }
    let lines = table.lines(screen);
    marks.iter().zip(&lines).map(|(mark, line)| screen.marked(*mark, line) + "\n").collect()
}

/// Lists the changes with their full texts.
fn full_list(changes: &[Change], screen: Screen) -> String {
    let one = |change: &Change| {
        let line = format!("  {}  {}  {}  {}", change.mark, change.label, change.role, change.tokens);
        let text: String = change.full_text.lines().map(|line| format!("      {line}\n")).collect();
        format!("{}\n{text}", screen.marked(change.mark, &line))
    };
    changes.iter().map(one).collect()
}
