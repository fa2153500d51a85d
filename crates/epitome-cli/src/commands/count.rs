//! `epitome count`: tokens in all and by role, and where the numbers come from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use epitome::budget::{TokenCounter, TokenizerJson, Tokens, counter_named};
use epitome::thread::Role;
use serde_json::json;

use crate::cli::Count;
use crate::failure::{Answer, Exit, Failure, words};
use crate::open::{CountFor, Opened, open};
use crate::receipt::{file_json, headline, notices, notices_json, percent, plural};
use crate::screen::Screen;
use crate::table::{Side, table};

/// Counts.
pub fn run(args: &Count, screen: Screen) -> Result<Answer, Failure> {
    let counter = args.tokenizer.as_deref().map(tokenizer).transpose()?;
    let opened = open(&args.input, CountFor { model: args.model.clone(), counter, ..CountFor::default() }, None)?;
    let roles = by_role(&opened);
    let fixed = opened.fixed();
    let total = opened.thread.total() + fixed.total();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: &str, tokens: Tokens, note: String| {
        rows.push(vec![name.to_owned(), tokens.to_string(), percent(tokens.get(), total.get()), note]);
    };
    for (role, (tokens, messages)) in &roles {
        row(role, *tokens, format!("{messages} message{}", plural(*messages)));
    }
    let beside = [("system prompt", fixed.system), ("tool schemas", fixed.tools), ("start of the reply", fixed.reply)];
    for (name, tokens) in beside {
        if tokens > Tokens::ZERO {
            row(name, tokens, String::new());
        }
    }
    row("total", total, format!("counted by {}", opened.provenance()));
    let mut text = headline(&opened, screen);
    text.push('\n');
    text.push_str(&table(&[Side::Left, Side::Right, Side::Right, Side::Left], &rows, screen));
    let mut json = file_json(&opened);
    json["roles"] = roles
        .iter()
        .map(|(role, (tokens, count))| json!({"role": role, "tokens": tokens, "messages": count}))
        .collect();
    (json["system"], json["tools"]) = (json!(fixed.system), json!(fixed.tools));
    (json["reply"], json["total"]) = (json!(fixed.reply), json!(total));
    let (media, source) = opened.media();
    if media > Tokens::ZERO {
        json["media"] = json!({"tokens": media, "source": source});
    }
    if let Some(usage) = opened.session.usage() {
        let reported = Tokens::new(usage.input + usage.output);
        text.push_str(&format!("\nThe provider last reported {reported} tokens, on line {}.\n", usage.line));
        json["reported"] = json!({"input": usage.input, "output": usage.output, "line": usage.line});
    }
    text.push_str(&notices(&opened.session, screen));
    json["notices"] = notices_json(&opened.session);
    Ok(Answer::new(text, json))
}

fn by_role(opened: &Opened) -> BTreeMap<&'static str, (Tokens, usize)> {
    let mut roles: BTreeMap<&'static str, (Tokens, usize)> = BTreeMap::new();
    for message in opened.thread.messages() {
        let results = message.role() == Role::User && !message.opens_turn() && message.results().next().is_some();
        let role = if results { "tool" } else { message.role().name() };
        let sum = roles.entry(role).or_default();
        *sum = (sum.0 + message.tokens(), sum.1 + 1);
    }
    roles
}

/// The counter of a name, or of a `tokenizer.json`.
fn tokenizer(name: &str) -> Result<Arc<dyn TokenCounter>, Failure> {
    if !name.ends_with(".json") {
        return counter_named(name).map_err(|error| {
            Failure::new(Exit::Usage, format!("{}.", error)).hint("A tokenizer.json is named by its path.")
        });
    }
    let path = Path::new(name);
    let bytes = std::fs::read(path).map_err(|error| Failure::unreadable(path, words(&error)))?;
    match TokenizerJson::parse(name, &bytes) {
        Ok(counter) => Ok(Arc::new(counter)),
        Err(error) => Err(Failure::unreadable(path, error)),
    }
}
