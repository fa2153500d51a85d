//! `epitome diff`: what a compaction removed, moved and kept, and the prompt it left.

use std::path::Path;

use epitome::planner::Shape;
use epitome::session::Session;
use epitome::thread::Part;
use epitome::wire::PromptMessage;
use serde_json::{Value, json};

use super::compact::nothing_to_do;
use super::plan::reason;
use crate::cli::Diff;
use crate::excerpt;
use crate::failure::{Answer, Exit, Failure};
use crate::find::before_compaction;
use crate::open::{CountFor, Opened, open};
use crate::planning::{Job, Made};
use crate::receipt::{self, plural};
use crate::screen::Screen;
use crate::settings::Configured;
use crate::table::{Side, table};

/// Runs of changes of one kind longer than this are told in one line.
const RUN_MAX: usize = 3;

/// Shows the difference.
pub fn run(args: &Diff, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    if args.planned.aim.is_empty() {
        let opened = open(&args.planned.input, CountFor::default(), None)?;
        if let Some(before) = before_compaction(&opened.session) {
            return Ok(recorded(&opened, &before, args.full, screen));
        }
    }
    planned(args, &Configured::for_file(config)?, screen)
}

/// What became of one message.
struct Change {
    /// `-` removed, `~` shortened or moved out, `+` added, a blank where it is as it was.
    mark: char,
    /// What `epitome read` takes for it.
    label: String,
    who: String,
    words: String,
    whole: String,
    tokens: u64,
    note: String,
}

/// The compaction that would be made.
fn planned(args: &Diff, configured: &Configured, screen: Screen) -> Result<Answer, Failure> {
    let job = Job::new(&args.planned, configured)?;
    let Some(made) = job.preview()? else {
        let text = receipt::headline(&job.opened, screen) + &nothing_to_do(&job);
        let mut json = receipt::file_json(&job.opened);
        json["changes"] = json!([]);
        return Ok(Answer::new(text, json));
    };
    let changes = planned_changes(&job.opened, &made);
    let mut text = receipt::headline(&job.opened, screen);
    text.push_str("The compaction that would be made:\n");
    let exit = if made.fits(job.limit) { Exit::Fine } else { Exit::CannotFit };
    if exit == Exit::CannotFit {
        text.push_str(&format!("{}\n", screen.bad(&job.below_floor().sentence)));
    }
    Ok(Answer { exit, ..answer(text, receipt::file_json(&job.opened), &changes, args.full, screen) })
}

/// Every message of the thread in its order, with what is written before the message that it will stand before.
fn planned_changes(opened: &Opened, made: &Made) -> Vec<Change> {
    let thread = &opened.thread;
    let meter = opened.meter();
    let mut marks = vec![('-', String::new()); thread.len()];
    let mut written: Vec<(usize, &str)> = Vec::new();
    let mut next = thread.len();
    // The prompt as it will be read from the file that is written. A session that can only say "this summary, then everything
    // from here on" loses what the plan keeps before that point, so the plan's own records do not tell.
    let messages = match opened.session.shape() {
        Shape::Free => &made.prompt.messages,
        Shape::SummaryThenTail => &made.context.messages,
    };
    for message in messages.iter().rev() {
        match message {
            PromptMessage::Kept(place) => (next, marks[*place]) = (*place, (' ', String::new())),
            PromptMessage::Edited { place, .. } => (next, marks[*place]) = (*place, ('~', edit_reason(made, *place))),
            PromptMessage::Written { text, .. } => written.push((next, text)),
        }
    }
    let mut changes = Vec::new();
    for place in 0..=thread.len() {
        let here = written.iter().rev().filter(|(before, _)| *before == place);
        changes.extend(here.map(|(_, text)| added("new", text, meter.text_message(text).get())));
        let Some((mark, note)) = marks.get(place).cloned() else { break };
        let message = thread.message(place);
        changes.push(Change {
            mark,
            label: opened.label(place),
            who: message.role().name().to_owned(),
            words: excerpt::line(message.parts()),
            whole: excerpt::full_text(message.parts()),
            tokens: message.tokens().get(),
            note,
        });
    }
    changes
}

/// Why a message is not in the prompt as it was.
fn edit_reason(made: &Made, place: usize) -> String {
    let records = made.compaction.plan.records.iter();
    let mut own = records.filter(|record| record.part.is_some_and(|part| part.place == place));
    own.next().map_or_else(String::new, |record| reason(&record.action))
}

fn added(label: &str, text: &str, tokens: u64) -> Change {
    Change {
        mark: '+',
        label: label.to_owned(),
        who: "summary".to_owned(),
        words: excerpt::first_words(text),
        whole: text.to_owned(),
        tokens,
        note: String::new(),
    }
}

