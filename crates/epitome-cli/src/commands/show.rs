//! `epitome show`: where the tokens are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use epitome::budget::Tokens;
use epitome::session::Compaction;
use epitome::thread::{Message, Part};
use serde_json::{Value, json};

use crate::cli::Show;
use crate::excerpt::{self, Kind};
use crate::failure::{Answer, Failure};
use crate::open::{CountFor, Opened, open};
use crate::planning;
use crate::receipt::{self, headed, percent, plural};
use crate::screen::Screen;
use crate::settings::Configured;
use crate::table::{Side, table};

/// Results below this size are not worth calling duplicates.
const DUPLICATE_TOKENS_MIN: u64 = 20;

/// How wide the bars are.
const BAR_WIDTH: usize = 24;

/// Shows.
pub fn run(args: &Show, config: Option<&Path>, screen: Screen) -> Result<Answer, Failure> {
    let opened = open(&args.input, CountFor { model: args.model.clone(), ..CountFor::default() }, None)?;
    let configured = Configured::for_file(config)?;
    let policy = configured.config().compaction_policy()?;
    let window = planning::window(&opened, &policy, None, args.model.as_deref(), &configured);
    let view = View::of(&opened);
    let mut text = receipt::headline(&opened, screen);
    text.push_str(&view.totals(&opened));
    let reported = opened.reported().map(|size| format!("the provider reported {size} for the whole prompt; "));
    text.push_str(&format!("{}window {}, {}\n", reported.unwrap_or_default(), window.tokens, window.source));
    let caption = screen.dim("the context from oldest to newest, by kind:");
    text.push_str(&format!("\n  {caption}\n  {}\n", screen.strip(&view.amounts)));
    text.push_str(&view.kinds_table(screen));
    for section in [
        view.tools_table(args.top, screen),
        view.turns_table(args.top, screen),
        view.largest_table(args.top, screen),
        view.duplicates_table(args.top, screen),
        compactions_table(&opened, screen),
    ] {
        if !section.is_empty() {
            text.push('\n');
            text.push_str(&section);
        }
    }
    text.push_str(&receipt::notices(&opened.session, screen));
    let mut json = view.to_json(&opened, args.top);
    json["window"] = json!({"tokens": window.tokens, "from": window.source.to_string()});
    Ok(Answer::new(text, json))
}

/// A thread, added up.
struct View<'a> {
    opened: &'a Opened,
    /// Every part in order, by kind.
    amounts: Vec<(Kind, u64)>,
    kinds: BTreeMap<Kind, u64>,
    /// Calls, and tokens of calls and results, by tool.
    tools: Vec<(String, Tool)>,
    turns: Vec<Turn>,
    /// Places, largest first.
    largest: Vec<usize>,
    duplicates: Vec<Duplicate>,
}

#[derive(Clone, Copy, Default)]
struct Tool {
    calls: usize,
    tokens: u64,
}

struct Turn {
    number: u32,
    messages: usize,
    tokens: u64,
    words: String,
}

struct Duplicate {
    places: Vec<usize>,
    tokens: u64,
    words: String,
}

impl<'a> View<'a> {
    fn of(opened: &'a Opened) -> Self {
        let messages = opened.thread.messages();
        let amounts: Vec<(Kind, u64)> = messages.iter().flat_map(|message| excerpt::tokens_by_kind(message)).collect();
        let mut kinds = BTreeMap::new();
        for (kind, tokens) in &amounts {
            *kinds.entry(*kind).or_default() += tokens;
        }
        let mut largest: Vec<usize> = (0..messages.len()).collect();
        largest.sort_by_key(|place| (Reverse(messages[*place].tokens()), *place));
        let (tools, turns, duplicates) = (tools(opened), turns(opened), duplicates(opened));
        View { opened, amounts, kinds, tools, turns, largest, duplicates }
    }

    fn totals(&self, opened: &Opened) -> String {
        let total = opened.thread.total();
        let beside = opened.fixed().total();
        let beside =
            if beside == Tokens::ZERO { String::new() } else { format!(", and {beside} for system prompt and tools") };
        format!("{total} tokens{beside}; counted by {}\n", opened.provenance())
    }

