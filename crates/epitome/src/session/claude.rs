//! Claude Code's transcripts: entries chained by `uuid` and `parentUuid`, cut by `compact_boundary` entries.
//!
//! The chain from the newest message back to the last boundary is what the model sees. Sub-agents' entries and notes
//! are carried and never shown. What Claude Code adds to a prompt by itself (reminders, listings) is not guessed.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::fields::{Fields, quoted, with_fields};
use super::ids::Ids;
use super::lines::Line;
use super::notice::{Notice, NoticeKind, duplicate_ids};
use super::reading::{Reading, Visible, text_of};
use super::{CompactedContext, Format, Session};
use crate::message::{Part, Raw, Role};
use crate::wire::{Dialect, PromptMessage, Voice, decode_message};

/// The model of messages that Claude Code wrote itself.
pub(super) const SYNTHETIC: &str = "<synthetic>";

/// What Claude Code's loader goes by.
#[derive(Clone, Debug)]
pub(super) struct Claude {
    nodes: Vec<Node>,
    /// Where each uuid is; of two entries with one uuid the later counts.
    places: HashMap<Box<str>, usize>,
}

/// One entry, by what the loader needs of it.
#[derive(Clone, Debug, Default)]
struct Node {
    uuid: Option<Box<str>>,
    parent_uuid: Option<Box<str>>,
    parent: Option<usize>,
    kind: Kind,
    sidechain: bool,
}

#[derive(Clone, Debug, Default)]
enum Kind {
    Turn(Turn),
    Boundary(Box<Kept>),
    #[default]
    Note,
}

#[derive(Clone, Debug)]
struct Turn {
    log: usize,
    /// The provider's id of the response it is a piece of.
    response: Option<Box<str>>,
    /// Whether it holds tool results.
    answers: bool,
    /// Whether the model is shown it; Claude Code's own error messages are not.
    shown: bool,
    /// The uuid of the entry that a compaction copied here.
    copy_of: Option<Box<str>>,
}

/// Messages before a boundary that Claude Code kept after it: they follow `anchor`, from `head` to `tail`.
#[derive(Clone, Debug, Default)]
struct Kept {
    anchor: Option<Box<str>>,
    uuids: Vec<Box<str>>,
    tail: Option<Box<str>>,
}

impl Claude {
    pub(super) fn read(lines: &[Line], notices: &mut Vec<Notice>) -> (Reading, Claude) {
        let mut reading = Reading::default();
        let mut nodes: Vec<Node> = lines.iter().map(|line| read_node(line, &mut reading)).collect();
        let with_uuid = |(at, node): (usize, &Node)| Some((node.uuid.clone()?, at));
        let places: HashMap<Box<str>, usize> = nodes.iter().enumerate().filter_map(with_uuid).collect();
        duplicate_ids(
            nodes.iter().zip(lines).filter_map(|(node, line)| Some((line.number, node.uuid.as_deref()?))),
            notices,
        );
        for (node, line) in nodes.iter_mut().zip(lines) {
            node.parent = node.parent_uuid.as_ref().and_then(|uuid| places.get(uuid).copied());
            if let (None, Some(uuid), Kind::Turn(_)) = (node.parent, &node.parent_uuid, &node.kind) {
                let what = format!("follows the entry `{uuid}`, which is not in the file");
                notices.push(Notice::new(line.number, NoticeKind::LostParent, what));
            }
        }
        let claude = Claude { nodes, places };
        claude.find_originals(&mut reading);
        claude.settle_marks(&mut reading);
        (reading, claude)
    }

    /// Tells which messages of the log are copies, and of what.
    fn find_originals(&self, reading: &mut Reading) {
        for node in &self.nodes {
            let Kind::Turn(turn) = &node.kind else { continue };
            let Some(original) = turn.copy_of.as_ref().and_then(|uuid| self.places.get(uuid)) else { continue };
            if let Kind::Turn(original) = &self.nodes[*original].kind {
                reading.log[turn.log].copy_of = Some(original.log);
            }
        }
    }

