//! `epitome read`: messages, an artifact or a file; all of it, a range of lines, or the lines that contain a text.

use std::path::Path;

use epitome::files::FileHistory;
use epitome::plan::{ArtifactId, content_of};
use epitome::session::Session;
use epitome::thread::Raw;
use epitome::wire::{Dialect, decode_message};
use epitome_runtime::recall::{FileQuestion, MessageSelection};
use serde_json::{Value, json};

use super::export::stored_text;
use crate::artifact_folder::ArtifactFolder;
use crate::cli::ReadArgs;
use crate::cli_config::CliConfig;
use crate::excerpt;
use crate::failure::{Answer, Exit, Failure, Result};
use crate::find_message::{self, parse_reference};
use crate::input::{read, session};
use crate::numbers::{self, NumberedMessage};
use crate::receipt::count;

/// A message or an artifact.
struct Content {
    /// A description for programs.
    json: Value,
    text: String,
    /// A message's own JSON.
    raw: Option<String>,
}

/// The most messages before and after those that were asked for.
const AROUND_MAX: u64 = 50;

pub fn run(args: &ReadArgs, config: Option<&Path>) -> Result<Answer> {
    let path = &args.input.file;
    let text = match path.exists() || path == Path::new("-") {
        true => read(path)?.text,
        false => stored_text(path, &args.store_options, config)?,
    };
    let session = session(text, &args.input)?;
    let folder = ArtifactFolder::of(args.input.artifacts.as_deref(), path);
    let content = match (&args.edits, &args.stands) {
        (Some(path), _) => file(args, &FileQuestion::Edits(path.clone()), &session, &folder, config)?,
        (_, Some(path)) => file(args, &FileQuestion::File(path.clone()), &session, &folder, config)?,
        _ => named(args, &args.ids.join(", "), &session, &folder)?,
    };
    let text = content.raw.filter(|_| args.raw).unwrap_or(content.text);
    select(args, &text, content.json)
}

/// Reads what ids name: one artifact, one message, or several messages.
fn named(args: &ReadArgs, id: &str, session: &Session, folder: &ArtifactFolder) -> Result<Content> {
    if let Some(content) = ArtifactId::parse(id).and_then(|id| artifact(&id, session, folder)) {
        return Ok(content);
    }
    match MessageSelection::parse(id) {
        Some(selection) if args.around > 0 || selection.single().is_none() => {
            messages(args, &selection, session, folder)
        }
        _ => message(args, id, session, folder),
    }
}

/// Reads several messages, each under its number and role. Of a large one its beginning and its end are shown, so that the others are
/// not lost behind it. Numbers beyond the conversation are named at the end; if there is no other, they are an error.
fn messages(
    args: &ReadArgs,
    selection: &MessageSelection,
    session: &Session,
    folder: &ArtifactFolder,
) -> Result<Content> {
    let asked = selection.numbers();
    let last = numbers::whole_log(session, folder, &args.input.file)?.len() as u64;
    let is_narrowed = args.range.is_some() || args.grep.is_some();
    let (mut read, mut text, mut raw, mut missing) = (Vec::new(), String::new(), String::new(), Vec::new());
    for number in selection.with_neighbors(args.around.min(AROUND_MAX), last).numbers() {
        let id = format!("m{number}");
        let content = match message(args, &id, session, folder) {
            Ok(content) => content,
            Err(failure)
                if asked.contains(&number) && (number <= last || asked.iter().all(|number| *number > last)) =>
            {
                return Err(failure);
            }
            Err(_) => {
                missing.extend(asked.contains(&number).then_some(id));
                continue;
            }
        };
        let role = content.json["role"].as_str().unwrap_or_default().to_owned();
        let gap = if text.is_empty() { "" } else { "\n" };
        let shown = if is_narrowed { content.text.clone() } else { without_middle(&content.text, &id) };
        text.push_str(&format!("{gap}[{id} {role}]\n{}\n", shown.trim_end_matches('\n')));
        raw.extend(content.raw.map(|json| json.replace('\n', " ") + "\n"));
        read.push(json!({"id": id, "role": role, "text": content.text}));
    }
    let mut json = json!({"kind": "messages", "messages": read});
    if !missing.is_empty() {
        text.push_str(&format!("\n[{}: not there, the conversation ends with m{last}]\n", missing.join(", ")));
        json["missing"] = json!(missing);
    }
    Ok(Content { json, text, raw: Some(raw) })
}

/// The most characters of one of several messages, and how many of them are its beginning.
const SHOWN_CHARS_MAX: usize = 8_000;
const SHOWN_CHARS_HEAD: usize = 5_000;

