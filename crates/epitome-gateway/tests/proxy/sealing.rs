//! A store under keys: what was said through the gateway is in none of its files, and the newest key alone serves on.

use std::time::Duration;

use epitome::budget::Tokens;
use epitome::wire::Dialect;
use epitome_gateway::settings::ApiKey;
use epitome_mock::{MockServer, MockWork};
use epitome_runtime::engine::{Engine, EngineParts};
use epitome_runtime::ids::{TenantId, ThreadKey};
use epitome_runtime::model::Secret;
use epitome_runtime::recall::{RecallRequest, recall};
use epitome_runtime::store::DocumentKind;
use epitome_runtime::upkeep::{check, rotate};
use epitome_runtime::vault::Keys;
use serde_json::json;

use crate::talk::{DIALECTS, Talk};
use crate::wire::{Line, Then};
use crate::world::{Folder, Gate, Plan, SOON};

const TASK: &str = "The quetzalcoatlus nests in parser.rs. Do not touch main.rs.";
const PIN: &str = "Never wake the archaeopteryx.";

/// A gateway on the store of a folder, before a provider that works a job off.
async fn serve(folder: &Folder, mock: &MockServer, keys: Keys) -> Gate {
    let plan = Plan::new().budget(8_000).with_tools().keys(keys);
    plan.store(folder.store()).objects(folder.objects()).gate(&mock.url()).await
}

fn provider() -> MockServer {
    let work = MockWork { turns: 200, bytes: 1_500, gateway_tools: true, ..MockWork::default() };
    let settings =
        epitome_mock::MockSettings { work, window: Some(Tokens::new(12_000)), ..epitome_mock::MockSettings::default() };
    MockServer::start(settings).unwrap()
}

fn keys(text: &[(&str, char)]) -> Keys {
    let lines: Vec<String> =
        text.iter().map(|(name, digit)| format!("{name}:{}", digit.to_string().repeat(64))).collect();
    lines.join("\n").parse().unwrap()
}

/// Goes on with a conversation for so many turns. What the model called and said on the way, and how many messages were sent.
async fn go_on(gate: &Gate, talk: &mut Talk, turns: usize) -> (Vec<String>, usize) {
    let (mut said, mut sent) = (Vec::new(), 0);
    for turn in 0..turns {
        let got = talk.send_with(gate, &[("x-epitome-pin", PIN)]).await.fine();
        sent = talk.messages.len();
        assert_eq!(got.told("failed-open"), None, "turn {turn}");
        let answer = talk.read(&got);
        said.extend(answer.calls.iter().map(|call| call.id.to_string()));
        said.extend(answer.text.lines().map(str::to_owned).filter(|line| line.len() > 20));
        talk.takes(&answer, 300);
        if turn + 1 == turns {
            assert!(got.plan() > 0, "it was compacted");
        }
    }
    (said, sent)
}

/// A conversation of which the provider keeps what was said.
fn kept() -> Talk {
    Talk::about(Dialect::Responses, TASK)
}

/// Goes on from kept responses for so many turns, sending only what is new; the ids of the responses.
async fn chain(gate: &Gate, talk: &mut Talk, turns: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for turn in 0..turns {
        let got = talk.send(gate).await.fine();
        assert_eq!(got.told("failed-open"), None, "turn {turn}");
        let answer = talk.read(&got);
        talk.messages.clear();
        talk.takes(&answer, 300);
        talk.messages.retain(|message| message.contains("function_call_output"));
        let id = answer.id.expect("a response has an id");
        talk.fields["previous_response_id"] = json!(id);
        ids.push(id);
    }
    ids
}

/// The engine of a store, to look after it.
async fn engine(folder: &Folder, keys: Keys) -> Engine {
    let settings = epitome_runtime::engine::EngineSettings::default();
    let (store, objects) = (folder.store(), folder.objects());
    Engine::new(EngineParts { store, objects, keys, ..EngineParts::in_memory(settings) }).await.unwrap()
}

