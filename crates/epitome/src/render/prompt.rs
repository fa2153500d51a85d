//! The prompt: pieces in order, each either a kept message or something written.

use std::collections::{BTreeMap, HashMap};

use super::stand_in::stand_in;
use super::validity::{is_empty, is_well_formed};
use crate::budget::{Meter, Tokens};
use crate::plan::{Action, Compaction, Record};
use crate::policy::{Place, Policy};
use crate::summary::all_words;
use crate::thread::{Message, Part, Role, Seal, Thread};
use crate::wire::{Dialect, Item, PartEdit, Voice, count_marks, edit, mark_cached, say, without_id};

/// The most cache marks a provider takes.
const MARKS_MAX: usize = 4;

/// One piece of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A message, byte for byte.
    Kept(usize),
    /// A message with something in it exchanged.
    Edited {
        /// The message's place.
        place: usize,
        /// Its JSON in the dialect.
        json: String,
    },
    /// Something new.
    Written {
        /// In whose name.
        voice: Voice,
        /// The words.
        text: String,
        /// Whether it is a summary.
        summary: bool,
    },
}

/// What the model gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The dialect.
    pub dialect: Dialect,
    /// Its pieces, in order.
    pub pieces: Vec<Piece>,
    /// A header that the request needs, such as a beta that its fields belong to.
    pub headers: Vec<(&'static str, &'static str)>,
    marks: Vec<usize>,
}

/// Content brought back for one request; it is never appended to the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehydrated {
    /// The artifact or message it is.
    pub reference: String,
    /// The content, cut to its limit.
    pub content: String,
    /// Whether it was cut.
    pub truncated: bool,
}

/// Renders a thread under a compaction.
pub fn render(
    thread: &Thread,
    compaction: Option<&Compaction>,
    policy: &Policy,
    dialect: Dialect,
    meter: Meter<'_>,
    rehydrated: &[Rehydrated],
) -> Prompt {
    let mut prompt = match compaction {
        Some(compaction) if !compaction.plan.records.is_empty() => {
            Renderer::new(thread, compaction, policy, dialect, meter).render()
        }
        _ => Prompt { dialect, pieces: untouched(thread, dialect), headers: Vec::new(), marks: Vec::new() },
    };
    prompt.rehydrate(thread, rehydrated);
    if policy.render.checkpoints {
        prompt.place_marks(thread, compaction);
    }
    prompt
}

/// All messages as they are, hidden ones replaced.
fn untouched(thread: &Thread, dialect: Dialect) -> Vec<Piece> {
    (0..thread.len()).map(|place| hidden(thread, place, dialect).unwrap_or(Piece::Kept(place))).collect()
}

/// What stands for a hidden message.
fn hidden(thread: &Thread, place: usize, dialect: Dialect) -> Option<Piece> {
    let words = thread.hidden(place)?.to_owned();
    let message = thread.message(place);
    let edits: Vec<(usize, PartEdit)> = message
        .parts()
        .iter()
        .enumerate()
        .filter_map(|(at, part)| match part {
            Part::ToolResult(_) => Some((at, PartEdit::Result(words.clone()))),
            Part::Text(_) | Part::Image(_) => Some((at, PartEdit::Words(words.clone()))),
            _ => None,
        })
        .collect();
    edit(dialect, message, &edits).map(|json| Piece::Edited { place, json })
}

/// Everything that is said in the prompt that a compaction yields, to look items up in.
pub(crate) fn prompt_words(thread: &Thread, compaction: &Compaction, policy: &Policy, meter: Meter<'_>) -> String {
    let prompt = Renderer::new(thread, compaction, policy, Dialect::Chat, meter).render();
    let mut words = String::new();
    for piece in &prompt.pieces {
        match piece {
            Piece::Kept(place) => words.push_str(&all_words(thread, *place)),
            Piece::Edited { place, json } => {
                // The stand-ins of an edited message, unescaped: its JSON would hide line breaks.
                words.push_str(&json_words(json));
                words.push_str(&thread.message(*place).text());
            }
            Piece::Written { text, .. } => words.push_str(text),
        }
        words.push('\n');
    }
    words
}

