//! What stands where something left the prompt, in words.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::budget::{Meter, Tokens, truncate};
use crate::plan::{Action, ClearReason, Record, part_content};
use crate::policy::{CallEnding, CallMeaning, ReadBy, Tools};
use crate::summary::{CommandEnding, GAP, clip_middle, gist, one_line};
use crate::thread::{Durability, Media, MediaKind, Message, MessageId, Part, Role, Thread, ToolResult};

/// The words that stand in the place of a record's span or part; empty for a summary, which has its own.
pub(crate) fn stand_in(thread: &Thread, record: &Record, tools: &Tools, meter: Meter<'_>) -> String {
    match (&record.action, record.part) {
        (Action::Drop { keywords }, _) => dropped(thread, record, keywords, tools),
        (Action::Externalize { artifact, head, tail, by }, Some(part)) => {
            match &thread.message(part.place).parts()[part.part] {
                Part::Media(media) => moved_media(media, &thread.reference(part.place), artifact.as_str(), *by),
                Part::ToolCall(call) => shortened_arguments(&call.arguments, *head + *tail, meter),
                _ if *tail > Tokens::ZERO => trimmed(thread, part.place, part.part, *head + *tail, meter),
                _ => pointer(thread, part.place, part.part, (artifact.as_str(), *by), *head, (tools, meter)),
            }
        }
        (Action::Clear { why, preserved, .. }, Some(part)) => {
            let Part::ToolResult(result) = &thread.message(part.place).parts()[part.part] else { return String::new() };
            let ending = tools.ending_at(thread, part.place, result);
            let mut text = cleared(thread, heading(result, ending), why, preserved);
            if *why == ClearReason::Durability && tools.durability(result) == Durability::Anchoring {
                text.push_str(&format!(
                    "\nSummary: {}",
                    gist(None, &result.text, CommandEnding::of(ending, &result.text), "").full
                ));
            }
            text + &media_lines(result)
        }
        _ => String::new(),
    }
}

/// Whether a text is one that stands in the place of something else and names a message. A list has no other place to
/// say that something left it.
pub(crate) fn is_stand_in(text: &str) -> bool {
    let opens = |words: &str| text.starts_with(words);
    let second = || text.lines().nth(1).unwrap_or_default();
    opens("[Externalized Content - artifact:")
        || opens("[Dropped - Turns ")
        || opens("[Image m") && text.ends_with(", moved out]")
        || opens("[") && (second().starts_with("The same as in m") || second().starts_with("Out of date since m"))
        || text.contains("[... the middle is left out; whole: m")
}

/// The most results of a dropped span that an index of it names fields of.
const ANCHORS_MAX: usize = 12;
/// The most characters of the words that a dropped span is quoted by.
const QUOTE_CHARS_MAX: usize = 120;

fn dropped(thread: &Thread, record: &Record, keywords: &[String], tools: &Tools) -> String {
    let (first, last) = record.span.turns();
    let range = record.span.range();
    let (from, to) = (thread.reference(range.start), thread.reference(range.end - 1));
    let mut text = format!("[Dropped - Turns {first}-{last}, {from}-{to}]");
    if !keywords.is_empty() {
        text.push_str("\nIt was about: ");
        text.push_str(&keywords.join(", "));
    }
    let said = |role: Role| range.clone().filter(move |place| speaks(thread.message(*place), role));
    for (name, place) in [("It began", said(Role::User).next()), ("It ended", said(Role::Assistant).next_back())] {
        let Some(place) = place else { continue };
        let message = thread.message(place);
        let words = if message.role() == Role::User { message.own_text() } else { message.text() };
        let words = one_line(words.trim().lines().next().unwrap_or_default(), QUOTE_CHARS_MAX);
        text.push_str(&format!("\n{name}, {}: \"{words}\"", thread.reference(place)));
    }
    let results = range.rev().flat_map(|place| thread.message(place).results().map(move |(_, result)| (place, result)));
    let anchored = results.filter(|(_, result)| tools.durability(result) == Durability::Anchoring);
    let fields = anchored.map(|(place, result)| (place, result, tools.preserved_fields(result)));
    for (place, result, fields) in fields.filter(|(.., fields)| !fields.is_empty()).take(ANCHORS_MAX) {
        let heading = heading(result, tools.ending_at(thread, place, result));
        text.push_str(&format!("\n{} {heading}{}", thread.reference(place), key_data(&fields)));
    }
    text
}

/// Tells whether somebody says something in a message: a person, or the agent beside its calls.
fn speaks(message: &Message, role: Role) -> bool {
    let has_words = if role == Role::User { message.opens_turn() } else { !message.text().trim().is_empty() };
    message.role() == role && has_words && !message.is_summary()
}

/// The fields that survive a result, on a line of their own.
fn key_data(fields: &BTreeMap<String, String>) -> String {
    if fields.is_empty() {
        return String::new();
    }
    format!("\nKey data: {}", serde_json::to_string(fields).unwrap_or_default())
}

/// A placeholder for media: what it was, its name, type and size, and how it is had back.
fn moved_media(media: &Media, reference: &str, artifact: &str, by: ReadBy) -> String {
    let back = match by {
        ReadBy::Tool => format!("moved out; to have it back, call: read_artifact(\"{artifact}\")"),
        ReadBy::Nobody => format!("left out to save room, kept as artifact {artifact}"),
    };
    let words = format!("[{} {reference}: {media}; {back}]", media.kind.label());
    match transcript(media) {
        Some(transcript) => format!("{words}\nTranscript: {transcript}"),
        None => words,
    }
}

