//! Wishes by header, and what the answer's headers tell.

use epitome::wire::Dialect;

use crate::talk::{DIALECTS, Talk};
use crate::world::{Folder, Plan, World};

fn plan() -> Plan {
    Plan::new().window(12_000).budget(8_000)
}

const PIN: &str = "The staging password must never be printed.";

#[tokio::test]
async fn a_pin_is_in_every_later_prompt_of_its_conversation() {
    for dialect in DIALECTS {
        let world = plan().start().await;
        let mut talk = Talk::new(dialect).header("x-session-id", "s").grown(2_000);
        talk.send_with(&world.gate, &[("x-epitome-pin", PIN), ("x-epitome-pins", r#"["Zweitens: grüßen.","Third."]"#)])
            .await
            .fine();
        let mut compacted = 0;
        for _ in 0..45 {
            talk.works(380);
            let got = talk.send(&world.gate).await.fine();
            let sent: serde_json::Value = world.newest().json().unwrap();
            if got.plan() > 0 {
                compacted += 1;
                let text = sent.to_string();
                for pin in [PIN, "Zweitens: grüßen.", "Third."] {
                    assert!(text.contains(pin), "{dialect:?} under plan {}: {pin}", got.plan());
                }
            }
        }
        assert!(compacted > 10);
        assert!(world.newest().headers.keys().all(|name| !name.as_str().starts_with("x-epitome")));
        world.assert_lawful();
    }
}

#[tokio::test]
async fn a_pin_that_comes_under_a_plan_is_in_the_next_prompt() {
    let world = plan().start().await;
    let mut talk = Talk::new(Dialect::Chat).header("x-session-id", "s").grown(14_000);
    talk.send(&world.gate).await.fine();
    talk.works(300);
    talk.send_with(&world.gate, &[("x-epitome-pin", PIN)]).await.fine();
    for _ in 0..30 {
        talk.works(380);
        talk.send(&world.gate).await.fine();
    }
    assert!(String::from_utf8_lossy(&world.newest().body).contains(PIN));
}

#[tokio::test]
async fn pins_outlive_a_restart_and_go_with_a_fork() {
    let folder = Folder::new();
    let stored = || plan().store(folder.store()).objects(folder.objects());
    let World { mock, gate } = stored().start().await;
    let talk = Talk::new(Dialect::Chat).field("user", serde_json::json!("alice")).grown(2_000);
    let (thread, _) = talk.send_with(&gate, &[("x-epitome-pin", PIN)]).await.fine().placed();
    crate::identity::settled(&gate, &thread, talk.messages.len() - 1).await;
    gate.stop().await;
    let gate = stored().gate(&mock.url()).await;
    let mut grown = talk.clone().grown(12_000);
    assert_eq!(grown.send(&gate).await.fine().plan(), 1);
    assert!(String::from_utf8_lossy(&mock.requests().pop().unwrap().body).contains(PIN), "after a restart");
    let mut fork = talk;
    fork.hears("Another way.").says("Go on.");
    fork = fork.grown(12_000);
    let got = fork.send(&gate).await.fine();
    assert_eq!((got.placed().1.as_str(), got.plan()), ("fork", 1));
    assert!(String::from_utf8_lossy(&mock.requests().pop().unwrap().body).contains(PIN), "in a fork");
    grown.works(300);
    grown.send(&gate).await.fine();
    assert!(String::from_utf8_lossy(&mock.requests().pop().unwrap().body).contains(PIN));
}

#[tokio::test]
async fn a_budget_is_kept_by_the_request_that_asks_for_it() {
    let world = Plan::new().start().await;
    for dialect in DIALECTS {
        let talk = Talk::new(dialect).grown(12_000);
        let got = talk.send_with(&world.gate, &[("x-epitome-budget", "6000")]).await.fine();
        assert_eq!(got.plan(), 1, "{dialect:?}");
        let tokens = world.newest().prompt_tokens.unwrap();
        assert!(tokens <= 6_000, "{dialect:?}: {tokens}");
    }
}

#[tokio::test]
async fn a_policy_by_name_decides_how() {
    let world = plan().start().await;
    let mut prompts = Vec::new();
    for policy in ["ladder", "claude-code", "codex", "trim"] {
        let talk = Talk::new(Dialect::Chat).grown(14_000).header("x-session-id", policy);
        let got = talk.send_with(&world.gate, &[("x-epitome-policy", policy)]).await;
        if got.status == 400 {
            assert!(got.text().contains("ladder"), "the known ones are named: {}", got.text());
            continue;
        }
        prompts.push(world.newest().body);
    }
    prompts.dedup();
    assert!(prompts.len() >= 2, "at least two of these are known and differ");
    world.assert_lawful();
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_in_the_clients_own_dialect_and_nothing_is_sent() {
    let world = plan().start().await;
    for dialect in DIALECTS {
        for (name, value) in [
            ("x-epitome-policy", "no-such-policy"),
            ("x-epitome-budget", "-5"),
            ("x-epitome-bypass", "perhaps"),
            ("x-epitome-pins", "not a list"),
            ("x-epitome-tools", "2"),
        ] {
            let got = Talk::new(dialect).send_with(&world.gate, &[(name, value)]).await;
            assert_eq!((got.status, got.told("refused")), (400, Some("unclear")), "{name}");
            let body = got.json();
            let message = body["error"]["message"].as_str().unwrap_or_else(|| panic!("{body}"));
            assert!(message.contains(name) && message.contains(value), "{message}");
            assert_eq!(body["type"] == "error", dialect == Dialect::Anthropic, "{body}");
        }
    }
    assert!(world.mock.requests().is_empty());
}

#[tokio::test]
async fn an_answer_tells_what_was_done() {
    let world = plan().start().await;
    for dialect in DIALECTS {
        for stream in [false, true] {
            let mut talk = Talk::about(dialect, &format!("Task {stream}.")).streaming(stream);
            let got = talk.send(&world.gate).await.fine();
            assert_eq!(
                (got.told("relation"), got.told("plan"), got.told("cache")),
                (Some("new"), Some("0"), Some("kept"))
            );
            assert_eq!((got.told("receipt"), got.told("retries"), got.told("failed-open")), (None, None, None));
            talk = talk.grown(14_000);
            let got = talk.send(&world.gate).await.fine();
            assert_eq!((got.told("plan"), got.told("cache")), (Some("1"), Some("rewritten")));
            let number = |name: &str| got.told(name).unwrap().parse::<u64>().unwrap();
            assert!(number("tokens-before") > number("tokens-after"));
            let receipt = got.told("receipt").unwrap();
            for word in ["retained=", "recoverable=", "lost="] {
                assert!(receipt.contains(word), "{receipt}");
            }
            assert!(got.told("request").is_some());
            // What it tells is there to be read.
            let (thread, _) = got.placed();
            world.gate.logged(&thread, 1).await;
            let row = world.gate.ask(&format!("/api/threads/{thread}")).await;
            assert_eq!(row["version"], 1, "{row}");
        }
    }
}

#[tokio::test]
async fn instructions_go_to_the_summary_and_not_to_the_provider() {
    let world = plan().start().await;
    let talk = Talk::new(Dialect::Anthropic).grown(14_000);
    let wish = [("x-epitome-instructions", "Keep every file name.")];
    let got = talk.send_with(&world.gate, &wish).await.fine();
    assert_eq!(got.plan(), 1);
    assert!(!world.newest().headers.contains_key("x-epitome-instructions"));
    world.assert_lawful();
}

#[tokio::test]
async fn an_output_limit_takes_nothing_from_a_budget() {
    let world = Plan::new().budget(20_000).start().await;
    // As agents ask: a long system prompt, and as much output as the model has.
    let mut talk = Talk::new(Dialect::Anthropic).model("claude-sonnet-4-5").field("max_tokens", 32_000.into());
    talk = talk.field("system", "Be careful. ".repeat(3_000).into());
    let mut plans = Vec::new();
    for _ in 0..12 {
        talk.works(600);
        plans.push(talk.send(&world.gate).await.fine().plan());
    }
    assert_eq!(plans[0], 0, "{plans:?}");
    assert!(plans.iter().max().unwrap() <= &3, "it compacts again and again: {plans:?}");
    let newest = String::from_utf8_lossy(&world.newest().body).into_owned();
    let last = talk.messages.last().unwrap().to_string();
    assert!(newest.contains(&last[1..last.len() - 1]), "the newest result is not in the prompt");
    world.assert_lawful();
}
