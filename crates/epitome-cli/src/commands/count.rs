//! `epitome count`: tokens in total and by role, and where the numbers come from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use epitome::CountFor;
use epitome::budget::{TokenCounter, TokenizerJson, Tokens, counter_named};
use epitome::thread::{Role, Thread};
use epitome_runtime::sentence;
use serde_json::json;

use crate::cli::CountArgs;
use crate::failure::{Answer, Exit, Failure, Result, words};
use crate::input::open;
use crate::receipt::{count, file_json, headline, notices, notices_json, percent};
use crate::screen::Screen;
use crate::table::Table;

pub fn run(args: &CountArgs, screen: Screen) -> Result<Answer> {
    let counter = args.tokenizer.as_deref().map(tokenizer).transpose()?;
    let opened = open(&args.input, CountFor { model: args.model.clone(), counter, ..CountFor::default() }, None)?;
    let conversation = &opened.conversation;
    let roles = by_role(&conversation.thread);
    let fixed = conversation.fixed();
    let total = conversation.thread.total() + fixed.total();
    let mut table = Table::new("lrrl");
    let share = |tokens: Tokens| percent(tokens.get(), total.get());
    for (role, (tokens, messages)) in &roles {
        table.row(&[role, tokens, &share(*tokens), &count(*messages, "message")]);
    }
    for (name, tokens) in
        [("system prompt", fixed.system), ("tool schemas", fixed.tools), ("start of the reply", fixed.reply)]
    {
        if tokens > Tokens::ZERO {
            table.row(&[&name, &tokens, &share(tokens), &""]);
        }
    }
    table.row(&[&"total", &total, &share(total), &format!("counted by {}", opened.provenance())]);
    let mut text = format!("{}\n{}", headline(&opened, screen), table.text(screen));
    let mut json = file_json(&opened);
    json["roles"] = roles
        .iter()
        .map(|(role, (tokens, count))| json!({"role": role, "tokens": tokens, "messages": count}))
        .collect();
    (json["system"], json["tools"]) = (json!(fixed.system), json!(fixed.tools));
    (json["reply"], json["total"]) = (json!(fixed.reply), json!(total));
    let (media, source) = conversation.media();
    if media > Tokens::ZERO {
        json["media"] = json!({"tokens": media, "source": source});
    }
    if let Some(usage) = conversation.session.usage() {
        let reported = Tokens::new(usage.input + usage.output);
        text.push_str(&format!("\nThe provider last reported {reported} tokens, on line {}.\n", usage.line));
        json["reported"] = json!({"input": usage.input, "output": usage.output, "line": usage.line});
    }
    text.push_str(&notices(&conversation.session, screen));
    json["notices"] = notices_json(&conversation.session);
    Ok(Answer::new(text, json))
}

/// Adds up tokens and messages by role. A user message that only answers calls counts as the tool's.
fn by_role(thread: &Thread) -> BTreeMap<&'static str, (Tokens, usize)> {
    let mut roles: BTreeMap<&'static str, (Tokens, usize)> = BTreeMap::new();
    for message in thread.messages() {
        let is_result = message.role() == Role::User && !message.opens_turn() && message.results().next().is_some();
        let sum = roles.entry(if is_result { "tool" } else { message.role().name() }).or_default();
        *sum = (sum.0 + message.tokens(), sum.1 + 1);
    }
    roles
}

/// Returns the counter of a name, or of a `tokenizer.json`.
fn tokenizer(name: &str) -> Result<Arc<dyn TokenCounter>> {
    if !name.ends_with(".json") {
        return counter_named(name).map_err(|error| {
            Failure::new(Exit::Usage, sentence(&error)).hint("A file is named by its path, which ends in `.json`.")
        });
    }
    let path = Path::new(name);
    let bytes = std::fs::read(path).map_err(|error| Failure::unreadable(path, words(&error)))?;
    match TokenizerJson::parse(name, &bytes) {
        Ok(counter) => Ok(Arc::new(counter)),
        Err(error) => Err(Failure::unreadable(path, error)),
    }
}
