//! `epitome recall`: passages of a thread that match a query, best first.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_runtime::recall::{RecallQuery, recall};
use serde_json::json;

use crate::cli::RecallArgs;
use crate::failure::{Answer, Result};
use crate::open_store::{IfMissing, OpenStore, wait};

/// The most passages in an answer.
const HITS_MAX: usize = 12;

pub fn run(args: &RecallArgs, config: Option<&Path>) -> Result<Answer> {
    wait(async {
        let store = OpenStore::open(config, &args.store_options, IfMissing::Fail).await?;
        let row = store.require_thread(&args.thread).await?;
        let words = args.query.join(" ");
        let tokens_max = args.tokens.map_or(store.engine.settings().recall_tokens, Tokens::new);
        let query = RecallQuery { words: &words, tokens_max, hits_max: HITS_MAX };
        let found = recall(store.log(), &row, &query, &**store.engine.counter()).await?;
        let text = if found.hits.is_empty() {
            format!("No indexed message of thread {} matches.\n", row.key.thread)
        } else {
            found.render() + "\n"
        };
        Ok(Answer::new(text, json!({"thread": row.key.thread, "query": words, "found": found})))
    })
}
