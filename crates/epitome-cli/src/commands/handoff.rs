//! `epitome handoff`: writes what a new thread needs of an old one to reach a goal. The old one stays as it is.

use std::path::Path;

use serde_json::json;

use crate::artifact_folder::ArtifactFolder;
use crate::cli::{GoalArgs, HandoffArgs, PlanArgs};
use crate::cli_config::CliConfig;
use crate::failure::{Answer, Exit, Failure, Result};
use crate::file_compaction::{FileCompaction, load_policy};
use crate::progress::Progress;
use crate::summary_writer::{self, SummaryWriter};
use crate::write::{Origin, may_create, replace};

/// The preset that hands over.
const PRESET: &str = "amp";

pub fn run(args: &HandoffArgs, config: Option<&Path>, progress: &Progress) -> Result<Answer> {
    let policy = args.policy.clone().unwrap_or_else(|| PRESET.to_owned());
    if !load_policy(&policy)?.is_handoff() {
        let sentence =
            format!("The policy `{policy}` writes no handoff: it has no `summarize.focus`, or another form.");
        return Err(Failure::new(Exit::Usage, sentence).hint(format!("`{PRESET}` does; leave `--policy` out.")));
    }
    if let Some(out) = &args.output {
        may_create(out, args.overwrite)?;
    }
    let goal = GoalArgs {
        policy: Some(policy.clone()),
        budget: args.budget,
        instructions: Some(args.goal.clone()),
        force: true,
        ..GoalArgs::default()
    };
    let plan = PlanArgs { input: args.input.clone(), goal };
    let config = CliConfig::load(config, summary_writer::flags(&args.summary))?;
    let job = FileCompaction::new(&plan, &config)?.handing_over();
    let folder = ArtifactFolder::of(args.input.artifacts.as_deref(), &job.opened.path);
    let writer = SummaryWriter::new(config, &args.summary, &job.opened, folder, false, progress)?;
    let handed = job.run(&writer)?;
    let summary = handed.as_ref().and_then(|(fitted, source)| Some((fitted.compaction.summaries.first()?, source)));
    let Some((summary, source)) = summary else {
        return Err(Failure::new(Exit::CannotFit, "There is nothing to hand over: the thread is too short.")
            .hint("Begin the new thread with the goal itself."));
    };
    let layout = load_policy(&policy)?.render;
    let text = format!("{}\n\n{}\n", layout.wrap(&summary.text).trim_end(), look_up(&args.input.file));
    let by = source.text().trim_start_matches("; ").to_owned();
    let mut answer = Answer::new(String::new(), json!({"goal": args.goal, "text": text, "tokens": summary.tokens}));
    answer.json["summary"] = source.to_json();
    match &args.output {
        Some(out) => {
            let list = serde_json::to_string_pretty(&json!([{"role": "user", "content": text}])).unwrap_or_default();
            replace(out, &[&list, "\n"], Origin::Nothing)?;
            answer.json["written"] = json!({"to": out.display().to_string()});
            answer.text = format!("Handed over in {} tokens; {by}.\nWritten to {}.\n", summary.tokens, out.display());
        }
        None => answer.data = Some(text),
    }
    answer.text.extend(source.fallback_reason().map(|reason| reason + "\n"));
    Ok(answer)
}

/// Says where the messages are that the text names.
fn look_up(file: &Path) -> String {
    match file == Path::new("-") {
        true => "Numbers such as m12 name messages of the earlier thread.".to_owned(),
        false => format!(
            "Numbers such as m12 name messages of the earlier thread; `epitome read {} m12` shows one.",
            file.display()
        ),
    }
}
