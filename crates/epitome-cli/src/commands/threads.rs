//! `epitome threads`: the tenant's threads, newest first.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_runtime::engine::COMPACT;
use epitome_runtime::store::ThreadRow;
use serde_json::{Value, json};

use crate::cli::Threads;
use crate::desk::{Absent, Desk, wait};
use crate::failure::{Answer, Failure};
use crate::paint::Paint;
use crate::receipt::headed;
use crate::table::{Side, table};

/// Threads are asked for so many at once.
const PAGE: usize = 500;

/// Lists threads.
pub fn run(args: &Threads, config: Option<&Path>, paint: Paint) -> Result<Answer, Failure> {
    wait(async {
        let desk = Desk::open(config, &args.whose, Absent::Refuse).await?;
        let mut rows = all(&desk).await?;
        let count = rows.len();
        rows.sort_by(|one, other| (other.updated, &other.key).cmp(&(one.updated, &one.key)));
        rows.truncate(args.limit);
        let mut listed = Vec::new();
        for row in rows {
            let job = desk.log().store().job(&row.key, COMPACT).await?;
            listed.push((row, job.is_some_and(|job| job.state.is_pending())));
        }
        Ok(Answer::new(text(&listed, count, &desk, paint), json!({"threads": json_of(&listed), "count": count})))
    })
}

async fn all(desk: &Desk) -> Result<Vec<ThreadRow>, Failure> {
    let mut rows: Vec<ThreadRow> = Vec::new();
    loop {
        let after = rows.last().map(|row| row.key.thread.clone());
        let page = desk.log().store().threads(&desk.access.tenant, after.as_ref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        rows.extend(page);
        if is_last {
            return Ok(rows);
        }
    }
}

fn text(listed: &[(ThreadRow, bool)], count: usize, desk: &Desk, paint: Paint) -> String {
    if listed.is_empty() {
        let store = &desk.configured.config().store.url;
        return format!("The tenant {} has no thread in {store}.\n", desk.access.tenant);
    }
    let titles = ["thread", "messages", "tokens", "plans", "updated", "dialect", ""];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|(row, is_compacting)| {
        vec![
            row.key.thread.to_string(),
            row.length.to_string(),
            Tokens::new(row.tokens).to_string(),
            row.version.to_string(),
            row.updated.to_string(),
            row.dialect.clone(),
            if *is_compacting { "compacting".to_owned() } else { String::new() },
        ]
    }));
    let sides = [Side::Left, Side::Right, Side::Right, Side::Right, Side::Left, Side::Left, Side::Left];
    let mut text = headed(&table(&sides, &rows), paint);
    if count > listed.len() {
        text.push_str(&format!("\nAnd {} more; `--limit` lists them.\n", count - listed.len()));
    }
    text
}

fn json_of(listed: &[(ThreadRow, bool)]) -> Value {
    let one = |(row, is_compacting): &(ThreadRow, bool)| {
        json!({
            "thread": row.key.thread, "messages": row.length, "tokens": row.tokens, "plans": row.version,
            "created": row.created.to_string(), "updated": row.updated.to_string(), "dialect": row.dialect,
            "counter": row.counter, "shared": row.shared, "compacting": is_compacting,
        })
    };
    listed.iter().map(one).collect()
}