    fn kinds_table(&self, screen: Screen) -> String {
        let total = self.opened.thread.total().get();
        let mut kinds: Vec<(Kind, u64)> = self.kinds.iter().map(|(kind, tokens)| (*kind, *tokens)).collect();
        kinds.sort_by_key(|(kind, tokens)| (Reverse(*tokens), *kind));
        let row = |(kind, tokens): &(Kind, u64)| {
            vec![
                kind.name().to_owned(),
                Tokens::new(*tokens).to_string(),
                percent(*tokens, total),
                screen.mark(*kind),
                screen.bar(*tokens, total, BAR_WIDTH),
            ]
        };
        let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
        format!("\n{}", table(&[Side::Left, Side::Right, Side::Right, Side::Left, Side::Left], &rows, screen))
    }

    fn tools_table(&self, top: usize, screen: Screen) -> String {
        let total = self.opened.thread.total().get();
        let row = |(name, tool): &(String, Tool)| {
            let tokens = Tokens::new(tool.tokens).to_string();
            vec![
                name.clone(),
                tokens,
                percent(tool.tokens, total),
                format!("{} call{}", tool.calls, plural(tool.calls)),
            ]
        };
        let rows: Vec<Vec<String>> = self.tools.iter().take(top).map(row).collect();
        titled("tools, with their results", &[Side::Left, Side::Right, Side::Right, Side::Left], rows, screen)
    }

    fn turns_table(&self, top: usize, screen: Screen) -> String {
        let total = self.opened.thread.total().get();
        let row = |turn: &Turn| {
            let tokens = Tokens::new(turn.tokens).to_string();
            let count = format!("{} message{}", turn.messages, plural(turn.messages));
            vec![format!("turn {}", turn.number), tokens, percent(turn.tokens, total), count, turn.words.clone()]
        };
        let rows: Vec<Vec<String>> = self.turns.iter().take(top).map(row).collect();
        titled("largest turns", &[Side::Left, Side::Right, Side::Right, Side::Right, Side::Left], rows, screen)
    }

    fn largest_table(&self, top: usize, screen: Screen) -> String {
        let total = self.opened.thread.total().get();
        let row = |place: &usize| {
            let message = self.opened.thread.message(*place);
            let tokens = message.tokens();
            let (role, words) = (who(message), excerpt::line(message.parts()));
            vec![self.label(*place), tokens.to_string(), percent(tokens.get(), total), role, words]
        };
        let rows: Vec<Vec<String>> = self.largest.iter().take(top).map(row).collect();
        titled("largest messages", &[Side::Left, Side::Right, Side::Right, Side::Left, Side::Left], rows, screen)
    }

    fn duplicates_table(&self, top: usize, screen: Screen) -> String {
        let row = |duplicate: &Duplicate| {
            let places: Vec<String> = duplicate.places.iter().map(|place| self.label(*place)).collect();
            let wasted = Tokens::new(duplicate.wasted());
            vec![format!("{} times", places.len()), wasted.to_string(), places.join(" "), duplicate.words.clone()]
        };
        let rows: Vec<Vec<String>> = self.duplicates.iter().take(top).map(row).collect();
        titled(
            "the same result again, and what the repeats cost",
            &[Side::Left, Side::Right, Side::Left, Side::Left],
            rows,
            screen,
        )
    }

    fn label(&self, place: usize) -> String {
        self.opened.label(place)
    }

