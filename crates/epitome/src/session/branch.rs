//! Branching: a new session that is the old one up to and including a message the user wrote.
//!
//! Everything before that message is copied byte for byte, with the compactions in it; a compaction after it is not,
//! and so is undone. Only the header is new where the format's loader tells sessions apart by it: pi's `session` and
//! Codex's `session_meta` get a new id. Claude Code tells sessions apart by the name of the file, and its lines stay.

use super::error::SessionError;
use super::fields::{Fields, quoted, with_fields};
use super::ids::Ids;
use super::{Body, Format, LogMessage, Session};
use crate::message::offset_range;
use crate::wire::PromptMessage;

impl Session {
    /// The session up to and including the message at this place of the log, as a new text.
    pub fn branch(&self, at: usize, stamp: &str) -> Result<String, SessionError> {
        let count = self.log.len();
        let logged = self.log.get(at).ok_or(SessionError::NoSuchMessage { index: at, count })?;
        check(logged)?;
        if let Body::List(list) = &self.body {
            let items: Vec<PromptMessage> = (0..=at).map(PromptMessage::Kept).collect();
            return Ok(list.encode(&items));
        }
        let source = self.source.as_str();
        let end = offset_range(source, self.entries[logged.entry].raw.as_str()).end;
        Ok(format!("{}\n", self.with_new_header(&source[..end], stamp)))
    }

    /// The text with a new id in the header, where there is one.
    fn with_new_header(&self, text: &str, stamp: &str) -> String {
        let Some(header) = self.entries.iter().find(|entry| is_header(self.format, entry.raw.as_str())) else {
            return text.to_owned();
        };
        let range = offset_range(self.source.as_str(), header.raw.as_str());
        if range.end > text.len() {
            return text.to_owned();
        }
        let id = Ids::new(&[text, stamp]).uuid();
        let new = match self.format {
            Format::Codex => codex_header(header.raw.as_str(), &id, stamp),
            _ => with_fields(header.raw.as_str(), &[("id", Some(quoted(&id))), ("timestamp", Some(quoted(stamp)))]),
        };
        format!("{}{new}{}", &text[..range.start], &text[range.end..])
    }
}

fn is_header(format: Format, line: &str) -> bool {
    let kind = match format {
        Format::PiEvents | Format::PiTree => "session",
        Format::Codex => "session_meta",
        Format::ClaudeCode | Format::List(_) => return false,
    };
    Fields::parse(line).and_then(|fields| fields.text("type")).as_deref() == Some(kind)
}

fn codex_header(line: &str, id: &str, stamp: &str) -> String {
    let Some(payload) = Fields::parse(line).and_then(|fields| fields.raw("payload")) else { return line.to_owned() };
    let old = Fields::parse(payload).and_then(|fields| fields.text("id"));
    let mut changes = vec![("id", Some(quoted(id))), ("timestamp", Some(quoted(stamp)))];
    if Fields::parse(payload).is_some_and(|fields| fields.has("session_id")) {
        changes.push(("session_id", Some(quoted(id))));
    }
    changes.push(("forked_from_id", old.as_deref().map(quoted)));
    with_fields(line, &[("payload", Some(with_fields(payload, &changes)))])
}

fn check(logged: &LogMessage) -> Result<(), SessionError> {
    let why = if !logged.message.opens_turn() {
        "it is not a user message"
    } else if logged.sidechain {
        "it belongs to a sub-agent"
    } else {
        return Ok(());
    };
    Err(SessionError::NotABranchPoint(logged.line, why))
}
