//! Plain messages: a request, a JSON list, or one message a line.
//!
//! A list knows no compaction: what it holds is what the model sees, and a compacted list is a new text.

use serde_json::value::RawValue;

use super::error::SessionError;
use super::fields::Fields;
use super::lines::{self, Line};
use super::notice::Notice;
use super::reading::Reading;
use crate::thread::{Raw, offset_range};
use crate::wire::{Dialect, Document, Layout, decode_message};

/// A list, with the lines of it that are not JSON.
#[derive(Clone, Debug)]
pub(super) struct List {
    document: Document,
    broken: Vec<Raw>,
}

impl List {
    pub(super) fn read(
        source: &Raw,
        dialect: Option<Dialect>,
        skip_bad_lines: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<(List, Reading), SessionError> {
        let lines = match is_lines(source.as_str()) {
            true => lines::split(source, skip_bad_lines, notices)?,
            false => Vec::new(),
        };
        let (good, bad): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|line| !line.broken);
        let document = match bad.is_empty() {
            true => Document::decode(source.as_str(), dialect)?,
            false => Document::decode(&joined(&good), dialect)?,
        };
        let mut reading = Reading::default();
        for line in message_lines(source, document.layout(), good) {
            reading.message(&line, decode_message(document.dialect(), &line.raw), None);
        }
        for line in &bad {
            reading.note(line, "");
        }
        reading.facts.system = document.system().cloned();
        reading.facts.tools = document.tools().cloned();
        reading.facts.model = document.model().map(str::to_owned);
        Ok((List { document, broken: bad.into_iter().map(|line| line.raw).collect() }, reading))
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.document.dialect()
    }

    pub(super) fn document(&self) -> &Document {
        &self.document
    }

    /// The lines that are not JSON.
    pub(super) fn broken(&self) -> &[Raw] {
        &self.broken
    }
}

/// Whether a text is one message a line, and not one JSON value.
fn is_lines(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !text.starts_with('{') {
        return false;
    }
    match serde_json::Deserializer::from_str(text).into_iter::<&RawValue>().next() {
        Some(Ok(first)) => !is_request(first.get()),
        _ => lines::text_lines(text).next().is_some_and(|(_, line)| Fields::parse(line).is_some()),
    }
}

fn is_request(object: &str) -> bool {
    Fields::parse(object).is_some_and(|fields| list_in(&fields).is_some())
}

fn joined(lines: &[Line]) -> String {
    lines.iter().flat_map(|line| [line.raw.as_str(), "\n"]).collect()
}

/// Each message with its line: as it was cut, or counted.
fn message_lines(source: &Raw, layout: Layout, good: Vec<Line>) -> Vec<Line> {
    let text = source.as_str();
    let json = text.trim_start_matches('\u{feff}');
    let list = match layout {
        Layout::Lines => return good,
        Layout::List => Some(json),
        Layout::Request => Fields::parse(json).and_then(|fields| list_in(&fields)),
    };
    let items: Vec<&RawValue> = list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    let (mut number, mut counted) = (1, 0);
    let mut line_of = |item: &&RawValue| {
        let start = offset_range(text, item.get()).start;
        number += text[counted..start].matches('\n').count();
        counted = start;
        Line { number, raw: source.piece(item.get()), broken: false }
    };
    items.iter().map(&mut line_of).collect()
}

fn list_in<'a>(fields: &Fields<'a>) -> Option<&'a str> {
    ["messages", "input"].iter().find_map(|key| fields.raw(key).filter(|value| value.starts_with('[')))
}
