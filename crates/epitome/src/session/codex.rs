//! Codex's rollouts: a typed payload a line, whose `response_item` lines are the conversation.
//!
//! A `compacted` line replaces the history before it. Roll-backs are followed; what Codex adds to a prompt anew each
//! time is shown only where the file has it.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Value, json};

use super::fields::{Fields, quoted, with_fields};
use super::format::CODEX_PREFIX;
use super::ids::Ids;
use super::lines::Line;
use super::reading::{Reading, Visible, text_of};
use super::{CompactedContext, Format, LogMessage, Session};
use crate::message::{NewMessage, Part, Raw, Role, is_codex_context};
use crate::wire::{Dialect, Voice, decode_message, say};

/// How many bytes of user messages a compaction without a history of its own keeps (20 000 tokens of four bytes).
const USER_BYTES_MAX: usize = 80_000;

/// What Codex's loader goes by.
#[derive(Clone, Debug)]
pub(super) struct Codex {
    nodes: Vec<Node>,
    /// The last report of the provider's usage.
    pub(super) reported: Option<Report>,
    /// What the last `token_count` told.
    info: Option<Raw>,
    /// The window that Codex reckoned with last.
    pub(super) window: Option<u64>,
    ordinal: Option<u64>,
    windows: Windows,
}

/// A report of usage: where it stands, and what went in and out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) entry: usize,
    pub(super) input: u64,
    pub(super) output: u64,
}

#[derive(Clone, Debug)]
enum Node {
    Item { log: usize, opens_turn: bool },
    CompactedContext { message: String, history: Option<Vec<Raw>> },
    RolledBack(usize),
    TurnStarted,
    Note,
}

impl Codex {
    fn empty() -> Codex {
        Codex {
            nodes: Vec::new(),
            reported: None,
            info: None,
            window: None,
            ordinal: None,
            windows: Windows::default(),
        }
    }

    pub(super) fn read(lines: &[Line]) -> (Reading, Codex) {
        let mut reading = Reading::default();
        let mut codex = Codex::empty();
        for line in lines {
            let node = match Fields::parse(line.raw.as_str()) {
                Some(fields) => codex.read_node(line, &fields, &mut reading),
                None => {
                    reading.value(line);
                    Node::Note
                }
            };
            codex.nodes.push(node);
        }
        (reading, codex)
    }

    fn read_node(&mut self, line: &Line, fields: &Fields<'_>, reading: &mut Reading) -> Node {
        let kind = fields.text("type").unwrap_or_default();
        self.ordinal = fields.number("ordinal").or(self.ordinal);
        let (Some(raw), Some(payload)) = (fields.piece("payload", &line.raw), fields.inner("payload")) else {
            match kind.as_str() {
                "response_item" | "compacted" => reading.lacks(line, &kind, "payload"),
                _ => reading.judge(Format::Codex, line, &kind),
            }
            reading.note(line, &kind);
            return Node::Note;
        };
        match kind.as_str() {
            "response_item" => read_item(line, &raw, &payload, reading),
            "compacted" => {
                let text = |key: &str| payload.text(key);
                self.windows.seen(payload.number("window_number"), text("first_window_id"), text("window_id"));
                read_compacted(line, &raw, &payload, reading)
            }
            _ => {
                reading.judge(Format::Codex, line, &kind);
                let event = payload.text("type").unwrap_or_default();
                let named = if kind == "event_msg" && !event.is_empty() { &event } else { &kind };
                let node = self.read_note(named, &raw, &payload, reading);
                reading.note(line, named);
                node
            }
        }
    }

    fn read_note(&mut self, kind: &str, raw: &Raw, payload: &Fields<'_>, reading: &mut Reading) -> Node {
        match kind {
            "session_meta" => {
                read_meta(raw, payload, reading);
                let window = payload.inner("context_window").and_then(|window| window.text("window_id"));
                self.windows.seen(Some(0), window.clone(), window);
            }
            "turn_context" => reading.facts.model = payload.text("model").or(reading.facts.model.take()),
            "token_count" => {
                self.reported = read_report(payload, reading.entries.len()).or(self.reported);
                self.info = payload.piece("info", raw).or(self.info.take());
                self.see_window(payload.inner("info").and_then(|info| info.number("model_context_window")));
            }
            "task_started" | "turn_started" => {
                self.see_window(payload.number("model_context_window"));
                return Node::TurnStarted;
            }
            "thread_rolled_back" => {
                let turns = payload.number("num_turns").and_then(|turns| usize::try_from(turns).ok());
                return Node::RolledBack(turns.unwrap_or(0));
            }
            _ => {}
        }
        Node::Note
    }

    fn see_window(&mut self, window: Option<u64>) {
        self.window = window.filter(|window| *window > 0).or(self.window);
    }

