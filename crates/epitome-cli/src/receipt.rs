//! The receipt of a compaction for people and for programs: sizes, rungs, and what became of every kind of item.

use epitome::budget::SettledWindow;
use epitome::plan::Plan;
use epitome::session::{Notice, Session};
use epitome::summary::{Fate, ItemKind, Receipt};
use epitome::thread::Thread;
use epitome::{Conversation, Fitted};
use serde_json::{Value, json};

use crate::file_compaction::FileCompaction;
use crate::input::OpenedFile;
use crate::pi_settings::PiSettings;
use crate::screen::Screen;
use crate::summary_writer::SummarySource;
use crate::table::Table;

/// The kinds of items and their plurals, in the order of the table.
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

/// Returns a line about the file.
pub fn headline(opened: &OpenedFile, screen: Screen) -> String {
    let thread = &opened.conversation.thread;
    format!(
        "{}: {}, {} in {}\n",
        screen.head(&opened.path.display().to_string()),
        opened.conversation.session.format().description(),
        count(thread.len(), "message"),
        count(thread.turn() as usize, "turn"),
    )
}

/// Names a window and where it is from.
pub fn window_text(window: &SettledWindow) -> String {
    format!("window {}, {}", window.tokens, window.source)
}

/// Returns a line about the sizes that a compaction goes by.
pub fn limits(job: &FileCompaction) -> String {
    let window = job.window.as_ref().map(|window| window_text(window) + "; ").unwrap_or_default();
    let pi = job.pi.as_ref().map(PiSettings::text).unwrap_or_default();
    format!("{window}target {}, hard limit {}\n{pi}", job.room.target, job.limit)
}

/// Returns the window, for programs.
pub fn window_json(window: &SettledWindow) -> Value {
    json!({"tokens": window.tokens, "from": window.source.to_string()})
}

/// Returns a number of things: `1 message`, `2 messages`.
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Returns a share in percent.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Returns the receipt for people, without where it was written.
pub fn text(job: &FileCompaction, fitted: &Fitted, source: &SummarySource, screen: Screen) -> String {
    let opened = &job.opened;
    let plan = &fitted.compaction.plan;
    let (before, after) = (fitted.context.tokens_before, fitted.context.tokens_after);
    let mut out = headline(opened, screen);
    out.push_str(&format!("counted by {}; policy {}{}\n", opened.provenance(), plan.policy, source.text()));
    out.push_str(&limits(job));
    out.extend(source.fallback_reason().map(|reason| reason + "\n"));
    let mut sizes = Table::new("lrl");
    sizes.row(&[&"before", &before, &""]);
    sizes.row(&[&"after", &after, &percent(after, before)]);
    for table in [sizes.text(screen), steps(plan, screen), items(&fitted.compaction.receipt, screen)] {
        out.push('\n');
        out.push_str(&table);
    }
    for warning in &plan.warnings {
        out.push_str(&format!("\n  {warning}\n"));
    }
    out
}

/// Returns a table of what each rung freed.
pub fn steps(plan: &Plan, screen: Screen) -> String {
    let mut table = Table::with_heads("lrrrl", ["rung", "touched", "freed", "left", ""]);
    for step in &plan.steps {
        let rung = step.rung.map_or("own", |rung| rung.name());
        table.row(&[&rung, &step.touched, &step.freed, &step.after, &step.note]);
    }
    table.text(screen)
}

/// Returns a table of what became of each kind of item.
fn items(receipt: &Receipt, screen: Screen) -> String {
    let mut table = Table::with_heads("lrrr", ["items", "in the prompt", "removed, still readable", "lost"]);
    for (kind, name) in KINDS {
        let [retained, recoverable, lost] =
            [Fate::Retained, Fate::Recoverable, Fate::Lost].map(|fate| receipt.of_kind(kind, fate).count());
        if retained + recoverable + lost > 0 {
            table.row(&[&name, &retained, &recoverable, &lost]);
        }
    }
    table.text(screen)
}

/// Returns the reference of a removed message, to try reading it back.
pub fn example_reference(fitted: &Fitted, thread: &Thread) -> Option<String> {
    let mut entries = fitted.compaction.receipt.entries.iter();
    if let Some(entry) = entries.find(|entry| entry.fate == Fate::Recoverable && !entry.reference.is_empty()) {
        return Some(entry.reference.clone());
    }
    let mut places = fitted.compaction.plan.records.iter().flat_map(|record| record.span.range());
    places.find(|place| thread.message(*place).number() > 0).map(|place| thread.reference(place))
}

/// Returns what is odd about a file, for people: one line for each kind of oddity, with its first place.
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

/// Returns what is odd about a file, for programs.
pub fn notices_json(session: &Session) -> Value {
    session.notices().iter().map(|notice| json!({"line": notice.line, "notice": notice.sentence})).collect()
}

/// Describes the file, for programs.
pub fn file_json(opened: &OpenedFile) -> Value {
    let Conversation { session, thread, counter, model, .. } = &opened.conversation;
    json!({
        "file": opened.path.display().to_string(),
        "format": session.format().name(),
        "messages": thread.len(),
        "turns": thread.turn(),
        "tokens": thread.total(),
        "reported": opened.conversation.reported(),
        "counted": {"by": counter.name(), "source": counter.source(), "model": model},
    })
}

/// Describes a file that is not compacted, for programs.
pub fn unchanged_json(job: &FileCompaction) -> Value {
    let mut json = file_json(&job.opened);
    json["compacted"] = json!(false);
    json["room"] = json!(job.room);
    json["window"] = json!(job.window.as_ref().map(window_json));
    add_pi_settings(job, &mut json);
    json
}

/// Adds the settings of pi that changed the policy.
fn add_pi_settings(job: &FileCompaction, json: &mut Value) {
    if let Some(pi) = &job.pi {
        json["pi_settings"] = pi.to_json();
    }
}

/// Returns the receipt for programs, without where it was written.
pub fn json(job: &FileCompaction, fitted: &Fitted, source: &SummarySource) -> Value {
    let plan = &fitted.compaction.plan;
    let receipt = &fitted.compaction.receipt;
    let mut json = file_json(&job.opened);
    json["policy"] = json!(plan.policy);
    json["before"] = json!(fitted.context.tokens_before);
    json["after"] = json!(fitted.context.tokens_after);
    json["room"] = json!(plan.room);
    json["limit"] = json!(job.limit);
    json["window"] = json!(job.window.as_ref().map(window_json));
    json["steps"] = json!(plan.steps);
    json["warnings"] = json!(plan.warnings);
    json["items"] = json!({
        "retained": receipt.count(Fate::Retained),
        "recoverable": receipt.count(Fate::Recoverable),
        "lost": receipt.count(Fate::Lost),
        "entries": receipt.entries,
    });
    add_pi_settings(job, &mut json);
    json["digest"] = json!(fitted.compaction.digest());
    json["summary"] = source.to_json();
    json["notices"] = notices_json(&job.opened.conversation.session);
    json
}
