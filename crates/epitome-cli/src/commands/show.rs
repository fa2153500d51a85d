//! `epitome show`: where the tokens of a context are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use epitome::budget::Tokens;
use epitome::session::RecordedCompaction;
use epitome::thread::{Message, Part, Thread};
use epitome::{Conversation, CountFor};
use serde_json::{Value, json};

use crate::cli::ShowArgs;
use crate::cli_config::CliConfig;
use crate::excerpt::{self, ContentKind};
use crate::failure::{Answer, Result};
use crate::file_compaction::settle_window;
use crate::input::{OpenedFile, open};
use crate::receipt::{self, count, percent, window_text};
use crate::screen::Screen;
use crate::table::Table;

/// Smaller results are not worth calling duplicates.
const DUPLICATE_TOKENS_MIN: u64 = 20;

const BAR_WIDTH: usize = 24;

pub fn run(args: &ShowArgs, config: Option<&Path>, screen: Screen) -> Result<Answer> {
    let opened = open(&args.input, CountFor { model: args.model.clone(), ..CountFor::default() }, None)?;
    let config = CliConfig::for_file(config)?;
    let policy = config.values().compaction_policy()?;
    let window = settle_window(&opened, &policy, None, args.model.as_deref(), &config);
    let breakdown = Breakdown::of(&opened);
    let conversation = &opened.conversation;
    let mut text = receipt::headline(&opened, screen) + &format!("{} tokens", conversation.thread.total());
    let fixed = conversation.fixed().total();
    if fixed > Tokens::ZERO {
        text.push_str(&format!(", and {fixed} for system prompt and tools"));
    }
    text.push_str(&format!("; counted by {}\n", opened.provenance()));
    if let Some(reported) = conversation.reported() {
        text.push_str(&format!("the provider reported {reported} for the whole prompt; "));
    }
    let caption = screen.dim("the context from oldest to newest, by kind:");
    let strip = screen.strip(&breakdown.parts);
    text.push_str(&format!("{}\n\n  {caption}\n  {strip}\n", window_text(&window)));
    for table in breakdown.tables(args.top, screen) {
        let table = table.text(screen);
        if !table.is_empty() {
            text.push_str(&format!("\n{table}"));
        }
    }
    text.push_str(&receipt::notices(&conversation.session, screen));
    let mut json = breakdown.to_json(args.top);
    json["window"] = receipt::window_json(&window);
    Ok(Answer::new(text, json))
}

/// A context's tokens, added up in several ways.
struct Breakdown<'a> {
    opened: &'a OpenedFile,
    /// Every part in order, by kind.
    parts: Vec<(ContentKind, u64)>,
    kinds: BTreeMap<ContentKind, u64>,
    tools: Vec<(String, ToolUse)>,
    turns: Vec<TurnSize>,
    /// Places, largest message first.
    largest: Vec<usize>,
    repeats: Vec<RepeatedResult>,
}

/// The calls of a tool, and the tokens of calls and results.
#[derive(Clone, Copy, Default)]
struct ToolUse {
    calls: usize,
    tokens: u64,
}

struct TurnSize {
    number: u32,
    messages: usize,
    tokens: u64,
    /// The beginning of the user's message.
    words: String,
}

/// A tool result that is in the context more than once.
struct RepeatedResult {
    places: Vec<usize>,
    tokens: u64,
    words: String,
}

impl RepeatedResult {
    fn wasted(&self) -> u64 {
        self.tokens * (self.places.len() as u64 - 1)
    }
}

impl<'a> Breakdown<'a> {
    fn of(opened: &'a OpenedFile) -> Self {
        let thread = &opened.conversation.thread;
        let messages = thread.messages();
        let parts: Vec<(ContentKind, u64)> =
            messages.iter().flat_map(|message| excerpt::tokens_by_kind(message)).collect();
        let mut kinds = BTreeMap::new();
        for (kind, tokens) in &parts {
            *kinds.entry(*kind).or_default() += tokens;
        }
        let mut largest: Vec<usize> = (0..messages.len()).collect();
        largest.sort_by_key(|place| (Reverse(messages[*place].tokens()), *place));
        let (tools, turns, repeats) = (tools(thread), turns(thread), repeated_results(thread));
        Breakdown { opened, parts, kinds, tools, turns, largest, repeats }
    }

