//! Memory: compacting a large list takes a small multiple of its size. The text is held once, its words are decoded once and
//! shared by session and thread, and planning adds indexes, not copies. Every byte that this process allocates is counted.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;

use epitome::planner::PlanOptions;
use epitome::policy::preset;
use epitome::session::{ReadOptions, Session};
use epitome::{Compactor, Conversation, CountFor, Limit, embedded};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The size of the larger of two lists.
const LIST_BYTES: usize = 8 << 20;

/// The most bytes that may be allocated at once for each byte of the list. It takes 2.4; one more copy of the text is above this.
const PEAK_MAX: f64 = 3.2;

/// A list of exchanges: a request, a call, a result of 50 lines, an answer.
fn list(bytes: usize) -> String {
    let mut list = String::with_capacity(bytes + 8192);
    list.push('[');
    for at in 0.. {
        if list.len() > bytes {
            break;
        }
        let lines: String =
            (0..50).map(|n| format!("src/part{at}.rs:{n}: let total{n} = {};\\n", at * 31 + n)).collect();
        let comma = if at == 0 { "" } else { ",\n" };
        write!(
            list,
            r#"{comma}{{"role":"user","content":"Look at part {at}."}},
{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{at}","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"src/part{at}.rs\"}}"}}}}]}},
{{"role":"tool","tool_call_id":"c{at}","content":"{lines}"}},
{{"role":"assistant","content":"Part {at} adds up its totals."}}"#
        )
        .unwrap();
    }
    list.push(']');
    list
}

/// Returns the size of a list and the most that was allocated at once while it was compacted.
fn peak(list_bytes: usize) -> (f64, f64) {
    let policy = preset("ladder").unwrap();
    let before = ALLOCATOR.current_usage();
    let list = list(list_bytes);
    let bytes = list.len();
    ALLOCATOR.reset_peak_usage();
    let session = Session::read(list, &ReadOptions::default()).unwrap();
    let conversation = Conversation::new(session, CountFor { cautious: true, ..CountFor::default() });
    let compactor = Compactor::new(&conversation, &policy, Limit::window(200_000), PlanOptions::default());
    let fitted = compactor.run(&mut embedded).unwrap().unwrap();
    let written = fitted.write(&conversation, "2026-01-01T00:00:00Z").unwrap();
    let peak = ALLOCATOR.peak_usage() - before;
    assert!(written.apply("").len() < bytes / 2);
    (bytes as f64, peak as f64)
}

#[test]
fn compacting_a_list_takes_a_small_multiple_of_its_size() {
    // Vocabularies and tables are as large for one message as for a million: what counts is how the peak grows with the list.
    let (small, large) = (peak(LIST_BYTES / 4), peak(LIST_BYTES));
    let ratio = (large.1 - small.1) / (large.0 - small.0);
    assert!(ratio < PEAK_MAX, "each byte more of the list took {ratio:.2} bytes more at once: {small:?}, {large:?}");
}
