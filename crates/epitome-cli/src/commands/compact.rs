//! `epitome compact`: makes the compaction, keeps what left the prompt, and writes the session back.
//!
//! What left is kept before the file is touched, so that no placeholder ever points nowhere.

use std::path::{Path, PathBuf};

use epitome::plan::ArtifactId;
use epitome::session::{CompactedContext, Format, ReadOptions, Session, SessionChange};
use epitome::wire::PromptMessage;
use serde_json::{Value, json};

use crate::author::{self, Author, Call};
use crate::cli::{Compact, Input};
use crate::clock;
use crate::failure::{Answer, Exit, Failure};
use crate::open::{Opened, unreadable};
use crate::planning::{Job, Made};
use crate::progress::Progress;
use crate::receipt::{self, plural};
use crate::screen::Screen;
use crate::settings::Configured;
use crate::store::{Chain, Numbering, Record, RemovedContent, Store, Stored, file_name, tips};
use crate::write::{Origin, is_same_file, may_create, may_replace, replace};

/// Compacts.
pub fn run(args: &Compact, config: Option<&Path>, screen: Screen, progress: &Progress) -> Result<Answer, Failure> {
    let configured = Configured::load(config, author::flags(&args.author))?;
    let call = if args.dry_run { Call::DryRun } else { Call::Allowed };
    let job = Job::new(&args.planned, &configured)?;
    let author = Author::of(configured, &args.author, call, progress)?;
    let target = Target::of(args, &job)?;
    match job.run(&author)? {
        None => fits(&job, args, &target, screen),
        Some(made) => write(&job, &made, args, &target, screen),
    }
}

/// Where the result goes.
enum Target {
    /// Into the file it came from.
    InPlace,
    /// To a file.
    File(PathBuf),
    /// To standard output.
    Stdout,
}

impl Target {
    fn of(args: &Compact, job: &Job) -> Result<Target, Failure> {
        let source = &job.opened.path;
        let stdin = source == Path::new("-");
        let is_list = matches!(job.opened.session.format(), Format::List(_));
        let out = match &args.output {
            Some(out) if out == Path::new("-") => return Ok(Target::Stdout),
            None if stdin => return Ok(Target::Stdout),
            Some(out) => out.clone(),
            None if is_list => compacted_name(source),
            None => source.clone(),
        };
        match is_same_file(&out, source) {
            true if args.planned.aim.until.is_some() && !args.dry_run => Err(leaves_out()),
            true if !stdin => Ok(Target::InPlace),
            _ if args.dry_run => Ok(Target::File(out)),
            _ => may_create(&out, args.overwrite).map(|()| Target::File(out)),
        }
    }

    fn path<'a>(&'a self, source: &'a Path) -> Option<&'a Path> {
        match self {
            Target::InPlace => Some(source),
            Target::File(path) => Some(path),
            Target::Stdout => None,
        }
    }

    fn name(&self, source: &Path) -> String {
        self.path(source).map_or_else(|| "-".to_owned(), |path| path.display().to_string())
    }
}

fn leaves_out() -> Failure {
    let sentence = "`--until` leaves messages out, so the result cannot go into the file it came from.";
    Failure::new(Exit::Usage, sentence).hint("Name another file with `-o`.")
}

/// `thread.json` becomes `thread.compacted.json`.
fn compacted_name(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.extension() {
        Some(extension) => path.with_file_name(format!("{stem}.compacted.{}", extension.to_string_lossy())),
        None => path.with_file_name(format!("{stem}.compacted")),
    }
}

