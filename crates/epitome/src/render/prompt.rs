//! The prompt: pieces in order, each either a kept message or something written.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::repair::{Repair, repairs, retold, retold_voice};
use super::stand_in::stand_in;
use crate::budget::{Meter, Tokens};
use crate::plan::{Action, Compaction, Record};
use crate::policy::{Policy, SummaryPlace};
use crate::summary::{STILL_HOLDS, all_words};
use crate::thread::{Message, Part, Raw, Role, Thread};
use crate::wire::{
    Dialect, Item, MarkLifetime, PartEdit, Voice, cache_marks, edit, item_id, mark_cached, say, without_id,
};

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
    marks: Vec<(usize, MarkLifetime)>,
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
    meter: Meter<'_>,
    rehydrated: &[Rehydrated],
) -> Prompt {
    let dialect = meter.dialect();
    let mut prompt = match compaction {
        Some(compaction) if !compaction.plan.records.is_empty() => {
            Renderer::new(thread, compaction, policy, dialect, meter).render()
        }
        _ => Prompt { dialect, pieces: untouched(thread, dialect), marks: Vec::new() },
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
            Part::Text(_) | Part::Media(_) => Some((at, PartEdit::Words(words.clone()))),
            _ => None,
        })
        .collect();
    edit(dialect, message.body(), &edits).map(|json| Piece::Edited { place, json })
}

