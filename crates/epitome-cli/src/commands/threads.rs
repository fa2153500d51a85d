//! `epitome threads`: the tenant's threads, newest first.

use std::path::Path;

use epitome_runtime::store::{JobKind, ThreadRow};
use serde_json::{Value, json};

use crate::cli::ThreadsArgs;
use crate::excerpt;
use crate::failure::{Answer, Result};
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::screen::Screen;
use crate::table::Table;

/// The first message of the user is looked for among this many.
const OPENING_MESSAGES: u64 = 4;

pub fn run(args: &ThreadsArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    wait(async {
        let store = OpenStore::open(config, &args.store_options, IfMissing::Fail).await?;
        let mut rows = store.threads().await?;
        let count = rows.len();
        if rows.is_empty() {
            let text = format!("The tenant {} has no thread in {}.\n", store.access.tenant, store.url());
            return Ok(Answer::new(text, json!({"threads": [], "count": 0})));
        }
        rows.sort_by(|one, other| (other.updated, &other.key).cmp(&(one.updated, &one.key)));
        rows.truncate(args.limit);
        let heads = ["thread", "messages", "tokens", "plans", "updated", "dialect", "", "about"];
        let mut table = Table::with_heads("lrrrllll", heads);
        let mut json: Vec<Value> = Vec::new();
        for row in &rows {
            let begins = first_words(&store, row).await;
            let about = store.log().display_summary(row).await;
            let job = store.log().store().job(&row.key, &JobKind::Compact).await?;
            let is_compacting = job.is_some_and(|job| job.state.is_pending());
            let state = if is_compacting { "compacting" } else { "" };
            let (thread, updated) = (&row.key.thread, &row.updated);
            let shown = about.as_ref().unwrap_or(&begins);
            table.row(&[thread, &row.length, &row.tokens, &row.version, updated, &row.dialect, &state, shown]);
            json.push(json!({
                "thread": thread, "messages": row.length, "tokens": row.tokens, "plans": row.version,
                "created": row.created.to_string(), "updated": updated.to_string(), "dialect": row.dialect,
                "counter": row.counter, "shared": row.shared, "compacting": is_compacting, "begins": begins, "summary": about,
            }));
        }
        let mut text = table.text(screen);
        if count > rows.len() {
            text.push_str(&format!("\n{} more; `--limit N` lists them.\n", count - rows.len()));
        }
        Ok(Answer::new(text, json!({"threads": json, "count": count})))
    })
}

/// Returns the user's first words, or nothing where they cannot be read, as in a sealed thread.
async fn first_words(store: &OpenStore, row: &ThreadRow) -> String {
    let opening = store.log().read(row, 0..row.length.min(OPENING_MESSAGES)).await.unwrap_or_default();
    let first = opening.iter().find(|entry| entry.message.opens_turn());
    first.map_or_else(String::new, |entry| excerpt::line(&entry.message.parts))
}
