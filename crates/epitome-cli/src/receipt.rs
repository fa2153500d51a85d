//! The receipt of a compaction for people and for programs: sizes, rungs, and what became of every kind of item.

use epitome::budget::Tokens;
use epitome::plan::{Plan, Step};
use epitome::session::{Notice, Session};
use epitome::summary::{Fate, ItemKind, Receipt};
use epitome::thread::Thread;
use serde_json::{Value, json};

use crate::open::Opened;
use crate::planning::{Job, Made};
use crate::screen::Screen;
use crate::table::{Side, table};

/// The kinds of items, in the order in which they are listed to people, with their plurals.
const KINDS: [(ItemKind, &str); 15] = [
    (ItemKind::Pin, "pins"),
    (ItemKind::Constraint, "constraints"),
    (ItemKind::Request, "requests"),
    (ItemKind::Goal, "goals"),
    (ItemKind::Fact, "facts"),
    (ItemKind::Decision, "decisions"),
    (ItemKind::Plan, "plan items"),
    (ItemKind::OpenItem, "open items"),
    (ItemKind::File, "files"),
    (ItemKind::Command, "commands"),
    (ItemKind::Error, "errors"),
    (ItemKind::Url, "addresses"),
    (ItemKind::Media, "images and files"),
    (ItemKind::Outcome, "tool outcomes"),
    (ItemKind::Value, "values"),
];

/// One line about the file.
pub fn headline(opened: &Opened, screen: Screen) -> String {
    let count = opened.thread.len();
    let turns = opened.thread.turn();
    format!(
        "{}: {}, {count} message{} in {turns} turn{}\n",
        screen.head(&opened.path.display().to_string()),
        opened.session.format().description(),
        plural(count),
        plural(turns as usize),
    )
}

/// The size of a prompt: what is counted, and what the provider reported.
pub fn size(opened: &Opened) -> String {
    let total = opened.thread.total();
    match opened.reported() {
        Some(reported) => format!("{total} tokens of messages (the provider reported {reported} for the whole prompt)"),
        None => format!("{total} tokens"),
    }
}

/// The window and what a compaction of the file goes by.
pub fn room(job: &Job) -> String {
    let marks = format!("compacts above {}, at most {}", job.room.target, job.limit);
    match &job.window {
        Some(window) => format!("window {}, {}; {marks}", window.tokens, window.source),
        None => marks,
    }
}

/// The window, for programs.
pub fn window_json(job: &Job) -> Value {
    let window = job.window.as_ref();
    window.map_or(Value::Null, |window| json!({"tokens": window.tokens, "from": window.source.to_string()}))
}

/// An `s` unless there is one.
pub fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// A share in percent.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// The receipt for people, without where it was written.
pub fn text(job: &Job, made: &Made, screen: Screen) -> String {
    let opened = &job.opened;
    let (before, after) = (made.context.tokens_before, made.context.tokens_after);
    let mut out = headline(opened, screen);
    let (counted, policy) = (opened.provenance(), &made.compaction.plan.policy);
    out.push_str(&format!("counted by {counted}; policy {policy}{}\n", made.by.text()));
    if let Some(window) = &job.window {
        out.push_str(&format!("window {}, {}\n", window.tokens, window.source));
    }
    out.extend(made.by.excuse().map(|excuse| excuse + "\n"));
    out.push('\n');
    let rows = vec![
        vec!["before".to_owned(), Tokens::new(before).to_string(), String::new()],
        vec![
            "after".to_owned(),
            Tokens::new(after).to_string(),
            format!("{}, of at most {}", percent(after, before), job.limit),
        ],
    ];
    out.push_str(&table(&[Side::Left, Side::Right, Side::Left], &rows, screen));
    out.push('\n');
    out.push_str(&steps(&made.compaction.plan, screen));
    out.push('\n');
    out.push_str(&items(&made.compaction.receipt, screen));
    for warning in &made.compaction.plan.warnings {
        out.push_str(&format!("\n  {warning}\n"));
    }
    out
}

/// What each rung bought.
pub fn steps(plan: &Plan, screen: Screen) -> String {
    let mut rows =
        vec![vec!["rung".to_owned(), "touched".to_owned(), "freed".to_owned(), "left".to_owned(), String::new()]];
    rows.extend(plan.steps.iter().map(step));
    let sides = [Side::Left, Side::Right, Side::Right, Side::Right, Side::Left];
    headed(&table(&sides, &rows, screen), screen)
}

