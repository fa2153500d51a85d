//! Deciding: whether to act, and the plan when it is time.

use std::collections::BTreeMap;

use super::board::Board;
use super::draft::Draft;
use super::price::Worth;
use super::rungs::climb;
use super::tail::{OPEN_MEDIA, ProtectedTail, open_media_tokens, system_most, unanswered_tokens};
use super::{OwnProposal, PlanOptions, Planner, PromptShape, Verdict};
use crate::budget::{Meter, Tokens};
use crate::plan::{Action, ClearReason, Compaction, Plan, Room, RungStep, Shortfall, normalize};
use crate::policy::{Policy, Rung};
use crate::thread::{Part, Role, Thread};

/// A compaction that fell short is tried again once the thread has grown by this share of its target.
const GROWTH_BEFORE_RETRY: f64 = 0.1;

impl Planner<'_> {
    /// Decides what the model sees next. Costs next to nothing while the prompt fits.
    pub fn decide(&self) -> Verdict {
        let Planner { thread, policy, meter, room, options } = *self;
        let tokens = self.tokens();
        if !options.force && !is_due(thread, room, policy, tokens) && !is_eager(thread, policy, options.prune) {
            return Verdict::Fits { tokens };
        }
        if !options.force
            && let Some(reason) = no_progress(thread, room, options.previous.as_deref())
        {
            return if tokens <= room.trigger { Verdict::Fits { tokens } } else { Verdict::Wait { tokens, reason } };
        }
        if let Some(shortfall) = open_media_shortfall(thread, room, meter) {
            let reason = format!(
                "the {OPEN_MEDIA} alone take {} tokens, above the limit of {}, and they stay as they are",
                shortfall.parts[0].1, room.limit
            );
            return Verdict::Wait { tokens, reason };
        }
        let draft = self.draft(tokens);
        match self.refusal(&draft, tokens) {
            Some(_) if tokens <= room.trigger => Verdict::Fits { tokens },
            Some(reason) => Verdict::Wait { tokens, reason },
            None => Verdict::Act(Box::new(draft)),
        }
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

/// Whether the policy's words that send the model on stand behind a summary's tail: nobody asked for the plan, and the last word are
/// results that the model has not seen.
fn resumes(thread: &Thread, policy: &Policy, options: &PlanOptions) -> bool {
    let ends_with_results = thread.messages().last().is_some_and(|message| message.results().next().is_some());
    !policy.render.resume.is_empty() && !options.force && ends_with_results && thread.in_flight().is_none()
}

fn is_due(thread: &Thread, room: Room, policy: &Policy, tokens: Tokens) -> bool {
    policy.trigger.auto && tokens > room.trigger && thread.len() >= policy.trigger.messages_min
}

/// Whether the clear rung may act below the trigger: when a turn opens or somebody asks for it, and there is enough to gain.
fn is_eager(thread: &Thread, policy: &Policy, is_asked: bool) -> bool {
    policy.trigger.auto
        && policy.clear.eager
        && policy.rungs.contains(&Rung::Clear)
        && thread.total() > policy.clear.protect + policy.clear.minimum
        && (is_asked || thread.messages().last().is_some_and(|message| message.opens_turn()))
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
fn leave_room_for_unanswered(room: Room, thread: &Thread) -> Room {
    let is_request = thread.messages().last().is_some_and(|message| message.opens_turn());
    let share = if is_request { REQUEST_LIMIT_SHARE } else { RESULTS_LIMIT_SHARE };
    let most = room.limit.share(share).max(room.target);
    match room.limit > room.target {
        true => {
            let beside = unanswered_tokens(thread) + room.target.share(BESIDE_SHARE);
            Room { target: beside.max(room.target).min(most), ..room }
        }
        false => room,
    }
}

impl Planner<'_> {
    /// Returns why a plan is not worth carrying out.
    fn refusal(&self, draft: &Draft, tokens: Tokens) -> Option<String> {
        let Planner { thread, policy, room, options, .. } = *self;
        let plan = draft.plan();
        let known = options.previous.as_ref().map_or(&[][..], |previous| &previous.plan.records);
        if plan.after >= tokens || plan.records == known {
            return Some(match &plan.shortfall {
                Some(shortfall) => format!("nothing can shrink: the floor is {} tokens", shortfall.floor),
                None => "nothing can shrink".to_owned(),
            });
        }
        if options.force || tokens > room.limit || policy.price.calls_expected == 0 {
            return None;
        }
        let worth = Worth::of(&policy.price, options.cache, tokens, plan.after, draft.unchanged(thread));
        (!worth.pays()).then(|| {
            format!("rewriting the cached prompt would cost {:.0} tokens to save {:.0}", worth.rebilled, worth.saved)
        })
    }

    fn draft(&self, tokens: Tokens) -> Draft {
        let Planner { thread, policy, room, options, .. } = *self;
        let aimed = Planner { room: leave_room_for_unanswered(room, thread), ..*self };
        let (mut steps, mut board) = aimed.climb_all(tokens, aimed.protected_tail());
        if board.total > room.limit {
            // The tail as the policy wants it leaves no room: once more with the longest that does.
            let climb = |tail: ProtectedTail| aimed.climb_all(tokens, tail);
            if let Some(made) = longest_that_fits(aimed.shorter_tails(&board.tail), room.limit, climb) {
                (steps, board) = made;
            }
        }
        let shortfall = shortfall(&board);
        let (records, mut warnings) = normalize(std::mem::take(&mut board.records));
        let given = given_way(&board);
        warnings.extend(gave_way(&board, &given));
        warnings.extend(system_left(&board));
        let plan = Plan {
            policy: policy.label(),
            round: options.round(),
            tip: thread.tip(),
            covers: thread.len(),
            resumes: board.pending.is_some() && resumes(thread, policy, options),
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
        Draft::new(plan, board.pending)
    }
}

/// Climbs with the longest of some tails, longest first, whose prompt is within the limit; with the last where none is.
///
/// A shorter tail nearly always makes a smaller prompt, so the place where they begin to fit is found by bisection:
///
/// ```text
/// tails     t0    t1    t2    t3    t4 (smallest)      the last is climbed first: if it does not fit, none does
/// over?     yes   yes   no    no    no                 then the middle, until t2 is known as the first that fits
/// ```
fn longest_that_fits<'a>(
    mut tails: Vec<ProtectedTail>,
    limit: Tokens,
    climb: impl Fn(ProtectedTail) -> (Vec<RungStep>, Board<'a>),
) -> Option<(Vec<RungStep>, Board<'a>)> {
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
fn given_way(board: &Board<'_>) -> Vec<usize> {
    (board.planner.protected_from()..board.tail.from)
        .filter(|place| board.is_gone(*place) && !board.tail.holds(*place))
        .collect()
}

/// Says that the tail is shorter than the policy asks for; `None` when nothing gave way.
fn gave_way(board: &Board<'_>, given: &[usize]) -> Option<String> {
    given.first()?;
    let thread = board.planner.thread;
    let (wanted, from, end) = (board.planner.protected_from(), board.tail.from, thread.len());
    let kept = if from < end { span_in_words(thread, from, end - 1) } else { "nothing".to_owned() };
    let asked = span_in_words(thread, wanted, end - 1);
    let protected = thread.tokens(wanted..end);
    // A tail that had to be shortened again is as long as anything that fits.
    let is_first = board.planner.protected_tail().from == from;
    let fits = if is_first { board.planner.tail_most() } else { thread.tokens(from..end) };
    Some(format!("Kept {kept} instead of {asked}, because the policy protects {protected} tokens and {fits} fit."))
}

/// Says which system messages in the middle of the thread left the prompt because together they take too much of it.
/// Where a shape holds none of them, none had to leave.
fn system_left(board: &Board<'_>) -> Option<String> {
    if board.planner.options.shape != PromptShape::Free {
        return None;
    }
    let thread = board.planner.thread;
    let is_left = |place: &usize| {
        let message = thread.message(*place);
        message.role() == Role::System && !message.is_summary() && board.is_gone(*place) && !board.tail.holds(*place)
    };
    let left: Vec<usize> = (0..board.tail.from).filter(is_left).collect();
    let span = span_in_words(thread, *left.first()?, *left.last()?);
    let tokens: Tokens = left.iter().map(|place| thread.message(*place).tokens()).sum();
    let (count, plural) = (left.len(), if left.len() == 1 { "" } else { "s" });
    Some(format!(
        "Left out {count} system message{plural} in the middle of the thread, {span}, {tokens} tokens, because system \
         messages may take {} tokens and the newest come first.",
        system_most(board.planner.room.target)
    ))
}

fn span_in_words(thread: &Thread, first: usize, last: usize) -> String {
    if first == last {
        thread.reference(first)
    } else {
        format!("{} to {}", thread.reference(first), thread.reference(last))
    }
}

impl<'a> Planner<'a> {
    /// Climbs the policy's rungs, in its order, until the target is reached:
    ///
    /// ```text
    /// 1000 ─ deduplicate ─► 940 ─ supersede ─► 900 ─ (the caller's own) ─► 900 ─ externalize ─► 610 ≤ target 650: done
    /// ```
    ///
    /// A rung that is not needed is not climbed, so the steps tell what was done and what each step bought. Below the trigger
    /// only an eager `clear` is climbed; a forced compaction climbs until one rung has done something.
    fn climb_all(&self, tokens: Tokens, tail: ProtectedTail) -> (Vec<RungStep>, Board<'a>) {
        let Planner { thread, policy, room, options, .. } = *self;
        let mut board = Board::new(*self, tail);
        let mut steps = Vec::new();
        let left_out = tokens - board.total;
        let due = options.force || is_due(thread, room, policy, tokens);
        for (at, rung) in rung_order(policy, &board).iter().enumerate() {
            // Below the trigger only what is eager happens.
            if !due && *rung != Rung::Clear {
                continue;
            }
            if at > 0 && is_ladder(*rung) && !steps.iter().any(|step: &RungStep| step.rung.is_none()) {
                steps.extend(own_rung(&mut board));
            }
            let has_done_nothing = steps.iter().all(|step| step.touched == 0);
            // Clearing that is eager does not wait until there is too much.
            let is_eager = *rung == Rung::Clear && policy.clear.eager;
            let is_needed = !board.is_done() || is_eager || options.force && has_done_nothing;
            if !is_allowed(*rung, options) || !is_needed {
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
}

/// The policy's rungs, in its order. Where little of the prompt may stay, pointers and placeholders would be most of what is left; and
/// where all results and media together are less than must go, no rung before the summary can suffice. Then the summary comes first.
fn rung_order(policy: &Policy, board: &Board<'_>) -> Vec<Rung> {
    let mut rungs = policy.rungs.clone();
    let target = board.planner.room.target;
    if target < board.total.share(policy.summarize.first_below) || board.total - movable_tokens(board) > target {
        rungs.sort_by_key(|rung| *rung != Rung::Summarize);
    }
    rungs
}

/// The tokens of the results and media that rungs may touch.
fn movable_tokens(board: &Board<'_>) -> Tokens {
    let parts = board.touchable_places().flat_map(|place| {
        let message = board.planner.thread.message(place);
        let is_movable = |part: &usize| matches!(message.parts()[*part], Part::ToolResult(_) | Part::Media(_));
        (0..message.parts().len()).filter(is_movable).map(|part| message.part_tokens(part)).collect::<Vec<_>>()
    });
    parts.sum()
}

fn is_ladder(rung: Rung) -> bool {
    !matches!(rung, Rung::Deduplicate | Rung::Supersede)
}

fn is_allowed(rung: Rung, options: &PlanOptions) -> bool {
    let aggressive = matches!(rung, Rung::Externalize | Rung::Drop);
    (options.shape == PromptShape::Free || rung == Rung::Summarize) && !(options.rehydrated && aggressive)
}

fn own_rung(board: &mut Board<'_>) -> Option<RungStep> {
    let own = board.planner.options.own.clone()?;
    let before = board.total;
    let mut touched = 0;
    for proposal in own(board.planner.thread, 0..board.tail.from) {
        let OwnProposal { place, part, placeholder } = proposal;
        if place >= board.tail.from || board.tail.holds(place) || board.is_gone(place) {
            continue;
        }
        let Some(artifact) = board.artifact(place, part) else { continue };
        let action = Action::Clear { why: ClearReason::Own { placeholder }, artifact, preserved: BTreeMap::new() };
        touched += usize::from(board.replace_part(Rung::Clear, place, part, action).is_some());
    }
    Some(RungStep { rung: None, touched, freed: before - board.total, after: board.total, note: String::new() })
}

/// What cannot shrink, when the plan does not fit.
fn shortfall(board: &Board<'_>) -> Option<Shortfall> {
    let over = board.total - board.planner.room.limit;
    if over == Tokens::ZERO {
        return None;
    }
    let thread = board.planner.thread;
    let held = board.held_tokens();
    let tail = board.tokens(board.tail.from..thread.len());
    let rest = board.total - held - tail;
    let media = open_media_tokens(thread, board.planner.meter);
    let named = [
        ("what is protected before the tail", held),
        ("summaries and placeholders", rest),
        (OPEN_MEDIA, media),
        ("the newest exchanges", tail - media),
    ];
    let parts = named.into_iter().filter(|(_, tokens)| *tokens > Tokens::ZERO);
    Some(Shortfall { over, floor: board.total, parts: parts.map(|(name, tokens)| (name.to_owned(), tokens)).collect() })
}
