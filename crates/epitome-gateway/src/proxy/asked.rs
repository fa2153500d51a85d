//! What is asked: a request as the gateway understands it. What it does not understand is passed through.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use epitome::thread::Raw;
use epitome::wire::{Dialect, Document, Layout, PromptMessage, has_letter_escapes, may_spell, set_field};
use memchr::memmem::Finder;
use serde::Deserialize;

use crate::identity::{Named, RequestFrame};

/// What agents write when they ask the model to summarize the conversation for themselves.
const OWN_COMPACTION: [&str; 2] = [
    "Your task is to create a detailed summary of the conversation so far",
    "You are performing a CONTEXT CHECKPOINT COMPACTION",
];
/// What an item is that asks the provider for the same.
const COMPACTION_TRIGGER: &str = "compaction_trigger";

/// What the items have in them that stand for a history that was compacted elsewhere.
const COMPACTION: &str = "compaction";
/// What a request says of a context that the provider looks after.
const NATIVE_WORDS: [&str; 3] = ["compact", "summarize", "clear_tool_uses"];

/// The types of blocks, and the fields of them, that stand for media: it weighs more than its bytes say.
static MEDIA: LazyLock<Vec<Finder<'static>>> = LazyLock::new(|| {
    let types = ["\"image\"", "\"image_url\"", "\"input_image\"", "\"document\"", "\"file\"", "\"input_file\""];
    let more = ["\"input_audio\"", "\"video_url\"", "\"file_id\"", "\"file_url\"", "\"audio\""];
    types.into_iter().chain(more).map(Finder::new).collect()
});

/// A request to a model.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The request with its whole history in it.
    pub document: Document,
    /// How many of its items stand before the thread: the operator's words, and what a provider compacted.
    pub head: usize,
    /// Whether the history was completed here: what the client sent has only the newest part of it.
    pub is_completed: bool,
    /// Whether what the client sent has something in it that only we understand.
    pub is_restored: bool,
    frame: OnceLock<RequestFrame>,
}

/// The first fields of an item.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

impl Asked {
    /// Reads a body; `None` when it is no request of this dialect.
    pub fn read(dialect: Dialect, body: &[u8]) -> Option<Asked> {
        let text = std::str::from_utf8(body).ok()?;
        let document = Document::read(Raw::whole(text), Some(dialect)).ok();
        let document = document.filter(|document| document.layout() == Layout::Request);
        let document = document.or_else(|| with_listed_input(dialect, text))?;
        Some(match with_summaries(&document) {
            Some(restored) => Asked { is_restored: true, ..Asked::of(restored, false) },
            None => Asked::of(document, false),
        })
    }

    /// The call with these items before its own, in the place of a history that the provider keeps.
    pub fn completed(&self, before: &[String]) -> Option<Asked> {
        let own = self.document.items().iter().map(Raw::as_str);
        let items: Vec<&str> = before.iter().map(String::as_str).chain(own).collect();
        let text = set_field(self.document.source().as_str(), "input", &format!("[{}]", items.join(",")));
        let document = Document::decode(&text, Some(self.document.dialect())).ok()?;
        Some(Asked::of(document, true))
    }

    fn of(document: Document, is_completed: bool) -> Asked {
        let head = head(&document);
        Asked { document, head, is_completed, is_restored: false, frame: OnceLock::new() }
    }

    pub fn dialect(&self) -> Dialect {
        self.document.dialect()
    }

    /// The thread's messages, as they are written now.
    pub fn messages(&self) -> &[Raw] {
        &self.document.items()[self.head..]
    }

    /// The model; empty where none is named.
    pub fn model(&self) -> &str {
        self.document.model().unwrap_or_default()
    }

    /// The answer that the provider goes on from by itself.
    pub fn previous(&self) -> Option<String> {
        serde_json::from_str(self.document.field("previous_response_id")?.as_str()).ok()
    }

    /// Whether the provider holds history that nobody else sees.
    pub fn is_hidden(&self) -> bool {
        let has = |key: &str| self.document.field(key).is_some_and(|value| value.as_str() != "null");
        !self.is_completed && (has("conversation") || has("previous_response_id"))
    }

    /// Whether the provider is asked to look after the context by itself.
    pub fn is_native(&self) -> bool {
        ["context_management", "compaction"].iter().any(|key| {
            let value = self.document.field(key).map_or("", |value| value.as_str());
            has_text(value, &|text| NATIVE_WORDS.iter().any(|word| text.contains(word)))
        })
    }