    /// What the model saw when only the first `upto` entries were there.
    pub(super) fn visible(&self, upto: usize, log: &[LogMessage]) -> Vec<Visible> {
        let mut history: Vec<Visible> = Vec::new();
        for at in self.base(upto).unwrap_or(0)..upto {
            match &self.nodes[at] {
                Node::Item { log, .. } => history.push(Visible::Logged(*log)),
                Node::CompactedContext { message, history: Some(items) } => history = replaced(at, message, items, log),
                Node::CompactedContext { message, history: None } => history = rebuilt(at, message, &history, log),
                Node::RolledBack(turns) => self.roll_back(&mut history, *turns, log),
                Node::TurnStarted | Node::Note => {}
            }
        }
        history
    }

    /// The newest compaction with a history of its own that no roll-back undid.
    fn base(&self, upto: usize) -> Option<usize> {
        let mut undone = 0;
        let mut found = None;
        let mut is_turn = false;
        for at in (0..upto).rev() {
            match &self.nodes[at] {
                Node::RolledBack(turns) => undone += turns,
                Node::Item { opens_turn, .. } => is_turn |= opens_turn,
                Node::CompactedContext { history: Some(_), .. } => found = found.or(Some(at)),
                Node::TurnStarted if undone == 0 && found.is_some() => return found,
                Node::TurnStarted => {
                    undone -= usize::from(undone > 0 && is_turn);
                    found = None;
                    is_turn = false;
                }
                Node::CompactedContext { .. } | Node::Note => {}
            }
        }
        found.filter(|_| undone == 0)
    }

    fn roll_back(&self, history: &mut Vec<Visible>, turns: usize, log: &[LogMessage]) {
        let opens = |seen: &Visible| match seen {
            Visible::Logged(at) => opens_turn(&log[*at].message),
            Visible::Made { message, .. } => opens_turn(message),
        };
        let starts: Vec<usize> = (0..history.len()).filter(|at| opens(&history[*at])).collect();
        if let Some(start) = starts.len().checked_sub(turns.max(1)).map(|at| starts[at]).or(starts.first().copied())
            && turns > 0
        {
            history.truncate(start);
        }
    }
}

impl Codex {
    /// The lines that record a compaction: the replaced history, and its size, which Codex takes from the newest report.
    pub(super) fn write(
        &self,
        session: &Session,
        compacted: &CompactedContext,
        stamp: &str,
        ids: &mut Ids,
    ) -> Vec<String> {
        let kept = |at: usize| session.context()[at].message.raw.as_str();
        let items: Vec<Cow<'_, str>> =
            compacted.messages.iter().map(|message| message.json(Dialect::Responses, kept)).collect();
        let payload = json!({
            "message": compacted.summary, "replacement_history": null, "window_id": null,
            "epitome": {"tokens_before": compacted.tokens_before, "tokens_after": compacted.tokens_after, "trigger": compacted.occasion.name()},
        });
        let mut changes = self.windows.next(ids);
        changes.push(("replacement_history", Some(format!("[{}]", items.join(",")))));
        let payload = with_fields(&payload.to_string(), &changes);
        let size = json!({"type": "token_count", "info": self.size(compacted.tokens_after), "rate_limits": null});
        [("compacted", payload), ("event_msg", size.to_string())]
            .into_iter()
            .enumerate()
            .map(|(at, (kind, payload))| self.line(stamp, kind, &payload, at as u64))
            .collect()
    }

    fn line(&self, stamp: &str, kind: &str, payload: &str, at: u64) -> String {
        let ordinal = self.ordinal.map(|last| format!("\"ordinal\":{},", last + 1 + at)).unwrap_or_default();
        format!("{{\"timestamp\":{},{ordinal}\"type\":\"{kind}\",\"payload\":{payload}}}", quoted(stamp))
    }

