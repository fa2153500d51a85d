//! The rules of OpenAI Responses, R1 to R10.
//!
//! Items that the server runs itself (web search, MCP, image generation, …) and item types nobody knows yet are
//! carried. What the server holds (`previous_response_id`, `conversation`, `item_reference`) is not guessed at.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{LastExchange, List, Place, Report, Request, Rule, parts, present, text};
pub(super) fn check(request: &Value, tail: LastExchange, report: &mut Report) {
    if text(request, List::Input.name()).is_some() {
        return;
    }
    let Some(request) = Request::open(request, List::Input) else {
        return check_absent(request, report);
    };
    let items: Vec<Item<'_>> = request.entries.iter().map(Item::read).collect();
    if items.is_empty() && !held_by_server(&request) {
        report.add(Rule::R7, Place::whole(List::Input), "`input` must hold at least one item.");
    }
    for (at, (item, value)) in items.iter().zip(request.entries).enumerate() {
        check_item(item, value, place(at), report);
    }
    check_pairs(&request, &items, tail, report);
    check_reasoning(&items, tail, report);
    check_stored(&request, &items, report);
    check_trigger(&items, report);
    check_ids(&request, &items, report);
}

/// An item, as far as the rules care.
enum Item<'a> {
    /// What the assistant said.
    Said,
    /// What anyone else said.
    Heard,
    Reasoning,
    Call(Tool, Option<&'a str>),
    Output(Tool, Option<&'a str>),
    Trigger,
    Reference,
    Compaction,
    /// A type that is carried.
    Carried,
    /// Not an item at all.
    Malformed,
}

/// The kinds of tool whose calls the client answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Tool {
    Function,
    Custom,
    LocalShell,
    Shell,
    ApplyPatch,
    Computer,
    Search,
}

impl<'a> Item<'a> {
    fn read(value: &'a Value) -> Self {
        match (present(value, "type").map(Value::as_str), text(value, "role")) {
            (Some(Some("message")) | None, Some("assistant")) => Item::Said,
            (Some(Some("message")), _) | (None, Some(_)) => Item::Heard,
            (Some(Some(kind)), _) => Item::typed(kind, value),
            (None, None) | (Some(None), _) => Item::Malformed,
        }
    }

    fn typed(kind: &str, value: &'a Value) -> Self {
        let call_id = text(value, "call_id");
        match kind {
            "reasoning" => Item::Reasoning,
            "compaction" => Item::Compaction,
            "compaction_trigger" => Item::Trigger,
            "item_reference" => Item::Reference,
            "local_shell_call_output" => Item::Output(Tool::LocalShell, call_id.or_else(|| text(value, "id"))),
            "tool_search_call" | "tool_search_output"
                if call_id.is_none() || text(value, "execution") == Some("server") =>
            {
                Item::Carried
            }
            "tool_search_output" => Item::Output(Tool::Search, call_id),
            _ => match (Tool::called(kind), kind.strip_suffix("_output").and_then(Tool::called)) {
                (Some(tool), _) => Item::Call(tool, call_id),
                (_, Some(tool)) => Item::Output(tool, call_id),
                _ => Item::Carried,
            },
        }
    }

    fn is_models(&self) -> bool {
        matches!(self, Item::Said | Item::Reasoning | Item::Call(..))
    }
}

impl Tool {
    fn called(kind: &str) -> Option<Self> {
        match kind {
            "function_call" => Some(Tool::Function),
            "custom_tool_call" => Some(Tool::Custom),
            "local_shell_call" => Some(Tool::LocalShell),
            "shell_call" => Some(Tool::Shell),
            "apply_patch_call" => Some(Tool::ApplyPatch),
            "computer_call" => Some(Tool::Computer),
            "tool_search_call" => Some(Tool::Search),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Tool::Function => "function call",
            Tool::Custom => "custom tool call",
            Tool::LocalShell => "local shell call",
            Tool::Shell => "shell call",
            Tool::ApplyPatch => "apply patch call",
            Tool::Computer => "computer call",
            Tool::Search => "tool search call",
        }
    }
}

