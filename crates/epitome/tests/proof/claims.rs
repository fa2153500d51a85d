//! The invariants as functions: each says what is wrong, or nothing.

use std::sync::Arc;

use std::collections::BTreeSet;

use epitome::budget::Tokens;
use epitome::plan::{Action, ArtifactId, Compaction, Plan, Record, normalize};
use epitome::planner::{PlanOptions, Planner, Verdict};
use epitome::render::Prompt;
use epitome::thread::{Part, Thread};
use epitome::wire::{LastExchange, PromptMessage, Severity, check};
use serde_json::Value;

use crate::world::{Under, World, prompt, recount};

/// What a claim answers.
pub type Held = Result<(), String>;

macro_rules! hold {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use hold;

/// Everything that must be true of one compaction of one thread.
pub fn compaction_holds(world: &World, under: &Under, ask: &PlanOptions, compaction: &Compaction) -> Held {
    let rendered = prompt(&world.thread, Some(compaction), under, world.dialect);
    readable_back(&world.thread, compaction, &rendered)?;
    passes_the_check(&world.thread, &rendered, world)?;
    within_budget(world, under, compaction, &rendered)?;
    same_again(world, under, ask, compaction, &rendered)?;
    settled(world, under, ask, compaction)?;
    constraints_stay(compaction, &rendered, &world.thread)
}

/// 1. What left the prompt is named by a record, and the log still has it.
pub fn readable_back(thread: &Thread, compaction: &Compaction, rendered: &Prompt) -> Held {
    hold!(is_valid_for(&compaction.plan, thread), "the plan does not fit its own thread");
    for record in &compaction.plan.records {
        let logged: Vec<_> = record.span.range().map(|place| thread.message(place).id()).collect();
        hold!(logged == record.span.messages(), "a record names messages that are not in the thread");
        if let Some(part) = record.part {
            hold!(record.span.contains(part.place), "a record's part is outside its span");
            hold!(part.part < thread.message(part.place).parts().len(), "a record names a part that does not exist");
        }
    }
    let artifacts = compaction.artifacts(thread);
    for artifact in &artifacts {
        hold!(ArtifactId::of(artifact.content.as_bytes()) == artifact.id, "an artifact's content has another id");
    }
    let moved = compaction
        .plan
        .records
        .iter()
        .filter(|r| matches!(r.action, Action::Externalize { .. } | Action::Clear { .. }));
    hold!(moved.count() == artifacts.len(), "content was moved out that cannot be read back");
    gone_is_named(thread, compaction, rendered)
}

/// A message that is not in the prompt has a record, unless it says nothing at all.
fn gone_is_named(thread: &Thread, compaction: &Compaction, rendered: &Prompt) -> Held {
    let mut seen = BTreeSet::new();
    for place in rendered.messages.iter().filter_map(PromptMessage::place) {
        hold!(seen.last().is_none_or(|last| *last <= place), "messages are out of order at m{}", place + 1);
        seen.insert(place);
    }
    for place in (0..thread.len()).filter(|place| !seen.contains(place)) {
        let named = compaction.plan.records.iter().any(|record| record.covers(place, None));
        let silent = thread.message(place).parts().iter().all(|part| match part {
            Part::Text(text) => text.trim().is_empty(),
            Part::Reasoning(_) => true,
            _ => false,
        });
        hold!(named || silent, "m{} left the prompt and no record names it", place + 1);
    }
    Ok(())
}

/// 2. The prompt breaks no rule of its dialect.
pub fn passes_the_check(thread: &Thread, rendered: &Prompt, world: &World) -> Held {
    let messages: Vec<Value> =
        rendered.to_json(thread).iter().map(|json| serde_json::from_str(json).expect("rendered JSON")).collect();
    if messages.is_empty() {
        return Ok(());
    }
    let violations = check(world.dialect, &Value::Array(messages.clone()), LastExchange::Open);
    let errors: Vec<String> =
        violations.iter().filter(|found| found.severity() == Severity::Error).map(ToString::to_string).collect();
    hold!(errors.is_empty(), "{} breaks {}\n{}", world.dialect, errors.join("; "), shown(&messages));
    Ok(())
}

fn shown(messages: &[Value]) -> String {
    let line = |(at, message): (usize, &Value)| {
        format!("{at:02} {}", message.to_string().chars().take(300).collect::<String>())
    };
    messages.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// 3. The prompt is as large as the plan says, and within the limit unless the plan says by how much it is not.
pub fn within_budget(world: &World, under: &Under, compaction: &Compaction, rendered: &Prompt) -> Held {
    let plan = &compaction.plan;
    let json = rendered.to_json(&world.thread);
    let tokens = recount(&json, world.dialect, &under.meter(world.dialect));
    hold!(tokens == rendered.tokens(&world.thread, under.meter(world.dialect)), "the prompt miscounts itself");
    hold!(plan.after == tokens, "the plan says {} and the prompt has {tokens}", plan.after);
    let freed: Tokens = plan.steps.iter().map(|step| step.freed).sum();
    hold!(
        plan.steps.is_empty() || plan.before - freed == plan.after || plan.after > plan.before,
        "from {} to {}, and the steps freed {freed}",
        plan.before,
        plan.after
    );
    let over = tokens - plan.room.limit;
    match &plan.shortfall {
        None => hold!(over == Tokens::ZERO, "{over} over the limit and no shortfall"),
        Some(shortfall) => {
            hold!(shortfall.over == over, "the shortfall says {} and it is {over}", shortfall.over);
            hold!(shortfall.over > Tokens::ZERO, "a shortfall of nothing");
            hold!(shortfall.floor == tokens, "the floor is {} and the prompt has {tokens}", shortfall.floor);
            let named: Tokens = shortfall.parts.iter().map(|(_, tokens)| *tokens).sum();
            hold!(named > Tokens::ZERO, "the floor is made of nothing");
        }
    }
    Ok(())
}

/// 6. The same again gives the same, and normalizing twice is normalizing once.
fn same_again(world: &World, under: &Under, ask: &PlanOptions, compaction: &Compaction, rendered: &Prompt) -> Held {
    let meter = under.meter(world.dialect);
    let planner = Planner::new(&world.thread, &under.policy, meter, compaction.plan.room, ask);
    let again = match planner.decide() {
        Verdict::Act(draft) => planner.finish(*draft, None),
        other => return Err(format!("the second time it is {other:?}")),
    };
    hold!(again == *compaction, "two plans for the same thread");
    let bytes = prompt(&world.thread, Some(&again), under, world.dialect).to_json(&world.thread);
    hold!(bytes == rendered.to_json(&world.thread), "two prompts for the same plan");
    let (normal, warnings) = normalize(compaction.plan.records.clone());
    hold!(
        normal == compaction.plan.records && warnings.is_empty(),
        "normalizing the plan again changes it: {warnings:?}"
    );
    Ok(())
}

/// 6. Planning on a thread that was just compacted does nothing.
fn settled(world: &World, under: &Under, ask: &PlanOptions, compaction: &Compaction) -> Held {
    let ask = PlanOptions {
        previous: Some(Arc::new(compaction.clone())),
        force: false,
        pins: ask.pins.clone(),
        ..PlanOptions::default()
    };
    match Planner::new(&world.thread, &under.policy, under.meter(world.dialect), compaction.plan.room, &ask).decide() {
        Verdict::Act(draft) => Err(format!(
            "it acts again, from {} to {} with a trigger of {}: {:?}",
            draft.plan().before,
            draft.plan().after,
            compaction.plan.room.trigger,
            draft.plan().steps
        )),
        _ => Ok(()),
    }
}

/// 7. Pins and constraints are in the prompt.
fn constraints_stay(compaction: &Compaction, rendered: &Prompt, thread: &Thread) -> Held {
    let broken: Vec<&str> = compaction.receipt.missing_required().map(|entry| entry.item.as_str()).collect();
    hold!(broken.is_empty(), "the receipt says these are not in the prompt: {broken:?}");
    let said = words(rendered, thread);
    for summary in &compaction.summaries {
        for text in summary.items.pins.iter().chain(summary.items.constraints.iter().map(|quote| &quote.text)) {
            hold!(said.contains(text), "{text:?} is not in the prompt");
        }
    }
    Ok(())
}

/// All strings of a prompt.
pub fn words(rendered: &Prompt, thread: &Thread) -> String {
    let mut out = String::new();
    for json in rendered.to_json(thread) {
        collect(&serde_json::from_str(&json).expect("rendered JSON"), &mut out);
    }
    out
}

fn collect(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        Value::Object(fields) => fields.values().for_each(|item| collect(item, out)),
        _ => {}
    }
}

/// Whether a plan still names messages of a thread: plans survive appends and evictions, and nothing else.
pub fn is_valid_for(plan: &Plan, thread: &Thread) -> bool {
    let newest = plan.covers.checked_sub(1).filter(|at| *at < thread.len()).map(|at| thread.message(at).id());
    plan.covers <= thread.len()
        && (plan.covers == 0 || newest == Some(plan.tip) || thread.evicted().is_some_and(|gone| gone.id == plan.tip))
        && plan.records.iter().all(|record: &Record| record.span.range().end <= plan.covers)
}
