//! `epitome log`: a thread's messages, its plans, or its events.

use std::ops::Range;
use std::path::Path;

use epitome::budget::Tokens;
use epitome_runtime::log::LogEntry;
use epitome_runtime::store::{PlanRow, ThreadRow};
use serde_json::{Value, json};

use crate::cli::Log;
use crate::failure::{Answer, Exit, Failure};
use crate::find::reference;
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::receipt::{headed, plural};
use crate::screen::Screen;
use crate::source::Source;
use crate::table::{Side, table};

/// The most characters of a message's first words.
const WORDS_MAX: usize = 72;

/// Shows a thread.
pub fn run(args: &Log, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    wait(async {
        let open_store = OpenStore::open(config, &args.store_args, IfMissing::Fail).await?;
        let row = open_store.thread(&args.thread).await?;
        let mut answer = match () {
            () if args.events => events(&open_store, &row, args, screen).await?,
            () if args.plans => plans(&open_store, &row, args, screen).await?,
            () => messages(&open_store, &row, args, screen).await?,
        };
        answer.text = headline(&row, screen) + &answer.text;
        answer.json["thread"] = json!(row.key.thread);
        answer.json["dialect"] = json!(row.dialect);
        Ok(answer)
    })
}

fn headline(row: &ThreadRow, screen: Screen) -> String {
    let (messages, plans) = (row.length as usize, row.version as usize);
    format!(
        "{}: {}, {messages} message{}, {} tokens, {plans} plan{}\n\n",
        screen.head(row.key.thread.as_str()),
        row.dialect,
        plural(messages),
        Tokens::new(row.tokens),
        plural(plans),
    )
}

async fn messages(open_store: &OpenStore, row: &ThreadRow, args: &Log, screen: Screen) -> Result<Answer, Failure> {
    let places = places(row, args)?;
    let left = left(open_store, row).await?;
    let entries = open_store.log().read(row, places.clone()).await?;
    let has_left = |entry: &LogEntry| left.iter().any(|(first, end)| (*first..*end).contains(&entry.place));
    let mut text = match args.full {
        true => entries.iter().map(|entry| whole(entry, has_left(entry), screen)).collect(),
        false => {
            let mut rows = vec![["", "role", "tokens", "", "says"].map(str::to_owned).to_vec()];
            rows.extend(entries.iter().map(|entry| line(entry, has_left(entry))));
            headed(&table(&[Side::Right, Side::Left, Side::Right, Side::Left, Side::Left], &rows, screen), screen)
        }
    };
    if places.end < row.length {
        text.push_str(&format!("\nAnd {} more, from m{} on.\n", row.length - places.end, places.end + 1));
    }
    let json: Vec<Value> = entries.iter().map(|entry| message_json(entry, has_left(entry))).collect();
    Ok(Answer::new(text, json!({"messages": json, "count": row.length})))
}

fn places(row: &ThreadRow, args: &Log) -> Result<Range<u64>, Failure> {
    let from = match &args.from {
        None => 1,
        Some(text) => reference(text, 'm').or_else(|| text.parse().ok()).filter(|from| *from > 0).ok_or_else(|| {
            Failure::new(Exit::Usage, format!("`{text}` is not a message.")).hint("A message is named like `m10`.")
        })?,
    };
    let start = (from as u64 - 1).min(row.length);
    Ok(start..start.saturating_add(args.limit as u64).min(row.length))
}

/// The runs of messages that left the prompt: by a plan, or before they were imported.
async fn left(open_store: &OpenStore, row: &ThreadRow) -> Result<Vec<(u64, u64)>, Failure> {
    let mut left = Source::of(open_store, &row.key.thread).await?.map(|source| source.left).unwrap_or_default();
    for version in 1..=row.version {
        if let Some(plan) = open_store.log().store().plan(&row.key, Some(version)).await? {
            left.extend(plan.compacted);
        }
    }
    Ok(left)
}

fn tokens(entry: &LogEntry) -> Tokens {
    entry.part_tokens.iter().copied().sum()
}