    fn to_json(&self, opened: &Opened, top: usize) -> Value {
        let mut json = receipt::file_json(opened);
        let fixed = opened.fixed();
        json["system"] = json!(fixed.system);
        json["tools"] = json!(fixed.tools);
        json["reply"] = json!(fixed.reply);
        json["by_kind"] = self
            .kinds
            .iter()
            .map(|(kind, tokens)| (kind.name().to_owned(), json!(tokens)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        json["by_tool"] = self
            .tools
            .iter()
            .map(|(name, tool)| json!({"tool": name, "calls": tool.calls, "tokens": tool.tokens}))
            .collect();
        json["by_turn"] = self
            .turns
            .iter()
            .map(|turn| json!({"turn": turn.number, "tokens": turn.tokens, "messages": turn.messages}))
            .collect();
        let largest = self.largest.iter().take(top).map(|place| {
            let message = opened.thread.message(*place);
            json!({"id": self.label(*place), "tokens": message.tokens(), "role": message.role().name(), "words": excerpt::line(message.parts())})
        });
        json["largest"] = largest.collect();
        let duplicates = self.duplicates.iter().map(|duplicate| {
            let places: Vec<String> = duplicate.places.iter().map(|place| self.label(*place)).collect();
            json!({"messages": places, "tokens": duplicate.tokens, "wasted": duplicate.wasted()})
        });
        json["duplicates"] = duplicates.collect();
        json["compactions"] = opened.session.compactions().iter().map(compaction_json).collect();
        json["notices"] = receipt::notices_json(&opened.session);
        json
    }
}

impl Duplicate {
    fn wasted(&self) -> u64 {
        self.tokens * (self.places.len() as u64 - 1)
    }
}

fn titled(title: &str, sides: &[Side], rows: Vec<Vec<String>>, screen: Screen) -> String {
    match rows.is_empty() {
        true => String::new(),
        false => headed(&format!("  {title}\n{}", table(sides, &rows, screen)), screen),
    }
}

fn who(message: &Message) -> String {
    match message.results().next() {
        Some((_, result)) if !result.tool.is_empty() => format!("result of {}", result.tool),
        Some(_) => "result".to_owned(),
        None if message.is_summary() => "summary".to_owned(),
        None => message.role().name().to_owned(),
    }
}

fn tools(opened: &Opened) -> Vec<(String, Tool)> {
    let mut tools: BTreeMap<String, Tool> = BTreeMap::new();
    for message in opened.thread.messages() {
        for (at, part) in message.parts().iter().enumerate() {
            let (name, called) = match part {
                Part::ToolCall(call) => (&call.name, true),
                Part::ToolResult(result) => (&result.tool, false),
                _ => continue,
            };
            let name = if name.is_empty() { "(unknown)" } else { name };
            let tool = tools.entry(name.to_owned()).or_default();
            tool.calls += usize::from(called);
            tool.tokens += message.part_tokens(at).get();
        }
    }
    let mut tools: Vec<(String, Tool)> = tools.into_iter().collect();
    tools.sort_by_key(|(_, tool)| Reverse(tool.tokens));
    tools
}

fn turns(opened: &Opened) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in opened.thread.messages() {
        if turns.last().is_none_or(|turn| turn.number != message.turn()) {
            let words = if message.opens_turn() { excerpt::line(message.parts()) } else { String::new() };
            turns.push(Turn { number: message.turn(), messages: 0, tokens: 0, words });
        }
        if let Some(turn) = turns.last_mut() {
            turn.messages += 1;
            turn.tokens += message.tokens().get();
        }
    }
    turns.sort_by_key(|turn| (Reverse(turn.tokens), turn.number));
    turns
}

fn duplicates(opened: &Opened) -> Vec<Duplicate> {
    let mut same: HashMap<&str, Duplicate> = HashMap::new();
    for (place, message) in opened.thread.messages().iter().enumerate() {
        for (part, result) in message.results() {
            let tokens = message.part_tokens(part).get();
            if tokens >= DUPLICATE_TOKENS_MIN {
                let new = || Duplicate { places: Vec::new(), tokens, words: excerpt::first_words(&result.text) };
                same.entry(&result.text).or_insert_with(new).places.push(place);
            }
        }
    }
    let mut duplicates: Vec<Duplicate> = same.into_values().filter(|duplicate| duplicate.places.len() > 1).collect();
    duplicates.sort_by_key(|duplicate| (Reverse(duplicate.wasted()), duplicate.places[0]));
    duplicates
}

fn compactions_table(opened: &Opened, screen: Screen) -> String {
    let log = opened.session.log();
    let tokens = |places: &[usize]| -> Tokens {
        let meter = opened.meter();
        places.iter().map(|place| meter.message(&meter.parts(&log[*place].message))).sum()
    };
    let row = |compaction: &Compaction| {
        let (before, after) = (&compaction.before, &compaction.after);
        let made = after.iter().any(|place| log[*place].message.summary);
        let summary = if made { Tokens::ZERO } else { opened.meter().text_message(&compaction.summary) };
        vec![
            format!("L{}", compaction.line),
            counted(before.len(), tokens(before)),
            "became".to_owned(),
            counted(after.len() + usize::from(!made), tokens(after) + summary),
            excerpt::first_words(&compaction.summary),
        ]
    };
    let rows: Vec<Vec<String>> = opened.session.compactions().iter().map(row).collect();
    titled("compactions: what the model saw before and after", &[Side::Left; 5], rows, screen)
}

fn counted(messages: usize, tokens: Tokens) -> String {
    format!("{messages} message{}, {tokens} tokens", plural(messages))
}

fn compaction_json(compaction: &Compaction) -> Value {
    json!({
        "line": compaction.line, "messages_before": compaction.before.len(), "messages_after": compaction.after.len(),
        "tokens_before": compaction.tokens_before, "summary": compaction.summary,
    })
}