fn json_words(json: &str) -> String {
    fn strings(value: &serde_json::Value, out: &mut String) {
        match value {
            serde_json::Value::String(text) => {
                out.push_str(text);
                out.push('\n');
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
            serde_json::Value::Object(fields) => fields.values().for_each(|item| strings(item, out)),
            _ => {}
        }
    }
    let mut out = String::new();
    if let Ok(value) = serde_json::from_str(json) {
        strings(&value, &mut out);
    }
    out
}

struct Renderer<'a> {
    thread: &'a Thread,
    compaction: &'a Compaction,
    policy: &'a Policy,
    dialect: Dialect,
    meter: Meter<'a>,
    /// Records about single parts, by message.
    parts: HashMap<usize, Vec<&'a Record>>,
    /// Records about spans, by their first message.
    spans: BTreeMap<usize, &'a Record>,
    pieces: Vec<Piece>,
    /// Reasoning before this piece was left out: ids that belong to it go as well.
    unreasoned: bool,
}

impl<'a> Renderer<'a> {
    fn new(
        thread: &'a Thread,
        compaction: &'a Compaction,
        policy: &'a Policy,
        dialect: Dialect,
        meter: Meter<'a>,
    ) -> Self {
        let mut parts: HashMap<usize, Vec<&Record>> = HashMap::new();
        let mut spans = BTreeMap::new();
        for record in &compaction.plan.records {
            match record.part {
                Some(part) => parts.entry(part.place).or_default().push(record),
                None => {
                    spans.insert(record.span.range().start, record);
                }
            }
        }
        Renderer { thread, compaction, policy, dialect, meter, parts, spans, pieces: Vec::new(), unreasoned: false }
    }

    fn render(mut self) -> Prompt {
        let mut place = 0;
        while place < self.thread.len() {
            match self.spans.get(&place).copied() {
                Some(record) => {
                    self.span(record);
                    place = record.span.range().end;
                }
                None => place = self.exchange(place),
            }
        }
        self.user_first();
        Prompt { dialect: self.dialect, pieces: self.pieces, headers: Vec::new(), marks: Vec::new() }
    }

    fn span(&mut self, record: &Record) {
        match &record.action {
            Action::Summarise { summary, kept } => {
                let stays: Vec<usize> =
                    record.span.range().filter(|place| kept.contains(&self.thread.message(*place).id())).collect();
                if self.policy.render.place == Place::Span {
                    self.summary(*summary, record);
                }
                for place in stays {
                    self.message(place);
                }
                if self.policy.render.place == Place::Cut {
                    self.summary(*summary, record);
                }
            }
            _ => {
                let text = stand_in(self.thread, record, self.meter);
                self.say(Voice::User, text, false);
            }
        }
    }

    fn summary(&mut self, summary: usize, record: &Record) {
        let Some(summary) = self.compaction.summaries.get(summary) else { return };
        let layout = &self.policy.render;
        if !layout.question.is_empty() {
            self.say(Voice::User, layout.question.clone(), false);
        }
        let text = format!("{}{}{}", layout.prefix, summary.text, layout.suffix);
        let voice = self.allowed_voice(layout.role, record);
        self.say(voice, text, true);
    }

    /// The voice that the policy wants, unless the dialect forbids it here.
    fn allowed_voice(&self, wanted: Voice, record: &Record) -> Voice {
        match wanted {
            Voice::Assistant => {
                let next = self.thread.messages().get(record.span.range().end);
                let before = self.pieces.iter().rev().find_map(|piece| self.voice_of(piece));
                let fits = before == Some(Role::User) && next.is_some_and(|next| next.role() == Role::User);
                if fits { Voice::Assistant } else { Voice::User }
            }
            Voice::System if self.dialect == Dialect::Anthropic => Voice::User,
            other => other,
        }
    }

