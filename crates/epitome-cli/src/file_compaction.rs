//! From the command line to a compaction: the policy, the limit, the options, and the error when nothing fits.
//!
//! Planning itself is the library's: see `epitome::Compactor`. Nothing is written here.

use std::path::Path;

use epitome::budget::{SettledWindow, Tokens, WindowHints, counter_named};
use epitome::plan::Room;
use epitome::planner::PlanOptions;
use epitome::policy::{Policy, Preset, preset};
use epitome::{BelowFloor, Compactor, CompactorError, CountFor, Fitted, Limit};
use serde_json::json;

use crate::artifact_folder::{ArtifactFolder, file_name};
use crate::cli::{InputArgs, PlanArgs};
use crate::cli_config::CliConfig;
use crate::failure::{Exit, Failure, Result, words};
use crate::input::{OpenedFile, open};
use crate::mistyped::did_you_mean;
use crate::pi_settings::PiSettings;
use crate::replayable::compare_files;
use crate::summary_writer::{SummarySource, SummaryWriter};

/// A file with the policy, the limit and the options that it is to be compacted with.
pub struct FileCompaction {
    pub opened: OpenedFile,
    policy: Policy,
    /// The settings of pi that changed the policy.
    pub pi: Option<PiSettings>,
    options: PlanOptions,
    goal: Goal,
    /// The room for messages: when to act, and how far down to go.
    pub room: Room,
    /// The tokens that must not be exceeded.
    pub limit: Tokens,
    /// The window that the room is in; `None` where a budget was given.
    pub window: Option<SettledWindow>,
}

/// The size that was asked for.
enum Goal {
    Budget(Tokens),
    Window(SettledWindow),
}

impl FileCompaction {
    /// Opens the file and resolves policy and limit.
    pub fn new(args: &PlanArgs, config: &CliConfig) -> Result<FileCompaction> {
        let PlanArgs { input, goal: args } = args;
        let mut policy = match &args.policy {
            Some(name) => load_policy(name)?,
            None => config.values().compaction_policy()?,
        };
        let counter = if args.model.is_none() { counter_named(&policy.count.tokenizer).ok() } else { None };
        let mut opened = open(input, CountFor { model: args.model.clone(), counter, cautious: true }, args.until)?;
        if opened.conversation.thread.is_empty() {
            return Err(Failure::new(Exit::Unreadable, format!("{} holds no message.", opened.path.display())));
        }
        let pi = PiSettings::of(&opened.conversation.session, &policy, &config.environment);
        if let Some(pi) = &pi {
            pi.apply(&mut policy);
        }
        let goal = match args.budget {
            Some(budget) => Goal::Budget(Tokens::new(budget)),
            None => Goal::Window(settle_window(&opened, &policy, args.window, args.model.as_deref(), config)),
        };
        let options = PlanOptions {
            rounds_before: rounds_of_list(input, &opened),
            // A policy that acts only when it is asked is asked now.
            force: args.force || !policy.trigger.auto,
            current: compare_files(&mut opened.conversation, &policy.tools),
            pins: args.pin.clone(),
            instructions: args.instructions.clone(),
            ..PlanOptions::default()
        };
        let compactor = goal.compactor(&opened, &policy, &options);
        let (room, limit, window) = (compactor.room, compactor.limit, compactor.window);
        Ok(FileCompaction { opened, policy, pi, options, goal, room, limit, window })
    }

    /// The same for another thread with a goal, which are the instructions: nothing but the summary goes along.
    pub fn handing_over(mut self) -> FileCompaction {
        self.options.hands_over = true;
        self
    }

    /// Returns whether a file that fits is to be compacted all the same.
    pub fn is_forced(&self) -> bool {
        self.options.force
    }

