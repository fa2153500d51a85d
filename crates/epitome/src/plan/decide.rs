//! Deciding: whether to act, and the plan when it is time.

use std::collections::BTreeMap;
use std::ops::Range;

use super::board::Board;
use super::budget::Room;
use super::compaction::{Compaction, Plan, Shortfall, Step};
use super::draft::Draft;
use super::normalize::normalize;
use super::price::{Cache, Worth};
use super::record::{Action, Cleared, Record};
use super::rungs::climb;
use super::tail::{OPEN_MEDIA, Protection, Tail, open_media_tokens, open_tokens};
use crate::budget::{Meter, Tokens};
use crate::policy::{Policy, Rung};
use crate::thread::{Determinism, Thread};

/// A compaction that fell short is tried again once the thread has grown by this share of its target.
const GROWTH_BEFORE_RETRY: f64 = 0.1;

/// A caller's own rung: given the thread and the places it may touch, names parts and what should stand there.
pub type OwnRung<'a> = &'a dyn Fn(&Thread, Range<usize>) -> Vec<OwnProposal>;

/// One part that a caller's own rung wants cleared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProposal {
    /// The message's place.
    pub place: usize,
    /// The part's place in it.
    pub part: usize,
    /// What should stand there.
    pub placeholder: String,
}

/// Which prompts a format can express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Any.
    #[default]
    Free,
    /// One summary, then a verbatim tail.
    SummaryThenTail,
}

/// What is asked of the planner besides thread, room and policy.
#[derive(Clone, Default)]
pub struct Ask<'a> {
    /// The compaction that the thread is under.
    pub previous: Option<&'a Compaction>,
    /// How many compactions the thread went through before, where `previous` does not tell.
    pub rounds_before: u32,
    /// Act even below the trigger.
    pub force: bool,
    /// What the result must look like.
    pub shape: Shape,
    /// Words that every later prompt must hold, besides the policy's.
    pub pins: Vec<String>,
    /// What the user wants the summary to look at.
    pub instructions: Option<String>,
    /// What is known of the provider's cache.
    pub cache: Cache,
    /// The state of tool results' sources now, by call id.
    pub current: BTreeMap<String, Determinism>,
    /// Content was brought back in this turn: nothing is moved out or dropped.
    pub rehydrated: bool,
    /// What artifacts are addressed under, so that nobody can guess an id from its content; plain hashes without it.
    pub artifact_key: Option<[u8; 32]>,
    /// Whether the tail may begin at a place, where the format has rules of its own for that.
    pub may_cut: Option<&'a dyn Fn(usize) -> bool>,
    /// The caller's own rung, climbed after the free ones.
    pub own: Option<OwnRung<'a>>,
}

impl Ask<'_> {
    /// Which compaction of the thread this would be, from 1.
    pub(super) fn round(&self) -> u32 {
        self.previous.map_or(self.rounds_before, |previous| previous.plan.round) + 1
    }
}

/// What the planner decided.
#[derive(Debug)]
pub enum Verdict<'a> {
    /// The prompt is below the trigger.
    Fits {
        /// Its tokens.
        tokens: Tokens,
    },
    /// The prompt is above the trigger, and acting would not help.
    Wait {
        /// Its tokens.
        tokens: Tokens,
        /// Why not.
        reason: String,
    },
    /// A plan, which may still need its summary.
    Act(Box<Draft<'a>>),
}

/// Decides what the model sees next. Costs next to nothing while the prompt fits.
pub fn decide<'a>(thread: &'a Thread, room: Room, policy: &'a Policy, meter: Meter<'a>, ask: &Ask<'a>) -> Verdict<'a> {
    let tokens = ask.previous.map_or_else(|| thread.total(), |previous| previous.prompt_tokens(thread));
    if !ask.force && !is_due(thread, room, policy, tokens) && !is_eager(thread, policy) {
        return Verdict::Fits { tokens };
    }
    if !ask.force
        && let Some(reason) = no_progress(thread, room, ask.previous)
    {
        return match tokens <= room.trigger {
            true => Verdict::Fits { tokens },
            false => Verdict::Wait { tokens, reason },
        };
    }
    if let Some(shortfall) = open_media_shortfall(thread, room, meter) {
        let reason = format!(
            "the {OPEN_MEDIA} alone take {} tokens, above the limit of {}, and they stay as they are",
            shortfall.parts[0].1, room.limit
        );
        return Verdict::Wait { tokens, reason };
    }
    let draft = draft(thread, room, policy, meter, ask, tokens);
    match refusal(&draft, room, policy, ask, tokens) {
        Some(_) if tokens <= room.trigger => Verdict::Fits { tokens },
        Some(reason) => Verdict::Wait { tokens, reason },
        None => Verdict::Act(Box::new(draft)),
    }
}