/// Leaves out the middle of a large message.
fn without_middle(text: &str, id: &str) -> String {
    let chars = text.chars().count();
    if chars <= SHOWN_CHARS_MAX {
        return text.to_owned();
    }
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..at(SHOWN_CHARS_HEAD)], &text[at(chars - (SHOWN_CHARS_MAX - SHOWN_CHARS_HEAD))..]);
    let left_out = chars - SHOWN_CHARS_MAX;
    format!("{head}\n[… {left_out} characters left out here; read {id} alone, or with --grep or --range …]\n{tail}")
}

/// Follows one file through the whole conversation.
fn file(
    args: &ReadArgs,
    question: &FileQuestion,
    session: &Session,
    folder: &ArtifactFolder,
    config: Option<&Path>,
) -> Result<Content> {
    let tools = CliConfig::for_file(config)?.values().compaction_policy()?.tools;
    let mut history = FileHistory::new(question.path(), &tools);
    for logged in numbers::whole_log(session, folder, &args.input.file)?.iter().filter(|logged| !logged.is_copy) {
        history.push(logged.message.number.unwrap_or_default(), &logged.message.parts);
    }
    let kind = if matches!(question, FileQuestion::Edits(_)) { "edits" } else { "file" };
    Ok(Content { json: json!({"kind": kind, "file": question.path()}), text: question.answer(&history), raw: None })
}

/// Reads an artifact from the folder, or from the file if it is still in there.
fn artifact(id: &ArtifactId, session: &Session, folder: &ArtifactFolder) -> Option<Content> {
    let in_file = || {
        let mut contents = session.log().iter().flat_map(|logged| &logged.message.parts).filter_map(content_of);
        contents.find(|content| ArtifactId::of(content.as_bytes()) == *id).map(ToString::to_string)
    };
    let text = folder.get(id).or_else(in_file)?;
    Some(Content { json: json!({"kind": "artifact"}), text, raw: None })
}

fn message(args: &ReadArgs, id: &str, session: &Session, folder: &ArtifactFolder) -> Result<Content> {
    let found = match parse_reference(id, 'm') {
        None => find_message::by_line_or_id(session, id)?,
        Some(_) => match numbers::locate(session, folder, &args.input.file, id)? {
            NumberedMessage::Stored(raw) => return Ok(decode(session.counting_dialect(), raw)),
            NumberedMessage::InFile(at) => find_message::logged(session, at),
        },
    };
    Ok(Content {
        json: json!({"kind": "message", "role": found.message.role.name(), "line": found.line}),
        text: excerpt::full_text(&found.message.parts),
        raw: Some(found.message.raw.as_str().to_owned()),
    })
}

fn decode(dialect: Dialect, raw: String) -> Content {
    let message = decode_message(dialect, &Raw::whole(raw.as_str()));
    let json = json!({"kind": "message", "role": message.role.name()});
    Content { json, text: excerpt::full_text(&message.parts), raw: Some(raw) }
}

fn select(args: &ReadArgs, text: &str, mut json: Value) -> Result<Answer> {
    let lines: Vec<&str> = text.lines().collect();
    let (from, to) = match &args.range {
        Some(range) => parse_range(range, lines.len())?,
        None => (1, lines.len()),
    };
    let numbered = lines.iter().enumerate().map(|(at, line)| (at + 1, *line));
    let within = numbered.filter(|(number, _)| (from..=to).contains(number));
    if !args.ids.is_empty() {
        json["id"] = json!(args.ids.join(", "));
    }
    json["lines"] = json!(lines.len());
    let Some(wanted) = &args.grep else {
        let whole = args.range.is_none();
        let text = if whole { text.to_owned() } else { within.map(|(_, line)| format!("{line}\n")).collect() };
        json["text"] = json!(text);
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        return Ok(Answer::new(text + end, json));
    };
    let hits: Vec<(usize, &str)> = within.filter(|(_, line)| line.contains(wanted.as_str())).collect();
    json["matches"] = hits.iter().map(|(number, line)| json!({"line": number, "text": line})).collect();
    let text = if hits.is_empty() {
        format!("No match for `{wanted}` in {}.\n", count(lines.len(), "line"))
    } else {
        hits.iter().map(|(number, line)| format!("{number}: {line}\n")).collect()
    };
    Ok(Answer::new(text, json))
}

/// Parses `10-40`, `10-`, `-40` or `10`.
fn parse_range(range: &str, last: usize) -> Result<(usize, usize)> {
    let wrong = || {
        Failure::new(Exit::Usage, format!("`{range}` is not a range of lines."))
            .hint("A range is written `10-40`, `10-` or `-40`, counted from 1.")
    };
    let number = |text: &str, default: usize| {
        if text.is_empty() { Ok(default) } else { text.parse::<usize>().map_err(|_| wrong()) }
    };
    let (from, to) = match range.split_once('-') {
        Some((from, to)) => (number(from, 1)?, number(to, last)?),
        None => (number(range, 0)?, number(range, 0)?),
    };
    if from == 0 || from > to { Err(wrong()) } else { Ok((from, to)) }
}
