//! The server as a client finds it on standard input and output.

use std::collections::BTreeSet;

use epitome_runtime::artifact::{Permission, Permissions};
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::{LINES, World, owner};

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_version_of_the_handshake_is_answered_in_kind() {
    let world = World::new().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::silent(world.server(owner("acme"), None));
        let hello = client.initialize(version).await;
        assert_eq!(hello["protocolVersion"], version);
        assert_eq!(hello["serverInfo"]["name"], "epitome");
        assert!(hello["instructions"].as_str().unwrap().contains("recall"));
        assert!(hello["capabilities"]["tools"].is_object() && hello["capabilities"]["resources"].is_object());
        client.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_client_without_a_handshake_is_answered_request_by_request() {
    let world = World::new().await;
    world.moved_out("acme", "t", 2).await;
    let mut client = Client::silent(world.server(owner("acme"), None));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = client.ask("server/discover", json!({"_meta": meta})).await;
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{found}");
    let call = json!({"name": "recall", "arguments": {"query": "zephyr1"}, "_meta": meta});
    let answer = client.ask("tools/call", call).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert!(answer["result"]["content"][1]["text"].as_str().unwrap().contains("zephyr1 turns"), "{answer}");
}

#[tokio::test]
async fn the_tools_say_what_they_do_and_what_they_take() {
    let world = World::new().await;
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    let listed = client.ask("tools/list", json!({})).await;
    let tools = &listed["result"]["tools"];
    assert_eq!(names(tools), ["read_artifact", "recall", "compact", "handoff", "notes", "annotate"]);
    for (tool, reads) in tools.as_array().unwrap().iter().zip([true, true, false, true, true, false]) {
        assert_eq!(tool["annotations"]["readOnlyHint"], reads);
        assert_eq!(tool["annotations"]["openWorldHint"], false);
        assert_ne!(tool["annotations"]["destructiveHint"], true);
        assert_eq!(tool["inputSchema"]["properties"]["thread"]["type"], "string");
    }
    let mut client = Client::of(world.server(owner("acme"), Some("t"))).await;
    let listed = client.ask("tools/list", json!({})).await;
    let thread = &listed["result"]["tools"][0]["inputSchema"]["properties"]["thread"];
    assert!(thread.is_null(), "a fixed thread is not asked for");
}

#[tokio::test]
async fn a_call_is_about_the_thread_it_names_or_the_one_used_last_and_says_which() {
    let world = World::new().await;
    world.moved_out("acme", "old", 2).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    world.moved_out("acme", "new", 2).await;
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    let (text, _) = client.call("read_artifact", json!({"id": "m3", "to": 1})).await;
    assert!(text.starts_with("[thread new, the one used last]\n[m3, lines 1-1 of 100]\n1: value_new_0_1"), "{text}");
    let (text, _) = client.call("read_artifact", json!({"id": "m3", "to": 1, "thread": "old"})).await;
    assert!(text.starts_with("[m3, lines 1-1 of 100]\n1: value_old_0_1"), "{text}");
    for nowhere in ["nowhere", "../old", "no thread"] {
        let (text, is_error) = client.call("recall", json!({"query": "x", "thread": nowhere})).await;
        assert!(is_error && text.starts_with("There is no thread `"), "{text}");
    }
    let mut fixed = Client::of(world.server(owner("acme"), Some("old"))).await;
    let (text, is_error) = fixed.call("recall", json!({"query": "value_old_0_7"})).await;
    assert!(!is_error && text.contains("value_old_0_7"), "{text}");
    let (text, is_error) = fixed.call("recall", json!({"query": "x", "thread": "new"})).await;
    assert!(is_error && text.contains("`old` alone"), "{text}");
}

#[tokio::test]
async fn an_empty_store_says_so() {
    let world = World::new().await;
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    let (text, is_error) = client.call("recall", json!({"query": "anything"})).await;
    assert_eq!((text.as_str(), is_error), ("There is no thread yet.", true));
}

#[tokio::test]
async fn compacting_answers_with_numbers_and_the_plan_is_there_afterwards() {
    let world = World::new().await;
    let mut open = world.open("acme", "t").await;
    for at in 0..12 {
        let said = format!("Remark {at}: {}", "the wind turns and the valve stays shut; ".repeat(60));
        open.append([json!({"role": "user", "content": said}).to_string()]).await.unwrap();
        open.append([json!({"role": "assistant", "content": format!("Noted {at}.")}).to_string()]).await.unwrap();
    }
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    let pin = "Never open valve 4 at noon";
    let call = json!({"name": "compact", "arguments": {"thread": "t", "pins": [pin], "instructions": "the valve"}});
    let answer = client.ask("tools/call", call).await;
    let facts = &answer["result"]["structuredContent"];
    assert_eq!((&facts["compacted"], &facts["plan_version"]), (&json!(true), &json!(1)), "{answer}");
    assert!(facts["tokens_after"].as_u64() < facts["tokens_before"].as_u64(), "{facts}");
    assert_eq!(facts["receipt"]["lost"], 0);
    assert!(facts["receipt"]["retained"].as_u64().unwrap() > 0);
    assert_eq!(world.version("acme", "t").await, 1);
    let step = world.open("acme", "t").await.prepare_step(&Default::default()).await.unwrap();
    assert!(step.messages.iter().any(|message| message.as_str().contains(pin)), "the pin is in the prompt");
    let (text, is_error) = client.call("compact", json!({"thread": "t", "pins": "one"})).await;
    assert!(is_error && text.contains("cannot be used"), "{text}");
}

#[tokio::test]
async fn who_may_only_read_does_not_compact() {
    let world = World::new().await;
    world.moved_out("acme", "t", 2).await;
    let mut reader = owner("acme");
    reader.permissions = Permissions::none().with(Permission::ReadThread).with(Permission::ReadArtifact);
    let mut client = Client::of(world.server(reader, Some("t"))).await;
    let (text, is_error) = client.call("compact", json!({})).await;
    assert_eq!((text.as_str(), is_error), ("You may read this thread, not compact it.", true));
    assert_eq!(world.version("acme", "t").await, 1);
}

#[tokio::test]
async fn artifacts_are_listed_newest_first_each_once_and_read_whole() {
    let world = World::new().await;
    let open = world.moved_out("acme", "t", 2).await;
    let moved = world.artifact(&open).await;
    world.add_artifacts("acme", "t", 120).await;
    world.add_artifacts("acme", "other", 3).await;
    world.moved_out("rival", "r", 2).await;
    let all = world.artifacts("acme").await;
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = client.ask("resources/list", params).await["result"].clone();
        seen.extend(page["resources"].as_array().unwrap().clone());
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let ids: Vec<&str> = seen.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert_eq!(ids.len(), all.len());
    let at = |id: &str| all.iter().find(|row| row.id == id).unwrap().at;
    assert!(ids.windows(2).all(|two| at(two[0]) >= at(two[1])), "newest first");
    let named = seen.iter().find(|one| one["name"] == moved.as_str()).unwrap();
    assert!(named["title"].as_str().unwrap().starts_with("src/module_"), "{named}");
    assert!(named["size"].as_u64().unwrap() > 2000, "{named}");
    let read = client.ask("resources/read", json!({"uri": named["uri"]})).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(text.lines().count(), LINES);
    let mut fixed = Client::of(world.server(owner("acme"), Some("other"))).await;
    let listed = fixed.ask("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"].as_array().unwrap().len(), 3, "{listed}");
}

