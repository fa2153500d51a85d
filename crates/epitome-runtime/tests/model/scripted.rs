//! The scripted model: a small real one.

use std::time::Duration;

use epitome::budget::{Bpe, Meter, Overflow, Tokens};
use epitome::summary::{Dialogue, Finish, Progress, Reply, SummaryBrief};
use epitome::thread::{Raw, Thread};
use epitome::wire::{Dialect, Voice, decode_message, say};
use epitome_runtime::model::{Model, ModelAnswer, ModelError, ModelPrompt, ScriptError, Scripted, StreamPiece, Usage};
use serde_json::json;

use crate::{SPOKEN, ask, prompt};

fn script(text: &str) -> Scripted {
    Scripted::parse(text).unwrap()
}

fn example() -> Scripted {
    Scripted::from_file(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/scripts/weather.toml")).unwrap()
}

async fn texts(model: &Scripted, prompts: &[&str]) -> Vec<String> {
    let mut texts = Vec::new();
    for words in prompts {
        let answer = ask(model, &prompt(model.dialect(), words, false)).await.0;
        texts.push(answer.map_or_else(|error| error.to_string(), |answer| answer.text));
    }
    texts
}

#[tokio::test]
async fn answers_come_in_order_once_each_and_the_repeated_one_for_ever() {
    let model = script("[[answer]]\ntext = 'a'\n[[answer]]\ntext = 'b'\nrepeat = true\n[[answer]]\ntext = 'never'");
    assert_eq!(texts(&model, &["1", "2", "3"]).await, ["a", "b", "b"]);
    assert_eq!(model.clone().asked(), 3);
}

#[tokio::test]
async fn an_answer_waits_for_its_words_in_the_prompt() {
    let model = script("[[answer]]\nwhen = 'snow'\ntext = 'cold'\n[[answer]]\ntext = 'hm'\nrepeat = true");
    assert_eq!(texts(&model, &["sun", "snow", "snow"]).await, ["hm", "cold", "hm"]);
    let last =
        script("[[answer]]\nwhen_last = 'snow'\ntext = 'cold'\nrepeat = true\n[[answer]]\ntext = 'hm'\nrepeat = true");
    let said = |words: &str| say(Dialect::Chat, Voice::User, words);
    let earlier = ModelPrompt { messages: vec![said("snow"), said("sun")], ..ModelPrompt::default() };
    assert_eq!(ask(&last, &earlier).await.0.unwrap().text, "hm");
}

#[tokio::test]
async fn a_script_that_has_ended_says_so() {
    let error = ask(&script("[[answer]]\nwhen = 'x'"), &prompt(Dialect::Chat, "y", false)).await.0.unwrap_err();
    assert!(error.to_string().contains("no answer left") && !error.is_passing(), "{error}");
}

#[tokio::test]
async fn the_example_plays_its_turn_in_every_dialect() {
    for dialect in SPOKEN {
        let model = example().in_dialect(dialect).unwrap();
        assert_eq!((model.id(), model.dialect()), ("scripted-1", dialect));
        let mut asked = prompt(dialect, "What is the weather in Bern?", true);
        let (first, heard) = ask(&model, &asked).await;
        let first = first.unwrap();
        assert_eq!((first.finish, &*first.calls[0].arguments), (Finish::ToolCall, r#"{"city":"Bern"}"#));
        assert!(heard.contains(&StreamPiece::Call { id: "call_1".into(), name: "weather".into() }), "{heard:?}");
        asked.messages.extend(first.messages);
        asked.messages.push(result(dialect, "-3 degrees"));
        let (second, heard) = ask(&model, &asked).await;
        let second = second.unwrap();
        assert_eq!(second.text, "It is cold in Bern today, and it will snow.");
        assert_eq!(heard.len(), second.text.split(' ').count());
        let again = prompt(dialect, "thanks", false);
        let busy = ask(&model, &again).await.0.unwrap_err();
        let after = Some(Duration::from_millis(5));
        assert_eq!(busy, ModelError::Throttled { status: 529, after, message: "Overloaded".into() });
        let last = ask(&model, &again).await.0.unwrap();
        assert_eq!(last.usage, Some(Usage { input: 100, cached: 80, written: 0, output: 6 }));
    }
}

fn result(dialect: Dialect, text: &str) -> String {
    match dialect {
        Dialect::Chat => json!({"role": "tool", "tool_call_id": "call_1", "content": text}),
        Dialect::Responses => json!({"type": "function_call_output", "call_id": "call_1", "output": text}),
        _ => json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": text}]}),
    }
    .to_string()
}

#[tokio::test]
async fn a_request_for_a_summary_gets_the_summary_and_takes_no_turns_answer() {
    let mut thread = Thread::new();
    let words = "Is it cold in Bern? ".repeat(60);
    let message = decode_message(Dialect::Chat, &Raw::whole(say(Dialect::Chat, Voice::User, &words)));
    thread.append(message, &Meter::new(&Bpe::O200k, Dialect::Chat));
    let span = thread.span(0..1).unwrap();
    let brief = SummaryBrief::new(&thread, &span, "ladder@1", "scripted-1");
    for dialect in SPOKEN {
        let model = example().in_dialect(dialect).unwrap();
        for mut dialogue in [Dialogue::new(&brief), Dialogue::appended(&brief)] {
            let question = dialogue.prompt().unwrap();
            let asked = ModelPrompt {
                system: question.system.map(|system| json!(system).to_string()),
                ..prompt(dialect, &question.message, false)
            };
            let ModelAnswer { text, finish, .. } = ask(&model, &asked).await.0.unwrap();
            let progress = dialogue.answer(&Reply { text: &text, finish }, &Bpe::O200k);
            let Progress::Done(done) = progress else { panic!("{progress:?}") };
            assert_eq!(done.summary.goal.as_deref(), Some("Know the weather in Bern."));
        }
        let turn = ask(&model, &prompt(dialect, "What is the weather?", false)).await.0.unwrap();
        assert_eq!(turn.calls.len(), 1);
    }
}

#[tokio::test]
async fn a_prompt_beyond_the_window_is_refused_as_providers_do() {
    for dialect in SPOKEN {
        let model = script("window = 100\n[[answer]]\ntext = 'fine'").in_dialect(dialect).unwrap();
        let error = ask(&model, &prompt(dialect, &"one two three ".repeat(100), false)).await.0.unwrap_err();
        let ModelError::Overflow { status: 400, overflow, .. } = error else { panic!("{error:?}") };
        let Overflow::InputTooLong { used: Some(used), limit } = overflow else { panic!("{overflow:?}") };
        assert!(used > Tokens::new(300) && limit == Some(Tokens::new(100)), "{overflow:?}");
        let answer = ask(&model, &prompt(dialect, "one two three", false)).await.0.unwrap();
        assert_eq!(answer.text, "fine");
        assert!(answer.usage.is_some_and(|usage| usage.input > 3 && usage.output == 1), "{:?}", answer.usage);
    }
}

#[tokio::test]
async fn whatever_goes_wrong_with_a_provider_can_be_scripted() {
    for (mishap, words) in [
        ("{ kind = 'status', status = 401, message = 'no' }", "refuses (401): no"),
        ("{ kind = 'status', status = 500 }", "failed (500): the script says so"),
        (
            "{ kind = 'status', status = 400, body = 'prompt is too long: 9 tokens > 8 maximum' }",
            "too long for the model",
        ),
        ("{ kind = 'unreachable' }", "cannot be reached"),
        ("{ kind = 'timed-out', within_ms = 50 }", "did not finish its answer within 50ms"),
        ("{ kind = 'garbled', message = 'half' }", "cannot be read: half"),
    ] {
        let model = script(&format!("[[answer]]\ntext = 'begun and'\nerror = {mishap}"));
        let (answer, heard) = ask(&model, &prompt(Dialect::Chat, "x", true)).await;
        let error = answer.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(heard.len(), 2, "what was begun is heard");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_model_can_be_left() {
    let model = script("[[answer]]\ntext = 'late'\ndelay_ms = 60000\nrepeat = true");
    let asked = prompt(Dialect::Chat, "x", false);
    assert!(tokio::time::timeout(Duration::from_secs(59), ask(&model, &asked)).await.is_err());
    assert!(tokio::time::timeout(Duration::from_secs(61), ask(&model, &asked)).await.is_ok());
}

#[test]
fn a_wrong_script_is_told_with_its_place() {
    for (text, words) in [
        ("[[answer]]\ntxt = 'a'", "txt"),
        ("dialect = 'latin'", "`latin` is not a dialect"),
        ("dialect = 'ai-sdk'", "chat, responses or anthropic, not ai-sdk"),
        ("[[answer]]\ntext = 'a'\njson = { goal = 'b' }", "answer 1 has both text and json"),
        ("[[answer]]\nerror = { kind = 'fire' }", "fire"),
    ] {
        let error = Scripted::parse(text).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(matches!(Scripted::from_file("no/such/script.toml"), Err(ScriptError::Read { .. })));
}