fn place(at: usize) -> Place {
    Place::entry(List::Input, at)
}

fn check_absent(request: &Value, report: &mut Report) {
    let elsewhere = ["previous_response_id", "conversation", "prompt"];
    let left_out = present(request, List::Input.name()).is_none();
    if !(left_out && elsewhere.iter().any(|field| present(request, field).is_some())) {
        report.add(Rule::R7, Place::whole(List::Input), "`input` must be a string or a list of items.");
    }
}

fn held_by_server(request: &Request<'_>) -> bool {
    request.field("previous_response_id").is_some() || request.field("conversation").is_some()
}

fn check_item(item: &Item<'_>, value: &Value, place: Place, report: &mut Report) {
    match item {
        Item::Said | Item::Heard => return check_message(value, place, report),
        Item::Malformed => return report.add(Rule::R7, place, "An item must be an object with a `type` or a `role`."),
        Item::Carried => return,
        Item::Call(_, None) | Item::Output(_, None) => report.add(Rule::R7, place, "The item must have a `call_id`."),
        Item::Call(Tool::Function, _) => check_texts(value, &["name", "arguments"], place, report),
        Item::Call(Tool::Custom, _) => check_texts(value, &["name", "input"], place, report),
        Item::Output(Tool::Function | Tool::Custom, _) => {
            if !matches!(value.get("output"), Some(Value::String(_) | Value::Array(_))) {
                report.add(Rule::R7, place, "The `output` must be a string or a list of parts.");
            }
        }
        Item::Reasoning if !value.get("summary").is_some_and(Value::is_array) => {
            report.add(Rule::R7, place, "The `summary` of a reasoning item must be a list.");
        }
        Item::Reference => check_texts(value, &["id"], place, report),
        Item::Compaction => check_texts(value, &["encrypted_content"], place, report),
        Item::Call(..) | Item::Output(..) | Item::Reasoning | Item::Trigger => {}
    }
    if present(value, "role").is_some() {
        report.add(Rule::R7, place, "Only messages have a `role`.");
    }
}

fn check_message(value: &Value, place: Place, report: &mut Report) {
    if text(value, "role").is_none() {
        report.add(Rule::R7, place, "A message must have a `role`.");
    }
    if !matches!(value.get("content"), Some(Value::String(_) | Value::Array(_))) {
        report.add(Rule::R7, place, "The `content` of a message must be a string or a list of parts.");
    }
    for (at, part) in parts(value).iter().enumerate() {
        if text(part, "type").is_none() {
            report.add(Rule::R7, place.content(at), "A part must be an object with a `type`.");
        }
    }
}

fn check_texts(value: &Value, fields: &[&str], place: Place, report: &mut Report) {
    for field in fields.iter().filter(|field| text(value, field).is_none()) {
        report.add(Rule::R7, place, format!("The item's `{field}` must be a string."));
    }
}

fn check_pairs(request: &Request<'_>, items: &[Item<'_>], tail: LastExchange, report: &mut Report) {
    let referenced = items.iter().any(|item| matches!(item, Item::Reference));
    let hidden = referenced || held_by_server(request);
    let last = last_exchange(items);
    for fault in Pairs::faults_of(items) {
        let excused = match fault.kind {
            Mismatch::Unanswered => referenced || (tail == LastExchange::Open && fault.at >= last),
            Mismatch::Stray => hidden,
            Mismatch::Repeated | Mismatch::Reversed => false,
        };
        if !excused {
            fault.tell(report);
        }
    }
}

