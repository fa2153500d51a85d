//! From the command line to a compaction: the policy, the limit, who writes the summary, and the error when nothing fits.
//!
//! Planning itself is the library's: see `epitome::Compactor`. Nothing is written here.

use std::path::Path;

use epitome::budget::{SettledWindow, Tokens, WindowHints, counter_named};
use epitome::plan::Room;
use epitome::planner::PlanOptions;
use epitome::policy::{Policy, Preset, preset};
use epitome::{BelowFloor, Compactor, CompactorError, Fitted, Limit};
use serde_json::json;

use crate::author::{Author, By};
use crate::cli::Planned;
use crate::failure::{Exit, Failure, words};
use crate::nearest::did_you_mean;
use crate::open::{CountFor, Opened, open};
use crate::settings::Configured;

/// A file with the policy and the limit that were asked for.
pub struct Job {
    /// The file.
    pub opened: Opened,
    /// The policy.
    pub policy: Policy,
    /// The room for messages.
    pub room: Room,
    /// The tokens that must not be exceeded.
    pub limit: Tokens,
    /// The window that the room is in; none where a budget was given.
    pub window: Option<SettledWindow>,
    aimed: Aimed,
    options: PlanOptions,
}

/// The limit that was asked for, with the window where it is one.
enum Aimed {
    Budget(Tokens),
    Window(SettledWindow),
}

impl Aimed {
    /// Returns the library's compactor for a file.
    fn compactor<'a>(&self, opened: &'a Opened, policy: &Policy, options: &PlanOptions) -> Compactor<'a> {
        let (conversation, options) = (&opened.conversation, options.clone());
        match self {
            Aimed::Budget(tokens) => Compactor::new(conversation, policy, Limit::Budget(*tokens), options),
            Aimed::Window(window) => Compactor::in_settled_window(conversation, policy, window.clone(), options),
        }
    }
}

/// A compaction, and who wrote its summary.
pub struct Made {
    /// The compaction, its prompt, and the context for writing.
    pub fitted: Fitted,
    /// Who wrote the summary.
    pub by: By,
}

impl std::ops::Deref for Made {
    type Target = Fitted;

    fn deref(&self) -> &Fitted {
        &self.fitted
    }
}

impl Job {
    /// Opens the file, and settles policy and limit.
    pub fn new(planned: &Planned, configured: &Configured) -> Result<Job, Failure> {
        let Planned { input, aim } = planned;
        let policy = match &aim.policy {
            Some(named) => policy(Some(named))?,
            None => configured.config().compaction_policy()?,
        };
        let named = counter_named(&policy.count.tokenizer).ok().filter(|_| aim.model.is_none());
        let opened = open(input, CountFor { model: aim.model.clone(), counter: named, cautious: true }, aim.until)?;
        if opened.thread.is_empty() {
            return Err(Failure::new(Exit::Unreadable, format!("{} holds no message.", opened.path.display())));
        }
        let aimed = match aim.budget {
            Some(budget) => Aimed::Budget(Tokens::new(budget)),
            None => Aimed::Window(window(&opened, &policy, aim.window, aim.model.as_deref(), configured)),
        };
        let options = PlanOptions {
            force: aim.force,
            pins: aim.pin.clone(),
            instructions: aim.instructions.clone(),
            ..PlanOptions::default()
        };
        let compactor = aimed.compactor(&opened, &policy, &options);
        let (room, limit, window) = (compactor.room, compactor.limit, compactor.window);
        Ok(Job { opened, policy, room, limit, window, aimed, options })
    }

    /// Tells whether a compaction is wanted even of what fits.
    pub fn is_forced(&self) -> bool {
        self.options.force
    }

