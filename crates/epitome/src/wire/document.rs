//! A document: a request, a list or lines of messages, held as it came and written back byte for byte where kept.
//!
//! It knows nothing of plans: the caller says, message by message, what to keep and what to write instead.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Dialect;
use super::binding::{binds_thinking, drop_mismatched_thinking};
use super::cache_mark::{MarkLifetime, cache_marks};
use super::decode::decode_message;
use super::prompt_message::PromptMessage;
use super::splice::{RawFields, elements, rest_of_list, rest_of_object};
use crate::message::{NewMessage, Raw, offset_range};

/// The fields that a request has its messages in.
const LISTS: [&str; 2] = ["messages", "input"];

/// A request or a bare message list, decoded.
///
/// It owns the source text; items, fields, system prompt and tools are slices of it. Nothing of it changes after it is read:
/// [`encode`](Document::encode) makes a new text, in which everything outside the list and every kept message is a copy of the
/// source's bytes:
///
/// ```text
/// source   {"model":"m", "messages": [ {0} , {1} , {2} ], "stream":true}
/// around   ───────── before ────────            ─────── after ─────────     the separator is what stands between {0} and {1}
/// ```
///
/// A slice of another text in `items` would make `encode` cut at the wrong bytes; only the constructors fill it.
#[derive(Clone, Debug)]
pub struct Document {
    dialect: Dialect,
    layout: Layout,
    source: Raw,
    items: Vec<Raw>,
    system: Option<Raw>,
    tools: Option<Raw>,
    model: Option<String>,
    max_output: Option<u64>,
    fields: Vec<(Box<str>, Raw)>,
}

/// How the messages are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A request object with a list in it.
    Request,
    /// A JSON list.
    List,
    /// One message a line.
    Lines,
}

/// Why a text is not a document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The text is empty.
    #[error("there is nothing in it: an empty text is not a message list")]
    Empty,
    /// The JSON breaks off or is not JSON.
    #[error("line {line}, column {column}: {reason}")]
    NotJson {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The parser's reason.
        reason: String,
        /// Whether the text simply ends too early.
        truncated: bool,
    },
    /// The JSON is something else.
    #[error("this is {0}, neither a request nor a list of messages")]
    NotMessages(&'static str),
}

impl Document {
    /// Reads a request object, a JSON list, or lines of messages; the dialect is found out unless it is given.
    pub fn decode(text: &str, dialect: Option<Dialect>) -> Result<Document, DocumentError> {
        Document::read(Raw::whole(text), dialect)
    }