    /// Gives each compaction its summary, and the entries that belong to it.
    fn settle_marks(&self, reading: &mut Reading) {
        for mark in &mut reading.marks {
            for at in mark.entry + 1..self.nodes.len() {
                let Kind::Turn(turn) = &self.nodes[at].kind else { continue };
                let logged = &reading.log[turn.log];
                if mark.summary.is_empty() && logged.message.summary {
                    mark.summary = text_of(&logged.message.parts);
                } else if logged.copy_of.is_none() && !logged.message.summary {
                    break;
                }
                mark.settled = at + 1;
            }
        }
    }

    /// What the model saw when only the first `upto` entries were there.
    pub(super) fn visible(&self, upto: usize) -> Vec<Visible> {
        let chain = self.chain(upto);
        let chain = self.with_parallel(chain, upto);
        chain.into_iter().filter_map(|at| self.shown(at)).map(Visible::Logged).collect()
    }

    fn shown(&self, at: usize) -> Option<usize> {
        match &self.nodes[at].kind {
            Kind::Turn(turn) if turn.shown && !self.nodes[at].sidechain => Some(turn.log),
            _ => None,
        }
    }

    /// The entries from the last boundary to the newest message, oldest first.
    fn chain(&self, upto: usize) -> Vec<usize> {
        let boundary = self.boundary(upto);
        let kept = boundary.map(|(_, kept)| self.relinks(kept)).unwrap_or_default();
        let mut chain = Vec::new();
        let mut at = (boundary.map_or(0, |(at, _)| at)..upto).rev().find(|at| self.is_turn(*at));
        while let Some(node) = at.filter(|_| chain.len() < upto) {
            if matches!(self.nodes[node].kind, Kind::Boundary(_)) {
                break;
            }
            chain.push(node);
            at = kept.parent(node, self.nodes[node].parent).filter(|parent| *parent < upto);
        }
        chain.reverse();
        chain
    }

    fn is_turn(&self, at: usize) -> bool {
        !self.nodes[at].sidechain && matches!(self.nodes[at].kind, Kind::Turn(_))
    }

    fn boundary(&self, upto: usize) -> Option<(usize, &Kept)> {
        (0..upto).rev().find_map(|at| match &self.nodes[at].kind {
            Kind::Boundary(kept) if !self.nodes[at].sidechain => Some((at, &**kept)),
            _ => None,
        })
    }

    fn relinks(&self, kept: &Kept) -> Relinks {
        let place = |uuid: &str| self.places.get(uuid).copied();
        let uuids: Vec<usize> = kept.uuids.iter().filter_map(|uuid| place(uuid)).collect();
        let anchor = kept.anchor.as_deref().and_then(place);
        let (Some(anchor), Some(head)) = (anchor, uuids.first().copied()) else { return Relinks::default() };
        let tail = kept.tail.as_deref().and_then(place).or(uuids.last().copied());
        let mut parents: HashMap<usize, usize> = uuids.windows(2).map(|pair| (pair[1], pair[0])).collect();
        parents.insert(head, anchor);
        Relinks { parents, anchor: Some(anchor), tail }
    }

    /// The chain with the pieces that parallel calls left beside it: other entries of one response, and their results.
    fn with_parallel(&self, chain: Vec<usize>, upto: usize) -> Vec<usize> {
        let on_chain: HashSet<usize> = chain.iter().copied().collect();
        let responses: HashMap<&str, usize> = chain.iter().filter_map(|at| Some((self.response(*at)?, *at))).collect();
        let last_piece = |at: &usize| Some((*at, *responses.get(self.response(*at)?)?));
        let mut pieces: HashMap<usize, usize> = chain.iter().filter_map(last_piece).collect();
        let mut beside: HashMap<usize, Vec<usize>> = HashMap::new();
        let start = chain.iter().copied().min().unwrap_or(upto);
        for at in (start..upto).filter(|at| self.is_turn(*at) && !on_chain.contains(at)) {
            let owner = match self.response(at) {
                Some(response) => responses.get(response).copied(),
                None if self.answers(at) => self.nodes[at].parent.and_then(|parent| pieces.get(&parent).copied()),
                None => None,
            };
            if let Some(owner) = owner {
                pieces.insert(at, owner);
                beside.entry(owner).or_default().push(at);
            }
        }
        let with = |at: usize| std::iter::once(at).chain(beside.get(&at).cloned().unwrap_or_default());
        chain.into_iter().flat_map(with).collect()
    }