    fn compactor(&self) -> Compactor<'_> {
        self.aimed.compactor(&self.opened, &self.policy, &self.options)
    }

    /// Makes the compaction; `None` where the file is small enough. A limit that cannot be kept is a failure.
    pub fn run(&self, author: &Author<'_>) -> Result<Option<Made>, Failure> {
        let mut by = By::Nobody;
        let fitted = self.compactor().run(&mut |planner, draft| {
            let (written, who) = author.write(planner, draft, &*self.opened.counter)?;
            by = who;
            Ok(written)
        });
        match fitted {
            Ok(None) => Ok(None),
            Ok(Some(fitted)) => {
                let by = if fitted.was_asked { by } else { By::code(&fitted) };
                Ok(Some(Made { fitted, by }))
            }
            Err(CompactorError::BelowFloor(floor)) => Err(self.refused(&floor)),
            Err(CompactorError::Writer(failure)) => Err(failure),
        }
    }

    /// Makes the compaction by code alone, whether it fits or not; `None` where the file is small enough.
    pub fn preview(&self) -> Result<Option<Made>, Failure> {
        let fitted = self.compactor().preview().map_err(|floor| self.refused(&floor))?;
        Ok(fitted.map(|fitted| Made { by: By::code(&fitted), fitted }))
    }

    /// Returns the failure for a limit that cannot be kept.
    pub fn below_floor(&self) -> Failure {
        self.refused(&self.compactor().below_floor())
    }

    fn refused(&self, refused: &BelowFloor) -> Failure {
        let BelowFloor { limit, floor, system, ref parts, .. } = *refused;
        let made_of: Vec<String> = parts.iter().map(|(name, tokens)| format!("{tokens} for {name}")).collect();
        let (path, made_of) = (self.opened.path.display(), made_of.join(", "));
        // A budget is for the messages without the system's; a window is for all of them.
        let budget = floor - system;
        let sentence = match &self.window {
            None => format!("{path} cannot be brought to {} tokens; the least is {budget}: {made_of}.", limit - system),
            Some(window) => format!(
                "{path} cannot be brought into a window of {}: {} of it are taken by what is not messages, {limit} are left, and the least is {floor}: {}{made_of}.",
                window.tokens,
                window.tokens - limit,
                if system > Tokens::ZERO { format!("{system} for system messages, ") } else { String::new() },
            ),
        };
        let pins = if self.compactor().has_pins() { "; less with fewer pins" } else { "" };
        Failure::new(Exit::CannotFit, sentence)
            .hint(format!("`--budget {}` can be reached{pins}.", budget.get()))
            .facts(json!({
                "floor": budget, "limit": limit - system,
                "parts": parts.iter().map(|(name, tokens)| json!({"what": name, "tokens": tokens})).collect::<Vec<_>>(),
            }))
    }
}

/// The window that counts for a file: one order for every verb.
pub fn window(
    opened: &Opened,
    policy: &Policy,
    told: Option<u64>,
    told_model: Option<&str>,
    configured: &Configured,
) -> SettledWindow {
    let model = &configured.config().model;
    let own = opened.window_hints();
    let hints = WindowHints {
        told: told.map(Tokens::new),
        told_model,
        configured: model.window,
        model: own.model.or(model.name.as_deref()),
        ..own
    };
    hints.settle(policy.trigger.window)
}

/// The policy of a name or in a file; the default where none is named.
pub fn policy(named: Option<&str>) -> Result<Policy, Failure> {
    let Some(named) = named else { return Ok(Preset::ALL[0].policy()) };
    if let Some(policy) = preset(named) {
        return Ok(policy);
    }
    let path = Path::new(named);
    if !path.exists() && !named.contains(['/', '.']) {
        let names: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name).collect();
        return Err(Failure::new(Exit::Usage, format!("There is no policy called `{named}`.")).hint(format!(
            "{}The presets are {}; a file is named by its path.",
            did_you_mean(named, &names),
            names.join(", ")
        )));
    }
    let toml = std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, words(&error)))?;
    Policy::parse(&toml).map_err(|error| {
        Failure::new(Exit::Usage, format!("{}, {error}.", path.display()))
            .hint("`epitome policy show ladder` prints one that works.")
    })
}