    fn tables(&self, top: usize, screen: Screen) -> [Table; 6] {
        let thread = &self.opened.conversation.thread;
        let total = thread.total().get();
        let share = |tokens: u64| percent(tokens, total);
        let mut kinds = Table::new("lrrll");
        let mut by_size: Vec<(ContentKind, u64)> = self.kinds.iter().map(|(kind, tokens)| (*kind, *tokens)).collect();
        by_size.sort_by_key(|(kind, tokens)| (Reverse(*tokens), *kind));
        for (kind, tokens) in by_size {
            let (mark, bar) = (screen.mark(kind), screen.bar(tokens, total, BAR_WIDTH));
            kinds.row(&[&kind.name(), &tokens, &share(tokens), &mark, &bar]);
        }
        let mut tools = Table::titled("tools, with their results", "lrrl");
        for (name, tool) in self.tools.iter().take(top) {
            tools.row(&[name, &tool.tokens, &share(tool.tokens), &count(tool.calls, "call")]);
        }
        let mut turns = Table::titled("largest turns", "lrrrl");
        for turn in self.turns.iter().take(top) {
            let (name, messages) = (format!("turn {}", turn.number), count(turn.messages, "message"));
            turns.row(&[&name, &turn.tokens, &share(turn.tokens), &messages, &turn.words]);
        }
        let mut largest = Table::titled("largest messages", "lrrll");
        for place in self.largest.iter().take(top) {
            let message = thread.message(*place);
            let (label, tokens, words) = (self.opened.label(*place), message.tokens(), excerpt::line(message.parts()));
            largest.row(&[&label, &tokens, &share(tokens.get()), &author(message), &words]);
        }
        let mut repeats = Table::titled("the same result again, and what the repeats cost", "lrll");
        for repeat in self.repeats.iter().take(top) {
            let times = format!("{} times", repeat.places.len());
            repeats.row(&[&times, &repeat.wasted(), &self.labels(repeat).join(" "), &repeat.words]);
        }
        [kinds, tools, turns, largest, repeats, compactions(&self.opened.conversation)]
    }

    fn labels(&self, repeat: &RepeatedResult) -> Vec<String> {
        repeat.places.iter().map(|place| self.opened.label(*place)).collect()
    }

    fn to_json(&self, top: usize) -> Value {
        let conversation = &self.opened.conversation;
        let mut json = receipt::file_json(self.opened);
        let fixed = conversation.fixed();
        json["system"] = json!(fixed.system);
        json["tools"] = json!(fixed.tools);
        json["reply"] = json!(fixed.reply);
        json["by_kind"] = json!({});
        for (kind, tokens) in &self.kinds {
            json["by_kind"][kind.name()] = json!(tokens);
        }
        let tools = self.tools.iter();
        json["by_tool"] =
            tools.map(|(name, tool)| json!({"tool": name, "calls": tool.calls, "tokens": tool.tokens})).collect();
        let turns = self.turns.iter();
        json["by_turn"] =
            turns.map(|turn| json!({"turn": turn.number, "tokens": turn.tokens, "messages": turn.messages})).collect();
        let largest = self.largest.iter().take(top).map(|place| {
            let message = conversation.thread.message(*place);
            let (id, words) = (self.opened.label(*place), excerpt::line(message.parts()));
            json!({"id": id, "tokens": message.tokens(), "role": message.role().name(), "words": words})
        });
        json["largest"] = largest.collect();
        let repeats = self
            .repeats
            .iter()
            .map(|repeat| json!({"messages": self.labels(repeat), "tokens": repeat.tokens, "wasted": repeat.wasted()}));
        json["duplicates"] = repeats.collect();
        json["compactions"] = conversation.session.compactions().iter().map(compaction_json).collect();
        json["notices"] = receipt::notices_json(&conversation.session);
        json
    }
}