fn line(entry: &LogEntry, has_left: bool) -> Vec<String> {
    vec![
        format!("m{}", entry.place + 1),
        entry.message.role.name().to_owned(),
        tokens(entry).to_string(),
        if has_left { "left".to_owned() } else { String::new() },
        first_words(&entry.words()),
    ]
}

fn first_words(text: &str) -> String {
    let mut words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(WORDS_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words
}

fn whole(entry: &LogEntry, has_left: bool, screen: Screen) -> String {
    let left = if has_left { ", left the prompt" } else { "" };
    let head = format!("m{} {}, {} tokens{left}", entry.place + 1, entry.message.role.name(), tokens(entry));
    format!("{}\n{}\n\n", screen.dim(&head), entry.words().trim_end())
}

fn message_json(entry: &LogEntry, has_left: bool) -> Value {
    json!({
        "message": format!("m{}", entry.place + 1), "place": entry.place, "id": entry.id.to_string(),
        "role": entry.message.role.name(), "turn": entry.turn, "tokens": tokens(entry), "at": entry.at.to_string(),
        "left": has_left, "text": entry.words(),
    })
}

async fn plans(open_store: &OpenStore, row: &ThreadRow, args: &Log, screen: Screen) -> Result<Answer, Failure> {
    let mut found: Vec<PlanRow> = Vec::new();
    for version in (1..=row.version).take(args.limit) {
        found.extend(open_store.log().store().plan(&row.key, Some(version)).await?);
    }
    if found.is_empty() {
        return Ok(Answer::new("It was never compacted.\n", json!({"plans": []})));
    }
    let titles = ["plan", "at", "policy", "before", "after", "took out"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(found.iter().map(plan_line));
    let sides = [Side::Right, Side::Left, Side::Left, Side::Right, Side::Right, Side::Left];
    let json: Vec<Value> = found.iter().map(plan_json).collect();
    Ok(Answer::new(headed(&table(&sides, &rows, screen), screen), json!({"plans": json})))
}

fn plan_line(plan: &PlanRow) -> Vec<String> {
    let runs: Vec<String> = plan.compacted.iter().map(run_of).collect();
    vec![
        plan.version.to_string(),
        plan.at.to_string(),
        plan.policy.clone(),
        Tokens::new(plan.before).to_string(),
        Tokens::new(plan.after).to_string(),
        if runs.is_empty() { "nothing new".to_owned() } else { runs.join(", ") },
    ]
}

fn run_of((first, end): &(u64, u64)) -> String {
    if end - first == 1 { format!("m{end}") } else { format!("m{} to m{end}", first + 1) }
}

fn plan_json(plan: &PlanRow) -> Value {
    json!({
        "version": plan.version, "at": plan.at.to_string(), "policy": plan.policy, "before": plan.before,
        "after": plan.after, "covers": plan.covers, "live_from": plan.live_from, "compacted": plan.compacted,
    })
}

async fn events(open_store: &OpenStore, row: &ThreadRow, args: &Log, screen: Screen) -> Result<Answer, Failure> {
    let found = open_store.log().events(&row.key, 0, args.limit).await?;
    if found.is_empty() {
        return Ok(Answer::new("Nothing has happened to it.\n", json!({"events": []})));
    }
    let mut rows = vec![["", "at", "event", "before", "after", "details"].map(str::to_owned).to_vec()];
    rows.extend(found.iter().map(|(number, event)| {
        let details: Vec<String> = event.details.iter().map(|(name, value)| format!("{name} {value}")).collect();
        vec![
            number.to_string(),
            event.at.to_string(),
            event.kind.name(),
            Tokens::new(event.tokens_before).to_string(),
            Tokens::new(event.tokens_after).to_string(),
            details.join(", "),
        ]
    }));
    let sides = [Side::Right, Side::Left, Side::Left, Side::Right, Side::Right, Side::Left];
    let json: Vec<Value> = found.iter().map(|(number, event)| json!({"number": number, "event": event})).collect();
    Ok(Answer::new(headed(&table(&sides, &rows, screen), screen), json!({"events": json})))
}
