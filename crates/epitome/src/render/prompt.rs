//! The prompt: a thread under a compaction, message by message.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::repair::{Repair, repairs, retold, retold_voice};
use super::stand_in::stand_in;
use crate::budget::{Meter, Tokens};
use crate::plan::{Action, Compaction, Record};
use crate::policy::{Policy, SummaryPlace};
use crate::summary::{PromptWords, ShownMessage, all_words, still_holds};
use crate::thread::{Message, Part, Raw, Role, Thread};
use crate::wire::{
    Dialect, MarkLifetime, PartEdit, PromptMessage, Voice, cache_marks, decode_message, edit, item_id, say, without_id,
};

/// The most cache marks a provider takes.
const MARKS_MAX: usize = 4;

/// What the model gets: a thread's messages, kept, edited or written, in a dialect.
///
/// [`render`] makes it, and it belongs to the thread that it was rendered from: kept messages are places, looked up when the
/// prompt is counted or written. Cache marks are kept apart from the messages and are put on as it is written, so that the
/// tokens and the layout of a prompt are the same with and without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The dialect.
    pub dialect: Dialect,
    /// Its messages, in order. Their places are those of the thread.
    pub messages: Vec<PromptMessage>,
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
        _ => Prompt { dialect, messages: untouched(thread, dialect), marks: Vec::new() },
    };
    prompt.rehydrate(thread, rehydrated);
    if policy.render.checkpoints {
        prompt.place_marks(thread, compaction);
    }
    prompt
}

/// All messages as they are, hidden ones replaced.
fn untouched(thread: &Thread, dialect: Dialect) -> Vec<PromptMessage> {
    (0..thread.len()).map(|place| hidden(thread, place, dialect).unwrap_or(PromptMessage::Kept(place))).collect()
}

/// What stands for a hidden message.
fn hidden(thread: &Thread, place: usize, dialect: Dialect) -> Option<PromptMessage> {
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
    edit(dialect, message.body(), &edits).map(|json| PromptMessage::Edited { place, json })
}