    fn compactor(&self) -> Compactor<'_> {
        self.goal.compactor(&self.opened, &self.policy, &self.options)
    }

    /// Makes the compaction; `None` where the file is small enough. A limit that cannot be kept is a failure.
    pub fn run(&self, writer: &SummaryWriter<'_>) -> Result<Option<(Fitted, SummarySource)>> {
        let mut source = SummarySource::None;
        let result = self.compactor().run(&mut |planner, draft| {
            let (summary, by) = writer.write(planner, draft, &*self.opened.conversation.counter)?;
            source = by;
            Ok(summary)
        });
        match result {
            Ok(fitted) => Ok(fitted.map(|fitted| {
                let source = if fitted.was_asked { source } else { SummarySource::by_code(&fitted) };
                (fitted, source)
            })),
            Err(CompactorError::BelowFloor(floor)) => Err(self.floor_failure(&floor)),
            Err(CompactorError::Writer(failure)) => Err(failure),
        }
    }

    /// Makes the compaction by code alone, whether it fits or not; `None` where the file is small enough.
    pub fn preview(&self) -> Result<Option<Fitted>> {
        self.compactor().preview().map_err(|floor| self.floor_failure(&floor))
    }

    /// Searches for the smallest size that can be reached, and returns the failure that names it.
    pub fn below_floor(&self) -> Failure {
        self.floor_failure(&self.compactor().below_floor())
    }

    fn floor_failure(&self, error: &BelowFloor) -> Failure {
        let BelowFloor { limit, floor, system, ref parts, .. } = *error;
        let made_of: Vec<String> = parts.iter().map(|(name, tokens)| format!("{tokens} for {name}")).collect();
        let (path, made_of) = (self.opened.path.display(), made_of.join(", "));
        // A budget is for the messages without the system's; a window is for all of them.
        let budget = floor - system;
        let sentence = match &self.window {
            None => {
                format!("{path} cannot be compacted to {} tokens; the least is {budget}: {made_of}.", limit - system)
            }
            Some(window) => format!(
                "{path} cannot be compacted into a window of {}: {} of it is not for messages, which leaves {limit}, and the least is {floor}: {}{made_of}.",
                window.tokens,
                window.tokens - limit,
                if system > Tokens::ZERO { format!("{system} for system messages, ") } else { String::new() },
            ),
        };
        let pins = if self.compactor().has_pins() { ", or less with fewer pins" } else { "" };
        Failure::new(Exit::CannotFit, sentence).hint(format!("Use `--budget {}` or more{pins}.", budget.get())).facts(
            json!({
                "floor": budget, "limit": limit - system,
                "parts": parts.iter().map(|(name, tokens)| json!({"what": name, "tokens": tokens})).collect::<Vec<_>>(),
            }),
        )
    }
}

/// Returns how often a list was compacted, by its records; it does not tell by itself. A session's file does.
fn rounds_of_list(input: &InputArgs, opened: &OpenedFile) -> u32 {
    if !opened.conversation.is_list() {
        return 0;
    }
    let folder = ArtifactFolder::of(input.artifacts.as_deref(), &opened.path);
    folder.chain_for(&opened.conversation.session, &file_name(&opened.path)).len() as u32
}

impl Goal {
    fn compactor<'a>(&self, opened: &'a OpenedFile, policy: &Policy, options: &PlanOptions) -> Compactor<'a> {
        let (conversation, options) = (&opened.conversation, options.clone());
        match self {
            Goal::Budget(tokens) => Compactor::new(conversation, policy, Limit::Budget(*tokens), options),
            Goal::Window(window) => Compactor::in_settled_window(conversation, policy, window.clone(), options),
        }
    }
}

/// Decides which window counts for a file, in the same order for every verb.
pub fn settle_window(
    opened: &OpenedFile,
    policy: &Policy,
    window: Option<u64>,
    model: Option<&str>,
    config: &CliConfig,
) -> SettledWindow {
    let configured = &config.values().model;
    let file = opened.conversation.window_hints();
    let hints = WindowHints {
        told: window.map(Tokens::new),
        told_model: model,
        configured: configured.window,
        model: file.model.or(configured.name.as_deref()),
        ..file
    };
    hints.settle(policy.trigger.window)
}

/// Loads the preset of a name, or the policy in a file.
pub fn load_policy(name: &str) -> Result<Policy> {
    if let Some(policy) = preset(name) {
        return Ok(policy);
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains(['/', '.']) {
        let names: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name).collect();
        return Err(Failure::new(Exit::Usage, format!("There is no policy `{name}`.")).hint(format!(
            "{}Use a preset ({}) or the path of a policy file.",
            did_you_mean(name, &names),
            names.join(", ")
        )));
    }
    let toml = std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, words(&error)))?;
    Policy::parse(&toml).map_err(|error| {
        Failure::new(Exit::Usage, format!("{}, {error}.", path.display()))
            .hint("`epitome policy show ladder` prints one that works.")
    })
}