/// The shortfall of a thread whose newest request alone is above the limit by its media: no plan can mend that.
pub fn open_media_shortfall(thread: &Thread, room: Room, meter: Meter<'_>) -> Option<Shortfall> {
    let media = open_media_tokens(thread, meter);
    (media > room.limit).then(|| Shortfall {
        over: thread.total() - room.limit,
        floor: media,
        parts: vec![(OPEN_MEDIA.to_owned(), media)],
    })
}

fn is_due(thread: &Thread, room: Room, policy: &Policy, tokens: Tokens) -> bool {
    policy.trigger.auto && tokens > room.trigger && thread.len() >= policy.trigger.messages_min
}

/// Whether the clear rung may act below the trigger: when a turn opens, and there is enough to gain.
fn is_eager(thread: &Thread, policy: &Policy) -> bool {
    policy.clear.eager
        && policy.rungs.contains(&Rung::Clear)
        && thread.total() > policy.clear.protect + policy.clear.minimum
        && thread.messages().last().is_some_and(|message| message.opens_turn())
}

/// Planning twice is planning once, and a compaction that fell short is not tried again until something has changed.
fn no_progress(thread: &Thread, room: Room, previous: Option<&Compaction>) -> Option<String> {
    let plan = &previous?.plan;
    if plan.room == room && plan.tip == thread.tip() {
        return Some("nothing was added since the last compaction".to_owned());
    }
    let shortfall = plan.shortfall.as_ref()?;
    let grown = thread.total() - plan.thread_tokens;
    let same = plan.room == room && grown < room.target.share(GROWTH_BEFORE_RETRY);
    same.then(|| {
        format!("the last compaction reached its floor of {} tokens and nothing has changed since", shortfall.floor)
    })
}

/// The share of the target that is there for everything else, however large what is open.
const BESIDE_SHARE: f64 = 0.5;
/// The most of the limit that is aimed for when a request is large: nobody else can say it again.
const REQUEST_LIMIT_SHARE: f64 = 0.9;
/// The most of the limit that is aimed for when results are large that nobody has answered: of larger ones the middle can be
/// read back.
const RESULTS_LIMIT_SHARE: f64 = 0.4;

/// The room with what nobody has answered beside the target: a compaction is there to make room for it, not to take it
/// away. Without anything between target and limit there is no such room.
fn beside_what_is_open(room: Room, thread: &Thread) -> Room {
    let is_request = thread.messages().last().is_some_and(|message| message.opens_turn());
    let share = if is_request { REQUEST_LIMIT_SHARE } else { RESULTS_LIMIT_SHARE };
    let most = room.limit.share(share).max(room.target);
    match room.limit > room.target {
        true => {
            let beside = open_tokens(thread) + room.target.share(BESIDE_SHARE);
            Room { target: beside.max(room.target).min(most), ..room }
        }
        false => room,
    }
}

/// Why a plan is not worth carrying out.
fn refusal(draft: &Draft<'_>, room: Room, policy: &Policy, ask: &Ask<'_>, tokens: Tokens) -> Option<String> {
    let plan = draft.plan();
    let known = ask.previous.map_or(&[][..], |previous| &previous.plan.records);
    if plan.after >= tokens || plan.records == known {
        return Some(match &plan.shortfall {
            Some(shortfall) => format!("nothing can shrink: the floor is {} tokens", shortfall.floor),
            None => "nothing can shrink".to_owned(),
        });
    }
    if ask.force || tokens > room.limit || policy.price.calls_expected == 0 {
        return None;
    }
    let worth = Worth::of(&policy.price, ask.cache, tokens, plan.after, draft.unchanged());
    (!worth.pays()).then(|| {
        format!("rewriting the cached prompt would cost {:.0} tokens to save {:.0}", worth.rebilled, worth.saved)
    })
}

