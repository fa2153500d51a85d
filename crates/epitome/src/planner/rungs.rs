//! The rungs, least to most aggressive. Each is a function on the board; the set is closed.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::PromptShape;
use super::board::Board;
use super::tail::unanswered_tokens;
use crate::budget::Tokens;
use crate::plan::{Action, ClearReason, Record, RungStep};
use crate::policy::{CallMeaning, Rung, ToolClass};
use crate::render::stand_in;
use crate::summary::{PendingSummary, all_words, keywords};
use crate::thread::{Durability, Exchange, MessageId, Part, ResultForm, Span, Thread, ToolResult};

/// Results smaller than this are not worth a placeholder.
const WORTH_CLEARING: Tokens = Tokens::new(40);
/// What the words in the place of a clipped part's middle take.
const CLIP_WORDS: Tokens = Tokens::new(24);
/// The least room a summary is given, however tight the prompt.
const SUMMARY_MIN: Tokens = Tokens::new(256);
/// The share of the trigger up to which a summary fills a prompt: beyond it, the next compaction would come after a few requests.
const SUMMARY_FILL: f64 = 0.5;
/// The same for a summary that stands before a large tail, which gets its own room all the same.
const TAIL_FILL: f64 = 0.9;
/// The most of the target that stays of exchanges because their results cannot be had again.
const NON_REPLAYABLE_SHARE: f64 = 0.25;
/// What the words around the beginning of a moved-out result take.
const POINTER_WORDS: Tokens = Tokens::new(80);
/// A user's message of which less stays is left to the summary.
const CUT_MESSAGE_MIN: Tokens = Tokens::new(64);
/// The most keywords an index entry of a dropped span carries.
const KEYWORDS_MAX: usize = 16;

/// Climbs one rung and tells what it did.
pub fn climb(board: &mut Board<'_>, rung: Rung) -> RungStep {
    let before = board.total;
    let (touched, note) = match rung {
        Rung::Deduplicate => (deduplicate(board), String::new()),
        Rung::Supersede => (supersede(board), String::new()),
        Rung::Externalize => (externalize(board), String::new()),
        Rung::Summarize => summarize(board),
        Rung::Clear => clear(board),
        Rung::Drop => (drop_spans(board), String::new()),
        Rung::Trim => (trim(board), String::new()),
    };
    RungStep { rung: Some(rung), touched, freed: before - board.total, after: board.total, note }
}

/// The results that rungs may touch, oldest first.
fn open_results<'t>(board: &Board<'t>) -> Vec<(usize, usize, &'t ToolResult)> {
    let thread = board.planner.thread;
    let mut found = Vec::new();
    for place in board.touchable_places() {
        for (part, result) in thread.message(place).results() {
            if !board.is_taken(place, part) {
                found.push((place, part, result));
            }
        }
    }
    found
}

fn clear_part(board: &mut Board<'_>, rung: Rung, place: usize, part: usize, why: ClearReason) -> bool {
    let Part::ToolResult(result) = &board.planner.thread.message(place).parts()[part] else { return false };
    let Some(artifact) = board.artifact(place, part) else { return false };
    let preserved = board.planner.policy.tools.preserved_fields(result);
    board.replace_part(rung, place, part, Action::Clear { why, artifact, preserved }).is_some()
}

/// Tells whether a result can be had only once: it stays, or moves out, and no rung clears, drops or summarizes it away.
fn is_non_replayable(board: &Board<'_>, result: &ToolResult) -> bool {
    board.planner.policy.tools.durability(result) == Durability::NonReplayable
}

/// Tells whether an exchange has such a result.
fn has_non_replayable(board: &Board<'_>, mut places: Range<usize>) -> bool {
    places
        .any(|place| board.planner.thread.message(place).results().any(|(_, result)| is_non_replayable(board, result)))
}

