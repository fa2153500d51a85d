//! `epitome read`: a message or an artifact, whole, by lines, or the lines that hold a text.

use epitome::plan::{ArtifactId, content_of};
use epitome::session::Session;
use epitome::thread::Raw;
use epitome::wire::{Dialect, decode_message};
use serde_json::{Value, json};

use crate::cli::Read;
use crate::excerpt;
use crate::failure::{Answer, Exit, Failure};
use crate::find::{self, reference};
use crate::numbers::{self, NumberedMessage};
use crate::open::{read, session};
use crate::receipt::plural;
use crate::store::Store;

/// Something that was found.
struct Found {
    /// What it is, for programs.
    json: Value,
    /// What it says.
    text: String,
    /// The JSON it stands as, if it is a message.
    raw: Option<String>,
}

/// Reads.
pub fn run(args: &Read) -> Result<Answer, Failure> {
    let file = read(&args.input.file)?;
    let session = session(&file, &args.input)?;
    let store = Store::of(args.input.artifacts.as_deref(), &args.input.file);
    let found = match ArtifactId::parse(&args.id) {
        Some(id) => artifact(&id, &session, &store).map_or_else(|| message(args, &session, &store), Ok)?,
        None => message(args, &session, &store)?,
    };
    let text = match (&found.raw, args.raw) {
        (Some(raw), true) => raw,
        _ => &found.text,
    };
    select(args, text, found.json)
}

/// An artifact from the store, or from the file if it is still in there.
fn artifact(id: &ArtifactId, session: &Session, store: &Store) -> Option<Found> {
    let text = store.get(id).or_else(|| content_in(session, id))?;
    Some(Found { json: json!({"kind": "artifact"}), text, raw: None })
}

fn content_in(session: &Session, id: &ArtifactId) -> Option<String> {
    let parts = session.log().iter().flat_map(|logged| &logged.message.parts);
    let contents = parts.filter_map(content_of);
    contents.into_iter().find(|content| ArtifactId::of(content.as_bytes()) == *id).map(ToString::to_string)
}

fn message(args: &Read, session: &Session, store: &Store) -> Result<Found, Failure> {
    let found = match reference(&args.id, 'm') {
        None => find::message(session, &args.id)?,
        Some(_) => match numbers::locate(session, store, &args.input.file, &args.id)? {
            NumberedMessage::Stored(raw) => return Ok(decoded(session.counting_dialect(), raw)),
            NumberedMessage::InFile(at) => find::logged(session, at),
        },
    };
    Ok(Found {
        json: json!({"kind": "message", "role": found.message.role.name(), "line": found.line}),
        text: excerpt::full_text(&found.message.parts),
        raw: Some(found.message.raw.as_str().to_owned()),
    })
}

fn decoded(dialect: Dialect, raw: String) -> Found {
    let message = decode_message(dialect, &Raw::whole(raw.as_str()));
    let json = json!({"kind": "message", "role": message.role.name()});
    Found { json, text: excerpt::full_text(&message.parts), raw: Some(raw) }
}

fn select(args: &Read, text: &str, mut json: Value) -> Result<Answer, Failure> {
    let lines: Vec<&str> = text.lines().collect();
    let (from, to) = match &args.range {
        Some(range) => parse_range(range, lines.len())?,
        None => (1, lines.len()),
    };
    let numbered = lines.iter().enumerate().map(|(at, line)| (at + 1, *line));
    let within = numbered.filter(|(number, _)| (from..=to).contains(number));
    json["id"] = json!(args.id);
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
    let text = match hits.is_empty() {
        true => format!("`{wanted}` is in none of its {} line{}.\n", lines.len(), plural(lines.len())),
        false => hits.iter().map(|(number, line)| format!("{number}: {line}\n")).collect(),
    };
    Ok(Answer::new(text, json))
}

/// `10-40`, `10-`, `-40` or `10`.
fn parse_range(range: &str, count: usize) -> Result<(usize, usize), Failure> {
    let wrong = || {
        Failure::new(Exit::Usage, format!("`{range}` is not a range of lines."))
            .hint("A range is written `10-40`, `10-` or `-40`, counted from 1.")
    };
    let number = |text: &str, default: usize| match text.is_empty() {
        true => Ok(default),
        false => text.parse::<usize>().map_err(|_| wrong()),
    };
    let (from, to) = match range.split_once('-') {
        Some((from, to)) => (number(from, 1)?, number(to, count)?),
        None => (number(range, 0)?, number(range, 0)?),
    };
    if from == 0 || from > to { Err(wrong()) } else { Ok((from, to)) }
}
