//! From what was asked to a compaction: the policy, the room, the plan, and the context it yields.
//!
//! Nothing is written here.

use std::path::Path;

use epitome::budget::{SettledWindow, Tokens, WindowHints, counter_named};
use epitome::plan::{Compaction, OPEN_MEDIA, PlanOptions, Planner, Room, Shape, Verdict, open_media_shortfall};
use epitome::policy::{Policy, Preset, preset};
use epitome::render::{Piece, Prompt};
use epitome::session::{Compacted, CompactedItem, Format, Session, Trigger};
use epitome::wire::{Item, Voice};
use serde_json::json;

use crate::author::{Author, By};
use crate::cli::{Aim, Planned};
use crate::failure::{Exit, Failure, words};
use crate::open::{CountFor, Opened, open};
use crate::settings::Configured;

/// What is aimed for when the policy's own target does not fit: these shares of the limit, and then the least there is.
const HARDER: [f64; 3] = [0.75, 0.5, 0.25];

/// The most of a thread that stays when it is compacted although it fits.
const FORCED_SHARE_MAX: f64 = 0.5;

/// How often a plan gives way to what its format adds.
const GIVE_WAY_MAX: usize = 4;

/// What is asked of a file, understood.
pub struct Job {
    /// The file.
    pub opened: Opened,
    /// The policy, as the file's format can carry it out.
    pub policy: Policy,
    /// The room for messages.
    pub room: Room,
    /// What must not be exceeded.
    pub limit: Tokens,
    /// The window that the room is in; none where a budget was given.
    pub window: Option<SettledWindow>,
    pins: Vec<String>,
    instructions: Option<String>,
    force: bool,
}

/// What came of it.
pub enum Outcome {
    /// It is small enough already.
    Fits,
    /// A compaction.
    Made(Box<Made>),
}

/// A compaction and the context it yields.
pub struct Made {
    /// The compaction.
    pub compaction: Compaction,
    /// The prompt, for looking at.
    pub prompt: Prompt,
    /// The context, for writing.
    pub compacted: Compacted,
    /// Who wrote its summary.
    pub by: By,
}