/// The same result twice: the older one points to the newer.
fn deduplicate(board: &mut Board<'_>) -> usize {
    let thread = board.planner.thread;
    // Few results are of one size: the others need not be hashed to be told apart.
    let mut sizes: HashMap<usize, u32> = HashMap::new();
    let results =
        || thread.messages().iter().flat_map(|message| message.results().map(move |result| (message, result)));
    for (_, (_, result)) in results() {
        *sizes.entry(result.text.len()).or_default() += 1;
    }
    let is_alone = |text: &str| sizes.get(&text.len()).is_none_or(|&times| times < 2);
    let mut newest: HashMap<&str, MessageId> = HashMap::new();
    for (message, (part, result)) in results() {
        if message.part_tokens(part) >= WORTH_CLEARING && !is_alone(&result.text) {
            newest.insert(&result.text, message.id());
        }
    }
    let mut touched = 0;
    for (place, part, result) in open_results(board) {
        if is_alone(&result.text) || is_non_replayable(board, result) {
            continue;
        }
        let own = thread.message(place).id();
        if let Some(of) = newest.get(&*result.text).copied().filter(|of| *of != own) {
            touched += usize::from(clear_part(board, Rung::Deduplicate, place, part, ClearReason::Duplicate { of }));
        }
    }
    touched
}

/// A read that a later read or write of the same file made stale.
fn supersede(board: &mut Board<'_>) -> usize {
    let thread = board.planner.thread;
    let calls = Calls::of(thread, board);
    let mut touched = 0;
    for (place, part, result) in open_results(board) {
        if thread.message(place).part_tokens(part) < WORTH_CLEARING || is_non_replayable(board, result) {
            continue;
        }
        if let Some(by) = calls.superseded_by(place, result) {
            touched += usize::from(clear_part(board, Rung::Supersede, place, part, ClearReason::Superseded { by }));
        }
    }
    touched
}

/// What the thread's calls mean, and the newest that touched each path.
struct Calls {
    meanings: HashMap<Box<str>, (usize, CallMeaning)>,
    newest: HashMap<String, (usize, MessageId)>,
}

impl Calls {
    fn of(thread: &Thread, board: &Board<'_>) -> Calls {
        let mut calls = Calls { meanings: HashMap::new(), newest: HashMap::new() };
        for (place, message) in thread.messages().iter().enumerate() {
            for call in message.calls() {
                let meaning = board.planner.policy.tools.meaning(call);
                let settles = match meaning.class {
                    Some(ToolClass::Read) => !meaning.partial,
                    Some(ToolClass::Write | ToolClass::Patch) => true,
                    _ => false,
                };
                if settles {
                    calls.newest.extend(meaning.paths.iter().map(|path| (path.clone(), (place, message.id()))));
                }
                calls.meanings.insert(call.id.clone(), (place, meaning));
            }
        }
        calls
    }

    /// The later call that made a read's result stale.
    fn superseded_by(&self, place: usize, result: &ToolResult) -> Option<MessageId> {
        let (called, meaning) = self.meanings.get(&result.call_id)?;
        if meaning.class != Some(ToolClass::Read) || *called > place {
            return None;
        }
        let [path] = &meaning.paths[..] else { return None };
        self.newest.get(path).filter(|(later, _)| *later > place).map(|(_, id)| *id)
    }
}

/// Large results and pictures move out, oldest first, until the target is reached.
fn externalize(board: &mut Board<'_>) -> usize {
    let thread = board.planner.thread;
    let mut touched = 0;
    let places: Vec<usize> = board.touchable_places().collect();
    for place in places {
        for (part, content) in thread.message(place).parts().iter().enumerate() {
            if board.is_done() {
                return touched;
            }
            if should_move(board, place, part, content) && !board.is_taken(place, part) {
                touched += usize::from(move_out(
                    board,
                    Rung::Externalize,
                    place,
                    part,
                    board.planner.policy.externalize.preview,
                    Tokens::ZERO,
                ));
            }
        }
    }
    touched
}

fn should_move(board: &Board<'_>, place: usize, part: usize, content: &Part) -> bool {
    match content {
        Part::ToolResult(result) => {
            let own = board.planner.policy.tools.rule(&result.tool).and_then(|rule| rule.externalize_from);
            board.planner.thread.message(place).part_tokens(part)
                >= own.unwrap_or(board.planner.policy.externalize.tokens_min)
        }
        Part::Media(_) => board.planner.thread.message(place).turn() < board.planner.thread.turn(),
        _ => false,
    }
}

