//! Merging rounds by code: what an earlier summary held joins what the new span holds.
//!
//! Nothing that code carries passes through a model again, so it is as exact in round fifty as in round one. What a model
//! wrote is the other way round: each model revises what the one before it wrote, so the newest words take the place of the
//! older ones and nothing of them is added up.

use super::extract::first_line;
use super::structured::{CommandFact, StructuredSummary};

/// Adds an earlier round's items in front; the newer word on the same thing wins.
pub fn merge(items: &mut StructuredSummary, earlier: &StructuredSummary) {
    in_front(&mut items.pins, &earlier.pins, |a, b| a == b);
    in_front(&mut items.constraints, &earlier.constraints, |a, b| a.text == b.text);
    in_front(&mut items.requests, &earlier.requests, |a, b| a.text == b.text);
    in_front(&mut items.facts, &earlier.facts, |a, b| a.text == b.text);
    in_front(&mut items.decisions, &earlier.decisions, |a, b| a.decision == b.decision);
    in_front(&mut items.files, &earlier.files, |a, b| a.path == b.path);
    for old in &earlier.files {
        if let Some(new) = items.files.iter_mut().find(|new| new.path == old.path) {
            new.read = new.read.max(old.read);
            new.written = new.written.max(old.written);
            new.patched = new.patched.max(old.patched);
        }
    }
    in_front(&mut items.commands, &earlier.commands, |a, b| a.command == b.command && a.place == b.place);
    in_front(&mut items.errors, &earlier.errors, |a, b| a.about == b.about);
    for error in items.errors.iter_mut().filter(|error| error.fixed.is_none()) {
        let later = |command: &&CommandFact| command.place > error.place && !command.failed;
        let again = items.commands.iter().filter(later).find(|done| first_line(&done.command) == error.about);
        error.fixed = again.map(|done| done.place);
    }
    in_front(&mut items.artifacts, &earlier.artifacts, |a, b| a.id == b.id);
    in_front(&mut items.tool_outcomes, &earlier.tool_outcomes, |a, b| a == b);
    in_front(&mut items.values, &earlier.values, |a, b| a.text == b.text);
    in_front(&mut items.urls, &earlier.urls, |a, b| a.text == b.text);
    in_front(&mut items.media, &earlier.media, |a, b| a == b);
    in_front(&mut items.hidden, &earlier.hidden, |a, b| a.place == b.place);
    if items.current_plan.is_empty() {
        items.current_plan.clone_from(&earlier.current_plan);
        items.open_items.clone_from(&earlier.open_items);
    }
    if items.current_task.is_none() {
        items.current_task.clone_from(&earlier.current_task);
    }
}

/// The items of an earlier round without what a model wrote of them: what code carries.
pub fn without_written(earlier: &StructuredSummary, written: &StructuredSummary) -> StructuredSummary {
    let mut items = earlier.clone();
    items.facts.retain(|fact| written.facts.iter().all(|own| own.text != fact.text));
    items.decisions.retain(|decision| written.decisions.iter().all(|own| own.decision != decision.decision));
    items.open_items.retain(|item| !written.open_items.contains(item));
    if items.current_plan == written.current_plan {
        items.current_plan.clear();
    }
    items.goal = None;
    items
}

/// Forgets what was read from the texts of earlier summaries at these places and that a model has revised.
pub fn forget_revised(items: &mut StructuredSummary, written: &StructuredSummary, places: &[usize]) {
    items.facts.retain(|fact| !places.contains(&fact.place));
    items.decisions.retain(|decision| !places.contains(&decision.place));
    // The text does not tell a plan that the agent wrote down from a model's next steps.
    if !written.current_plan.is_empty() {
        items.current_plan.retain(|item| !places.contains(&item.place));
    }
}

/// Adds what only a model can say: the goal, facts, decisions, open items. What code extracted stays as it is.
pub fn merge_model(items: &mut StructuredSummary, model: StructuredSummary) {
    items.goal = model.goal.or(items.goal.take());
    items.facts.extend(model.facts);
    items.decisions = model.decisions.into_iter().chain(std::mem::take(&mut items.decisions)).collect();
    if !model.open_items.is_empty() {
        items.open_items = model.open_items;
    }
    if items.current_plan.is_empty() {
        items.current_plan = model.current_plan;
    }
    for quote in model.constraints {
        if items.constraints.iter().all(|known| known.text != quote.text) {
            items.constraints.push(quote);
        }
    }
}

fn in_front<T: Clone>(items: &mut Vec<T>, earlier: &[T], same: impl Fn(&T, &T) -> bool) {
    let mut merged: Vec<T> = earlier.iter().filter(|old| !items.iter().any(|new| same(new, old))).cloned().collect();
    merged.append(items);
    *items = merged;
}