impl Job {
    /// Understands what was asked and opens the file.
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
        let (room, limit, window) = room(&opened, &policy, aim, configured);
        let policy = in_words_of(policy, &opened.session);
        let (pins, instructions, force) = (aim.pin.clone(), aim.instructions.clone(), aim.force);
        Ok(Job { opened, policy, room, limit, window, pins, instructions, force })
    }

    /// Whether a compaction is wanted even of what fits.
    pub fn is_forced(&self) -> bool {
        self.force
    }

    /// Makes the compaction, unless the thread is small enough; a plan that does not fit is a failure.
    pub fn run(&self, author: &Author<'_>) -> Result<Outcome, Failure> {
        self.check_media()?;
        let Some(made) = self.attempt_in(self.room, self.limit, Some(author))? else { return Ok(Outcome::Fits) };
        if made.fits(self.limit) {
            return Ok(Outcome::Made(Box::new(made)));
        }
        match self.harder(self.limit, Some(author))? {
            Some(made) => Ok(Outcome::Made(Box::new(made))),
            None => Err(self.below_floor()),
        }
    }

    /// Makes the compaction by code alone, whether it fits or not; `None` if the thread is small enough.
    pub fn attempt(&self) -> Result<Option<Made>, Failure> {
        self.check_media()?;
        let Some(made) = self.attempt_in(self.room, self.limit, None)? else { return Ok(None) };
        if made.fits(self.limit) {
            return Ok(Some(made));
        }
        Ok(Some(self.harder(self.limit, None)?.unwrap_or(made)))
    }

    /// A compaction within a limit that the policy's own target does not keep: what is protected then takes room that
    /// the summary needs. `None` if there is none. The least there is comes first: where that is too much, nothing else
    /// has to be tried.
    fn harder(&self, limit: Tokens, author: Option<&Author<'_>>) -> Result<Option<Made>, Failure> {
        let Some(least) = self.least()?.filter(|least| least.tokens() <= limit) else { return Ok(None) };
        for share in HARDER {
            let within = limit.share(share).max(self.open_media());
            let made = self.attempt_in(Room::exactly(within), within, author)?;
            if let Some(made) = made.filter(|made| made.fits(within)) {
                return Ok(Some(made));
            }
        }
        Ok(Some(least.settled(limit)))
    }

    /// The smallest compaction that the planner makes, by code alone: with room for nothing but the media that must stay.
    fn least(&self) -> Result<Option<Made>, Failure> {
        self.make(Room::exactly(self.open_media()), None)
    }

    /// Refuses a limit that the media which must stay exceed by themselves.
    fn check_media(&self) -> Result<(), Failure> {
        if self.limit < self.open_media() { Err(self.below_floor()) } else { Ok(()) }
    }

    /// The tokens of the media that no plan takes out. The planner makes nothing below them.
    fn open_media(&self) -> Tokens {
        let nothing = Room::exactly(Tokens::ZERO);
        let shortfall = open_media_shortfall(&self.opened.thread, nothing, self.opened.meter());
        shortfall.map_or(Tokens::ZERO, |shortfall| shortfall.floor)
    }

    /// Whether a limit is kept.
    fn keeps(&self, limit: Tokens, least: Tokens) -> bool {
        if self.opened.thread.total() <= limit {
            return true;
        }
        let room = Room::exactly(limit);
        let made = || self.attempt_in(room, limit, None).ok().flatten();
        least <= limit || made().is_some_and(|made| made.fits(limit))
    }

    fn attempt_in(&self, room: Room, limit: Tokens, author: Option<&Author<'_>>) -> Result<Option<Made>, Failure> {
        let total = self.opened.thread.total();
        if total <= room.target && !self.force {
            return Ok(None);
        }
        // A room for more than there is protects all of it; whoever insists wants less than there is.
        let room = match total <= room.target {
            true => Room { target: total.share(self.policy.target.low_water.min(FORCED_SHARE_MAX)), ..room },
            false => room,
        };
        let mut made = self.make(room, author)?;
        let mut within = room.limit;
        for _ in 0..GIVE_WAY_MAX {
            // A format may show more than a prompt would: empty messages, its own words around the summary.
            let Some(last) = made.as_ref().filter(|made| made.compaction.plan.shortfall.is_none()) else { break };
            let over = Tokens::new(last.compacted.tokens_after) - limit;
            if over == Tokens::ZERO {
                break;
            }
            within = (within - over).max(self.open_media());
            let less = Room { trigger: room.trigger.min(within), target: room.target.min(within), limit: within };
            made = self.make(less, author)?;
        }
        Ok(made)
    }

    fn make(&self, room: Room, author: Option<&Author<'_>>) -> Result<Option<Made>, Failure> {
        let (thread, session, policy) = (&self.opened.thread, &self.opened.session, &self.policy);
        let places = thread.exchanges().iter().map(|exchange| exchange.range().start).chain([thread.len()]);
        let options = PlanOptions {
            force: true,
            shape: session.shape(),
            pins: self.pins.clone(),
            instructions: self.instructions.clone(),
            rounds_before: self.opened.session.compactions().len() as u32,
            cuts: (session.shape() == Shape::SummaryThenTail)
                .then(|| places.filter(|place| session.tail_may_start(*place)).collect()),
            ..PlanOptions::default()
        };
        let planner = Planner { thread, policy, meter: self.opened.meter(), room, options: &options };
        let draft = match planner.decide() {
            Verdict::Act(draft) => draft,
            Verdict::Fits { .. } => return Ok(None),
            Verdict::Wait { tokens, .. } if tokens <= room.limit => return Ok(None),
            Verdict::Wait { .. } => return Err(self.stuck()),
        };
        let (prose, by) = match author {
            Some(author) => author.write(&planner, &draft, &*self.opened.counter)?,
            None => (None, By::code(&draft)),
        };
        let compaction = planner.finish(*draft, prose);
        let prompt = planner.render(Some(&compaction), &[]);
        let compacted = self.compacted(&compaction, &prompt);
        Ok(Some(Made { compaction, prompt, compacted, by }))
    }

    fn compacted(&self, compaction: &Compaction, prompt: &Prompt) -> Compacted {
        let summary = compaction.summaries.first().map(|summary| summary.text.clone()).unwrap_or_default();
        let thread = &self.opened.thread;
        let (items, after) = match (self.opened.session.shape(), self.opened.session.format()) {
            (Shape::SummaryThenTail, format) => {
                let tail = compaction.plan.tail_from..thread.len();
                let text = format.worded(&summary);
                let after = self.opened.meter().text_message(&text) + thread.tokens(tail.clone());
                let said = CompactedItem::Said { voice: Voice::User, text, summary: true };
                (std::iter::once(said).chain(tail.map(CompactedItem::Kept)).collect(), after)
            }
            (Shape::Free, Format::List(_)) => {
                (prompt.items(thread).into_iter().map(listed).collect(), prompt.tokens(thread, self.opened.meter()))
            }
            (Shape::Free, _) => {
                (prompt.pieces.iter().map(said_or_kept).collect(), prompt.tokens(thread, self.opened.meter()))
            }
        };
        Compacted {
            items,
            summary,
            tokens_before: thread.total().get(),
            tokens_after: after.get(),
            trigger: Trigger::Manual,
        }
    }

    /// Why nothing can be done: what is there cannot shrink.
    fn stuck(&self) -> Failure {
        let total = self.opened.thread.total();
        let media = self.open_media();
        let rest = total - self.opened.system_messages() - media;
        self.refused(total, &[(OPEN_MEDIA, media), ("what cannot shrink", rest)])
    }

    /// Why a plan does not fit: the least that does, and what it is made of.
    pub fn below_floor(&self) -> Failure {
        let Ok(Some(least)) = self.least() else { return self.stuck() };
        let floor = self.floor(least.tokens());
        if floor >= self.opened.thread.total() {
            return self.stuck();
        }
        let summary: Tokens = least.compaction.summaries.iter().map(|summary| summary.tokens).sum();
        let summary = summary.min(floor - self.opened.system_messages());
        let rest = floor - self.opened.system_messages() - summary;
        self.refused(floor, &[("a summary that holds what must stay", summary), ("messages that stay", rest)])
    }

    /// The least limit above the one that is not kept. The smallest compaction nearly always tells it; where one with
    /// another tail is smaller still, it is between the two.
    fn floor(&self, least: Tokens) -> Tokens {
        let mut high = least;
        if high <= self.limit || !self.keeps(high - ONE, least) {
            return high;
        }
        let mut low = self.limit;
        high -= ONE;
        while low + ONE < high {
            let middle = low + (high - low).share(0.5);
            if self.keeps(middle, least) { high = middle } else { low = middle }
        }
        high
    }

    fn refused(&self, floor: Tokens, parts: &[(&str, Tokens)]) -> Failure {
        let system = self.opened.system_messages();
        let parts = || parts.iter().filter(|(_, tokens)| *tokens > Tokens::ZERO);
        let made_of: Vec<String> = parts().map(|(name, tokens)| format!("{tokens} for {name}")).collect();
        let (path, made_of) = (self.opened.path.display(), made_of.join(", "));
        // A budget is for the messages without the system's; a window is for all of them.
        let budget = floor - system;
        let sentence = match &self.window {
            None => {
                format!("{path} cannot be brought to {} tokens; the least is {budget}: {made_of}.", self.limit - system)
            }
            Some(window) => format!(
                "{path} cannot be brought into a window of {}: {} of it are taken by what is not messages, {} are left, and the least is {floor}: {}{made_of}.",
                window.tokens,
                window.tokens - self.limit,
                self.limit,
                if system > Tokens::ZERO { format!("{system} for system messages, ") } else { String::new() },
            ),
        };
        let has_pins = !self.pins.is_empty() || !self.policy.protect.pins.is_empty();
        let pins = if has_pins { "; less with fewer pins" } else { "" };
        Failure::new(Exit::CannotFit, sentence)
            .hint(format!("`--budget {}` can be reached{pins}.", budget.get()))
            .facts(json!({
                "floor": budget, "limit": self.limit - system,
                "parts": parts().map(|(name, tokens)| json!({"what": name, "tokens": tokens})).collect::<Vec<_>>(),
            }))
    }
}