    /// The same without a copy: the document shares the source.
    pub fn read(source: Raw, dialect: Option<Dialect>) -> Result<Document, DocumentError> {
        let own = source.clone();
        let text = own.as_str();
        let trimmed = text.trim_start_matches('\u{feff}').trim_start();
        match trimmed.as_bytes().first() {
            None => Err(DocumentError::Empty),
            Some(b'[') => Document::list(source, dialect),
            Some(b'{') => match serde_json::from_str::<RawFields<'_>>(trimmed) {
                Ok(fields) if list_of(&fields).is_some() => Ok(Document::request(source.clone(), &fields, dialect)),
                Ok(_) | Err(_) if is_lines(trimmed) => Document::lines(source, dialect),
                Ok(_) => Document::lines(source, dialect),
                Err(error) => Err(not_json(text, trimmed, &error)),
            },
            Some(_) => Err(DocumentError::NotMessages("not JSON")),
        }
    }

    fn list(source: Raw, dialect: Option<Dialect>) -> Result<Document, DocumentError> {
        let text = source.as_str().trim_start_matches('\u{feff}');
        let items: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|error| not_json(source.as_str(), text, &error))?;
        let slice = |item: &&RawValue| source.slice(offset_range(source.as_str(), item.get()));
        let items = items.iter().map(slice).collect();
        Ok(Document::bare(Layout::List, source, items, dialect))
    }

    /// Reads a request that goes on from another one: what both begin with, up to the last item of the other, is not read
    /// again. `None` when it does not, or when reading all of it is needed to tell.
    pub fn read_on(source: &Raw, before: &Document) -> Option<Document> {
        let shared = before.shared_with(source.as_str().as_bytes())?;
        let (newer, list_end) = rest_of_list(source.as_str(), shared)?;
        let moved = |raw: &Raw| source.slice(offset_range(before.source.as_str(), raw.as_str()));
        let newer = newer.into_iter().map(|range| source.slice(range));
        let items: Vec<Raw> = before.items.iter().map(moved).chain(newer).collect();
        let list_at = before
            .fields
            .iter()
            .position(|(_, value)| offset_range(before.source.as_str(), value.as_str()).contains(&(shared - 1)))?;
        let (key, list) = &before.fields[list_at];
        let list_start = offset_range(before.source.as_str(), list.as_str()).start;
        let mut fields: Vec<(Box<str>, Raw)> =
            before.fields[..list_at].iter().map(|(key, value)| (key.clone(), moved(value))).collect();
        fields.push((key.clone(), source.slice(list_start..list_end)));
        fields.extend(before.fields_behind(list_at, source, list_end)?);
        Some(Document::of_fields(source.clone(), fields, items, before.dialect))
    }

    /// The fields behind a list that ends here in a request that goes on from this one, where it is the field at this place.
    /// `None` when there is another list among them.
    fn fields_behind(&self, list_at: usize, source: &Raw, list_end: usize) -> Option<Vec<(Box<str>, Raw)>> {
        let (text, behind) = (self.source.as_str(), &source.as_str()[list_end..]);
        let own_end = offset_range(text, self.fields[list_at].1.as_str()).end;
        // In most requests it is what was there before.
        let fields: Vec<(Box<str>, Raw)> = if behind == &text[own_end..] {
            let moved = |raw: &Raw| {
                let range = offset_range(text, raw.as_str());
                source.slice(list_end + range.start - own_end..list_end + range.end - own_end)
            };
            self.fields[list_at + 1..].iter().map(|(key, value)| (key.clone(), moved(value))).collect()
        } else {
            let read = rest_of_object(source.as_str(), list_end)?;
            read.into_iter().map(|(key, range)| (key, source.slice(range))).collect()
        };
        let has_a_list = fields.iter().any(|(key, _)| LISTS.contains(&&**key));
        (!has_a_list).then_some(fields)
    }

    /// How many bytes this request has up to its last item, if a text begins with all of them.
    pub fn shared_with(&self, text: &[u8]) -> Option<usize> {
        // An object ends where it ends; a number might go on.
        let is_object = |item: &&Raw| item.as_str().starts_with('{');
        let last = self.items.last().filter(is_object).filter(|_| self.layout == Layout::Request)?;
        let end = offset_range(self.source.as_str(), last.as_str()).end;
        text.starts_with(&self.source.as_str().as_bytes()[..end]).then_some(end)
    }

    fn request(source: Raw, fields: &RawFields<'_>, dialect: Option<Dialect>) -> Document {
        let (key, list) = list_of(fields).expect("the caller looked");
        let items: Vec<Raw> = elements(list).into_iter().map(|item| source.piece(item)).collect();
        let fields: Vec<(Box<str>, Raw)> =
            fields.iter().map(|(key, value)| (key.into(), source.piece(value.get()))).collect();
        let found = || match key {
            "input" => Dialect::Responses,
            _ if last_of(&fields, "system").is_some() || tools_are_anthropic(last_of(&fields, "tools")) => {
                Dialect::Anthropic
            }
            _ => detect(&items),
        };
        let dialect = dialect.unwrap_or_else(found);
        Document::of_fields(source, fields, items, dialect)
    }

    /// A request of which the fields are known.
    fn of_fields(source: Raw, fields: Vec<(Box<str>, Raw)>, items: Vec<Raw>, dialect: Dialect) -> Document {
        let last = |key: &str| last_of(&fields, key);
        let (system, tools) = (last("system").or_else(|| last("instructions")).cloned(), last("tools").cloned());
        let model = last("model").and_then(|model| serde_json::from_str(model.as_str()).ok());
        let max_output = ["max_completion_tokens", "max_output_tokens", "max_tokens"]
            .iter()
            .find_map(|key| serde_json::from_str(last(key)?.as_str()).ok());
        Document { dialect, layout: Layout::Request, source, items, system, tools, model, max_output, fields }
    }

    fn lines(source: Raw, dialect: Option<Dialect>) -> Result<Document, DocumentError> {
        let text = source.as_str().trim_start_matches('\u{feff}');
        let mut items = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            serde_json::from_str::<&RawValue>(line).map_err(|error| not_json(source.as_str(), line, &error))?;
            items.push(source.piece(line));
        }
        Ok(Document::bare(Layout::Lines, source, items, dialect))
    }

    /// Messages with nothing around them.
    fn bare(layout: Layout, source: Raw, items: Vec<Raw>, dialect: Option<Dialect>) -> Document {
        let dialect = dialect.unwrap_or_else(|| detect(&items));
        Document {
            dialect,
            layout,
            source,
            items,
            system: None,
            tools: None,
            model: None,
            max_output: None,
            fields: Vec::new(),
        }
    }

    /// The dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// How the messages are laid out.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The cache marks on the tools and the system prompt, in the order in which a provider reads them.
    pub fn marks_before(&self) -> Vec<MarkLifetime> {
        let lists = [("tools", self.tools()), ("system", self.system())];
        let marks = |(name, list): (&str, Option<&Raw>)| {
            list.map_or_else(Vec::new, |list| cache_marks(&format!("{{\"{name}\":{}}}", list.as_str())))
        };
        lists.into_iter().flat_map(marks).collect()
    }

    /// The cache mark on the request itself: the provider puts it on the last block that can carry one.
    pub fn automatic_mark(&self) -> Option<MarkLifetime> {
        MarkLifetime::of(self.field("cache_control")?.as_str())
    }

    /// The raw JSON of each message.
    pub fn items(&self) -> &[Raw] {
        &self.items
    }

    /// The system prompt beside the messages: Anthropic's `system`, the Responses API's `instructions`.
    pub fn system(&self) -> Option<&Raw> {
        self.system.as_ref()
    }

    /// The tool schemas.
    pub fn tools(&self) -> Option<&Raw> {
        self.tools.as_ref()
    }

    /// The model the request names.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The output the request reserves.
    pub fn max_output(&self) -> Option<u64> {
        self.max_output
    }

    /// A field of the request, as JSON.
    pub fn field(&self, key: &str) -> Option<&Raw> {
        self.fields.iter().find(|(own, _)| **own == *key).map(|(_, value)| value)
    }

    /// The whole text.
    pub fn source(&self) -> &Raw {
        &self.source
    }

    /// Its messages, typed.
    pub fn messages(&self) -> Vec<NewMessage> {
        self.items.iter().map(|raw| decode_message(self.dialect, raw)).collect()
    }

    /// Returns the document with these messages instead of its own. With nothing changed it is the source, byte for byte. A
    /// changed request to a model that binds thinking to its prefix asks for blocks of another prefix to be dropped; it
    /// then needs [`BINDING_HEADER`](super::BINDING_HEADER).
    pub fn encode(&self, messages: &[PromptMessage]) -> String {
        if messages.iter().cloned().eq((0..self.items.len()).map(PromptMessage::Kept)) {
            return self.source.as_str().to_owned();
        }
        let separator = self.separator();
        let (before, after) = self.around();
        let mut out = String::with_capacity(self.source.len() / 2);
        out.push_str(before);
        for (at, message) in messages.iter().enumerate() {
            if at > 0 {
                out.push_str(separator);
            }
            out.push_str(&message.json(self.dialect, |place| self.items[place].as_str()));
        }
        out.push_str(after);
        match self.binds_thinking() {
            true => drop_mismatched_thinking(&out).unwrap_or(out),
            false => out,
        }
    }

    /// Whether the request is for a model that refuses thinking after an edit.
    pub fn binds_thinking(&self) -> bool {
        self.dialect == Dialect::Anthropic && self.model().is_some_and(binds_thinking)
    }

    /// The text before the first item and after the last.
    fn around(&self) -> (&str, &str) {
        let source = self.source.as_str();
        match (self.items.first(), self.items.last()) {
            (Some(first), Some(last)) => {
                let start = offset_range(source, first.as_str()).start;
                let end = offset_range(source, last.as_str()).end;
                (&source[..start], &source[end..])
            }
            _ => (source, ""),
        }
    }

    /// What stands between two items.
    fn separator(&self) -> &str {
        let source = self.source.as_str();
        match &self.items[..] {
            _ if self.layout == Layout::Lines => "\n",
            [first, second, ..] => {
                let end = offset_range(source, first.as_str()).end;
                &source[end..offset_range(source, second.as_str()).start]
            }
            _ => ",",
        }
    }
}