/// Everything that is said in a prompt, to look items up in.
pub(crate) fn said_in(prompt: &Prompt, thread: &Thread) -> PromptWords {
    let mut said = PromptWords::default();
    for message in &prompt.messages {
        let (place, words) = match message {
            PromptMessage::Kept(place) => (*place, all_words(thread, *place)),
            // The strings of an edited message, unescaped: its JSON would hide line breaks.
            PromptMessage::Edited { place, json } => (*place, json_words(json)),
            PromptMessage::Written { text, .. } => {
                said.write(text);
                continue;
            }
        };
        let message = thread.message(place);
        if message.is_summary() {
            said.write(&words);
        } else {
            let is_user = message.opens_turn();
            said.shown.push(ShownMessage { place: message.log_place(), is_user, words });
        }
    }
    said
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
    messages: Vec<PromptMessage>,
    /// Reasoning before the next message was left out: ids that belong to it go as well.
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
            messages: Vec::new(),
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
            if place == self.compaction.plan.covers {
                self.resume();
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
        if self.compaction.plan.covers >= self.thread.len() {
            self.resume();
        }
        self.user_first();
        Prompt { dialect: self.dialect, messages: self.messages, marks: Vec::new() }
    }

    /// What must be in every prompt and would not be otherwise.
    fn carried(&mut self) {
        let carried = &self.compaction.plan.carried;
        if !carried.is_empty() {
            self.messages.push(PromptMessage::note(Voice::User, still_holds(carried)));
        }
    }

    /// The words that send the model on behind what the plan covers. Later messages stand behind them, so that the prompt before
    /// them stays the same.
    fn resume(&mut self) {
        let words = &self.policy.render.resume;
        if self.compaction.plan.resumes && !words.is_empty() {
            self.messages.push(PromptMessage::note(Voice::User, &**words));
        }
    }

    fn span(&mut self, record: &Record) {
        match &record.action {
            Action::Summarize { summary, kept } => {
                let stays: Vec<usize> =
                    record.span.range().filter(|place| kept.contains(&self.thread.message(*place).id())).collect();
                let end = record.span.range().end;
                if self.policy.render.place == SummaryPlace::Span {
                    self.summary(*summary, stays.first().copied().unwrap_or(end));
                }
                for place in stays {
                    self.message(place);
                }
                if self.policy.render.place == SummaryPlace::Cut {
                    self.summary(*summary, end);
                }
            }
            _ => {
                let text = stand_in(self.thread, record, &self.policy.tools, self.meter);
                self.messages.push(PromptMessage::note(Voice::User, text));
            }
        }
    }

    /// Writes a summary before the message at a place, with the question that it answers where it speaks as the assistant.
    fn summary(&mut self, summary: usize, next: usize) {
        let Some(summary) = self.compaction.summaries.get(summary) else { return };
        let layout = &self.policy.render;
        let before = self.messages.iter().rev().find_map(|message| self.voice_of(message));
        let asks = !layout.question.is_empty() && before != Some(Role::User);
        let voice = self.allowed_voice(layout.role, if asks { Some(Role::User) } else { before }, next);
        if asks && voice == Voice::Assistant {
            self.messages.push(PromptMessage::note(Voice::User, &*layout.question));
        }
        let text = layout.wrap(&summary.text);
        self.messages.push(PromptMessage::summary(voice, text));
    }

    /// The voice that the policy wants between two messages, unless the dialect forbids it there.
    fn allowed_voice(&self, wanted: Voice, before: Option<Role>, next: usize) -> Voice {
        match wanted {
            Voice::Assistant => {
                // What came after the plan was made must not change what was written before it.
                let next = (next < self.compaction.plan.covers).then(|| self.thread.message(next));
                let fits = before == Some(Role::User) && next.is_some_and(|next| next.role() == Role::User);
                if fits { Voice::Assistant } else { Voice::User }
            }
            Voice::System if self.dialect == Dialect::Anthropic => Voice::User,
            other => other,
        }
    }

    fn voice_of(&self, message: &PromptMessage) -> Option<Role> {
        let role = match message {
            PromptMessage::Kept(place) | PromptMessage::Edited { place, .. } => self.thread.message(*place).role(),
            PromptMessage::Written { voice: Voice::User, .. } => Role::User,
            PromptMessage::Written { voice: Voice::Assistant, .. } => Role::Assistant,
            PromptMessage::Written { voice: Voice::System, .. } => Role::System,
        };
        (role != Role::System).then_some(role)
    }

    fn message(&mut self, place: usize) {
        let message = self.thread.message(place);
        if let Some(replacement) = hidden(self.thread, place, self.dialect) {
            self.messages.push(replacement);
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
            let kept = self.unbound(place, message).unwrap_or(PromptMessage::Kept(place));
            self.messages.push(kept);
        } else if let Some(json) = edit(self.dialect, message.body(), &edits) {
            self.messages.push(PromptMessage::Edited { place, json });
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
        self.messages.push(PromptMessage::Edited { place, json });
    }

    /// A Responses item without its id, where the id belongs to reasoning that was left out or was used before.
    fn unbound(&mut self, place: usize, message: &Message) -> Option<PromptMessage> {
        if self.dialect != Dialect::Responses {
            return None;
        }
        let orphaned = self.unreasoned && message.role() == Role::Assistant;
        let repeated = item_id(message.raw().as_str()).is_some_and(|id| !self.item_ids.insert(id));
        (orphaned || repeated).then(|| PromptMessage::Edited { place, json: without_id(message.raw().as_str()) })
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
        let first = self.messages.iter().position(|message| self.voice_of(message).is_some());
        if let Some(first) = first
            && self.voice_of(&self.messages[first]) != Some(Role::User)
            && !self.starts_with_system_as_user()
        {
            let text = "[The earlier part of this conversation is not shown.]".to_owned();
            self.messages.insert(first, PromptMessage::note(Voice::User, text));
        }
    }
}

impl Renderer<'_> {
    fn starts_with_system_as_user(&self) -> bool {
        self.dialect == Dialect::Anthropic
            && self.messages.first().is_some_and(|message| self.voice_of(message).is_none())
    }

    /// Anthropic takes no system message at the front of the list: there it speaks as the user.
    fn system_as_user(&mut self) {
        for message in &mut self.messages {
            match message {
                PromptMessage::Kept(place) | PromptMessage::Edited { place, .. }
                    if self.thread.message(*place).role() == Role::System =>
                {
                    let json = say(self.dialect, Voice::User, &self.thread.message(*place).text());
                    *message = PromptMessage::Edited { place: *place, json };
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
    /// Returns its messages with their cache marks, for a document whose items are the thread's messages.
    pub fn marked_messages(&self, thread: &Thread) -> Vec<PromptMessage> {
        let mut messages = self.messages.clone();
        for (at, lifetime) in &self.marks {
            messages[*at] = messages[*at].marked(*lifetime, |place| thread.message(place).raw().as_str());
        }
        messages
    }

    /// Returns the JSON of each message; kept ones are shared, not copied.
    pub fn to_raw(&self, thread: &Thread) -> Vec<Raw> {
        let raw = |message: PromptMessage| match message {
            PromptMessage::Kept(place) => thread.message(place).raw().clone(),
            PromptMessage::Edited { json, .. } => Raw::from(json),
            other => Raw::from(self.json(thread, &other).into_owned()),
        };
        self.marked_messages(thread).into_iter().map(raw).collect()
    }

    /// Returns the JSON of each message.
    pub fn to_json(&self, thread: &Thread) -> Vec<String> {
        self.to_raw(thread).iter().map(ToString::to_string).collect()
    }

    fn json<'a>(&self, thread: &'a Thread, message: &'a PromptMessage) -> Cow<'a, str> {
        message.json(self.dialect, |place| thread.message(place).raw().as_str())
    }

    /// Puts brought-back content before the message that opened the current turn.
    fn rehydrate(&mut self, thread: &Thread, rehydrated: &[Rehydrated]) {
        if rehydrated.is_empty() {
            return;
        }
        let opens = thread.turn_start();
        let is_newer = |message: &PromptMessage| message.place().is_some_and(|place| place >= opens);
        let at = self.messages.iter().position(is_newer).unwrap_or(self.messages.len());
        let notes = rehydrated.iter().map(|content| {
            let cut = if content.truncated { ", cut" } else { "" };
            let text = format!("[Brought back for this request: {}{cut}]\n{}", content.reference, content.content);
            PromptMessage::note(Voice::User, text)
        });
        self.messages.splice(at..at, notes);
    }

    /// Cache checkpoints: one before the tail, one at its end, as far as the provider's limit allows.
    fn place_marks(&mut self, thread: &Thread, compaction: Option<&Compaction>) {
        if self.dialect != Dialect::Anthropic || self.messages.is_empty() {
            return;
        }
        let set: Vec<Vec<MarkLifetime>> =
            self.messages.iter().map(|message| cache_marks(&self.json(thread, message))).collect();
        let tail = compaction.map_or(0, |compaction| compaction.plan.tail_from);
        let before = self.messages.iter().rposition(|message| match message {
            PromptMessage::Kept(place) | PromptMessage::Edited { place, .. } => *place < tail,
            PromptMessage::Written { summary, .. } => *summary,
        });
        let wanted = before.into_iter().chain([self.messages.len() - 1]);
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
        for message in &self.messages {
            total += match message {
                PromptMessage::Kept(place) => thread.message(*place).tokens(),
                PromptMessage::Written { text, .. } => match known {
                    Some((same, tokens)) if same == text => tokens,
                    _ => meter.text_message(text),
                },
                PromptMessage::Edited { json, .. } => {
                    let raw = crate::thread::Raw::whole(json.as_str());
                    let message = decode_message(self.dialect, &raw);
                    meter.message(&meter.parts(&message))
                }
            };
        }
        total
    }
}
