//! `epitome recall`: passages of a thread that match a query, best first.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_runtime::recall::{RecallQuery, recall};
use serde_json::json;

use crate::cli::Recall;
use crate::failure::{Answer, Failure};
use crate::open_store::{IfMissing, OpenStore, wait};

/// The most passages.
const HITS_MAX: usize = 12;

/// Searches.
pub fn run(args: &Recall, config: Option<&Path>) -> Result<Answer, Failure> {
    wait(async {
        let open_store = OpenStore::open(config, &args.store_args, IfMissing::Fail).await?;
        let row = open_store.thread(&args.thread).await?;
        let words = args.query.join(" ");
        let tokens_max = args.tokens.map_or(open_store.engine.settings().recall_tokens, Tokens::new);
        let query = RecallQuery { words: &words, tokens_max, hits_max: HITS_MAX };
        let found = recall(open_store.log(), &row, &query, &**open_store.engine.counter()).await?;
        let text = match found.hits.is_empty() {
            true => format!("Nothing that is indexed of thread {} matches.\n", row.key.thread),
            false => found.render() + "\n",
        };
        Ok(Answer::new(text, json!({"thread": row.key.thread, "query": words, "found": found})))
    })
}