    fn voice_of(&self, piece: &Piece) -> Option<Role> {
        let role = match piece {
            Piece::Kept(place) | Piece::Edited { place, .. } => self.thread.message(*place).role(),
            Piece::Written { voice: Voice::User, .. } => Role::User,
            Piece::Written { voice: Voice::Assistant, .. } => Role::Assistant,
            Piece::Written { voice: Voice::System, .. } => Role::System,
        };
        (role != Role::System).then_some(role)
    }

    fn say(&mut self, voice: Voice, text: String, summary: bool) {
        self.pieces.push(Piece::Written { voice, text, summary });
    }

    /// Renders the exchange at a place; answers where the next begins.
    fn exchange(&mut self, place: usize) -> usize {
        let exchange = self.thread.exchange_at(place);
        let well_formed = is_well_formed(self.thread, &exchange);
        for place in exchange.range() {
            match well_formed {
                true => self.message(place),
                false => self.retold(place),
            }
        }
        exchange.range().end
    }

    /// A message that cannot be sent as it stands, retold in words.
    fn retold(&mut self, place: usize) {
        let message = self.thread.message(place);
        let mut words: Vec<String> = Vec::new();
        for part in message.parts() {
            match part {
                Part::Text(text) if !text.trim().is_empty() => words.push(text.to_string()),
                Part::ToolCall(call) => words.push(format!("[called {} {}]", call.name, call.arguments)),
                Part::ToolResult(result) => words.push(format!("[result of {}]\n{}", result.call_id, result.text)),
                Part::Image(_) => words.push("[image]".to_owned()),
                _ => {}
            }
        }
        if words.is_empty() {
            return;
        }
        let voice = if message.role() == Role::Assistant { Voice::Assistant } else { Voice::User };
        let json = say(self.dialect, voice, &words.join("\n"));
        self.pieces.push(Piece::Edited { place, json });
    }

    fn message(&mut self, place: usize) {
        let message = self.thread.message(place);
        if let Some(piece) = hidden(self.thread, place, self.dialect) {
            self.pieces.push(piece);
            return;
        }
        if is_empty(message) {
            return;
        }
        let edits = self.edits(place, message);
        let stripped = edits
            .iter()
            .any(|(at, edit)| *edit == PartEdit::Remove && matches!(message.parts()[*at], Part::Reasoning(_)));
        if edits.is_empty() {
            let piece = self.unbound(place, message).unwrap_or(Piece::Kept(place));
            self.pieces.push(piece);
        } else if let Some(json) = edit(self.dialect, message, &edits) {
            self.pieces.push(Piece::Edited { place, json });
        }
        self.unreasoned = match message.role() {
            Role::Assistant => stripped || self.unreasoned,
            _ => false,
        };
    }

    /// A Responses item whose id belongs to reasoning that was left out, without the id.
    fn unbound(&self, place: usize, message: &Message) -> Option<Piece> {
        let bound = self.dialect == Dialect::Responses && self.unreasoned && message.role() == Role::Assistant;
        bound.then(|| Piece::Edited { place, json: without_id(message.raw().as_str()) })
    }

    fn edits(&self, place: usize, message: &Message) -> Vec<(usize, PartEdit)> {
        let mut edits: Vec<(usize, PartEdit)> = Vec::new();
        for record in self.parts.get(&place).into_iter().flatten() {
            let Some(part) = record.part else { continue };
            let words = stand_in(self.thread, record, self.meter);
            let edit = match &message.parts()[part.part] {
                Part::ToolResult(_) => PartEdit::Result(words),
                Part::ToolCall(_) => PartEdit::Arguments(words),
                _ => PartEdit::Words(words),
            };
            edits.push((part.part, edit));
        }
        for (at, part) in message.parts().iter().enumerate() {
            let gone = match part {
                Part::Reasoning(reasoning) => reasoning.seal != Seal::Open && self.is_rewritten(place),
                Part::Text(text) => self.dialect == Dialect::Anthropic && text.trim().is_empty(),
                _ => false,
            };
            if gone {
                edits.push((at, PartEdit::Remove));
            }
        }
        edits.sort_by_key(|(at, _)| *at);
        edits
    }

    /// Whether something before a message was edited and the message is not part of the open loop.
    fn is_rewritten(&self, place: usize) -> bool {
        place < self.compaction.plan.reasoning_from
    }

