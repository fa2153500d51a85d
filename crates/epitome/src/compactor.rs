//! Compacting a conversation so that the result fits: the whole way from a limit to the text that is written back.
//!
//! The planner makes one plan for one room. A [`Compactor`] finds the plan whose *written* result is within the limit:
//!
//! ```text
//! 1. the policy's own room           fits? done
//! 2. less room, by what the format   a session file may show more than a prompt does:
//!    adds around the messages        empty messages, its own words around the summary
//! 3. 75 %, 50 %, 25 % of the limit   what is protected gives way step by step
//! 4. the least there is              room for nothing but the media that must stay
//! 5. none of these: the floor        the smallest limit that can be kept, found by bisection
//! ```
//!
//! Steps 1 to 3 may ask a model for the summary; steps 4 and 5 never do.

use std::convert::Infallible;

use crate::budget::{SettledWindow, Tokens, WindowHints};
use crate::conversation::Conversation;
use crate::plan::{Compaction, Room};
use crate::planner::{Draft, OPEN_MEDIA, PlanOptions, Planner, PromptShape, Verdict, open_media_shortfall};
use crate::policy::Policy;
use crate::render::Prompt;
use crate::session::{CompactedContext, SessionChange, SessionError};
use crate::summary::StructuredSummary;
use crate::wire::{PromptMessage, Voice};

/// The shares of the limit that are aimed for when the policy's own target does not fit.
const TIGHTER_SHARES: [f64; 3] = [0.75, 0.5, 0.25];

/// The most of a thread that stays when it is compacted although it fits.
const FORCED_SHARE_MAX: f64 = 0.5;

/// The most rounds in which a plan shrinks because its format adds more than was foreseen.
const SHRINK_ROUNDS_MAX: usize = 4;

const ONE: Tokens = Tokens::new(1);

/// The size that a conversation is compacted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The window that the conversation proves or its model is listed with; the policy's default where nobody knows. The
    /// policy decides when to act and how far to go.
    #[default]
    Auto,
    /// A model's window for input. The policy decides when to act and how far to go; system prompt and tools count.
    Window(Tokens),
    /// The most tokens of the messages, without system messages, system prompt and tools.
    Budget(Tokens),
}

impl Limit {
    /// A window of so many tokens.
    pub const fn window(tokens: u64) -> Limit {
        Limit::Window(Tokens::new(tokens))
    }

    /// A budget of so many tokens for the messages.
    pub const fn budget(tokens: u64) -> Limit {
        Limit::Budget(Tokens::new(tokens))
    }
}

/// The result of [`compact`].
#[derive(Clone, Debug)]
pub struct Compacted {
    /// The conversation in its own format, smaller; the text that came, byte for byte, where it fits already.
    pub text: String,
    /// The plan with its summaries and its receipt; `None` where the conversation fits already.
    pub compaction: Option<Compaction>,
}

/// Why a conversation is not compacted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// The text is no conversation, or its format cannot express the compaction.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The limit cannot be kept.
    #[error(transparent)]
    BelowFloor(#[from] BelowFloor),
}

