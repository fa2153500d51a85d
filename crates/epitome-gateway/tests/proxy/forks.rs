//! Forks that come before the store has what they leave: they wait for it, and nothing of them is lost.

use std::sync::Arc;
use std::time::Duration;

use epitome::wire::Dialect;
use epitome_gateway::settings::Persist;
use epitome_runtime::store::MemoryStore;
use epitome_testkit::FaultyStore;
use serde_json::{Value, json};

use crate::talk::{DIALECTS, Talk};
use crate::world::{Got, Plan, World};

/// How many threads are left at once.
const PARENTS: usize = 6;

/// The same history with one message more, under another system prompt and with other tools.
fn helper(parent: &Talk, words: &str) -> Talk {
    let mut talk = parent.clone();
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
    match talk.dialect {
        Dialect::Chat => {
            talk.messages[0] = json!({"role": "system", "content": "You name conversations."}).to_string();
            let function = json!({"name": "name", "description": "Names.", "parameters": schema});
            talk.fields["tools"] = json!([{"type": "function", "function": function}]);
        }
        Dialect::Responses => {
            talk.fields["instructions"] = json!("You name conversations.");
            talk.fields["tools"] = json!([{"type": "function", "name": "name", "parameters": schema}]);
        }
        _ => {
            talk.fields["system"] = json!("You name conversations.");
            talk.fields["tools"] = json!([{"name": "name", "input_schema": schema}]);
        }
    }
    talk.says(words);
    talk
}

async fn whole_log(world: &World, got: &Got, talk: &Talk) {
    let system = usize::from(talk.dialect == Dialect::Chat);
    let (thread, _) = got.placed();
    let logged = world.gate.logged(&thread, talk.messages.len() - system).await;
    let sent: Vec<Value> =
        talk.messages[system..].iter().map(|message| serde_json::from_str(message).unwrap()).collect();
    assert_eq!(logged, sent, "{:?}: {thread}", talk.dialect);
}

/// Parents and, before the store has anything of them, two generations of forks.
async fn leave_at_once(dialect: Dialect, persist: Persist, tokens: usize) {
    let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new())));
    let world = Plan::new()
        .window(16_000)
        .budget(6_000)
        .store(store.clone())
        .settings(|settings| {
            settings.serve.persist = persist;
            settings.serve.store_patience_ms.0 = Duration::from_secs(20);
        })
        .start()
        .await;
    store.delay(Duration::from_millis(15));
    let families = (0..PARENTS).map(|number| {
        let world = &world;
        async move {
            let parent = Talk::about(dialect, &format!("Task {number} of {PARENTS}.")).grown(800);
            // Its head is there as soon as its thread is known; the store has nothing of it yet.
            let begun = world.gate.begin(parent.path(), &[], parent.body()).await;
            let mut child = helper(&parent, "Give it a title.");
            for _ in 0..tokens / 2000 {
                child.works(1950);
            }
            let mut grandchild = parent.clone();
            grandchild.messages.clone_from(&child.messages);
            grandchild.messages[..parent.messages.len()].clone_from_slice(&parent.messages);
            grandchild.says("And now the task itself.");
            let (of_child, of_parent) = tokio::join!(child.send(&world.gate), Got::of(begun));
            let of_grandchild = grandchild.send(&world.gate).await;
            [(parent, of_parent), (child, of_child), (grandchild, of_grandchild)]
        }
    });
    let answered = futures_util::future::join_all(families).await;
    for family in answered {
        let threads: Vec<String> = family.iter().map(|(_, got)| got.placed().0).collect();
        assert!(threads[0] != threads[1] && threads[1] != threads[2], "{dialect:?}: {threads:?}");
        for (talk, got) in family {
            let got = got.fine();
            assert_eq!(got.told("failed-open"), None, "{dialect:?} {persist:?} {tokens}: {:?}", got.headers);
            whole_log(&world, &got, &talk).await;
        }
    }
    world.assert_lawful();
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_right_behind_their_parents_wait_for_what_is_on_its_way_and_are_whole() {
    for dialect in DIALECTS {
        for persist in [Persist::BeforeAnswer, Persist::AfterAnswer] {
            // Within the budget, over it, and over the provider's window.
            for tokens in [0, 8_000, 20_000] {
                leave_at_once(dialect, persist, tokens).await;
            }
        }
    }
}