#[tokio::test]
async fn content_that_two_threads_moved_out_is_listed_in_both() {
    let world = World::new().await;
    world.moved_out("acme", "one", 2).await;
    world.moved_out_as("acme", "two", "one", 2).await;
    let mut lists = Vec::new();
    for thread in ["one", "two"] {
        let mut client = Client::of(world.server(owner("acme"), Some(thread))).await;
        let listed = client.ask("resources/list", json!({})).await["result"]["resources"].clone();
        let uri = listed[0]["uri"].as_str().unwrap().to_owned();
        assert!(uri.starts_with(&format!("epitome://thread/{thread}/artifact/")), "{uri}");
        let read = client.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["result"]["contents"][0]["text"].as_str().unwrap().lines().count(), LINES);
        lists.push(names(&listed).into_iter().map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(lists[0], lists[1]);
}

#[tokio::test]
async fn an_address_that_names_nothing_or_somebody_elses_is_not_found() {
    let world = World::new().await;
    let theirs = world.moved_out("rival", "r", 2).await;
    let theirs = world.artifact(&theirs).await;
    world.moved_out("acme", "t", 2).await;
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    for uri in [
        format!("epitome://thread/r/artifact/{theirs}"),
        format!("epitome://thread/t/artifact/{theirs}"),
        "epitome://thread/t/artifact/0000000000000000".to_owned(),
        "epitome://thread/t/artifact/m999".to_owned(),
        "epitome://thread/nowhere/artifact/m1".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let answer = client.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(answer["error"]["code"], -32002, "{uri}: {answer}");
    }
    let templates = client.ask("resources/templates/list", json!({})).await;
    let template = &templates["result"]["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(template, "epitome://thread/{thread}/artifact/{id}");
    let read = client.ask("resources/read", json!({"uri": "epitome://thread/t/artifact/m1"})).await;
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().starts_with("Request 0"), "{read}");
    let answer = client.ask("resources/list", json!({"cursor": "nonsense"})).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[tokio::test]
async fn nonsense_is_an_error_and_the_server_goes_on() {
    let world = World::new().await;
    world.moved_out("acme", "t", 2).await;
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    let answer = client.ask("tools/call", json!({"name": "rm", "arguments": {}})).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("There is no tool `rm`"), "{answer}");
    let answer = client.ask("prompts/eat", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    client.say("this is not JSON").await;
    client.say("{\"jsonrpc\":\"2.0\"}").await;
    let (text, is_error) = client.call("recall", json!({"query": "zephyr0", "thread": 7})).await;
    assert!(is_error && text.contains("not the name of a thread"), "{text}");
    let (text, _) = client.call("recall", json!({"query": "zephyr0"})).await;
    assert!(text.contains("zephyr0"), "{text}");
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_client_that_asks_nothing_ends_the_server_in_peace() {
    let world = World::new().await;
    Client::silent(world.server(owner("acme"), None)).close().await.unwrap();
}

#[tokio::test]
async fn notes_are_changed_and_shown_and_the_next_prompt_has_them() {
    let world = World::new().await;
    world.saying("The code of the safe is 8812.").await;
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    let hide = json!({"thread": "said", "action": "hide", "message": "m1", "text": "[a code]"});
    let (text, is_error) = client.call("annotate", hide).await;
    assert!(!is_error && text.contains("Hidden messages:\n- m1: [a code]"), "{text}");
    for (action, words) in [("pin", "Never open valve 4."), ("remember", "The user prefers Celsius.")] {
        let (text, is_error) =
            client.call("annotate", json!({"thread": "said", "action": action, "text": words})).await;
        assert!(!is_error && text.contains(words), "{text}");
    }
    let answer = client.ask("tools/call", json!({"name": "notes", "arguments": {"thread": "said"}})).await;
    let facts = &answer["result"]["structuredContent"];
    assert_eq!(facts["hidden"], json!([{"message": "m1", "text": "[a code]"}]), "{answer}");
    assert_eq!(facts["pins"], json!(["Never open valve 4."]));
    assert_eq!(facts["memory"]["entries"], json!(["The user prefers Celsius."]));
    assert_eq!(facts["quality"]["compactions"], 0);
    let step = world.open("acme", "said").await.prepare_step(&Default::default()).await.unwrap();
    let said: String = step.messages.iter().map(ToString::to_string).collect();
    assert!(
        !said.contains("8812") && said.contains("[a code]") && said.contains("Celsius") && said.contains("valve 4")
    );
    for (arguments, says) in [
        (json!({"action": "hide", "message": "m9", "text": "x"}), "There is no message m9 in the thread."),
        (json!({"action": "erase", "message": "m1"}), "cannot be used: unknown variant `erase`"),
        (json!({"action": "pin"}), "missing field `text`"),
        (json!({"action": "pin", "text": "x", "force": true}), "unknown field `force`"),
    ] {
        let mut arguments = arguments;
        arguments["thread"] = json!("said");
        let (text, is_error) = client.call("annotate", arguments).await;
        assert!(is_error && text.contains(says), "{text}");
    }
}

#[tokio::test]
async fn a_thread_is_handed_over_for_a_goal() {
    let world = World::new().await;
    let version = world.moved_out("acme", "long", 3).await.row().version;
    let mut client = Client::of(world.server(owner("acme"), None)).await;
    let asked = json!({"name": "handoff", "arguments": {"thread": "long", "goal": "Go on with zephyr1"}});
    let answer = client.ask("tools/call", asked).await;
    let facts = &answer["result"]["structuredContent"];
    let text = facts["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(text.contains("## Goal\nGo on with zephyr1\n"), "{text}");
    assert!(text.contains("zephyr1") && facts["tokens"].as_u64().unwrap() > 0, "{answer}");
    assert_eq!(world.version("acme", "long").await, version);
    let (text, is_error) = client.call("handoff", json!({"thread": "long"})).await;
    assert!(is_error && text.contains("missing field `goal`"), "{text}");
    let mut stranger = Client::of(world.server(owner("bolt"), None)).await;
    let (text, is_error) = stranger.call("handoff", json!({"thread": "long", "goal": "x"})).await;
    assert!(is_error && text.contains("There is no thread `long`"), "{text}");
}
