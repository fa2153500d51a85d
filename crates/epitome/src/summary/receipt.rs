//! The receipt: the fate of every item that a compaction took out of the prompt.
//!
//! Say a span held the constraint "Never push to main.", the command `cargo test -p cart` (m40) and the pin "API v2". The
//! finished prompt contains the constraint and nothing else:
//!
//! ```text
//! constraint  Never push to main.    retained
//! command     cargo test -p cart     recoverable  m40    the log has message 40
//! pin         API v2                 lost                a pin is in no message, so there is nowhere to read it back from
//! ```
//!
//! The last line must not happen: before the receipt is final, the planner adds pins and constraints that the prompt lacks,
//! word for word, and counts them in `repaired`.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::extract::{first_line, media_line};
use super::structured::{OpenItem, Quote, StructuredSummary};
use super::text_index::TextIndex;
use crate::thread::{Media, Thread};

/// The fate of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Its words are in the prompt.
    Retained,
    /// It is out of the prompt, and its reference says which message to read it back from.
    Recoverable,
    /// It is nowhere.
    Lost,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    /// A pin.
    Pin,
    /// A constraint.
    Constraint,
    /// A request.
    Request,
    /// The goal in a model's words.
    Goal,
    /// A finding of a model.
    Fact,
    /// Unfinished work.
    #[serde(rename = "open-item")]
    OpenItem,
    /// A decision.
    Decision,
    /// A file.
    File,
    /// A command.
    Command,
    /// An error.
    Error,
    /// A number with its name, or an id.
    Value,
    /// An address.
    Url,
    /// An item of the plan.
    Plan,
    /// A tool outcome.
    Outcome,
    /// An image, a document, a recording or a file.
    Media,
}

/// One item of the receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptEntry {
    /// The item's kind.
    pub kind: ItemKind,
    /// The item, shortened.
    pub item: String,
    /// Its fate.
    pub fate: Fate,
    /// The message to read it back from, such as `m41`.
    pub reference: String,
}

/// The fates of all items of a compaction.
///
/// It is made once, from the finished prompt and not from the plan, so it tells what is true rather than what was meant. It is
/// stored with the compaction and never changed; the next round accounts for its own items and those it merged. A `Lost` entry
/// of another kind than a pin is possible for what a model wrote, since that stands in no message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Item by item.
    pub entries: Vec<ReceiptEntry>,
    /// Pins and constraints that the prompt lacked and that code added verbatim.
    pub repaired: usize,
}

/// The longest item shown.
const ITEM_CHARS_MAX: usize = 120;

impl Receipt {
    /// Classes every item by whether its words are in the prompt.
    pub(crate) fn new(items: &StructuredSummary, prompt: &str) -> Receipt {
        let mut receipt = Receipt::default();
        let index = TextIndex::new([prompt]);
        for (kind, text, place) in list_items(items) {
            let fate = match index.contains(text) || is_escaped(text, &index) {
                true => Fate::Retained,
                false if place.is_some() => Fate::Recoverable,
                false => Fate::Lost,
            };
            let reference = place.map_or_else(String::new, |place| format!("m{}", place + 1));
            receipt.entries.push(ReceiptEntry { kind, item: short(text), fate, reference });
        }
        receipt
    }

    /// Classes every image and file: it is in the prompt, or in the message that the reference names. `shown` tells whether the
    /// prompt has the media of a loaded message; `earlier` are those that left in earlier rounds.
    pub(crate) fn add_media(&mut self, thread: &Thread, shown: &dyn Fn(usize, &Media) -> bool, earlier: &[Quote]) {
        let mut loaded: HashSet<usize> = HashSet::new();
        for (at, message) in thread.messages().iter().enumerate().filter(|(_, message)| !message.is_summary()) {
            loaded.insert(message.log_place());
            for media in message.media() {
                let fate = if shown(at, media) { Fate::Retained } else { Fate::Recoverable };
                let (item, reference) = (short(&media_line(media)), thread.reference(at));
                self.entries.push(ReceiptEntry { kind: ItemKind::Media, item, fate, reference });
            }
        }
        for Quote { text, place } in earlier.iter().filter(|quote| !loaded.contains(&quote.place)) {
            let (item, reference) = (short(text), format!("m{}", place + 1));
            self.entries.push(ReceiptEntry { kind: ItemKind::Media, item, fate: Fate::Recoverable, reference });
        }
    }

    /// Counts the items that met a fate.
    pub fn count(&self, fate: Fate) -> usize {
        self.entries.iter().filter(|entry| entry.fate == fate).count()
    }

