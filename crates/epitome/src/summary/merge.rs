//! Merging rounds by code: the items of an earlier summary join those of the new span.
//!
//! ```text
//! round 1   m1..m40    extract ──────────────────────────────► items 1 ──► summary 1
//!                                                                 │ earlier
//! round 2   m41..m90   extract ──► merge(items, earlier) ──────► items 2 ──► summary 2      stands for m1..m90
//!                                                                 │ earlier
//! round 3   m91..m140  extract ──► merge(items, earlier) ──────► items 3 ──► summary 3      stands for m1..m140
//! ```
//!
//! Items that code extracted are carried by code: `constraints` of round 1 are the same bytes in round 50, because no model reads and
//! rewrites them. What a model wrote goes the other way: each model is shown the words of the one before it and revises them.
//! So the earlier model's items are taken out (`without_written`, `forget_revised`) before the new ones are added
//! (`merge_model`); added on top, every round would repeat the rounds before it.
//!
//! Example. Round 1 found the request "Add tests", the file `a.rs` read in m5, and the open error `make: no rule`. Round 2
//! patched `a.rs` in m61 and ran `make` without failure in m70. Merged: both rounds' requests in their order, `a.rs` once with
//! read m5 and patched m61, and the error marked as fixed in m70, so that it is not shown as open.

use super::answer::NEXT_STEP;
use super::extract::first_line;
use super::parse::SHORT_BYTES_MAX;
use super::structured::{CommandFact, StructuredSummary, UserRequest};

/// Adds an earlier round's items in front; on the same thing, the newer item wins.
pub(crate) fn merge(items: &mut StructuredSummary, earlier: &StructuredSummary) {
    prepend(&mut items.pins, &earlier.pins, |a, b| a == b);
    prepend(&mut items.constraints, &earlier.constraints, |a, b| a.text == b.text);
    prepend(&mut items.requests, &earlier.requests, is_same_request);
    prepend(&mut items.facts, &earlier.facts, |a, b| a.text == b.text);
    prepend(&mut items.decisions, &earlier.decisions, |a, b| a.decision == b.decision);
    prepend(&mut items.files, &earlier.files, |a, b| a.path == b.path);
    for old in &earlier.files {
        if let Some(new) = items.files.iter_mut().find(|new| new.path == old.path) {
            new.read = new.read.max(old.read);
            if new.written.max(new.patched).is_none() {
                new.purpose.clone_from(&old.purpose);
            }
            new.written = new.written.max(old.written);
            new.patched = new.patched.max(old.patched);
        }
    }
    prepend(&mut items.conclusions, &earlier.conclusions, |a, b| a.place == b.place);
    prepend(&mut items.state, &earlier.state, |a, b| a.kind == b.kind);
    items.state.sort_by_key(|line| line.kind);
    prepend(&mut items.commands, &earlier.commands, |a, b| a.command == b.command && a.place == b.place);
    prepend(&mut items.artifacts, &earlier.artifacts, |a, b| a.path == b.path && a.place == b.place);
    prepend(&mut items.memory_reads, &earlier.memory_reads, |a, b| a.place == b.place);
    prepend(&mut items.errors, &earlier.errors, |a, b| a.about == b.about);
    for error in items.errors.iter_mut().filter(|error| error.fixed.is_none()) {
        let fixes = |command: &&CommandFact| {
            command.place > error.place && !command.failed && first_line(&command.command) == error.about
        };
        error.fixed = items.commands.iter().find(fixes).map(|command| command.place);
    }
    prepend(&mut items.tool_outcomes, &earlier.tool_outcomes, |a, b| a == b);
    prepend(&mut items.values, &earlier.values, |a, b| a.text == b.text);
    prepend(&mut items.urls, &earlier.urls, |a, b| a.text == b.text);
    prepend(&mut items.media, &earlier.media, |a, b| a == b);
    prepend(&mut items.hidden, &earlier.hidden, |a, b| a.place == b.place);
    merge_plan(items, earlier);
    if items.current_task.is_none() {
        items.current_task.clone_from(&earlier.current_task);
    }
}

