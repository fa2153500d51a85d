//! Isolation: a prompt holds what its own caller, user and conversation said, and nothing of anybody else's, whatever words
//! they have in common, in whatever order they come, and whoever names whose ids.

use std::sync::Arc;

use epitome::wire::Dialect;
use epitome_gateway::settings::{ApiKey, Switch};
use epitome_mock::{MockServer, MockWork};
use epitome_runtime::engine::{Engine, EngineParts};
use epitome_runtime::ids::TenantId;
use epitome_runtime::log::NewDocument;
use epitome_runtime::model::Secret;
use epitome_runtime::store::{DocumentKind, MemoryStore, Store};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::talk::{DIALECTS, Talk};
use crate::wire::{Line, Then};
use crate::world::{Gate, Got, Plan, World};

fn plan() -> Plan {
    Plan::new().window(12_000).budget(8_000)
}

const PIN: &str = "USER1-PRIVATE: the IBAN is DE02 1203 0000.";

/// A talk as two people may have it word for word.
fn same_words(dialect: Dialect) -> Talk {
    let mut talk = Talk::about(dialect, "Hi");
    talk.hears("Hello. What can I do for you?").says("I have a question.");
    talk
}

fn is_in_newest(mock: &MockServer, words: &str) -> bool {
    String::from_utf8_lossy(&mock.requests().pop().unwrap().body).contains(words)
}

#[tokio::test]
async fn a_pin_of_one_request_is_in_no_other_that_says_the_same() {
    for dialect in DIALECTS {
        let world = plan().start().await;
        let one = same_words(dialect).grown(12_000);
        let got = one.send_with(&world.gate, &[("x-epitome-pin", PIN)]).await.fine();
        assert_eq!((got.plan() > 0, got.told("pins")), (true, Some("this-request")));
        assert!(is_in_newest(&world.mock, PIN), "{dialect:?}: it holds for the request that brings it");
        // The same, what goes on from it, and what leaves it.
        let again = one.clone();
        let mut more = one.clone();
        more.works(300);
        let mut other = one.clone();
        other.hears("So.").says("And now?");
        for talk in [again, more, other] {
            let got = talk.send(&world.gate).await.fine();
            assert_eq!(got.told("pins"), None);
            assert!(got.plan() > 0 && !is_in_newest(&world.mock, PIN), "{dialect:?}");
        }
        let got = one.send_with(&world.gate, &[("x-epitome-pin", "Another pin.")]).await.fine();
        assert!(got.plan() > 0 && is_in_newest(&world.mock, "Another pin.") && !is_in_newest(&world.mock, PIN));
    }
}

/// Ways in which two requests of one key are two people's or two conversations'.
fn parties(dialect: Dialect) -> Vec<(&'static str, Talk, Talk)> {
    let talk = || same_words(dialect);
    let named = |name: &'static str| ["alice", "bob"].map(|value| talk().header(name, value));
    let field = |name: &'static str| ["alice", "bob"].map(|value| talk().field(name, json!(value)));
    let metadata = |template: &'static str| {
        ["alice", "bob"].map(|who| talk().field("metadata", json!({"user_id": template.replace("WHO", who)})))
    };
    let both = |[one, two]: [Talk; 2]| (one, two);
    let mut all = vec![("a conversation", both(named("x-epitome-thread"))), ("a session", both(named("x-session-id")))];
    match dialect {
        Dialect::Anthropic => {
            all.push(("a user", both(metadata("WHO"))));
            all.push(("an account of Claude Code", both(metadata("user_WHO_account_1_session_s-1"))));
            let json = r#"{"account_uuid":"WHO","session_id":"s-1"}"#;
            all.push(("an account of a newer one", both(metadata(json))));
        }
        _ => {
            all.push(("a user", both(field("user"))));
            all.push(("a safety identifier", both(field("safety_identifier"))));
            let [one, two] = field("user").map(|talk| talk.header("x-session-id", "both"));
            all.push(("a user in one conversation", (one, two)));
        }
    }
    all.into_iter().map(|(what, (one, two))| (what, one, two)).collect()
}

