//! Media in every dialect: counted as media, kept while its request is open, named and recoverable afterwards.

#![allow(clippy::unwrap_used)]

mod files;
mod shapes;

use std::sync::Arc;

use epitome::budget::{Bpe, CountSource, Meter, Tokens};
use epitome::plan::{Compaction, Room, content_of};
use epitome::planner::{OPEN_MEDIA, PlanOptions, Planner, Verdict, open_media_shortfall};
use epitome::policy::{Policy, Preset};
use epitome::render::render;
use epitome::summary::{Fate, ItemKind};
use epitome::thread::{Part, Raw, ResultForm, Thread};
use epitome::wire::{Dialect, Document, LastExchange, Severity, check, decode_message};
use serde_json::{Value, json};

use crate::shapes::{Shape, answer, fixed_shapes, result_shapes, shapes, talk};

fn meter(dialect: Dialect) -> Meter<'static> {
    Meter::new(&Bpe::O200k, dialect)
}

fn thread(document: &Document) -> Thread {
    let mut thread = Thread::new();
    thread.extend(document.messages(), &meter(document.dialect()));
    thread
}

fn document(dialect: Dialect, messages: &[Value]) -> Document {
    Document::decode(&Value::from(messages.to_vec()).to_string(), Some(dialect)).unwrap()
}

fn act(thread: &Thread, policy: &Policy, room: Room, dialect: Dialect) -> Option<Compaction> {
    let ask = PlanOptions { force: true, ..PlanOptions::default() };
    Planner::new(thread, policy, meter(dialect), room, &ask).compact()
}

/// The messages that a compaction leaves, and that its dialect takes them.
#[track_caller]
fn sent(document: &Document, thread: &Thread, made: &Compaction, policy: &Policy, claim: &str) -> Vec<String> {
    let dialect = document.dialect();
    let prompt = render(thread, Some(made), policy, meter(dialect), &[]);
    let whole = document.encode(&prompt.marked_messages(thread));
    let broken: Vec<_> = check(dialect, &serde_json::from_str(&whole).unwrap(), LastExchange::Open)
        .into_iter()
        .filter(|v| v.rule.severity() == Severity::Error)
        .collect();
    assert!(broken.is_empty(), "{claim}: {broken:?}\n{whole:.2000}");
    prompt.to_json(thread)
}

/// A thread in which media was answered, and much was said since.
fn earlier(shape: &Shape) -> Document {
    let mut messages = shape.messages.clone();
    if messages.last().unwrap()["role"] != "assistant" && messages.last().unwrap()["type"] != "image_generation_call" {
        messages.push(answer(shape.dialect, "I have seen it."));
    }
    messages.extend(talk(shape.dialect, 20));
    messages.push(json!({"role": "user", "content": "And now?"}));
    document(shape.dialect, &messages)
}

/// A thread that ends with media nobody has answered.
fn newest(shape: &Shape) -> Document {
    let mut messages = talk(shape.dialect, 20);
    messages.extend(shape.messages.clone());
    document(shape.dialect, &messages)
}

#[test]
fn media_of_every_shape_is_read_with_its_kind_its_name_and_its_type() {
    for shape in shapes().iter().chain(&result_shapes()).chain(&fixed_shapes()) {
        let thread = thread(&document(shape.dialect, &shape.messages));
        let found: Vec<_> = thread.messages().iter().flat_map(|message| message.media()).collect();
        let [media] = &found[..] else { panic!("{}: {} media", shape.claim, found.len()) };
        assert_eq!(media.kind, shape.kind, "{}", shape.claim);
        assert_eq!(media.name.as_deref(), shape.name, "{}", shape.claim);
        assert_eq!(media.media_type.as_deref(), shape.media_type, "{}", shape.claim);
        assert!(!thread.messages().iter().any(|message| message.text().contains("AAAAAAAA")), "{}", shape.claim);
    }
}

#[test]
fn no_shape_is_counted_by_the_length_of_its_base64() {
    for shape in shapes().iter().chain(&result_shapes()).chain(&fixed_shapes()) {
        let thread = thread(&document(shape.dialect, &shape.messages));
        let total = thread.total().get();
        assert!((1..40_000).contains(&total), "{}: {total} tokens", shape.claim);
        let media = thread.messages().iter().flat_map(|message| message.media()).next().unwrap();
        assert_eq!(meter(shape.dialect).media(media).source, shape.source, "{}", shape.claim);
    }
}