/// The first index of the last exchange: the outputs at the end and the model's items right before them.
fn last_exchange(items: &[Item<'_>]) -> usize {
    let carried = |item: &Item<'_>| matches!(item, Item::Carried);
    let outputs = items.iter().rev().take_while(|item| carried(item) || matches!(item, Item::Output(..))).count();
    let models = items.iter().rev().skip(outputs).take_while(|item| carried(item) || item.is_models()).count();
    items.len() - outputs - models
}

/// A call or an output that found no partner, or the wrong one.
struct Fault<'a> {
    at: usize,
    kind: Mismatch,
    tool: Tool,
    id: &'a str,
}

impl Fault<'_> {
    fn tell(&self, report: &mut Report) {
        let (tool, id) = (self.tool.name(), self.id);
        let (rule, detail) = match self.kind {
            Mismatch::Unanswered => (Rule::R1, format!("No tool output found for {tool} `{id}`.")),
            Mismatch::Stray => (Rule::R2, format!("No {tool} found for the output with call_id `{id}`.")),
            Mismatch::Repeated => (Rule::R2, format!("The {tool} `{id}` already has an output.")),
            Mismatch::Reversed => (Rule::R6, format!("The output comes before its {tool} `{id}`.")),
        };
        report.add(rule, place(self.at), detail);
    }
}

#[derive(Clone, Copy)]
enum Mismatch {
    /// A call without an output.
    Unanswered,
    /// An output without a call.
    Stray,
    /// A second output of a call.
    Repeated,
    /// An output before its call.
    Reversed,
}

type Key<'a> = (Tool, &'a str);

/// Calls and outputs, paired while reading; an id may be used again once it was answered.
#[derive(Default)]
struct Pairs<'a> {
    /// How many calls of a key are still to be read.
    ahead: HashMap<Key<'a>, usize>,
    /// Where a call waits for its output.
    waiting: HashMap<Key<'a>, usize>,
    /// Outputs that were read before their call.
    early: HashSet<Key<'a>>,
    answered: HashSet<Key<'a>>,
    faults: Vec<Fault<'a>>,
}