/// Everything that is said in a prompt, to look items up in.
pub(crate) fn said_in(prompt: &Prompt, thread: &Thread) -> String {
    let mut words = String::new();
    for piece in &prompt.pieces {
        match piece {
            Piece::Kept(place) => words.push_str(&all_words(thread, *place)),
            // The strings of an edited message, unescaped: its JSON would hide line breaks.
            Piece::Edited { json, .. } => words.push_str(&json_words(json)),
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
    /// What must become of each message, whatever the plan says.
    repairs: Vec<Repair>,
    pieces: Vec<Piece>,
    /// Reasoning before this piece was left out: ids that belong to it go as well.
    unreasoned: bool,
    /// The ids of Responses items that were sent.
    item_ids: HashSet<String>,
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
        let repairs = repairs(thread, dialect, compaction.plan.reasoning_from);
        Renderer {
            thread,
            compaction,
            policy,
            dialect,
            meter,
            parts,
            spans,
            repairs,
            pieces: Vec::new(),
            unreasoned: false,
            item_ids: HashSet::new(),
        }
    }

    fn render(mut self) -> Prompt {
        let mut place = 0;
        while place < self.thread.len() {
            if place == self.compaction.plan.tail_from {
                self.carried();
            }
            match self.spans.get(&place).copied() {
                Some(record) => {
                    self.span(record);
                    place = record.span.range().end;
                }
                None => {
                    self.message(place);
                    place += 1;
                }
            }
        }
        if self.compaction.plan.tail_from >= self.thread.len() {
            self.carried();
        }
        self.user_first();
        Prompt { dialect: self.dialect, pieces: self.pieces, marks: Vec::new() }
    }

    /// What must be in every prompt and would not be otherwise.
    fn carried(&mut self) {
        let carried = &self.compaction.plan.carried;
        if !carried.is_empty() {
            self.say(Voice::User, format!("{STILL_HOLDS}\n- {}", carried.join("\n- ")), false);
        }
    }

    fn span(&mut self, record: &Record) {
        match &record.action {
            Action::Summarize { summary, kept } => {
                let stays: Vec<usize> =
                    record.span.range().filter(|place| kept.contains(&self.thread.message(*place).id())).collect();
                if self.policy.render.place == SummaryPlace::Span {
                    self.summary(*summary, record);
                }
                for place in stays {
                    self.message(place);
                }
                if self.policy.render.place == SummaryPlace::Cut {
                    self.summary(*summary, record);
                }
            }
            _ => {
                let text = stand_in(self.thread, record, &self.policy.tools, self.meter);
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
        let text = layout.dressed(&summary.text);
        let voice = self.allowed_voice(layout.role, record);
        self.say(voice, text, true);
    }

    /// The voice that the policy wants, unless the dialect forbids it here.
    fn allowed_voice(&self, wanted: Voice, record: &Record) -> Voice {
        match wanted {
            Voice::Assistant => {
                // What came after the plan was made must not change what was written before it.
                let end = record.span.range().end;
                let next = (end < self.compaction.plan.covers).then(|| self.thread.message(end));
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

    fn message(&mut self, place: usize) {
        let message = self.thread.message(place);
        if let Some(piece) = hidden(self.thread, place, self.dialect) {
            self.pieces.push(piece);
            return;
        }
        let stripped = match &self.repairs[place] {
            Repair::Gone => return self.note_reasoning(message, message.parts().iter().any(is_reasoning)),
            Repair::Retold => return self.retold(place),
            Repair::Without(parts) => parts.iter().any(|at| is_reasoning(&message.parts()[*at])),
            Repair::Fine => false,
        };
        let edits = self.edits(place, message);
        if edits.is_empty() {
            let piece = self.unbound(place, message).unwrap_or(Piece::Kept(place));
            self.pieces.push(piece);
        } else if let Some(json) = edit(self.dialect, message.body(), &edits) {
            self.pieces.push(Piece::Edited { place, json });
        }
        self.note_reasoning(message, stripped);
    }

    fn note_reasoning(&mut self, message: &Message, stripped: bool) {
        self.unreasoned = match message.role() {
            Role::Assistant => stripped || self.unreasoned,
            _ => false,
        };
    }

    /// A message that cannot be sent as it stands, retold in words.
    fn retold(&mut self, place: usize) {
        let records = self.parts.get(&place).map_or(&[][..], Vec::as_slice);
        let stand_in = |record: &&Record| {
            let words = stand_in(self.thread, record, &self.policy.tools, self.meter);
            record.part.map(|part| (part.part, words))
        };
        let words = retold(self.thread, place, records.iter().filter_map(stand_in).collect());
        let json = say(self.dialect, retold_voice(self.thread.message(place)), &words);
        self.pieces.push(Piece::Edited { place, json });
    }

    /// A Responses item without its id, where the id belongs to reasoning that was left out or was used before.
    fn unbound(&mut self, place: usize, message: &Message) -> Option<Piece> {
        if self.dialect != Dialect::Responses {
            return None;
        }
        let orphaned = self.unreasoned && message.role() == Role::Assistant;
        let repeated = item_id(message.raw().as_str()).is_some_and(|id| !self.item_ids.insert(id));
        (orphaned || repeated).then(|| Piece::Edited { place, json: without_id(message.raw().as_str()) })
    }

    fn edits(&self, place: usize, message: &Message) -> Vec<(usize, PartEdit)> {
        let mut edits: Vec<(usize, PartEdit)> = Vec::new();
        for record in self.parts.get(&place).into_iter().flatten() {
            let Some(part) = record.part else { continue };
            let words = stand_in(self.thread, record, &self.policy.tools, self.meter);
            let edit = match &message.parts()[part.part] {
                Part::ToolResult(result) if record.keeps_media() && !result.media.is_empty() => {
                    PartEdit::ResultWords(words)
                }
                Part::ToolResult(_) => PartEdit::Result(words),
                Part::ToolCall(_) => PartEdit::Arguments(words),
                _ => PartEdit::Words(words),
            };
            edits.push((part.part, edit));
        }
        if let Repair::Without(parts) = &self.repairs[place] {
            edits.extend(parts.iter().map(|at| (*at, PartEdit::Remove)));
        }
        edits.sort_by_key(|(at, _)| *at);
        edits
    }

    /// Providers want the user to speak first.
    fn user_first(&mut self) {
        if self.dialect == Dialect::Anthropic {
            self.system_as_user();
        }
        let first = self.pieces.iter().position(|piece| self.voice_of(piece).is_some());
        if let Some(first) = first
            && self.voice_of(&self.pieces[first]) != Some(Role::User)
            && !self.starts_with_system_as_user()
        {
            let text = "[The earlier part of this conversation is not shown.]".to_owned();
            self.pieces.insert(first, Piece::Written { voice: Voice::User, text, summary: false });
        }
    }
}

impl Renderer<'_> {
    fn starts_with_system_as_user(&self) -> bool {
        self.dialect == Dialect::Anthropic && self.pieces.first().is_some_and(|piece| self.voice_of(piece).is_none())
    }

    /// Anthropic takes no system message at the front of the list: there it speaks as the user.
    fn system_as_user(&mut self) {
        for piece in &mut self.pieces {
            match piece {
                Piece::Kept(place) | Piece::Edited { place, .. }
                    if self.thread.message(*place).role() == Role::System =>
                {
                    let json = say(self.dialect, Voice::User, &self.thread.message(*place).text());
                    *piece = Piece::Edited { place: *place, json };
                }
                _ => break,
            }
        }
    }
}

fn is_reasoning(part: &Part) -> bool {
    matches!(part, Part::Reasoning(_))
}

impl Prompt {
    /// The pieces as items of a document whose messages are the thread's.
    pub fn items(&self, thread: &Thread) -> Vec<Item> {
        self.pieces.iter().enumerate().map(|(at, piece)| self.item(thread, at, piece)).collect()
    }

    fn item(&self, thread: &Thread, at: usize, piece: &Piece) -> Item {
        let mark = self.marks.iter().find(|(marked, _)| *marked == at);
        match (piece, mark) {
            (Piece::Kept(place), None) => Item::Kept(*place),
            (piece, None) => Item::Written(self.json(thread, piece)),
            (piece, Some((_, lifetime))) => Item::Written(mark_cached(&self.json(thread, piece), *lifetime)),
        }
    }

    /// The JSON of each piece; kept messages are shared, not copied.
    pub fn to_raw(&self, thread: &Thread) -> Vec<Raw> {
        let items = self.items(thread).into_iter();
        items
            .map(|item| match item {
                Item::Kept(place) => thread.message(place).raw().clone(),
                Item::Written(json) => Raw::from(json),
            })
            .collect()
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
        let set: Vec<Vec<MarkLifetime>> =
            self.pieces.iter().map(|piece| cache_marks(&self.json(thread, piece))).collect();
        let tail = compaction.map_or(0, |compaction| compaction.plan.tail_from);
        let before = self.pieces.iter().rposition(|piece| match piece {
            Piece::Kept(place) | Piece::Edited { place, .. } => *place < tail,
            Piece::Written { summary, .. } => *summary,
        });
        let wanted = before.into_iter().chain([self.pieces.len() - 1]);
        // None that lasts an hour may come behind one that does not.
        let lifetime = |at: usize| match set[at..].iter().flatten().any(|mark| *mark == MarkLifetime::Long) {
            true => MarkLifetime::Long,
            false => MarkLifetime::Short,
        };
        let free = MARKS_MAX.saturating_sub(set.iter().map(Vec::len).sum());
        self.marks = wanted.take(free).map(|at| (at, lifetime(at))).collect();
    }

    /// Its tokens.
    pub fn tokens(&self, thread: &Thread, meter: Meter<'_>) -> Tokens {
        self.tokens_knowing(thread, meter, None)
    }

    /// Its tokens, when those of the message with this summary are known.
    pub(crate) fn tokens_knowing(&self, thread: &Thread, meter: Meter<'_>, known: Option<(&str, Tokens)>) -> Tokens {
        let mut total = Tokens::ZERO;
        for piece in &self.pieces {
            total += match piece {
                Piece::Kept(place) => thread.message(*place).tokens(),
                Piece::Written { text, .. } => match known {
                    Some((same, tokens)) if same == text => tokens,
                    _ => meter.text_message(text),
                },
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
