//! Notes on a thread reach the next request of its client, also below any budget; and an agent that asks again is counted.

use epitome::wire::Dialect;
use serde_json::{Value, json};

use crate::talk::{DIALECTS, Talk};
use crate::world::{Folder, Gate, Plan, World};

const SECRET: &str = "The code of the safe is 8812.";
const STANDS: &str = "[a number that is nobody's business]";

async fn change(gate: &Gate, thread: &str, body: Value) -> Value {
    let path = format!("/api/threads/{thread}/notes");
    let got = gate.send("POST", &path, &[("content-type", "application/json")], body.to_string().into_bytes()).await;
    assert_eq!(got.status, 200, "{}", got.text());
    got.json()
}

/// The number of the first message that says something, once the log has it.
async fn number_of(gate: &Gate, thread: &str, words: &str) -> String {
    let messages = gate.logged(thread, 1).await;
    let at = messages.iter().position(|message| message.to_string().contains(words)).unwrap();
    format!("m{}", at + 1)
}

fn sent(world: &World) -> String {
    String::from_utf8_lossy(&world.newest().body).into_owned()
}

#[tokio::test]
async fn a_message_that_is_hidden_is_not_sent_again_in_any_dialect() {
    for dialect in DIALECTS {
        let world = Plan::new().start().await;
        let mut talk = Talk::about(dialect, SECRET).header("x-session-id", "s");
        let thread = talk.send(&world.gate).await.fine().placed().0;
        assert!(sent(&world).contains(SECRET));
        let message = number_of(&world.gate, &thread, SECRET).await;
        let notes = change(&world.gate, &thread, json!({"action": "hide", "message": message, "text": STANDS})).await;
        assert_eq!(notes["hidden"][0]["message"], message.as_str());
        for _ in 0..3 {
            talk.hears("Noted.").says("Go on.");
            talk.send(&world.gate).await.fine();
            let sent = sent(&world);
            assert!(!sent.contains(SECRET) && sent.contains(STANDS), "{dialect:?}: {sent}");
        }
        world.assert_lawful();
        change(&world.gate, &thread, json!({"action": "show", "message": message})).await;
        talk.hears("Noted.").says("Go on.");
        talk.send(&world.gate).await.fine();
        assert!(sent(&world).contains(SECRET), "{dialect:?}");
    }
}

#[tokio::test]
async fn what_is_noted_outlives_a_restart() {
    let folder = Folder::new();
    let stored = || Plan::new().store(folder.store()).objects(folder.objects());
    let World { mock, gate } = stored().start().await;
    let mut talk = Talk::about(Dialect::Chat, SECRET).header("x-session-id", "s");
    let thread = talk.send(&gate).await.fine().placed().0;
    let message = number_of(&gate, &thread, SECRET).await;
    change(&gate, &thread, json!({"action": "hide", "message": message, "text": STANDS})).await;
    change(&gate, &thread, json!({"action": "remember", "text": "The user prefers Celsius."})).await;
    change(&gate, &thread, json!({"action": "pin", "text": "Be brief."})).await;
    gate.stop().await;
    let gate = stored().gate(&mock.url()).await;
    let world = World { mock, gate };
    talk.hears("Noted.").says("Go on.");
    talk.send(&world.gate).await.fine();
    let sent = sent(&world);
    assert!(!sent.contains(SECRET) && sent.contains(STANDS), "{sent}");
    assert!(sent.contains("The user prefers Celsius.") && sent.contains("Be brief."), "{sent}");
    world.assert_lawful();
}

#[tokio::test]
async fn an_agent_that_asks_for_what_was_compacted_is_counted() {
    for dialect in DIALECTS {
        let world = Plan::new().window(12_000).budget(8_000).start().await;
        let mut talk = Talk::new(dialect).header("x-session-id", "s").grown(14_000);
        let got = talk.send(&world.gate).await.fine();
        assert!(got.plan() > 0, "{dialect:?}");
        let thread = got.placed().0;
        for _ in 0..3 {
            talk.hears("What was the file again?").says("parser.rs, as I said.");
            talk.send(&world.gate).await.fine();
        }
        let notes = world.gate.ask(&format!("/api/threads/{thread}/notes")).await;
        assert_eq!(notes["quality"]["agent_asked_for_context"], 3, "{dialect:?}: {notes}");
        assert_eq!(notes["asks_often"], true, "{notes}");
        let events = world.gate.ask(&format!("/api/threads/{thread}/events?limit=1000")).await.to_string();
        assert_eq!(events.matches("\"context_missed\"").count(), 3, "{events}");
    }
}