    fn response(&self, at: usize) -> Option<&str> {
        match &self.nodes[at].kind {
            Kind::Turn(turn) => turn.response.as_deref(),
            _ => None,
        }
    }

    fn answers(&self, at: usize) -> bool {
        matches!(&self.nodes[at].kind, Kind::Turn(turn) if turn.answers)
    }
}

/// The fields of an entry that say where and by what it was written; new entries repeat the newest ones'.
const SETTING: [&str; 7] = ["userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug"];

impl Claude {
    /// The lines that record a compaction: a boundary, and the compacted context chained after it, the kept messages as
    /// copies. Copies bear new ids, because the loader joins entries of one response by theirs, and report the context's
    /// new size, because Claude Code takes the newest report for it.
    pub(super) fn write(
        &self,
        session: &Session,
        compacted: &CompactedContext,
        stamp: &str,
        ids: &mut Ids,
    ) -> Vec<String> {
        let leaf = (0..self.nodes.len()).rev().find(|at| self.is_turn(*at));
        let setting = leaf.map(|at| setting(session.entries()[at].raw.as_str())).unwrap_or_default();
        let logical = leaf.and_then(|at| self.nodes[at].uuid.as_deref());
        let uuid = ids.uuid();
        let boundary = json!({
            "parentUuid": null, "logicalParentUuid": logical, "isSidechain": false, "type": "system",
            "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": false, "timestamp": stamp,
            "uuid": uuid, "level": "info",
            "compactMetadata": {
                "trigger": compacted.occasion.name(), "preTokens": compacted.tokens_before,
                // The agent compacts when its window is nearly full; our count of a context says nothing of that.
                "epitome": {"tokens_after": compacted.tokens_after},
            },
        });
        let mut lines = vec![with_fields(&boundary.to_string(), &setting)];
        let mut copies =
            Copies { session, setting, stamp, parent: uuid, renamed: HashMap::new(), tokens: compacted.tokens_after };
        lines.extend(compacted.messages.iter().map(|message| copies.line(message, ids)));
        lines
    }
}

fn setting(line: &str) -> Vec<(&'static str, Option<String>)> {
    let Some(fields) = Fields::parse(line) else { return Vec::new() };
    SETTING.into_iter().filter_map(|key| Some((key, Some(fields.raw(key)?.to_owned())))).collect()
}

/// Entries written one after the other, each the child of the last.
struct Copies<'a> {
    session: &'a Session,
    setting: Vec<(&'static str, Option<String>)>,
    stamp: &'a str,
    parent: String,
    /// Old uuids and response ids, and what they became.
    renamed: HashMap<String, String>,
    tokens: u64,
}

