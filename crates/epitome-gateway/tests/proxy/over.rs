//! Over budget: a long thread of tool calls goes on for ever, lawful, with a prompt that only grows between compactions.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use epitome::wire::Dialect;
use epitome_mock::{CacheRules, MockWork};
use epitome_runtime::engine::Background;
use epitome_runtime::model::{Hear, Model, ModelAnswer, ModelError, ModelPrompt, Scripted};
use epitome_runtime::summarize::{ModelSummarizer, Summarizer};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::talk::{DIALECTS, Talk};
use crate::world::{Got, Plan, SOON, World};

const WINDOW: u64 = 12_000;
const BUDGET: u64 = 8_000;
const TURNS: u64 = 60;

fn plan() -> Plan {
    Plan::new().window(WINDOW).budget(BUDGET).mock(|mock| {
        mock.work = MockWork { turns: TURNS, bytes: 1_500, ..MockWork::default() };
        mock.cache = CacheRules { tokens_min: 256, ..CacheRules::default() };
    })
}

/// A turn: what was sent, and what came of it.
struct Turn {
    body: String,
    got: Got,
    usage: epitome_runtime::model::Usage,
    /// How many messages the client sent.
    sent: usize,
}

/// Works the mock's job off, with tools, to its end.
async fn worked_off(world: &World, talk: &mut Talk) -> Vec<Turn> {
    let mut turns = Vec::new();
    loop {
        let got = talk.send(&world.gate).await.fine();
        let answer = talk.read(&got);
        turns.push(Turn { body: talk.body(), got, usage: answer.usage.unwrap(), sent: talk.messages.len() });
        assert!(turns.len() <= TURNS as usize + 1, "it never ends");
        if answer.calls.is_empty() {
            assert!(answer.text.contains("WORK DONE"), "{}", answer.text);
            return turns;
        }
        talk.takes(&answer, 300);
    }
}

/// The call that a result belongs to, wherever the dialect has its id.
fn call_id(item: Option<&String>) -> Option<String> {
    let item: Value = serde_json::from_str(item?).unwrap();
    let places = ["/tool_call_id", "/call_id", "/content/0/tool_use_id"];
    places.iter().find_map(|place| item.pointer(place)?.as_str()).map(str::to_owned)
}

/// The messages of a request, as they are written.
fn items(body: &[u8], list: &str) -> Vec<String> {
    let fields: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
        serde_json::from_slice(body).unwrap();
    let items: Vec<Box<serde_json::value::RawValue>> = serde_json::from_str(fields[list].get()).unwrap();
    items.iter().map(|item| item.get().to_owned()).collect()
}