    /// A report of the context's new size, beside what was used up so far.
    fn size(&self, tokens: u64) -> Value {
        let nothing = json!({"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0, "total_tokens": 0});
        let mut last = nothing.clone();
        last["total_tokens"] = json!(tokens);
        let told = self.info.as_ref().and_then(|info| serde_json::from_str::<Value>(info.as_str()).ok());
        let mut info = told.unwrap_or_else(|| json!({"total_token_usage": nothing, "model_context_window": null}));
        info["last_token_usage"] = last;
        info
    }
}

/// The context windows Codex counts: one more with each compaction.
#[derive(Clone, Debug, Default)]
struct Windows {
    count: u64,
    first: Option<String>,
    current: Option<String>,
}

impl Windows {
    fn next(&self, ids: &mut Ids) -> Vec<(&'static str, Option<String>)> {
        let Some(current) = &self.current else { return vec![("window_id", None)] };
        let first = self.first.as_ref().unwrap_or(current);
        vec![
            ("window_number", Some((self.count + 1).to_string())),
            ("first_window_id", Some(quoted(first))),
            ("previous_window_id", Some(quoted(current))),
            ("window_id", Some(quoted(&ids.uuid()))),
        ]
    }

    fn seen(&mut self, number: Option<u64>, first: Option<String>, current: Option<String>) {
        self.count = number.unwrap_or(self.count + 1);
        self.first = first.or(self.first.take());
        self.current = current.or(self.current.take());
    }
}

fn read_item(line: &Line, raw: &Raw, payload: &Fields<'_>, reading: &mut Reading) -> Node {
    let mut message = decode_message(Dialect::Responses, raw);
    message.summary = is_summary(&message, "");
    let opens_turn = opens_turn(&message);
    let log = reading.log.len();
    reading.message(line, message, payload.id("id"));
    Node::Item { log, opens_turn }
}

fn read_compacted(line: &Line, raw: &Raw, payload: &Fields<'_>, reading: &mut Reading) -> Node {
    let message = payload.text("message").unwrap_or_default();
    let history = payload.raw("replacement_history").and_then(|list| {
        let items: Vec<&serde_json::value::RawValue> = serde_json::from_str(list).ok()?;
        Some(items.into_iter().map(|item| raw.piece(item.get())).collect())
    });
    let own = payload.inner("epitome");
    let before = own.as_ref().and_then(|own| own.number("tokens_before"));
    let trigger = own.as_ref().and_then(|own| own.text("trigger"));
    reading.compaction(line, message.clone(), before, (trigger, own.is_some()));
    Node::CompactedContext { message, history }
}

fn read_meta(raw: &Raw, payload: &Fields<'_>, reading: &mut Reading) {
    reading.facts.id = payload.text("id").or(reading.facts.id.take());
    let instructions = payload.inner("base_instructions").and_then(|base| base.piece("text", raw));
    reading.facts.system = instructions.or_else(|| payload.piece("instructions", raw));
}

/// A report of the provider; Codex's own estimates have a total and nothing else.
fn read_report(payload: &Fields<'_>, entry: usize) -> Option<Report> {
    let usage = payload.inner("info")?.inner("last_token_usage")?;
    let (input, output) = (usage.number("input_tokens")?, usage.number("output_tokens")?);
    (input + output > 0).then_some(Report { entry, input, output })
}

/// A compaction's own history; an item that is the very bytes of an earlier message is that message.
fn replaced(entry: usize, summary: &str, items: &[Raw], log: &[LogMessage]) -> Vec<Visible> {
    let earlier = log.iter().take_while(|logged| logged.entry < entry).enumerate();
    let known: HashMap<&str, usize> = earlier.map(|(at, logged)| (logged.message.raw.as_str(), at)).collect();
    let visible = |raw: &Raw| match known.get(raw.as_str()) {
        Some(at) => Visible::Logged(*at),
        None => {
            let mut message = decode_message(Dialect::Responses, raw);
            message.summary = is_summary(&message, summary);
            Visible::Made { message, entry }
        }
    };
    items.iter().map(visible).collect()
}

/// The history after a compaction that holds none: the user's messages, newest first while they fit, and the summary.
fn rebuilt(entry: usize, summary: &str, history: &[Visible], log: &[LogMessage]) -> Vec<Visible> {
    let mut left = USER_BYTES_MAX;
    let mut kept = Vec::new();
    for seen in history.iter().rev() {
        let message = match seen {
            Visible::Logged(at) => &*log[*at].message,
            Visible::Made { message, .. } => message,
        };
        if !opens_turn(message) || message.summary {
            continue;
        }
        let text = text_of(&message.parts);
        if text.len() > left {
            kept.push(said(entry, &middle_cut(&text, left), false));
            break;
        }
        left -= text.len();
        kept.push(seen.clone());
    }
    kept.reverse();
    kept.push(said(entry, if summary.is_empty() { "(no summary available)" } else { summary }, true));
    kept
}

fn said(entry: usize, text: &str, summary: bool) -> Visible {
    let raw = Raw::whole(say(Dialect::Responses, Voice::User, text));
    let mut message = decode_message(Dialect::Responses, &raw);
    message.summary = summary;
    Visible::Made { message, entry }
}

fn middle_cut(text: &str, bytes_max: usize) -> String {
    let head = text.floor_char_boundary(bytes_max / 2);
    let tail = text.ceil_char_boundary(text.len() - bytes_max / 2);
    format!("{}…{} tokens truncated…{}", &text[..head], (tail - head).div_ceil(4), &text[tail..])
}

fn opens_turn(message: &NewMessage) -> bool {
    let text = text_of(&message.parts);
    message.role == Role::User && !is_codex_context(text.trim_start())
}

/// Whether a message is what a compaction left: Codex's own wording, the compaction's words, or an opaque item.
fn is_summary(message: &NewMessage, summary: &str) -> bool {
    let opaque = |part: &Part| matches!(part, Part::Opaque(opaque) if opaque.kind.contains("compaction"));
    let text = text_of(&message.parts);
    let told = message.role != Role::Tool && !summary.is_empty() && text.contains(summary);
    told || message.role == Role::User && text.starts_with(CODEX_PREFIX) || message.parts.iter().any(opaque)
}
