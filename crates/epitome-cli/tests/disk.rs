//! A disk that is full, and one that is read-only, for real: a small tmpfs in a mount namespace of its own.
//!
//! The mount goes with the process that it was made for. Where the system allows no such namespace, the tests say so and
//! are skipped.

#![allow(missing_docs, clippy::unwrap_used, reason = "this is a test")]
#![cfg(target_os = "linux")]

mod bench;
mod serving;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use bench::Bench;
use serving::Serving;

/// Where the small disk is mounted, in the bench's folder.
const DISK: &str = "disk";

/// Mounts the disk. `fill N` leaves room for N KiB on it, `empty` takes all of that away again.
const PRELUDE: &str = r#"
set -e
mkdir -p disk
mount -t tmpfs -o size=1m tmpfs disk
fill() {
    head -c "$(($1 * 1024))" /dev/zero > disk/room
    cat /dev/zero > disk/filler 2> /dev/null || true
    rm disk/room
}
empty() { rm disk/filler; }
files() { (cd disk && find . -type f ! -name filler -exec cksum {} + | sort); }
"#;

/// The words that give a program a mount namespace of its own; `None`, said loudly, where that is not allowed.
fn namespace() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-rm"]];
    let mounts = |way: &&[&str]| {
        let mount = ["sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"];
        let tried = Command::new(way[0]).args(&way[1..]).args(mount).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let found = ways.into_iter().find(mounts);
    if found.is_none() {
        // Past the test harness, which would keep it to itself.
        let why = "neither `unshare -m` nor `unshare -rm` may mount a tmpfs here";
        let _ = writeln!(std::io::stderr(), "SKIPPED, NOTHING WAS TESTED on a full or read-only disk: {why}.");
    }
    found
}

/// A command that runs a script on a small disk; what is added to it are the script's arguments after the program.
fn on_disk(way: &[&str], bench: &Bench, script: &str) -> Command {
    let mut command = Command::new(way[0]);
    command.args(&way[1..]).args(["sh", "-c", &format!("{PRELUDE}\n{script}"), env!("CARGO_BIN_EXE_epitome")]);
    command.current_dir(bench.path(".")).env("HOME", bench.path("."));
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| name.starts_with("EPITOME_")))
    {
        command.env_remove(name);
    }
    command
}

/// What a script said: standard output and standard error.
fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A failure is one sentence and a hint, without a word of the system's numbers.
#[track_caller]
fn assert_plain(err: &str, expected: &str) {
    let lines: Vec<&str> = err.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("error: ") && lines[1].starts_with("hint: "), "{err}");
    assert!(lines[0].contains(expected) && !err.contains("os error"), "{err}");
}

/// A list of messages of about so many bytes.
fn list(bytes: usize) -> String {
    let line = "The river is long and cold, and nobody has measured it yet. ".repeat(10);
    let turns = (0..bytes / 700).map(|at| {
        let role = ["user", "assistant"][at % 2];
        serde_json::json!({"role": role, "content": format!("{at}: {line}")})
    });
    serde_json::Value::Array(turns.collect()).to_string()
}

#[test]
fn compacting_on_a_full_disk_says_so_and_leaves_every_file_as_it_was() {
    let Some(way) = namespace() else { return };
    // What is compacted, how, and how many KiB are left on the disk.
    let cases = [
        ("cp list.json disk", "disk/list.json"),
        ("cp session.jsonl disk", "disk/session.jsonl"),
        ("true", "list.json -o disk/out.json --artifacts disk/kept"),
        ("true", "list.json -o out.json --artifacts disk/kept"),
        ("true", "list.json -o disk/out.json --artifacts kept"),
    ];
    for (prepare, words) in cases {
        for room_kib in [0, 4, 16, 40] {
            let bench = Bench::new().holding("list.json", list(100_000)).with("sample/session.jsonl");
            let script = format!(
                "{prepare}\nfill {room_kib}\nfiles > before\nset +e\n\"$0\" compact {words} --budget 12000 \
                 > out.txt 2> err.txt\ncode=$?\nfiles > after\nexit $code"
            );
            let output = on_disk(way, &bench, &script).output().unwrap();
            let what = format!("{words} with {room_kib} KiB: {:?} {:?}", output.status.code(), bench.text("err.txt"));
            if output.status.code() == Some(0) {
                assert!(room_kib > 0, "{what}");
                continue;
            }
            assert_eq!(output.status.code(), Some(5), "{what}");
            assert_plain(&bench.text("err.txt"), "no space left on device");
            assert_eq!(bench.text("list.json"), list(100_000), "{what}");
            assert!(!bench.path("out.json").exists(), "{what}: a result without what left it");
            let (before, after) = (bench.text("before"), bench.text("after"));
            // What left first is kept before the file is touched; a temporary file has its process in its name.
            let is_kept =
                |line: &str| line.contains("/objects/") || line.ends_with("/.gitignore") && line.contains(" 2 ");
            let is_whole = |line: &&str| before.contains(line) || is_kept(line) && !line.contains(".epitome-");
            let odd: Vec<&str> = after.lines().filter(|line| !is_whole(line)).collect();
            assert_eq!(odd, [""; 0], "{what}: half of something is left");
            assert!(before.lines().all(|line| after.contains(line)), "{what}: {before} became {after}");
        }
    }
}