const ONE: Tokens = Tokens::new(1);

impl Made {
    /// Whether it is within a limit.
    pub fn fits(&self, limit: Tokens) -> bool {
        self.compaction.plan.shortfall.is_none() && self.compacted.tokens_after <= limit.get()
    }

    /// What it takes.
    fn tokens(&self) -> Tokens {
        Tokens::new(self.compacted.tokens_after)
    }

    /// The compaction as one for a limit that it keeps: it was made for less, and falls short of nothing.
    fn settled(mut self, limit: Tokens) -> Made {
        self.compaction.plan.room = Room::exactly(limit);
        self.compaction.plan.shortfall = None;
        self
    }
}

fn listed(item: Item) -> CompactedItem {
    match item {
        Item::Kept(place) => CompactedItem::Kept(place),
        // A list takes the JSON as it is, whatever place it is said to come from.
        Item::Written(json) => CompactedItem::Edited(0, json),
    }
}

fn said_or_kept(piece: &Piece) -> CompactedItem {
    match piece {
        Piece::Kept(place) => CompactedItem::Kept(*place),
        Piece::Edited { place, json } => CompactedItem::Edited(*place, json.clone()),
        Piece::Written { voice, text, summary } => {
            CompactedItem::Said { voice: *voice, text: text.clone(), summary: *summary }
        }
    }
}

