//! Excerpts of messages: the kinds of content in them, one line of it, or all of it as text.

use epitome::thread::{Media, Message, Part, Role};
use epitome_runtime::log::part_words;

/// The longest piece of text in an excerpt, in characters.
const WORDS_MAX: usize = 64;

epitome_runtime::named_enum! {
    /// The kind of a piece of a context.
    #[derive(PartialOrd, Ord)]
    pub enum ContentKind {
        System = "system",
        User = "user",
        Assistant = "assistant",
        Reasoning = "reasoning",
        Call = "call",
        Result = "result",
        /// Images and files.
        Image = "image",
        /// Text that an earlier compaction wrote.
        Summary = "summary",
        Other = "other",
    }
}

impl ContentKind {
    /// Returns the letter that stands for it where there is no color.
    pub fn letter(self) -> char {
        match self {
            ContentKind::System => 'S',
            ContentKind::User => 'U',
            ContentKind::Assistant => 'A',
            ContentKind::Reasoning => '~',
            ContentKind::Call => 'c',
            ContentKind::Result => '.',
            ContentKind::Image => 'i',
            ContentKind::Summary => '*',
            ContentKind::Other => '?',
        }
    }
}

/// Returns the tokens of each part of a message; what the provider adds goes with the first.
pub fn tokens_by_kind(message: &Message) -> Vec<(ContentKind, u64)> {
    let parts = message.parts().iter().enumerate();
    let mut kinds: Vec<(ContentKind, u64)> =
        parts.map(|(at, part)| (kind(message, part), message.part_tokens(at).get())).collect();
    let counted: u64 = kinds.iter().map(|(_, tokens)| tokens).sum();
    let added = message.tokens().get() - counted.min(message.tokens().get());
    match kinds.first_mut() {
        Some((_, tokens)) => *tokens += added,
        None => kinds.push((speaker(message), added)),
    }
    kinds
}

fn kind(message: &Message, part: &Part) -> ContentKind {
    match part {
        _ if message.is_summary() => ContentKind::Summary,
        Part::Text(_) => speaker(message),
        Part::Media(_) => ContentKind::Image,
        Part::Reasoning(_) => ContentKind::Reasoning,
        Part::ToolCall(_) => ContentKind::Call,
        Part::ToolResult(_) => ContentKind::Result,
        Part::Opaque(_) => ContentKind::Other,
    }
}

fn speaker(message: &Message) -> ContentKind {
    match message.role() {
        Role::System => ContentKind::System,
        Role::User => ContentKind::User,
        Role::Assistant => ContentKind::Assistant,
        Role::Tool => ContentKind::Result,
        Role::Other => ContentKind::Other,
    }
}

/// Returns one line of a message.
pub fn line(parts: &[Part]) -> String {
    let parts: Vec<String> = parts.iter().map(part_line).filter(|words| !words.is_empty()).collect();
    if parts.is_empty() { "(empty)".to_owned() } else { parts.join(" + ") }
}

fn part_line(part: &Part) -> String {
    match part {
        Part::Text(text) => first_words(text),
        Part::Media(media) => first_words(&format!("{} {media}", media.kind.label().to_lowercase())),
        Part::Reasoning(_) => "reasoning".to_owned(),
        Part::ToolCall(call) => format!("{} {}", call.name, first_words(&call.arguments)),
        Part::ToolResult(result) if result.text.is_empty() && !result.media.is_empty() => {
            first_words(&media_lines(&result.media).join(" "))
        }
        Part::ToolResult(result) => first_words(&result.text),
        Part::Opaque(opaque) => format!("[{}]", opaque.kind),
    }
}

/// Returns the beginning of a text, on one line.
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

/// Returns everything in a message, as text. What is said comes first, in the lines that `recall` counts; what is only thought, or
/// not understood, follows.
pub fn full_text(parts: &[Part]) -> String {
    let unsaid = parts.iter().filter_map(|part| match part {
        Part::Reasoning(reasoning) if reasoning.text.is_empty() => Some("[sealed reasoning]".to_owned()),
        Part::Reasoning(reasoning) => Some(format!("[reasoning]\n{}", reasoning.text)),
        Part::Opaque(opaque) => Some(opaque.json.as_str().to_owned()),
        _ => None,
    });
    parts.iter().filter_map(part_words).chain(unsaid).collect::<Vec<String>>().join("\n")
}

/// Describes media by kind, name, type and size.
fn media_lines(media: &[Media]) -> Vec<String> {
    media.iter().map(|media| format!("[{}: {media}]", media.kind.label())).collect()
}