#[test]
fn importing_into_a_store_on_a_full_disk_says_so_and_goes_on_once_there_is_room() {
    let Some(way) = namespace() else { return };
    for room_kib in [0, 4, 40, 120, 250, 400] {
        let bench = Bench::new().holding("list.json", list(250_000));
        let script = format!(
            "fill {room_kib}\nset +e\n\"$0\" import list.json --store sqlite:disk/threads.db > out.txt 2> err.txt\n\
             code=$?\nempty\n\"$0\" import list.json --store sqlite:disk/threads.db > again.txt 2>&1 || exit 100\n\
             \"$0\" export list --store sqlite:disk/threads.db > exported.json 2>> again.txt || exit 101\nexit $code"
        );
        let output = on_disk(way, &bench, &script).output().unwrap();
        let what =
            format!("{room_kib} KiB: {:?} {} {}", output.status.code(), bench.text("err.txt"), bench.text("again.txt"));
        if room_kib == 400 && output.status.code() == Some(0) {
            continue;
        }
        assert_eq!(output.status.code(), Some(5), "{what}");
        assert_plain(&bench.text("err.txt"), "full");
        assert_eq!(bench.text("exported.json"), list(250_000), "{what}");
    }
}

#[test]
fn importing_into_a_store_that_is_read_only_says_so() {
    let Some(way) = namespace() else { return };
    for prepare in ["true", "\"$0\" import list.json --thread first --store sqlite:disk/threads.db > /dev/null"] {
        let bench = Bench::new().holding("list.json", list(5_000));
        let script =
            format!("{prepare}\nmount -o remount,ro disk\nexec \"$0\" import list.json --store sqlite:disk/threads.db");
        let output = on_disk(way, &bench, &script).output().unwrap();
        let (_, err) = said(&output);
        assert_eq!(output.status.code(), Some(5), "{prepare}: {err}");
        assert_plain(&err, "read-only");
    }
}

/// A gateway whose store and artifacts are on a small disk. `spoil` is done before it starts; `mend` when it is told to.
fn serve(way: &[&str], bench: &Bench, spoil: &str, mend: &str) -> Serving {
    // The one who waits ends with the bench's folder.
    let wait = format!("here=$PWD\n(while [ -d \"$here\" ] && [ ! -e go ]; do sleep 0.2; done; [ -e go ] && {mend}) &");
    let program = on_disk(way, bench, &format!("{spoil}\n{wait}\nexec \"$0\" \"$@\""));
    let store = format!("sqlite:{DISK}/threads.db");
    Serving::launch(bench, program, &["--store", &store, "--budget", "3000"])
}

/// A conversation that is far above the budget.
fn long_talk() -> Vec<String> {
    let line = "The river is long and cold, and nobody has measured it yet. ".repeat(20);
    (0..41).map(|at| format!("{at}: {line}")).collect()
}