#[test]
fn a_count_of_media_says_whether_it_is_exact_or_estimated() {
    let with = |block: Value| {
        let message = json!({"role": "user", "content": [{"type": "text", "text": "Look."}, block]});
        thread(&document(Dialect::Anthropic, &[message]))
    };
    let pdf = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": files::pdf()}});
    let png = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": files::png()}});
    for (block, source) in [(pdf, CountSource::Estimated), (png, CountSource::Exact)] {
        let thread = with(block);
        let media = thread.message(0).media().next().unwrap();
        assert_eq!(meter(Dialect::Anthropic).media(media).source, source);
    }
}

#[test]
fn media_that_nobody_has_answered_stays_byte_for_byte_under_every_policy_and_pressure() {
    for shape in shapes().iter().chain(&result_shapes()).chain(&fixed_shapes()).filter(|shape| !shape.is_made) {
        let document = newest(shape);
        let thread = thread(&document);
        let own = (thread.len() - shape.messages.len()..thread.len()).map(|place| thread.message(place).tokens());
        let own: Tokens = own.sum();
        for preset in Preset::ALL {
            let policy = preset.policy();
            for limit in [own.scaled(1.2) + Tokens::new(600), own.scaled(2.0) + Tokens::new(2000), Tokens::new(300)] {
                let claim = format!("{} under {} in {limit}", shape.claim, preset.name);
                let Some(made) = act(&thread, &policy, Room::exactly(limit), shape.dialect) else { continue };
                let prompt = sent(&document, &thread, &made, &policy, &claim).concat();
                for media in thread.messages().iter().flat_map(|message| message.media()) {
                    assert!(prompt.contains(media.json.as_str()), "{claim}: {:.300}", media.json.as_str());
                }
                let entries: Vec<_> =
                    made.receipt.entries.iter().filter(|entry| entry.kind == ItemKind::Media).collect();
                assert!(entries.iter().all(|entry| entry.fate == Fate::Retained) && !entries.is_empty(), "{claim}");
            }
        }
    }
}

#[test]
fn the_request_that_is_worked_on_keeps_its_media_however_long_the_work_takes() {
    for shape in shapes().iter().filter(|shape| shape.is_request()) {
        let mut messages = talk(shape.dialect, 10);
        messages.extend(shape.messages.clone());
        for call in 0..30 {
            messages.extend(shapes::call(shape.dialect, call));
        }
        let document = document(shape.dialect, &messages);
        let thread = thread(&document);
        let media = thread.messages().iter().flat_map(|message| message.media()).next().unwrap();
        let limit = meter(shape.dialect).media(media).tokens + Tokens::new(4000);
        for preset in Preset::ALL {
            let policy = preset.policy();
            let claim = format!("{} under {}", shape.claim, preset.name);
            let Some(made) = act(&thread, &policy, Room::exactly(limit), shape.dialect) else { continue };
            let prompt = sent(&document, &thread, &made, &policy, &claim).concat();
            assert!(prompt.contains(media.json.as_str()), "{claim}");
        }
    }
}

