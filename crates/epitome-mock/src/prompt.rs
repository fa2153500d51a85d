//! A request as the model would read it: pieces in the provider's render order, each with its tokens and its prefix.
//!
//! Tools come first, then the system prompt, then the messages. Cache marks are noted and are no part of a prefix.
//! Counting is the library's; what was counted once is remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use epitome::budget::{ImageRule, Meter, Overhead, TokenCounter, Tokens, counter_for};
use epitome::thread::Raw;
use epitome::wire::{Dialect, decode_message, media};
use serde_json::{Value, json};

use super::endpoint::ProviderProtocol;
use super::request::MockRequest;
use super::seal::{self, PromptPrefix};

/// A request as a list of pieces in the provider's order, counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedPrompt {
    pub(crate) pieces: Vec<CountedPiece>,
    /// The tokens that start the reply.
    reply: u64,
}

/// A tool, a block of the system prompt, or a message or a block of one.
#[derive(Clone, Debug)]
pub(crate) struct CountedPiece {
    /// Everything up to and including this piece, as the cache sees it.
    pub(crate) prefix: PromptPrefix,
    /// The same as thinking is bound to it: a compaction of ours is what it stands for.
    bound: PromptPrefix,
    pub(crate) tokens: u64,
    pub(crate) mark: Option<CacheMark>,
    /// The message and the block of it.
    place: Option<(usize, usize)>,
}

/// A cache mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheMark {
    /// For five minutes.
    Short,
    /// For an hour.
    Long,
}

impl CountedPrompt {
    /// Returns the tokens of the whole prompt.
    pub(crate) fn tokens(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.tokens).sum::<u64>() + self.reply
    }

    /// Returns the prefix before a block of a message; `None` for a block that a compaction hides.
    pub(crate) fn before(&self, message: usize, block: usize) -> Option<PromptPrefix> {
        let at = self.pieces.iter().position(|piece| piece.place == Some((message, block)))?;
        Some(bound_of(&self.pieces[..at]))
    }

    /// All of it, as thinking is bound to it.
    pub(crate) fn bound(&self) -> PromptPrefix {
        bound_of(&self.pieces)
    }

    fn whole(&self) -> PromptPrefix {
        self.pieces.last().map_or_else(PromptPrefix::default, |piece| piece.prefix)
    }

    fn push(&mut self, role: &str, value: &Value, tokens: u64, place: Option<(usize, usize)>) {
        let mut bytes = role.as_bytes().to_vec();
        render(value, &mut bytes);
        let (prefix, bound) = (self.whole().then(&bytes), self.bound().then(&bytes));
        self.pieces.push(CountedPiece { prefix, bound, tokens, mark: mark_of(value), place });
    }
}

fn bound_of(pieces: &[CountedPiece]) -> PromptPrefix {
    pieces.last().map_or_else(PromptPrefix::default, |piece| piece.bound)
}

fn mark_of(block: &Value) -> Option<CacheMark> {
    let own = block.get("cache_control").filter(|mark| !mark.is_null());
    let inner = || block.get("content")?.as_array()?.iter().rev().find_map(|part| part.get("cache_control"));
    let mark = own.or_else(inner)?;
    Some(if mark.get("ttl").and_then(Value::as_str) == Some("1h") { CacheMark::Long } else { CacheMark::Short })
}

/// A value's JSON without cache marks.
fn render(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            out.push(b'{');
            for (name, value) in fields.iter().filter(|(name, _)| !is_mark(name)) {
                out.extend_from_slice(name.as_bytes());
                out.push(b':');
                render(value, out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            items.iter().for_each(|item| render(item, out));
            out.push(b']');
        }
        Value::String(text) => {
            out.push(b'"');
            out.extend_from_slice(text.as_bytes());
            out.push(0);
        }
        other => out.extend_from_slice(other.to_string().as_bytes()),
    }
}

fn is_mark(name: &str) -> bool {
    matches!(name, "cache_control" | "prompt_cache_breakpoint")
}

/// The most counts that are remembered.
const COUNTS_MAX: usize = 200_000;