/// The policy in a format's own words: where a format's loader introduces the summary, the policy's words are its.
fn in_words_of(mut policy: Policy, session: &Session) -> Policy {
    if session.shape() == Shape::SummaryThenTail {
        let words = session.format().worded("\0");
        let (prefix, suffix) = words.split_once('\0').unwrap_or_default();
        (policy.render.prefix, policy.render.suffix) = (prefix.to_owned(), suffix.to_owned());
        (policy.render.question, policy.render.role) = (String::new(), Voice::User);
    }
    policy
}

/// The room for messages, the tokens that must not be exceeded, and the window they come from.
fn room(opened: &Opened, policy: &Policy, aim: &Aim, configured: &Configured) -> (Room, Tokens, Option<SettledWindow>) {
    if let Some(budget) = aim.budget {
        let limit = Tokens::new(budget) + opened.system_messages();
        return (Room::exactly(limit), limit, None);
    }
    let window = window(opened, policy, aim.window, aim.model.as_deref(), configured);
    let room = Room::in_window(policy, window.tokens, opened.beside());
    (room, room.limit, Some(window))
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
    let hints = WindowHints {
        told: told.map(Tokens::new),
        told_model,
        configured: model.window.map(Tokens::new),
        proven: opened.session.proven_window(),
        model: opened.session.model().or(model.name.as_deref()),
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
        return Err(Failure::new(Exit::Usage, format!("There is no policy called `{named}`."))
            .hint(format!("The presets are {}; a file is named by its path.", names.join(", "))));
    }
    let toml = std::fs::read_to_string(path).map_err(|error| Failure::unreadable(path, words(&error)))?;
    Policy::parse(&toml).map_err(|error| {
        Failure::new(Exit::Usage, format!("{}, {error}.", path.display()))
            .hint("`epitome policy show ladder` prints one that works.")
    })
}
