//! Reading: threads, messages, prompts, plans, receipts and artifacts, a page at a time.

use serde_json::Value;

use crate::world::World;

fn list<'a>(body: &'a Value, name: &str) -> &'a Vec<Value> {
    body[name].as_array().unwrap_or_else(|| panic!("{name} is no list in {body}"))
}

#[tokio::test]
async fn pages_follow_each_other_and_end() {
    let world = World::new().await;
    let first = world.fine("/api/threads?limit=1").await;
    assert_eq!(first["threads"][0]["id"], "t-long");
    let second = world.fine(&format!("/api/threads?limit=1&after={}", first["next"].as_str().unwrap())).await;
    assert_eq!((&second["threads"][0]["id"], &second["next"]), (&"t-short-fork".into(), &Value::Null));
    for (what, list_name) in [("plans", "plans"), ("events", "events"), ("artifacts", "artifacts")] {
        let whole = world.fine(&format!("/api/threads/t-long/{what}?limit=1000")).await;
        let (mut after, mut seen) = (Value::from(0), Vec::new());
        loop {
            let page = world.fine(&format!("/api/threads/t-long/{what}?limit=2&after={after}")).await;
            if list(&page, list_name).is_empty() {
                break;
            }
            seen.extend(list(&page, list_name).clone());
            match &page["next"] {
                Value::Null => break,
                next => after = next.clone(),
            }
        }
        assert!(!seen.is_empty(), "there are no {what}");
        assert_eq!(&seen, list(&whole, list_name), "{what}");
    }
}

#[tokio::test]
async fn a_list_of_threads_says_what_each_is_about_and_how_things_stand() {
    let world = World::talking().await;
    let threads = world.fine("/api/threads").await;
    let thread = &threads["threads"][0];
    let told = thread["summary"].as_str().unwrap_or_else(|| panic!("{threads}"));
    assert!(told.starts_with("Request ") && told.contains("tell me what module_"), "{told}");
    assert_eq!(thread["compacting"], false);
    assert_eq!(world.fine("/api/threads/t-talk").await["summary"], told);
    let other = World::new().await.fine("/api/threads/t-short-fork").await;
    assert!(other["summary"].is_null(), "it was never compacted: {other}");
}

#[tokio::test]
async fn a_thread_tells_its_family() {
    let world = World::new().await;
    let parent = world.fine("/api/threads/t-long").await;
    assert_eq!(parent["family"]["forks"], serde_json::json!(["t-short-fork"]));
    let fork = world.fine("/api/threads/t-short-fork").await;
    assert_eq!(fork["family"]["shared"], serde_json::json!([{"thread": "t-long", "until": 2}]));
    assert_eq!(fork["messages"], 2);
}

#[tokio::test]
async fn messages_are_the_log_as_it_came() {
    let world = World::new().await;
    let some = world.fine("/api/threads/t-long/messages?from=2&to=4").await;
    let numbers: Vec<u64> = list(&some, "messages").iter().filter_map(|message| message["number"].as_u64()).collect();
    assert_eq!((numbers.as_slice(), &some["next"]), ([2, 3, 4].as_slice(), &5.into()));
    assert_eq!(some["messages"][1]["message"]["role"], "tool", "message 3 left the prompt and not the log");
    let total = some["total"].as_u64().unwrap();
    let last = world.fine(&format!("/api/threads/t-long/messages?from={total}")).await;
    assert_eq!((list(&last, "messages").len(), &last["next"]), (1, &Value::Null));
    let beyond = world.fine(&format!("/api/threads/t-long/messages?from={}", total + 10)).await;
    assert_eq!(list(&beyond, "messages").len(), 0);
    let fork = world.fine("/api/threads/t-short-fork/messages").await;
    assert_eq!(fork["messages"][0], world.fine("/api/threads/t-long/messages").await["messages"][0]);
}

#[tokio::test]
async fn a_prompt_is_what_the_model_sees_and_looking_changes_nothing() {
    let world = World::new().await;
    let before = world.fine("/api/threads/t-long").await;
    let prompt = world.fine("/api/threads/t-long/prompt").await;
    assert_eq!(prompt, world.fine("/api/threads/t-long/prompt").await);
    assert_eq!(before, world.fine("/api/threads/t-long").await);
    assert_eq!(prompt["version"], before["version"]);
    assert!(prompt["tokens"].as_u64() < before["tokens"].as_u64(), "{} {}", prompt["tokens"], before["tokens"]);
    let kinds: Vec<&str> = list(&prompt, "pieces").iter().filter_map(|piece| piece["kind"].as_str()).collect();
    assert!(kinds.contains(&"kept") && kinds.iter().any(|kind| *kind != "kept"), "{kinds:?}");
}