#[tokio::test]
async fn pins_of_one_user_or_conversation_last_and_are_never_anothers() {
    for dialect in DIALECTS {
        for (what, alice, bob) in parties(dialect) {
            let world = plan().start().await;
            let alice = alice.grown(2_000);
            let got = alice.send_with(&world.gate, &[("x-epitome-pin", PIN)]).await.fine();
            assert_eq!(got.told("pins"), Some("kept"), "{dialect:?}, {what}");
            let alice = alice.grown(12_000);
            assert!(alice.send(&world.gate).await.fine().plan() > 0);
            assert!(is_in_newest(&world.mock, PIN), "{dialect:?}, {what}: it lasts");
            let bob = bob.grown(14_000);
            let got = bob.send(&world.gate).await.fine();
            assert_eq!(got.placed().1, "new", "{dialect:?}, {what}");
            assert!(got.plan() > 0 && !is_in_newest(&world.mock, PIN), "{dialect:?}, {what}");
        }
    }
}

#[tokio::test]
async fn the_key_of_a_cache_says_nothing_of_whose_a_pin_is() {
    let world = plan().start().await;
    let talk = same_words(Dialect::Chat).field("prompt_cache_key", json!("my-app")).grown(12_000);
    let got = talk.send_with(&world.gate, &[("x-epitome-pin", PIN)]).await.fine();
    assert_eq!((got.plan() > 0, got.told("pins")), (true, Some("this-request")));
    assert!(talk.send(&world.gate).await.fine().plan() > 0 && !is_in_newest(&world.mock, PIN));
}

/// Earlier versions kept pins for threads that name neither a conversation nor a user: their plans may hold another's words.
#[tokio::test]
async fn a_thread_of_nobody_in_particular_that_has_pins_of_an_earlier_version_is_left_alone() {
    for (name, goes_on) in [(None, false), (Some("alice"), true)] {
        let (store, mock): (Arc<dyn Store>, _) =
            (Arc::new(MemoryStore::new()), MockServer::start(Default::default()).unwrap());
        let url = mock.url();
        let serve = || plan().store(store.clone()).gate(&url);
        let mut talk = same_words(Dialect::Chat).grown(2_000);
        talk = name.into_iter().fold(talk, |talk, name| talk.header("x-session-id", name));
        let gate = serve().await;
        let thread = talk.send(&gate).await.fine().placed().0;
        gate.stop().await;

        let settings = epitome_runtime::engine::EngineSettings::default();
        let engine =
            Engine::new(EngineParts { store: store.clone(), ..EngineParts::in_memory(settings) }).await.unwrap();
        let pins = engine.log().put_document(NewDocument::new(&TenantId::local(), DocumentKind::Pins, &thread, &[PIN]));
        engine.log().apply(&[pins]).await.unwrap();

        let gate = serve().await;
        let got = talk.grown(12_000).send(&gate).await.fine();
        assert!(got.plan() > 0, "{name:?}");
        assert_eq!((got.placed().0 == thread, is_in_newest(&mock, PIN)), (goes_on, goes_on), "{name:?}");
        gate.stop().await;
    }
}

#[tokio::test]
async fn an_answer_is_gone_on_from_by_whoever_got_it_and_nobody_else() {
    const WORDS: &str = "The password of the vault is swordfish-4711.";
    let key = |talk: Talk, key: &str| talk.header("x-api-key", key);
    let alice = || Talk::new(Dialect::Responses);
    for (what, mut first, stranger) in [
        ("another key", key(alice(), "sk-alice"), key(alice(), "sk-bob")),
        ("another user", alice().field("user", json!("alice")), alice().field("user", json!("bob"))),
        ("another conversation", alice().header("x-session-id", "a"), alice().header("x-session-id", "b")),
    ] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let World { mock, gate } = plan().store(store.clone()).start().await;
        first.says(WORDS);
        let answer = first.read(&first.send(&gate).await.fine());
        let id = answer.id.unwrap();
        let goes_on = |mut talk: Talk| {
            talk.messages.clear();
            talk.says("And what was it?");
            talk.grown(12_000).field("previous_response_id", json!(id.clone()))
        };
        let owner = first.clone();
        let mut gate = gate;
        for is_after_restart in [false, true] {
            stranger_gets_nothing(&gate, &mock, goes_on(stranger.clone()), WORDS, what).await;
            let got = goes_on(owner.clone()).send(&gate).await.fine();
            assert!(got.plan() > 0, "{what}, after a restart: {is_after_restart}: {got:?}");
            assert!(is_in_newest(&mock, "swordfish"), "{what}: whoever got it goes on from it");
            if !is_after_restart {
                gate.stop().await;
                gate = plan().store(store.clone()).gate(&mock.url()).await;
            }
        }
    }
}

