//! A real model with a window of 2048 tokens: a conversation that grows far past it is answered to the end, on every
//! protocol, and the server's own refusal teaches the window.

use epitome::budget::Tokens;
use epitome::wire::{Dialect, Voice, say};
use epitome_runtime::engine::{Engine, EngineParts, EngineSettings, OpenThread, StepRequest};
use epitome_runtime::ids::Moment;
use epitome_runtime::model::{Endpoint, HttpModel};

use crate::world::{owner, thread_id};

const MODEL: &str = "smollm2";

fn model(dialect: Dialect) -> HttpModel {
    let url = std::env::var("EPITOME_TEST_MODEL")
        .expect("EPITOME_TEST_MODEL says where the model is; scripts/test starts it and sets this");
    HttpModel::new(Endpoint::new(&url, dialect, MODEL)).unwrap()
}

fn long_request(at: usize) -> String {
    let facts: String = (0..26).map(|line| format!("Item {at}-{line} stands on shelf {}. ", line * 7 + at)).collect();
    format!("{facts}Answer with one word: is item {at}-3 on a shelf?")
}

async fn grows(engine: &Engine, dialect: Dialect, turns: usize) -> OpenThread {
    let model = model(dialect);
    let mut thread = engine.open(&owner(), thread_id(dialect.name()), dialect).await.unwrap();
    for at in 0..turns {
        thread.append([say(dialect, Voice::User, &long_request(at))]).await.unwrap();
        let request = StepRequest { max_output: Some(Tokens::new(4)), ..StepRequest::default() };
        let answer = thread.ask(&model, &request, at % 2 == 1, &mut |_| {}).await;
        answer.unwrap_or_else(|error| panic!("{dialect}, turn {at}: {error}"));
    }
    thread
}

/// One engine for each protocol, so that each has to learn the window by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_far_past_the_window_is_answered_to_the_end_on_every_protocol() {
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
        let settings = EngineSettings { model: Some(MODEL.into()), ..EngineSettings::default() };
        let engine = Engine::new(EngineParts::in_memory(settings)).await.unwrap();
        let thread = grows(&engine, dialect, 12).await;
        assert!(thread.row().version > 0, "{dialect}: it was compacted");
        let book = engine.lessons(&thread.key().tenant).await.unwrap();
        let lesson = book.iter().find(|lesson| lesson.model == MODEL).expect("something was learned");
        let window = lesson.window_at(Moment::now()).map(|window| window.tokens);
        assert_eq!(window, Some(Tokens::new(2048)), "{dialect}: the window is learned");
        let factor = lesson.factor.expect("usage was read back").get();
        let whole = thread.row().tokens as f64 * factor;
        assert!(whole > 2.0 * 2048.0, "{dialect}: the log has {whole} of the model's tokens");
    }
}