/// What was said in a recording, where the provider wrote it down.
fn transcript(media: &Media) -> Option<String> {
    let json: Value = serde_json::from_str(media.json.as_str()).ok().filter(|_| media.kind == MediaKind::Audio)?;
    Some(json.get("transcript")?.as_str()?.to_owned())
}

/// The media of a result that left with it, a line each.
pub(super) fn media_lines(result: &ToolResult) -> String {
    result.media.iter().map(|media| format!("\n[{}: {media}]", media.kind.label())).collect()
}

/// A pointer to a result that moved out: what it is, what came of the call, how it begins, and when to read it.
fn pointer(
    thread: &Thread,
    place: usize,
    part: usize,
    (artifact, by): (&str, ReadBy),
    head: Tokens,
    (tools, meter): (&Tools, Meter<'_>),
) -> String {
    let content = words_of_part(thread, place, part);
    let (mut summary, mut media, mut subject) = (String::new(), String::new(), None);
    if let Part::ToolResult(result) = &thread.message(place).parts()[part] {
        let ending = tools.ending_at(thread, place, result);
        let outcome = ending.outcome.map(|outcome| format!("{outcome}, ")).unwrap_or_default();
        let fields = key_data(&tools.preserved_fields(result));
        summary = format!("; {outcome}{}{fields}", gist(None, content, CommandEnding::of(ending, content), "").full);
        media = media_lines(result);
        subject = thread.call_of(place, result).and_then(|call| call_subject(&tools.meaning(call)));
    }
    let preview = truncate(meter.counter(), content, head);
    let preview = preview.rsplit_once(char::is_whitespace).map_or(preview, |(whole, _)| whole).trim_end();
    let lines = content.lines().count();
    let s = if lines == 1 { "" } else { "s" };
    let reference = thread.reference(place);
    let back = match by {
        ReadBy::Tool => {
            let hint = subject.map(|of| format!("Read it when the full text of {of} is needed.\n")).unwrap_or_default();
            format!("{hint}To retrieve full content, call: read_artifact(\"{artifact}\")")
        }
        ReadBy::Nobody => "The rest was left out to save room.".to_owned(),
    };
    format!(
        "[Externalized Content - artifact:{artifact}]\nSummary: {reference}, {lines} line{s}{summary}\nBeginning:\n{preview}{media}\n{back}"
    )
}

/// The most characters of a command or a query that a hint names.
const SUBJECT_CHARS_MAX: usize = 60;

/// What a call is about: its path, or else its command or its query.
fn call_subject(meaning: &CallMeaning) -> Option<String> {
    let named = meaning.paths.first().or(meaning.command.as_ref()).or(meaning.query.as_ref())?;
    Some(one_line(named, SUBJECT_CHARS_MAX))
}

fn trimmed(thread: &Thread, place: usize, part: usize, keep: Tokens, meter: Meter<'_>) -> String {
    let content = words_of_part(thread, place, part);
    match clip_middle(content, keep, &|text| meter.text(text)) {
        Some(short) => {
            short.replacen(GAP, &format!("[... the middle is left out; whole: {} ...]", thread.reference(place)), 1)
        }
        None => content.to_owned(),
    }
}

/// The words of a part, without its media.
fn words_of_part(thread: &Thread, place: usize, part: usize) -> &str {
    match &thread.message(place).parts()[part] {
        Part::ToolResult(result) => &result.text,
        _ => part_content(thread, place, part).unwrap_or_default(),
    }
}

/// Arguments with their long strings shortened; still JSON.
fn shortened_arguments(arguments: &str, keep: Tokens, meter: Meter<'_>) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(mut value) => {
            shorten(&mut value, keep, meter);
            value.to_string()
        }
        Err(_) => arguments.to_owned(),
    }
}

fn shorten(value: &mut Value, keep: Tokens, meter: Meter<'_>) {
    match value {
        Value::String(text) => {
            if let Some(short) = clip_middle(text, keep, &|text| meter.text(text)) {
                *text = short;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, keep, meter)),
        Value::Object(fields) => fields.values_mut().for_each(|item| shorten(item, keep, meter)),
        _ => {}
    }
}

/// The tool and how its call ended, where that is known: `[bash: failure]`, `[read]`.
fn heading(result: &ToolResult, ending: CallEnding) -> String {
    let tool = if result.tool.is_empty() { "tool" } else { &result.tool };
    match ending.outcome {
        Some(outcome) => format!("[{tool}: {outcome}]"),
        None => format!("[{tool}]"),
    }
}

fn cleared(thread: &Thread, heading: String, why: &ClearReason, preserved: &BTreeMap<String, String>) -> String {
    let mark = |id: &MessageId| {
        let place = thread.messages().iter().position(|message| message.id() == *id);
        place.map_or_else(|| "a later message".to_owned(), |place| thread.reference(place))
    };
    let mut text = match why {
        ClearReason::Policy { placeholder } | ClearReason::Own { placeholder } => placeholder.clone(),
        _ => heading,
    };
    match why {
        ClearReason::Duplicate { of } => text.push_str(&format!("\nThe same as in {}.", mark(of))),
        ClearReason::Superseded { by } => text.push_str(&format!("\nOut of date since {}.", mark(by))),
        _ => {}
    }
    text + &key_data(preserved)
}
