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

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::excerpt::PATHS_BELOW;
use super::extract::{first_line, media_line};
use super::set_apart::{holds, indented};
use super::structured::{OpenItem, Quote, StructuredSummary};
use super::text_index::TextIndex;
use crate::thread::{Media, Thread};

/// The fate of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Its own words are in the prompt, at its own place: in its message, or in a summary that tells them of it.
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

/// The words of a finished prompt: a summary's, and those of each message of the thread that it shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct PromptWords {
    /// What summaries and notes say.
    pub(crate) written: String,
    /// What is shown of messages.
    pub(crate) shown: Vec<ShownMessage>,
}

/// What a prompt shows of a message.
#[derive(Clone, Debug)]
pub(crate) struct ShownMessage {
    /// Its place in the log.
    pub(crate) place: usize,
    /// True if a person says it.
    pub(crate) is_user: bool,
    /// Its words, call arguments included.
    pub(crate) words: String,
}

impl PromptWords {
    /// Adds the words of a summary or a note.
    pub(crate) fn write(&mut self, text: &str) {
        self.written.push_str(text);
        self.written.push('\n');
    }

    /// Returns the pins and constraints that the prompt lacks.
    pub(crate) fn missing(&self, items: &StructuredSummary) -> Vec<String> {
        let pins = items.pins.iter().filter(|pin| !self.holds_pin(pin));
        let constraints = items.constraints.iter().filter(|quote| !self.holds_constraint(&quote.text, quote.place));
        pins.chain(constraints.map(|quote| &quote.text)).cloned().collect()
    }

    fn holds_pin(&self, pin: &str) -> bool {
        holds(&self.written, pin) || self.shown.iter().any(|message| message.words.contains(pin))
    }

    /// Tells whether the user's words stand as the user's: a tool's output with the same words does not bind anybody.
    fn holds_constraint(&self, text: &str, place: usize) -> bool {
        let speaks = |message: &&ShownMessage| message.is_user || message.place == place;
        holds(&self.written, text) || self.shown.iter().filter(speaks).any(|message| message.words.contains(text))
    }
}

/// Looks items up in a prompt, each at its own place.
struct ItemFinder<'p> {
    prompt: &'p PromptWords,
    written: TextIndex<'p>,
    shown: HashMap<usize, &'p str>,
    /// The messages that were searched, since many items may be of one.
    searched: HashMap<usize, TextIndex<'p>>,
    /// The directory below which the summary names files.
    root: &'p str,
}

impl<'p> ItemFinder<'p> {
    fn new(prompt: &'p PromptWords) -> Self {
        let root = prompt.written.lines().find_map(|line| line.strip_prefix(PATHS_BELOW)?.strip_suffix(')'));
        ItemFinder {
            prompt,
            written: TextIndex::new([prompt.written.as_str()]),
            shown: prompt.shown.iter().map(|message| (message.place, message.words.as_str())).collect(),
            searched: HashMap::new(),
            root: root.unwrap_or_default(),
        }
    }

    fn holds(&mut self, kind: ItemKind, text: &str, place: Option<usize>) -> bool {
        match (kind, place) {
            (ItemKind::Pin, _) => self.prompt.holds_pin(text),
            (ItemKind::Constraint, Some(place)) => self.prompt.holds_constraint(text, place),
            (ItemKind::File, _) => self.names_file(text),
            (_, Some(place)) => self.is_shown(text, place) || self.is_told(text, Some(place + 1)),
            (_, None) => self.is_told(text, None),
        }
    }

    /// Tells whether an item's own message is in the prompt with its words. A kept call's arguments are JSON, with their quotes
    /// escaped.
    fn is_shown(&mut self, text: &str, place: usize) -> bool {
        let Some(words) = self.shown.get(&place) else { return false };
        let index = self.searched.entry(place).or_insert_with(|| TextIndex::new([*words]));
        let json = serde_json::Value::from(text).to_string();
        index.contains(text) || index.contains(&json[1..json.len() - 1])
    }