/// Names who wrote a message.
fn author(message: &Message) -> String {
    match message.results().next() {
        Some((_, result)) if !result.tool.is_empty() => format!("result of {}", result.tool),
        Some(_) => "result".to_owned(),
        None if message.is_summary() => "summary".to_owned(),
        None => message.role().name().to_owned(),
    }
}

fn tools(thread: &Thread) -> Vec<(String, ToolUse)> {
    let mut tools: BTreeMap<String, ToolUse> = BTreeMap::new();
    for message in thread.messages() {
        for (at, part) in message.parts().iter().enumerate() {
            let (name, calls) = match part {
                Part::ToolCall(call) => (&call.name, 1),
                Part::ToolResult(result) => (&result.tool, 0),
                _ => continue,
            };
            let name = if name.is_empty() { "(unknown)" } else { name };
            let tool = tools.entry(name.to_owned()).or_default();
            tool.calls += calls;
            tool.tokens += message.part_tokens(at).get();
        }
    }
    let mut tools: Vec<(String, ToolUse)> = tools.into_iter().collect();
    tools.sort_by_key(|(_, tool)| Reverse(tool.tokens));
    tools
}

fn turns(thread: &Thread) -> Vec<TurnSize> {
    let mut turns: Vec<TurnSize> = Vec::new();
    for message in thread.messages() {
        if turns.last().is_none_or(|turn| turn.number != message.turn()) {
            let words = if message.opens_turn() { excerpt::line(message.parts()) } else { String::new() };
            turns.push(TurnSize { number: message.turn(), messages: 0, tokens: 0, words });
        }
        if let Some(turn) = turns.last_mut() {
            turn.messages += 1;
            turn.tokens += message.tokens().get();
        }
    }
    turns.sort_by_key(|turn| (Reverse(turn.tokens), turn.number));
    turns
}

fn repeated_results(thread: &Thread) -> Vec<RepeatedResult> {
    let mut same: HashMap<&str, RepeatedResult> = HashMap::new();
    for (place, message) in thread.messages().iter().enumerate() {
        for (part, result) in message.results() {
            let tokens = message.part_tokens(part).get();
            if tokens >= DUPLICATE_TOKENS_MIN {
                let new = || RepeatedResult { places: Vec::new(), tokens, words: excerpt::first_words(&result.text) };
                same.entry(&result.text).or_insert_with(new).places.push(place);
            }
        }
    }
    let mut repeats: Vec<RepeatedResult> = same.into_values().filter(|repeat| repeat.places.len() > 1).collect();
    repeats.sort_by_key(|repeat| (Reverse(repeat.wasted()), repeat.places[0]));
    repeats
}

fn compactions(conversation: &Conversation) -> Table {
    let log = conversation.session.log();
    let meter = conversation.meter();
    let size = |messages: usize, tokens: Tokens| format!("{}, {tokens} tokens", count(messages, "message"));
    let tokens = |places: &[usize]| -> Tokens {
        places.iter().map(|place| meter.message(&meter.parts(&log[*place].message))).sum()
    };
    let mut table = Table::titled("compactions: what the model saw before and after", "lllll");
    for RecordedCompaction { line, before, after, summary, .. } in conversation.session.compactions() {
        // The summary is a message of its own in some formats, and a field of the compaction in others.
        let is_message = after.iter().any(|place| log[*place].message.summary);
        let extra = if is_message { Tokens::ZERO } else { meter.text_message(summary) };
        let was = size(before.len(), tokens(before));
        let became = size(after.len() + usize::from(!is_message), tokens(after) + extra);
        table.row(&[&format!("L{line}"), &was, &"became", &became, &excerpt::first_words(summary)]);
    }
    table
}

fn compaction_json(compaction: &RecordedCompaction) -> Value {
    json!({
        "line": compaction.line, "messages_before": compaction.before.len(), "messages_after": compaction.after.len(),
        "tokens_before": compaction.tokens_before, "summary": compaction.summary,
        "trigger": if compaction.automatic { "auto" } else { "manual" }, "by_epitome": compaction.own,
    })
}
