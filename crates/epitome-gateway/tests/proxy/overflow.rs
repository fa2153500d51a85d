//! Overflow: every way in which a provider says that a prompt is too long, and everything that only looks like one.

use epitome::budget::Tokens;
use epitome::wire::Dialect;
use epitome_mock::{FaultKind, ProviderFault};
use epitome_runtime::engine::AutoCompaction;
use serde_json::{Value, json};

use crate::talk::{DIALECTS, Talk};
use crate::wire::{Line, Then};
use crate::world::{Plan, World, post};

const WINDOW: u64 = 8_000;

/// A provider with a small window that nobody was told of, and one way to say so.
async fn world(fault: ProviderFault) -> World {
    Plan::new().window(WINDOW).mock(|mock| mock.overflow = Some(fault)).start().await
}

fn overflows() -> impl Iterator<Item = ProviderFault> {
    ProviderFault::all().filter(|fault| fault.kind() == FaultKind::Overflow)
}

/// What a provider says in its own dialect only.
fn speaks(fault: &ProviderFault, dialect: Dialect) -> bool {
    let name = fault.name();
    match dialect {
        Dialect::Anthropic => {
            name.starts_with("anthropic") || ["vertex-nested", "llama-cpp", "litellm", "bedrock-claude"].contains(&name)
        }
        Dialect::Responses => {
            name.starts_with("responses")
                || ["openai", "azure", "llama-cpp", "openai-configured", "litellm"].contains(&name)
        }
        _ => !name.starts_with("anthropic-s") && !name.starts_with("responses"),
    }
}

/// Answers that look fine, where only their words or their numbers say that something is missing, and that a stream
/// tells too late.
const TOO_LATE_IN_A_STREAM: [&str; 5] =
    ["anthropic-stop-reason", "zai-silent", "ollama-truncates", "sglang-truncates", "lmstudio-middle"];

/// Answers that end early or are empty, which an answer may do by itself.
const UNSAID: [&str; 3] = ["anthropic-stop-reason", "zai-silent", "lmstudio-empty"];