async fn bring_under(folder: &Folder, keys: Keys) {
    let engine = engine(folder, keys).await;
    let rotated = rotate(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap();
    assert_eq!(rotated.left, [""; 0]);
}

async fn findings(folder: &Folder, keys: Keys) -> Vec<String> {
    let engine = engine(folder, keys).await;
    check(engine.log(), engine.artifacts(), &mut |_| {}).await.unwrap().findings
}

#[tokio::test]
async fn after_a_rotation_no_word_of_any_conversation_is_in_any_file_of_the_store() {
    let (folder, mock) = (Folder::new(), provider());
    let gate = serve(&folder, &mock, Keys::none()).await;
    let mut said = vec![TASK.to_owned(), "quetzalcoatlus".to_owned(), PIN.to_owned(), "Never delete files".to_owned()];
    for dialect in DIALECTS {
        for stream in [false, true] {
            let mut talk = Talk::about(dialect, TASK).streaming(stream);
            said.extend(go_on(&gate, &mut talk, 30).await.0);
        }
    }
    said.extend(chain(&gate, &mut kept(), 4).await);
    gate.stop().await;
    let in_the_open = said.iter().filter(|words| !folder.files_holding(words.as_bytes()).is_empty()).count();
    assert!(in_the_open > said.len() / 2, "the store was not sealed");
    assert_eq!(findings(&folder, Keys::none()).await, [""; 0]);
    let unrotated = findings(&folder, keys(&[("one", '1')])).await;
    assert!(unrotated.iter().any(|finding| finding.contains("store rotate")), "{unrotated:?}");

    bring_under(&folder, keys(&[("one", '1')])).await;
    for words in &said {
        assert_eq!(folder.files_holding(words.as_bytes()), [""; 0], "{words}");
    }
    assert_eq!(findings(&folder, keys(&[("one", '1')])).await, [""; 0]);
}

#[tokio::test]
async fn the_new_key_alone_serves_on() {
    let steps = [
        (Keys::none(), keys(&[("one", '1')]), keys(&[("one", '1')])),
        (keys(&[("one", '1')]), keys(&[("two", '2'), ("one", '1')]), keys(&[("two", '2')])),
    ];
    for (before, during, after) in steps {
        for dialect in DIALECTS {
            let (folder, mock) = (Folder::new(), provider());
            let gate = serve(&folder, &mock, before.clone()).await;
            let mut talk = Talk::about(dialect, TASK).streaming(true).header("x-session-id", "s");
            go_on(&gate, &mut talk, 30).await;
            let placed = talk.send(&gate).await.fine().placed();
            let mut kept = kept();
            chain(&gate, &mut kept, 3).await;
            gate.stop().await;
            bring_under(&folder, during.clone()).await;

            let gate = serve(&folder, &mock, after.clone()).await;
            let got = talk.send(&gate).await.fine();
            assert_eq!(got.told("failed-open"), None);
            assert_eq!(got.placed().0, placed.0, "it is the same thread");
            assert!(got.plan() > 0, "it is compacted");
            let sent = mock.requests().pop().unwrap().body;
            assert!(String::from_utf8_lossy(&sent).contains(PIN), "the pin holds");
            let (_, sent) = go_on(&gate, &mut talk, 8).await;
            // A system prompt among the messages stands before the thread.
            let sent = sent - usize::from(dialect == Dialect::Chat);
            chain(&gate, &mut kept, 2).await;
            gate.stop().await;
            let key = ThreadKey::new(TenantId::local(), placed.0.parse().unwrap());
            let row = engine(&folder, after.clone()).await.log().thread(&key).await.unwrap().unwrap();
            assert!(row.length as usize >= sent, "{} of {sent} messages are logged", row.length);
            assert_eq!(findings(&folder, after.clone()).await, [""; 0]);
        }
    }
}

/// What recall finds in a thread for the words of a tool's early output.
async fn recalled(folder: &Folder, keys: Keys, thread: &str) -> String {
    let engine = engine(folder, keys).await;
    let key = ThreadKey::new(TenantId::local(), thread.parse().unwrap());
    let row = engine.log().thread(&key).await.unwrap().unwrap();
    let request = RecallRequest { limit: Some(5), ..RecallRequest::from("compute 62") };
    let query = request.query(Tokens::new(2_000), &engine.settings().policy.tools, None);
    recall(engine.log(), &row, &query, &**engine.counter()).await.unwrap().render()
}

#[tokio::test]
async fn between_naming_a_new_key_and_rotating_a_conversation_goes_on_where_it_was() {
    const EARLY: &str = "of file 2: let x0 = compute(62)";
    let steps = [
        (Keys::none(), keys(&[("one", '1')]), keys(&[("one", '1')])),
        (keys(&[("one", '1')]), keys(&[("two", '2'), ("one", '1')]), keys(&[("two", '2')])),
    ];
    for (before, during, after) in steps {
        for dialect in DIALECTS {
            let (folder, mock) = (Folder::new(), provider());
            let gate = serve(&folder, &mock, before.clone()).await;
            let mut talk = Talk::about(dialect, TASK).header("x-session-id", "s");
            go_on(&gate, &mut talk, 30).await;
            let thread = talk.send(&gate).await.fine().placed().0;
            let mut kept = kept();
            chain(&gate, &mut kept, 3).await;
            gate.stop().await;

            for (keys, rotates) in [(&during, false), (&during, true), (&after, false)] {
                let gate = serve(&folder, &mock, keys.clone()).await;
                let got = talk.send(&gate).await.fine();
                assert_eq!(got.placed(), (thread.clone(), "again".to_owned()), "it is the same thread");
                assert!(got.plan() > 0, "it is compacted");
                let sent = mock.requests().pop().unwrap().body;
                assert!(String::from_utf8_lossy(&sent).contains(PIN), "the pin holds");
                go_on(&gate, &mut talk, 3).await;
                assert_eq!(talk.send(&gate).await.fine().placed().0, thread, "it goes on there");
                chain(&gate, &mut kept, 2).await;
                gate.stop().await;
                let found = recalled(&folder, keys.clone(), &thread).await;
                assert!(found.contains(EARLY), "{found}");
                if rotates {
                    bring_under(&folder, keys.clone()).await;
                }
            }
            assert_eq!(findings(&folder, after.clone()).await, [""; 0]);
        }
    }
}

/// The key that callers' keys were hashed under when their hashes stood in stores.
const CALLERS: &[u8; 32] = b"epitome gateway scope of callers";

/// Every hash that anybody can make of a text who knows the program: plain, and as names were made before they were blinded.
fn guesses(text: &str) -> Vec<blake3::Hash> {
    let of_key = *blake3::keyed_hash(CALLERS, text.as_bytes()).as_bytes();
    vec![
        blake3::hash(text.as_bytes()),
        blake3::hash(format!("line\n{text}").as_bytes()),
        blake3::Hash::from_bytes(of_key),
        blake3::keyed_hash(CALLERS, &of_key),
    ]
}

/// A hash as it may stand in a file: its digits or its bytes, or the beginning of them.
fn forms(hash: &blake3::Hash) -> Vec<Vec<u8>> {
    let digits = [16, 24, 32, 64].map(|count| hash.to_hex()[..count].as_bytes().to_vec());
    let bytes = [12, 16, 32].map(|count| hash.as_bytes()[..count].to_vec());
    digits.into_iter().chain(bytes).collect()
}

/// Nothing of this stands in any file of a store, nor a hash of it.
#[track_caller]
fn assert_untold(folder: &Folder, told: &[String], hashes: &[blake3::Hash]) {
    for words in told {
        assert_eq!(folder.files_holding(words.as_bytes()), [""; 0], "{words}");
    }
    let of_words = told.iter().flat_map(|text| guesses(text));
    for form in of_words.chain(hashes.iter().copied()).flat_map(|hash| forms(&hash)) {
        assert_eq!(folder.files_holding(&form), [""; 0], "{}", String::from_utf8_lossy(&form));
    }
}

#[tokio::test]
async fn in_a_sealed_store_no_name_and_no_hash_tells_who_said_what() {
    const KEY: &str = "sk-of-the-brontosaurus";
    const NAME: &str = "talk-about-trilobites";
    const REQUEST: &str = "request-of-the-ammonite";
    const MODEL: &str = "model-velociraptor-7";
    for dialect in DIALECTS {
        for name in [Some(NAME), None] {
            let (folder, mock) = (Folder::new(), provider());
            let sealed = keys(&[("one", '1')]);
            let gate = serve(&folder, &mock, sealed.clone()).await;
            let mut talk = Talk::about(dialect, TASK).streaming(true).model(MODEL);
            talk = talk.header("x-api-key", KEY).header("x-request-id", REQUEST);
            if let Some(name) = name {
                talk = talk.header("session-id", name);
            }
            let mut told: Vec<String> = [KEY, NAME, REQUEST, MODEL, TASK, PIN].map(str::to_owned).into();
            let mut hashes = Vec::new();
            for _ in 0..25 {
                let got = talk.send_with(&gate, &[("x-epitome-pin", PIN)]).await.fine();
                assert_eq!(got.told("failed-open"), None);
                let answer = talk.read(&got);
                told.extend(answer.id.clone());
                told.extend(answer.text.lines().filter(|line| line.len() > 10).map(str::to_owned));
                for call in &answer.calls {
                    told.push(call.id.to_string());
                    let said = format!("call\n{}\n{}\n{}", call.id, call.name, call.arguments);
                    hashes.push(blake3::hash(said.as_bytes()));
                }
                talk.takes(&answer, 300);
            }
            if dialect == Dialect::Responses {
                told.extend(chain(&gate, &mut kept(), 3).await);
            }
            gate.stop().await;
            let mut ids = epitome::thread::Chain::from(epitome::thread::MessageId::ROOT);
            for message in &talk.messages {
                let message = epitome::wire::decode_message(dialect, &epitome::thread::Raw::whole(message.clone()));
                hashes.push(blake3::Hash::from_bytes(*ids.push(&message).as_bytes()));
            }
            assert_untold(&folder, &told, &hashes);
            assert_eq!(findings(&folder, sealed).await, [""; 0]);
        }
    }
}

#[tokio::test]
async fn what_the_model_said_in_a_line_of_its_own_leaves_no_hash_that_can_be_guessed() {
    const LINE: &str =
        "The iguanodon lost its thumb because trim_end was called before the split; fixed in src/parse.rs.";
    let body =
        json!({"id": "chatcmpl-iguanodon", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": LINE}, "finish_reason": "stop"}]})
        .to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    let line = Line::saying(format!("{head}{body}"), Then::Close).await;
    let (folder, sealed) = (Folder::new(), keys(&[("one", '1')]));
    let plan = Plan::new().keys(sealed.clone()).store(folder.store()).objects(folder.objects());
    let gate = plan.gate(&line.url()).await;
    let got = Talk::about(Dialect::Chat, TASK).send(&gate).await.fine();
    let thread = got.placed().0;
    let looker = engine(&folder, sealed.clone()).await;
    let traces = async {
        let store = looker.log().store();
        while store.documents(&TenantId::local(), DocumentKind::Trace, None, 9).await.unwrap().len() != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, traces).await.expect("it leaves a trace");
    gate.stop().await;
    drop(looker);
    assert_untold(&folder, &[LINE.to_owned(), "chatcmpl-iguanodon".to_owned(), "sk-test".to_owned()], &[]);

    // It is found again: a history that holds nothing but the line comes from that thread.
    let plan = Plan::new().keys(sealed).store(folder.store()).objects(folder.objects());
    let gate = plan.gate(&line.url()).await;
    let retold = Talk::about(Dialect::Chat, &format!("So far:\n\n{LINE}\n\nGo on."));
    let new = retold.send(&gate).await.fine().placed().0;
    gate.logged(&new, 1).await;
    let labels = gate.ask(&format!("/api/threads/{new}")).await.to_string();
    assert!(labels.contains(&thread), "{labels}");
    gate.stop().await;
}

#[tokio::test]
async fn the_same_words_of_two_tenants_are_kept_under_different_names() {
    let (folder, mock) = (Folder::new(), provider());
    let gateway_keys = [("acme", "ek-acme"), ("bolt", "ek-bolt")];
    let plan = Plan::new().budget(8_000).keys(keys(&[("one", '1')])).settings(|settings| {
        let key =
            |(tenant, secret): &(&str, &str)| ApiKey { tenant: tenant.parse().unwrap(), secret: Secret::new(secret) };
        settings.keys = gateway_keys.iter().map(key).collect();
    });
    let gate = plan.store(folder.store()).objects(folder.objects()).gate(&mock.url()).await;
    for (_, secret) in gateway_keys {
        for name in [&[("session-id", "talk-about-trilobites")][..], &[]] {
            let mut talk = Talk::about(Dialect::Chat, TASK).header("x-epitome-key", secret);
            for (header, value) in name {
                talk = talk.header(header, value);
            }
            go_on(&gate, &mut talk, 30).await;
            let mut kept = kept().header("x-epitome-key", secret);
            chain(&gate, &mut kept, 2).await;
        }
    }
    gate.stop().await;
    let looker = engine(&folder, keys(&[("one", '1')])).await;
    let mut names: Vec<Vec<String>> = Vec::new();
    for (tenant, _) in gateway_keys {
        let tenant: TenantId = tenant.parse().unwrap();
        let store = looker.log().store();
        let documents = store.all_documents(&tenant, None, 10_000).await.unwrap();
        let threads = store.threads(&tenant, None, 100).await.unwrap();
        let documents = documents.iter().filter(|(key, _)| key.name.contains('~')).map(|(key, _)| key.name.clone());
        let threads = threads.iter().flat_map(|row| [row.scope.clone(), row.counter.clone()]);
        names.push(documents.chain(threads).collect());
    }
    let [acme, bolt] = &names[..] else { panic!("{names:?}") };
    assert!(acme.len() > 10 && bolt.len() > 10, "{names:?}");
    assert!(acme.iter().all(|name| !bolt.contains(name)), "{names:?}");
}
