//! A session file of pi events: read, and nothing of it lost.

#![no_main]

use epitome::session::{Format, ReadOptions, Session};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for skip_bad_lines in [false, true] {
        if let Ok(session) = Session::read(text, &ReadOptions { format: Some(Format::PiEvents), skip_bad_lines }) {
            assert_eq!(session.source().as_str(), text);
            assert_eq!(session.messages().len(), session.context().len());
        }
    }
});