/// Counts requests; remembers the counts of pieces it has seen.
#[derive(Default)]
pub(crate) struct PromptCounter {
    counts: Mutex<HashMap<[u8; 32], Arc<[u64]>>>,
}

impl PromptCounter {
    /// Counts a request, piece by piece.
    pub(crate) fn count(&self, request: &MockRequest) -> CountedPrompt {
        let counter = counter_for(Some(request.model()));
        let scale = RequestCounter {
            scales: self,
            model: request.model(),
            counter: &*counter,
            dialect: dialect(request.protocol()),
        };
        match request.protocol() {
            ProviderProtocol::Gemini => scale.gemini(request),
            protocol => scale.request(request, protocol),
        }
    }

    /// The tokens of a text.
    pub(crate) fn text(&self, model: &str, text: &str) -> u64 {
        counter_for(Some(model)).count(text).get()
    }

    fn remembered(&self, key: &[u8; 32]) -> Option<Arc<[u64]>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn remember(&self, key: [u8; 32], counts: &Arc<[u64]>) {
        let mut known = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= COUNTS_MAX {
            known.clear();
        }
        known.insert(key, counts.clone());
    }
}

fn dialect(protocol: ProviderProtocol) -> Dialect {
    match protocol {
        ProviderProtocol::Chat | ProviderProtocol::Gemini => Dialect::Chat,
        ProviderProtocol::Responses => Dialect::Responses,
        ProviderProtocol::Anthropic => Dialect::Anthropic,
    }
}

/// Counts one request.
struct RequestCounter<'a> {
    scales: &'a PromptCounter,
    model: &'a str,
    counter: &'a dyn TokenCounter,
    dialect: Dialect,
}

