//! What holds for every conversation, every format and every legal compaction.

use proptest::prelude::*;

use super::fixtures::{Fixture, STAMP, compacted, name, read};
use crate::session::{PromptShape, Session};
use crate::wire::PromptMessage;

/// A conversation in the notation: turns with so many rounds of so many calls.
fn script() -> impl Strategy<Value = String> {
    let turn = prop::collection::vec(0usize..3, 0..3);
    prop::collection::vec(turn, 1..6).prop_map(|turns| {
        let words = turns.iter().enumerate().map(|(at, rounds)| {
            let rounds: String =
                rounds.iter().map(|calls| format!(" a{at}{}", format!(" t{at}").repeat(*calls))).collect();
            format!("u{at}{rounds} a{at}")
        });
        words.collect::<Vec<_>>().join(" ")
    })
}

/// The names of what a compacted context holds.
fn names(session: &Session, items: &[PromptMessage]) -> Vec<String> {
    let of = |item: &PromptMessage| match item {
        PromptMessage::Kept(at) | PromptMessage::Edited { place: at, .. } => name(&session.context()[*at].message),
        PromptMessage::Written { .. } => "[sum]".to_owned(),
    };
    items.iter().map(of).collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(script in script(), kept in prop::collection::vec(any::<bool>(), 64), start in 0usize..64) {
        for fixture in Fixture::ALL {
            let session = read(&fixture.text(&script));
            let count = session.context().len();
            let start = start % (count + 1);
            if session.shape() == PromptShape::SummaryThenTail && !session.tail_may_start(start) {
                prop_assert!(session.write(&compacted(&session, count - start), STAMP).is_err());
                continue;
            }
            let mut new = compacted(&session, count - start);
            if session.shape() == PromptShape::Free {
                new.messages.retain(|item| !matches!(item, PromptMessage::Kept(at) if !kept[*at % kept.len()]));
            }
            let written = session.write(&new, STAMP).expect("it can be written");
            prop_assert_eq!(&written, &session.write(&new, STAMP).expect("it can be written"));
            let again = read(&written.apply(session.source().as_str()));
            let found: Vec<String> = again.context().iter().map(|seen| name(&seen.message)).collect();
            prop_assert_eq!(found, names(&session, &new.messages), "{:?}", fixture);
            for (item, seen) in new.messages.iter().zip(again.context()) {
                if let PromptMessage::Kept(at) = item {
                    prop_assert_eq!(&session.context()[*at].message.parts, &seen.message.parts, "{:?}", fixture);
                }
            }
        }
    }

    #[test]
    fn no_text_makes_reading_panic(text in r#"(\{"type":"(message|user|compacted|compaction|session|x)","(uuid|id|payload|message)":("a"|\{\}|\[\]|null|1)\}\n|[ -~]{0,20}\n){0,6}"#) {
        let _ = Session::read(&text, &crate::session::ReadOptions { skip_bad_lines: true, format: None });
        for format in crate::session::Format::ALL {
            let _ = Session::read(&text, &crate::session::ReadOptions { skip_bad_lines: true, format: Some(format) });
        }
    }
}
