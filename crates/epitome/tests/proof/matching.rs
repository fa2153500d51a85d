//! Ids tell how an incoming history relates to a known thread, whatever its bytes look like: equal prefixes are equal ids.

use epitome::thread::{Chain, MessageId, Thread};
use epitome::wire::{Dialect, Document};
use proptest::sample::select;

use crate::claims::hold;
use crate::forall::forall;
use crate::generate::{Script, Style, document, finished, plain, style};
use crate::world::{PRESETS, World};

fn ids(text: &str, dialect: Dialect) -> Vec<MessageId> {
    let mut chain = Chain::from(MessageId::ROOT);
    let document = Document::decode(text, Some(dialect)).expect("a list");
    document.messages().iter().map(|message| chain.push(message)).collect()
}

/// How many of a thread's first messages an incoming history begins with.
fn shared(thread: &Thread, incoming: &[MessageId]) -> usize {
    thread.messages().iter().zip(incoming).take_while(|(message, id)| message.id() == **id).count()
}

/// The same history with other provider ids and other cache marks.
fn sent_again(script: &Script, dialect: Dialect, style: Style) -> String {
    let text = document(script, dialect, style);
    text.replace("toolu", "callx").replace("rs_", "rq_").replace("msg_", "mtg_").replace("fc_", "fd_")
}

#[test]
fn a_history_sent_again_continues_whatever_its_spaces_key_order_marks_and_ids() {
    let values = (finished(), select(&Dialect::ALL[..]), style(), style(), 0.0..1.0);
    forall(200, &values, |(script, dialect, first, again, cut)| {
        let world = World::of(&script, dialect, first, &PRESETS[0]);
        let incoming = ids(&sent_again(&script, dialect, again), dialect);
        hold!(
            incoming.len() == world.thread.len(),
            "{dialect}: {} and {} messages",
            incoming.len(),
            world.thread.len()
        );
        let known = world.thread.fork((cut * world.thread.len() as f64) as usize);
        let shared = shared(&known, &incoming);
        hold!(shared == known.len(), "{dialect}: {shared} of {} are known, of {}", known.len(), incoming.len());
        Ok(())
    });
}

#[test]
fn a_history_that_says_something_else_forks_where_it_does() {
    let values = (finished(), select(&Dialect::ALL[..]), 0.0..1.0);
    forall(200, &values, |(script, dialect, cut)| {
        let world = World::of(&script, dialect, plain(), &PRESETS[0]);
        let mut incoming = ids(&world.text, dialect);
        let at = (cut * incoming.len() as f64) as usize;
        let other = ids(r#"[{"role":"user","content":"something else entirely"}]"#, Dialect::Chat);
        incoming.truncate(at);
        incoming.extend(&other);
        let shared = shared(&world.thread, &incoming);
        hold!(shared == at, "{dialect}: {shared} instead of {at}");
        Ok(())
    });
}

#[test]
fn a_string_and_a_list_of_one_text_are_the_same_message() {
    let cases = [
        (
            Dialect::Chat,
            r#"[{"role":"user","content":"hi"}]"#,
            r#"[{"content":[{"text":"hi","type":"text"}],"role":"user"}]"#,
        ),
        (
            Dialect::Anthropic,
            r#"[{"role":"user","content":"hi"}]"#,
            r#"[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]"#,
        ),
        (
            Dialect::Responses,
            r#"[{"role":"user","content":"hi"}]"#,
            r#"[{"type":"message","id":"msg_9","role":"user","content":[{"type":"input_text","text":"hi"}]}]"#,
        ),
        (
            Dialect::AiSdk,
            r#"[{"role":"user","content":"hi"}]"#,
            r#"[{"role":"user","content":[{"type":"text","text":"hi","providerOptions":{"a":{}}}]}]"#,
        ),
    ];
    for (dialect, plain, blocks) in cases {
        assert_eq!(ids(plain, dialect), ids(blocks, dialect), "{dialect}");
    }
}