#[test]
fn a_gateway_on_a_full_or_read_only_disk_serves_says_so_and_recovers() {
    let Some(way) = namespace() else { return };
    let with_store = "\"$0\" import talk.json --store sqlite:disk/threads.db > /dev/null";
    let (full, read_only) = ("its disk is full", "is read-only");
    let cases = [
        ("fill 0".to_owned(), "empty", full, "their disk is full"),
        (format!("{with_store}\nfill 0"), "empty", full, "their disk is full"),
        ("mount -o remount,ro disk".to_owned(), "mount -o remount,rw disk", read_only, "their place is read-only"),
        (
            format!("{with_store}\nmount -o remount,ro disk"),
            "mount -o remount,rw disk",
            read_only,
            "their place is read-only",
        ),
    ];
    for (spoil, mend, store_detail, artifacts_detail) in cases {
        let bench = Bench::new().holding("talk.json", r#"[{"role":"user","content":"Where is my order?"}]"#);
        let serving = serve(way, &bench, &spoil, mend);
        let talk = long_talk();
        let words: Vec<&str> = talk.iter().map(String::as_str).collect();
        for _ in 0..3 {
            serving.talk(&words);
        }
        let store = ("degraded".to_owned(), false, store_detail.to_owned());
        serving.wait_until(store_detail, |serving| serving.readiness() == store);
        let artifacts = ("degraded".to_owned(), false, artifacts_detail.to_owned());
        serving.wait_until(artifacts_detail, |serving| serving.readiness_of("artifacts") == artifacts);
        let reason = if store_detail == full { "full" } else { "read-only" };
        serving.wait_until("a warning of the store", |serving| {
            let said = serving.said.lock().unwrap();
            said.lines().any(|line| line.contains("the store ") && line.contains(reason))
        });
        serving.wait_until("a warning of the artifacts", |serving| {
            serving.said.lock().unwrap().contains("artifacts cannot be written")
        });

        std::fs::write(bench.path("go"), "").unwrap();
        serving.keeps("Now there is room.");
        let kept = ("ready".to_owned(), true, "are kept".to_owned());
        serving.wait_until("that artifacts are kept", |serving| serving.readiness_of("artifacts") == kept);
        // On a busy machine the store may need longer than a request waits for it.
        serving.wait_until("an answer as before", |serving| !serving.talk(&words).contains("x-epitome-failed-open"));
        let left = format!("/proc/{}/root{}", serving.id(), bench.path(DISK).canonicalize().unwrap().display());
        let halves = Command::new("find").args([&left, "-name", "*#*"]).output().unwrap();
        assert_eq!(said(&halves).0, "", "{spoil}: half an artifact is left");
        assert_eq!(serving.end(), Some(0), "{spoil}");
    }
}

#[test]
fn a_disk_that_fills_up_while_a_gateway_serves_costs_no_answer() {
    let Some(way) = namespace() else { return };
    let bench = Bench::new();
    let fills = "(while [ -d \"$PWD\" ] && [ ! -e full ]; do sleep 0.1; done; fill 0; echo > is-full) &";
    let serving = serve(way, &bench, fills, "empty");
    serving.keeps("Before.");
    std::fs::write(bench.path("full"), "").unwrap();
    serving.wait_until("a full disk", |_| bench.path("is-full").exists());
    let words = ["Before.", "Yes?", "While there is no room."];
    for _ in 0..3 {
        serving.talk(&words);
    }
    let is_full = ("degraded".to_owned(), false, "its disk is full".to_owned());
    serving.wait_until("that it is full", |serving| serving.readiness() == is_full);
    std::fs::write(bench.path("go"), "").unwrap();
    serving.keeps("Afterwards.");
    serving.wait_until("what came meanwhile", |serving| {
        let answer = serving.talk(&words);
        let thread = answer.lines().find_map(|line| line.strip_prefix("x-epitome-thread: "));
        thread.is_some_and(|thread| {
            serving.ask("GET", &format!("/api/threads/{}/messages", thread.trim()), "").contains(words[2])
        })
    });
    assert_eq!(serving.end(), Some(0));
}

#[test]
fn a_gateway_whose_folder_for_artifacts_cannot_be_made_serves_and_uses_it_once_it_can() {
    let bench = Bench::new().holding("kept", "a file where a folder should be");
    let mut program = Command::new(env!("CARGO_BIN_EXE_epitome"));
    program.env("EPITOME_ARTIFACTS_URL", "kept/artifacts");
    let serving = Serving::launch(&bench, program, &["--store", "sqlite:threads.db", "--budget", "3000"]);
    let talk = long_talk();
    let words: Vec<&str> = talk.iter().map(String::as_str).collect();
    let answer = serving.talk(&words);
    assert!(!answer.contains("x-epitome-failed-open"), "the log has what left: {answer}");
    let wrong = ("degraded".to_owned(), false, "cannot be written".to_owned());
    serving.wait_until("that artifacts cannot be written", |serving| serving.readiness_of("artifacts") == wrong);
    let warning = "the folder for artifacts cannot be made";
    serving.wait_until("a warning in the log", |serving| serving.said.lock().unwrap().contains(warning));

    std::fs::remove_file(bench.path("kept")).unwrap();
    let kept = ("ready".to_owned(), true, "are kept".to_owned());
    serving.wait_until("that artifacts are kept", |serving| serving.readiness_of("artifacts") == kept);
    assert!(bench.path("kept/artifacts").is_dir());
    let again = "the folder for artifacts is there now";
    serving.wait_until("a log line that it is there", |serving| serving.said.lock().unwrap().contains(again));
    serving.keeps("No errors found.");
    assert_eq!(serving.end(), Some(0));
}