async fn a_long_thread(dialect: Dialect, stream: bool) {
    let world = plan().start().await;
    let mut talk = Talk::new(dialect).streaming(stream);
    let turns = worked_off(&world, &mut talk).await;
    world.assert_lawful();
    assert_eq!(turns.len() as u64, TURNS + 1);
    assert_eq!(world.mock.account("sk-test").overflowed, 0, "it never came near the window");
    let upstream = world.mock.requests();
    assert_eq!(upstream.len(), turns.len(), "one request each");

    // One thread, and a handful of plans.
    let (thread, _) = turns[0].got.placed();
    for (at, turn) in turns.iter().enumerate() {
        let relation = if at == 0 { "new" } else { "continue" };
        assert_eq!(turn.got.placed(), (thread.clone(), relation.to_owned()), "turn {at}");
        assert_eq!(turn.got.told("failed-open"), None, "turn {at}");
        assert_eq!(turn.got.told("retries"), None, "turn {at}");
    }
    let changes = turns.windows(2).filter(|pair| pair[0].got.plan() != pair[1].got.plan()).count();
    assert!((3..=15).contains(&changes), "{changes} compactions in {TURNS} turns");

    for (at, pair) in turns.windows(2).enumerate() {
        let (before, now) = (&upstream[at].body, &upstream[at + 1].body);
        let open = before.strip_suffix(b"]}").expect("the messages stand last");
        if pair[0].got.plan() == pair[1].got.plan() {
            assert!(now.starts_with(open), "turn {}: the prefix changed under one plan", at + 1);
            assert!(now.len() > before.len());
            assert_eq!(pair[1].got.told("cache"), Some("kept"), "turn {}", at + 1);
            assert!(pair[1].usage.cached >= pair[0].usage.cached, "turn {}: the cache was lost", at + 1);
        } else {
            assert_eq!(pair[1].got.told("cache"), Some("rewritten"), "turn {}", at + 1);
            assert!(pair[1].got.told("receipt").is_some(), "turn {}", at + 1);
        }
    }
    for (turn, sent) in turns.iter().zip(&upstream) {
        // What was kept is the client's own bytes; the rest is ours and is little.
        let (theirs, kept) = (items(turn.body.as_bytes(), talk.list()), items(&sent.body, talk.list()));
        let written = kept.iter().filter(|item| !theirs.contains(item)).count();
        match turn.got.plan() {
            0 => assert_eq!(sent.body, turn.body),
            _ => {
                assert!(written > 0 && written < kept.len(), "{written} of {}", kept.len());
                let is_new = turn.got.told("cache") == Some("rewritten");
                let bytes = |items: &[String]| items.last().map_or(0, String::len);
                assert!(!is_new || bytes(&kept) * 2 > bytes(&theirs), "most of the newest result is there");
                assert_eq!(call_id(kept.last()), call_id(theirs.last()), "the newest result is there");
                assert!(sent.body.len() < turn.body.len());
            }
        }
        assert!(sent.prompt_tokens.unwrap() <= BUDGET, "{} tokens", sent.prompt_tokens.unwrap());
        let head = |body: &[u8]| {
            String::from_utf8_lossy(&body[..body.windows(4).position(|at| at == b"\":[{").unwrap()]).into_owned()
        };
        assert_eq!(head(&sent.body), head(turn.body.as_bytes()), "what stands before the messages stays");
        if let Some(after) = turn.got.told("tokens-after") {
            let (after, truth) = (after.parse::<f64>().unwrap(), sent.prompt_tokens.unwrap() as f64);
            // A provider adds words of its own to tools.
            assert!((after - truth).abs() <= truth * 0.3 + 600.0, "told {after}, the provider counts {truth}");
        }
    }
    // What the client was told of usage is what the provider billed.
    let sum = |of: fn(&Turn) -> u64| turns.iter().map(of).sum::<u64>();
    let account = world.mock.account("sk-test");
    assert_eq!(sum(|turn| turn.usage.input), account.input_tokens);
    assert_eq!(sum(|turn| turn.usage.cached), account.cache_read_tokens);
    assert_eq!(sum(|turn| turn.usage.output), account.output_tokens);
    if dialect != Dialect::Anthropic {
        assert!(account.cache_read_tokens * 2 > account.input_tokens, "most of it comes from the cache: {account:?}");
    }
    // Everything that came is in the log, as it came.
    let newest = turns.last().unwrap();
    let system = usize::from(dialect == Dialect::Chat);
    let logged = world.gate.logged(&thread, 1).await;
    let first: Value = serde_json::from_str(&talk.messages[system]).unwrap();
    assert_eq!(logged[0], first);
    crate::identity::settled(&world.gate, &thread, newest.sent - system).await;
}

#[tokio::test]
async fn a_long_chat_thread_stays_lawful_cached_and_small() {
    a_long_thread(Dialect::Chat, false).await;
}

#[tokio::test]
async fn a_long_chat_thread_in_streams_stays_lawful_cached_and_small() {
    a_long_thread(Dialect::Chat, true).await;
}

#[tokio::test]
async fn a_long_responses_thread_stays_lawful_cached_and_small() {
    a_long_thread(Dialect::Responses, false).await;
}

#[tokio::test]
async fn a_long_responses_thread_in_streams_stays_lawful_cached_and_small() {
    a_long_thread(Dialect::Responses, true).await;
}

#[tokio::test]
async fn a_long_messages_thread_stays_lawful_cached_and_small() {
    a_long_thread(Dialect::Anthropic, false).await;
}

#[tokio::test]
async fn a_long_messages_thread_in_streams_stays_lawful_cached_and_small() {
    a_long_thread(Dialect::Anthropic, true).await;
}

#[tokio::test]
async fn a_compacted_prompt_still_has_the_task_and_tells_what_it_was_and_is() {
    let world = plan().start().await;
    for dialect in DIALECTS {
        let talk = Talk::new(dialect).grown(20_000);
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(got.plan(), 1);
        let sent = String::from_utf8(world.newest().body.to_vec()).unwrap();
        assert!(sent.contains("Fix the bug in parser.rs. Do not touch main.rs."), "{dialect:?}");
        assert!(sent.contains("call_49"), "{dialect:?}");
        let (before, after) = (got.told("tokens-before").unwrap(), got.told("tokens-after").unwrap());
        assert!(before.parse::<u64>().unwrap() > 15_000, "{before}");
        assert!(after.parse::<u64>().unwrap() <= BUDGET, "{after}");
    }
    world.assert_lawful();
}

#[tokio::test]
async fn the_newest_request_is_there_as_it_came() {
    let paste = format!("PASTE BEGINS {} PASTE ENDS", "one more line of what was pasted here. ".repeat(100));
    for dialect in DIALECTS {
        let world = plan().start().await;
        let mut talk = Talk::new(dialect).grown(12_000);
        talk.hears("Done.").says(&paste);
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(got.plan(), 1, "{dialect:?}");
        let kept = items(&world.newest().body, talk.list());
        assert_eq!(kept.last(), talk.messages.last(), "{dialect:?}");
    }
    // The budget is a wish and the window is a wall: what cannot be made smaller goes out.
    let world = Plan::new().window(100_000).budget(6_000).start().await;
    for dialect in DIALECTS {
        let talk = Talk::about(dialect, &paste.repeat(9));
        talk.send(&world.gate).await.fine();
        assert!(String::from_utf8_lossy(&world.newest().body).contains(&paste), "{dialect:?}");
    }
}

