//! `epitome log`: a thread's messages, its plans, or its events.

use std::ops::Range;
use std::path::Path;

use epitome::budget::Tokens;
use epitome_runtime::log::LogEntry;
use epitome_runtime::store::{PlanRow, ThreadRow};
use serde_json::{Value, json};

use crate::cli::LogArgs;
use crate::excerpt;
use crate::failure::{Answer, Exit, Failure, Result};
use crate::find_message::parse_reference;
use crate::imported_file::ImportedFile;
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::receipt::count;
use crate::screen::Screen;
use crate::table::Table;

pub fn run(args: &LogArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    wait(async {
        let store = OpenStore::open(config, &args.store_options, IfMissing::Fail).await?;
        let row = store.require_thread(&args.thread).await?;
        let mut answer = if args.events {
            events(&store, &row, args, screen).await?
        } else if args.plans {
            plans(&store, &row, args, screen).await?
        } else {
            messages(&store, &row, args, screen).await?
        };
        let (thread, dialect, tokens) = (screen.head(row.key.thread.as_str()), &row.dialect, row.tokens);
        let (messages, plans) = (count(row.length as usize, "message"), count(row.version as usize, "plan"));
        answer.text = format!("{thread}: {dialect}, {messages}, {tokens} tokens, {plans}\n\n{}", answer.text);
        answer.json["thread"] = json!(row.key.thread);
        answer.json["dialect"] = json!(row.dialect);
        Ok(answer)
    })
}

async fn messages(store: &OpenStore, row: &ThreadRow, args: &LogArgs, screen: Screen) -> Result<Answer> {
    let places = places(row, args)?;
    let left = left(store, row).await?;
    let entries = store.log().read(row, places.clone()).await?;
    let mut table = Table::with_heads("rlrll", ["", "role", "tokens", "", "says"]);
    let mut full = String::new();
    let mut json: Vec<Value> = Vec::new();
    for entry in &entries {
        let has_left = left.iter().any(|(first, end)| (*first..*end).contains(&entry.place));
        let (name, role, words) = (format!("m{}", entry.place + 1), entry.message.role.name(), entry.words());
        let tokens: Tokens = entry.part_tokens.iter().copied().sum();
        let head = format!("{name} {role}, {tokens} tokens{}", if has_left { ", left the prompt" } else { "" });
        full.push_str(&format!("{}\n{}\n\n", screen.dim(&head), words.trim_end()));
        table.row(&[&name, &role, &tokens, &if has_left { "left" } else { "" }, &excerpt::first_words(&words)]);
        json.push(message_json(entry, &name, tokens, has_left));
    }
    let mut text = if args.full { full } else { table.text(screen) };
    if places.end < row.length {
        text.push_str(&format!("\n{} more, from m{} on.\n", row.length - places.end, places.end + 1));
    }
    Ok(Answer::new(text, json!({"messages": json, "count": row.length})))
}

fn message_json(entry: &LogEntry, name: &str, tokens: Tokens, has_left: bool) -> Value {
    json!({
        "message": name, "place": entry.place, "id": entry.id.to_string(),
        "role": entry.message.role.name(), "turn": entry.turn, "tokens": tokens, "at": entry.at.to_string(),
        "left": has_left, "text": entry.words(),
    })
}

fn places(row: &ThreadRow, args: &LogArgs) -> Result<Range<u64>> {
    let from = match &args.from {
        None => 1,
        Some(text) => {
            parse_reference(text, 'm').or_else(|| text.parse().ok()).filter(|from| *from > 0).ok_or_else(|| {
                Failure::new(Exit::Usage, format!("`{text}` is not a message.")).hint("Name one by its number: `m10`.")
            })?
        }
    };
    let start = (from as u64 - 1).min(row.length);
    Ok(start..start.saturating_add(args.limit as u64).min(row.length))
}

/// Returns the runs of messages that left the prompt, by a plan or before they were imported.
async fn left(store: &OpenStore, row: &ThreadRow) -> Result<Vec<(u64, u64)>> {
    let imported = ImportedFile::of(store, &row.key.thread).await?;
    let mut left = imported.map(|imported| imported.left).unwrap_or_default();
    for plan in read_plans(store, row, row.version).await? {
        left.extend(plan.compacted);
    }
    Ok(left)
}

async fn read_plans(store: &OpenStore, row: &ThreadRow, last: u64) -> Result<Vec<PlanRow>> {
    let mut plans = Vec::new();
    for version in 1..=last {
        plans.extend(store.log().store().plan(&row.key, Some(version)).await?);
    }
    Ok(plans)
}

async fn plans(store: &OpenStore, row: &ThreadRow, args: &LogArgs, screen: Screen) -> Result<Answer> {
    let plans = read_plans(store, row, row.version.min(args.limit as u64)).await?;
    if plans.is_empty() {
        return Ok(Answer::new("It was never compacted.\n", json!({"plans": []})));
    }
    let mut table = Table::with_heads("rllrrl", ["plan", "at", "policy", "before", "after", "took out"]);
    let mut json: Vec<Value> = Vec::new();
    for plan in &plans {
        let runs: Vec<String> = plan.compacted.iter().map(run_text).collect();
        let took_out = if runs.is_empty() { "nothing new".to_owned() } else { runs.join(", ") };
        table.row(&[&plan.version, &plan.at, &plan.policy, &plan.before, &plan.after, &took_out]);
        json.push(json!({
            "version": plan.version, "at": plan.at.to_string(), "policy": plan.policy, "before": plan.before,
            "after": plan.after, "covers": plan.covers, "live_from": plan.live_from, "compacted": plan.compacted,
        }));
    }
    Ok(Answer::new(table.text(screen), json!({"plans": json})))
}

fn run_text((first, end): &(u64, u64)) -> String {
    if end - first == 1 { format!("m{end}") } else { format!("m{} to m{end}", first + 1) }
}

async fn events(store: &OpenStore, row: &ThreadRow, args: &LogArgs, screen: Screen) -> Result<Answer> {
    let events = store.log().events(&row.key, 0, args.limit).await?;
    if events.is_empty() {
        return Ok(Answer::new("It has no events.\n", json!({"events": []})));
    }
    let mut table = Table::with_heads("rllrrl", ["", "at", "event", "before", "after", "details"]);
    for (number, event) in &events {
        let details: Vec<String> = event.details.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let (before, after) = (event.tokens_before, event.tokens_after);
        table.row(&[number, &event.at, &event.kind.name(), &before, &after, &details.join(", ")]);
    }
    let json: Vec<Value> = events.iter().map(|(number, event)| json!({"number": number, "event": event})).collect();
    Ok(Answer::new(table.text(screen), json!({"events": json})))
}