#[tokio::test]
async fn a_receipt_counts_what_it_lists() {
    let world = World::new().await;
    let newest = world.fine("/api/threads/t-long/receipt").await;
    let version = &newest["version"];
    assert_eq!(newest, world.fine(&format!("/api/threads/t-long/receipt?version={version}")).await);
    let count = |fate: &str| list(&newest, "items").iter().filter(|item| item["fate"] == fate).count();
    for fate in ["retained", "recoverable", "lost"] {
        assert_eq!(newest[fate], count(fate), "{fate}");
    }
    assert!(count("retained") > 0);
    let plan = world.fine(&format!("/api/threads/t-long/plans/{version}")).await;
    assert!(plan["tokens_after"].as_u64() < plan["tokens_before"].as_u64());
    for kind in ["artifacts", "writes", "patches", "commands", "memory_reads", "hidden"] {
        assert!(plan["digest"][kind].is_array(), "{kind}: {}", plan["digest"]);
    }
    assert_eq!(world.ask("/api/threads/t-short-fork/receipt").await.0, 404, "there is no plan");
}

#[tokio::test]
async fn the_spans_of_every_plan_name_the_first_and_the_last_message_that_they_stand_for() {
    let world = World::talking().await;
    let messages = world.fine("/api/threads/t-talk/messages?from=1&to=1000").await;
    let ids: Vec<&Value> = list(&messages, "messages").iter().map(|message| &message["id"]).collect();
    let newest = world.fine("/api/threads/t-talk").await["version"].as_u64().unwrap();
    for version in 1..=newest {
        let plan = world.fine(&format!("/api/threads/t-talk/plans/{version}")).await;
        let mut summarized = 0;
        for record in list(&plan["details"], "records") {
            let place = |end: usize| ids.iter().position(|id| **id == record["span"]["ends"][end]);
            let (Some(first), Some(last)) = (place(0), place(1)) else { panic!("version {version}: {record}") };
            if record["part"].is_null() && record.to_string().contains("summarize") {
                // Behind the first plan, what it took out is not loaded any more, and is named all the same.
                let fresh = plan["compacted"][0][0].as_u64().unwrap();
                assert!(version == 1 || (first as u64) + 1 < fresh, "version {version}: {record}");
                summarized += 1;
            }
            assert!(first <= last, "version {version}: {record}");
        }
        assert!(version < 2 || summarized > 0, "version {version}: {plan}");
    }
}

#[tokio::test]
async fn an_artifact_is_read_whole_by_lines_and_by_words() {
    let world = World::new().await;
    let at = |query: &str| format!("/api/artifacts/{}{query}", world.artifact);
    let whole = world.fine(&at("")).await;
    let text = whole["text"].as_str().unwrap();
    assert!(text.contains("compute(") && whole["complete"] == true, "{whole}");
    assert_eq!(whole["lines"], text.lines().count());
    let some = world.fine(&at("?from=2&to=3")).await;
    assert_eq!(
        some["text"].as_str().unwrap().lines().collect::<Vec<_>>(),
        text.lines().skip(1).take(2).collect::<Vec<_>>()
    );
    assert_eq!((&some["from"], &some["to"]), (&2.into(), &3.into()));
    let found = world.fine(&at("?grep=_39%20%3D")).await;
    assert_eq!(list(&found, "found").len(), 1, "{found}");
    assert_eq!(found["found"][0]["line"], 40);
    assert_eq!(world.fine(&at("?grep=_39%20%3D&to=10")).await["found"], serde_json::json!([]));
}

#[tokio::test]
async fn a_thread_is_searched_and_read_back_with_the_parameters_of_the_tools() {
    let world = World::new().await;
    for (asked, holds) in [
        ("recall?query=module_0&who=tool", "m3 tool read"),
        ("recall?query=value_0_3&tool=read&file=module_0.rs&after=m2&newest=true&limit=1", "m3 tool read"),
        ("read?id=m1-m2", "[m1 user]"),
        ("read?id=m2&around=1", "[m3 tool]"),
        ("read?edits=module_0.rs", "No message changes"),
        ("read?file=module_0.rs", "as it stands: whole"),
    ] {
        let found = world.fine(&format!("/api/threads/t-long/{asked}")).await;
        assert!(found["text"].as_str().is_some_and(|text| text.contains(holds)), "{asked}: {found}");
    }
    for (asked, status) in [("recall", 404), ("recall?query=x&who=me", 404), ("read", 404), ("read?id=m9999", 404)] {
        assert_eq!(world.ask(&format!("/api/threads/t-long/{asked}")).await.0, status, "{asked}");
    }
}