#[tokio::test]
async fn the_same_request_again_gets_the_same_prompt() {
    let world = plan().start().await;
    for dialect in DIALECTS {
        let talk = Talk::new(dialect).grown(16_000);
        let bodies: Vec<_> = {
            let mut bodies = Vec::new();
            for _ in 0..3 {
                talk.send(&world.gate).await.fine();
                bodies.push(world.newest().body);
            }
            bodies
        };
        assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_packed_body_over_budget_is_compacted_and_sent_plain() {
    let world = plan().start().await;
    let talk = Talk::new(Dialect::Responses).grown(16_000);
    let packed = ruzstd::encoding::compress_to_vec(talk.body().as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    let got = world.post("/v1/responses", &[("content-encoding", "zstd")], packed).await.fine();
    assert_eq!(got.plan(), 1);
    let sent = world.newest();
    assert!(!sent.headers.contains_key("content-encoding"));
    assert_eq!(sent.headers["content-length"], sent.body.len().to_string());
    assert!(sent.prompt_tokens.unwrap() <= BUDGET);
    world.assert_lawful();
}

#[tokio::test]
async fn a_request_to_count_begins_no_plan_and_counts_by_the_one_there_is() {
    for (path, dialect) in
        [("/v1/messages/count_tokens", Dialect::Anthropic), ("/v1/responses/input_tokens", Dialect::Responses)]
    {
        let world = plan().start().await;
        let talk = Talk::new(dialect).grown(16_000);
        let counted = world.post(path, &[], talk.body()).await.fine();
        assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body(), "{path}");
        assert!(counted.json()["input_tokens"].as_u64().unwrap() > 12_000, "{path}");
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(got.plan(), 1, "{path}");
        // Under a plan, what would be sent is counted.
        let counted = world.post(path, &[], talk.body()).await.fine().json()["input_tokens"].as_u64();
        assert_eq!(counted, Some(talk.read(&got).usage.unwrap().input), "{path}");
    }
}

/// A model whose summaries come when it is let go on.
#[derive(Debug)]
struct Gated {
    model: Scripted,
    gate: Semaphore,
}

const SUMMARY: &str = "model = \"slow\"\ndialect = \"chat\"\n\n[[answer]]\nfor = \"summary\"\nrepeat = true\ntext = '{\"goal\":\"Fix the bug.\",\"progress\":[{\"text\":\"files were read\",\"message\":2}]}'\n";

impl Model for Gated {
    fn id(&self) -> &str {
        self.model.id()
    }

    fn dialect(&self) -> Dialect {
        self.model.dialect()
    }

    fn answer<'s, 'p, 'h, 'w, 'a>(
        &'s self,
        prompt: &'p ModelPrompt,
        hear: &'h mut Hear<'w>,
    ) -> Pin<Box<dyn Future<Output = Result<ModelAnswer, ModelError>> + Send + 'a>>
    where
        's: 'a,
        'p: 'a,
        'h: 'a,
        'w: 'a,
        Self: 'a,
    {
        Box::pin(async move {
            let answer = self.model.answer(prompt, hear).await;
            let _open = self.gate.acquire().await.expect("it is never closed");
            answer
        })
    }
}

#[tokio::test]
async fn in_the_background_the_swap_costs_the_client_no_time() {
    let model = Arc::new(Gated { model: Scripted::parse(SUMMARY).unwrap(), gate: Semaphore::new(0) });
    let never = Duration::from_secs(3600);
    let summarizer = ModelSummarizer::new(model.clone() as Arc<dyn Model>, never);
    let world = plan()
        .summarizer(Summarizer::WithFallback(Arc::new(summarizer)))
        .engine(|engine| engine.background = Background::On { wait: never })
        .start()
        .await;
    let mut talk = Talk::new(Dialect::Chat);
    let send = async |talk: &Talk| {
        let sent = tokio::time::timeout(SOON, talk.send(&world.gate)).await;
        sent.expect("a request waits for the model").fine().plan()
    };
    let began = Instant::now();
    while model.model.asked() == 0 {
        assert!(began.elapsed() < SOON, "no summary was asked for");
        talk.works(100);
        assert_eq!(send(&talk).await, 0);
    }
    // The model thinks, and nobody waits for it.
    for _ in 0..3 {
        talk.works(100);
        assert_eq!(send(&talk).await, 0);
    }
    model.gate.add_permits(1000);
    while send(&talk).await == 0 {
        assert!(began.elapsed() < SOON * 2, "the plan was not swapped in");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.assert_lawful();
}