impl Copies<'_> {
    fn line(&mut self, message: &PromptMessage, ids: &mut Ids) -> String {
        let uuid = ids.uuid();
        let line = match message {
            PromptMessage::Kept(place) => self.copy(*place, None, &uuid, ids),
            PromptMessage::Edited { place, json } => self.copy(*place, Some(json), &uuid, ids),
            PromptMessage::Written { voice, text, summary, .. } => self.said(*voice, text, *summary, &uuid),
        };
        self.parent = uuid;
        line
    }

    fn said(&self, voice: Voice, text: &str, summary: bool, uuid: &str) -> String {
        let (role, message) = match voice {
            Voice::Assistant => (
                "assistant",
                json!({
                    "id": format!("msg_{uuid}"), "type": "message", "role": "assistant", "model": "<synthetic>",
                    "content": [{"type": "text", "text": text}], "stop_reason": null, "stop_sequence": null,
                    "usage": {"input_tokens": self.tokens, "output_tokens": 0},
                }),
            ),
            Voice::User | Voice::System => ("user", json!({"role": "user", "content": text})),
        };
        let mut entry = json!({
            "parentUuid": self.parent, "isSidechain": false, "type": role, "message": message, "uuid": uuid,
            "timestamp": self.stamp,
        });
        if summary {
            entry["isVisibleInTranscriptOnly"] = json!(true);
            entry["isCompactSummary"] = json!(true);
        }
        with_fields(&entry.to_string(), &self.setting)
    }

    /// A message's entry with new ids. Words that waited as an attachment become a message: Claude Code moves
    /// attachments up, and asks for them to be addressed again.
    fn copy(&mut self, at: usize, edited: Option<&str>, uuid: &str, ids: &mut Ids) -> String {
        let seen = &self.session.context()[at];
        let original = self.session.entries()[seen.entry].raw.as_str();
        let Some(fields) = Fields::parse(original) else { return original.to_owned() };
        let old = fields.text("uuid");
        let message = edited.unwrap_or(seen.message.raw.as_str());
        let mut changes = vec![
            ("parentUuid", Some(quoted(&self.parent))),
            ("uuid", Some(quoted(uuid))),
            ("timestamp", Some(quoted(self.stamp))),
            ("isSidechain", Some("false".to_owned())),
            ("logicalParentUuid", None),
            ("attachment", None),
            ("message", Some(self.renewed(message, ids))),
            ("copyOf", old.as_deref().map(quoted)),
        ];
        if fields.has("attachment") {
            changes.push(("type", Some(quoted("user"))));
        }
        if let Some(asked) = fields.text("sourceToolAssistantUUID").and_then(|uuid| self.renamed.get(&uuid)) {
            changes.push(("sourceToolAssistantUUID", Some(quoted(asked))));
        }
        if edited.is_some() {
            changes.push(("toolUseResult", None));
        }
        if let Some(old) = old {
            self.renamed.insert(old, uuid.to_owned());
        }
        with_fields(original, &changes)
    }

    /// A message with a new response id and the context's new size; what the model is shown of it stays byte for byte.
    fn renewed(&mut self, message: &str, ids: &mut Ids) -> String {
        let Some(fields) = Fields::parse(message) else { return message.to_owned() };
        let mut changes = Vec::new();
        if let Some(id) = fields.text("id") {
            let new = self.renamed.entry(id).or_insert_with(|| format!("msg_{}", ids.uuid()));
            changes.push(("id", Some(quoted(new))));
        }
        if fields.has("usage") {
            changes.push(("usage", Some(json!({"input_tokens": self.tokens, "output_tokens": 0}).to_string())));
        }
        if changes.is_empty() { message.to_owned() } else { with_fields(message, &changes) }
    }
}

/// Parents that differ from what the entries say, because a boundary kept messages from before it.
#[derive(Default)]
struct Relinks {
    parents: HashMap<usize, usize>,
    anchor: Option<usize>,
    tail: Option<usize>,
}

impl Relinks {
    fn parent(&self, node: usize, own: Option<usize>) -> Option<usize> {
        match self.parents.get(&node) {
            Some(parent) => Some(*parent),
            None if own.is_some() && own == self.anchor => self.tail,
            None => own,
        }
    }
}

