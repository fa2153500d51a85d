//! The deterministic extraction: what a span of a thread holds that must not depend on anyone's prose.
//!
//! Reads the typed messages and nothing else. What it finds is quoted as it stands, in whatever language it is in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::command::error_line;
use super::constraint::constraints;
use super::structured::{
    CommandFact, Decision, ErrorFact, FileFact, OpenItem, PlanItem, Priority, Quote, RequestState, StructuredSummary,
    ToolOutcome, TurnContext, UserRequest,
};
use crate::policy::{CallEnding, CallMeaning, ToolClass, Tools};
use crate::thread::{Media, Message, Role, Thread, ToolCall, ToolResult, own_words};

/// User messages longer than this are pasted material, not orders.
const ORDER_CHARS_MAX: usize = 4000;
/// The most progress lines of a split turn.
const PROGRESS_MAX: usize = 12;
/// The most lines that are remembered of one kind; the newest stay.
const LINES_MAX: usize = 200;

/// Extracts everything from the messages in a range.
pub fn extract(thread: &Thread, range: Range<usize>, tools: &Tools) -> StructuredSummary {
    let mut facts = StructuredSummary { span: thread.span(range.clone()), rounds: 1, ..StructuredSummary::default() };
    let mut known = Known::default();
    // What is not loaded was extracted when it was; its items are merged by code.
    let unloaded = thread.evicted().map(|evicted| evicted.at);
    for at in range.clone().filter(|at| Some(*at) != unloaded) {
        let message = thread.message(at);
        let place = message.log_place();
        if message.is_summary() {
            super::carry::carry_over(&message.text(), place, &mut facts);
            known.constraints.extend(facts.constraints.iter().map(|quote| quote.text.clone()));
        } else if message.opens_turn() {
            note_request(&mut facts, &mut known, thread, at, message);
        }
        note_calls(&mut facts, &mut known, place, message, tools);
        for (_, result) in message.results() {
            let ending = tools.ending_at(thread, at, result);
            note_result(&mut facts, &mut known, message, result, ending, tools);
        }
        note_words(&mut facts, place, message);
        facts.media.extend(message.media().map(|media| Quote { text: media_line(media), place }));
        if let Some(replacement) = thread.hidden(at) {
            facts.hidden.push(Quote { text: replacement.to_owned(), place });
        }
    }
    let planned = open_items(&facts.current_plan);
    facts.open_items.extend(planned);
    facts.current_task =
        facts.requests.last().map(|request| Quote { text: request.text.clone(), place: request.place });
    settle_requests(&mut facts, thread);
    newest_only(&mut facts);
    facts
}

/// Media in one line: what it is, its name, type and size.
pub fn media_line(media: &Media) -> String {
    format!("{}: {media}", media.kind.label())
}

/// What was met on the way, by its name.
#[derive(Default)]
struct Known<'t> {
    calls: HashMap<&'t str, (&'t ToolCall, CallMeaning)>,
    /// Places among the files.
    files: HashMap<String, usize>,
    constraints: HashSet<String>,
    /// Places among the errors of those that nothing has fixed yet, by what they are about.
    open_errors: HashMap<String, Vec<usize>>,
}

/// The part of the current turn that lies in the range, when a cut at its end splits the turn.
pub fn turn_context(thread: &Thread, range: Range<usize>, facts: &StructuredSummary) -> Option<TurnContext> {
    let turn = thread.message(range.end - 1).turn();
    let opening =
        range.clone().find(|place| thread.message(*place).turn() == turn && thread.message(*place).opens_turn());
    let request = match opening.map(|place| thread.message(place)) {
        Some(message) => Quote { text: message.own_text(), place: message.log_place() },
        // It is not loaded; its words are known.
        None => {
            let known = facts.requests.iter().rev().find(|request| request.turn == turn)?;
            Quote { text: known.text.clone(), place: known.place }
        }
    };
    let start = request.place;
    let mut progress: Vec<Quote> = Vec::new();
    progress.extend(
        facts
            .files
            .iter()
            .filter(|file| file.last() > start)
            .map(|file| Quote { text: format!("{} {}", file.deed(), file.path), place: file.last() }),
    );
    progress.extend(
        facts
            .commands
            .iter()
            .filter(|command| command.place > start)
            .map(|command| Quote { text: first_line(&command.command).to_owned(), place: command.place }),
    );
    progress.sort_by_key(|quote| quote.place);
    let late = progress.len().saturating_sub(PROGRESS_MAX);
    Some(TurnContext { request, progress: progress.split_off(late) })
}