impl<'a> Pairs<'a> {
    fn faults_of(items: &[Item<'a>]) -> Vec<Fault<'a>> {
        let mut pairs = Pairs::default();
        for item in items {
            if let Item::Call(tool, Some(id)) = *item {
                *pairs.ahead.entry((tool, id)).or_default() += 1;
            }
        }
        for (at, item) in items.iter().enumerate() {
            match *item {
                Item::Call(tool, Some(id)) => pairs.call((tool, id), at),
                Item::Output(tool, Some(id)) => pairs.output(pairs.answered_by(tool, id), at),
                _ => {}
            }
        }
        pairs.finish()
    }

    fn call(&mut self, key: Key<'a>, at: usize) {
        if let Some(left) = self.ahead.get_mut(&key) {
            *left -= 1;
        }
        if self.early.remove(&key) {
            self.answered.insert(key);
        } else if let Some(earlier) = self.waiting.insert(key, at) {
            self.fault(earlier, Mismatch::Unanswered, key);
        }
    }

    fn output(&mut self, key: Key<'a>, at: usize) {
        if self.waiting.remove(&key).is_some() {
            self.answered.insert(key);
        } else if self.answered.contains(&key) || self.early.contains(&key) {
            self.fault(at, Mismatch::Repeated, key);
        } else if self.ahead.get(&key).is_some_and(|&left| left > 0) {
            self.early.insert(key);
            self.fault(at, Mismatch::Reversed, key);
        } else {
            self.fault(at, Mismatch::Stray, key);
        }
    }

    /// The call an output is for: Codex answers a local shell call with a function call's output.
    fn answered_by(&self, tool: Tool, id: &'a str) -> Key<'a> {
        let shell = (Tool::LocalShell, id);
        match tool {
            Tool::Function if !self.ahead.contains_key(&(tool, id)) && self.ahead.contains_key(&shell) => shell,
            _ => (tool, id),
        }
    }

    fn fault(&mut self, at: usize, kind: Mismatch, (tool, id): Key<'a>) {
        self.faults.push(Fault { at, kind, tool, id });
    }

    fn finish(mut self) -> Vec<Fault<'a>> {
        for (key, at) in std::mem::take(&mut self.waiting) {
            self.fault(at, Mismatch::Unanswered, key);
        }
        self.faults
    }
}

fn check_reasoning(items: &[Item<'_>], tail: LastExchange, report: &mut Report) {
    for (at, item) in items.iter().enumerate() {
        let next = items.get(at + 1);
        if matches!(item, Item::Reasoning) && !may_follow_reasoning(next, tail) {
            report.add(Rule::R3, place(at), "The reasoning item was provided without its required following item.");
        }
    }
}

fn may_follow_reasoning(next: Option<&Item<'_>>, tail: LastExchange) -> bool {
    match next {
        Some(Item::Heard | Item::Output(..) | Item::Trigger) => false,
        Some(_) => true,
        None => tail == LastExchange::Open,
    }
}

fn check_stored(request: &Request<'_>, items: &[Item<'_>], report: &mut Report) {
    match request.field("store").and_then(Value::as_bool) {
        Some(false) => check_unstored(request, items, report),
        _ if reasons(request) => check_lost_reasoning(request, items, report),
        _ => {}
    }
}

fn reasons(request: &Request<'_>) -> bool {
    request
        .field("reasoning")
        .is_some_and(|reasoning| reasoning.is_object() && text(reasoning, "effort") != Some("none"))
}

fn check_unstored(request: &Request<'_>, items: &[Item<'_>], report: &mut Report) {
    for (at, (item, value)) in items.iter().zip(request.entries).enumerate() {
        let id = text(value, "id").unwrap_or_default();
        let known_by_id_alone = match item {
            Item::Reference => true,
            Item::Reasoning => !id.is_empty() && text(value, "encrypted_content").is_none_or(str::is_empty),
            _ => false,
        };
        if known_by_id_alone {
            let detail =
                format!("Only the id `{id}` tells what this is, and items are not persisted with `store: false`.");
            report.add(Rule::R5, place(at), detail);
        }
    }
}

fn check_lost_reasoning(request: &Request<'_>, items: &[Item<'_>], report: &mut Report) {
    let mut reasoned = false;
    for (at, (item, value)) in items.iter().zip(request.entries).enumerate() {
        reasoned = matches!(item, Item::Reasoning) || (reasoned && item.is_models());
        let id = text(value, "id").filter(|id| is_server_id(id));
        if let (Item::Said | Item::Call(..), false, Some(id)) = (item, reasoned, id) {
            let detail = format!("`{id}` may have had a reasoning item before it; drop the id if that was left out.");
            report.add(Rule::R4, place(at), detail);
        }
    }
}

/// The ids OpenAI gives to messages and calls.
fn is_server_id(id: &str) -> bool {
    ["msg_", "fc_", "ctc_", "lsh_", "sh_", "apc_", "cu_"].iter().any(|prefix| id.starts_with(prefix))
}

fn check_trigger(items: &[Item<'_>], report: &mut Report) {
    let before_last = items.split_last().map_or(&[][..], |(_, before)| before);
    for (at, item) in before_last.iter().enumerate() {
        if matches!(item, Item::Trigger) {
            report.add(Rule::R9, place(at), "A compaction_trigger must be the final input item.");
        }
    }
}

fn check_ids(request: &Request<'_>, items: &[Item<'_>], report: &mut Report) {
    let mut seen = HashSet::new();
    for (at, (item, value)) in items.iter().zip(request.entries).enumerate() {
        let own = !matches!(item, Item::Reference | Item::Output(..) | Item::Malformed | Item::Carried);
        if let Some(id) = text(value, "id").filter(|id| own && !id.is_empty())
            && !seen.insert(id)
        {
            report.add(Rule::R10, place(at), format!("Duplicate item found with id `{id}`."));
        }
    }
}
