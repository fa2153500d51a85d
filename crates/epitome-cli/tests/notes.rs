//! `epitome notes`: what is noted about a thread of the store, changed and shown; the log stays as it is.

#![allow(clippy::unwrap_used)]

mod bench;

use bench::Bench;
use serde_json::json;

#[test]
fn notes_are_kept_in_the_store_and_the_thread_is_exported_as_it_came() {
    let bench = Bench::new().with("threads/chat.json");
    bench.run(&["import", "chat.json"]).ended(0);
    let empty = bench.run(&["notes", "chat", "--json"]).ended(0).json();
    assert_eq!((&empty["notes"]["hidden"], &empty["notes"]["pins"]), (&json!([]), &json!([])), "{empty}");
    let words =
        ["notes", "chat", "--hide", "m4", "--with", "a listing", "--pin", "Be brief.", "--remember", "It rained."];
    let shown = bench.run(&words).ended(0).out;
    for line in [
        "Hidden messages:\n- m4: a listing\n",
        "Pins:\n- Be brief.\n",
        "Latest memory entries:\n- It rained.\n",
        "Quality:\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    let ended = bench.run(&["notes", "chat", "--show", "m4", "--completed", "no", "--json"]).ended(0).json();
    assert_eq!(ended["notes"]["hidden"], json!([]), "{ended}");
    assert_eq!(ended["notes"]["quality"]["task_completed"], false, "{ended}");
    assert_eq!(bench.run(&["export", "chat"]).ended(0).out, bench.text("chat.json"));
    let events = bench.run(&["log", "chat", "--events"]).ended(0).out;
    assert!(events.contains("message_hidden") && events.contains("message_shown"), "{events}");
}

#[test]
fn a_note_that_makes_no_sense_is_refused_with_a_sentence() {
    let bench = Bench::new().with("threads/chat.json").with("sample/session.jsonl");
    bench.run(&["import", "chat.json"]).ended(0);
    bench.run(&["import", "session.jsonl", "--thread", "own"]).ended(0);
    for (words, code, says) in [
        (&["notes", "chat", "--hide", "m4"][..], 2, "--with"),
        (&["notes", "chat", "--hide", "m999", "--with", "x"], 2, "There is no message m999 in the thread."),
        (&["notes", "chat", "--show", "m1"], 2, "m1 is not hidden."),
        (&["notes", "chat", "--unpin", "x"], 2, "has no such pin"),
        (&["notes", "chat", "--completed", "perhaps"], 2, "yes or no"),
        (&["notes", "own", "--pin", "x"], 3, "was imported from a"),
        (&["notes", "none"], 2, "epitome threads"),
    ] {
        let run = bench.run(words).ended(code);
        assert!(run.err.contains(says), "{words:?}: {}", run.err);
    }
}
