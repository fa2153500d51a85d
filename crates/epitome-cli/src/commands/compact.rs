//! `epitome compact`: makes the compaction, stores what leaves the prompt, and writes the session back.
//!
//! Removed content is stored before the file is touched, so that no placeholder ever points nowhere.

use std::path::{Path, PathBuf};

use epitome::plan::ArtifactId;
use epitome::session::{CompactedContext, CompactionOccasion, Format, ReadOptions, Session, SessionChange};
use epitome::wire::PromptMessage;
use epitome::{Conversation, Fitted};
use serde_json::json;

use crate::artifact_folder::{
    ArtifactFolder, CompactionRecord, MessagePlaces, Numbering, RecordChain, RemovedContent, file_name, tips,
};
use crate::cli::CompactArgs;
use crate::cli_config::CliConfig;
use crate::clock;
use crate::failure::{Answer, Exit, Failure};
use crate::file_compaction::FileCompaction;
use crate::input::{OpenedFile, unreadable};
use crate::pi_settings::PiSettings;
use crate::progress::Progress;
use crate::receipt::{self, count};
use crate::screen::Screen;
use crate::summary_writer::{self, SummarySource, SummaryWriter};
use crate::write::{Origin, is_same_file, may_create, may_replace, replace};

pub fn run(args: &CompactArgs, config: Option<&Path>, screen: Screen, progress: &Progress) -> Result<Answer, Failure> {
    let config = CliConfig::load(config, summary_writer::flags(&args.summary))?;
    let job = FileCompaction::new(&args.plan, &config)?;
    let folder = ArtifactFolder::of(args.plan.input.artifacts.as_deref(), &job.opened.path);
    let writer = SummaryWriter::new(config, &args.summary, &job.opened, folder, args.dry_run, progress)?;
    let target = Target::of(args, &job.opened)?;
    // A person may compact all the same, as in pi.
    let off = job.pi.as_ref().filter(|_| args.auto).and_then(PiSettings::turned_off_by);
    if let Some(file) = off {
        let mut answer = copy_unchanged(&job, args, &target, screen)?;
        answer.text = format!("Nothing was done: {} turns pi's automatic compaction off.\n", file.display());
        return Ok(answer);
    }
    match job.run(&writer)? {
        None => copy_unchanged(&job, args, &target, screen),
        Some((mut fitted, source)) => {
            if args.auto {
                fitted.context.occasion = CompactionOccasion::Auto;
            }
            write_compacted(&job, &fitted, &source, args, &target, screen)
        }
    }
}

/// The place that the result is written to.
enum Target {
    InPlace,
    File(PathBuf),
    Stdout,
}

