//! Sketches of messages: what kinds of content they are made of, and one line of what they say.

use epitome::thread::{Media, Message, Part, Role};

/// The longest piece of text in a excerpt, in characters.
const WORDS_MAX: usize = 64;

/// What a piece of a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The operator's words.
    System,
    /// The user's words.
    User,
    /// The model's words.
    Assistant,
    /// The model's thinking.
    Reasoning,
    /// Tool calls.
    Call,
    /// Tool results.
    Result,
    /// Pictures.
    Image,
    /// What earlier compactions left.
    Summary,
    /// Everything else.
    Other,
}

impl Kind {
    /// Every kind, in the order in which they are listed to people.
    pub const ALL: [Kind; 9] = [
        Kind::System,
        Kind::User,
        Kind::Assistant,
        Kind::Reasoning,
        Kind::Call,
        Kind::Result,
        Kind::Image,
        Kind::Summary,
        Kind::Other,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::System => "system",
            Kind::User => "user",
            Kind::Assistant => "assistant",
            Kind::Reasoning => "reasoning",
            Kind::Call => "call",
            Kind::Result => "result",
            Kind::Image => "image",
            Kind::Summary => "summary",
            Kind::Other => "other",
        }
    }

    /// The letter that stands for it where there is no color.
    pub fn letter(self) -> char {
        match self {
            Kind::System => 'S',
            Kind::User => 'U',
            Kind::Assistant => 'A',
            Kind::Reasoning => '~',
            Kind::Call => 'c',
            Kind::Result => '.',
            Kind::Image => 'i',
            Kind::Summary => '*',
            Kind::Other => '?',
        }
    }
}

/// The tokens of a message by kind; what the provider adds goes with the first part.
pub fn tokens_by_kind(message: &Message) -> Vec<(Kind, u64)> {
    let parts = message.parts().iter().enumerate();
    let mut kinds: Vec<(Kind, u64)> =
        parts.map(|(at, part)| (kind(message, part), message.part_tokens(at).get())).collect();
    let counted: u64 = kinds.iter().map(|(_, tokens)| tokens).sum();
    let added = message.tokens().get() - counted.min(message.tokens().get());
    match kinds.first_mut() {
        Some((_, tokens)) => *tokens += added,
        None => kinds.push((speaker(message), added)),
    }
    kinds
}

fn kind(message: &Message, part: &Part) -> Kind {
    match part {
        _ if message.is_summary() => Kind::Summary,
        Part::Text(_) => speaker(message),
        Part::Media(_) => Kind::Image,
        Part::Reasoning(_) => Kind::Reasoning,
        Part::ToolCall(_) => Kind::Call,
        Part::ToolResult(_) => Kind::Result,
        Part::Opaque(_) => Kind::Other,
    }
}

fn speaker(message: &Message) -> Kind {
    match message.role() {
        Role::System => Kind::System,
        Role::User => Kind::User,
        Role::Assistant => Kind::Assistant,
        Role::Tool => Kind::Result,
        Role::Other => Kind::Other,
    }
}

/// One line of what a message says.
pub fn line(parts: &[Part]) -> String {
    let parts: Vec<String> = parts.iter().map(part_line).filter(|words| !words.is_empty()).collect();
    match parts.is_empty() {
        true => "(empty)".to_owned(),
        false => parts.join(" + "),
    }
}

fn part_line(part: &Part) -> String {
    match part {
        Part::Text(text) => first_words(text),
        Part::Media(media) => first_words(&format!("{} {media}", media.kind.label().to_lowercase())),
        Part::Reasoning(_) => "reasoning".to_owned(),
        Part::ToolCall(call) => format!("{} {}", call.name, first_words(&call.arguments)),
        Part::ToolResult(result) if result.text.is_empty() && !result.media.is_empty() => {
            first_words(&named(&result.media).join(" "))
        }
        Part::ToolResult(result) => first_words(&result.text),
        Part::Opaque(opaque) => format!("[{}]", opaque.kind),
    }
}

/// The beginning of a text on one line.
pub fn first_words(text: &str) -> String {
    let mut out = String::new();
    for (count, word) in text.split_whitespace().enumerate() {
        if count > 0 {
            out.push(' ');
        }
        for c in word.chars() {
            if out.chars().count() >= WORDS_MAX {
                out.push('…');
                return out;
            }
            out.push(if c.is_control() { '.' } else { c });
        }
    }
    out
}

/// Everything a message says, for reading.
pub fn full_text(parts: &[Part]) -> String {
    let pieces: Vec<String> = parts.iter().map(part_whole).collect();
    pieces.join("\n")
}

fn part_whole(part: &Part) -> String {
    match part {
        Part::Text(text) => text.to_string(),
        Part::Media(media) => named(std::slice::from_ref(media)).concat(),
        Part::Reasoning(reasoning) if reasoning.text.is_empty() => "[sealed reasoning]".to_owned(),
        Part::Reasoning(reasoning) => format!("[reasoning]\n{}", reasoning.text),
        Part::ToolCall(call) => format!("[call {} {}]\n{}", call.name, call.id, call.arguments),
        Part::ToolResult(result) => {
            let media = named(&result.media);
            std::iter::once(result.text.to_string()).chain(media).collect::<Vec<_>>().join("\n")
        }
        Part::Opaque(opaque) => opaque.json.as_str().to_owned(),
    }
}

/// Media by kind, name, type and size.
fn named(media: &[Media]) -> Vec<String> {
    media.iter().map(|media| format!("[{}: {media}]", media.kind.label())).collect()
}
