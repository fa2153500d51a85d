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
use crate::wire::{Dialect, Document, Item, Layout, decode_message};

/// A list, with what stands around it.
#[derive(Clone, Debug)]
pub(super) struct List {
    document: Document,
    frame: Option<Frame>,
    /// The lines that are not JSON.
    broken: Vec<Raw>,
}

/// The request around a list of messages.
#[derive(Clone, Debug)]
struct Frame {
    before: Raw,
    list: Raw,
    after: Raw,
    max_output: Option<u64>,
}

impl List {
    pub(super) fn read(
        source: &Raw,
        dialect: Option<Dialect>,
        skip_bad_lines: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<(List, Reading), SessionError> {
        if let Some(request) = request(source) {
            return List::read_request(source, &request, dialect);
        }
        if !is_lines(source.as_str()) {
            return List::assemble(source, Document::decode(source.as_str(), dialect)?, None);
        }
        let lines = lines::split(source, skip_bad_lines, notices)?;
        let (good, broken): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|line| !line.broken);
        let document = match broken.is_empty() {
            true => Document::decode(source.as_str(), dialect)?,
            false => Document::decode(&joined(&good), dialect)?,
        };
        let mut reading = Reading::default();
        good.iter().for_each(|line| add(line, document.dialect(), &mut reading));
        broken.iter().for_each(|line| reading.note(line, ""));
        let broken = broken.into_iter().map(|line| line.raw).collect();
        Ok((List { document, frame: None, broken }, reading))
    }

    fn read_request(source: &Raw, request: &Fields<'_>, dialect: Option<Dialect>) -> Result<(List, Reading), SessionError> {
        let list = list_in(request).unwrap_or_default();
        let dialect = dialect.or_else(|| request_dialect(request));
        let document = Document::decode(list, dialect)?;
        let range = offset_range(source.as_str(), list);
        let limits = ["max_completion_tokens", "max_output_tokens", "max_tokens"];
        let frame = Frame {
            before: source.slice(0..range.start),
            after: source.slice(range.end..source.len()),
            list: source.slice(range),
            max_output: limits.iter().find_map(|key| request.number(key)),
        };
        let (list, mut reading) = List::assemble(source, document, Some(frame))?;
        reading.facts.system = ["system", "instructions"].iter().find_map(|key| request.piece(key, source));
        reading.facts.tools = request.piece("tools", source);
        reading.facts.model = request.text("model");
        Ok((list, reading))
    }

    fn assemble(source: &Raw, document: Document, frame: Option<Frame>) -> Result<(List, Reading), SessionError> {
        let mut reading = Reading::default();
        let list = frame.as_ref().map_or(source, |frame| &frame.list);
        message_lines(source, list).iter().for_each(|line| add(line, document.dialect(), &mut reading));
        Ok((List { document, frame, broken: Vec::new() }, reading))
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.document.dialect()
    }

    /// How the messages are laid out.
    pub(super) fn layout(&self) -> Layout {
        self.frame.as_ref().map_or(self.document.layout(), |_| Layout::Request)
    }

    /// The output that a request reserves.
    pub(super) fn max_output(&self) -> Option<u64> {
        self.frame.as_ref().and_then(|frame| frame.max_output)
    }

    /// The text with these items in the place of its own. Lines that are not JSON come last.
    pub(super) fn encode(&self, items: &[Item]) -> String {
        let list = self.document.encode(items);
        let broken: Vec<&str> = self.broken.iter().map(Raw::as_str).collect();
        match &self.frame {
            Some(frame) => format!("{}{list}{}", frame.before.as_str(), frame.after.as_str()),
            None => list + &broken.join("\n"),
        }
    }
}

fn add(line: &Line, dialect: Dialect, reading: &mut Reading) {
    reading.message(line, decode_message(dialect, &line.raw), None);
}

/// The fields of a text that is one request.
fn request(source: &Raw) -> Option<Fields<'_>> {
    let text = source.as_str().trim_start_matches('\u{feff}').trim_start();
    Some(text).filter(|text| text.starts_with('{')).and_then(Fields::parse).filter(|fields| list_in(fields).is_some())
}

/// The messages of a request.
fn list_in<'a>(request: &Fields<'a>) -> Option<&'a str> {
    ["messages", "input"].iter().find_map(|key| request.raw(key).filter(|value| value.starts_with('[')))
}

/// What a request's other fields tell of its dialect.
fn request_dialect(request: &Fields<'_>) -> Option<Dialect> {
    let anthropic_tools = request.raw("tools").is_some_and(|tools| tools.contains("\"input_schema\""));
    if request.raw("messages").is_none_or(|messages| !messages.starts_with('[')) {
        Some(Dialect::Responses)
    } else if request.raw("system").is_some() || anthropic_tools {
        Some(Dialect::Anthropic)
    } else {
        None
    }
}

/// Whether a text is one message a line, and not one JSON value that breaks off.
fn is_lines(text: &str) -> bool {
    lines::text_lines(text).next().is_some_and(|(_, line)| Fields::parse(line).is_some())
}

fn joined(lines: &[Line]) -> String {
    lines.iter().flat_map(|line| [line.raw.as_str(), "\n"]).collect()
}

/// Each message of a JSON list with the line it begins on.
fn message_lines(source: &Raw, list: &Raw) -> Vec<Line> {
    let json = list.as_str().trim_start_matches('\u{feff}');
    let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
    let text = source.as_str();
    let (mut number, mut counted) = (1, 0);
    let mut lines = Vec::with_capacity(items.len());
    for item in items {
        let start = offset_range(text, item.get()).start;
        number += text[counted..start].matches('\n').count();
        counted = start;
        lines.push(Line { number, raw: source.piece(item.get()), broken: false });
    }
    lines
}
