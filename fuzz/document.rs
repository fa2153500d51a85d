//! What must hold of any text that is a message list.

use epitome::budget::{Characters, Meter, Tokens};
use epitome::plan::Room;
use epitome::planner::{PlanOptions, Planner};
use epitome::policy::Preset;
use epitome::thread::Thread;
use epitome::wire::{Dialect, Document, PromptMessage};

/// Decodes, writes back, and compacts with every preset.
pub fn holds(text: &str, dialect: Dialect) {
    let Ok(document) = Document::decode(text, Some(dialect)) else { return };
    let kept: Vec<PromptMessage> = (0..document.items().len()).map(PromptMessage::Kept).collect();
    assert_eq!(document.encode(&kept), text);
    if let Some((_, shorter)) = kept.split_last()
        && let Ok(before) = Document::decode(&document.encode(shorter), Some(dialect))
        && let Some(on) = Document::read_on(document.source(), &before)
    {
        assert_eq!(format!("{on:?}"), format!("{document:?}"));
    }
    let meter = Meter::new(&Characters::Four, dialect);
    let mut thread = Thread::new();
    thread.extend(document.messages(), &meter);
    let room = Room::exactly(thread.total().share(0.5));
    for preset in Preset::ALL {
        let policy = preset.policy();
        let ask = PlanOptions { force: true, ..PlanOptions::default() };
        let planner = Planner::new(&thread, &policy, meter, room, &ask);
        let Some(compaction) = planner.compact() else { continue };
        let prompt = planner.render(Some(&compaction), &[]);
        assert_eq!(prompt.tokens(&thread, meter), compaction.plan.after);
        let over = compaction.plan.shortfall.as_ref().map_or(Tokens::ZERO, |shortfall| shortfall.over);
        assert_eq!(compaction.plan.after - room.limit, over);
        prompt.to_json(&thread);
    }
}
