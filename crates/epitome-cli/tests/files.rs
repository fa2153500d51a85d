//! What is written where: a source is never lost, permissions hold, and the store answers for its own files only.

#![allow(clippy::unwrap_used)]

mod bench;

use std::os::unix::fs::symlink;

use bench::Bench;

#[test]
fn a_result_that_leaves_messages_out_does_not_go_into_its_source() {
    let bench = Bench::new().with("sessions/pi-tree.jsonl").with("sample/session.jsonl").with("threads/chat.json");
    symlink("session.jsonl", bench.path("link.jsonl")).unwrap();
    let wholes = ["pi-tree.jsonl", "session.jsonl", "chat.json"].map(|name| (name, bench.text(name)));
    let lines = [
        "epitome branch pi-tree.jsonl --at m1 -o pi-tree.jsonl",
        "epitome branch pi-tree.jsonl --at m1 -o ./pi-tree.jsonl",
        "epitome branch - --at m1 -o pi-tree.jsonl < pi-tree.jsonl",
        "epitome compact session.jsonl --until 20 --budget 3000 -o session.jsonl",
        "epitome compact session.jsonl --until 20 --budget 3000 -o link.jsonl",
        "epitome compact chat.json --until 6 --budget 5000 -o chat.json",
    ];
    for line in lines {
        let run = bench.shell(line).ended(2);
        assert!(run.err.contains("the file it came from") && run.err.contains("hint:"), "{line}: {}", run.err);
    }
    for (name, whole) in wholes {
        assert_eq!(bench.text(name), whole, "{name}");
    }
}

#[test]
fn naming_the_source_as_output_is_compacting_in_place() {
    let bench = Bench::new().with("sessions/pi-tree.jsonl").with("threads/chat.json");
    let before = bench.text("pi-tree.jsonl");
    let run = bench.run(&["compact", "pi-tree.jsonl", "--budget", "1500", "-o", "./pi-tree.jsonl"]).ended(0);
    assert!(run.out.contains("Appended 1 line to pi-tree.jsonl"), "{}", run.out);
    assert!(bench.text("pi-tree.jsonl").starts_with(&before));
    let third = bench.json("chat.json")["messages"][2].clone();
    bench.run(&["compact", "chat.json", "--budget", "900", "-o", "chat.json"]).ended(0);
    let raw = bench.run(&["read", "chat.json", "m3", "--raw"]).ended(0).json();
    assert_eq!(raw, third);
}
