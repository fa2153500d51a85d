//! A real model: SmolLM2 on llama.cpp, with a window of 2048 tokens, started by `scripts/model-server`.

use epitome::budget::{Bpe, CountFactor, Meter, Overflow, TokenCounter, Tokens};
use epitome::thread::Raw;
use epitome::wire::{Dialect, decode_message};
use epitome_runtime::model::{HttpModel, ModelError, ModelPrompt, StreamPiece, believable_limit};

use crate::{SPOKEN, WAYS, ask, model, prompt};

/// What `scripts/model-server` starts it with.
const WINDOW: Tokens = Tokens::new(2048);

fn real(dialect: Dialect) -> HttpModel {
    let url = std::env::var("EPITOME_TEST_MODEL").expect(
        "EPITOME_TEST_MODEL is not set: this test asks a real model. scripts/test starts one and runs everything; \
         scripts/model-server starts one alone and prints the variable to set.",
    );
    model(&url, dialect)
}

fn brief(dialect: Dialect, text: &str, stream: bool) -> ModelPrompt {
    ModelPrompt { max_output: Some(Tokens::new(16)), ..prompt(dialect, text, stream) }
}

/// What we count a prompt as.
fn counted(dialect: Dialect, prompt: &ModelPrompt) -> Tokens {
    let meter = Meter::new(&Bpe::O200k as &dyn TokenCounter, dialect);
    let message = |raw: &String| meter.message(&meter.parts(&decode_message(dialect, &Raw::whole(raw.as_str()))));
    prompt.messages.iter().map(message).sum()
}

#[tokio::test]
async fn a_real_model_answers_in_every_dialect_whole_and_in_pieces() {
    for dialect in SPOKEN {
        for stream in WAYS {
            let asked = brief(dialect, "What is the capital of France? Answer in one short sentence.", stream);
            let (answer, heard) = ask(&real(dialect), &asked).await;
            let answer = answer.unwrap();
            let usage = answer.usage.expect("it tells its usage");
            assert!(!answer.text.trim().is_empty(), "{dialect}: {answer:?}");
            assert!(usage.input > 10 && (1..=16).contains(&usage.output), "{dialect}: {usage:?}");
            let told = heard.iter().map(|piece| if let StreamPiece::Text(words) = piece { words.as_str() } else { "" });
            assert_eq!(told.collect::<String>(), if stream { answer.text.as_str() } else { "" }, "{dialect}");
            let factor = CountFactor::learn(None, counted(dialect, &asked), Some(Tokens::new(usage.input)));
            assert!(factor.is_some(), "{dialect}: {usage:?}");
        }
    }
}

#[tokio::test]
async fn what_a_real_model_answered_can_be_sent_back_to_it() {
    for dialect in SPOKEN {
        let mut asked = brief(dialect, "Say hello.", true);
        let answer = ask(&real(dialect), &asked).await.0.unwrap();
        asked.messages.extend(answer.messages);
        asked.messages.extend(prompt(dialect, "Say it again.", true).messages);
        assert!(!ask(&real(dialect), &asked).await.0.unwrap().messages.is_empty(), "{dialect}");
    }
}

#[tokio::test]
async fn a_prompt_beyond_the_window_teaches_the_window() {
    for dialect in SPOKEN {
        for stream in WAYS {
            let asked = brief(dialect, &"one two three four five six seven eight ".repeat(400), stream);
            let error = ask(&real(dialect), &asked).await.0.unwrap_err();
            let ModelError::Overflow { overflow: Overflow::InputTooLong { used: Some(used), limit }, .. } = error
            else {
                panic!("{dialect}: {error:?}")
            };
            assert!(used > WINDOW && limit == Some(WINDOW), "{dialect}: {used} of {limit:?}");
            assert_eq!(believable_limit(counted(dialect, &asked), &error), Some(WINDOW));
            let factor =
                CountFactor::learn(None, counted(dialect, &asked), Some(used)).expect("it tells how it counts");
            let factor = factor.get();
            assert!((0.5..2.0).contains(&factor), "{factor}");
        }
    }
}