/// Carries the plan. A new list takes the place of the old one; tasks that a harness numbers are merged one by one, since a later
/// round sees only those that changed.
fn merge_plan(items: &mut StructuredSummary, earlier: &StructuredSummary) {
    if items.current_plan.is_empty() {
        items.current_plan.clone_from(&earlier.current_plan);
        items.open_items.clone_from(&earlier.open_items);
        return;
    }
    if !items.current_plan.iter().all(|item| item.number().is_some()) {
        return;
    }
    let mut merged = earlier.current_plan.clone();
    merged.retain(|item| item.number().is_some());
    for new in std::mem::take(&mut items.current_plan) {
        match merged.iter_mut().find(|old| old.number() == new.number()) {
            // An update names the task by its number alone.
            Some(old) if new.number() == Some(new.text.as_str()) => (old.state, old.place) = (new.state, new.place),
            Some(old) => *old = new,
            None => merged.push(new),
        }
    }
    items.current_plan = merged;
}

/// Returns the items of an earlier round that code carries: those that no model wrote.
pub(super) fn without_written(earlier: &StructuredSummary, written: &StructuredSummary) -> StructuredSummary {
    let mut items = earlier.clone();
    items.facts.retain(|fact| written.facts.iter().all(|own| own.text != fact.text));
    items.decisions.retain(|decision| written.decisions.iter().all(|own| own.decision != decision.decision));
    items.open_items.retain(|item| !written.open_items.contains(item));
    items.constraints.retain(|quote| !written.constraints.contains(quote));
    items.current_plan.retain(|item| !written.current_plan.contains(item));
    items.goal = None;
    items
}

/// Removes the items that were parsed from the texts of earlier summaries, at these places, and that a model has revised.
pub(super) fn forget_revised(items: &mut StructuredSummary, places: &[usize]) {
    items.facts.retain(|fact| !places.contains(&fact.place));
    items.decisions.retain(|decision| !places.contains(&decision.place));
    items.current_plan.retain(|item| item.state != NEXT_STEP || !places.contains(&item.place));
}

/// Adds a model's items: the goal, facts, decisions, open items, next steps and the progress of the current turn. What code
/// extracted stays as it is.
pub(super) fn merge_model(items: &mut StructuredSummary, model: StructuredSummary) {
    items.goal = model.goal.or(items.goal.take());
    items.facts.extend(model.facts);
    items.decisions = model.decisions.into_iter().chain(std::mem::take(&mut items.decisions)).collect();
    if !model.open_items.is_empty() {
        items.open_items = model.open_items;
    }
    for step in model.current_plan {
        if items.current_plan.iter().all(|item| item.text != step.text) {
            items.current_plan.push(step);
        }
    }
    if let Some(turn) = &mut items.turn_context {
        let told = model.turn_context.map(|own| own.progress).unwrap_or_default();
        turn.progress = told.into_iter().chain(std::mem::take(&mut turn.progress)).collect();
    }
    for quote in model.constraints {
        if items.constraints.iter().all(|known| known.text != quote.text) {
            items.constraints.push(quote);
        }
    }
}

/// Tells whether two are one: a request that was quoted again has another place, and short answers are given more than once.
fn is_same_request(one: &UserRequest, other: &UserRequest) -> bool {
    one.text == other.text && (one.place == other.place || one.text.len() > SHORT_BYTES_MAX)
}

fn prepend<T: Clone>(items: &mut Vec<T>, earlier: &[T], same: impl Fn(&T, &T) -> bool) {
    let mut merged: Vec<T> = earlier.iter().filter(|old| !items.iter().any(|new| same(new, old))).cloned().collect();
    merged.append(items);
    *items = merged;
}