/// The last field of a name, as JSON readers see it, unless it is null.
fn last_of<'a>(fields: &'a [(Box<str>, Raw)], key: &str) -> Option<&'a Raw> {
    let last = fields.iter().rev().find(|(own, _)| **own == *key);
    last.map(|(_, value)| value).filter(|value| value.as_str() != "null")
}

fn list_of<'a>(fields: &RawFields<'a>) -> Option<(&'static str, &'a RawValue)> {
    LISTS.into_iter().find_map(|key| {
        let value = fields.get(key)?;
        value.get().starts_with('[').then_some((key, value))
    })
}

fn is_lines(text: &str) -> bool {
    text.lines().next().is_some_and(|line| serde_json::from_str::<&RawValue>(line.trim()).is_ok())
}

fn tools_are_anthropic(tools: Option<&Raw>) -> bool {
    let tools = tools.and_then(|tools| serde_json::from_str::<Vec<Map<String, Value>>>(tools.as_str()).ok());
    tools.is_some_and(|tools| tools.iter().any(|tool| tool.contains_key("input_schema")))
}

fn not_json(source: &str, part: &str, error: &serde_json::Error) -> DocumentError {
    let start = offset_range(source, part).start;
    let lines_before = source[..start].matches('\n').count();
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
    DocumentError::NotJson {
        line: lines_before + error.line().max(1),
        column: error.column(),
        reason,
        truncated: error.is_eof(),
    }
}

