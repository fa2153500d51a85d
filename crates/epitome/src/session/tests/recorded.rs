//! Files as agents wrote them, where they are at hand; they are no part of the project.

use std::fs;
use std::path::Path;

use super::fixtures::{STAMP, compacted, read};
use crate::session::SessionChange;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/sessions");

/// Each file: what it is read as, how many messages it has, how many the model sees, and its compactions.
const FILES: [(&str, &str, usize, usize, usize); 4] = [
    ("pi/large-session.jsonl", "pi-events", 914, 914, 0),
    ("claude-code/init.jsonl", "claude-code", 58, 58, 0),
    ("claude-code/with-compaction.jsonl", "claude-code", 370, 223, 1),
    ("codex/rollout-compacted.jsonl", "codex", 7, 6, 1),
];

#[test]
#[allow(clippy::print_stderr)]
fn recorded_files_are_read_and_written_back() {
    if !Path::new(RECORDED).exists() {
        eprintln!("skipped: there are no recordings in {RECORDED}");
        return;
    }
    for (name, format, log, context, compactions) in FILES {
        let text = fs::read_to_string(Path::new(RECORDED).join(name)).expect("it can be read");
        let session = read(&text);
        let counts =
            (session.format().name(), session.log().len(), session.context().len(), session.compactions().len());
        assert_eq!(counts, (format, log, context, compactions), "{name}");
        let count = session.context().len();
        let tail =
            (1..=count).find(|tail| *tail > 3 && session.tail_may_start(count - tail)).expect("a tail can be kept");
        let written = session.write(&compacted(&session, tail), STAMP).expect("it can be written");
        assert!(matches!(written, SessionChange::Append(_)), "{name}");
        let again = read(&written.apply(&text));
        assert_eq!(again.context().len(), tail + 1, "{name}");
        for (new, old) in again.context()[1..].iter().zip(&session.context()[count - tail..]) {
            assert_eq!(new.message.parts, old.message.parts, "{name}");
        }
    }
}