fn read_node(line: &Line, reading: &mut Reading) -> Node {
    let Some(fields) = Fields::parse(line.raw.as_str()) else {
        reading.value(line);
        return Node::default();
    };
    if let Some(id) = fields.text("sessionId") {
        reading.facts.id = Some(id);
    }
    let kind = fields.text("type").unwrap_or_default();
    let subtype = fields.text("subtype").unwrap_or_default();
    let kind = match (kind.as_str(), subtype.as_str()) {
        ("user" | "assistant", _) => read_turn(line, &fields, reading),
        ("system", "compact_boundary") => read_boundary(line, &fields, reading),
        ("attachment", _) => read_attachment(line, &fields, reading),
        _ => {
            reading.judge(Format::ClaudeCode, line, &kind);
            reading.note(line, if subtype.is_empty() { &kind } else { &subtype });
            Kind::Note
        }
    };
    let (uuid, parent_uuid) = (fields.id("uuid"), fields.id("parentUuid"));
    Node { uuid, parent_uuid, parent: None, kind, sidechain: fields.flag("isSidechain") }
}

fn read_turn(line: &Line, fields: &Fields<'_>, reading: &mut Reading) -> Kind {
    let Some(raw) = fields.piece("message", &line.raw) else {
        reading.lacks(line, &fields.text("type").unwrap_or_default(), "message");
        reading.note(line, "message without content");
        return Kind::Note;
    };
    let inner = Fields::parse(raw.as_str());
    let text = |key: &str| inner.as_ref().and_then(|inner| inner.text(key));
    let mut message = decode_message(Dialect::Anthropic, &raw);
    let answers = message.role == Role::User && message.parts.iter().any(|part| matches!(part, Part::ToolResult(_)));
    let response: Option<Box<str>> = text("id").filter(|_| message.role == Role::Assistant).map(Into::into);
    message.response = response.clone();
    message.summary = fields.flag("isCompactSummary");
    // A sub-agent may run on another model than the conversation.
    if let Some(model) = text("model").filter(|model| model != SYNTHETIC && !fields.flag("isSidechain")) {
        reading.facts.model = Some(model);
    }
    let log = reading.log.len();
    let logged = reading.message(line, message, fields.id("uuid"));
    logged.sidechain = fields.flag("isSidechain");
    Kind::Turn(Turn { log, response, answers, shown: !fields.flag("isApiErrorMessage"), copy_of: fields.id("copyOf") })
}

/// What the user said while the model worked is an attachment; every other one Claude Code makes anew.
fn read_attachment(line: &Line, fields: &Fields<'_>, reading: &mut Reading) -> Kind {
    let attachment = fields.inner("attachment");
    let kind = attachment.as_ref().and_then(|attachment| attachment.text("type")).unwrap_or_default();
    let prompt = attachment.as_ref().filter(|_| kind == "queued_command").and_then(|queued| queued.raw("prompt"));
    let Some(prompt) = prompt else {
        reading.note(line, &kind);
        return Kind::Note;
    };
    let raw = Raw::whole(format!(r#"{{"role":"user","content":{prompt}}}"#));
    let log = reading.log.len();
    let logged = reading.message(line, decode_message(Dialect::Anthropic, &raw), fields.id("uuid"));
    logged.sidechain = fields.flag("isSidechain");
    Kind::Turn(Turn { log, response: None, answers: false, shown: true, copy_of: fields.id("copyOf") })
}

fn read_boundary(line: &Line, fields: &Fields<'_>, reading: &mut Reading) -> Kind {
    let about = fields.inner("compactMetadata");
    let tokens_before = about.as_ref().and_then(|about| about.number("preTokens"));
    let trigger = about.as_ref().and_then(|about| about.text("trigger"));
    let own = about.as_ref().is_some_and(|about| about.has("epitome"));
    reading.compaction(line, String::new(), tokens_before, (trigger, own));
    Kind::Boundary(Box::new(about.map(|about| read_kept(&about)).unwrap_or_default()))
}

fn read_kept(about: &Fields<'_>) -> Kept {
    if let Some(segment) = about.inner("preservedSegment") {
        let uuids = segment.id("headUuid").into_iter().collect();
        return Kept { anchor: segment.id("anchorUuid"), uuids, tail: segment.id("tailUuid") };
    }
    let Some(messages) = about.inner("preservedMessages") else { return Kept::default() };
    let uuids = messages.raw("uuids").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    Kept { anchor: messages.id("anchorUuid"), uuids, tail: None }
}
