//! `epitome recall`: passages of a thread that match a query, best first.

use std::path::Path;

use epitome::budget::Tokens;
use epitome_runtime::recall::{Query, recall};
use serde_json::json;

use crate::cli::Recall;
use crate::desk::{Absent, Desk, wait};
use crate::failure::{Answer, Failure};

/// The most passages.
const HITS_MAX: usize = 12;

/// Searches.
pub fn run(args: &Recall, config: Option<&Path>) -> Result<Answer, Failure> {
    wait(async {
        let desk = Desk::open(config, &args.whose, Absent::Refuse).await?;
        let row = desk.thread(&args.thread).await?;
        let words = args.query.join(" ");
        let tokens_max = args.tokens.map_or(desk.engine.settings().recall_tokens, Tokens::new);
        let query = Query { words: &words, tokens_max, hits_max: HITS_MAX };
        let found = recall(desk.log(), &row, &query, &**desk.engine.counter()).await?;
        let text = match found.hits.is_empty() {
            true => format!("Nothing that is indexed of thread {} matches.\n", row.key.thread),
            false => found.render() + "\n",
        };
        Ok(Answer::new(text, json!({"thread": row.key.thread, "query": words, "found": found})))
    })
}