/// Nothing to do: a copy that was asked for is the same, byte for byte.
fn fits(job: &Job, args: &Compact, target: &Target, screen: Screen) -> Result<Answer, Failure> {
    let opened = &job.opened;
    let mut text = receipt::headline(opened, screen);
    text.push_str(&nothing_to_do(job));
    let mut json = receipt::file_json(opened);
    json["compacted"] = json!(false);
    json["room"] = json!(job.room);
    json["window"] = receipt::window_json(job);
    json["notices"] = receipt::notices_json(&opened.session);
    let mut answer = Answer::new(text, json);
    let copy = untouched(job)?;
    match target {
        _ if args.dry_run => {}
        Target::InPlace => {}
        Target::Stdout => answer.data = Some(copy),
        Target::File(path) => {
            replace(path, &[&copy], Origin::Other(&opened.path))?;
            answer.text.push_str(&format!("Copied to {}.\n", path.display()));
            answer.json["written"] = json!({"to": path.display().to_string()});
        }
    }
    answer.text.push_str(&receipt::notices(&opened.session, screen));
    Ok(answer)
}

/// Why nothing is done, and how to go on all the same.
pub fn nothing_to_do(job: &Job) -> String {
    let total = job.opened.thread.total();
    if job.is_forced() {
        return format!("Nothing was done: no compaction of these {total} tokens is smaller than they are.\n");
    }
    let (size, room) = (receipt::size(&job.opened), receipt::room(job));
    let half = total.get() / 2;
    format!("Nothing to do: {size} fit ({room}).\nTo compact anyway: `--budget {half}`, `--window N` or `--force`.\n")
}

/// The messages as they are; the source itself unless only some of them were asked for.
fn untouched(job: &Job) -> Result<String, Failure> {
    let session = &job.opened.session;
    let count = job.opened.thread.len();
    if count == session.context().len() {
        return Ok(session.source().as_str().to_owned());
    }
    let messages = (0..count).map(PromptMessage::Kept).collect();
    let compacted = CompactedContext { messages, summary: String::new(), tokens_before: 0, tokens_after: 0 };
    Ok(written(session, &compacted, &job.opened.path, "")?.apply(session.source().as_str()))
}

fn written(
    session: &Session,
    compacted: &CompactedContext,
    path: &Path,
    stamp: &str,
) -> Result<SessionChange, Failure> {
    session.write(compacted, stamp).map_err(|error| unreadable(path, &error))
}

fn write(job: &Job, made: &Made, args: &Compact, target: &Target, screen: Screen) -> Result<Answer, Failure> {
    let opened = &job.opened;
    let stamp = clock::now();
    let written = written(&opened.session, &made.context, &opened.path, &stamp)?;
    let store = Store::of(args.planned.input.artifacts.as_deref(), &opened.path);
    let is_list = matches!(opened.session.format(), Format::List(_));
    let chain = if is_list { store.chain_for(&opened.session, &file_name(&opened.path)) } else { Chain::default() };
    // Numbers that cannot be gone on from are not mixed with those of this round.
    let chain = if chain.newest().is_some() { chain } else { Chain::default() };
    let removed = RemovedContent::of(&made.compaction, &opened.thread, &made.prompt, &chain);
    let stored = removed.size();
    let mut answer = Answer::new(receipt::text(job, made, screen), receipt::json(job, made));
    answer.json["compacted"] = json!(true);
    answer.json["dry_run"] = json!(args.dry_run);
    if !args.dry_run {
        target.path(&opened.path).map_or(Ok(()), may_replace)?;
        let tip = tip(&opened.session, &written);
        let earlier = chain.newest().and_then(|record| record.tip.clone());
        let record = Record { tip, earlier, ..record(opened.path.as_path(), target, made, stamp) };
        let id = store.put(removed, record)?;
        answer.json["record"] = json!(id);
        answer.data = put(&opened.session, &written, target, opened)?;
    }
    answer.text.push_str(&whereabouts(job, made, args, target, &written, &store, stored));
    answer.json["written"] = whereabouts_json(opened.path.as_path(), target, &written);
    answer.json["artifacts"] =
        json!({"dir": store.dir().display().to_string(), "objects": stored.objects, "bytes": stored.bytes});
    answer.text.push_str(&receipt::notices(&opened.session, screen));
    Ok(answer)
}