impl Target {
    fn of(args: &CompactArgs, opened: &OpenedFile) -> Result<Target, Failure> {
        let source = &opened.path;
        let is_stdin = source == Path::new("-");
        let out = match &args.output {
            Some(out) if out == Path::new("-") => return Ok(Target::Stdout),
            None if is_stdin => return Ok(Target::Stdout),
            Some(out) => out.clone(),
            None if opened.conversation.is_list() => compacted_name(source),
            None => source.clone(),
        };
        if is_same_file(&out, source) {
            if args.plan.goal.until.is_some() && !args.dry_run {
                let sentence = "`--until` leaves messages out, so the result cannot replace its own file.";
                return Err(Failure::new(Exit::Usage, sentence).hint("Name another file with `-o`."));
            }
            if !is_stdin {
                return Ok(Target::InPlace);
            }
        }
        if !args.dry_run {
            may_create(&out, args.overwrite || is_earlier_result(&out, args, opened))?;
        }
        Ok(Target::File(out))
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

/// Tells whether a file is what an earlier compaction wrote there, and nothing else: the same command run again loses nothing.
fn is_earlier_result(out: &Path, args: &CompactArgs, opened: &OpenedFile) -> bool {
    // A device may have no end.
    if !std::fs::metadata(out).is_ok_and(|meta| meta.is_file()) {
        return false;
    }
    let folder = ArtifactFolder::of(args.plan.input.artifacts.as_deref(), &opened.path);
    let Ok(text) = std::fs::read_to_string(out) else { return false };
    Session::read(text, &ReadOptions::default()).is_ok_and(|list| folder.has_written(&list, &file_name(out)))
}

/// Turns `thread.json` into `thread.compacted.json`.
fn compacted_name(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.extension() {
        Some(extension) => path.with_file_name(format!("{stem}.compacted.{}", extension.to_string_lossy())),
        None => path.with_file_name(format!("{stem}.compacted")),
    }
}

/// Answers for a file that is small enough. A copy that was asked for is the same, byte for byte.
fn copy_unchanged(
    job: &FileCompaction,
    args: &CompactArgs,
    target: &Target,
    screen: Screen,
) -> Result<Answer, Failure> {
    let opened = &job.opened;
    let session = &opened.conversation.session;
    let mut answer = Answer::new(receipt::headline(opened, screen) + &nothing_to_do(job), receipt::unchanged_json(job));
    answer.json["notices"] = receipt::notices_json(session);
    if !args.dry_run {
        match target {
            Target::InPlace => {}
            Target::Stdout => answer.data = Some(original_text(opened)?),
            Target::File(path) => {
                replace(path, &[&original_text(opened)?], Origin::Other(&opened.path))?;
                answer.text.push_str(&format!("Copied to {}.\n", path.display()));
                answer.json["written"] = json!({"to": path.display().to_string()});
            }
        }
    }
    answer.text.push_str(&receipt::notices(session, screen));
    Ok(answer)
}

/// Explains why nothing is done, and how to compact all the same.
pub fn nothing_to_do(job: &FileCompaction) -> String {
    let total = job.opened.conversation.thread.total();
    if job.is_forced() {
        return format!("Nothing was done: no compaction of these {total} tokens would be smaller.\n");
    }
    let reported = job.opened.conversation.reported();
    let reported = reported.map(|size| format!("the provider reported {size} for the whole prompt; "));
    let (reported, limits, half) = (reported.unwrap_or_default(), receipt::limits(job), total.get() / 2);
    format!(
        "Nothing to do: the messages are {total} tokens.\n{reported}{limits}\
         To compact anyway: `--budget {half}`, `--window N` or `--force`.\n"
    )
}

/// Returns the file's text, or the part of it that `--until` asks for.
fn original_text(opened: &OpenedFile) -> Result<String, Failure> {
    let Conversation { session, thread, .. } = &opened.conversation;
    let source = session.source().as_str();
    if thread.len() == session.context().len() {
        return Ok(source.to_owned());
    }
    let kept = CompactedContext {
        messages: (0..thread.len()).map(PromptMessage::Kept).collect(),
        ..CompactedContext::default()
    };
    let written = session.write(&kept, "").map_err(|error| unreadable(&opened.path, &error))?;
    Ok(written.apply(source))
}

fn write_compacted(
    job: &FileCompaction,
    fitted: &Fitted,
    source: &SummarySource,
    args: &CompactArgs,
    target: &Target,
    screen: Screen,
) -> Result<Answer, Failure> {
    let opened = &job.opened;
    let Conversation { session, thread, .. } = &opened.conversation;
    let made = clock::now();
    let written = fitted.write(&opened.conversation, &made).map_err(|error| unreadable(&opened.path, &error))?;
    let folder = ArtifactFolder::of(args.plan.input.artifacts.as_deref(), &opened.path);
    let mut chain = RecordChain::default();
    if opened.conversation.is_list() {
        let found = folder.chain_for(session, &file_name(&opened.path));
        // Numbers that cannot be continued are not mixed with those of this round.
        if found.newest().is_some() {
            chain = found;
        }
    }
    let removed = RemovedContent::of(&fitted.compaction, thread, &fitted.prompt, &chain);
    let (objects, bytes) = removed.size();
    let mut answer = Answer::new(receipt::text(job, fitted, source, screen), receipt::json(job, fitted, source));
    answer.json["compacted"] = json!(true);
    answer.json["dry_run"] = json!(args.dry_run);
    answer.json["trigger"] = json!(fitted.context.occasion.name());
    let appended = match (target, &written) {
        (Target::InPlace, SessionChange::Append(lines)) => Some(lines.trim_start().lines().count()),
        _ => None,
    };
    if args.dry_run {
        answer.text.push_str("\nNothing was written: this was a dry run.\n");
    } else {
        target.path(&opened.path).map_or(Ok(()), may_replace)?;
        let record = CompactionRecord {
            made,
            source: file_name(&opened.path),
            written_to: target.path(&opened.path).map_or_else(|| "-".to_owned(), file_name),
            tip: tip_of(session.format(), &written),
            earlier: chain.newest().and_then(|record| record.tip.clone()),
            compaction: serde_json::to_value(&fitted.compaction).unwrap_or_default(),
            digest: json!(fitted.compaction.digest()),
            numbering: Numbering::Lasting,
            places: MessagePlaces::default(),
        };
        answer.json["record"] = json!(folder.put(removed, record)?);
        answer.data = write_output(&written, target, opened)?;
        let name = target.name(&opened.path);
        answer.text.push_str(&match appended {
            Some(lines) => format!("\nAppended {} to {name}; the rest is unchanged.\n", count(lines, "line")),
            None => format!("\nWritten to {name}.\n"),
        });
        answer.text.push_str(&format!(
            "Removed content is in {} ({}, {bytes} bytes).\n",
            folder.dir().display(),
            count(objects, "object")
        ));
        let id = receipt::example_reference(fitted, thread);
        if let Some(command) = id.and_then(|id| read_command(&id, args, target, &folder)) {
            answer.text.push_str(&format!("Read something back: {command}\n"));
        }
    }
    answer.json["written"] = json!({"to": target.name(&opened.path)});
    if let Some(lines) = appended {
        answer.json["written"]["appended_lines"] = json!(lines);
    }
    answer.json["artifacts"] = json!({"dir": folder.dir().display().to_string(), "objects": objects, "bytes": bytes});
    answer.text.push_str(&receipt::notices(session, screen));
    Ok(answer)
}

/// Returns the hash by which a written list is recognized later.
fn tip_of(format: Format, written: &SessionChange) -> Option<ArtifactId> {
    let SessionChange::Replace(text) = written else { return None };
    tips(&Session::read(text, &ReadOptions { format: Some(format), skip_bad_lines: true }).ok()?).pop()
}

/// Writes the result. Returns it where it goes to standard output.
fn write_output(written: &SessionChange, target: &Target, opened: &OpenedFile) -> Result<Option<String>, Failure> {
    let source = opened.conversation.session.source().as_str();
    let pieces = match written {
        SessionChange::Append(lines) => [source, lines],
        SessionChange::Replace(text) => [text, ""],
    };
    match target {
        Target::Stdout => return Ok(Some(pieces.concat())),
        Target::File(path) => replace(path, &pieces, Origin::Other(&opened.path))?,
        Target::InPlace => {
            replace(&opened.path, &pieces, opened.version.map_or(Origin::Nothing, Origin::Itself))?;
        }
    }
    Ok(None)
}

/// Returns the command that reads a message back, with the options that it needs; `None` where there is no file to name.
fn read_command(id: &str, args: &CompactArgs, target: &Target, folder: &ArtifactFolder) -> Option<String> {
    let input = &args.plan.input;
    let file = target.path(&input.file).unwrap_or(&input.file);
    if file == Path::new("-") || !file.is_file() {
        return None;
    }
    let mut line = format!("epitome read {} {id}", shell_word(file));
    if !is_same_file(folder.dir(), ArtifactFolder::of(None, file).dir()) {
        line.push_str(&format!(" --artifacts {}", shell_word(folder.dir())));
    }
    if let Some(format) = input.format {
        line.push_str(&format!(" --format {}", format.name()));
    }
    if input.skip_bad_lines {
        line.push_str(" --skip-bad-lines");
    }
    Some(line)
}

/// Quotes a path for a shell, where it needs that.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    if text.chars().all(|c| c.is_alphanumeric() || "/._-+=:,@%".contains(c)) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