/// A limit that cannot be kept: the least that can, and what that is made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the messages cannot be brought to {limit} tokens; the least is {floor}")]
pub struct BelowFloor {
    /// The limit that was asked for, system messages included.
    pub limit: Tokens,
    /// The least limit that can be kept, system messages included.
    pub floor: Tokens,
    /// The tokens of system messages, which stay.
    pub system: Tokens,
    /// The parts of the rest, by name.
    pub parts: Vec<(&'static str, Tokens)>,
}

/// Compacts a conversation: a session file, a request or a message list of any known format, told by the text itself.
///
/// No model is called: the embedded summarizer writes. System prompt and tools are counted, and stay as they are. Text that
/// fits already comes back byte for byte.
///
/// ```
/// use epitome::{Limit, compact, policy::preset};
///
/// # let history: Vec<String> = (0..400).map(|at| format!(r#"{{"role":"user","content":"Go on with module {at}."}},{{"role":"assistant","content":"Module {at} is ported and parses its header."}}"#)).collect();
/// # let request = format!(r#"{{"model":"gpt-4o","messages":[{}]}}"#, history.join(","));
/// let policy = preset("ladder").unwrap();
/// let compacted = compact(&request, &policy, Limit::window(8_000))?;
/// let plan = &compacted.compaction.as_ref().unwrap().plan;
/// assert!(compacted.text.len() < request.len() && plan.after < plan.before);
/// # Ok::<(), epitome::CompactError>(())
/// ```
pub fn compact(text: &str, policy: &Policy, limit: Limit) -> Result<Compacted, CompactError> {
    let conversation = Conversation::read(text)?;
    let compactor = Compactor::new(&conversation, policy, limit, PlanOptions::default());
    let fitted = match compactor.run(&mut embedded) {
        Ok(Some(fitted)) => fitted,
        Ok(None) => return Ok(Compacted { text: text.to_owned(), compaction: None }),
        Err(CompactorError::BelowFloor(floor)) => return Err(CompactError::BelowFloor(floor)),
        Err(CompactorError::Writer(never)) => match never {},
    };
    // The crate has no clock: what is appended is as old as the newest line.
    let stamp = conversation.session.newest_stamp().unwrap_or_else(|| EPOCH.to_owned());
    let written = fitted.write(&conversation, &stamp)?;
    Ok(Compacted { text: written.apply(text), compaction: Some(fitted.compaction) })
}

/// The time of lines in a session that tells none.
const EPOCH: &str = "1970-01-01T00:00:00.000Z";

/// Leaves every summary to the embedded summarizer.
pub fn embedded(_: &Planner<'_>, _: &Draft) -> Result<Option<StructuredSummary>, Infallible> {
    Ok(None)
}

/// Writes the summary of a draft, or leaves it to the embedded summarizer.
pub type SummaryWriter<'w, E> = &'w mut dyn FnMut(&Planner<'_>, &Draft) -> Result<Option<StructuredSummary>, E>;

/// Why a [`Compactor`] made nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum CompactorError<E> {
    /// The limit cannot be kept.
    BelowFloor(BelowFloor),
    /// The summary's writer failed.
    Writer(E),
}

/// A conversation with a policy and a limit.
///
/// It is made for one limit and does not change; [`run`](Compactor::run) takes the steps that the module describes and stops at
/// the first result that fits. Whether to act is decided here and not by the planner, because only the written text tells: the
/// planner is always told to act. The policy is a copy, worded as the session's format words summaries; with the caller's own
/// wording the count of the result would be off by the difference.
pub struct Compactor<'a> {
    /// The conversation.
    pub conversation: &'a Conversation,
    /// The policy, worded as the conversation's format can carry it out.
    pub policy: Policy,
    /// The room for messages.
    pub room: Room,
    /// The tokens that must not be exceeded.
    pub limit: Tokens,
    /// The window that the room is in; none where a budget was given.
    pub window: Option<SettledWindow>,
    options: PlanOptions,
    is_forced: bool,
}

/// A compaction whose written result was looked at.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The compaction.
    pub compaction: Compaction,
    /// The prompt, as a model would get it.
    pub prompt: Prompt,
    /// The context, for writing back into the session.
    pub context: CompactedContext,
    /// Whether the writer of summaries was asked for this one.
    pub was_asked: bool,
}

impl<'a> Compactor<'a> {
    /// Returns the compactor of a conversation. `options.force` compacts what fits as well.
    pub fn new(conversation: &'a Conversation, policy: &Policy, limit: Limit, options: PlanOptions) -> Self {
        let (hints, default) = (conversation.window_hints(), policy.trigger.window);
        match limit {
            Limit::Auto => Compactor::in_settled_window(conversation, policy, hints.settle(default), options),
            Limit::Window(tokens) => {
                let window = WindowHints { told: Some(tokens), ..hints }.settle(default);
                Compactor::in_settled_window(conversation, policy, window, options)
            }
            Limit::Budget(tokens) => {
                let limit = tokens + conversation.system_messages();
                Compactor::in_room(conversation, policy, Room::exactly(limit), None, options)
            }
        }
    }