/// Finds out in which dialect messages are written, from what only one of them has.
fn detect(items: &[Raw]) -> Dialect {
    let read = |item: &Raw| serde_json::from_str::<Map<String, Value>>(item.as_str()).ok();
    items.iter().filter_map(read).find_map(|item| telling_dialect(&item)).unwrap_or(Dialect::Chat)
}

/// The dialect that a message can only be of.
fn telling_dialect(item: &Map<String, Value>) -> Option<Dialect> {
    let is_block = |of: &dyn Fn(&Map<String, Value>) -> bool| item.values().any(|value| has_object(value, of, 3));
    let has_type = |kinds: &[&str]| {
        is_block(&|block| block.get("type").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind)))
    };
    if has_type(&["tool-call", "tool-result"]) || is_block(&|block| block.contains_key("toolCallId")) {
        return Some(Dialect::AiSdk);
    }
    let has_image_object = || is_block(&|block| block.get("image_url").is_some_and(Value::is_object));
    if item.contains_key("tool_calls") || item.contains_key("tool_call_id") || has_image_object() {
        return Some(Dialect::Chat);
    }
    let kind = item.get("type").and_then(Value::as_str);
    let has_typed_text = has_type(&["input_text", "output_text"]);
    if kind.is_some_and(|kind| kind != "message" || has_typed_text) || has_type(&["input_text"]) {
        return Some(Dialect::Responses);
    }
    has_type(&["tool_use", "tool_result", "thinking"]).then_some(Dialect::Anthropic)
}

