//! `epitome ledger`: what a gateway's requests cost and what they would have cost without it, by day or for a thread.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_gateway::ledger::{Day, DayTotals, Entry, Page, Sums, Totals, Unit, entries, totals};
use serde_json::json;

use crate::cli::Ledger;
use crate::desk::{Absent, Desk, thread_id, wait};
use crate::failure::{Answer, Exit, Failure};
use crate::paint::Paint;
use crate::receipt::headed;
use crate::table::{Side, table};

/// Shows the ledger.
pub fn run(args: &Ledger, config: Option<&Path>, paint: Paint) -> Result<Answer, Failure> {
    wait(async {
        let desk = Desk::open(config, &args.whose, Absent::Refuse).await?;
        match &args.thread {
            Some(thread) => of_thread(&desk, thread, args, paint).await,
            None => by_day(&desk, args, paint).await,
        }
    })
}

async fn by_day(desk: &Desk, args: &Ledger, paint: Paint) -> Result<Answer, Failure> {
    let day = |text: &String| text.parse::<Day>().map_err(|error| Failure::new(Exit::Usage, format!("{error}.")));
    let since = args.since.as_ref().map(day).transpose()?;
    let days = totals(desk.log(), &desk.access.tenant, since).await?;
    let mut all = Totals::default();
    days.iter().for_each(|day| all += &day.totals);
    let text = match days.is_empty() {
        true => format!("The tenant {} has nothing in the ledger.\n", desk.access.tenant),
        false => days_text(&days, &all, paint),
    };
    Ok(Answer::new(text, json!({"days": days, "total": all})))
}

fn days_text(days: &[DayTotals], all: &Totals, paint: Paint) -> String {
    let titles =
        ["day", "requests", "compacted", "dearer", "besides", "as sent", "cached", "unit", "without", "paid", "saved"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    days.iter().for_each(|day| rows.extend(lines(&day.day.to_string(), &day.totals)));
    if days.len() > 1 {
        rows.extend(lines("all", all));
    }
    let mut sides = [Side::Right; 11];
    (sides[0], sides[7]) = (Side::Left, Side::Left);
    let mut text = headed(&table(&sides, &rows), paint);
    if all.impossible > 0 {
        text.push_str(&format!("\n{} of the requests would not have fitted the window at all.\n", all.impossible));
    }
    if all.lost > 0 {
        text.push_str(&format!("\n{} requests could not be written down and are missing.\n", all.lost));
    }
    text
}

/// A line for each unit that there are amounts in.
fn lines(name: &str, totals: &Totals) -> Vec<Vec<String>> {
    let sums = [(Unit::Usd, totals.usd), (Unit::InputTokens, totals.input_tokens)];
    let with = sums.into_iter().filter(|(_, sums)| *sums != Sums::default());
    let counts = [
        name.to_owned(),
        totals.requests.to_string(),
        totals.changed.to_string(),
        totals.dearer.to_string(),
        totals.extra_calls.to_string(),
        Tokens::new(totals.usage.input).to_string(),
        Tokens::new(totals.usage.cached).to_string(),
    ];
    let line = |at: usize, unit: Unit, sums: Sums| {
        let counts = if at == 0 { counts.clone() } else { Default::default() };
        let amounts = [sums.without, sums.paid, sums.saved].map(|amount| amount_text(unit, amount));
        counts.into_iter().chain([unit_text(unit).to_owned()]).chain(amounts).collect()
    };
    with.enumerate().map(|(at, (unit, sums))| line(at, unit, sums)).collect()
}

async fn of_thread(desk: &Desk, thread: &str, args: &Ledger, paint: Paint) -> Result<Answer, Failure> {
    let thread = thread_id(thread)?;
    let page = entries(desk.log(), &desk.access.tenant, &thread, args.after.as_deref(), args.limit).await?;
    let text = match page.entries.is_empty() {
        true => format!("The thread {thread} has no requests in the ledger.\n"),
        false => entries_text(&page, paint),
    };
    Ok(Answer::new(text, json!({"thread": thread, "entries": page.entries, "next": page.next})))
}

fn entries_text(page: &Page, paint: Paint) -> String {
    let titles = ["at", "model", "original", "as sent", "cached", "besides", "unit", "without", "paid", "saved", ""];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(page.entries.iter().map(entry_line));
    let mut sides = [Side::Right; 11];
    (sides[0], sides[1], sides[6], sides[10]) = (Side::Left, Side::Left, Side::Left, Side::Left);
    let mut text = headed(&table(&sides, &rows), paint);
    if let Some(next) = &page.next {
        text.push_str(&format!("\nThere are more: `--after {next}`.\n"));
    }
    text
}

fn entry_line(entry: &Entry) -> Vec<String> {
    let amounts = [entry.without, entry.paid, entry.saved].map(|amount| amount_text(entry.unit, amount));
    let notes = [
        (entry.impossible, "would not have fitted"),
        (entry.changed && !entry.impossible, "compacted"),
        (entry.estimated, "estimated"),
    ];
    let notes: Vec<&str> = notes.into_iter().filter(|(holds, _)| *holds).map(|(_, note)| note).collect();
    let head = [
        entry.at.to_string(),
        entry.model.clone(),
        Tokens::new(entry.tokens_original).to_string(),
        Tokens::new(entry.usage.input).to_string(),
        Tokens::new(entry.usage.cached).to_string(),
        entry.extra.len().to_string(),
        unit_text(entry.unit).to_owned(),
    ];
    head.into_iter().chain(amounts).chain([notes.join(", ")]).collect()
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