    /// Returns the items of a kind that met a fate.
    pub fn of_kind(&self, kind: ItemKind, fate: Fate) -> impl Iterator<Item = &ReceiptEntry> {
        self.entries.iter().filter(move |entry| entry.kind == kind && entry.fate == fate)
    }

    /// Returns the pins and constraints that are not in the prompt: there must be none.
    pub fn missing_required(&self) -> impl Iterator<Item = &ReceiptEntry> {
        self.entries
            .iter()
            .filter(|entry| matches!(entry.kind, ItemKind::Pin | ItemKind::Constraint) && entry.fate != Fate::Retained)
    }
}

fn list_items(items: &StructuredSummary) -> Vec<(ItemKind, &str, Option<usize>)> {
    let mut list: Vec<(ItemKind, &str, Option<usize>)> = Vec::new();
    list.extend(items.pins.iter().map(|pin| (ItemKind::Pin, pin.as_str(), None)));
    list.extend(items.constraints.iter().map(|quote| (ItemKind::Constraint, quote.text.as_str(), Some(quote.place))));
    list.extend(items.requests.iter().map(|request| (ItemKind::Request, request.text.as_str(), Some(request.place))));
    // What a model wrote stands in no message.
    list.extend(items.goal.iter().map(|goal| (ItemKind::Goal, goal.as_str(), None)));
    list.extend(items.facts.iter().map(|fact| (ItemKind::Fact, fact.text.as_str(), Some(fact.place))));
    // Commands and files are items of their own.
    let is_listed = |text: &str| {
        items.commands.iter().any(|command| first_line(&command.command) == text)
            || items.files.iter().any(|file| text.ends_with(&file.path))
    };
    let progress = items.turn_context.iter().flat_map(|turn| &turn.progress).filter(|told| !is_listed(&told.text));
    list.extend(progress.map(|told| (ItemKind::Fact, told.text.as_str(), Some(told.place))));
    let is_planned = |item: &&OpenItem| items.current_plan.iter().any(|planned| planned.text == item.description);
    let open = items.open_items.iter().filter(|item| !is_planned(item));
    list.extend(open.map(|item| (ItemKind::OpenItem, item.description.as_str(), None)));
    list.extend(
        items.decisions.iter().map(|decision| (ItemKind::Decision, decision.decision.as_str(), Some(decision.place))),
    );
    list.extend(items.files.iter().map(|file| (ItemKind::File, path_end(&file.path), Some(file.last_touched()))));
    let commands = items.commands.iter();
    list.extend(commands.map(|command| (ItemKind::Command, first_line(&command.command), Some(command.place))));
    list.extend(items.errors.iter().map(|error| (ItemKind::Error, error.line.as_str(), Some(error.place))));
    list.extend(items.values.iter().map(|value| (ItemKind::Value, value.text.as_str(), Some(value.place))));
    list.extend(items.urls.iter().map(|url| (ItemKind::Url, url.text.as_str(), Some(url.place))));
    list.extend(items.current_plan.iter().map(|item| (ItemKind::Plan, item.text.as_str(), Some(item.place))));
    list
}

/// Tells whether an item is in the prompt as JSON writes it: a kept call's arguments have their quotes escaped.
fn is_escaped(text: &str, index: &TextIndex<'_>) -> bool {
    let json = serde_json::Value::from(text).to_string();
    let escaped = &json[1..json.len() - 1];
    escaped != text && index.contains(escaped)
}

/// Returns the last two pieces of a path: they identify a file when a common root is left out.
fn path_end(path: &str) -> &str {
    match path.match_indices('/').rev().nth(1) {
        Some((at, _)) => &path[at + 1..],
        None => path,
    }
}

fn short(text: &str) -> String {
    let line = text.trim().replace('\n', " ");
    match line.char_indices().nth(ITEM_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::super::structured::CommandFact;
    use super::*;

    #[test]
    fn a_command_is_in_the_prompt_that_keeps_its_call_with_escaped_quotes() {
        let command = r#"go test -v 2>&1 | grep -E "^(ok |FAIL)""#.to_owned();
        let prompt = serde_json::json!({ "command": command, "timeout": 60 }).to_string();
        let commands = vec![CommandFact { command, exit: None, failed: false, place: 40 }];
        let items = StructuredSummary { commands, ..StructuredSummary::default() };
        assert_eq!(Receipt::new(&items, &prompt).count(Fate::Retained), 1);
        assert_eq!(Receipt::new(&items, "something else").count(Fate::Recoverable), 1);
    }
}
