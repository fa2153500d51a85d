//! The messages that a search looks at, each read once, with the calls that their results answer.

use std::collections::BTreeMap;

use epitome::thread::{Part, ToolCall};

use crate::log::{Log, LogEntry, Result};
use crate::store::ThreadRow;

/// How far before a result its call is looked for, step by step: most calls stand right before it.
const LOOKED_BACK: [std::ops::RangeInclusive<u64>; 3] = [1..=1, 2..=4, 5..=16];

pub(super) struct Entries<'a> {
    pub(super) log: &'a Log,
    pub(super) row: &'a ThreadRow,
    read: BTreeMap<u64, LogEntry>,
}

impl<'a> Entries<'a> {
    pub(super) fn new(log: &'a Log, row: &'a ThreadRow) -> Self {
        Entries { log, row, read: BTreeMap::new() }
    }

    pub(super) fn get(&self, place: u64) -> Option<&LogEntry> {
        self.read.get(&place)
    }

    /// The messages behind a place that were read, in order.
    pub(super) fn after(&self, place: u64) -> impl Iterator<Item = &LogEntry> {
        self.read.range(place + 1..).map(|(_, entry)| entry)
    }

    /// Reads those of the messages that were not read yet.
    pub(super) async fn read(&mut self, places: impl IntoIterator<Item = u64>) -> Result<()> {
        let mut missing: Vec<u64> = places.into_iter().filter(|place| *place < self.row.length).collect();
        missing.retain(|place| !self.read.contains_key(place));
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            self.read.extend(self.log.read_at(self.row, &missing).await?);
        }
        Ok(())
    }

    /// Reads messages, and before each result the message that called for it.
    pub(super) async fn read_with_calls(&mut self, places: impl IntoIterator<Item = u64>) -> Result<()> {
        let places: Vec<u64> = places.into_iter().collect();
        self.read(places.iter().copied()).await?;
        for steps in LOOKED_BACK {
            let open = places.iter().copied().filter(|place| self.lacks_call(*place)).collect::<Vec<_>>();
            let before = open.iter().flat_map(|place| steps.clone().filter_map(|step| place.checked_sub(step)));
            self.read(before.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    fn lacks_call(&self, place: u64) -> bool {
        let parts = self.get(place).map(|entry| &entry.message.parts[..]).unwrap_or_default();
        parts.iter().any(|part| match part {
            Part::ToolResult(result) => self.call_of(place, &result.call_id).is_none(),
            _ => false,
        })
    }

    /// Finds the call that a result at a place answers.
    pub(super) fn call_of(&self, place: u64, call_id: &str) -> Option<&ToolCall> {
        let before = self.read.range(place.saturating_sub(16)..=place).rev();
        let parts = before.flat_map(|(_, entry)| &entry.message.parts);
        parts
            .filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
            .find(|call| *call.id == *call_id)
    }
}
