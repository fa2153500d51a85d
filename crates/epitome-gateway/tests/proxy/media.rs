//! Files in requests: what a model is asked about reaches it byte for byte, what was answered leaves by name and is had back.

use epitome::wire::Dialect;
use serde_json::{Value, json};

use crate::talk::Talk;
use crate::wire::{Line, Then};
use crate::world::{Got, Plan, World};

const BYTES: usize = 300_000;

/// A file of 300 KB that begins with these bytes, as base64.
fn base64(head: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let filling = (head.len()..BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8);
    let bytes: Vec<u8> = head.iter().copied().chain(filling).collect();
    let sign = |bits: u32, at: u32| SIGNS[(bits >> (18 - 6 * at) & 63) as usize] as char;
    let four = |three: &[u8]| {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        (0..4).map(move |at| sign(bits, at))
    };
    bytes.chunks_exact(3).flat_map(four).collect()
}

/// The media of a case, and the words that name it once it has left.
#[derive(Clone)]
struct File {
    claim: &'static str,
    block: Value,
    named: &'static [&'static str],
}

/// A model and what can be shown to it.
fn cases() -> Vec<(&'static str, Dialect, File)> {
    let pdf = base64(format!("%PDF-1.4\n{}", "<</Type/Page/Parent 1 0 R>>\n".repeat(12)).as_bytes());
    let png = base64(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x03\0");
    let wav = base64(b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3E\0\0\x00\x7d\0\0\x02\0\x10\0data\0\0\0\x7f");
    let (pdf_url, png_url) = (format!("data:application/pdf;base64,{pdf}"), format!("data:image/png;base64,{png}"));
    let source = |media: &str, data: &str| json!({"type": "base64", "media_type": media, "data": data});
    let file = |claim, block, named| File { claim, block, named };
    let of_pdf = &["report.pdf", "application/pdf", "12 pages", "300 KB"][..];
    let (of_png, of_wav) = (&["image/png", "1024x768", "300 KB"][..], &["audio/wav", "300 KB"][..]);
    vec![
        (
            "claude-sonnet-4-5",
            Dialect::Anthropic,
            file(
                "document",
                json!({"type": "document", "title": "report.pdf", "source": source("application/pdf", &pdf)}),
                of_pdf,
            ),
        ),
        (
            "claude-sonnet-4-5",
            Dialect::Anthropic,
            file("image", json!({"type": "image", "source": source("image/png", &png)}), of_png),
        ),
        (
            "gpt-4o",
            Dialect::Chat,
            file("file", json!({"type": "file", "file": {"filename": "report.pdf", "file_data": pdf_url}}), of_pdf),
        ),
        (
            "gpt-4o",
            Dialect::Chat,
            file("audio", json!({"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}}), of_wav),
        ),
        ("gpt-4o", Dialect::Chat, file("image", json!({"type": "image_url", "image_url": {"url": png_url}}), of_png)),
        (
            "gpt-5",
            Dialect::Responses,
            file("file", json!({"type": "input_file", "filename": "report.pdf", "file_data": pdf_url}), of_pdf),
        ),
        ("gpt-5", Dialect::Responses, file("image", json!({"type": "input_image", "image_url": png_url}), of_png)),
    ]
}

/// The user shows a file.
fn show(talk: &mut Talk, block: &Value) {
    let kind = if talk.dialect == Dialect::Responses { "input_text" } else { "text" };
    let content = json!([block, {"type": kind, "text": "What is in it?"}]);
    talk.push(json!({"role": "user", "content": content}));
}

fn sent(world: &World) -> String {
    String::from_utf8(world.newest().body.to_vec()).unwrap()
}

/// A receipt's numbers: retained, recoverable, lost, and what gave way where anything did.
fn receipt(got: &Got) -> Vec<usize> {
    let told = got.told("receipt").unwrap_or_default();
    told.split([' ', ';', ',']).filter_map(|fate| fate.split_once('=')?.1.parse().ok()).collect()
}

#[tokio::test]
async fn a_file_in_the_newest_message_passes_byte_for_byte() {
    for (model, dialect, file) in cases() {
        let world = Plan::new().start().await;
        let mut talk = Talk::new(dialect).model(model);
        talk.hears("Show me.");
        show(&mut talk, &file.block);
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(sent(&world), talk.body(), "{model} {}", file.claim);
        assert_eq!((got.told("failed-open"), got.plan()), (None, 0), "{model} {}", file.claim);
        let counted = world.newest().prompt_tokens.unwrap();
        assert!(counted < 40_000, "{model} {}: {counted} tokens", file.claim);
        world.assert_lawful();
    }
}

#[tokio::test]
async fn a_file_in_the_newest_message_stays_while_everything_else_makes_way() {
    for (model, dialect, file) in cases() {
        let world = Plan::new().budget(44_000).start().await;
        let mut talk = Talk::new(dialect).model(model).grown(50_000);
        talk.hears("Done. What next?");
        show(&mut talk, &file.block);
        let got = talk.send(&world.gate).await.fine();
        let claim = format!("{model} {}", file.claim);
        assert!(got.plan() >= 1 && sent(&world).len() < talk.body().len(), "{claim}: {got:?}");
        assert!(sent(&world).contains(talk.messages.last().unwrap()), "{claim}: the newest message changed");
        assert_eq!(receipt(&got)[2], 0, "{claim}: {:?}", got.told("receipt"));
        world.assert_lawful();
    }
}

#[tokio::test]
async fn a_file_that_was_answered_leaves_by_name_and_can_be_had_back() {
    // In a small budget the summary names it; in a large one it is moved out alone, and nothing else is.
    // A document takes more tokens of Claude.
    let large = |dialect| if dialect == Dialect::Anthropic { 33_000 } else { 26_000 };
    let budgets = cases().into_iter().flat_map(|(model, dialect, file)| {
        [(12_000, model, dialect, file.clone()), (large(dialect), model, dialect, file)]
    });
    for (budget, model, dialect, file) in budgets {
        let claim = format!("{model} {} in {budget}", file.claim);
        let world = Plan::new().budget(budget).start().await;
        let mut talk = Talk::new(dialect).model(model);
        talk.hears("Show me.");
        show(&mut talk, &file.block);
        talk.hears("It is a plan of the valves.").says("Now mend them.");
        // The gateway's own policy goes down so far that nothing would be left alone.
        let talk = match budget > 12_000 {
            true => talk.header("x-epitome-policy", "ladder").grown(4_000),
            false => talk.grown(14_000),
        };
        let got = talk.send(&world.gate).await.fine();
        let text = sent(&world);
        if budget > 12_000 && file.named[0] != "report.pdf" {
            assert_eq!(text, talk.body(), "{claim}: all of it fits");
            continue;
        }
        assert!(got.plan() >= 1, "{claim}: {:?}", got.headers);
        assert!(text.len() < 200_000, "{claim}: the file is still there");
        for word in file.named {
            assert!(text.contains(word), "{claim}: {word} is not named in\n{text}");
        }
        world.assert_lawful();
        // The receipt knows it, by the message that has it.
        assert!(receipt(&got)[1] >= 1, "{claim}: {:?}", got.told("receipt"));
        let (thread, _) = got.placed();
        let receipt = world.gate.ask(&format!("/api/threads/{thread}/receipt")).await;
        let items = receipt["items"].as_array().unwrap();
        let entry = items.iter().find(|item| item["kind"] == "media").unwrap_or_else(|| panic!("{claim}: {receipt}"));
        assert_eq!((&entry["fate"], &entry["reference"]), (&json!("recoverable"), &json!("m3")), "{claim}");
        assert!(file.named.iter().all(|word| entry["item"].as_str().unwrap().contains(word)), "{claim}: {entry}");
        // The log has the message as it came, and an artifact is the part itself.
        let logged = world.gate.logged(&thread, 3).await;
        assert_eq!(logged[2]["content"][0], file.block, "{claim}");
        let listed = world.gate.ask(&format!("/api/threads/{thread}/artifacts")).await;
        let own: Vec<&Value> =
            listed["artifacts"].as_array().unwrap().iter().filter(|artifact| artifact["number"] == 3).collect();
        assert_eq!(own.len(), usize::from(budget > 12_000), "{claim}: {listed}");
        for artifact in own {
            let id = artifact["id"].as_str().unwrap();
            let read = world.gate.ask(&format!("/api/artifacts/{id}")).await;
            let part: Value = serde_json::from_str(read["text"].as_str().unwrap()).unwrap();
            assert_eq!(part, file.block, "{claim}");
        }
    }
}

#[tokio::test]
async fn a_file_that_alone_is_above_the_budget_goes_out_as_it_came_and_the_answer_says_so() {
    for (model, dialect, file) in cases().into_iter().filter(|(_, _, file)| file.named[0] == "report.pdf") {
        let world = Plan::new().budget(9_000).start().await;
        let mut talk = Talk::new(dialect).model(model).grown(4_000);
        talk.hears("Done.");
        show(&mut talk, &file.block);
        let got = talk.send(&world.gate).await.fine();
        assert_eq!(sent(&world), talk.body(), "{model} {}", file.claim);
        assert_eq!((got.told("failed-open"), got.plan()), (Some("floor"), 0), "{model} {}", file.claim);
    }
}

#[tokio::test]
async fn a_file_that_alone_is_above_the_window_is_the_providers_to_refuse() {
    for (model, dialect, file) in cases().into_iter().filter(|(_, _, file)| file.named[0] == "report.pdf") {
        let world = Plan::new().window(9_000).start().await;
        let mut talk = Talk::new(dialect).model(model).grown(4_000);
        talk.hears("Done.");
        show(&mut talk, &file.block);
        let got = talk.send(&world.gate).await;
        assert_eq!(got.status, 400, "{model} {}", file.claim);
        let requests = world.mock.requests();
        assert!(requests.iter().all(|sent| sent.body == talk.body()), "{model} {}: it was changed", file.claim);
    }
}

#[tokio::test]
async fn a_model_that_asks_for_a_file_is_shown_it() {
    let call = r#"{"id":"call_1","type":"function","function":{"name":"read_artifact","arguments":"{\"id\":\"m3\"}"}}"#;
    let message = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
    let choice = format!(r#"{{"index":0,"message":{message},"finish_reason":"tool_calls"}}"#);
    let body = format!(r#"{{"id":"c","object":"chat.completion","model":"m","choices":[{choice}]}}"#);
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close", body.len());
    for (_, _, file) in cases().into_iter().filter(|(_, dialect, _)| *dialect == Dialect::Chat) {
        let line = Line::saying(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"), Then::Close).await;
        let gate = Plan::new().with_tools().gate(&line.url()).await;
        let mut talk = Talk::new(Dialect::Chat).model("gpt-4o");
        talk.hears("Show me.");
        show(&mut talk, &file.block);
        talk.hears("Seen.").says("And on the second page?");
        talk.send(&gate).await;
        let heard = line.heard();
        let second = &heard[1][heard[1].find("\r\n\r\n").unwrap()..];
        let request: Value = serde_json::from_str(second.trim()).unwrap();
        let messages = request["messages"].as_array().unwrap();
        let [.., told, shown] = &messages[..] else { panic!("{} messages", messages.len()) };
        assert_eq!(told["role"], "tool", "{}", file.claim);
        let words = told["content"].as_str().unwrap();
        assert!(
            file.named.iter().all(|word| words.contains(word)) && words.len() < 2_000,
            "{}: {words:.300}",
            file.claim
        );
        assert_eq!((&shown["role"], &shown["content"][1]), (&json!("user"), &file.block), "{}", file.claim);
    }
}