    /// Returns the compactor of a conversation in a window that the caller settled.
    pub fn in_settled_window(
        conversation: &'a Conversation,
        policy: &Policy,
        window: SettledWindow,
        options: PlanOptions,
    ) -> Self {
        let policy = &*policy.for_model(conversation.model.as_deref());
        let room = Room::in_window(policy, window.tokens, conversation.beside());
        Compactor::in_room(conversation, policy, room, Some(window), options)
    }

    fn in_room(
        conversation: &'a Conversation,
        policy: &Policy,
        room: Room,
        window: Option<SettledWindow>,
        options: PlanOptions,
    ) -> Self {
        let (session, thread) = (&conversation.session, &conversation.thread);
        let mut policy = policy.clone();
        // Somebody asks for it.
        policy.trigger.auto = true;
        if let Some(tools) = session.tools().and_then(|tools| policy.tools.with_declared(tools.as_str())) {
            policy.tools = tools;
        }
        let mut cuts = None;
        let frame = session.format().worded("\0");
        if frame.len() > 1 {
            adopt_format_wording(&mut policy, &frame);
        }
        if session.shape() == PromptShape::SummaryThenTail {
            let places = thread.exchanges().iter().map(|exchange| exchange.range().start).chain([thread.len()]);
            cuts = Some(places.filter(|place| session.tail_may_start(*place)).collect());
        }
        let is_forced = options.force;
        // Whether to act is decided here, by what would be written; the planner is asked only when it is to act.
        let options = PlanOptions {
            force: true,
            shape: session.shape(),
            rounds_before: options.rounds_before.max(session.compactions().len() as u32),
            cuts,
            ..options
        };
        Compactor { conversation, policy, room, limit: room.limit, window, options, is_forced }
    }

    /// Tells whether a compaction is wanted even of what fits.
    pub fn is_forced(&self) -> bool {
        self.is_forced
    }

    /// Tells whether the caller or the policy pins words.
    pub fn has_pins(&self) -> bool {
        !self.options.pins.is_empty() || !self.policy.protect.pins.is_empty()
    }

    /// Makes the compaction; `None` where the conversation is small enough. A limit that cannot be kept is an error.
    pub fn run<E>(&self, writer: SummaryWriter<'_, E>) -> Result<Option<Fitted>, CompactorError<E>> {
        self.check_media().map_err(CompactorError::BelowFloor)?;
        let mut writer = Some(writer);
        let Some(made) = self.attempt_in(self.room, self.limit, &mut writer)? else { return Ok(None) };
        if made.fits(self.limit) {
            return Ok(Some(made));
        }
        match self.tighter(&mut writer)? {
            Some(made) => Ok(Some(made)),
            None => Err(CompactorError::BelowFloor(self.below_floor())),
        }
    }

    /// Makes the compaction by code alone, whether it fits or not; `None` where the conversation is small enough.
    pub fn preview(&self) -> Result<Option<Fitted>, BelowFloor> {
        self.check_media()?;
        let made = || -> Result<Option<Fitted>, CompactorError<Infallible>> {
            let Some(made) = self.attempt_in(self.room, self.limit, &mut None)? else { return Ok(None) };
            if made.fits(self.limit) {
                return Ok(Some(made));
            }
            Ok(Some(self.tighter(&mut None)?.unwrap_or(made)))
        };
        made().map_err(|error| match error {
            CompactorError::BelowFloor(floor) => floor,
            CompactorError::Writer(never) => match never {},
        })
    }

    /// Makes a compaction within a limit that the policy's own target does not keep: what is protected then takes room that
    /// the summary needs. `None` if there is none. The least there is comes first: where that is too much, nothing else has
    /// to be tried.
    fn tighter<E>(&self, writer: &mut Option<SummaryWriter<'_, E>>) -> Result<Option<Fitted>, CompactorError<E>> {
        let limit = self.limit;
        let Some(least) = self.least().filter(|least| least.tokens() <= limit) else { return Ok(None) };
        for share in TIGHTER_SHARES {
            let within = limit.share(share).max(self.open_media());
            let made = self.attempt_in(Room::exactly(within), within, writer)?;
            if let Some(made) = made.filter(|made| made.fits(within)) {
                return Ok(Some(made));
            }
        }
        Ok(Some(least.made_for(limit)))
    }

