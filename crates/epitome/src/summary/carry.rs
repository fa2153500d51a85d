//! Carrying an earlier round's summary over: its items are read back from the text that code rendered.
//!
//! Only what stands under our own headings is taken as items; everything else of the text is left to the ranking.

use super::form::heading_of;
use super::section::Section;
use super::structured::{Quote, Request, RequestState, StructuredSummary};

/// Adds the items of an earlier summary's text.
pub fn carry_over(text: &str, place: usize, facts: &mut StructuredSummary) {
    let mut section = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(found) = heading_of(line) {
            section = Some(found);
            continue;
        }
        let item = line.trim_start_matches("- ").trim();
        if item.is_empty() {
            continue;
        }
        match section {
            Some(Section::Constraints) => push_unique(&mut facts.constraints, item, place),
            Some(Section::Requests) => carry_request(facts, item, place),
            Some(Section::Pins) if !facts.pins.iter().any(|pin| pin == item) => facts.pins.push(item.to_owned()),
            _ => {}
        }
    }
    facts.rounds += 1;
}

fn carry_request(facts: &mut StructuredSummary, item: &str, place: usize) {
    if facts.requests.iter().all(|known| known.text != item) {
        facts.requests.push(Request { text: item.to_owned(), place, turn: 0, state: RequestState::Answered });
    }
}

fn push_unique(quotes: &mut Vec<Quote>, text: &str, place: usize) {
    if quotes.iter().all(|known| known.text != text) {
        quotes.push(Quote { text: text.to_owned(), place });
    }
}
