//! Identity: which thread a request belongs to, across retries, forks, callers, restarts and gateways.

use std::sync::Arc;

use epitome::wire::Dialect;
use epitome_mock::{MockSettings, MockWork};
use epitome_runtime::store::{MemoryStore, PostgresSettings, PostgresStore, Store};
use serde_json::json;

use crate::talk::{DIALECTS, Talk};
use crate::wire::{Line, Then};
use crate::world::{Folder, Plan, World};

/// Its thread, and how it relates to it.
async fn placed(world: &World, talk: &Talk) -> (String, String) {
    talk.send(&world.gate).await.fine().placed()
}

fn plan() -> Plan {
    Plan::new().window(12_000).budget(8_000)
}

#[tokio::test]
async fn a_history_continues_comes_again_forks_or_is_new() {
    for dialect in DIALECTS {
        let world = plan().start().await;
        let mut talk = Talk::new(dialect).grown(1_000);
        let (thread, relation) = placed(&world, &talk).await;
        assert_eq!(relation, "new");
        let short = talk.clone();
        talk.works(300);
        assert_eq!(placed(&world, &talk).await, (thread.clone(), "continue".to_owned()), "{dialect:?}");
        assert_eq!(placed(&world, &talk).await, (thread.clone(), "again".to_owned()), "{dialect:?}");
        let mut other = short.clone();
        other.hears("Another way.").says("And then?");
        let (fork, relation) = placed(&world, &other).await;
        assert_eq!(relation, "fork", "{dialect:?}");
        assert_ne!(fork, thread);
        // Both go on by themselves.
        talk.works(300);
        other.hears("So.").says("Good.");
        assert_eq!(placed(&world, &talk).await, (thread.clone(), "continue".to_owned()));
        assert_eq!(placed(&world, &other).await, (fork.clone(), "continue".to_owned()));
        let (new, relation) = placed(&world, &Talk::about(dialect, "Write a poem.")).await;
        assert_eq!(relation, "new");
        assert!(![&thread, &fork].contains(&&new));
        // Everything of a fork is in its log, the shared beginning included.
        let system = usize::from(dialect == Dialect::Chat);
        let logged = world.gate.logged(&fork, other.messages.len() - system).await;
        let sent: Vec<serde_json::Value> =
            other.messages[system..].iter().map(|message| serde_json::from_str(message).unwrap()).collect();
        assert_eq!(logged, sent, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_connection_that_says_something_else_is_heard() {
    use epitome_gateway::settings::ApiKey;
    use epitome_runtime::model::Secret;
    let keys = ["acme", "beta"].map(|tenant| {
        let secret = Secret::new(&format!("ek-{tenant}"));
        ApiKey { tenant: tenant.parse().unwrap(), secret }
    });
    let world = plan().settings(move |settings| settings.keys = keys.into()).start().await;
    let mut talk = Talk::new(Dialect::Chat);
    let (acme, beta) = (("x-epitome-key", "ek-acme"), ("x-epitome-key", "ek-beta"));
    let (mut threads, mut lengths) = (Vec::new(), Vec::new());
    for headers in [&[acme][..], &[beta], &[acme], &[beta], &[acme]] {
        let got = talk.send_with(&world.gate, headers).await.fine();
        threads.push(got.placed());
        lengths.push(world.newest().body.len());
        talk.works(50);
    }
    let ids: Vec<usize> =
        threads.iter().map(|(id, _)| threads.iter().position(|(other, _)| other == id).unwrap()).collect();
    assert_eq!(ids, [0, 1, 0, 1, 0], "{threads:?}");
    assert!(lengths.is_sorted_by(|shorter, longer| shorter < longer), "{lengths:?}");
    let refused = talk.send_with(&world.gate, &[("x-epitome-key", "ek-acmf")]).await;
    assert_eq!((refused.status, refused.told("refused")), (401, Some("unknown_caller")));
    assert_eq!(talk.send_with(&world.gate, &[acme, ("x-epitome-bypass", "on")]).await.fine().told("thread"), None);
    assert_eq!(talk.send_with(&world.gate, &[acme]).await.fine().placed().0, threads[0].0);
}

#[tokio::test]
async fn two_samples_of_one_prompt_are_two_branches_with_one_plan() {
    let world = plan().start().await;
    let talk = Talk::new(Dialect::Chat).grown(14_000);
    let first = talk.send(&world.gate).await.fine();
    let sample = talk.send(&world.gate).await.fine();
    assert_eq!((first.placed().0, "again".to_owned()), sample.placed());
    let prefix = world.newest().body;
    let prefix = prefix.strip_suffix(b"]}").unwrap();
    let mut threads = Vec::new();
    for answer in ["One way.", "Another way."] {
        let mut sampled = talk.clone();
        sampled.hears(answer).says("Go on.");
        let got = sampled.send(&world.gate).await.fine();
        assert!(world.newest().body.starts_with(prefix), "{answer}: the cache of what they share is kept");
        threads.push(got.placed().0);
    }
    assert_ne!(threads[0], threads[1]);
}

#[tokio::test]
async fn a_rewind_leaves_the_thread_where_it_was_rewound_to() {
    for dialect in DIALECTS {
        let world = plan().start().await;
        let mut talk = Talk::new(dialect);
        let mut at_each = Vec::new();
        for _ in 0..45 {
            talk.works(380);
            let got = talk.send(&world.gate).await.fine();
            at_each.push((talk.clone(), got));
        }
        assert!(at_each.last().unwrap().1.plan() >= 2, "there is something to be rewound over");
        let (mut rewound, before) = (at_each[5].0.clone(), at_each[5].1.placed().0);
        rewound.says("No, try something else.");
        let got = rewound.send(&world.gate).await.fine();
        let (thread, relation) = got.placed();
        assert_eq!(relation, "fork", "{dialect:?}");
        assert_ne!(thread, before);
        let sent = String::from_utf8(world.newest().body.to_vec()).unwrap();
        assert!(sent.contains("No, try something else."));
        for later in 6..45 {
            assert!(!sent.contains(&format!("file {later}:")) && !sent.contains(&format!("file{later}.rs")), "{later}");
        }
        world.assert_lawful();
    }
}

#[tokio::test]
async fn helpers_of_one_session_have_threads_of_their_own() {
    let world = plan().start().await;
    let main = Talk::new(Dialect::Anthropic).grown(1_000).header("x-claude-code-session-id", "s-1");
    let helper = Talk::about(Dialect::Anthropic, "Find all uses of parse().").header("x-claude-code-session-id", "s-1");
    let title = Talk::about(Dialect::Anthropic, "Write a title.").header("x-claude-code-session-id", "s-1");
    let threads: Vec<String> =
        [placed(&world, &main).await, placed(&world, &helper).await, placed(&world, &title).await]
            .into_iter()
            .map(|(thread, relation)| {
                assert_eq!(relation, "new");
                thread
            })
            .collect();
    let mut main = main;
    main.works(300);
    assert_eq!(placed(&world, &main).await, (threads[0].clone(), "continue".to_owned()));
    let mut helper = helper;
    helper.works(300);
    assert_eq!(placed(&world, &helper).await, (threads[1].clone(), "continue".to_owned()));
}

#[tokio::test]
async fn callers_with_different_keys_never_share_a_thread() {
    let world = plan().start().await;
    for dialect in DIALECTS {
        let talk = Talk::new(dialect).grown(2_000);
        let of = |key: &'static str| {
            let (world, talk) = (&world, &talk);
            async move { talk.send_with(&world.gate, &[("x-api-key", key)]).await.fine().placed() }
        };
        let (one, relation) = of("sk-one").await;
        assert_eq!(relation, "new");
        let (two, relation) = of("sk-two").await;
        assert_eq!(relation, "new", "{dialect:?}");
        assert_ne!(one, two);
        assert_eq!(of("sk-one").await, (one, "again".to_owned()));
        // Naming the other's conversation or thread does not help.
        for name in ["x-session-id", "x-epitome-thread"] {
            let got = talk.send_with(&world.gate, &[("x-api-key", "sk-three"), (name, &two)]).await.fine();
            assert_ne!(got.placed().0, two, "{name}");
        }
    }
}

#[tokio::test]
async fn what_a_client_calls_its_conversation_only_narrows() {
    let world = plan().start().await;
    let talk = Talk::new(Dialect::Chat);
    let in_session = |session: &'static str| talk.clone().header("x-session-id", session);
    let (one, _) = placed(&world, &in_session("a")).await;
    let (two, relation) = placed(&world, &in_session("b")).await;
    assert_eq!(relation, "new", "two conversations may begin alike");
    assert_ne!(one, two);
    // The same name with another history is another thread.
    let other = Talk::about(Dialect::Chat, "Something else.").header("x-session-id", "a");
    let (three, relation) = placed(&world, &other).await;
    assert_eq!(relation, "new");
    assert_ne!(three, one);
    let mut more = in_session("a");
    more.works(200);
    assert_eq!(placed(&world, &more).await, (one, "continue".to_owned()));
}

#[tokio::test]
async fn a_client_that_compacts_by_itself_is_taken_at_its_word() {
    for dialect in DIALECTS {
        let world = plan().start().await;
        let talk = Talk::new(dialect).grown(5_000).header("x-session-id", "s-9");
        let (before, _) = placed(&world, &talk).await;
        // Which thread a session had last is written beside its answer.
        world.gate.flush().await;
        let mut compacted = Talk::about(dialect, "Summary of what was done so far: parser.rs was read. Go on.")
            .header("x-session-id", "s-9");
        let got = compacted.send(&world.gate).await.fine();
        assert_ne!(got.placed().0, before);
        assert_eq!(String::from_utf8_lossy(&world.newest().body), compacted.body(), "nothing comes back");
        world.gate.logged(&got.placed().0, 1).await;
        let family = world.gate.ask(&format!("/api/threads/{}", got.placed().0)).await;
        assert_eq!(family["family"]["derived_from"], before, "{dialect:?}: {family}");
        compacted.works(300);
        assert_eq!(placed(&world, &compacted).await, (got.placed().0, "continue".to_owned()));
    }
}

#[tokio::test]
async fn one_that_names_no_conversation_is_known_by_what_the_model_said_in_it() {
    const SUMMARY: &str = "parser.rs was read up to line 300, and the bug is in how it splits the last line of a file.";
    for dialect in DIALECTS {
        let folder = Folder::new();
        let works = |mock: &mut MockSettings| mock.work = MockWork { turns: 3, ..MockWork::default() };
        let world = Plan::new().store(folder.store()).mock(works).start().await;
        let mut talk = Talk::new(dialect);
        for _ in 0..2 {
            let answer = talk.read(&talk.send(&world.gate).await.fine());
            talk.takes(&answer, 300);
        }
        let before = placed(&world, &talk).await.0;
        let said = Line::saying(whole_answer(dialect, SUMMARY), Then::Close).await;
        let logged = |talk: &Talk| talk.messages.len() - usize::from(dialect == Dialect::Chat);
        world.gate.logged(&before, logged(&talk)).await;
        // What was said is written beside its answer.
        world.gate.stop().await;
        // Another gateway on the same store, and a provider that sums up.
        let gate = Plan::new().store(folder.store()).gate(&said.url()).await;
        let mut asks = talk.clone();
        asks.says("Sum up what was done.");
        let (asked, relation) = asks.send_anew(&gate).await.fine().placed();
        assert_eq!((&asked, relation.as_str()), (&before, "continue"), "{dialect:?}");
        gate.logged(&before, logged(&asks)).await;
        gate.flush().await;
        let mut kept = Talk::about(dialect, "So far: parser.rs was read.");
        kept.messages.extend(talk.messages[talk.messages.len() - 2..].iter().cloned());
        let summed_up = Talk::about(dialect, &format!("This goes on from before:\n\n{SUMMARY}\n\nGo on with it."));
        let other = Talk::about(dialect, &format!("This goes on from before:\n\n{}", SUMMARY.replace("bug", "fault")));
        for (talk, expected) in [(summed_up, Some(&before)), (kept, Some(&before)), (other, None)] {
            let (thread, relation) = talk.send_anew(&gate).await.fine().placed();
            assert_eq!(relation, "new");
            gate.logged(&thread, 1).await;
            let family = gate.ask(&format!("/api/threads/{thread}")).await;
            let derived = family["family"]["derived_from"].as_str();
            assert_eq!(derived, expected.map(String::as_str), "{dialect:?}: {family}");
        }
        gate.stop().await;
    }
}

/// A provider's whole answer, with these words in it.
fn whole_answer(dialect: Dialect, words: &str) -> String {
    let text = match dialect {
        Dialect::Responses => {
            json!({"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [
            {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": words}]}]})
        }
        Dialect::Anthropic => json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": words}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 9, "output_tokens": 9}}),
        _ => json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": words}, "finish_reason": "stop"}]}),
    };
    let text = text.to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    format!("{head}content-length: {}\r\n\r\n{text}", text.len())
}

#[tokio::test]
async fn a_clients_own_request_for_a_summary_goes_out_whole_where_it_fits() {
    let mut claude = Talk::new(Dialect::Anthropic).grown(30_000);
    claude.says("Your task is to create a detailed summary of the conversation so far, paying close attention.");
    let mut codex = Talk::new(Dialect::Responses).grown(30_000);
    codex.says("You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary.");
    let mut helper = Talk::new(Dialect::Responses).grown(30_000).header("x-openai-subagent", "compact");
    helper.says("Summarize.");
    for talk in [claude, codex, helper] {
        let world = Plan::new().window(60_000).budget(30_000).start().await;
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(got.told("failed-open"), None);
        assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body());
        // Another last request with as much before it is compacted.
        let mut plain = Talk::about(talk.dialect, "Something else.").grown(30_000);
        plain.says("And now?");
        assert_eq!(plain.send(&world.gate).await.fine().plan(), 1);
    }
}

#[tokio::test]
async fn many_samples_at_once_are_one_thread_and_one_prompt() {
    for dialect in DIALECTS {
        let world = plan().start().await;
        let mut talk = Talk::new(dialect).grown(4_000);
        talk.send(&world.gate).await.fine();
        talk = talk.grown(10_000);
        let all: Vec<_> = (0..12).map(|_| talk.send(&world.gate)).collect();
        let all = futures_util::future::join_all(all).await;
        let threads: std::collections::BTreeSet<String> = all.iter().map(|got| got.placed().0).collect();
        assert_eq!(threads.len(), 1, "{dialect:?}");
        let bodies: std::collections::BTreeSet<Vec<u8>> =
            world.mock.requests().into_iter().skip(1).map(|sent| sent.body.to_vec()).collect();
        assert_eq!(bodies.len(), 1, "{dialect:?}");
        assert!(all.into_iter().all(|got| got.fine().plan() == 1));
        world.assert_lawful();
    }
}

#[tokio::test]
async fn threads_that_are_let_go_of_come_back_as_they_were() {
    let world = plan().settings(|settings| settings.serve.memory_mb_max.0 = 1).start().await;
    let mut talks: Vec<Talk> = (0..3).map(|number| Talk::about(Dialect::Chat, &format!("Task {number}."))).collect();
    let mut threads = vec![None; 3];
    let mut before: Vec<Option<(u64, bytes::Bytes)>> = vec![None; 3];
    for turn in 0..40 {
        for (at, talk) in talks.iter_mut().enumerate() {
            talk.works(380);
            let got = talk.send(&world.gate).await.fine();
            let thread = threads[at].get_or_insert_with(|| got.placed().0).clone();
            assert_eq!(got.placed().0, thread, "turn {turn} of {at}");
            let sent = world.newest().body;
            if let Some((_, before)) = before[at].take().filter(|(plan, _)| *plan == got.plan()) {
                assert!(sent.starts_with(before.strip_suffix(b"]}").unwrap()), "turn {turn} of {at}");
            }
            before[at] = Some((got.plan(), sent));
            settled(&world.gate, &thread, talk.messages.len() - 1).await;
        }
    }
    assert!(before.iter().all(|before| before.as_ref().unwrap().0 >= 2));
    world.assert_lawful();
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    for dialect in DIALECTS {
        let folder = Folder::new();
        let stored = || plan().store(folder.store()).objects(folder.objects());
        let World { mock, gate } = stored().start().await;
        let mut talk = Talk::new(dialect);
        let mut newest = None;
        for _ in 0..40 {
            talk.works(380);
            newest = Some(talk.send(&gate).await.fine());
        }
        let newest = newest.unwrap();
        assert!(newest.plan() >= 1);
        let before = mock.requests().pop().unwrap().body;
        gate.stop().await;
        let gate = stored().gate(&mock.url()).await;
        let again = talk.send(&gate).await.fine();
        assert_eq!(again.placed(), (newest.placed().0, "again".to_owned()), "{dialect:?}");
        assert_eq!(again.plan(), newest.plan());
        assert_eq!(mock.requests().pop().unwrap().body, before, "{dialect:?}");
        talk.works(100);
        let next = talk.send(&gate).await.fine();
        assert_eq!(next.placed(), (newest.placed().0, "continue".to_owned()));
        if next.plan() == newest.plan() {
            assert!(mock.requests().pop().unwrap().body.starts_with(before.strip_suffix(b"]}").unwrap()));
        }
        assert_eq!(mock.violations(), []);
    }
}

#[tokio::test]
async fn marks_that_move_make_no_new_thread_however_they_are_written() {
    let world = plan().start().await;
    let result = |number: usize, mark: &str| {
        format!(
            r#"{{"role": "user", "content": [{{{mark}"type": "tool_result", "tool_use_id": "c{number}", "content": "ok {number}"}}]}}"#
        )
    };
    let call = |number: usize| {
        format!(
            r#"{{"role": "assistant", "content": [{{"type": "tool_use", "id": "c{number}", "name": "bash", "input": {{}}}}]}}"#
        )
    };
    let mut thread = None;
    for turns in 1..12 {
        let mut talk = Talk::new(Dialect::Anthropic);
        for number in 0..turns {
            let mark = if number + 1 == turns { r#""cache_control": {"type": "ephemeral"}, "# } else { "" };
            talk.messages.push(call(number));
            talk.messages.push(result(number, mark));
        }
        let (own, relation) = placed(&world, &talk).await;
        let thread = thread.get_or_insert_with(|| own.clone());
        assert_eq!(&own, thread, "turn {turns}");
        assert_eq!(relation, if turns == 1 { "new" } else { "continue" }, "turn {turns}");
    }
}

#[tokio::test]
async fn two_gateways_behave_as_one_for_a_client_that_does_not_wait() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let World { mock, gate } = plan().store(store.clone()).start().await;
    let gates = [gate, plan().store(store).gate(&mock.url()).await];
    let mut talk = Talk::new(Dialect::Chat).grown(2_000);
    let mut threads = std::collections::BTreeSet::new();
    for at in 0..30 {
        talk.works(200);
        threads.insert(talk.send(&gates[at % 2]).await.fine().placed().0);
    }
    assert_eq!(threads.len(), 1, "{threads:?}");
}

/// Two gateways on one store take turns, and then send the same next message at once.
async fn as_one(store: Arc<dyn Store>, other: Arc<dyn Store>) {
    let objects: Arc<dyn object_store::ObjectStore> = Arc::new(object_store::memory::InMemory::new());
    let World { mock, gate } = plan().store(store).objects(objects.clone()).start().await;
    let gates = [gate, plan().store(other).objects(objects).gate(&mock.url()).await];
    let mut talk = Talk::new(Dialect::Chat);
    let mut thread = None;
    let mut before: Option<(u64, bytes::Bytes)> = None;
    for at in 0..45 {
        talk.works(380);
        let got = talk.send(&gates[at % 2]).await.fine();
        let (own, relation) = got.placed();
        let expected = if at == 0 { "new" } else { "continue" };
        let thread = thread.get_or_insert_with(|| own.clone()).clone();
        assert_eq!((&own, relation.as_str()), (&thread, expected), "turn {at}");
        assert_eq!(got.told("failed-open"), None, "turn {at}");
        let sent = mock.requests().pop().unwrap().body;
        if let Some((plan, before)) = before.filter(|(plan, _)| *plan == got.plan()) {
            assert!(sent.starts_with(before.strip_suffix(b"]}").unwrap()), "turn {at} under plan {plan}");
        }
        before = Some((got.plan(), sent));
        settled(&gates[at % 2], &thread, talk.messages.len() - 1).await;
    }
    assert!(before.unwrap().0 >= 2, "there were compactions");
    assert_eq!(mock.violations(), []);
    // Both send the same next message at once.
    talk.works(100);
    let [one, two] = &gates;
    let (one, two) = tokio::join!(talk.send(one), talk.send(two));
    let bodies: Vec<_> = mock.requests().into_iter().rev().take(2).map(|sent| sent.body).collect();
    assert_eq!(bodies[0], bodies[1], "the same history gets the same prompt");
    for got in [one, two] {
        assert_eq!(got.fine().told("failed-open"), None);
    }
    // And both send different ones: each goes on by itself.
    let [mut left, mut right] = [talk.clone(), talk.clone()];
    left.hears("Left.").says("Go on left.");
    right.hears("Right.").says("Go on right.");
    let [first, second] = &gates;
    let (one, two) = tokio::join!(left.send(first), right.send(second));
    let (one, two) = (one.fine(), two.fine());
    left.works(50);
    right.works(50);
    let (left, right) = (left.send(second).await.fine(), right.send(first).await.fine());
    assert_eq!(mock.violations(), []);
    assert_ne!(left.placed().0, right.placed().0, "{:?} {:?}", one.placed(), two.placed());
}

/// Waits until the log has so many messages of a thread.
pub async fn settled(gate: &crate::world::Gate, thread: &str, count: usize) {
    let began = std::time::Instant::now();
    loop {
        let got = gate.send("GET", &format!("/api/threads/{thread}"), &[], Vec::new()).await;
        let length = (got.status == 200).then(|| got.json()["messages"].as_u64()).flatten();
        if length.is_some_and(|length| length >= count as u64) {
            return;
        }
        assert!(began.elapsed() < crate::world::SOON, "there are not {count} messages: {}", got.text());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn two_gateways_on_one_store_behave_as_one() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    as_one(store.clone(), store).await;
}

#[tokio::test]
async fn two_gateways_on_one_postgres_behave_as_one() {
    let url = std::env::var("EPITOME_TEST_POSTGRES")
        .expect("EPITOME_TEST_POSTGRES says where Postgres is; scripts/test starts it and sets this");
    let schema = format!("test_{}", uuid::Uuid::now_v7().simple());
    let settings = PostgresSettings { schema, ..PostgresSettings::default() };
    let [one, two] = [
        PostgresStore::connect_with(&url, &settings).await.unwrap(),
        PostgresStore::connect_with(&url, &settings).await.unwrap(),
    ];
    as_one(Arc::new(one), Arc::new(two)).await;
}

#[tokio::test]
async fn a_helper_with_the_same_messages_leaves_its_masters_thread_alone() {
    let world = plan().start().await;
    let mut main = Talk::new(Dialect::Anthropic).grown(1_000).field("system", "Work.".into());
    let (thread, _) = placed(&world, &main).await;
    let tools = serde_json::json!([{"name": "title", "input_schema": {"type": "object"}}]);
    let helper = main.clone().field("system", "Write a title.".into()).field("tools", tools);
    placed(&world, &helper).await;
    main.works(300);
    assert_eq!(placed(&world, &main).await, (thread, "continue".to_owned()));
}

#[tokio::test]
async fn what_came_before_on_a_connection_does_not_change_what_is_found() {
    for dialect in DIALECTS {
        let (one, each) = (plan().start().await, plan().start().await);
        let mut talk = Talk::new(dialect).grown(1_000);
        let short = talk.clone();
        let mut histories = vec![talk.clone(), talk.clone()];
        for _ in 0..3 {
            talk.works(200);
            histories.push(talk.clone());
        }
        // It goes back, leaves in another way, is about something else, and goes on.
        histories.push(short.clone());
        let mut other = short;
        other.hears("Another way.").says("And then?");
        histories.extend([other, Talk::about(dialect, "Write a poem."), talk.clone()]);
        talk.works(200);
        histories.push(talk.clone());
        let mut threads: [Vec<String>; 2] = Default::default();
        for history in &histories {
            let by_one = history.send(&one.gate).await.fine();
            let by_new = history.send_anew(&each.gate).await.fine();
            assert_eq!(by_one.placed().1, by_new.placed().1, "{dialect:?}");
            assert_eq!(
                by_one.told("x-epitome-tokens-after").is_some(),
                by_new.told("x-epitome-tokens-after").is_some()
            );
            for (threads, got) in threads.iter_mut().zip([by_one, by_new]) {
                threads.push(got.placed().0);
            }
            assert_eq!(one.newest().body, each.newest().body, "{dialect:?}");
        }
        // The same threads, whatever they are called.
        let groups = |threads: &[String]| -> Vec<usize> {
            threads.iter().map(|thread| threads.iter().position(|other| other == thread).unwrap()).collect()
        };
        assert_eq!(groups(&threads[0]), groups(&threads[1]), "{dialect:?}");
        let system = usize::from(dialect == Dialect::Chat);
        let logged = one.gate.logged(threads[0].last().unwrap(), talk.messages.len() - system).await;
        let sent: Vec<serde_json::Value> =
            talk.messages[system..].iter().map(|message| serde_json::from_str(message).unwrap()).collect();
        assert_eq!(logged, sent, "{dialect:?}");
    }
}
