//! `epitome ledger`: what requests through a gateway cost, and what they would have cost without it.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_gateway::ledger::{Day, DayTotals, Page, Sums, Totals, Unit, entries, totals};
use epitome_runtime::sentence;
use serde_json::json;

use crate::cli::LedgerArgs;
use crate::failure::{Answer, Exit, Failure, Result};
use crate::open_store::{IfMissing, OpenStore, thread_id, wait};
use crate::screen::Screen;
use crate::table::Table;

pub fn run(args: &LedgerArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    wait(async {
        let store = OpenStore::open(config, &args.store_options, IfMissing::Fail).await?;
        match &args.thread {
            Some(thread) => of_thread(&store, thread, args, screen).await,
            None => by_day(&store, args, screen).await,
        }
    })
}

async fn by_day(store: &OpenStore, args: &LedgerArgs, screen: Screen) -> Result<Answer> {
    let since = args.since.as_ref().map(|day| day.parse::<Day>()).transpose();
    let since = since.map_err(|error| Failure::new(Exit::Usage, sentence(&error)))?;
    let days = totals(store.log(), &store.access.tenant, since).await?;
    let mut all = Totals::default();
    days.iter().for_each(|day| all += &day.totals);
    let text = if days.is_empty() {
        format!("The ledger of tenant {} is empty.\n", store.access.tenant)
    } else {
        days_text(&days, &all, screen)
    };
    Ok(Answer::new(text, json!({"days": days, "total": all})))
}

fn days_text(days: &[DayTotals], all: &Totals, screen: Screen) -> String {
    let heads = [
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
    let mut table = Table::with_heads("lrrrrrlrrrr", heads);
    days.iter().for_each(|day| add_totals(&mut table, &day.day.to_string(), &day.totals));
    if days.len() > 1 {
        add_totals(&mut table, "all", all);
    }
    let mut text = table.text(screen);
    if all.impossible > 0 {
        text.push_str(&format!("\n{} of the requests would not have fit the window at all.\n", all.impossible));
    }
    if all.lost > 0 {
        text.push_str(&format!("\n{} of the requests could not be recorded and are missing.\n", all.lost));
    }
    text
}

/// Adds a row for each unit that there are amounts in. Counts are in the first of them only.
fn add_totals(table: &mut Table, name: &str, totals: &Totals) {
    let Totals { requests, changed, dearer, extra_calls, usage, .. } = totals;
    let mut is_first = true;
    for (unit, sums) in [(Unit::Usd, totals.usd), (Unit::InputTokens, totals.input_tokens)] {
        if sums == Sums::default() {
            continue;
        }
        let [saved, paid, without] = [sums.saved, sums.paid, sums.without].map(|amount| amount_text(unit, amount));
        let unit = unit_text(unit);
        if is_first {
            let (sent, cached) = (&usage.input, &usage.cached);
            table.row(&[&name, requests, changed, &saved, &paid, &without, &unit, sent, cached, extra_calls, dearer]);
        } else {
            table.row(&[&"", &"", &"", &saved, &paid, &without, &unit]);
        }
        is_first = false;
    }
}

async fn of_thread(store: &OpenStore, thread: &str, args: &LedgerArgs, screen: Screen) -> Result<Answer> {
    let found = store.require_thread(thread).await;
    let thread = found.as_ref().map_or_else(|_| thread_id(thread), |row| Ok(row.key.thread.clone()))?;
    let page = entries(store.log(), &store.access.tenant, &thread, args.after.as_deref(), args.limit).await?;
    // Requests that went out without the store are in the ledger although their thread is not.
    if page.entries.is_empty() {
        found?;
    }
    let text = if page.entries.is_empty() {
        format!("The thread {thread} has no requests in the ledger.\n")
    } else {
        entries_text(&page, screen)
    };
    Ok(Answer::new(text, json!({"thread": thread, "entries": page.entries, "next": page.next})))
}

fn entries_text(page: &Page, screen: Screen) -> String {
    let heads = ["at", "model", "saved", "cost", "without", "unit", "original", "sent", "cached", "extra calls", ""];
    let mut table = Table::with_heads("llrrrlrrrrl", heads);
    for entry in &page.entries {
        let [saved, paid, without] =
            [entry.saved, entry.paid, entry.without].map(|amount| amount_text(entry.unit, amount));
        let mut notes = Vec::new();
        if entry.impossible {
            notes.push("would not have fit");
        } else if entry.changed {
            notes.push("compacted");
        }
        if entry.estimated {
            notes.push("estimated");
        }
        let (unit, extra, notes) = (unit_text(entry.unit), entry.extra.len(), notes.join(", "));
        let (at, model, original) = (&entry.at, &entry.model, &entry.tokens_original);
        let (sent, cached) = (&entry.usage.input, &entry.usage.cached);
        table.row(&[at, model, &saved, &paid, &without, &unit, original, sent, cached, &extra, &notes]);
    }
    let mut text = table.text(screen);
    if let Some(next) = &page.next {
        text.push_str(&format!("\nThere are more: `--after {next}`.\n"));
    }
    text
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