    /// Tells whether a summary says the words, in a line that is not about another message.
    fn is_told(&self, text: &str, number: Option<usize>) -> bool {
        self.is_told_as(text, number) || indented(text).is_some_and(|text| self.is_told_as(&text, number))
    }

    fn is_told_as(&self, text: &str, number: Option<usize>) -> bool {
        let is_item = |written: &str, at: usize| {
            is_whole(written, at, text) && number.is_none_or(|number| is_about(written, at, number))
        };
        !text.is_empty() && self.written.find(text, is_item)
    }

    /// Tells whether the prompt names a file so that it can be opened: by its whole path, or below the directory that the
    /// summary names.
    fn names_file(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.root).filter(|_| !self.root.is_empty());
        let is_told = |path: &str| self.is_told(path, None);
        let is_shown = |message: &ShownMessage| {
            let words = &message.words;
            words.match_indices(path).any(|(at, _)| is_whole(words, at, path))
        };
        is_told(path) || below.is_some_and(is_told) || self.prompt.shown.iter().any(is_shown)
    }
}

/// Tells whether words at an offset are not a part of longer ones: `port=80` is not in `port=8080`.
fn is_whole(text: &str, at: usize, words: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (before, after) = (text[..at].chars().next_back(), text[at + words.len()..].chars().next());
    let starts = joins(words.chars().next()) && joins(before);
    let ends = joins(words.chars().next_back()) && joins(after);
    !starts && !ends
}