impl RequestCounter<'_> {
    fn request(&self, request: &MockRequest, protocol: ProviderProtocol) -> CountedPrompt {
        let overhead = Overhead::of(self.dialect);
        let mut prompt = CountedPrompt { reply: overhead.reply.get(), ..CountedPrompt::default() };
        self.tools(request.list("tools"), overhead, &mut prompt);
        match protocol {
            ProviderProtocol::Responses => {
                self.system(request.field("instructions"), overhead, &mut prompt);
                self.items(&input_items(request), &mut prompt);
            }
            ProviderProtocol::Anthropic => {
                self.system(request.field("system"), overhead, &mut prompt);
                self.blocks(request.list("messages"), overhead, &mut prompt);
                if request.field("cache_control").is_some()
                    && let Some(last) = prompt.pieces.last_mut()
                {
                    last.mark = mark_of(&request.body).or(last.mark);
                }
            }
            _ => self.items(request.list("messages"), &mut prompt),
        }
        prompt
    }

    fn tools(&self, tools: &[Value], overhead: Overhead, prompt: &mut CountedPrompt) {
        for (at, tool) in tools.iter().enumerate() {
            let once = if at == 0 { overhead.tools.get() } else { 0 };
            let tokens = self.counted(tool, || vec![overhead.tool_schema(self.counter, tool)])[0];
            prompt.push("tool", tool, tokens + once, None);
        }
    }

    fn system(&self, system: Option<&Value>, overhead: Overhead, prompt: &mut CountedPrompt) {
        let blocks = match system {
            Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
            Some(Value::Array(blocks)) => blocks.clone(),
            _ => return,
        };
        for (at, block) in blocks.iter().enumerate() {
            let text = block.get("text").and_then(Value::as_str).unwrap_or_default();
            let once = if at == 0 { overhead.per_message.get() } else { 0 };
            let tokens = self.counted(block, || vec![self.counter.count(text)])[0];
            prompt.push("system", block, tokens + once, None);
        }
    }

    /// One piece for each message or item.
    fn items(&self, items: &[Value], prompt: &mut CountedPrompt) {
        let overhead = Overhead::of(self.dialect);
        for (at, item) in items.iter().enumerate() {
            let tokens: u64 = self.parts(item).iter().sum();
            prompt.push("", item, tokens + overhead.per_message.get(), Some((at, 0)));
        }
    }

    /// One piece for each block, from the newest compaction on.
    fn blocks(&self, messages: &[Value], overhead: Overhead, prompt: &mut CountedPrompt) {
        let start = messages.iter().rposition(is_compacted).unwrap_or(0);
        for (at, message) in messages.iter().enumerate().skip(start) {
            let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
            let counts = self.parts(message);
            let blocks = content_blocks(message);
            let whole: u64 = counts.iter().sum();
            for (block_at, block) in blocks.iter().enumerate() {
                let own = match counts.len() == blocks.len() {
                    true => counts[block_at],
                    false if block_at == 0 => whole,
                    false => 0,
                };
                let once = if block_at == 0 { overhead.per_message.get() } else { 0 };
                prompt.push(role, block, own + once, Some((at, block_at)));
                if let (Some(prefix), Some(piece)) = (self.compacted_prefix(block), prompt.pieces.last_mut()) {
                    piece.bound = prefix;
                }
            }
        }
    }

    /// The prefix that a compaction of ours stands for.
    fn compacted_prefix(&self, block: &Value) -> Option<PromptPrefix> {
        let is_compaction = block.get("type").and_then(Value::as_str) == Some("compaction");
        let sealed = block.get("encrypted_content").filter(|_| is_compaction)?.as_str()?;
        seal::stands_for(self.model, sealed)
    }

    fn parts(&self, message: &Value) -> Arc<[u64]> {
        self.counted(message, || {
            let decoded = decode_message(self.dialect, &Raw::whole(message.to_string()));
            Meter::new(self.counter, self.dialect).parts(&decoded)
        })
    }

    fn counted(&self, value: &Value, count: impl FnOnce() -> Vec<Tokens>) -> Arc<[u64]> {
        let mut bytes = self.model.as_bytes().to_vec();
        bytes.push(0);
        render(value, &mut bytes);
        let key = *blake3::hash(&bytes).as_bytes();
        self.scales.remembered(&key).unwrap_or_else(|| {
            let counts: Arc<[u64]> = count().into_iter().map(Tokens::get).collect();
            self.scales.remember(key, &counts);
            counts
        })
    }

    /// The tokens of a Gemini content: its words, its media by Gemini's rule, and the JSON of whatever else is in it.
    fn spoken(&self, value: &Value) -> Tokens {
        let Some(parts) = value.get("parts").and_then(Value::as_array) else {
            return self.counter.count(&value.to_string());
        };
        let words = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
        let media = |part: &Value| media(part, &|| Raw::whole(part.to_string()));
        let shown = parts.iter().filter_map(media).map(|media| ImageRule::Gemini.count(&media, self.counter).tokens);
        let others = parts.iter().filter(|part| media(part).is_none());
        let others: Vec<String> = others.map(|part| words(part).unwrap_or_else(|| part.to_string())).collect();
        self.counter.count(&others.join("\n")) + shown.sum()
    }

    fn gemini(&self, request: &MockRequest) -> CountedPrompt {
        let mut prompt = CountedPrompt { reply: 3, ..CountedPrompt::default() };
        let count = |value: &Value| self.counted(value, || vec![self.spoken(value)])[0];
        for tool in request.list("tools") {
            prompt.push("tool", tool, count(tool), None);
        }
        if let Some(system) = request.field("systemInstruction") {
            prompt.push("system", system, count(system), None);
        }
        for (at, content) in request.list("contents").iter().enumerate() {
            prompt.push("", content, count(content) + 4, Some((at, 0)));
        }
        prompt
    }
}

/// The items of a Responses request; a text is a user's message.
pub(crate) fn input_items(request: &MockRequest) -> Vec<Value> {
    match request.field("input") {
        Some(Value::String(text)) => vec![json!({"type": "message", "role": "user", "content": text})],
        Some(Value::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}

/// The blocks of a message; a text is one block.
pub(crate) fn content_blocks(message: &Value) -> Vec<Value> {
    match message.get("content") {
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        Some(Value::Array(blocks)) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// Returns true if a message holds a compaction with content.
fn is_compacted(message: &Value) -> bool {
    let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
    blocks.filter(|block| block.get("type").and_then(Value::as_str) == Some("compaction")).any(|block| {
        ["content", "encrypted_content"].iter().any(|field| block.get(field).is_some_and(|value| !value.is_null()))
    })
}
