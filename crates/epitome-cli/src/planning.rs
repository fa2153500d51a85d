//! From what was asked to a compaction: the policy, the room, the plan, and the context it yields.
//!
//! Nothing is written here.

use std::path::Path;

use epitome::budget::{Model, Tokens, counter_named};
use epitome::plan::{Ask, Compaction, OPEN_MEDIA, Room, Shape, Verdict, decide, open_media_shortfall};
use epitome::policy::{Policy, Preset, preset};
use epitome::render::{Piece, Prompt, render};
use epitome::session::{Compacted, CompactedItem, Format, Session, Trigger};
use epitome::wire::{Item, Voice};
use serde_json::json;

use crate::author::{Author, By};
use crate::cli::{Aim, Planned};
use crate::failure::{Exit, Failure, words};
use crate::open::{CountFor, Opened, dialect, open};

/// How the least that can be reached is looked for: by larger steps up, then by halves down.
const FLOOR_STEP: Tokens = Tokens::new(16);
const FLOOR_GROWTH: f64 = 1.5;
const FLOOR_TRIES_MAX: usize = 12;

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
    pub fn new(planned: &Planned) -> Result<Job, Failure> {
        let Planned { input, aim } = planned;
        let policy = policy(aim.policy.as_deref())?;
        let named = counter_named(&policy.count.tokenizer).ok().filter(|_| aim.model.is_none());
        let opened = open(input, CountFor { model: aim.model.clone(), counter: named, cautious: true }, aim.until)?;
        if opened.thread.is_empty() {
            return Err(Failure::new(Exit::Unreadable, format!("{} holds no message.", opened.path.display())));
        }
        let (room, limit) = room(&opened, &policy, aim);
        let policy = in_words_of(policy, &opened.session);
        let (pins, instructions, force) = (aim.pin.clone(), aim.instructions.clone(), aim.force);
        Ok(Job { opened, policy, room, limit, pins, instructions, force })
    }

    /// Makes the compaction, unless the thread is small enough; a plan that does not fit is a failure.
    pub fn run(&self, author: &Author<'_>) -> Result<Outcome, Failure> {
        let Some(made) = self.attempt_in(self.room, self.limit, Some(author))? else { return Ok(Outcome::Fits) };
        match made.fits(self.limit) {
            false => Err(self.below_floor()),
            true => Ok(Outcome::Made(Box::new(made))),
        }
    }

    /// Makes the compaction by code alone, whether it fits or not; `None` if the thread is small enough.
    pub fn attempt(&self) -> Result<Option<Made>, Failure> {
        self.attempt_in(self.room, self.limit, None)
    }

    fn attempt_in(&self, room: Room, limit: Tokens, author: Option<&Author<'_>>) -> Result<Option<Made>, Failure> {
        if self.opened.thread.total() <= room.target && !self.force {
            return Ok(None);
        }
        let mut made = self.make(room, author)?;
        let mut within = room.limit;
        for _ in 0..GIVE_WAY_MAX {
            // A format may show more than a prompt would: empty messages, its own words around the summary.
            let Some(last) = made.as_ref().filter(|made| made.compaction.plan.shortfall.is_none()) else { break };
            let over = Tokens::new(last.compacted.tokens_after) - limit;
            if over == Tokens::ZERO {
                break;
            }
            within -= over;
            let less = Room { trigger: room.trigger.min(within), target: room.target.min(within), limit: within };
            made = self.make(less, author)?;
        }
        Ok(made)
    }

    fn make(&self, room: Room, author: Option<&Author<'_>>) -> Result<Option<Made>, Failure> {
        let (thread, session, policy) = (&self.opened.thread, &self.opened.session, &self.policy);
        let may_cut = |place: usize| session.tail_may_start(place);
        let ask = Ask {
            force: true,
            shape: session.shape(),
            pins: self.pins.clone(),
            instructions: self.instructions.clone(),
            rounds_before: self.opened.session.compactions().len() as u32,
            may_cut: (session.shape() == Shape::SummaryThenTail).then_some(&may_cut),
            ..Ask::default()
        };
        let draft = match decide(thread, room, policy, self.opened.meter(), &ask) {
            Verdict::Act(draft) => draft,
            Verdict::Fits { .. } => return Ok(None),
            Verdict::Wait { tokens, .. } if tokens <= room.limit => return Ok(None),
            Verdict::Wait { .. } => return Err(self.stuck()),
        };
        let (prose, by) = match author {
            Some(author) => author.write(&draft, &*self.opened.counter)?,
            None => (None, By::code(&draft)),
        };
        let compaction = draft.finish_with(prose);
        let prompt = render(thread, Some(&compaction), policy, dialect(session), self.opened.meter(), &[]);
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
        let media = open_media_shortfall(&self.opened.thread, self.room, self.opened.meter());
        let media = media.map_or(Tokens::ZERO, |shortfall| shortfall.floor);
        let rest = total - self.opened.system_messages() - media;
        self.refused(total, &[(OPEN_MEDIA, media), ("what cannot shrink", rest)])
    }

    /// Why a plan does not fit: the least that does, and what it is made of.
    pub fn below_floor(&self) -> Failure {
        let system = self.opened.system_messages();
        let (floor, made) = self.floor();
        let Some(made) = made else { return self.stuck() };
        let summary: Tokens = made.compaction.summaries.iter().map(|summary| summary.tokens).sum();
        let rest = Tokens::new(made.compacted.tokens_after) - system - summary;
        self.refused(floor, &[("a summary that holds what must stay", summary), ("messages that stay", rest)])
    }

    fn refused(&self, floor: Tokens, parts: &[(&str, Tokens)]) -> Failure {
        let system = self.opened.system_messages();
        let (floor, limit) = (floor - system, self.limit - system);
        let parts = || parts.iter().filter(|(_, tokens)| *tokens > Tokens::ZERO);
        let made_of: Vec<String> = parts().map(|(name, tokens)| format!("{tokens} for {name}")).collect();
        let path = self.opened.path.display();
        let made_of = made_of.join(", ");
        Failure::new(
            Exit::CannotFit,
            format!("{path} cannot be brought to {limit} tokens; the least is {floor}: {made_of}."),
        )
        .hint(format!("`--budget {}` can be reached; less with fewer pins.", floor.get()))
        .facts(json!({
            "floor": floor, "limit": limit,
            "parts": parts().map(|(name, tokens)| json!({"what": name, "tokens": tokens})).collect::<Vec<_>>(),
        }))
    }

    /// The smallest limit that was found to be kept, above the one that is not, and what keeps it; all of the thread
    /// where nothing smaller does.
    fn floor(&self) -> (Tokens, Option<Made>) {
        let within = |limit: Tokens| {
            let made = self.attempt_in(Room::exactly(limit), limit, None).ok().flatten();
            made.filter(|made| made.fits(limit))
        };
        let total = self.opened.thread.total();
        let (mut low, mut high, mut found) = (self.limit, self.limit, None);
        while found.is_none() {
            low = high;
            high = (high + FLOOR_STEP).scaled(FLOOR_GROWTH);
            if high >= total {
                return (total, None);
            }
            found = within(high);
        }
        for _ in 0..FLOOR_TRIES_MAX {
            let middle = low + (high - low).share(0.5);
            if middle == low {
                break;
            }
            match within(middle) {
                Some(made) => (high, found) = (middle, Some(made)),
                None => low = middle,
            }
        }
        (high, found)
    }
}

impl Made {
    /// Whether it is within a limit.
    pub fn fits(&self, limit: Tokens) -> bool {
        self.compaction.plan.shortfall.is_none() && self.compacted.tokens_after <= limit.get()
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

/// The room for messages, and the tokens that must not be exceeded.
fn room(opened: &Opened, policy: &Policy, aim: &Aim) -> (Room, Tokens) {
    if let Some(budget) = aim.budget {
        let limit = Tokens::new(budget) + opened.system_messages();
        return (Room::exactly(limit), limit);
    }
    let model = aim.model.as_deref().or(opened.session.model());
    let window = match (aim.window, model) {
        (Some(window), _) => Tokens::new(window),
        (None, Some(model)) => Model::named(model).window,
        (None, None) => policy.trigger.window,
    };
    let room = Room::in_window(policy, window, opened.fixed().total());
    (room, room.limit)
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