fn note_request(facts: &mut StructuredSummary, known: &mut Known<'_>, thread: &Thread, at: usize, message: &Message) {
    let place = message.log_place();
    let text = message.own_text();
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    if text.chars().count() <= ORDER_CHARS_MAX && !text.starts_with('<') {
        for sentence in constraints(text) {
            if known.constraints.insert(sentence.to_owned()) {
                facts.constraints.push(Quote { text: sentence.to_owned(), place });
            }
        }
    }
    let followed = thread.messages().get(at + 1);
    let state = match followed {
        // What stays of a span need not have stood together.
        Some(next) if next.opens_turn() && next.log_place() == place + 1 => RequestState::Superseded,
        _ => RequestState::Answered,
    };
    facts.requests.push(UserRequest { text: text.to_owned(), place, turn: message.turn(), state });
}

/// The newest request is open; one that is answered in full by a later turn is not.
pub(super) fn settle_requests(facts: &mut StructuredSummary, thread: &Thread) {
    let (current, newest) = (thread.turn(), facts.requests.len().saturating_sub(1));
    for (at, request) in facts.requests.iter_mut().enumerate() {
        request.state = match request.state {
            _ if request.turn == current => RequestState::Open,
            RequestState::Open if at < newest => RequestState::Answered,
            state => state,
        };
    }
}

fn note_calls<'t>(
    facts: &mut StructuredSummary,
    known: &mut Known<'t>,
    place: usize,
    message: &'t Message,
    tools: &Tools,
) {
    for call in message.calls() {
        let meaning = tools.meaning(call);
        for path in &meaning.paths {
            note_file(facts, known, path, &meaning, place);
        }
        if meaning.class == Some(ToolClass::Plan)
            && let Some(plan) = plan_items(&call.arguments, place)
        {
            facts.current_plan = plan;
        }
        known.calls.insert(&call.id, (call, meaning));
    }
}

fn note_file(facts: &mut StructuredSummary, known: &mut Known<'_>, path: &str, meaning: &CallMeaning, place: usize) {
    let at = *known.files.entry(path.to_owned()).or_insert_with(|| {
        facts.files.push(FileFact { path: path.to_owned(), read: None, written: None, patched: None });
        facts.files.len() - 1
    });
    let file = &mut facts.files[at];
    match meaning.class {
        Some(ToolClass::Write) => file.written = Some(place),
        Some(ToolClass::Patch) => file.patched = Some(place),
        _ => file.read = Some(place),
    }
}

/// The entries of a plan or to-do list as agents write it: objects with words and a state.
fn plan_items(arguments: &str, place: usize) -> Option<Vec<PlanItem>> {
    let value: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let list = ["todos", "plan", "items", "tasks"].iter().find_map(|key| value.get(*key)?.as_array())?;
    let word = |item: &serde_json::Value, keys: &[&str]| -> Option<String> {
        keys.iter().find_map(|key| Some(item.get(*key)?.as_str()?.to_owned()))
    };
    let items = list.iter().filter_map(|item| {
        let text = word(item, &["content", "step", "text", "title", "description", "task"])?;
        Some(PlanItem { text, state: word(item, &["status", "state"]).unwrap_or_else(|| "pending".to_owned()), place })
    });
    Some(items.collect())
}

fn open_items(plan: &[PlanItem]) -> Vec<OpenItem> {
    let open = plan.iter().filter(|item| !item.is_done());
    open.map(|item| OpenItem {
        description: item.text.clone(),
        context: String::new(),
        priority: if item.state == "in_progress" { Priority::High } else { Priority::Medium },
    })
    .collect()
}

