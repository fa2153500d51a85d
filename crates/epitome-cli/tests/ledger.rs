//! `epitome ledger`: what a gateway wrote down is told, losses included.

#![allow(clippy::unwrap_used)]

mod bench;

use std::sync::Arc;

use bench::Bench;
use epitome::budget::Tokens;
use epitome::thread::MessageId;
use epitome_gateway::ledger::{Charge, Extra, ExtraKind, Ledger, Marks, Original, PriceList, Request};
use epitome_runtime::ids::{Moment, TenantId, ThreadKey};
use epitome_runtime::log::Log;
use epitome_runtime::model::Usage;
use epitome_runtime::store::SqliteStore;
use epitome_runtime::vault::{Keys, Vault};
use insta::assert_snapshot;

const NOON: i64 = 1_794_830_400_000;

/// A request of so many messages, a thousand tokens each, and what the provider says it took.
fn request(model: &str, at_s: i64, messages: usize, usage: [u64; 4]) -> (Request, Usage) {
    let id = |place: usize| MessageId::from_bytes([place as u8 + 1; 32]);
    let messages = (0..messages).map(|place| (id(place), Tokens::new(1000))).collect();
    let original = Original { head: 1, head_tokens: Tokens::ZERO, messages };
    let [input, cached, written, output] = usage;
    let request = Request {
        at: Moment(NOON + at_s * 1000),
        key: ThreadKey::new(TenantId::local(), "weather".parse().unwrap()),
        forked_from: None,
        id: format!("r{at_s}"),
        model: model.to_owned(),
        window: Tokens::new(70_000),
        changed: original.tokens().get() != input,
        sent: Tokens::new(input),
        original,
        marks: Marks::Short,
        extra: Vec::new(),
    };
    (request, Usage { input, cached, written, output })
}

/// A store with one thread: passed through, compacted at a loss, compacted with a gain, one that would not have fit,
/// and one of another model on the next day.
fn written() -> Bench {
    let bench = Bench::new();
    let log =
        Log::new(Arc::new(SqliteStore::open(bench.path("threads.db")).unwrap()), Vault::new(Keys::none(), [0; 32]));
    let ledger = Ledger::new(log, PriceList::shipped());
    let mut requests = vec![
        request("claude-sonnet-4-5", 0, 60, [60_000, 0, 60_000, 500]),
        request("claude-sonnet-4-5", 60, 62, [10_000, 0, 10_000, 500]),
        request("claude-sonnet-4-5", 120, 64, [12_000, 10_000, 2_000, 500]),
        request("claude-sonnet-4-5", 180, 80, [28_000, 12_000, 16_000, 500]),
        request("my-own-model", 24 * 60 * 60, 82, [30_000, 0, 30_000, 500]),
    ];
    let usage = Usage { input: 60_000, cached: 60_000, written: 0, output: 800 };
    requests[1].0.extra = vec![Extra { kind: ExtraKind::Summary, model: "claude-sonnet-4-5".to_owned(), usage }];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for (at, (request, usage)) in requests.into_iter().enumerate() {
            // The provider told no usage of the third.
            ledger.note([Charge { request, usage, is_estimated: at == 2 }]).await;
        }
    });
    bench
}

#[test]
fn days_and_requests_are_told_with_what_was_lost() {
    let bench = written();
    let store = ["--store", "sqlite:threads.db"];
    let run = |words: &[&str]| bench.run(&[words, &store].concat()).ended(0).out;
    assert_snapshot!(run(&["ledger"]), @r"
      day         requests  compacted    saved    cost  without  unit            sent  cached  extra calls  cost more
      2026-11-16         4          3  -0.0483  0.3966   0.3483  USD           110000   22000            1          2
      2026-11-17         1          1    40000   32000    72000  input tokens   30000       0            0          0
      all                5          4  -0.0483  0.3966   0.3483  USD           140000   22000            1          2
                                         40000   32000    72000  input tokens

    2 of the requests would not have fit the window at all.
    ");
    assert_snapshot!(run(&["ledger", "weather"]), @r"
    at                        model                saved    cost  without  unit          original   sent  cached  extra calls
    2026-11-16T12:00:00.000Z  claude-sonnet-4-5   0.0000  0.2325   0.2325  USD              60000  60000       0            0
    2026-11-16T12:01:00.000Z  claude-sonnet-4-5  -0.0420  0.0750   0.0330  USD              62000  10000       0            1  compacted
    2026-11-16T12:02:00.000Z  claude-sonnet-4-5   0.0156  0.0180   0.0336  USD              64000  12000   10000            0  compacted, estimated
    2026-11-16T12:03:00.000Z  claude-sonnet-4-5  -0.0219  0.0711   0.0492  USD              80000  28000   12000            0  would not have fit
    2026-11-17T12:00:00.000Z  my-own-model         40000   32000    72000  input tokens     82000  30000       0            0  would not have fit
    ");
    assert_snapshot!(run(&["ledger", "--since", "2026-11-18"]), @"The ledger of tenant local is empty.");
    let json: serde_json::Value = serde_json::from_str(&run(&["ledger", "--json"])).unwrap();
    assert_eq!((&json["total"]["requests"], &json["total"]["dearer"]), (&5.into(), &2.into()));
    let page = |words: &[&str]| serde_json::from_str::<serde_json::Value>(&run(words)).unwrap();
    let first = page(&["ledger", "weather", "--limit", "4", "--json"]);
    let next = page(&["ledger", "weather", "--after", first["next"].as_str().unwrap(), "--json"]);
    assert_eq!((next["entries"].as_array().unwrap().len(), &next["entries"][0]["request"]), (1, &"r86400".into()));
    bench.run(&[&["ledger", "--since", "soon"], &store[..]].concat()).ended(2);
}