    /// Makes the smallest compaction that the planner can, by code alone: with room for nothing but the media that must stay.
    fn least(&self) -> Option<Fitted> {
        self.make::<Infallible>(Room::exactly(self.open_media()), &self.options, &mut None).ok().flatten()
    }

    /// Refuses a limit that the media which must stay exceed by themselves.
    fn check_media(&self) -> Result<(), BelowFloor> {
        if self.limit < self.open_media() { Err(self.below_floor()) } else { Ok(()) }
    }

    /// Returns the tokens of the media that no plan takes out. The planner makes nothing below them.
    fn open_media(&self) -> Tokens {
        let nothing = Room::exactly(Tokens::ZERO);
        let shortfall = open_media_shortfall(&self.conversation.thread, nothing, self.conversation.meter());
        shortfall.map_or(Tokens::ZERO, |shortfall| shortfall.floor)
    }

    fn attempt_in<E>(
        &self,
        room: Room,
        limit: Tokens,
        writer: &mut Option<SummaryWriter<'_, E>>,
    ) -> Result<Option<Fitted>, CompactorError<E>> {
        let total = self.conversation.thread.total();
        let is_small = total <= room.target;
        if is_small && !self.is_forced {
            return self.prune(room, writer);
        }
        // A room for more than there is would protect all of it; a caller who forces a compaction wants less.
        let room = match is_small {
            true => Room { target: total.share(self.policy.target.low_water.min(FORCED_SHARE_MAX)), ..room },
            false => room,
        };
        let mut made = self.make(room, &self.options, writer)?;
        let mut within = room.limit;
        for _ in 0..SHRINK_ROUNDS_MAX {
            // A format may show more than a prompt would: empty messages, its own words around the summary.
            let Some(last) = made.as_ref().filter(|made| made.compaction.plan.shortfall.is_none()) else { break };
            let over = last.tokens() - limit;
            if over == Tokens::ZERO {
                break;
            }
            within = (within - over).max(self.open_media());
            let less = Room { trigger: room.trigger.min(within), target: room.target.min(within), limit: within };
            made = self.make(less, &self.options, writer)?;
        }
        Ok(made)
    }

    /// Clears what a policy clears even of what fits; `None` where it clears nothing.
    fn prune<E>(
        &self,
        room: Room,
        writer: &mut Option<SummaryWriter<'_, E>>,
    ) -> Result<Option<Fitted>, CompactorError<E>> {
        if !self.policy.clear.eager {
            return Ok(None);
        }
        self.make(room, &PlanOptions { force: false, prune: true, ..self.options.clone() }, writer)
    }

    fn make<E>(
        &self,
        room: Room,
        options: &PlanOptions,
        writer: &mut Option<SummaryWriter<'_, E>>,
    ) -> Result<Option<Fitted>, CompactorError<E>> {
        let conversation = self.conversation;
        let planner = Planner::new(&conversation.thread, &self.policy, conversation.meter(), room, options);
        let draft = match planner.decide() {
            Verdict::Act(draft) => draft,
            Verdict::Fits { .. } => return Ok(None),
            Verdict::Wait { tokens, .. } if tokens <= room.limit => return Ok(None),
            Verdict::Wait { .. } => return Err(CompactorError::BelowFloor(self.cannot_shrink())),
        };
        let (written, was_asked) = match writer {
            Some(write) if draft.pending().is_some() => {
                (write(&planner, &draft).map_err(CompactorError::Writer)?, true)
            }
            _ => (None, false),
        };
        let compaction = planner.finish(*draft, written);
        let prompt = planner.render(Some(&compaction), &[]);
        let context = self.context(&compaction, &prompt);
        Ok(Some(Fitted { compaction, prompt, context, was_asked }))
    }