    /// Whether the client is about to compact its history by itself.
    pub fn is_own_compaction(&self) -> bool {
        let Some(newest) = self.document.items().last() else { return false };
        let newest = newest.as_str();
        // Words without quotes or escapes stand in JSON as they are, but for letters that are spelled by their numbers.
        let may_ask = has_letter_escapes(newest.as_bytes())
            || OWN_COMPACTION.iter().any(|words| newest.contains(words))
            || newest.contains(COMPACTION_TRIGGER);
        let asks = |text: &str| text == COMPACTION_TRIGGER || OWN_COMPACTION.iter().any(|words| text.contains(words));
        may_ask && has_text(newest, &asks)
    }

    /// Whether there may be media among its messages from this one on: an address or an id weighs more than its bytes say.
    pub fn has_media_from(&self, place: usize) -> bool {
        self.messages()[place..].iter().any(|message| may_hold_media(message.as_str().as_bytes()))
    }

    /// What names its conversation.
    pub fn named(&self) -> Named<'_> {
        let field = |key: &str| self.document.field(key).map(epitome::thread::Raw::as_str);
        Named {
            prompt_cache_key: field("prompt_cache_key"),
            session_id: field("session_id"),
            metadata: field("metadata"),
            user: field("user"),
            safety_identifier: field("safety_identifier"),
        }
    }

    /// The field that limits the answer, as this request spells it.
    pub fn output_field(&self) -> &'static str {
        let spelled = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
        let own =
            spelled.into_iter().find(|key| self.document.field(key).is_some_and(|value| value.as_str() != "null"));
        own.unwrap_or(match self.dialect() {
            Dialect::Responses => "max_output_tokens",
            Dialect::Anthropic => "max_tokens",
            _ => "max_completion_tokens",
        })
    }

    /// What stands beside the messages, as fingerprints.
    pub fn frame(&self) -> RequestFrame {
        *self.frame.get_or_init(|| self.new_frame())
    }

    fn new_frame(&self) -> RequestFrame {
        let mut system = blake3::Hasher::new();
        let leading = self.document.items()[..self.head].iter();
        for text in self.document.system().into_iter().chain(leading) {
            system.update(text.as_str().as_bytes());
        }
        let tools = self.document.tools().map_or("", |tools| tools.as_str());
        RequestFrame { system: system.finalize(), tools: blake3::hash(tools.as_bytes()) }
    }

    /// What stands in every request beside the messages: the operator's words, as JSON.
    pub fn system(&self) -> Option<String> {
        let beside = self.document.system().map(epitome::thread::Raw::as_str);
        let leading = self.document.items()[..self.head].iter().map(epitome::thread::Raw::as_str);
        let all: Vec<&str> = beside.into_iter().chain(leading).collect();
        match all.as_slice() {
            [] => None,
            [one] => Some((*one).to_owned()),
            many => Some(format!("[{}]", many.join(","))),
        }
    }
}

/// Whether a text may have media in it. Words are looked for as bytes only to rule them out, and that holds however a client
/// spells its JSON.
fn may_hold_media(text: &[u8]) -> bool {
    MEDIA.iter().any(|words| words.find(text).is_some()) || has_letter_escapes(text)
}

/// The model that a request of any kind names.
pub fn model(body: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        model: Option<Cow<'a, str>>,
    }
    serde_json::from_slice::<Named<'_>>(body).ok()?.model
}

/// A Responses request whose input is a text, or is missing, with a list in its place.
fn with_listed_input(dialect: Dialect, text: &str) -> Option<Document> {
    #[derive(Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        input: Option<&'a serde_json::value::RawValue>,
        model: Option<serde::de::IgnoredAny>,
    }
    let found: Input<'_> = (dialect == Dialect::Responses).then(|| serde_json::from_str(text).ok()).flatten()?;
    let list = match found.input.map(serde_json::value::RawValue::get) {
        Some(words) if words.starts_with('"') => {
            format!(r#"[{{"type":"message","role":"user","content":{words}}}]"#)
        }
        None if found.model.is_some() => "[]".to_owned(),
        _ => return None,
    };
    Document::decode(&set_field(text, "input", &list), Some(dialect)).ok()
}

/// A request with the words of our own compaction items in their place, where it has any.
fn with_summaries(document: &Document) -> Option<Document> {
    let is_ours = |item: &Raw| super::compact::restored(item);
    if document.dialect() != Dialect::Responses || !document.items().iter().any(|item| is_ours(item).is_some()) {
        return None;
    }
    let messages = document.items().iter().enumerate().map(|(place, item)| match is_ours(item) {
        Some(json) => PromptMessage::Edited { place, json },
        None => PromptMessage::Kept(place),
    });
    Document::decode(&document.encode(&messages.collect::<Vec<_>>()), Some(document.dialect())).ok()
}

