//! `epitome branch`: a new session from an earlier user message; without one, the messages to choose from.

use std::path::{Path, PathBuf};

use epitome::session::{Format, ReadOptions, Session, SessionError};
use serde_json::{Value, json};

use crate::cli::Branch;
use crate::clock;
use crate::excerpt;
use crate::failure::{Answer, Exit, Failure};
use crate::find::{self, reference};
use crate::numbers::{self, NumberedMessage};
use crate::open::{read, session};
use crate::receipt::plural;
use crate::screen::Screen;
use crate::store::Store;
use crate::table::{Side, table};
use crate::write::{Origin, is_same_file, may_create, replace};

/// Branches.
pub fn run(args: &Branch, screen: Screen) -> Result<Answer, Failure> {
    let file = read(&args.input.file)?;
    let mut session = session(&file, &args.input)?;
    let store = Store::of(args.input.artifacts.as_deref(), &args.input.file);
    let is_numbered = numbers::restore(&mut session, &store, &args.input.file);
    let Some(at) = &args.at else { return Ok(points(&args.input.file, &session, is_numbered, screen)) };
    let found = match reference(at, 'm') {
        None => find::message(&session, at)?,
        Some(_) => match numbers::locate(&session, &store, &args.input.file, at)? {
            NumberedMessage::InFile(place) => find::logged(&session, place),
            NumberedMessage::Stored(_) => return Err(has_left(at, &args.input.file)),
        },
    };
    let logged = found.logged.ok_or_else(|| {
        refusal(&SessionError::NotABranchPoint { line: found.line, why: "it was made by a compaction" })
    })?;
    let text = session.branch(logged, &clock::now()).map_err(|error| refusal(&error))?;
    let path = args.output.clone().unwrap_or_else(|| free_name(&args.input.file));
    if path != Path::new("-") && is_same_file(&path, &args.input.file) {
        return Err(leaves_out());
    }
    may_create(&path, args.overwrite)?;
    let mut answer = describe(&text, &session, found.line, &path);
    match path == Path::new("-") {
        true => answer.data = Some(text),
        false => replace(&path, &[&text], Origin::Other(&args.input.file))?,
    }
    Ok(answer)
}

fn refusal(error: &SessionError) -> Failure {
    Failure::new(Exit::Usage, error.to_string()).hint("`epitome branch FILE` without `--at` lists the user's messages.")
}

fn has_left(id: &str, path: &Path) -> Failure {
    Failure::new(Exit::Usage, format!("{id} is no longer in {} as it came: a compaction took it.", path.display()))
        .hint("`epitome branch FILE` without `--at` lists the messages to leave at; `epitome read` still reads it.")
}

fn leaves_out() -> Failure {
    Failure::new(Exit::Usage, "A branch leaves messages out, so it cannot go into the file it came from.")
        .hint("Name another file with `-o`, or leave `-o` away for a new one beside it.")
}

/// Every message of the user's, before and after any compaction.
fn points(path: &Path, session: &Session, is_numbered: bool, screen: Screen) -> Answer {
    let users = session
        .log()
        .iter()
        .enumerate()
        .filter(|(_, logged)| logged.message.opens_turn() && !logged.sidechain && logged.copy_of.is_none());
    // A list may be one line: its messages are told apart by their numbers.
    let is_list = matches!(session.format(), Format::List(_)) && is_numbered;
    let label = |at: usize, line: usize| if is_list { format!("m{}", session.number(at)) } else { format!("L{line}") };
    let points: Vec<(usize, String, String)> =
        users.map(|(at, logged)| (logged.line, label(at, logged.line), excerpt::line(&logged.message.parts))).collect();
    let rows: Vec<Vec<String>> = points.iter().map(|(_, label, words)| vec![label.clone(), words.clone()]).collect();
    let compactions = session.compactions();
    let marks: Vec<String> = compactions.iter().map(|compaction| format!("L{}", compaction.line)).collect();
    let note = match marks.is_empty() {
        true => String::new(),
        false => format!("Compactions: {}. Leaving before one undoes it.\n", marks.join(", ")),
    };
    let listed: Vec<Value> =
        points.iter().map(|(line, label, words)| json!({"line": line, "message": label, "words": words})).collect();
    let json = json!({
        "file": path.display().to_string(), "points": listed,
        "compactions": compactions.iter().map(|compaction| compaction.line).collect::<Vec<usize>>(),
    });
    let head = "A branch leaves at one of the user's messages; name it with `--at`.\n\n";
    Answer::new(format!("{head}{}\n{note}", table(&[Side::Right, Side::Left], &rows, screen)), json)
}

fn describe(text: &str, old: &Session, line: usize, path: &Path) -> Answer {
    let new = Session::read(text, &ReadOptions { format: Some(old.format()), skip_bad_lines: true });
    let (messages, compactions) = new.map_or((0, 0), |new| (new.context().len(), new.compactions().len()));
    let undone = old.compactions().len() - compactions.min(old.compactions().len());
    let mut said = format!("Branched at line {line}: {messages} message{} in the context.\n", plural(messages));
    if undone > 0 {
        said.push_str(&format!(
            "{undone} compaction{} came later and {} undone.\n",
            plural(undone),
            if undone == 1 { "is" } else { "are" }
        ));
    }
    if compactions > 0 {
        said.push_str(&format!(
            "{compactions} compaction{} came before and stay{}.\n",
            plural(compactions),
            if compactions == 1 { "s" } else { "" }
        ));
    }
    if path != Path::new("-") {
        said.push_str(&format!("Written to {}.\n", path.display()));
    }
    let json = json!({"line": line, "messages": messages, "compactions": compactions, "undone": undone, "written": {"to": path.display().to_string()}});
    Answer::new(said, json)
}

/// `session.branch.jsonl`, or with a number if that is taken.
fn free_name(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let name = |suffix: String| path.with_file_name(format!("{stem}.branch{suffix}{extension}"));
    let mut candidates = std::iter::once(name(String::new())).chain((2..).map(|number| name(format!("-{number}"))));
    candidates.find(|path| !path.exists()).unwrap_or_else(|| path.to_owned())
}