    /// Providers want the user to speak first.
    fn user_first(&mut self) {
        let first = self.pieces.iter().position(|piece| self.voice_of(piece).is_some());
        if let Some(first) = first
            && self.voice_of(&self.pieces[first]) != Some(Role::User)
        {
            let text = "[The earlier part of this conversation is not shown.]".to_owned();
            self.pieces.insert(first, Piece::Written { voice: Voice::User, text, summary: false });
        }
    }
}

impl Prompt {
    /// The pieces as items of a document whose messages are the thread's.
    pub fn items(&self, thread: &Thread) -> Vec<Item> {
        self.pieces.iter().enumerate().map(|(at, piece)| self.item(thread, at, piece)).collect()
    }

    fn item(&self, thread: &Thread, at: usize, piece: &Piece) -> Item {
        let marked = self.marks.contains(&at);
        match piece {
            Piece::Kept(place) if !marked => Item::Kept(*place),
            piece => {
                let json = self.json(thread, piece);
                Item::Written(if marked { mark_cached(&json) } else { json })
            }
        }
    }

    /// The JSON of each piece.
    pub fn to_json(&self, thread: &Thread) -> Vec<String> {
        let items = self.items(thread).into_iter();
        items
            .map(|item| match item {
                Item::Kept(place) => thread.message(place).raw().as_str().to_owned(),
                Item::Written(json) => json,
            })
            .collect()
    }

    fn json(&self, thread: &Thread, piece: &Piece) -> String {
        match piece {
            Piece::Kept(place) => thread.message(*place).raw().as_str().to_owned(),
            Piece::Edited { json, .. } => json.clone(),
            Piece::Written { voice, text, .. } => say(self.dialect, *voice, text),
        }
    }

    /// Puts brought-back content before the message that opened the current turn.
    fn rehydrate(&mut self, thread: &Thread, rehydrated: &[Rehydrated]) {
        if rehydrated.is_empty() {
            return;
        }
        let opens = thread.turn_start();
        let at = self
            .pieces
            .iter()
            .position(|piece| matches!(piece, Piece::Kept(p) | Piece::Edited { place: p, .. } if *p >= opens));
        let at = at.unwrap_or(self.pieces.len());
        let pieces = rehydrated.iter().map(|content| Piece::Written {
            voice: Voice::User,
            text: format!(
                "[Brought back for this request: {}{}]\n{}",
                content.reference,
                if content.truncated { ", cut" } else { "" },
                content.content
            ),
            summary: false,
        });
        self.pieces.splice(at..at, pieces);
    }

    /// Cache checkpoints: one before the tail, one at its end, as far as the provider's limit allows.
    fn place_marks(&mut self, thread: &Thread, compaction: Option<&Compaction>) {
        if self.dialect != Dialect::Anthropic || self.pieces.is_empty() {
            return;
        }
        let set: usize = self.pieces.iter().map(|piece| count_marks(&self.json(thread, piece))).sum();
        let tail = compaction.map_or(0, |compaction| compaction.plan.tail_from);
        let before = self.pieces.iter().rposition(|piece| match piece {
            Piece::Kept(place) | Piece::Edited { place, .. } => *place < tail,
            Piece::Written { summary, .. } => *summary,
        });
        let wanted = before.into_iter().chain([self.pieces.len() - 1]);
        self.marks = wanted.take(MARKS_MAX.saturating_sub(set)).collect();
    }

    /// Its tokens.
    pub fn tokens(&self, thread: &Thread, meter: Meter<'_>) -> Tokens {
        let mut total = Tokens::ZERO;
        for piece in &self.pieces {
            total += match piece {
                Piece::Kept(place) => thread.message(*place).tokens(),
                Piece::Written { text, .. } => meter.text_message(text),
                Piece::Edited { json, .. } => {
                    let raw = crate::thread::Raw::whole(json.as_str());
                    let message = crate::wire::decode_message(self.dialect, &raw);
                    meter.message(&meter.parts(&message))
                }
            };
        }
        total
    }
}