/// The newest compaction in the file.
fn recorded(opened: &Opened, before: &Session, full: bool, screen: Screen) -> Answer {
    let session = &opened.session;
    let Some(compaction) = session.compactions().last() else { unreachable!("there is something before it") };
    let log = session.log();
    // A message that stays is there itself, as a copy that names it, or, in a format whose compactions write the whole
    // history anew, as another message of the same words.
    let mut after: Vec<usize> = compaction.after.clone();
    let mut take = |is_it: &dyn Fn(usize) -> bool| {
        let found = after.iter().position(|at| is_it(*at))?;
        Some(after.remove(found))
    };
    let by_id: Vec<Option<usize>> = before
        .context()
        .iter()
        .map(|seen| seen.logged.and_then(|own| take(&|at| log[at].copy_of.unwrap_or(at) == own)))
        .collect();
    let meter = opened.meter();
    let mut changes: Vec<Change> = Vec::new();
    for (seen, found) in before.context().iter().zip(by_id) {
        let is_same = |at: usize| {
            log[at].message.role == seen.message.role && same_words(&log[at].message.parts, &seen.message.parts)
        };
        let now = found.or_else(|| take(&is_same)).map(|at| &log[at].message);
        let (mark, note) = match now {
            None => ('-', String::new()),
            Some(now) if same_words(&now.parts, &seen.message.parts) => (' ', String::new()),
            Some(now) => ('~', format!("now: {}", excerpt::line(&now.parts))),
        };
        changes.push(Change {
            mark,
            label: session.reference(seen),
            who: seen.message.role.name().to_owned(),
            words: excerpt::line(&seen.message.parts),
            whole: excerpt::full_text(&seen.message.parts),
            tokens: meter.message(&meter.parts(&seen.message)).get(),
            note,
        });
    }
    // What was written stands where the first messages left; a compaction that only shortened results wrote nothing, and
    // its summary is that of the one before.
    let is_new = !changes.iter().any(|change| change.mark != '-' && change.whole.contains(&compaction.summary));
    let first_left = changes.iter().position(|change| change.mark == '-').unwrap_or(0);
    let stays = changes[first_left..].iter().position(|change| change.mark != '-');
    let place = stays.map_or(changes.len(), |stays| first_left + stays);
    let label = format!("L{}", compaction.line);
    if is_new {
        changes.insert(place, added(&label, &compaction.summary, meter.text_message(&compaction.summary).get()));
    }
    let mut text = receipt::headline(opened, screen);
    text.push_str(&format!("The newest compaction, on line {}:\n", compaction.line));
    let mut json = receipt::file_json(opened);
    json["line"] = json!(compaction.line);
    answer(text, json, &changes, full, screen)
}

/// Whether two messages say the same, whatever the ids around it.
fn same_words(one: &[Part], other: &[Part]) -> bool {
    excerpt::full_text(one) == excerpt::full_text(other)
}

fn answer(head: String, mut json: Value, changes: &[Change], full: bool, screen: Screen) -> Answer {
    let mut text = head;
    for (mark, name) in [('-', "removed"), ('~', "shortened or moved out"), (' ', "kept"), ('+', "added")] {
        let of_kind: Vec<&Change> = changes.iter().filter(|change| change.mark == mark).collect();
        let tokens: u64 = of_kind.iter().map(|change| change.tokens).sum();
        let count = of_kind.len();
        let line = format!("  {mark} {count} message{} {name}, {tokens} tokens", plural(count));
        text.push_str(&format!("{}\n", screen.marked(mark, &line)));
        json[name.split(' ').next().unwrap_or(name)] = json!({"messages": count, "tokens": tokens});
    }
    text.push_str("\nThe prompt after it is every line without a `-`; `epitome read` takes the names.\n\n");
    text.push_str(&if full { whole(changes, screen) } else { listing(changes, screen) });
    let listed = |change: &Change| json!({"mark": change.mark, "message": change.label, "role": change.who, "tokens": change.tokens, "note": change.note});
    json["changes"] = changes.iter().map(listed).collect();
    json["prompt"] = json!({"before": prompt(changes, '+'), "after": prompt(changes, '-')});
    Answer::new(text, json)
}

/// A prompt for programs, one line for each message: all but those of a mark.
fn prompt(changes: &[Change], without: char) -> Vec<String> {
    let there = changes.iter().filter(|change| change.mark != without);
    there.map(|change| format!("{} {} {}", change.label, change.who, change.words)).collect()
}

/// The changes in a table, long runs of one kind told in a line.
fn listing(changes: &[Change], screen: Screen) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for run in changes.chunk_by(|a, b| a.mark == b.mark) {
        match run {
            [first, between @ .., last] if run.len() > RUN_MAX && first.mark != '~' => {
                let tokens: u64 = between.iter().map(|change| change.tokens).sum();
                let more = format!("… {} more", between.len());
                rows.push(row(first));
                rows.push(vec![first.mark.to_string(), String::new(), String::new(), tokens.to_string(), more]);
                rows.push(row(last));
            }
            _ => rows.extend(run.iter().map(row)),
        }
    }
    let sides = [Side::Left, Side::Left, Side::Left, Side::Right, Side::Left];
    let lines = table(&sides, &rows, screen);
    let marked = rows.iter().zip(lines.lines());
    marked.map(|(row, line)| format!("{}\n", screen.marked(row[0].chars().next().unwrap_or(' '), line))).collect()
}

fn row(change: &Change) -> Vec<String> {
    let note = if change.note.is_empty() { String::new() } else { format!(" ({})", change.note) };
    let words = format!("{}{note}", change.words);
    vec![change.mark.to_string(), change.label.clone(), change.who.clone(), change.tokens.to_string(), words]
}

/// Every change with its text whole.
fn whole(changes: &[Change], screen: Screen) -> String {
    let one = |change: &Change| {
        let line = format!("  {}", row(change)[..4].join("  "));
        let text: String = change.whole.lines().map(|line| format!("      {line}\n")).collect();
        format!("{}\n{text}", screen.marked(change.mark, &line))
    };
    changes.iter().map(one).collect()
}
