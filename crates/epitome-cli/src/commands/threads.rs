//! `epitome threads`: the tenant's threads, newest first.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_runtime::store::JobKind;
use epitome_runtime::store::ThreadRow;
use serde_json::{Value, json};

use crate::cli::Threads;
use crate::excerpt;
use crate::failure::{Answer, Failure};
use crate::open_store::{IfMissing, OpenStore, wait};
use crate::receipt::headed;
use crate::screen::Screen;
use crate::table::{Side, table};

/// The user speaks within the first few messages.
const OPENING_MESSAGES: u64 = 4;

/// Lists threads.
pub fn run(args: &Threads, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    wait(async {
        let open_store = OpenStore::open(config, &args.store_args, IfMissing::Fail).await?;
        let mut rows = open_store.threads().await?;
        let count = rows.len();
        rows.sort_by(|one, other| (other.updated, &other.key).cmp(&(one.updated, &one.key)));
        rows.truncate(args.limit);
        let mut listed = Vec::new();
        for row in rows {
            let words = first_words(&open_store, &row).await;
            let job = open_store.log().store().job(&row.key, &JobKind::Compact).await?;
            listed.push(Listed { row, is_compacting: job.is_some_and(|job| job.state.is_pending()), words });
        }
        Ok(Answer::new(text(&listed, count, &open_store, screen), json!({"threads": json_of(&listed), "count": count})))
    })
}

/// A thread with what people know it by.
struct Listed {
    row: ThreadRow,
    is_compacting: bool,
    /// The first words of the user's.
    words: String,
}

/// Returns what the user said first; nothing where it cannot be read, as that of a thread that is sealed.
async fn first_words(open_store: &OpenStore, row: &ThreadRow) -> String {
    let opening = open_store.log().read(row, 0..row.length.min(OPENING_MESSAGES)).await.unwrap_or_default();
    let first = opening.iter().find(|entry| entry.message.opens_turn());
    first.map_or_else(String::new, |entry| excerpt::line(&entry.message.parts))
}

fn text(listed: &[Listed], count: usize, open_store: &OpenStore, screen: Screen) -> String {
    if listed.is_empty() {
        let store = &open_store.configured.config().store.url;
        return format!("The tenant {} has no thread in {store}.\n", open_store.access.tenant);
    }
    let titles = ["thread", "messages", "tokens", "plans", "updated", "dialect", "", "begins"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|Listed { row, is_compacting, words }| {
        vec![
            row.key.thread.to_string(),
            row.length.to_string(),
            Tokens::new(row.tokens).to_string(),
            row.version.to_string(),
            row.updated.to_string(),
            row.dialect.clone(),
            if *is_compacting { "compacting".to_owned() } else { String::new() },
            words.clone(),
        ]
    }));
    let sides = [Side::Left, Side::Right, Side::Right, Side::Right, Side::Left, Side::Left, Side::Left, Side::Left];
    let mut text = headed(&table(&sides, &rows, screen), screen);
    if count > listed.len() {
        text.push_str(&format!("\nAnd {} more; `--limit` lists them.\n", count - listed.len()));
    }
    text
}

fn json_of(listed: &[Listed]) -> Value {
    let one = |Listed { row, is_compacting, words }: &Listed| {
        json!({
            "thread": row.key.thread, "messages": row.length, "tokens": row.tokens, "plans": row.version,
            "created": row.created.to_string(), "updated": row.updated.to_string(), "dialect": row.dialect,
            "counter": row.counter, "shared": row.shared, "compacting": is_compacting, "begins": words,
        })
    };
    listed.iter().map(one).collect()
}
