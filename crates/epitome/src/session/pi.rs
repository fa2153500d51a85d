//! pi's sessions: the first format, a list of events, and the tree of entries that followed it.
//!
//! In both, a compaction holds a summary and says from where on the messages before it are kept; it cannot hold other
//! messages than that.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::error::SessionError;
use super::fields::Fields;
use super::ids::Ids;
use super::lines::Line;
use super::notice::{Notice, NoticeKind, duplicate_ids};
use super::pi_message;
use super::reading::{Reading, Visible};
use super::{CompactedContext, Format, Session};
use crate::message::{NewMessage, Part, Raw, Role};
use crate::wire::PromptMessage;

/// What pi's loader goes by.
#[derive(Clone, Debug)]
pub(super) struct Pi {
    format: Format,
    nodes: Vec<Node>,
}

/// One entry, by what the loader needs of it.
#[derive(Clone, Debug)]
struct Node {
    id: Option<Box<str>>,
    parent: Option<usize>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Message {
        log: usize,
        role: Role,
    },
    Compaction {
        summary: String,
        keep: Keep,
        raw: Raw,
    },
    /// The header, a setting, or a message that the model is never shown.
    Other {
        header: bool,
    },
    Broken,
}

/// From where on a compaction keeps the messages before it.
#[derive(Clone, Debug)]
enum Keep {
    /// So many messages, but whole turns.
    Last(usize),
    /// From this entry on, counted with the header.
    Index(usize),
    /// From the entry of this id on.
    Id(Box<str>),
    Nothing,
}

impl Pi {
    pub(super) fn read(format: Format, lines: &[Line], notices: &mut Vec<Notice>) -> (Reading, Pi) {
        let mut reading = Reading::default();
        let mut nodes = Vec::with_capacity(lines.len());
        let mut parents = Vec::with_capacity(lines.len());
        for line in lines {
            let fields = Fields::parse(line.raw.as_str());
            parents.push(fields.as_ref().and_then(|fields| fields.id("parentId")));
            nodes.push(read_node(format, line, fields.as_ref(), &mut reading));
        }
        if format == Format::PiTree {
            link(&mut nodes, &parents, lines, notices);
        }
        (reading, Pi { format, nodes })
    }

    /// What the model saw when only the first `upto` entries were there.
    pub(super) fn visible(&self, upto: usize) -> Vec<Visible> {
        let path = self.path(upto);
        let compaction = path.iter().rposition(|at| matches!(self.nodes[*at].what, What::Compaction { .. }));
        let Some(compaction) = compaction else { return self.messages(&path) };
        let mut seen = vec![self.summary(path[compaction])];
        seen.extend(self.messages(&path[self.kept_from(&path, compaction)..]));
        seen
    }

    /// The entries the conversation went through, oldest first.
    fn path(&self, upto: usize) -> Vec<usize> {
        if self.format == Format::PiEvents {
            return (0..upto).collect();
        }
        let mut path: Vec<usize> = Vec::new();
        let mut at = self.leaf(upto);
        while let Some(node) = at.filter(|_| path.len() < upto) {
            path.push(node);
            at = self.nodes[node].parent.filter(|parent| *parent < upto);
        }
        path.reverse();
        path
    }

    /// The entry that the next one will follow.
    fn leaf(&self, upto: usize) -> Option<usize> {
        (0..upto).rev().find(|at| self.nodes[*at].id.is_some() && !self.nodes[*at].is_header())
    }

    fn messages(&self, path: &[usize]) -> Vec<Visible> {
        path.iter().filter_map(|at| self.nodes[*at].log().map(Visible::Logged)).collect()
    }

    fn summary(&self, entry: usize) -> Visible {
        let What::Compaction { summary, raw, .. } = &self.nodes[entry].what else { unreachable!("the caller looked") };
        let words = Part::Text(self.format.worded(summary).into());
        let mut message = NewMessage::new(Role::User, vec![words], raw.clone());
        message.summary = true;
        Visible::Made { message, entry }
    }

    /// The place in the path of the first entry that the compaction at `compaction` kept.
    fn kept_from(&self, path: &[usize], compaction: usize) -> usize {
        let What::Compaction { keep, .. } = &self.nodes[path[compaction]].what else { return compaction };
        let found = match keep {
            Keep::Last(count) => Some(self.last_turns(path, compaction, *count)),
            Keep::Index(index) => {
                let json: Vec<usize> = path.iter().copied().filter(|at| !self.nodes[*at].is_broken()).collect();
                json.get(*index).and_then(|entry| path.iter().position(|at| at == entry))
            }
            Keep::Id(id) => path[..compaction].iter().position(|at| self.nodes[*at].id.as_ref() == Some(id)),
            Keep::Nothing => None,
        };
        found.filter(|at| *at < compaction).unwrap_or(compaction)
    }