#[test]
fn media_that_was_answered_leaves_with_name_type_and_size_and_the_receipt_tells_where_it_is() {
    for shape in shapes().iter().chain(&result_shapes()).chain(&fixed_shapes()) {
        let document = earlier(shape);
        let thread = thread(&document);
        let at = thread.messages().iter().position(|message| message.media().next().is_some()).unwrap();
        let media = thread.message(at).media().next().unwrap();
        for preset in Preset::ALL {
            let policy = preset.policy();
            let claim = format!("{} under {}", shape.claim, preset.name);
            // Tight enough that the media must go, roomy enough for a summary.
            let rest = thread.total() - meter(shape.dialect).media(media).tokens;
            let limit = rest.share(0.5).max(Tokens::new(1500));
            let Some(made) = act(&thread, &policy, Room::exactly(limit), shape.dialect) else {
                panic!("{claim}: no plan")
            };
            let messages = sent(&document, &thread, &made, &policy, &claim);
            let prompt = messages.concat();
            let entry = made.receipt.entries.iter().find(|entry| entry.kind == ItemKind::Media);
            let entry = entry.unwrap_or_else(|| panic!("{claim}: the receipt does not know it"));
            assert_eq!(entry.reference, thread.reference(at), "{claim}");
            if prompt.contains(media.json.as_str()) {
                assert_eq!(entry.fate, Fate::Retained, "{claim}");
                continue;
            }
            assert_eq!(entry.fate, Fate::Recoverable, "{claim}");
            let told = media.to_string();
            assert!(json_text(&messages).contains(&told), "{claim}: `{told}` is not named in\n{prompt:.3000}");
            // It can be had back: as an artifact, or from the message that the log still has.
            for artifact in made.artifacts(&thread).iter().filter(|artifact| artifact.place == at) {
                let part = thread.message(at).parts().iter().find(|part| content_of(part) == Some(artifact.content));
                assert!(part.is_some_and(|part| part.media() == [media.clone()]), "{claim}");
                let back: Value = serde_json::from_str(artifact.content).unwrap();
                assert!(thread.message(at).raw().contains(artifact.content), "{claim}: {:.80}", back.to_string());
            }
        }
    }
}

/// All strings of some messages, unescaped.
fn json_text(messages: &[String]) -> String {
    fn strings(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => {
                out.push_str(text);
                out.push('\n');
            }
            Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
            Value::Object(fields) => fields.values().for_each(|item| strings(item, out)),
            _ => {}
        }
    }
    let mut out = String::new();
    messages.iter().for_each(|json| strings(&serde_json::from_str(json).unwrap(), &mut out));
    out
}

#[test]
fn a_second_round_still_names_what_left_in_the_first() {
    for shape in shapes() {
        let first = earlier(&shape);
        let policy = Preset::ALL[0].policy();
        let before = thread(&first);
        let media = before.messages().iter().flat_map(|message| message.media()).next().unwrap();
        let room = Room::exactly(before.total().share(0.3).max(Tokens::new(1500)));
        let made = act(&before, &policy, room, shape.dialect).unwrap();
        let mut messages: Vec<Value> = first.items().iter().map(|raw| serde_json::from_str(raw).unwrap()).collect();
        messages.push(answer(shape.dialect, "So it is."));
        messages.extend(talk(shape.dialect, 20));
        messages.push(json!({"role": "user", "content": "And now?"}));
        let grown = document(shape.dialect, &messages);
        let after = thread(&grown);
        let ask = PlanOptions { force: true, previous: Some(Arc::new(made.clone())), ..PlanOptions::default() };
        let again = Planner::new(&after, &policy, meter(shape.dialect), room, &ask).compact();
        let again = again.unwrap_or_else(|| panic!("{}: no second plan", shape.claim));
        let prompt = sent(&grown, &after, &again, &policy, shape.claim);
        let is_shown = prompt.concat().contains(media.json.as_str());
        assert!(is_shown || json_text(&prompt).contains(&media.to_string()), "{}", shape.claim);
        assert!(again.receipt.of_kind(ItemKind::Media, Fate::Lost).next().is_none(), "{}", shape.claim);
        assert!(again.receipt.entries.iter().any(|entry| entry.kind == ItemKind::Media), "{}", shape.claim);
    }
}

#[test]
fn what_a_provider_takes_as_an_object_only_is_never_made_words() {
    for shape in fixed_shapes() {
        // In the loop that is open and in one that was answered, alone among large results.
        for messages in [newest(&shape), earlier(&shape)] {
            let thread = thread(&messages);
            let fixed = |part: &&Part| matches!(part, Part::ToolResult(result) if result.form == ResultForm::Fixed);
            assert_eq!(thread.messages().iter().flat_map(|m| m.parts()).filter(fixed).count(), 1, "{}", shape.claim);
            for preset in Preset::ALL {
                let policy = preset.policy();
                let limit = Tokens::new(2500);
                let Some(made) = act(&thread, &policy, Room::exactly(limit), shape.dialect) else { continue };
                let prompt = sent(&messages, &thread, &made, &policy, shape.claim);
                for message in prompt {
                    let read = decode_message(shape.dialect, &Raw::whole(message.as_str()));
                    let results = read.parts.iter().filter_map(|part| match part {
                        Part::ToolResult(result) if &*result.call_id == shapes::FIXED_CALL => Some(result.form),
                        _ => None,
                    });
                    assert!(results.clone().all(|form| form == ResultForm::Fixed), "{}: {message:.300}", shape.claim);
                }
            }
        }
    }
}