async fn stranger_gets_nothing(gate: &Gate, mock: &MockServer, talk: Talk, words: &str, what: &str) {
    let before = mock.requests().len();
    let got = talk.send(gate).await;
    for sent in &mock.requests()[before..] {
        let sent = String::from_utf8_lossy(&sent.body).into_owned();
        assert!(!sent.contains(words) && !sent.contains("swordfish"), "{what}: {sent}");
    }
    assert_eq!(got.plan(), 0, "{what}");
}

/// What a provider says whose model reads this artifact.
fn reads_artifact(id: &str) -> String {
    let call = json!({"id": "call_r", "type": "function",
        "function": {"name": "read_artifact", "arguments": json!({"id": id}).to_string()}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let body = json!({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).to_string();
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close", body.len());
    format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")
}

#[tokio::test]
async fn an_artifact_is_read_by_the_conversation_that_it_left_and_by_no_other() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let objects: Arc<dyn object_store::ObjectStore> = Arc::new(object_store::memory::InMemory::new());
    let plan = || Plan::new().budget(14_000).with_tools().store(store.clone()).objects(objects.clone());
    let mut alice = Talk::new(Dialect::Chat).header("x-api-key", "sk-alice").header("x-epitome-policy", "ladder");
    alice.works(10_500);
    let mut alice = alice.grown(4_000);
    let World { mock: _mock, gate } = plan().start().await;
    let (thread, _) = alice.send(&gate).await.fine().placed();
    let listed = gate.ask(&format!("/api/threads/{thread}/artifacts")).await;
    let id = listed["artifacts"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    gate.stop().await;
    let bob = Talk::about(Dialect::Chat, &format!("What is in {id}?")).header("x-api-key", "sk-bob");
    alice.hears("Read.").says(&format!("What is in {id}?"));
    for (talk, is_hers) in [(alice, true), (bob, false)] {
        let line = Line::saying(reads_artifact(&id), Then::Close).await;
        let gate = plan().gate(&line.url()).await;
        talk.send(&gate).await;
        let heard = line.heard();
        let answered = heard[1].rfind("call_r").map(|at| &heard[1][at..]).unwrap_or_default();
        assert_eq!(answered.contains("of file 0"), is_hers, "{answered:.600}");
        assert_eq!(answered.contains("There is no artifact"), !is_hers, "{answered:.600}");
    }
}

/// One of those who use the gateway.
#[derive(Clone, Copy, Debug)]
struct Person {
    tenant: &'static str,
    key: &'static str,
    conversation: Option<&'static str>,
    user: Option<&'static str>,
}

const fn person(
    tenant: &'static str,
    key: &'static str,
    conversation: Option<&'static str>,
    user: Option<&'static str>,
) -> Person {
    Person { tenant, key, conversation, user }
}

/// The first two cannot be told apart but by what they say.
const PEOPLE: [Person; 9] = [
    person("acme", "sk-1", None, None),
    person("acme", "sk-1", None, None),
    person("acme", "sk-1", None, Some("u1")),
    person("acme", "sk-1", None, Some("u2")),
    person("acme", "sk-1", Some("n1"), None),
    person("acme", "sk-1", Some("n2"), None),
    person("acme", "sk-1", Some("n1"), Some("u1")),
    person("acme", "sk-2", None, None),
    person("bolt", "sk-1", None, None),
];

/// What somebody does next.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Says something of their own.
    Says,
    /// The same, with a pin.
    Pins,
    /// Sends what they sent before.
    Again,
    /// Goes back by some messages, and says something else.
    Rewinds(usize),
    /// Begins as everybody does.
    Begins,
    /// Names what belongs to another: an answer's id, and an artifact's.
    Steals(usize),
    /// Two people send at once.
    Together(usize),
    /// The gateway is started anew.
    Restart,
}

fn deeds() -> impl Strategy<Value = Vec<(usize, Deed)>> {
    let deed = prop_oneof![
        8 => Just(Deed::Says),
        4 => Just(Deed::Pins),
        2 => Just(Deed::Again),
        2 => (1..5usize).prop_map(Deed::Rewinds),
        1 => Just(Deed::Begins),
        2 => (0..PEOPLE.len()).prop_map(Deed::Steals),
        3 => (0..PEOPLE.len()).prop_map(Deed::Together),
        1 => Just(Deed::Restart),
    ];
    // The two who look alike are met more often.
    let who = prop_oneof![2 => 0..2usize, 1 => 0..PEOPLE.len()];
    proptest::collection::vec((who, deed), 20..40)
}

/// What somebody says, so that it is known to be theirs wherever it turns up.
fn secret(who: usize, number: usize) -> String {
    format!("secret{who}x{number}x")
}

/// Everybody, and the gateway that they use.
struct Town {
    gate: Option<Gate>,
    mock: MockServer,
    store: Arc<dyn Store>,
    objects: Arc<dyn object_store::ObjectStore>,
    talks: Vec<Talk>,
    /// The id of each one's last answer.
    answers: Vec<Option<String>>,
    said: usize,
    seen: usize,
}

impl Town {
    fn plan(&self) -> Plan {
        town_plan().store(self.store.clone()).objects(self.objects.clone())
    }

    async fn of(dialect: Dialect) -> Town {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let objects: Arc<dyn object_store::ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        let World { mock, gate } = town_plan().store(store.clone()).objects(objects.clone()).start().await;
        let talks = (0..PEOPLE.len()).map(|who| opening(dialect, who)).collect();
        let answers = vec![None; PEOPLE.len()];
        Town { gate: Some(gate), mock, store, objects, talks, answers, said: 0, seen: 0 }
    }

    fn gate(&self) -> &Gate {
        self.gate.as_ref().unwrap()
    }

    /// Says something that is theirs, long enough to be compacted before long. Searches find it.
    fn speak(&mut self, who: usize) {
        self.said += 1;
        let own = secret(who, self.said);
        let words: String = (0..60).map(|line| format!("step {line} line {line} of the build. ")).collect();
        self.talks[who].says(&format!("{own} {words}"));
    }

    fn headers(&mut self, who: usize, pins: bool) -> Vec<(&'static str, String)> {
        self.said += usize::from(pins);
        pins.then(|| ("x-epitome-pin", format!("Never forget {}.", secret(who, self.said)))).into_iter().collect()
    }

    /// Takes an answer in, so that the history goes on from it.
    fn take(&mut self, who: usize, got: &Got) {
        if got.status == 200 {
            let answer = self.talks[who].read(got);
            self.answers[who] = answer.id.clone();
            self.talks[who].takes(&answer, 200);
        }
    }

    async fn send(&mut self, who: usize, pins: bool) {
        let headers = self.headers(who, pins);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let got = self.talks[who].send_with(self.gate(), &headers).await;
        self.take(who, &got);
    }

    async fn act(&mut self, who: usize, deed: Deed) {
        match deed {
            Deed::Says | Deed::Pins => {
                self.speak(who);
                self.send(who, matches!(deed, Deed::Pins)).await;
            }
            Deed::Again => {
                self.talks[who].send(self.gate()).await;
            }
            Deed::Rewinds(messages) => {
                let talk = &mut self.talks[who];
                let first = opening(talk.dialect, who).messages.len();
                let left = talk.messages.len().saturating_sub(messages).max(first);
                talk.messages.truncate(left);
                self.speak(who);
                self.send(who, false).await;
            }
            Deed::Begins => {
                self.talks[who] = opening(self.talks[who].dialect, who);
                self.send(who, false).await;
            }
            Deed::Steals(other) => self.steal(who, other).await,
            Deed::Together(other) => self.together(who, other).await,
            Deed::Restart => {
                self.gate.take().unwrap().stop().await;
                self.gate = Some(self.plan().gate(&self.mock.url()).await);
            }
        }
    }

    async fn steal(&mut self, who: usize, other: usize) {
        let [thief, owner] = [PEOPLE[who], PEOPLE[other]].map(|one| (one.tenant, one.key, one.conversation, one.user));
        if thief == owner {
            return;
        }
        let named =
            |text: &str| text.match_indices("artifact:").last().map(|(at, _)| text[at..].chars().take(40).collect());
        let sent = self.mock.requests();
        let theirs = sent.iter().rev().filter(|sent| is_of(sent, other));
        let artifact: Option<String> = theirs.filter_map(|sent| named(&String::from_utf8_lossy(&sent.body))).next();
        self.speak(who);
        let mut talk = self.talks[who].clone();
        talk.says(&format!("What is in {}?", artifact.unwrap_or_default()));
        if let (Dialect::Responses, Some(id)) = (talk.dialect, &self.answers[other]) {
            let newest = talk.messages.split_off(talk.messages.len() - 2);
            talk.messages = newest;
            talk = talk.field("previous_response_id", json!(id)).grown(8_000);
        }
        talk.send(self.gate()).await;
    }

    async fn together(&mut self, who: usize, other: usize) {
        if who == other {
            return;
        }
        let before = self.talks[other].clone();
        self.speak(who);
        let headers = self.headers(who, true);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (got, _) = tokio::join!(self.talks[who].send_with(self.gate(), &headers), before.send(self.gate()));
        self.take(who, &got);
    }

    /// What is in somebody's prompt that another said.
    fn leak(&mut self) -> Option<String> {
        let sent = self.mock.requests();
        let new = &sent[self.seen.min(sent.len())..];
        self.seen = sent.len();
        new.iter().find_map(|sent| {
            let who = (0..PEOPLE.len()).find(|who| is_of(sent, *who))?;
            let body = String::from_utf8_lossy(&sent.body);
            let others = (0..PEOPLE.len()).filter(|other| *other != who);
            let found = others.into_iter().find(|other| body.contains(&format!("secret{other}x")))?;
            Some(format!("person {who} was sent what person {found} said: {body}"))
        })
    }
}

fn town_plan() -> Plan {
    let keys = ["acme", "bolt"].map(|tenant| {
        let secret = Secret::new(&format!("ek-{tenant}"));
        ApiKey { tenant: tenant.parse().unwrap(), secret }
    });
    let work = MockWork { turns: 10_000, bytes: 1_500, gateway_tools: true, ..MockWork::default() };
    Plan::new().window(9_000).budget(4_000).mock(|mock| mock.work = work).settings(|settings| {
        settings.keys = keys.into();
        settings.serve.tools = Switch::On;
    })
}

/// How everybody begins: in the same words.
fn opening(dialect: Dialect, who: usize) -> Talk {
    let Person { tenant, key, conversation, user } = PEOPLE[who];
    let mut talk = Talk::about(dialect, "Hi");
    talk.hears("Hello.").says("Let us begin.");
    talk = talk.header("x-person", &who.to_string()).header("x-epitome-key", &format!("ek-{tenant}"));
    talk = talk.header("x-api-key", key);
    if let Some(conversation) = conversation {
        talk = talk.header("x-session-id", conversation);
    }
    match (user, dialect) {
        (Some(user), Dialect::Anthropic) => talk.field("metadata", json!({"user_id": user})),
        (Some(user), _) => talk.field("user", json!(user)),
        (None, _) => talk,
    }
}

fn is_of(sent: &epitome_mock::RecordedRequest, who: usize) -> bool {
    sent.headers.get("x-person").is_some_and(|name| name.to_str().is_ok_and(|name| name == who.to_string()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn nobodys_prompt_holds_what_another_said(dialect in select(&DIALECTS[..]), deeds in deeds()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let leak = runtime.block_on(async {
            let mut town = Town::of(dialect).await;
            for (at, (who, deed)) in deeds.iter().enumerate() {
                town.act(*who, *deed).await;
                if let Some(leak) = town.leak() {
                    return Some(format!("after {at}, {deed:?} of {who}: {leak}"));
                }
            }
            None
        });
        prop_assert!(leak.is_none(), "{}", leak.unwrap_or_default());
    }
}

#[tokio::test]
async fn the_town_that_is_looked_at_has_compactions_tools_and_pins() {
    // What is true of everybody's prompts says something only where there is something to leak.
    let mut town = Town::of(Dialect::Chat).await;
    for _ in 0..14 {
        town.act(0, Deed::Pins).await;
        town.act(1, Deed::Says).await;
    }
    assert_eq!(town.leak(), None);
    let sent = town.mock.requests();
    let bodies: Vec<String> = sent.iter().map(|sent| String::from_utf8_lossy(&sent.body).into_owned()).collect();
    assert!(bodies.iter().any(|body| body.contains("Never forget secret0x")), "pins");
    assert!(sent.len() > 28, "own tools were called: {} requests", sent.len());
    let last = bodies.iter().rev().find(|body| body.contains("secret1x")).unwrap();
    assert!(!last.contains(&secret(1, 2)) || last.len() < 40_000, "it was compacted");
}