fn note_result(
    facts: &mut StructuredSummary,
    known: &mut Known<'_>,
    message: &Message,
    result: &ToolResult,
    ending: CallEnding,
    tools: &Tools,
) {
    let place = message.log_place();
    let call = known.calls.get(&*result.call_id);
    let failed = ending.failed();
    let about = call.map_or_else(|| result.tool.to_string(), |(call, meaning)| subject(call, meaning));
    if let Some((_, CallMeaning { command: Some(command), .. })) = call {
        facts.commands.push(CommandFact { command: command.clone(), exit: ending.exit, failed, place });
    }
    if failed {
        let line = error_line(&result.text).to_owned();
        known.open_errors.entry(about.clone()).or_default().push(facts.errors.len());
        facts.errors.push(ErrorFact { line, about, place, fixed: None });
    } else {
        for error in known.open_errors.remove(&about).unwrap_or_default() {
            facts.errors[error].fixed = Some(place);
        }
    }
    note_outcome(facts, message, result, ending, tools);
}

/// What a call is about, so that a later success can be told to have fixed an earlier failure.
fn subject(call: &ToolCall, meaning: &CallMeaning) -> String {
    match (&meaning.command, meaning.paths.first()) {
        (Some(command), _) => first_line(command).to_owned(),
        (None, Some(path)) => format!("{} {path}", call.name),
        (None, None) => call.name.to_string(),
    }
}

fn note_outcome(
    facts: &mut StructuredSummary,
    message: &Message,
    result: &ToolResult,
    ending: CallEnding,
    tools: &Tools,
) {
    let mut key_fields: BTreeMap<String, String> = result.key_fields.clone();
    if let Some(rule) = tools.rule(&result.tool)
        && let Ok(serde_json::Value::Object(object)) = serde_json::from_str(&result.text)
    {
        for name in &rule.preserve {
            if let Some(value) = object.get(name) {
                key_fields.insert(name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            }
        }
    }
    if !key_fields.is_empty() {
        facts.tool_outcomes.push(ToolOutcome {
            tool: result.tool.to_string(),
            outcome: ending.outcome,
            key_fields,
            error: ending.failed().then(|| error_line(&result.text).to_owned()),
            message: Some(message.id()),
        });
    }
}

fn note_words(facts: &mut StructuredSummary, place: usize, message: &Message) {
    for text in message.texts().flat_map(|text| spoken(message, text)) {
        if message.role() == Role::Assistant {
            for sentence in super::constraint::decisions(text) {
                let decision = sentence.to_owned();
                facts.decisions.push(Decision { decision, rationale: String::new(), turn: message.turn(), place });
            }
        }
        if message.is_summary() || message.role() == Role::System {
            continue;
        }
        facts.urls.extend(urls(text).map(|url| Quote { text: url.to_owned(), place }));
        let values = super::value::numbers(text).chain(super::value::ids(text));
        facts.values.extend(values.map(|value| Quote { text: value.to_owned(), place }));
    }
}

/// What is said in a text of a message by whoever the message is from.
fn spoken<'t>(message: &Message, text: &'t str) -> Vec<&'t str> {
    match message.role() {
        Role::User => own_words(text).collect(),
        _ => vec![text],
    }
}

/// The addresses in a text.
fn urls(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("http").filter(|(at, _)| {
        let rest = &text[*at..];
        rest.starts_with("http://") || rest.starts_with("https://")
    });
    starts.map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| c.is_whitespace() || "\"'<>)]}`|\\".contains(c)).unwrap_or(rest.len());
        rest[..end].trim_end_matches(['.', ',', ';', ':'])
    })
}

fn newest_only(facts: &mut StructuredSummary) {
    keep_newest(&mut facts.decisions);
    keep_newest(&mut facts.commands);
    keep_newest(&mut facts.errors);
    keep_newest(&mut facts.media);
    last_mentions(&mut facts.urls);
    last_mentions(&mut facts.values);
}

/// Each thing once, where it was said last, the newest of them.
fn last_mentions(quotes: &mut Vec<Quote>) {
    let mut seen: HashSet<String> = HashSet::new();
    let mut kept: Vec<Quote> = quotes.drain(..).rev().filter(|quote| seen.insert(quote.text.clone())).collect();
    kept.reverse();
    *quotes = kept;
    keep_newest(quotes);
}

fn keep_newest<T>(items: &mut Vec<T>) {
    let late = items.len().saturating_sub(LINES_MAX);
    items.drain(..late);
}

/// The first line of a text.
pub(super) fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default().trim()
}