fn draft<'a>(
    thread: &'a Thread,
    room: Room,
    policy: &'a Policy,
    meter: Meter<'a>,
    ask: &Ask<'a>,
    tokens: Tokens,
) -> Draft<'a> {
    let aimed = beside_what_is_open(room, thread);
    let (shape, may_cut) = (ask.shape, ask.may_cut);
    let protection = Protection { thread, policy, target: aimed.target, limit: aimed.limit, shape, may_cut };
    let tail = protection.tail();
    let (mut steps, mut board) = climb_all(thread, aimed, policy, meter, ask, tokens, tail);
    if board.total > room.limit {
        // The tail as the policy wants it leaves no room: once more with the longest that does.
        let climb = |tail: Tail| climb_all(thread, aimed, policy, meter, ask, tokens, tail);
        if let Some(made) = longest_that_fits(protection.shorter_than(&board.tail), room.limit, climb) {
            (steps, board) = made;
        }
    }
    let shortfall = shortfall(&board);
    let (records, mut warnings) = normalize(std::mem::take(&mut board.records));
    let given = given_way(&protection, &board);
    warnings.extend(gave_way(&protection, &board, &given));
    let plan = Plan {
        policy: policy.label(),
        round: ask.round(),
        tip: thread.tip(),
        covers: thread.len(),
        thread_tokens: thread.total(),
        room,
        records,
        reasoning_from: thread.turn_start().min(thread.len()),
        tail_from: board.tail.from,
        gave_way: given.len(),
        carried: Vec::new(),
        before: tokens,
        after: board.total,
        steps,
        shortfall,
        warnings,
    };
    Draft::new(thread, policy, meter, ask, plan, board.pending)
}