/// Whether a value is, or holds, such an object. What tools are given and give back is not looked into.
fn has_object(value: &Value, is_it: &dyn Fn(&Map<String, Value>) -> bool, depth: usize) -> bool {
    const PAYLOADS: [&str; 6] = ["input", "arguments", "args", "output", "result", "source"];
    match value {
        _ if depth == 0 => false,
        Value::Array(values) => values.iter().any(|value| has_object(value, is_it, depth)),
        Value::Object(object) => {
            let mut inner = object.iter().filter(|(name, _)| !PAYLOADS.contains(&name.as_str()));
            is_it(object) || inner.any(|(_, value)| has_object(value, is_it, depth - 1))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, Document, PromptMessage, Raw};

    #[test]
    fn a_request_that_goes_on_is_the_same_as_one_that_is_read_from_its_beginning() {
        let system = r#"{"role":"system","content":"s"}"#;
        let user = r#"{"role":"user","content":"a \"]}, b"}"#;
        let answer = r#"{"role":"assistant","content":"é","tool_calls":[{"id":"1"}]}"#;
        let before =
            format!(r#"{{"model":"m","tools":[1],"messages":[{system}, {user}],"stream":true,"max_tokens":9}}"#);
        let before = Document::decode(&before, Some(Dialect::Chat)).unwrap();
        let goes_on = |rest: &str| format!(r#"{{"model":"m","tools":[1],"messages":[{system}, {user}{rest}"#);
        for rest in [
            r#"],"stream":true,"max_tokens":9}"#.to_owned(),
            "]}".to_owned(),
            format!(r#" ,{answer} , {user} ] , "stream" : false,"tools":null, "model":"n" }} "#),
            format!(r#",{answer}],"x":{{"messages":[1]}},"system":"y"}}"#),
            format!(r#",{answer},{user}],"stream":true,"max_tokens":9}}"#),
        ] {
            let source = Raw::whole(goes_on(&rest));
            let on = Document::read_on(&source, &before).unwrap_or_else(|| panic!("{rest}"));
            let whole = Document::read(source, Some(Dialect::Chat)).unwrap();
            assert_eq!(format!("{on:?}"), format!("{whole:?}"), "{rest}");
            let again = Document::read_on(whole.source(), &on).unwrap();
            assert_eq!(format!("{again:?}"), format!("{whole:?}"), "{rest}");
        }
        for rest in ["", "]", "]}}", "],}", ",]}", ",nul]}", "1]}", r#"],"messages":[]}"#, r#"],"input":1}"#, "]} x"] {
            assert!(Document::read_on(&Raw::whole(goes_on(rest)), &before).is_none(), "{rest}");
        }
        let other = goes_on("]}").replace("a ", "b ");
        assert!(Document::read_on(&Raw::whole(other), &before).is_none());
        let empty = Document::decode(r#"{"messages":[]}"#, None).unwrap();
        assert!(Document::read_on(empty.source(), &empty).is_none());
    }

    #[test]
    fn a_changed_request_to_a_binding_model_asks_for_mismatched_thinking_to_be_dropped() {
        let request = |model: &str| {
            format!(
                r#"{{"model":"{model}","system":"s","thinking":{{"type":"adaptive"}},"messages":[{{"role":"user","content":"a"}},{{"role":"user","content":"b"}}]}}"#
            )
        };
        let asks = |model: &str, items: &[PromptMessage]| {
            Document::decode(&request(model), None).unwrap().encode(items).contains("drop_block")
        };
        assert!(asks("claude-opus-5-5", &[PromptMessage::Kept(1)]));
        assert!(!asks("claude-opus-5-5", &[PromptMessage::Kept(0), PromptMessage::Kept(1)]), "nothing changed");
        assert!(!asks("claude-opus-4-6", &[PromptMessage::Kept(1)]), "not bound");
    }
}
