//! What comes of a call: parts that add up to the whole, within their tokens, and sentences for what went wrong.

use std::time::Duration;

use epitome_gateway::tools::{TOOLS, is_own, perform};
use epitome_runtime::artifact::{Permission, Permissions};
use epitome_runtime::engine::ArtifactRetention;
use epitome_runtime::store::Sensitivity;
use serde_json::{Value, json};

use crate::world::{World, id, owner};

/// The call that a part says to read on with.
fn read_on(part: &str) -> Option<Value> {
    let last = part.lines().last()?;
    let (_, call) = last.strip_suffix(']')?.split_once("read on with ")?;
    Some(serde_json::from_str(call).unwrap())
}

/// A part without its frame.
fn body(part: &str) -> String {
    let lines: Vec<&str> = part.split('\n').collect();
    let end = lines.len() - usize::from(read_on(part).is_some());
    lines[1..end].join("\n")
}

/// Every part of `m1`, each within the cap.
async fn parts(world: &World, text: &str, first: Value) -> Vec<String> {
    let mut open = world.saying(text).await;
    let (mut parts, mut call) = (Vec::new(), Some(first));
    while let Some(arguments) = call {
        let outcome = world.call(&mut open, "read_artifact", arguments).await;
        assert!(!outcome.is_error, "{}", outcome.text);
        let tokens = world.engine.counter().count(&outcome.text);
        assert!(tokens <= world.caps.read_tokens_max, "{tokens}");
        call = read_on(&outcome.text);
        parts.push(outcome.text);
        assert!(parts.len() < 1000, "it does not come to an end");
    }
    parts
}

fn poem(lines: usize) -> String {
    (1..=lines)
        .map(|line| format!("line {line} of a poem about {}\n", ["wind", "Straße", "水", ""][line % 4]))
        .collect()
}

#[tokio::test]
async fn parts_that_are_read_on_add_up_to_the_whole_and_none_costs_more_than_it_may() {
    let one_line = "a long line of 水 and wind; ".repeat(900);
    let mixed = format!("{}{one_line}\n{}", poem(200), poem(100));
    for text in [poem(1), poem(900), one_line.clone(), mixed, "short".to_owned(), "\n\n\nend".to_owned()] {
        for cap in [300, 4000] {
            let world = World::new().await.reading(cap);
            let parts = parts(&world, &text, json!({"id": "m1"})).await;
            // Where a part was cut between lines, the break between them is in no part.
            let mut whole = String::new();
            for part in &parts {
                whole.push_str(&body(part));
                if read_on(part).is_some_and(|call| call.get("from").is_some()) {
                    whole.push('\n');
                }
            }
            assert_eq!(whole, text.trim_end_matches('\n'), "cap {cap}");
        }
    }
}