#[test]
fn the_words_of_a_newest_result_are_shortened_and_its_media_stays() {
    for shape in result_shapes() {
        let long = (0..6000).map(|n| format!("line {n} of the log\n")).collect::<String>();
        let messages: Vec<Value> = serde_json::from_str(
            &Value::from(shape.messages.clone()).to_string().replace(shapes::RESULT_WORDS, &long.replace('\n', "\\n")),
        )
        .unwrap();
        let document = document(shape.dialect, &messages);
        let thread = thread(&document);
        let media = thread.messages().iter().flat_map(|message| message.media()).next().unwrap();
        let policy = Preset::ALL[0].policy();
        let limit = meter(shape.dialect).media(media).tokens + Tokens::new(3000);
        assert!(thread.total() > limit, "{}", shape.claim);
        let made = act(&thread, &policy, Room::exactly(limit), shape.dialect).unwrap();
        let prompt = sent(&document, &thread, &made, &policy, shape.claim).concat();
        assert!(prompt.contains(media.json.as_str()), "{}", shape.claim);
        assert!(prompt.contains("line 1 of the log") && prompt.contains("line 5999"), "{}", shape.claim);
        assert!(!prompt.contains("line 3000 of"), "{}", shape.claim);
        assert!(made.plan.shortfall.is_none(), "{}: {:?}", shape.claim, made.plan.shortfall);
    }
}

#[test]
fn an_open_request_whose_media_alone_is_above_the_limit_is_left_alone_and_says_so() {
    for shape in shapes().iter().filter(|shape| shape.is_request()) {
        let document = newest(shape);
        let thread = thread(&document);
        let media: Tokens = thread
            .messages()
            .iter()
            .flat_map(|m| m.media())
            .map(|media| meter(shape.dialect).media(media).tokens)
            .sum();
        let room = Room::exactly(media - Tokens::new(1));
        let ask = PlanOptions { force: true, ..PlanOptions::default() };
        let policy = Preset::ALL[0].policy();
        let verdict = Planner::new(&thread, &policy, meter(shape.dialect), room, &ask).decide();
        let Verdict::Wait { reason, .. } = verdict else { panic!("{}: {verdict:?}", shape.claim) };
        assert!(reason.contains(OPEN_MEDIA) && reason.contains("stay as they are"), "{reason}");
        let shortfall = open_media_shortfall(&thread, room, meter(shape.dialect)).unwrap();
        assert_eq!(shortfall.parts, [(OPEN_MEDIA.to_owned(), media)]);
    }
}

#[test]
fn a_picture_is_the_same_message_in_every_dialect_and_keeps_the_id_it_had() {
    let id = |dialect: Dialect, block: Value| {
        let message = json!({"role": "user", "content": [block]});
        thread(&document(dialect, &[message])).message(0).id().to_string()
    };
    let data = "iVBORw0KGgoAAAANSUhEUgAAASwAAADICAAAAAB3tIOJAAAA";
    let url = format!("data:image/png;base64,{data}");
    let chat = id(Dialect::Chat, json!({"type": "image_url", "image_url": {"url": url}}));
    let claude = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
    assert_eq!(id(Dialect::Anthropic, claude), chat);
    assert_eq!(id(Dialect::Responses, json!({"type": "input_image", "image_url": url})), chat);
    assert_eq!(id(Dialect::AiSdk, json!({"type": "image", "image": url})), chat);
    // What the ids were before documents were understood.
    assert_eq!(chat, "194591618a933547e80453a2de0c3fd72779e0300a6eb4f65946d144ad8d9f42");
    let pdf = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}});
    assert_eq!(id(Dialect::Anthropic, pdf), "6f92592bfc5a069e56b06d3255129b8a95767fdc5461547baa99e39f30422845");
}