/// How many items stand before the thread.
fn head(document: &Document) -> usize {
    let items = document.items();
    let has_any = may_spell(document.source().as_str(), COMPACTION);
    let compacted = items.iter().rposition(|item| has_any && is_compacted(document.dialect(), item));
    let from = compacted.map_or(0, |at| at + 1);
    if document.dialect() == Dialect::Anthropic {
        return from;
    }
    let speaks_for_the_operator = |item: &&Raw| {
        let peek = serde_json::from_str::<Peek<'_>>(item.as_str()).ok();
        let of_messages = |peek: &Peek<'_>| peek.kind.as_deref().is_none_or(|kind| kind == "message");
        peek.filter(of_messages).is_some_and(|peek| matches!(peek.role.as_deref(), Some("system" | "developer")))
    };
    from + items[from..].iter().take_while(speaks_for_the_operator).count()
}

/// Whether a JSON text has such a string in it, as a name or as a value.
fn has_text(json: &str, is_it: &dyn Fn(&str) -> bool) -> bool {
    fn has(value: &serde_json::Value, is_it: &dyn Fn(&str) -> bool) -> bool {
        match value {
            serde_json::Value::String(text) => is_it(text),
            serde_json::Value::Array(values) => values.iter().any(|value| has(value, is_it)),
            serde_json::Value::Object(fields) => fields.iter().any(|(name, value)| is_it(name) || has(value, is_it)),
            _ => false,
        }
    }
    serde_json::from_str(json).is_ok_and(|value| has(&value, is_it))
}

/// Whether an item stands for what a provider compacted.
fn is_compacted(dialect: Dialect, item: &Raw) -> bool {
    if !may_spell(item.as_str(), COMPACTION) {
        return false;
    }
    let value: serde_json::Value = serde_json::from_str(item.as_str()).unwrap_or_default();
    let is = |value: &serde_json::Value| value.get("type").and_then(|kind| kind.as_str()) == Some(COMPACTION);
    match dialect {
        Dialect::Anthropic => {
            value.get("content").and_then(|content| content.as_array()).is_some_and(|blocks| blocks.iter().any(is))
        }
        _ => is(&value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(dialect: Dialect, body: &str) -> Asked {
        Asked::read(dialect, body.as_bytes()).unwrap_or_else(|| panic!("{body}"))
    }

    #[test]
    fn the_operators_words_and_what_a_provider_compacted_stand_before_the_thread() {
        let chat = |messages: &str| call(Dialect::Chat, &format!(r#"{{"model":"m","messages":[{messages}]}}"#));
        let (system, user) = (r#"{"role":"system","content":"s"}"#, r#"{"role":"user","content":"u"}"#);
        assert_eq!(chat(&format!("{system},{user},{system}")).head, 1);
        assert_eq!(chat(user).head, 0);
        let responses = call(
            Dialect::Responses,
            r#"{"input":[{"role":"user","content":"a"},{"type":"compaction","encrypted_content":"x"},{"role":"developer","content":"d"},{"role":"user","content":"b"}]}"#,
        );
        assert_eq!(responses.head, 3);
        let claude = call(
            Dialect::Anthropic,
            r#"{"messages":[{"role":"assistant","content":[{"type":"compaction","content":"x"}]},{"role":"user","content":"the \"compaction\" of it"}]}"#,
        );
        assert_eq!(claude.head, 1);
    }

    #[test]
    fn media_is_seen_however_it_is_spelled() {
        for media in ["image_url", "file_id", "document", "input_audio", "video_url", r"input\u005fimage"] {
            assert!(may_hold_media(format!(r#"[{{"type":"{media}"}}]"#).as_bytes()), "{media}");
        }
        assert!(!may_hold_media(br#"{"content":"Read the file, and its documentation, and profile it."}"#));
    }

    #[test]
    fn a_text_as_input_is_a_message() {
        let body = r#"{"model":"m","input":"hi"}"#;
        assert_eq!(call(Dialect::Responses, body).messages().len(), 1);
        assert!(call(Dialect::Responses, r#"{"model":"m","previous_response_id":"r"}"#).is_hidden());
        assert!(Asked::read(Dialect::Chat, b"{\"model\":\"m\"}").is_none());
    }

    #[test]
    fn a_summary_of_ours_is_restored() {
        let user = r#"{"role":"user","content":"a"}"#;
        let ours = format!(r#"{{"type":"compaction","encrypted_content":"{}so far"}}"#, "epitome.summary.1:");
        let asked = call(Dialect::Responses, &format!(r#"{{"model":"m","input":[{user},{ours}]}}"#));
        assert!(asked.is_restored && !asked.document.source().as_str().contains("encrypted_content"));
    }

    #[test]
    fn a_history_that_the_provider_keeps_is_completed() {
        let own = call(Dialect::Responses, r#"{"model":"m","previous_response_id":"r","input":"more"}"#);
        let all = own.completed(&[r#"{"role":"user","content":"a"}"#.to_owned()]).unwrap();
        assert_eq!(all.messages().len(), 2);
        assert!(!all.is_hidden() && own.is_hidden());
    }
}