/// What comes of the longest of some tails, longest first, whose prompt is within the limit; of the last where none is.
fn longest_that_fits<'a>(
    mut tails: Vec<Tail>,
    limit: Tokens,
    climb: impl Fn(Tail) -> (Vec<Step>, Board<'a>),
) -> Option<(Vec<Step>, Board<'a>)> {
    let mut best = climb(tails.pop()?);
    if best.1.total > limit {
        return Some(best);
    }
    let (mut low, mut high) = (0, tails.len());
    while low < high {
        let middle = (low + high) / 2;
        let made = climb(tails[middle].clone());
        if made.1.total <= limit {
            best = made;
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(best)
}

/// The places of messages that the policy protects and that left the prompt all the same.
fn given_way(protection: &Protection<'_>, board: &Board<'_>) -> Vec<usize> {
    (protection.wanted()..board.tail.from).filter(|place| board.is_gone(*place) && !board.tail.holds(*place)).collect()
}

/// What gave way, in a sentence.
fn gave_way(protection: &Protection<'_>, board: &Board<'_>, given: &[usize]) -> Option<String> {
    let thread = board.thread;
    let (first, last) = (*given.first()?, *given.last()?);
    let span = match first == last {
        true => thread.reference(first),
        false => format!("{} to {}", thread.reference(first), thread.reference(last)),
    };
    let protected = thread.tokens(protection.wanted()..thread.len());
    let tokens: Tokens = given.iter().map(|place| thread.message(*place).tokens()).sum();
    Some(format!(
        "The policy protects {protected} tokens, from {} on, and the newest messages may take {}: {span}, {tokens} tokens, gave way.",
        thread.reference(protection.wanted()),
        protection.most(),
    ))
}

fn climb_all<'a>(
    thread: &'a Thread,
    room: Room,
    policy: &'a Policy,
    meter: Meter<'a>,
    ask: &Ask<'a>,
    tokens: Tokens,
    tail: Tail,
) -> (Vec<Step>, Board<'a>) {
    let earlier = ask.previous.map(|previous| previous.plan.records.clone()).unwrap_or_default();
    let mut board = Board::new(thread, meter, policy, room, tail, ask, earlier);
    let mut steps = Vec::new();
    let left_out = tokens - board.total;
    let due = ask.force || is_due(thread, room, policy, tokens);
    for (at, rung) in rung_order(policy, room, board.total).iter().enumerate() {
        // Below the trigger only what is eager happens.
        if !due && *rung != Rung::Clear {
            continue;
        }
        if at > 0 && is_ladder(*rung) && !steps.iter().any(|step: &Step| step.rung.is_none()) {
            steps.extend(own_rung(&mut board, ask));
        }
        if !is_allowed(*rung, ask) || (board.is_done() && !(ask.force && steps.iter().all(|step| step.touched == 0))) {
            continue;
        }
        steps.push(climb(&mut board, *rung));
    }
    if let Some(first) = steps.first_mut().filter(|_| left_out > Tokens::ZERO) {
        // A rewritten prompt has no use for it, whatever the rungs do.
        first.freed += left_out;
        let gap = if first.note.is_empty() { "" } else { "; " };
        first.note.push_str(&format!("{gap}{left_out} of it reasoning and empty messages of earlier turns"));
    }
    (steps, board)
}

/// The policy's rungs, with the summary in front when little of the prompt may stay.
fn rung_order(policy: &Policy, room: Room, total: Tokens) -> Vec<Rung> {
    let mut rungs = policy.rungs.clone();
    if room.target < total.share(policy.summarize.first_below) {
        rungs.sort_by_key(|rung| *rung != Rung::Summarize);
    }
    rungs
}

fn is_ladder(rung: Rung) -> bool {
    !matches!(rung, Rung::Deduplicate | Rung::Supersede)
}

fn is_allowed(rung: Rung, ask: &Ask<'_>) -> bool {
    let aggressive = matches!(rung, Rung::Externalize | Rung::Drop);
    (ask.shape == Shape::Free || rung == Rung::Summarize) && !(ask.rehydrated && aggressive)
}

fn own_rung(board: &mut Board<'_>, ask: &Ask<'_>) -> Option<Step> {
    let own = ask.own?;
    let before = board.total;
    let mut touched = 0;
    for proposal in own(board.thread, 0..board.tail.from) {
        let OwnProposal { place, part, placeholder } = proposal;
        if place >= board.tail.from || board.tail.holds(place) || board.is_gone(place) {
            continue;
        }
        let Some(artifact) = board.artifact(place, part) else { continue };
        let action = Action::Clear { why: Cleared::Own { placeholder }, artifact, preserved: BTreeMap::new() };
        touched += usize::from(board.exchange_part(Rung::Clear, place, part, action).is_some());
    }
    Some(Step { rung: None, touched, freed: before - board.total, after: board.total, note: String::new() })
}

/// What cannot shrink, when the plan does not fit.
fn shortfall(board: &Board<'_>) -> Option<Shortfall> {
    let over = board.total - board.room.limit;
    if over == Tokens::ZERO {
        return None;
    }
    let thread = board.thread;
    let held: Tokens =
        (0..board.tail.from).filter(|place| board.tail.holds(*place)).map(|p| board.whole(p..p + 1)).sum();
    let tail = board.tokens(board.tail.from..thread.len());
    let rest = board.total - held - tail;
    let media = open_media_tokens(thread, board.meter);
    let named = [
        ("what is protected before the tail", held),
        ("summaries and placeholders", rest),
        (OPEN_MEDIA, media),
        ("the newest exchanges", tail - media),
    ];
    let parts = named.into_iter().filter(|(_, tokens)| *tokens > Tokens::ZERO);
    Some(Shortfall { over, floor: board.total, parts: parts.map(|(name, tokens)| (name.to_owned(), tokens)).collect() })
}

/// Whether a record still names messages of a thread: plans survive appends and nothing else.
pub fn is_valid_for(plan: &Plan, thread: &Thread) -> bool {
    let newest = plan.covers.checked_sub(1).filter(|at| *at < thread.len()).map(|at| thread.message(at).id());
    plan.covers <= thread.len()
        && (plan.covers == 0 || newest == Some(plan.tip) || thread.evicted().is_some_and(|gone| gone.id == plan.tip))
        && plan.records.iter().all(|record: &Record| record.span.range().end <= plan.covers)
}