fn move_out(board: &mut Board<'_>, rung: Rung, place: usize, part: usize, head: Tokens, tail: Tokens) -> bool {
    let Some(artifact) = board.artifact(place, part) else { return false };
    let by = board.planner.policy.externalize.by;
    board.replace_part(rung, place, part, Action::Externalize { artifact, head, tail, by }).is_some()
}

/// Everything between the protected head and the tail becomes one summary.
fn summarize(board: &mut Board<'_>) -> (usize, String) {
    // A tail that made way for a summary which is not written gives only what is needed.
    let before = board.checkpoint();
    fit_tail(board);
    match summarize_span(board) {
        Ok(touched) => (touched, fewer_user_messages(board)),
        Err(note) => {
            board.roll_back(before);
            (clip_tail(board, board.planner.room.target), note.to_owned())
        }
    }
}

fn summarize_span(board: &mut Board<'_>) -> Result<usize, &'static str> {
    let Some(range) = summary_range(board) else {
        return Err("nothing between what is protected");
    };
    let Some(span) = board.planner.thread.span(range) else { return Err("nothing to summarize") };
    let stays = kept_in(board, span.range());
    let stays_tokens: Tokens = stays.iter().map(|stay| stay.tokens).sum();
    let original: Tokens = stays.iter().map(|stay| board.original_tokens(stay.place..stay.place + 1)).sum();
    let whole = board.original_tokens(span.range()) - original;
    let now = tokens_in_prompt(board, span.range()) - stays_tokens;
    let rest = board.total - now;
    let limit = summary_limit(board, whole, rest);
    if limit >= now {
        return Err("a summary would not be smaller");
    }
    let kept: Vec<MessageId> = stays.iter().map(|stay| board.planner.thread.message(stay.place).id()).collect();
    let record = Record {
        rung: Rung::Summarize,
        span: span.clone(),
        part: None,
        action: Action::Summarize { summary: 0, kept: kept.clone() },
        before: whole,
        after: limit,
    };
    board.take_span(record);
    for stay in &stays {
        shorten(board, stay);
    }
    board.pending = Some(pending(board, &span, &kept, limit));
    Ok(span.messages().len())
}

/// The summary to be written: what it stands for and what stays beside it.
fn pending(board: &Board<'_>, span: &Span, kept: &[MessageId], limit: Tokens) -> PendingSummary {
    let thread = board.planner.thread;
    let kept_ids: HashSet<&MessageId> = kept.iter().collect();
    let is_kept = |place: usize| kept_ids.contains(&thread.message(place).id());
    let stays = |place: &usize| !span.contains(*place) && !board.is_gone(*place) || is_kept(*place);
    let (mut kept_texts, mut kept_whole) = (Vec::new(), HashSet::new());
    let mut edits: HashMap<usize, Vec<&Record>> = HashMap::new();
    for record in &board.records {
        if let Some(part) = record.part {
            edits.entry(part.place).or_default().push(record);
        }
    }
    let hands_over = board.planner.hands_over();
    for place in (0..thread.len()).filter(|place| stays(place) && !hands_over) {
        let edited = edits.get(&place).into_iter().flatten();
        let stand_ins: Vec<String> =
            edited.map(|record| stand_in(thread, record, &board.planner.policy.tools, board.planner.meter)).collect();
        if stand_ins.is_empty() {
            kept_whole.insert(place);
            kept_texts.push(all_words(thread, place));
        } else {
            kept_texts.push(thread.message(place).text());
            kept_texts.extend(stand_ins);
        }
    }
    let earlier = board.planner.options.previous.as_ref().and_then(|previous| previous.summaries.first());
    PendingSummary {
        span: span.clone(),
        limit: limit - board.planner.question_tokens(),
        splits_turn: board.tail.splits_turn,
        pins: Vec::new(),
        focus: board.planner.options.instructions.clone().unwrap_or_default(),
        hands_over,
        round: board.planner.options.round(),
        earlier: earlier.map(|summary| summary.items.clone()),
        written: earlier.map(|summary| summary.written.clone()).unwrap_or_default(),
        workstream: board.planner.options.workstream.clone(),
        kept_texts,
        kept_whole,
    }
}

/// From the first message that is not protected to the tail.
fn summary_range(board: &Board<'_>) -> Option<Range<usize>> {
    let first = (0..board.tail.from).find(|place| !board.tail.holds(*place))?;
    // Unless something new left the tail's reach, summarizing again would only stir.
    let fresh = (first..board.tail.from).any(|place| !board.is_gone(place) && !board.tail.holds(place));
    fresh.then_some(first..board.tail.from)
}

/// The room for the user's own messages: as much as the policy keeps, as far as its tail may go.
fn user_messages_room(board: &Board<'_>) -> Tokens {
    let planner = &board.planner;
    let tail = board.tokens(board.tail.from..planner.thread.len());
    let most = planner.room.target.share(planner.policy.protect.tail_max);
    let room = most.min(planner.room.target - planner.summary_room()) - tail - board.held_tokens();
    planner.policy.summarize.user_messages.min(room)
}

/// Says so when the policy keeps more of the user's messages than there is room for.
fn fewer_user_messages(board: &Board<'_>) -> String {
    let (wanted, room) = (board.planner.policy.summarize.user_messages, user_messages_room(board));
    if room >= wanted {
        return String::new();
    }
    format!("room for {room} tokens of the user's own messages, of the {wanted} that the policy keeps")
}

/// A message of a summarized span that stays in the prompt.
struct Stay {
    place: usize,
    /// What it takes there.
    tokens: Tokens,
    how: StayHow,
}

/// How much of a message stays.
#[derive(Clone, Copy)]
enum StayHow {
    Whole,
    /// Its longest text without the middle.
    Cut {
        part: usize,
        keep: Tokens,
    },
    /// Its results by pointers, its calls as they are.
    Pointers,
}

/// What of the span stays: held messages, as many of the user's own as the policy keeps, and exchanges with results that cannot
/// be had again.
fn kept_in(board: &Board<'_>, range: Range<usize>) -> Vec<Stay> {
    if board.planner.options.shape != PromptShape::Free {
        return Vec::new();
    }
    let mut left = user_messages_room(board);
    let mut stays = non_replayable_in(board, range.clone());
    for place in range.rev() {
        let message = board.planner.thread.message(place);
        let whole = || Stay { place, tokens: board.original_tokens(place..place + 1), how: StayHow::Whole };
        if board.tail.holds(place) {
            stays.push(whole());
        } else if message.opens_turn() && !message.is_summary() && left > Tokens::ZERO {
            // The one that does not fit is cut, and older ones would stand before a gap.
            let stay = if message.tokens() <= left { Some(whole()) } else { cut_message(board, place, left) };
            left = if message.tokens() <= left { left - message.tokens() } else { Tokens::ZERO };
            stays.extend(stay);
        }
    }
    stays.sort_by_key(|stay| stay.place);
    stays.dedup_by_key(|stay| stay.place);
    stays
}

/// A user's message with the middle of its longest text cut out, if something of it fits.
fn cut_message(board: &Board<'_>, place: usize, most: Tokens) -> Option<Stay> {
    let message = board.planner.thread.message(place);
    let texts = message.parts().iter().enumerate().filter(|(_, part)| matches!(part, Part::Text(_)));
    let (part, _) = texts.max_by_key(|(at, _)| message.part_tokens(*at))?;
    let around = message.tokens() - message.part_tokens(part);
    let keep = most - around - CLIP_WORDS;
    (keep >= CUT_MESSAGE_MIN).then_some(Stay { place, tokens: most, how: StayHow::Cut { part, keep } })
}

/// The exchanges of a range with results that cannot be had again, the newest as far as they have room.
fn non_replayable_in(board: &Board<'_>, range: Range<usize>) -> Vec<Stay> {
    let (thread, policy) = (board.planner.thread, board.planner.policy);
    let pointer = policy.externalize.preview + POINTER_WORDS;
    let mut left = board.planner.room.target.share(NON_REPLAYABLE_SHARE);
    let mut stays = Vec::new();
    let exchanges = thread.exchanges().iter().rev().map(Exchange::range);
    for places in exchanges.filter(|places| range.start <= places.start && places.end <= range.end) {
        if !has_non_replayable(board, places.clone()) {
            continue;
        }
        let stay = |place: usize| {
            let message = thread.message(place);
            let spared = |(part, _)| message.part_tokens(part) - message.part_tokens(part).min(pointer);
            let spared: Tokens = message.results().map(spared).sum();
            Stay { place, tokens: board.original_tokens(place..place + 1) - spared, how: StayHow::Pointers }
        };
        let exchange: Vec<Stay> = places.map(stay).collect();
        let tokens = exchange.iter().map(|stay| stay.tokens).sum();
        if tokens > left {
            break;
        }
        left -= tokens;
        stays.extend(exchange);
    }
    stays
}

/// Takes out of a message that stays what does not stay of it.
fn shorten(board: &mut Board<'_>, stay: &Stay) {
    match stay.how {
        StayHow::Whole => {}
        StayHow::Cut { part, keep } => {
            move_out(board, Rung::Summarize, stay.place, part, keep - keep.share(0.34), keep.share(0.34));
        }
        StayHow::Pointers => {
            let thread = board.planner.thread;
            let pointer = board.planner.policy.externalize.preview + POINTER_WORDS;
            for (part, _) in thread.message(stay.place).results() {
                if thread.message(stay.place).part_tokens(part) > pointer {
                    let preview = board.planner.policy.externalize.preview;
                    move_out(board, Rung::Summarize, stay.place, part, preview, Tokens::ZERO);
                }
            }
        }
    }
}

/// What a range takes in the prompt as planned so far.
fn tokens_in_prompt(board: &Board<'_>, range: Range<usize>) -> Tokens {
    let mut tokens = board.tokens(range.clone());
    for record in board.records.iter().filter(|record| record.part.is_none()) {
        if range.contains(&record.span.range().start) {
            tokens = tokens - board.original_tokens(record.span.range()) + record.after + board.kept(record);
        }
    }
    tokens
}

fn summary_limit(board: &Board<'_>, whole: Tokens, rest: Tokens) -> Tokens {
    let (policy, room) = (&board.planner.policy.summarize, board.planner.room);
    let mut limit = room.target - rest;
    let mut own_most = room.limit - rest;
    if room.target < room.limit || room.trigger < room.limit {
        limit = limit.min(whole.share(policy.ratio).max(SUMMARY_MIN));
        // What nobody has answered has its room beside all this.
        let open = unanswered_tokens(board.planner.thread);
        limit = limit.min(room.trigger.share(SUMMARY_FILL) + open - rest);
        own_most = own_most.min(room.trigger.share(TAIL_FILL) + open - rest);
    }
    if policy.tokens_max > Tokens::ZERO {
        limit = limit.min(policy.tokens_max);
    }
    // A tail that fills the target leaves the summary its own size, as far as there is room for it.
    let own = match policy.tokens_max {
        Tokens::ZERO => Tokens::ZERO,
        _ => board.planner.summary_room().min(own_most),
    };
    limit.min(policy.rollup).max(own).max(SUMMARY_MIN.min(room.target.share(0.5)))
}

/// Results are cleared, as their durability and the policy's protections allow.
fn clear(board: &mut Board<'_>) -> (usize, String) {
    let candidates = clearable(board);
    let gain: Tokens =
        candidates.iter().map(|(place, part)| board.planner.thread.message(*place).part_tokens(*part)).sum();
    if gain < board.planner.policy.clear.minimum {
        return (
            0,
            format!("{gain} tokens could be cleared, fewer than the minimum of {}", board.planner.policy.clear.minimum),
        );
    }
    let placeholder = board.planner.policy.clear.placeholder.clone();
    let mut touched = 0;
    for (place, part) in candidates {
        if board.is_done() && !board.planner.policy.clear.eager {
            break;
        }
        let why = match placeholder.is_empty() {
            true => ClearReason::Durability,
            false => ClearReason::Policy { placeholder: placeholder.clone() },
        };
        touched += usize::from(clear_part(board, Rung::Clear, place, part, why));
    }
    (touched, String::new())
}

/// The results that may be cleared, oldest first.
fn clearable(board: &Board<'_>) -> Vec<(usize, usize)> {
    let (thread, rules) = (board.planner.thread, &board.planner.policy.clear);
    let last_turn = thread.turn().saturating_sub(rules.skip_turns);
    let mut left = rules.protect;
    let mut keep = rules.keep_last;
    let mut found = Vec::new();
    for place in (0..thread.len()).rev() {
        let message = thread.message(place);
        for (part, result) in message.results() {
            let tokens = message.part_tokens(part);
            let recent = rules.skip_turns > 0 && message.turn() > last_turn;
            let protected = recent || left > Tokens::ZERO || keep > 0;
            if !recent {
                left -= tokens;
                keep = keep.saturating_sub(1);
            }
            let exempt = rules.exempt.iter().any(|tool| **tool == *result.tool) || tokens < WORTH_CLEARING;
            // What nobody has answered keeps its media, whatever else is cleared.
            let is_shown = place >= board.tail.from && !result.media.is_empty();
            let outside = (place < board.tail.from || !rules.by_durability) && !is_shown;
            let free = outside && !board.is_gone(place) && !board.tail.holds(place) && !board.is_taken(place, part);
            if !protected && !exempt && free && may_clear(board, result) {
                found.push((place, part));
            }
        }
    }
    found.reverse();
    found
}

fn may_clear(board: &Board<'_>, result: &ToolResult) -> bool {
    match board.planner.policy.tools.durability(result) {
        Durability::NonReplayable => false,
        _ if !board.planner.policy.clear.by_durability => true,
        Durability::Ephemeral | Durability::Anchoring => true,
        Durability::Replayable => match (&result.determinism, board.planner.options.current.get(&*result.call_id)) {
            (Some(then), Some(now)) => !then.has_drifted(now),
            _ => false,
        },
    }
}

/// Older spans go, oldest first, until the target is reached. What cannot be had again stays between them.
fn drop_spans(board: &mut Board<'_>) -> usize {
    let mut touched = 0;
    let mut from = 0;
    while !board.is_done()
        && let Some(range) = droppable(board, from)
    {
        from = range.end;
        touched += drop_span(board, range);
    }
    touched
}

/// The first run of exchanges from a place on that may go, no longer than it must be.
fn droppable(board: &Board<'_>, from: usize) -> Option<Range<usize>> {
    let over = board.total - board.planner.room.target;
    let mut run: Option<Range<usize>> = None;
    let mut freed = Tokens::ZERO;
    for exchange in board.planner.thread.exchanges() {
        let range = exchange.range();
        if range.start < from || range.end > board.tail.from || freed >= over {
            continue;
        }
        let stays = |place: usize| board.tail.holds(place) || board.is_gone(place);
        if range.clone().any(stays) || has_non_replayable(board, range.clone()) {
            if run.is_some() {
                break;
            }
            continue;
        }
        freed += board.tokens(range.clone());
        run = Some(run.map_or(range.start, |run| run.start)..range.end);
    }
    run
}

fn drop_span(board: &mut Board<'_>, range: Range<usize>) -> usize {
    let Some(span) = board.planner.thread.span(range) else { return 0 };
    let keywords = keywords(board.planner.thread, span.range(), KEYWORDS_MAX);
    let mut record = Record {
        rung: Rung::Drop,
        span: span.clone(),
        part: None,
        action: Action::Drop { keywords },
        before: board.original_tokens(span.range()),
        after: Tokens::ZERO,
    };
    record.after = board.planner.meter.text_message(&stand_in(
        board.planner.thread,
        &record,
        &board.planner.policy.tools,
        board.planner.meter,
    ));
    board.take_span(record);
    span.messages().len()
}

/// The largest parts of what is left lose their middle, largest first, until the prompt fits.
fn trim(board: &mut Board<'_>) -> usize {
    let open = board.planner.kept_unanswered_from().filter(|_| board.total <= board.planner.room.limit);
    let parts = trimmable(board, 0..open.unwrap_or(board.planner.thread.len()));
    let keep = level(&parts, board.total - board.planner.room.target).max(board.tail.clip);
    let mut touched = 0;
    for (_, place, part) in parts {
        if board.is_done() {
            break;
        }
        touched += usize::from(clip(board, place, part, keep));
    }
    touched
}

/// Returns what may stay of each part so that all of them together give up `excess`: the long ones give, the short do not.
///
/// ```text
/// parts 900, 500, 100; excess 800     900 alone would keep 100, below the next: go on
///                                     900 + 500 keep (1400 - 800) / 2 = 300 each, above 100: the level is 300
/// ```
fn level(parts: &[(Tokens, usize, usize)], excess: Tokens) -> Tokens {
    let mut sum = Tokens::ZERO;
    for (at, (tokens, ..)) in parts.iter().enumerate() {
        sum += *tokens;
        let next = parts.get(at + 1).map_or(Tokens::ZERO, |(tokens, ..)| *tokens);
        let each = (sum - excess).share(1.0 / (at + 1) as f64);
        if sum > excess && each >= next {
            return each - CLIP_WORDS;
        }
    }
    Tokens::ZERO
}

/// The tokens of a part that a trim can take from: words of results and of arguments, never media.
fn trimmable_tokens(board: &Board<'_>, place: usize, part: usize) -> Tokens {
    let tokens = board.planner.thread.message(place).part_tokens(part);
    match &board.planner.thread.message(place).parts()[part] {
        Part::ToolResult(result) if result.form == ResultForm::Words => tokens - board.planner.meter.media_of(result),
        Part::ToolCall(_) => tokens,
        _ => Tokens::ZERO,
    }
}

/// Results and arguments in a range that are longer than what a trim keeps, largest first.
fn trimmable(board: &Board<'_>, range: Range<usize>) -> Vec<(Tokens, usize, usize)> {
    let thread = board.planner.thread;
    let clip = board.tail.clip;
    let mut found: Vec<(Tokens, usize, usize)> = Vec::new();
    for place in range.filter(|place| !board.is_gone(*place)) {
        let message = thread.message(place);
        for part in 0..message.parts().len() {
            let tokens = trimmable_tokens(board, place, part);
            if tokens > clip && !board.is_taken(place, part) {
                found.push((tokens, place, part));
            }
        }
    }
    found.sort_by_key(|(tokens, place, part)| (std::cmp::Reverse(*tokens), *place, *part));
    found
}

fn clip(board: &mut Board<'_>, place: usize, part: usize, keep: Tokens) -> bool {
    move_out(board, Rung::Trim, place, part, keep - keep.share(0.34), keep.share(0.34))
}

/// Clips long parts of the tail, and gives up its oldest exchanges, until it takes no more than its share.
fn fit_tail(board: &mut Board<'_>) {
    let most = board.planner.tail_most();
    let end = board.planner.thread.len();
    clip_tail(board, Tokens::ZERO);
    while board.tokens(board.tail.from..end) > most {
        let Some(shorter) = board.planner.shorter_tail(&board.tail) else { return };
        board.tail = shorter;
    }
}

/// Clips the longest parts of a tail that takes more than its share, until it no longer does or the prompt is small enough.
fn clip_tail(board: &mut Board<'_>, enough: Tokens) -> usize {
    let most = board.planner.tail_most();
    let tail = board.tail.from..board.planner.thread.len();
    if board.planner.options.shape != PromptShape::Free || !board.planner.policy.rungs.contains(&Rung::Trim) {
        return 0;
    }
    let parts = trimmable(board, tail.start..board.planner.kept_unanswered_from().unwrap_or(tail.end));
    let excess = (board.tokens(tail.clone()) - most).min(board.total - enough);
    let keep = level(&parts, excess).max(board.tail.clip);
    let mut touched = 0;
    for (_, place, part) in parts {
        if board.tokens(tail.clone()) <= most || board.total <= enough {
            break;
        }
        touched += usize::from(clip(board, place, part, keep));
    }
    touched
}
