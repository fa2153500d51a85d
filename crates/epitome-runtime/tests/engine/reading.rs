//! Reading back: messages and their lines, words in very long lines, what a model refers to, and dialects.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epitome::wire::Dialect;
use epitome_runtime::engine::{Engine, EngineError, EngineParts};
use epitome_runtime::model::{Hear, Model, ModelAnswer, ModelError, ModelPrompt};
use epitome_runtime::summarize::{ModelSummarizer, Summarizer};

use crate::summaries::answer;
use crate::world::{engine, go_on, open, owner, raws, says, settings, thread_id, turn};

#[tokio::test]
async fn a_number_of_a_summary_that_a_thread_came_with_is_refused_and_not_another_message() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    let summary =
        "[Context Summary - Turns 1-9]\n[Summary v1.0]\n\n## Requests so far\nm2: Add tests.\nm4 $ make check";
    let came_with =
        [says("user", summary), says("assistant", "Two."), says("user", "Three."), says("assistant", "Four.")];
    thread.append(came_with).await.unwrap();
    for reference in ["m2", "m4"] {
        let refused = thread.read_message(reference, None).await.unwrap_err();
        assert!(matches!(refused, EngineError::ForeignNumber(_)), "{reference}: {refused}");
    }
    assert_eq!(thread.read_message("m3", None).await.unwrap(), "Three.");
}

#[tokio::test]
async fn any_range_of_lines_of_a_message_can_be_asked_for() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    thread.append([says("user", "one\ntwo\nthree\nfour")]).await.unwrap();
    let backwards = std::ops::RangeInclusive::new(3, 2);
    for (lines, found) in [
        (1..=4, "one\ntwo\nthree\nfour"),
        (2..=3, "two\nthree"),
        (4..=4, "four"),
        (0..=1, "one"),
        (0..=0, ""),
        (backwards, ""),
        (3..=usize::MAX, "three\nfour"),
        (0..=usize::MAX, "one\ntwo\nthree\nfour"),
        (usize::MAX..=usize::MAX, ""),
        (9..=12, ""),
    ] {
        assert_eq!(thread.read_message("m1", Some(lines.clone())).await.unwrap(), found, "{lines:?}");
    }
    for reference in ["m0", "m2", "1", "m", "m-1", "m18446744073709551615", "m99999999999999999999", ""] {
        assert!(thread.read_message(reference, None).await.is_err(), "{reference}");
    }
}

#[tokio::test]
async fn a_thread_is_opened_in_its_own_dialect_alone() {
    let engine = engine().await;
    open(&engine).await.append([says("user", "hello")]).await.unwrap();
    for dialect in Dialect::ALL {
        let opened = engine.open(&owner(), thread_id("t1"), dialect).await;
        match dialect {
            Dialect::Chat => assert_eq!(raws(&engine, &opened.unwrap()).await.len(), 1),
            _ => assert!(matches!(opened.unwrap_err(), EngineError::Dialect(..)), "{dialect:?}"),
        }
    }
}

#[tokio::test]
async fn recall_in_a_very_long_line_shows_the_part_with_the_word() {
    let engine = engine().await;
    let mut thread = open(&engine).await;
    let (before, after) = ("é y z ".repeat(3000), "tail ".repeat(3000));
    thread.append([says("user", &format!("{before}needle {after}")), says("assistant", "ok")]).await.unwrap();
    go_on(&mut thread, 0..10).await;
    for words in ["needle", "Needle", "the NEEDLE please"] {
        let found = thread.recall(words).await.unwrap();
        assert!(found.hits.iter().any(|hit| hit.text.contains("needle")), "{words}: {}", found.render());
        assert!(found.tokens <= engine.settings().recall_tokens);
    }
    for nothing in ["", "?!", "𝒳", &"word ".repeat(10_000)] {
        assert!(thread.recall(nothing).await.unwrap().hits.is_empty());
    }
}

/// A model that cites the last request it is shown by the number it is shown with.
#[derive(Debug, Default)]
struct Citing(Mutex<Vec<usize>>);

impl Citing {
    /// The number of the request, and what it is shown as.
    fn cited(prompt: &ModelPrompt) -> (usize, String) {
        let text = prompt.messages.last().unwrap().replace("\\n", "\n");
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().rposition(|line| line.starts_with("Request ")).expect("a request is shown");
        let request = lines[at].trim_start_matches("Request ").split(':').next().unwrap().parse().unwrap();
        let above = lines[at - 1].split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
        (request, above.expect("its number stands above it").to_owned())
    }
}

#[async_trait]
impl Model for Citing {
    fn id(&self) -> &'static str {
        "scripted-1"
    }

    fn dialect(&self) -> Dialect {
        Dialect::Chat
    }

    async fn answer(&self, prompt: &ModelPrompt, hear: &mut Hear<'_>) -> Result<ModelAnswer, ModelError> {
        let (request, number) = Citing::cited(prompt);
        self.0.lock().unwrap().push(request);
        let said = format!(
            r#"{{"goal":"Keep order.","progress":[{{"text":"cited request {request}","message":"m{number}"}}]}}"#
        );
        answer(&format!("text = '''{said}'''")).answer(prompt, hear).await
    }
}

/// What is said of which place, at any depth.
fn facts(value: &serde_json::Value, found: &mut Vec<(String, u64)>) {
    match value {
        serde_json::Value::Object(fields) => {
            if let (Some(text), Some(place)) = (fields.get("text"), fields.get("place"))
                && let (Some(text), Some(place)) = (text.as_str(), place.as_u64())
            {
                found.push((text.to_owned(), place));
            }
            fields.values().for_each(|field| facts(field, found));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| facts(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn what_a_model_refers_to_is_a_place_in_the_log_also_after_messages_left_memory() {
    let model = Arc::new(Citing::default());
    let asks = ModelSummarizer::new(model.clone() as Arc<dyn Model>, Duration::from_secs(5));
    let summarizer = Summarizer::WithFallback(Arc::new(asks));
    let engine = Engine::new(EngineParts { summarizer, ..EngineParts::in_memory(settings()) }).await.unwrap();
    let mut thread = open(&engine).await;
    go_on(&mut thread, 0..14).await;
    assert!(thread.row().version > 2 && thread.thread().len() < 14 * 4, "messages left memory");
    // Each round's model takes the place of the one before: its words are in its own plan.
    let mut found = Vec::new();
    for version in 1..=thread.row().version {
        let (_, plan) = engine.log().plan(thread.key(), Some(version)).await.unwrap().unwrap();
        facts(&serde_json::to_value(&plan.compaction.summaries).unwrap(), &mut found);
    }
    let cited = model.0.lock().unwrap().clone();
    assert!(cited.len() > 2);
    for request in cited {
        let text = format!("cited request {request}");
        // Its number stands behind it.
        let cites = |said: &str| said.strip_prefix(&text).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("));
        let places: Vec<u64> = found.iter().filter(|(said, _)| cites(said)).map(|(_, place)| *place).collect();
        assert!(!places.is_empty(), "{text} is in the summary: {found:?}");
        for place in places {
            assert_eq!(place, 4 * request as u64, "{text}");
            let read = thread.read_message(&format!("m{}", place + 1), None).await.unwrap();
            assert!(turn(request)[0].contains(&read), "{read}");
        }
    }
}
