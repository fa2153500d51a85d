//! `epitome branch`: a new session from an earlier user message; without one, the messages to choose from.

use std::path::{Path, PathBuf};

use epitome::session::{Format, ReadOptions, Session, SessionError};
use serde_json::{Value, json};

use crate::artifact_folder::ArtifactFolder;
use crate::cli::BranchArgs;
use crate::clock;
use crate::excerpt;
use crate::failure::{Answer, Exit, Failure};
use crate::find_message::{self, parse_reference};
use crate::input::{read, session};
use crate::numbers::{self, NumberedMessage};
use crate::receipt::count;
use crate::screen::Screen;
use crate::table::Table;
use crate::write::{Origin, is_same_file, may_create, replace};

pub fn run(args: &BranchArgs, screen: Screen) -> Result<Answer, Failure> {
    let source = &args.input.file;
    let mut session = session(read(source)?.text, &args.input)?;
    let folder = ArtifactFolder::of(args.input.artifacts.as_deref(), source);
    let is_numbered = numbers::restore(&mut session, &folder, source);
    let Some(at) = &args.at else { return Ok(branch_points(source, &session, is_numbered, screen)) };
    let found = match parse_reference(at, 'm') {
        None => find_message::by_line_or_id(&session, at)?,
        Some(_) => match numbers::locate(&session, &folder, source, at)? {
            NumberedMessage::InFile(place) => find_message::logged(&session, place),
            NumberedMessage::Stored(_) => {
                let sentence = format!("A compaction removed {at} from {}, or changed it.", source.display());
                return Err(Failure::new(Exit::Usage, sentence)
                    .hint("`epitome branch FILE` without `--at` lists the messages; `epitome read` still reads it."));
            }
        },
    };
    let made_by_compaction = SessionError::NotABranchPoint(found.line, "it was made by a compaction");
    let logged = found.logged.ok_or_else(|| not_a_branch_point(&made_by_compaction))?;
    let text = session.branch(logged, &clock::now()).map_err(|error| not_a_branch_point(&error))?;
    let path = args.output.clone().unwrap_or_else(|| free_name(source));
    if path != Path::new("-") && is_same_file(&path, source) {
        return Err(Failure::new(Exit::Usage, "A branch leaves messages out, so it cannot replace its own file.")
            .hint("Name another file with `-o`, or leave `-o` out for a new one beside it."));
    }
    may_create(&path, args.overwrite)?;
    let mut answer = describe(&text, &session, found.line, &path);
    if path == Path::new("-") {
        answer.data = Some(text);
    } else {
        replace(&path, &[&text], Origin::Other(source))?;
    }
    Ok(answer)
}

fn not_a_branch_point(error: &SessionError) -> Failure {
    Failure::new(Exit::Usage, error.to_string()).hint("`epitome branch FILE` without `--at` lists the user's messages.")
}

/// Lists every message of the user, before and after any compaction.
fn branch_points(path: &Path, session: &Session, is_numbered: bool, screen: Screen) -> Answer {
    // A list may be one line, so its messages are told apart by their numbers.
    let has_numbers = matches!(session.format(), Format::List(_)) && is_numbered;
    let mut table = Table::new("rl");
    let mut points: Vec<Value> = Vec::new();
    for (at, logged) in session.log().iter().enumerate() {
        if !logged.message.opens_turn() || logged.sidechain || logged.copy_of.is_some() {
            continue;
        }
        let label = if has_numbers { format!("m{}", session.number(at)) } else { format!("L{}", logged.line) };
        let words = excerpt::line(&logged.message.parts);
        table.row(&[&label, &words]);
        points.push(json!({"line": logged.line, "message": label, "words": words}));
    }
    let compactions: Vec<usize> = session.compactions().iter().map(|compaction| compaction.line).collect();
    let mut text = format!("Choose one of the user's messages with `--at`:\n\n{}\n", table.text(screen));
    if !compactions.is_empty() {
        let lines: Vec<String> = compactions.iter().map(|line| format!("L{line}")).collect();
        text.push_str(&format!("Compactions: {}. Branching before one undoes it.\n", lines.join(", ")));
    }
    Answer::new(text, json!({"file": path.display().to_string(), "points": points, "compactions": compactions}))
}

fn describe(text: &str, old: &Session, line: usize, path: &Path) -> Answer {
    let new = Session::read(text, &ReadOptions { format: Some(old.format()), skip_bad_lines: true });
    let (messages, kept) = new.map_or((0, 0), |new| (new.context().len(), new.compactions().len()));
    let undone = old.compactions().len().saturating_sub(kept);
    let mut said = format!("Branched at line {line}: {} in the context.\n", count(messages, "message"));
    if undone > 0 {
        said.push_str(&format!("Undid {} after it.\n", count(undone, "compaction")));
    }
    if kept > 0 {
        said.push_str(&format!("Kept {} before it.\n", count(kept, "compaction")));
    }
    if path != Path::new("-") {
        said.push_str(&format!("Written to {}.\n", path.display()));
    }
    let json = json!({"line": line, "messages": messages, "compactions": kept, "undone": undone, "written": {"to": path.display().to_string()}});
    Answer::new(said, json)
}

/// Returns `session.branch.jsonl`, or a numbered name if that is taken.
fn free_name(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let name = |suffix: String| path.with_file_name(format!("{stem}.branch{suffix}{extension}"));
    let mut candidates = std::iter::once(name(String::new())).chain((2..).map(|number| name(format!("-{number}"))));
    candidates.find(|path| !path.exists()).unwrap_or_else(|| path.to_owned())
}