    /// Returns the context that a compaction leaves, as the session's format has it.
    fn context(&self, compaction: &Compaction, prompt: &Prompt) -> CompactedContext {
        let Conversation { session, thread, .. } = self.conversation;
        let meter = self.conversation.meter();
        let summary = compaction.summaries.first().map(|summary| summary.text.clone()).unwrap_or_default();
        let (messages, after) = match session.shape() {
            PromptShape::SummaryThenTail => {
                let tail = compaction.plan.tail_from..thread.len();
                let text = session.format().worded(&summary);
                let after = meter.text_message(&text) + thread.tokens(tail.clone());
                let summary = PromptMessage::summary(Voice::User, text);
                (std::iter::once(summary).chain(tail.map(PromptMessage::Kept)).collect(), after)
            }
            PromptShape::Free if self.conversation.is_list() => {
                (prompt.marked_messages(thread), prompt.tokens(thread, meter))
            }
            PromptShape::Free => (prompt.messages.clone(), prompt.tokens(thread, meter)),
        };
        let (tokens_before, tokens_after) = (thread.total().get(), after.get());
        CompactedContext { messages, summary, tokens_before, tokens_after, ..CompactedContext::default() }
    }

    /// Returns the error for messages of which nothing can shrink.
    fn cannot_shrink(&self) -> BelowFloor {
        let (total, media) = (self.conversation.thread.total(), self.open_media());
        let rest = total - self.conversation.system_messages() - media;
        self.refusal(total, &[(OPEN_MEDIA, media), ("what cannot shrink", rest)])
    }

    /// Returns the least limit that can be kept, and what it is made of.
    pub fn below_floor(&self) -> BelowFloor {
        let Some(least) = self.least() else { return self.cannot_shrink() };
        let floor = self.floor(least.tokens());
        if floor >= self.conversation.thread.total() {
            return self.cannot_shrink();
        }
        let system = self.conversation.system_messages();
        let summary: Tokens = least.compaction.summaries.iter().map(|summary| summary.tokens).sum();
        let summary = summary.min(floor - system);
        let rest = floor - system - summary;
        self.refusal(floor, &[("a summary that holds what must stay", summary), ("messages that stay", rest)])
    }

    fn refusal(&self, floor: Tokens, parts: &[(&'static str, Tokens)]) -> BelowFloor {
        let parts = parts.iter().copied().filter(|(_, tokens)| *tokens > Tokens::ZERO).collect();
        BelowFloor { limit: self.limit, floor, system: self.conversation.system_messages(), parts }
    }

    /// Returns the least limit above the one that is not kept. The smallest compaction nearly always tells it; where one
    /// with another tail is smaller still, it is between the two:
    ///
    /// ```text
    /// limit 500 ─────────────── 812 ───────── 930 least          what the smallest compaction takes
    ///    not kept               the floor     is 929 kept?       no: 930 is the floor
    ///                                                            yes: bisect between 500 and 929
    /// ```
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

    /// Tells whether a limit is kept, by code alone.
    fn keeps(&self, limit: Tokens, least: Tokens) -> bool {
        if self.conversation.thread.total() <= limit || least <= limit {
            return true;
        }
        let made = self.attempt_in::<Infallible>(Room::exactly(limit), limit, &mut None);
        made.ok().flatten().is_some_and(|made| made.fits(limit))
    }
}

impl Fitted {
    /// Tells whether the plan has no shortfall and its written result is within a limit.
    pub fn fits(&self, limit: Tokens) -> bool {
        self.compaction.plan.shortfall.is_none() && self.tokens() <= limit
    }

    /// Returns the tokens of the written result.
    pub fn tokens(&self) -> Tokens {
        Tokens::new(self.context.tokens_after)
    }

    /// Returns the change to the session's text; `stamp` is the time that new lines carry.
    pub fn write(&self, conversation: &Conversation, stamp: &str) -> Result<SessionChange, SessionError> {
        conversation.session.write(&self.context, stamp)
    }

    /// Returns the compaction as one for a limit that it keeps: it was made for less, and falls short of nothing.
    fn made_for(mut self, limit: Tokens) -> Fitted {
        self.compaction.plan.room = Room::exactly(limit);
        self.compaction.plan.shortfall = None;
        self
    }
}

/// Words a policy as a format whose loader introduces the summary does: `frame` is the loader's text with a NUL where the
/// summary stands.
fn adopt_format_wording(policy: &mut Policy, frame: &str) {
    let (prefix, suffix) = frame.split_once('\0').unwrap_or_default();
    (policy.render.prefix, policy.render.suffix) = (prefix.to_owned(), suffix.to_owned());
    (policy.render.question, policy.render.role) = (String::new(), Voice::User);
}
