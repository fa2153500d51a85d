//! Memory: compacting a large list takes a small multiple of its size. The text is held once, its words are decoded once and
//! shared by session and thread, and planning adds indexes, not copies. Every byte that this process allocates is counted.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]

use std::fmt::Write as _;

use epitome::budget::{Bpe, TokenCounter as _};
use epitome::planner::PlanOptions;
use epitome::policy::preset;
use epitome::session::{ReadOptions, Session};
use epitome::{Compactor, Conversation, CountFor, Limit, embedded};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The size of the list; a fifth of it would do to see a copy too many.
const LIST_BYTES: usize = 8 << 20;

/// The most that may be allocated at once, as a multiple of the list: one more copy of the text is above it.
const PEAK_MAX: f64 = 3.4;

/// A list of exchanges: a request, a call, a result of 50 lines, an answer.
fn list() -> String {
    let mut list = String::with_capacity(LIST_BYTES + 8192);
    list.push('[');
    for at in 0.. {
        if list.len() > LIST_BYTES {
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

#[test]
fn compacting_a_list_takes_a_small_multiple_of_its_size() {
    // The vocabulary is as large for one message as for a million.
    Bpe::O200k.count("hello world");
    let policy = preset("ladder").unwrap();
    let before = ALLOCATOR.current_usage();
    let list = list();
    let bytes = list.len();
    ALLOCATOR.reset_peak_usage();
    let session = Session::read(list, &ReadOptions::default()).unwrap();
    let conversation = Conversation::new(session, CountFor { cautious: true, ..CountFor::default() });
    let compactor = Compactor::new(&conversation, &policy, Limit::window(200_000), PlanOptions::default());
    let fitted = compactor.run(&mut embedded).unwrap().unwrap();
    let written = fitted.write(&conversation, "2026-01-01T00:00:00Z").unwrap();
    let ratio = (ALLOCATOR.peak_usage() - before) as f64 / bytes as f64;
    assert!(written.apply("").len() < bytes / 4);
    assert!(ratio < PEAK_MAX, "compacting {bytes} bytes took {ratio:.2} times as much at once");
}