    /// Where the last `count` messages before a compaction begin: never before an earlier compaction, and at a user
    /// message where there is one among them, so that no turn is cut.
    fn last_turns(&self, path: &[usize], compaction: usize, count: usize) -> usize {
        let is_compaction = |at: &usize| matches!(self.nodes[*at].what, What::Compaction { .. });
        let floor = path[..compaction].iter().rposition(is_compaction).map_or(0, |at| at + 1);
        let roles = (floor..compaction).filter_map(|at| self.nodes[path[at]].role().map(|role| (at, role)));
        let roles: Vec<(usize, Role)> = roles.collect();
        let last = &roles[roles.len().saturating_sub(count)..];
        let turn = last.iter().find(|(_, role)| *role == Role::User);
        let whole = || last.iter().find(|(_, role)| *role != Role::Tool);
        turn.or_else(whole).map_or(compaction, |(at, _)| *at)
    }
}

impl Pi {
    /// The line that records a compaction.
    pub(super) fn write(
        &self,
        session: &Session,
        compacted: &CompactedContext,
        stamp: &str,
        ids: &mut Ids,
    ) -> Result<String, SessionError> {
        let keep = self.keep_from(session, tail_start(session, &compacted.messages)?)?;
        let mut entry = json!({"type": "compaction"});
        if self.format == Format::PiTree {
            let id = ids.short(|id| self.nodes.iter().any(|node| node.id.as_deref() == Some(id)));
            entry["id"] = json!(id);
            entry["parentId"] = json!(self.leaf(self.nodes.len()).and_then(|leaf| self.nodes[leaf].id.as_deref()));
        }
        entry["timestamp"] = json!(stamp);
        entry["summary"] = json!(compacted.summary);
        match keep {
            Tail::Id(first) => {
                entry["firstKeptEntryId"] = first.as_deref().map_or_else(|| entry["id"].clone(), |id| json!(id));
            }
            Tail::Count { messages, first_entry } => {
                entry["keepLastMessages"] = json!(messages);
                entry["firstKeptEntryIndex"] = json!(first_entry);
            }
        }
        entry["tokensBefore"] = json!(compacted.tokens_before);
        entry["details"] =
            json!({"tokensAfter": compacted.tokens_after, "trigger": compacted.occasion.name(), "by": "epitome"});
        entry["fromHook"] = json!(true);
        Ok(entry.to_string())
    }

    /// How a compaction says that it keeps the context from this place on.
    pub(super) fn keep_from(&self, session: &Session, at: usize) -> Result<Tail, SessionError> {
        let entry = match session.context().get(at) {
            Some(seen) if seen.logged.is_none() => {
                return Err(session.not_expressible("an earlier summary cannot be among the messages that are kept"));
            }
            seen => seen.map(|seen| seen.entry),
        };
        match self.format {
            Format::PiTree => match entry.map(|entry| self.nodes[entry].id.clone()) {
                Some(None) => Err(session.not_expressible("the first message that is kept has no id")),
                id => Ok(Tail::Id(id.flatten())),
            },
            _ => self.count_from(entry).ok_or_else(|| {
                session.not_expressible(
                    "the messages that are kept must begin with a whole turn, after the last compaction before this one",
                )
            }),
        }
    }

    /// How many messages there are from an entry on, when just these would be kept.
    fn count_from(&self, entry: Option<usize>) -> Option<Tail> {
        let path = self.path(self.nodes.len());
        let first = entry.unwrap_or(path.len());
        let messages = path[first..].iter().filter(|at| self.nodes[**at].log().is_some()).count();
        let first_entry = path[..first].iter().filter(|at| !self.nodes[**at].is_broken()).count();
        let kept = self.last_turns(&path, path.len(), messages);
        (kept == first).then_some(Tail::Count { messages, first_entry })
    }
}

/// What a compaction keeps, as it is written.
pub(super) enum Tail {
    /// From the entry of this id on, or nothing.
    Id(Option<Box<str>>),
    /// So many messages; the first of them is this entry of the file.
    Count { messages: usize, first_entry: usize },
}

/// Where the kept messages begin in a context of one summary and a tail.
fn tail_start(session: &Session, messages: &[PromptMessage]) -> Result<usize, SessionError> {
    let [PromptMessage::Written { summary: true, .. }, tail @ ..] = messages else {
        return Err(session.not_expressible("it must begin with one summary"));
    };
    let count = session.context().len();
    let start = count.saturating_sub(tail.len());
    let expected = (start..count).map(PromptMessage::Kept);
    if tail.len() <= count && tail.iter().cloned().eq(expected) {
        Ok(start)
    } else {
        Err(session
            .not_expressible("after the summary come the last messages of the session, all of them and unchanged"))
    }
}