/// Tells whether the line at an offset is about a message: it names no message, or this one, or the call that it answers. A
/// line below a label (`m40 $ cargo test`) is about the message of the label.
fn is_about(text: &str, at: usize, number: usize) -> bool {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
    let fits = |numbers: Vec<usize>| numbers.iter().any(|named| *named == number || named + 1 == number);
    let own = named_messages(&text[start..end]);
    if !own.is_empty() || text[start..end].starts_with("- ") {
        return own.is_empty() || fits(own);
    }
    let above = text[..start].lines().rev().take_while(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let label = above.map(named_messages).find(|numbers| !numbers.is_empty());
    label.is_none_or(fits)
}

/// The numbers of the messages that a line names.
fn named_messages(line: &str) -> Vec<usize> {
    let words = line.split(|c: char| !c.is_alphanumeric());
    words.filter_map(|word| word.strip_prefix('m')?.parse().ok()).collect()
}

impl Receipt {
    /// Classes every item by whether its own words are in the prompt, at its own place.
    pub(crate) fn new(items: &StructuredSummary, prompt: &PromptWords) -> Receipt {
        let mut receipt = Receipt::default();
        let mut finder = ItemFinder::new(prompt);
        for (kind, text, place) in list_items(items) {
            let fate = match finder.holds(kind, text, place) {
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
    list.extend(items.files.iter().map(|file| (ItemKind::File, file.path.as_str(), Some(file.last_touched()))));
    let commands = items.commands.iter();
    list.extend(commands.map(|command| (ItemKind::Command, first_line(&command.command), Some(command.place))));
    list.extend(items.errors.iter().map(|error| (ItemKind::Error, error.line.as_str(), Some(error.place))));
    list.extend(items.values.iter().map(|value| (ItemKind::Value, value.text.as_str(), Some(value.place))));
    list.extend(items.urls.iter().map(|url| (ItemKind::Url, url.text.as_str(), Some(url.place))));
    list.extend(items.current_plan.iter().map(|item| (ItemKind::Plan, item.text.as_str(), Some(item.place))));
    list
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
    use super::super::structured::{CommandFact, FileFact, RequestState, UserRequest};
    use super::*;

    fn command(words: &str) -> StructuredSummary {
        let commands = vec![CommandFact {
            command: words.to_owned(),
            exit: None,
            failed: false,
            ending: Default::default(),
            place: 40,
        }];
        StructuredSummary { commands, ..StructuredSummary::default() }
    }

    fn quotes(words: &str) -> Vec<Quote> {
        vec![Quote { text: words.to_owned(), place: 40 }]
    }

    fn value(words: &str) -> StructuredSummary {
        StructuredSummary { values: quotes(words), ..StructuredSummary::default() }
    }

    fn constraint(words: &str) -> StructuredSummary {
        StructuredSummary { constraints: quotes(words), ..StructuredSummary::default() }
    }

    fn request(words: &str) -> StructuredSummary {
        let request = UserRequest {
            text: words.to_owned(),
            place: 40,
            turn: 3,
            state: RequestState::Answered,
            context: None,
            supersedes: None,
        };
        StructuredSummary { requests: vec![request], ..StructuredSummary::default() }
    }

    fn file(path: &str) -> StructuredSummary {
        let file = FileFact { path: path.to_owned(), read: Some(40), written: None, patched: None, purpose: None };
        StructuredSummary { files: vec![file], ..StructuredSummary::default() }
    }

    /// The prompt with a summary, and with one message shown: its place, whether the user says it, its words.
    fn prompt(written: &str, shown: (usize, bool, &str)) -> PromptWords {
        let (place, is_user, words) = shown;
        let shown = vec![ShownMessage { place, is_user, words: words.to_owned() }];
        PromptWords { written: written.to_owned(), shown }
    }

    #[test]
    fn an_item_is_retained_when_its_own_words_are_there_at_its_own_place() {
        let quoted = r#"go test -v 2>&1 | grep -E "^(ok |FAIL)""#;
        let call = serde_json::json!({ "command": quoted, "timeout": 60 }).to_string();
        let nothing = (0, false, "");
        type Case<'c> = (&'c str, StructuredSummary, &'c str, (usize, bool, &'c str), bool);
        let cases: [Case<'_>; 21] = [
            ("its call, with escaped quotes", command(quoted), "", (40, false, &call), true),
            ("the same call elsewhere", command(quoted), "", (44, false, &call), false),
            ("its own line", command("cargo test"), "m41 $ cargo test \u{2192} ok", nothing, true),
            ("a later run's line", command("cargo test"), "m91 $ cargo test \u{2192} ok", nothing, false),
            ("behind its number", command("cargo test"), "- `cargo test` failed (m41)", nothing, true),
            ("behind another", command("cargo test"), "- `cargo test` failed (m90)", nothing, false),
            ("a part of a word", command("ls"), "He also calls it.", nothing, false),
            ("in a message of somebody else", value("port=80"), "", (12, false, "port=80"), false),
            ("in its message", value("port=80"), "", (40, false, "host=a port=80"), true),
            ("a longer number", value("port=80"), "- port=8080", nothing, false),
            ("a line without a number", value("port=80"), "- port=80", nothing, true),
            ("below its call's label", value("port=80"), "m40 $ show\nport=80", nothing, true),
            ("below another's label", value("port=80"), "m7 $ show\nhost=a\nport=80", nothing, false),
            ("the user's words, by a tool", constraint("Never push."), "", (12, false, "Never push."), false),
            ("the user's words, again", constraint("Never push."), "", (12, true, "Never push."), true),
            ("the user's words, in a summary", constraint("Never push."), "- Never push.", nothing, true),
            ("the same request, said again", request("Go on."), "m90: Go on.", nothing, false),
            ("its own request", request("Go on."), "m41: Go on.", nothing, true),
            ("a name without its folder", file("/home/me/shop/src/cart.rs"), "src/cart.rs (read m9)", nothing, false),
            (
                "below the folder that is named",
                file("/home/me/shop/src/cart.rs"),
                "(paths are below /home/me/shop/)\nsrc/cart.rs (read m9):",
                nothing,
                true,
            ),
            ("a longer path", file("src/cart.rs"), "- other_src/cart.rs", nothing, false),
        ];
        for (name, items, written, shown, is_retained) in cases {
            let prompt = prompt(written, shown);
            let receipt = Receipt::new(&items, &prompt);
            assert_eq!(receipt.count(Fate::Retained) == 1, is_retained, "{name}: {receipt:?}");
            let is_missing = !prompt.missing(&items).is_empty();
            assert_eq!(is_missing, !items.constraints.is_empty() && !is_retained, "{name}");
        }
    }
}