#[tokio::test]
async fn a_range_ends_where_it_was_asked_to_however_many_parts_it_takes() {
    let world = World::new().await.reading(300);
    let parts = parts(&world, &poem(900), json!({"id": "m1", "from": 100, "to": 180})).await;
    let lines: Vec<String> =
        parts.iter().flat_map(|part| body(part).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    assert!(parts.len() > 2);
    assert_eq!(lines.len(), 81);
    assert!(lines[0].starts_with("line 100 ") && lines[80].starts_with("line 180 "));
}

#[tokio::test]
async fn every_matching_line_is_shown_once_with_what_is_around_it() {
    for context in [0, 1, 3] {
        let world = World::new().await.reading(300);
        let call = json!({"id": "m1", "grep": "STRASSE".replace("SS", "ß"), "context": context});
        let parts = parts(&world, &poem(400), call).await;
        let shown: Vec<String> =
            parts.iter().flat_map(|part| body(part).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let hits = shown.iter().filter(|line| line.contains(": line")).count();
        assert_eq!((hits, parts.len() > 1), (100, true), "context {context}");
        let around = shown.iter().filter(|line| line.contains("- line")).count();
        assert_eq!(around > 0, context > 0, "context {context}");
    }
}

#[tokio::test]
async fn lines_are_found_with_their_numbers_and_their_neighbors() {
    let world = World::new().await;
    let mut open = world.saying("one\ntwo\nthree\nfour\nfive\nsix\nseven\neight").await;
    let read = async |open: &mut _, arguments| world.call(open, "read_artifact", arguments).await.text;
    insta::assert_snapshot!(read(&mut open, json!({"id": "m1", "grep": "T", "context": 1})).await, @r"
    [m1, 3 of 3 matching lines]
    1- one
    2: two
    3: three
    4- four
    --
    7- seven
    8: eight
    ");
    insta::assert_snapshot!(read(&mut open, json!({"id": "m1", "grep": "f", "from": 5})).await, @r"
    [m1, 1 of 1 matching lines]
    5: five
    ");
    insta::assert_snapshot!(read(&mut open, json!({"id": "m1", "from": 7, "to": 99})).await, @r"
    [m1, lines 7-8 of 8]
    seven
    eight
    ");
    insta::assert_snapshot!(read(&mut open, json!({"id": "m1", "grep": "nine"})).await, @"[m1: none of the lines that were looked at holds that; it has 8]");
    insta::assert_snapshot!(read(&mut open, json!({"id": "m1", "from": 9})).await, @"m1 has 8 lines; there is no line 9.");
    insta::assert_snapshot!(read(&mut open, json!({"id": "m1", "byte": 900})).await, @"[m1 ends at byte 39]");
}

#[tokio::test]
async fn an_artifact_comes_back_as_it_was_by_every_way_it_is_named() {
    let world = World::new().await;
    let mut open = world.moved_out("acme", "t", 3).await;
    let artifact = world.artifact(&open).await;
    for named in [artifact.clone(), format!("artifact:{artifact}"), format!("epitome://thread/t/artifact/{artifact}")] {
        let outcome = world.call(&mut open, "read_artifact", json!({"id": named, "to": 2})).await;
        assert!(!outcome.is_error && outcome.text.contains("1: value_t_"), "{}", outcome.text);
        assert!(outcome.text.starts_with(&format!("[{artifact}, lines 1-2 of 100]\n")), "{}", outcome.text);
    }
}

#[tokio::test]
async fn recall_finds_what_left_and_shows_no_more_than_was_asked_for() {
    let world = World::new().await;
    let mut open = world.moved_out("acme", "t", 3).await;
    let outcome = world.call(&mut open, "recall", json!({"query": "zephyr0"})).await;
    assert!(outcome.text.contains("the zephyr0 turns"), "{}", outcome.text);
    let one = world.call(&mut open, "recall", json!({"query": "module_0 module_1 module_2", "limit": 1})).await;
    assert_eq!(one.text.matches(", lines ").count(), 1, "{}", one.text);
    assert!(one.text.contains("Found as well; read them by their numbers:\nm"), "{}", one.text);
    assert!(world.engine.counter().count(&one.text) <= world.engine.settings().recall_tokens);
    let none = world.call(&mut open, "recall", json!({"query": "xylophone"})).await;
    assert_eq!((none.text.as_str(), none.is_error), ("Nothing that was left out matches. Try other words.", false));
}

#[tokio::test]
async fn every_argument_of_reading_back_arrives() {
    let world = World::new().await;
    let mut open = world.moved_out("acme", "t", 3).await;
    for (name, arguments, begins, holds) in [
        ("read_artifact", json!({"id": "m1-m2, m5"}), "[m1-m2, m5, lines 1-", "[m5 user]\nRequest 1"),
        ("read_artifact", json!({"id": "m5", "around": 1}), "[m4-m6, lines 1-", "[m4 assistant]\nmodule_0 is fine."),
        (
            "read_artifact",
            json!({"edits": "module_0.rs"}),
            "[module_0.rs, lines 1-1 of 1]",
            "No message changes src/module_0.rs.",
        ),
        (
            "read_artifact",
            json!({"file": "module_0.rs", "to": 2}),
            "[module_0.rs, lines 1-2 of",
            "[src/module_0.rs as it stands: whole",
        ),
        ("recall", json!({"query": "module_0", "who": "tool"}), "[", "m3 tool read"),
        (
            "recall",
            json!({"query": "zephyr0", "tool": "read", "file": "module_0.rs"}),
            "[m3 tool read src/module_0.rs, lines",
            "zephyr0",
        ),
        (
            "recall",
            json!({"query": "xylophone", "after": "m3"}),
            "Nothing that was left out matches. Try other words, or fewer filters.",
            "",
        ),
        ("recall", json!({"query": "zephyr1", "newest": true, "limit": 1}), "[m7 tool read", "the zephyr1 turns"),
    ] {
        let outcome = world.call(&mut open, name, arguments.clone()).await;
        let is_right = !outcome.is_error && outcome.text.starts_with(begins) && outcome.text.contains(holds);
        assert!(is_right, "{name} {arguments}: {}", outcome.text);
    }
}

#[tokio::test]
async fn what_is_not_there_is_another_tenants_or_may_not_be_read_sounds_the_same() {
    let world = World::new().await;
    let theirs = world.moved_out("rival", "r", 2).await;
    let theirs = world.artifact(&theirs).await;
    let mut open = world.moved_out("acme", "t", 2).await;
    let own = world.artifact(&open).await;
    let unknown = world.call(&mut open, "read_artifact", json!({"id": "0000000000000000"})).await;
    let denied = world.call(&mut open, "read_artifact", json!({"id": theirs})).await;
    assert!(unknown.is_error && denied.is_error);
    assert_eq!(denied.text.replace(&theirs, "ID"), unknown.text.replace("0000000000000000", "ID"));
    let mut blind = owner("acme");
    blind.permissions = Permissions::none().with(Permission::ReadThread);
    let mut open = world.engine.resume(&blind, id("t")).await.unwrap();
    let denied = world.call(&mut open, "read_artifact", json!({"id": own})).await;
    assert_eq!(denied.text.replace(&own, "ID"), unknown.text.replace("0000000000000000", "ID"));
}

#[tokio::test]
async fn content_that_asks_for_a_permission_is_not_read_without_it() {
    let world =
        World::keeping(ArtifactRetention { sensitivity: Sensitivity::Restricted, ..ArtifactRetention::default() })
            .await;
    let open = world.moved_out("acme", "t", 2).await;
    let artifact = world.artifact(&open).await;
    let mut some = owner("acme");
    some.permissions = some.permissions.without(Permission::ReadRestricted);
    let mut open = world.engine.resume(&some, id("t")).await.unwrap();
    for (name, arguments) in [
        ("read_artifact", json!({"id": artifact})),
        ("read_artifact", json!({"id": "m3"})),
        ("recall", json!({"query": "zephyr0"})),
    ] {
        let outcome = world.call(&mut open, name, arguments.clone()).await;
        assert!(outcome.is_error && outcome.text.contains("not available to you"), "{name} {arguments}: {outcome:?}");
    }
}

#[tokio::test]
async fn what_has_expired_says_so_to_who_could_have_read_it() {
    let world =
        World::keeping(ArtifactRetention { ttl: Some(Duration::from_millis(1)), ..ArtifactRetention::default() }).await;
    let mut open = world.moved_out("acme", "t", 2).await;
    let artifact = world.artifact(&open).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let outcome = world.call(&mut open, "read_artifact", json!({"id": artifact})).await;
    assert!(outcome.is_error && outcome.text.contains("has expired"), "{}", outcome.text);
    let mut rival = world.open("rival", "r").await;
    let outcome = world.call(&mut rival, "read_artifact", json!({"id": artifact})).await;
    assert!(outcome.is_error && !outcome.text.contains("expired"), "{}", outcome.text);
}

#[tokio::test]
async fn a_message_that_is_not_there_says_which_are() {
    let world = World::new().await;
    let mut open = world.saying("Hello").await;
    for reference in ["m0", "m2", "m99999999999999999999"] {
        let outcome = world.call(&mut open, "read_artifact", json!({"id": reference})).await;
        assert!(outcome.is_error, "{reference}");
    }
    let outcome = world.call(&mut open, "read_artifact", json!({"id": "m2"})).await;
    assert_eq!(outcome.text, "There is no message m2 in the thread: it has m1 to m1.");
}

#[tokio::test]
async fn a_call_with_nothing_in_it_is_a_sentence_and_not_a_crash() {
    let world = World::new().await;
    let mut open = world.saying("Hello").await;
    for tool in TOOLS {
        assert!(is_own(tool.name));
        for arguments in ["", "null", "{", "\u{0}", "[]", "{\"id\":{}}"] {
            let outcome = perform(&world.engine, &mut open, world.caps, tool.name, arguments).await;
            assert!(outcome.is_error && outcome.text.ends_with('.'), "{}: {}", tool.name, outcome.text);
        }
    }
    assert!(!is_own("bash"));
}
