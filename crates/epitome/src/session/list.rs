//! Plain messages: a request, a JSON list, or one message a line.
//!
//! A list knows no compaction: what it holds is what the model sees, and a compacted list is a new text.

use super::error::SessionError;
use super::fields::Fields;
use super::lines::{self, Line};
use super::notice::Notice;
use super::reading::Reading;
use crate::message::{Part, Raw, Role, offset_range};
use crate::summary::is_rendered;
use crate::wire::{Dialect, Document, PromptMessage, decode_message};

/// A list as a document.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) document: Document,
    /// The lines that are not JSON.
    broken: Vec<Raw>,
}

impl List {
    pub(super) fn read(
        source: &Raw,
        dialect: Option<Dialect>,
        skip_bad_lines: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<(List, Reading), SessionError> {
        if is_request(source) || !is_lines(source.as_str()) {
            let document = Document::read(source.clone(), dialect)?;
            return Ok(List::whole(source, document));
        }
        let lines = lines::split(source, skip_bad_lines, notices)?;
        let (good, broken): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|line| !line.broken);
        let document = match broken.is_empty() {
            true => Document::read(source.clone(), dialect)?,
            false => {
                let joined: String = good.iter().flat_map(|line| [line.raw.as_str(), "\n"]).collect();
                Document::decode(&joined, dialect)?
            }
        };
        let mut reading = Reading::default();
        add(&good, document.dialect(), &mut reading);
        broken.iter().for_each(|line| reading.note(line, ""));
        let broken = broken.into_iter().map(|line| line.raw).collect();
        Ok((List { document, broken }, reading))
    }

    /// One JSON value that holds all messages.
    fn whole(source: &Raw, document: Document) -> (List, Reading) {
        let mut reading = Reading::default();
        add(&message_lines(source, document.items()), document.dialect(), &mut reading);
        reading.facts.system = document.system().cloned();
        reading.facts.tools = document.tools().cloned();
        reading.facts.model = document.model().map(Into::into);
        (List { document, broken: Vec::new() }, reading)
    }

    /// Returns the text with these messages instead of its own. Lines that are not JSON come last.
    pub(super) fn encode(&self, messages: &[PromptMessage]) -> String {
        let broken: Vec<&str> = self.broken.iter().map(Raw::as_str).collect();
        self.document.encode(messages) + &broken.join("\n")
    }
}

/// No longer text asks for a summary.
const QUESTION_BYTES_MAX: usize = 400;

/// Adds the messages. A summary that was rendered here is known by its words: a list has no other place to say so.
fn add(lines: &[Line], dialect: Dialect, reading: &mut Reading) {
    let mut before = String::new();
    for line in lines {
        let mut message = decode_message(dialect, &line.raw);
        let text = message.parts.iter().find_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        });
        let text = text.unwrap_or_default();
        let is_summary = message.role != Role::Tool && is_rendered(text, &before);
        before.clear();
        before.push_str(Some(text).filter(|text| text.len() <= QUESTION_BYTES_MAX).unwrap_or_default());
        message.summary = is_summary;
        reading.message(line, message, None);
    }
}

/// Whether a text is one request with its messages inside.
fn is_request(source: &Raw) -> bool {
    let text = source.as_str().trim_start_matches('\u{feff}').trim_start();
    let fields = Some(text).filter(|text| text.starts_with('{')).and_then(Fields::parse);
    let is_list = |value: &str| value.starts_with('[');
    fields.is_some_and(|fields| ["messages", "input"].iter().any(|key| fields.raw(key).is_some_and(is_list)))
}

/// Whether a text is one message a line, and not one JSON value that breaks off.
fn is_lines(text: &str) -> bool {
    lines::text_lines(text).next().is_some_and(|(_, line)| Fields::parse(line).is_some())
}

/// Each message with the line it begins on.
fn message_lines(source: &Raw, items: &[Raw]) -> Vec<Line> {
    let text = source.as_str();
    let (mut number, mut counted) = (1, 0);
    let mut lines = Vec::with_capacity(items.len());
    for item in items {
        let start = offset_range(text, item.as_str()).start;
        number += text[counted..start].matches('\n').count();
        counted = start;
        lines.push(Line { number, raw: item.clone(), broken: false });
    }
    lines
}