fn record(source: &Path, target: &Target, made: &Made, made_at: String) -> Record {
    Record {
        made: made_at,
        source: file_name(source),
        written_to: target.path(source).map_or_else(|| "-".to_owned(), file_name),
        tip: None,
        earlier: None,
        compaction: serde_json::to_value(&made.compaction).unwrap_or_default(),
        messages: Default::default(),
        stayed: Default::default(),
        edited: Default::default(),
        unnumbered: Vec::new(),
        numbering: Numbering::Lasting,
        next: 0,
        parts: Vec::new(),
    }
}

/// By what a list that is written will be known again.
fn tip(session: &Session, written: &SessionChange) -> Option<ArtifactId> {
    let SessionChange::Replace(text) = written else { return None };
    let options = ReadOptions { format: Some(session.format()), skip_bad_lines: true };
    tips(&Session::read(text, &options).ok()?).pop()
}

/// Writes the result. Answers what goes to standard output.
fn put(
    session: &Session,
    written: &SessionChange,
    target: &Target,
    opened: &Opened,
) -> Result<Option<String>, Failure> {
    let source = session.source().as_str();
    let pieces = match written {
        SessionChange::Append(lines) => [source, lines],
        SessionChange::Replace(text) => [text, ""],
    };
    match target {
        Target::Stdout => Ok(Some(pieces.concat())),
        Target::File(path) => replace(path, &pieces, Origin::Other(&opened.path)).map(|()| None),
        Target::InPlace => {
            let origin = opened.seen.map_or(Origin::Nothing, Origin::Itself);
            replace(&opened.path, &pieces, origin).map(|()| None)
        }
    }
}

fn whereabouts(
    job: &Job,
    made: &Made,
    args: &Compact,
    target: &Target,
    written: &SessionChange,
    store: &Store,
    stored: Stored,
) -> String {
    let name = target.name(&job.opened.path);
    if args.dry_run {
        return "\nNothing was written: this was a dry run.\n".to_owned();
    }
    let how = match (target, written) {
        (Target::InPlace, SessionChange::Append(lines)) => {
            let count = lines.trim_start().lines().count();
            format!("\nAppended {count} line{} to {name}; what was in it is unchanged.\n", plural(count))
        }
        _ => format!("\nWritten to {name}.\n"),
    };
    let kept = format!(
        "What left the prompt is in {} ({} object{}, {} bytes).\n",
        store.dir().display(),
        stored.objects,
        plural(stored.objects),
        epitome::budget::Tokens::new(stored.bytes as u64)
    );
    let id = receipt::example_reference(made, &job.opened.thread);
    let back = id.and_then(|id| reading_back(&id, &args.planned.input, target, store));
    let back = back.map(|line| format!("Read something back: {line}\n"));
    format!("{how}{kept}{}", back.unwrap_or_default())
}

/// The command that reads a message back; none where no file is left to name.
fn reading_back(id: &str, input: &Input, target: &Target, store: &Store) -> Option<String> {
    let file = target.path(&input.file).unwrap_or(&input.file);
    if file == Path::new("-") || !file.is_file() {
        return None;
    }
    let mut line = format!("epitome read {} {id}", shell_word(file));
    if !is_same_file(store.dir(), Store::of(None, file).dir()) {
        line.push_str(&format!(" --artifacts {}", shell_word(store.dir())));
    }
    if let Some(format) = input.format {
        line.push_str(&format!(" --format {}", format.name()));
    }
    if input.skip_bad_lines {
        line.push_str(" --skip-bad-lines");
    }
    Some(line)
}

/// A path as a shell takes it for one word.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    match text.chars().all(|c| c.is_alphanumeric() || "/._-+=:,@%".contains(c)) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn whereabouts_json(source: &Path, target: &Target, written: &SessionChange) -> Value {
    let mut json = json!({"to": target.name(source)});
    if let (Target::InPlace, SessionChange::Append(lines)) = (target, written) {
        json["appended_lines"] = json!(lines.trim_start().lines().count());
    }
    json
}