#[tokio::test]
async fn every_shape_of_an_overflow_is_answered_with_a_smaller_prompt() {
    let mut failures = Vec::new();
    for fault in overflows().filter(|fault| !UNSAID.contains(&fault.name())) {
        for dialect in DIALECTS.into_iter().filter(|dialect| speaks(&fault, *dialect)) {
            for stream in [false, true] {
                if stream && TOO_LATE_IN_A_STREAM.contains(&fault.name()) {
                    continue;
                }
                if let Err(why) = comes_through(fault, dialect, stream).await {
                    failures.push(format!("{} {dialect:?} stream={stream}: {why}", fault.name()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn comes_through(fault: ProviderFault, dialect: Dialect, stream: bool) -> Result<(), String> {
    let world = world(fault).await;
    let mut talk = Talk::new(dialect).streaming(stream).grown(16_000);
    let got = talk.send(&world.gate).await;
    let check = |is: bool, why: &dyn Fn() -> String| if is { Ok(()) } else { Err(why()) };
    check(got.status == 200, &|| format!("{} {}", got.status, got.text()))?;
    let retries: u64 = got.told("retries").and_then(|retries| retries.parse().ok()).unwrap_or(0);
    check((1..=4).contains(&retries), &|| format!("{retries} retries"))?;
    let answer = talk.read(&got);
    check(answer.text.contains("mock provider"), &|| format!("{answer:?}"))?;
    check(world.mock.violations().is_empty(), &|| format!("{:?}", world.mock.violations()))?;
    let asked = world.mock.requests();
    check(asked.len() as u64 == retries + 1, &|| format!("{} requests for {retries} retries", asked.len()))?;
    check(asked.last().is_some_and(|sent| sent.prompt_tokens.is_some_and(|tokens| tokens <= WINDOW)), &|| {
        format!("{:?} tokens went through", asked.last().and_then(|sent| sent.prompt_tokens))
    })?;
    // The window is known by now: the next request is right at once.
    talk.hears("I see.").says("Go on.");
    let next = talk.send(&world.gate).await;
    check(next.status == 200, &|| format!("the next: {}", next.text()))?;
    check(next.told("retries").is_none(), &|| format!("the next one took {:?} retries", next.told("retries")))?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_compacted_by_itself_where_that_is_turned_off() {
    for preset in ["ladder", "opencode"] {
        for dialect in DIALECTS {
            // What is above the trigger of a window that is known; then what the provider refuses.
            for (auto, above, refused) in [
                (None, 1, true),
                (Some(AutoCompaction::On), 1, true),
                (Some(AutoCompaction::Overflow), 0, true),
                (Some(AutoCompaction::Off), 0, false),
            ] {
                let what = format!("{preset}, {dialect:?}, {auto:?}");
                let plan = |window: Option<u64>| {
                    Plan::new().window(WINDOW * 3).engine(|engine| {
                        (engine.auto, engine.window) = (auto, window.map(Tokens::new));
                    })
                };
                let named = [("x-epitome-policy", preset)];
                let world = plan(Some(WINDOW)).start().await;
                let got = Talk::new(dialect).grown(16_000).send_with(&world.gate, &named).await;
                assert_eq!((got.status, got.plan()), (200, above), "{what}: {}", got.text());
                let world = plan(None).window(WINDOW).start().await;
                let got = Talk::new(dialect).grown(16_000).send_with(&world.gate, &named).await;
                assert_eq!(got.status == 200, refused, "{what}: {}", got.text());
                assert_eq!(world.mock.requests().len() > 1, refused, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn what_only_looks_like_an_overflow_comes_back_as_it_is_after_one_request() {
    for fault in ProviderFault::all().filter(|fault| fault.kind() == FaultKind::LooksLikeOverflow) {
        for dialect in DIALECTS {
            for stream in [false, true] {
                let world = Plan::new().start().await;
                let talk = Talk::new(dialect).streaming(stream).grown(6_000);
                let headers = [("x-mock-fault", fault.name())];
                let through = talk.send_with(&world.gate, &headers).await;
                assert_eq!(world.mock.requests().len(), 1, "{fault:?} was tried again");
                assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body());
                let url = format!("{}{}", world.mock.url(), talk.path());
                let direct = post(&url, &headers, talk.body().into()).await;
                assert_eq!((through.status, through.text()), (direct.status, direct.text()), "{fault:?}");
                assert_eq!(through.headers.get("retry-after"), direct.headers.get("retry-after"), "{fault:?}");
                assert_eq!(through.told("retries"), None);
            }
        }
    }
}

#[tokio::test]
async fn when_nothing_helps_the_providers_own_first_error_comes_back() {
    for dialect in DIALECTS {
        for stream in [false, true] {
            let world = Plan::new().window(60).start().await;
            let talk = Talk::new(dialect).streaming(stream).grown(6_000);
            let got = talk.send(&world.gate).await;
            let asked = world.mock.requests();
            assert!((2..=5).contains(&asked.len()), "{} requests", asked.len());
            let direct = post(&format!("{}{}", world.mock.url(), talk.path()), &[], talk.body().into()).await;
            assert_eq!((got.status, got.text()), (direct.status, direct.text()), "{dialect:?}");
            assert_eq!(got.status, 400);
        }
    }
}

#[tokio::test]
async fn an_overflow_is_one_however_it_is_packed() {
    // {"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000
    // tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}
    let brotli = [
        0x1b, 0xba, 0x00, 0x00, 0x8c, 0xd3, 0x15, 0xf3, 0x23, 0x84, 0x75, 0x0f, 0xc2, 0x76, 0xa4, 0xbb, 0x97, 0x24,
        0xa8, 0xa8, 0x19, 0x0d, 0xb6, 0x41, 0x52, 0xda, 0xdd, 0x4a, 0xa7, 0xcf, 0x66, 0x07, 0x12, 0x50, 0x60, 0xd4,
        0xd6, 0x2e, 0xaa, 0xad, 0x2d, 0x2b, 0x7e, 0x4a, 0x1e, 0xf0, 0x5f, 0x4f, 0x16, 0x9a, 0x09, 0x06, 0x77, 0xd1,
        0x14, 0x55, 0xf8, 0x1d, 0x14, 0xf6, 0x01, 0x54, 0x6b, 0xbe, 0x68, 0x67, 0x95, 0xa8, 0xe8, 0xf2, 0x5f, 0xf8,
        0xdd, 0x53, 0x97, 0xcc, 0xe2, 0xc3, 0xaa, 0xad, 0x22, 0xdf, 0xbb, 0x70, 0x4f, 0x1d, 0x62, 0x31, 0x4d, 0x87,
        0xf4, 0x05, 0xe7, 0x32, 0x1f, 0x06, 0xd8, 0x0d, 0x93, 0xb8, 0xb0, 0xbf, 0x40, 0x69, 0xb2, 0xdb, 0xf2, 0x7b,
        0x66, 0xe8, 0x66,
    ];
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-encoding: br\r\ncontent-length: {}\r\n\r\n",
        brotli.len()
    );
    let line = Line::saying([head.as_bytes(), &brotli].concat(), Then::Close).await;
    let gate = Plan::new().gate(&line.url()).await;
    let got = Talk::new(Dialect::Chat).grown(12_000).send(&gate).await;
    assert_eq!((got.status, &got.bytes[..]), (400, &brotli[..]), "what nothing helps against comes back as it was");
    let sizes: Vec<usize> = line.heard().iter().map(String::len).collect();
    assert!(sizes.len() > 2, "{sizes:?}");
    assert!(sizes.is_sorted_by(|before, after| before > after), "{sizes:?}");
}

#[tokio::test]
async fn an_output_that_is_too_large_is_lowered_and_nothing_else() {
    let named = |name| ProviderFault::named(name).unwrap();
    for (fault, dialect, field) in [
        ("anthropic-output", Dialect::Anthropic, "max_tokens"),
        ("openai-requested", Dialect::Chat, "max_completion_tokens"),
        ("vllm", Dialect::Chat, "max_tokens"),
        ("deepseek", Dialect::Chat, "max_tokens"),
        ("openrouter", Dialect::Chat, "max_tokens"),
    ] {
        let world = world(named(fault)).await;
        let talk = Talk::new(dialect).field(field, json!(6_000)).grown(4_000);
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(got.told("retries"), Some("1"), "{fault}");
        assert_eq!(got.plan(), 0, "{fault}: nothing was compacted");
        let sent: Value = serde_json::from_slice(&world.newest().body).unwrap();
        let asked: Value = serde_json::from_str(&talk.body()).unwrap();
        let lowered = sent[field].as_u64().unwrap();
        let input = world.newest().prompt_tokens.unwrap();
        assert!((WINDOW - input - 400..=WINDOW - input).contains(&lowered), "{fault}: {input} + {lowered}");
        let without = |mut value: Value| {
            value[field] = Value::Null;
            value
        };
        assert_eq!(without(sent), without(asked), "{fault}");
        let before = String::from_utf8(world.newest().body.to_vec()).unwrap();
        assert_eq!(before.replace(&format!("\"{field}\":{lowered}"), &format!("\"{field}\":6000")), talk.body());
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_is_held_back_until_the_model_has_spoken() {
    for (fault, dialect) in [
        ("responses-failed-stream", Dialect::Responses),
        ("openrouter-mid-stream", Dialect::Chat),
        ("lmstudio-event", Dialect::Chat),
        ("llama-cpp-python", Dialect::Chat),
    ] {
        let world = world(ProviderFault::named(fault).unwrap()).await;
        let talk = Talk::new(dialect).streaming(true).grown(16_000);
        let got = talk.send(&world.gate).await.fine();
        for trace in ["exceed", "context length", "event: error", "response.failed"] {
            assert!(!got.text().contains(trace), "{fault}: {}", got.text());
        }
        assert!(talk.read(&got).text.contains("mock provider"), "{fault}");
    }
}

#[tokio::test]
async fn an_empty_stream_of_a_short_prompt_is_not_made_shorter() {
    let world = Plan::new().start().await;
    let talk = Talk::new(Dialect::Chat).streaming(true);
    let got = talk.send_with(&world.gate, &[("x-mock-fault", "llama-cpp-python")]).await;
    assert_eq!(got.status, 200);
    assert!(world.mock.requests().len() <= 4, "{} requests", world.mock.requests().len());
}

#[tokio::test]
async fn a_truncation_that_only_usage_shows_is_seen_where_there_is_time_and_learned_from() {
    for fault in ["ollama-truncates", "sglang-truncates"] {
        let world = world(ProviderFault::named(fault).unwrap()).await;
        let mut talk = Talk::new(Dialect::Chat).streaming(true).grown(16_000);
        talk.send(&world.gate).await.fine();
        // A stream was over before anybody knew; the next request knows.
        talk.hears("I see.").says("Go on.");
        for _ in 0..3 {
            // What was over is written down together with others.
            world.gate.flush().await;
            talk.send(&world.gate).await.fine();
            talk.hears("I see.").says("Go on.");
        }
        let newest = world.newest().prompt_tokens.unwrap();
        assert!(newest <= WINDOW, "{fault}: {newest} tokens are still sent into a window of {WINDOW}");
    }
}

#[tokio::test]
async fn one_odd_answer_makes_no_window_small() {
    for (fault, stream) in
        [("cerebras-empty-body", false), ("llama-cpp-python", true), ("groq", false), ("lmstudio-empty", true)]
    {
        let world = Plan::new().start().await;
        let short = Talk::new(Dialect::Chat).streaming(stream);
        world.mock.fail_next(ProviderFault::named(fault).unwrap(), 1);
        short.send(&world.gate).await;
        for task in ["Another task.", "A third one."] {
            let mut talk = Talk::about(Dialect::Chat, task).streaming(stream).grown(3_000);
            talk.says("And what of main.rs?");
            let got = talk.send(&world.gate).await.fine();
            assert_eq!(got.plan(), 0, "{fault}");
            assert_eq!(String::from_utf8_lossy(&world.newest().body), talk.body(), "{fault}");
        }
    }
}

#[tokio::test]
async fn a_window_that_was_learned_is_known_after_a_restart() {
    let folder = crate::world::Folder::new();
    let plan = || Plan::new().store(folder.store()).objects(folder.objects());
    let world = plan().window(WINDOW).start().await;
    let mut talk = Talk::new(Dialect::Chat).grown(16_000);
    let got = talk.send(&world.gate).await.fine();
    assert!(got.told("retries").is_some());
    talk.hears("I see.").says("Go on.");
    talk.send(&world.gate).await.fine();
    let World { mock, gate } = world;
    gate.stop().await;
    let gate = plan().gate(&mock.url()).await;
    let other = Talk::about(Dialect::Chat, "Another task altogether.").grown(16_000);
    let got = other.send(&gate).await.fine();
    assert_eq!(got.told("retries"), None);
}

#[tokio::test]
async fn a_provider_that_counts_less_than_we_do_is_sent_everything() {
    // The lax mock takes four bytes for a token; these are two.
    let world = Plan::new().mock(|mock| mock.lax = true).start().await;
    for round in 0..3 {
        let mut talk = Talk::about(Dialect::Chat, &format!("numbers {round}"));
        for at in 0..34 {
            let numbers: Vec<String> = (0..140).map(|n| format!("q{}", (n * 37 + at) % 97)).collect();
            talk.says(&numbers.join(" ")).hears("I see.");
        }
        talk.says("Now sum them up.");
        let got = talk.send(&world.gate).await.fine();
        assert_eq!((got.plan(), got.told("failed-open")), (0, None), "round {round}");
    }
}