impl Node {
    fn log(&self) -> Option<usize> {
        match self.what {
            What::Message { log, .. } => Some(log),
            _ => None,
        }
    }

    fn role(&self) -> Option<Role> {
        match self.what {
            What::Message { role, .. } => Some(role),
            _ => None,
        }
    }

    fn is_header(&self) -> bool {
        matches!(self.what, What::Other { header: true })
    }

    fn is_broken(&self) -> bool {
        matches!(self.what, What::Broken)
    }
}

fn read_node(format: Format, line: &Line, fields: Option<&Fields<'_>>, reading: &mut Reading) -> Node {
    let Some(fields) = fields else {
        reading.value(line);
        return Node {
            id: None,
            parent: None,
            what: if line.broken { What::Broken } else { What::Other { header: false } },
        };
    };
    let id = fields.id("id");
    let kind = fields.text("type").unwrap_or_default();
    let what = match kind.as_str() {
        "message" => read_message(line, fields.piece("message", &line.raw), &id, reading),
        "custom_message" | "branch_summary" => read_message(line, Some(line.raw.clone()), &id, reading),
        "compaction" => read_compaction(line, fields, reading),
        _ => {
            reading.judge(format, line, &kind);
            read_note(line, &kind, fields, reading);
            What::Other { header: kind == "session" }
        }
    };
    Node { id, parent: None, what }
}

fn read_message(line: &Line, raw: Option<Raw>, id: &Option<Box<str>>, reading: &mut Reading) -> What {
    let read = pi_message::decode(raw.as_ref().unwrap_or(&line.raw));
    let role = read.message.role;
    if role == Role::Assistant
        && let Some(model) = raw.as_ref().and_then(|raw| Fields::parse(raw.as_str())?.text("model"))
    {
        reading.facts.model = Some(model);
    }
    let log = reading.log.len();
    reading.message(line, read.message, id.clone());
    if read.hidden { What::Other { header: false } } else { What::Message { log, role } }
}

fn read_compaction(line: &Line, fields: &Fields<'_>, reading: &mut Reading) -> What {
    let summary = fields.text("summary").unwrap_or_default();
    let place = |key: &str| fields.number(key).and_then(|number| usize::try_from(number).ok());
    let keep = match (fields.id("firstKeptEntryId"), place("keepLastMessages"), place("firstKeptEntryIndex")) {
        (Some(id), _, _) => Keep::Id(id),
        (_, Some(count), _) => Keep::Last(count),
        (_, _, Some(index)) => Keep::Index(index),
        _ => Keep::Nothing,
    };
    let details = fields.inner("details");
    let of_details = |key| details.as_ref().and_then(|details| details.text(key));
    let own = of_details("by").as_deref() == Some("epitome");
    reading.compaction(line, summary.clone(), fields.number("tokensBefore"), (of_details("trigger"), own));
    What::Compaction { summary, keep, raw: line.raw.clone() }
}

fn read_note(line: &Line, kind: &str, fields: &Fields<'_>, reading: &mut Reading) {
    if let Some(model) = fields.text("modelId") {
        reading.facts.model = Some(model);
    }
    if kind == "session" {
        reading.facts.id = fields.text("id");
        reading.facts.system = fields.piece("systemPrompt", &line.raw);
    }
    reading.note(line, kind);
}

/// Finds each entry's parent; of two entries with one id the later counts.
fn link(nodes: &mut [Node], parents: &[Option<Box<str>>], lines: &[Line], notices: &mut Vec<Notice>) {
    let with_id = |(at, node): (usize, &Node)| node.id.clone().filter(|_| !node.is_header()).map(|id| (id, at));
    let places: HashMap<Box<str>, usize> = nodes.iter().enumerate().filter_map(with_id).collect();
    duplicate_ids(nodes.iter().zip(lines).filter_map(|(node, line)| Some((line.number, node.id.as_deref()?))), notices);
    let mut lost = HashSet::new();
    for ((node, parent), line) in nodes.iter_mut().zip(parents).zip(lines) {
        node.parent = parent.as_ref().and_then(|parent| places.get(parent).copied());
        if let (None, Some(parent)) = (node.parent, parent)
            && lost.insert(parent)
        {
            let what = format!("follows the entry `{parent}`, which is not in the file");
            notices.push(Notice::new(line.number, NoticeKind::LostParent, what));
        }
    }
}