fn step(step: &Step) -> Vec<String> {
    let rung = step.rung.map_or("own", |rung| rung.name());
    vec![rung.to_owned(), step.touched.to_string(), step.freed.to_string(), step.after.to_string(), step.note.clone()]
}

/// A table store_args first line is a heading.
pub fn headed(table: &str, screen: Screen) -> String {
    match table.split_once('\n') {
        Some((head, rest)) => format!("{}\n{rest}", screen.dim(head)),
        None => table.to_owned(),
    }
}

/// What became of every kind of item.
fn items(receipt: &Receipt, screen: Screen) -> String {
    let titles = ["items", "in the prompt", "removed, still readable", "lost"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for (kind, name) in KINDS {
        let fates = [Fate::Retained, Fate::Recoverable, Fate::Lost].map(|fate| receipt.of_kind(kind, fate).count());
        if fates.iter().sum::<usize>() > 0 {
            rows.push([name.to_owned()].into_iter().chain(fates.map(|count| count.to_string())).collect());
        }
    }
    if rows.len() == 1 {
        return String::new();
    }
    headed(&table(&[Side::Left, Side::Right, Side::Right, Side::Right], &rows, screen), screen)
}

/// A message to try reading back.
pub fn example_reference(made: &Made, thread: &Thread) -> Option<String> {
    let entries = made.compaction.receipt.entries.iter();
    let entry = entries.into_iter().find(|entry| entry.fate == Fate::Recoverable && !entry.reference.is_empty());
    let places = || made.compaction.plan.records.iter().flat_map(|record| record.span.range());
    let first = || places().find(|place| thread.message(*place).number() > 0).map(|place| thread.reference(place));
    entry.map(|entry| entry.reference.clone()).or_else(first)
}

/// Returns what is odd about a file, for people: one line for each kind of oddity, with the first place it is at.
pub fn notices(session: &Session, screen: Screen) -> String {
    let mut kinds: Vec<(&Notice, usize)> = Vec::new();
    for notice in session.notices() {
        match kinds.iter_mut().find(|(first, _)| first.kind == notice.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((notice, 1)),
        }
    }
    if kinds.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", screen.dim("  notices"));
    for (first, count) in &kinds {
        let more = if *count > 1 { format!(" (and {} more like this)", count - 1) } else { String::new() };
        out.push_str(&format!("  {first}{more}\n"));
    }
    if kinds.iter().any(|(_, count)| *count > 1) {
        out.push_str("  `--json` lists them all.\n");
    }
    out
}

/// What is odd about a file, for programs.
pub fn notices_json(session: &Session) -> Value {
    session.notices().iter().map(|notice| json!({"line": notice.line, "notice": notice.sentence})).collect()
}

/// The file, for programs.
pub fn file_json(opened: &Opened) -> Value {
    json!({
        "file": opened.path.display().to_string(),
        "format": opened.session.format().name(),
        "messages": opened.thread.len(),
        "turns": opened.thread.turn(),
        "tokens": opened.thread.total(),
        "reported": opened.reported(),
        "counted": {"by": opened.counter.name(), "source": opened.counter.source(), "model": opened.model},
    })
}

/// The receipt for programs, without where it was written.
pub fn json(job: &Job, made: &Made) -> Value {
    let plan = &made.compaction.plan;
    let receipt = &made.compaction.receipt;
    let mut json = file_json(&job.opened);
    json["policy"] = json!(plan.policy);
    json["before"] = json!(made.context.tokens_before);
    json["after"] = json!(made.context.tokens_after);
    json["room"] = json!(plan.room);
    json["limit"] = json!(job.limit);
    json["window"] = window_json(job);
    json["steps"] = json!(plan.steps);
    json["warnings"] = json!(plan.warnings);
    json["items"] = json!({
        "retained": receipt.count(Fate::Retained),
        "recoverable": receipt.count(Fate::Recoverable),
        "lost": receipt.count(Fate::Lost),
        "entries": receipt.entries,
    });
    json["summary"] = made.by.json();
    json["notices"] = notices_json(&job.opened.session);
    json
}
