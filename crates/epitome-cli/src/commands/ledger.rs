//! `epitome ledger`: what a gateway's requests cost and what they would have cost without it, by day or for a thread.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_gateway::ledger::{Day, DayTotals, Entry, Page, Sums, Totals, Unit, entries, totals};
use serde_json::json;

use crate::cli::Ledger;
use crate::failure::{Answer, Exit, Failure};
use crate::open_store::{IfMissing, OpenStore, thread_id, wait};
use crate::receipt::headed;
use crate::screen::Screen;
use crate::table::{Side, table};

/// Shows the ledger.
pub fn run(args: &Ledger, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    wait(async {
        let open_store = OpenStore::open(config, &args.store_args, IfMissing::Fail).await?;
        match &args.thread {
            Some(thread) => of_thread(&open_store, thread, args, screen).await,
            None => by_day(&open_store, args, screen).await,
        }
    })
}

async fn by_day(open_store: &OpenStore, args: &Ledger, screen: Screen) -> Result<Answer, Failure> {
    let day = |text: &String| text.parse::<Day>().map_err(|error| Failure::new(Exit::Usage, format!("{error}.")));
    let since = args.since.as_ref().map(day).transpose()?;
    let days = totals(open_store.log(), &open_store.access.tenant, since).await?;
    let mut all = Totals::default();
    days.iter().for_each(|day| all += &day.totals);
    let text = match days.is_empty() {
        true => format!("The tenant {} has nothing in the ledger.\n", open_store.access.tenant),
        false => days_text(&days, &all, screen),
    };
    Ok(Answer::new(text, json!({"days": days, "total": all})))
}

fn days_text(days: &[DayTotals], all: &Totals, screen: Screen) -> String {
    let titles = [
        "day",
        "requests",
        "compacted",
        "saved",
        "cost",
        "without",
        "unit",
        "sent",
        "cached",
        "extra calls",
        "cost more",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    days.iter().for_each(|day| rows.extend(lines(&day.day.to_string(), &day.totals)));
    if days.len() > 1 {
        rows.extend(lines("all", all));
    }
    let mut sides = [Side::Right; 11];
    (sides[0], sides[6]) = (Side::Left, Side::Left);
    let mut text = headed(&table(&sides, &rows, screen), screen);
    if all.impossible > 0 {
        text.push_str(&format!("\n{} of the requests would not have fitted the window at all.\n", all.impossible));
    }
    if all.lost > 0 {
        text.push_str(&format!("\nRequests that could not be written down and are missing: {}.\n", all.lost));
    }
    text
}

/// A line for each unit that there are amounts in.
fn lines(name: &str, totals: &Totals) -> Vec<Vec<String>> {
    let sums = [(Unit::Usd, totals.usd), (Unit::InputTokens, totals.input_tokens)];
    let with = sums.into_iter().filter(|(_, sums)| *sums != Sums::default());
    let [name, requests, changed, dearer, extra_calls, input, cached] = [
        name.to_owned(),
        totals.requests.to_string(),
        totals.changed.to_string(),
        totals.dearer.to_string(),
        totals.extra_calls.to_string(),
        totals.usage.input.to_string(),
        totals.usage.cached.to_string(),
    ];
    // Counts are told once, beside the first unit.
    let line = |at: usize, unit: Unit, sums: Sums| {
        let first = |count: &String| if at == 0 { count.clone() } else { String::new() };
        let amounts = [sums.saved, sums.paid, sums.without].map(|amount| amount_text(unit, amount));
        let counts = [&name, &requests, &changed].map(first).into_iter();
        let rest = [&input, &cached, &extra_calls, &dearer].map(first);
        counts.chain(amounts).chain([unit_text(unit).to_owned()]).chain(rest).collect()
    };
    with.enumerate().map(|(at, (unit, sums))| line(at, unit, sums)).collect()
}

async fn of_thread(open_store: &OpenStore, thread: &str, args: &Ledger, screen: Screen) -> Result<Answer, Failure> {
    let found = open_store.thread(thread).await;
    let thread = found.as_ref().map_or_else(|_| thread_id(thread), |row| Ok(row.key.thread.clone()))?;
    let page = entries(open_store.log(), &open_store.access.tenant, &thread, args.after.as_deref(), args.limit).await?;
    // Requests that went out without the store are in the ledger although their thread is not.
    if page.entries.is_empty() {
        found?;
    }
    let text = match page.entries.is_empty() {
        true => format!("The thread {thread} has no requests in the ledger.\n"),
        false => entries_text(&page, screen),
    };
    Ok(Answer::new(text, json!({"thread": thread, "entries": page.entries, "next": page.next})))
}

fn entries_text(page: &Page, screen: Screen) -> String {
    let titles = ["at", "model", "saved", "cost", "without", "unit", "original", "sent", "cached", "extra calls", ""];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(page.entries.iter().map(entry_line));
    let mut sides = [Side::Right; 11];
    (sides[0], sides[1], sides[5], sides[10]) = (Side::Left, Side::Left, Side::Left, Side::Left);
    let mut text = headed(&table(&sides, &rows, screen), screen);
    if let Some(next) = &page.next {
        text.push_str(&format!("\nThere are more: `--after {next}`.\n"));
    }
    text
}

fn entry_line(entry: &Entry) -> Vec<String> {
    let amounts = [entry.saved, entry.paid, entry.without].map(|amount| amount_text(entry.unit, amount));
    let notes = [
        (entry.impossible, "would not have fitted"),
        (entry.changed && !entry.impossible, "compacted"),
        (entry.estimated, "estimated"),
    ];
    let notes: Vec<&str> = notes.into_iter().filter(|(holds, _)| *holds).map(|(_, note)| note).collect();
    let counts = [
        unit_text(entry.unit).to_owned(),
        entry.tokens_original.to_string(),
        entry.usage.input.to_string(),
        entry.usage.cached.to_string(),
        entry.extra.len().to_string(),
        notes.join(", "),
    ];
    [entry.at.to_string(), entry.model.clone()].into_iter().chain(amounts).chain(counts).collect()
}

fn unit_text(unit: Unit) -> &'static str {
    match unit {
        Unit::Usd => "USD",
        Unit::InputTokens => "input tokens",
    }
}

fn amount_text(unit: Unit, amount: f64) -> String {
    match unit {
        Unit::Usd => format!("{amount:.4}"),
        Unit::InputTokens if amount < -0.5 => format!("-{}", Tokens::new(amount.abs().round() as u64)),
        Unit::InputTokens => Tokens::new(amount.max(0.0).round() as u64).to_string(),
    }
}
