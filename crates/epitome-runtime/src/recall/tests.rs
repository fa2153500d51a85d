//! Searches over small threads: which message is found first, how it is shown, and what is told of the rest.

use std::sync::Arc;

use epitome::budget::{Characters, Meter, Tokens};
use epitome::policy::Tools;
use epitome::thread::{Raw, Thread};
use epitome::wire::{Dialect, decode_message};
use serde_json::{Value, json};

use super::{
    FileQuestion, LeftOutReason, MessageSelection, PromptLines, RecallFilter, RecallRequest, RecallResult, Who,
    file_answer, index_rows, read_messages, recall,
};
use crate::ids::{Moment, TenantId, ThreadKey};
use crate::log::{Log, NewThread, total, words_of};
use crate::store::{MemoryStore, ThreadRow, Write};
use crate::vault::{Keys, Vault};

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn says(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn calls(id: &str, name: &str, arguments: &Value) -> Value {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]})
}

fn answers(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

fn edit(id: &str, old: &str, new: &str) -> Value {
    calls(id, "edit", &json!({"path": "src/cart.rs", "old_string": old, "new_string": new}))
}

/// A log with these messages, all of them in the index.
async fn log_of(messages: &[Value]) -> (Log, ThreadRow) {
    let log = Log::new(Arc::new(MemoryStore::new()), Vault::new(Keys::none(), [0; 32]));
    let key = ThreadKey::new(TenantId::local(), "t".parse().unwrap());
    let new = NewThread {
        key: key.clone(),
        dialect: "chat".to_owned(),
        counter: "characters".to_owned(),
        at: Moment(0),
        scope: String::new(),
        labels: Value::Null,
    };
    log.create(new).await.unwrap();
    let read = messages.iter().map(|message| decode_message(Dialect::Chat, &Raw::whole(message.to_string())));
    let mut thread = Thread::new();
    thread.extend(read.collect(), &Meter::new(&Characters::Four, Dialect::Chat));
    let (mut rows, mut index) = (Vec::new(), Vec::new());
    for (place, message) in thread.messages().iter().enumerate() {
        rows.push(log.message_row(&key, message, &[], None, Moment(0)));
        index.extend(index_rows(log.vault(), &key.tenant, place as u64, &words_of(message.parts())));
    }
    let append = Write::Append { key: key.clone(), tokens: total(&rows), messages: rows };
    log.apply(&[append, Write::Index { key: key.clone(), rows: index }]).await.unwrap();
    let row = log.thread(&key).await.unwrap().unwrap();
    (log, row)
}

async fn search(messages: &[Value], request: impl Into<RecallRequest>) -> RecallResult {
    search_beside(messages, request, None).await
}

async fn search_beside(
    messages: &[Value],
    request: impl Into<RecallRequest>,
    prompt: Option<&PromptLines>,
) -> RecallResult {
    let (log, row) = log_of(messages).await;
    let (request, tools) = (request.into(), Tools::default());
    let query = request.query(Tokens::new(2_000), &tools, prompt);
    recall(&log, &row, &query, &Characters::Four).await.unwrap()
}

fn numbers(found: &RecallResult) -> Vec<&str> {
    found.hits.iter().map(|hit| hit.reference.as_str()).collect()
}

/// A file of one long function, numbered as tools print it.
fn long_file(name: &str, lines: usize) -> String {
    let body = (2..lines).map(|line| format!("    let value_{line} = compute_{line}(); // in {name}"));
    let all = [format!("fn {name}() {{")].into_iter().chain(body).chain(["}".to_owned()]);
    all.enumerate().map(|(at, line)| format!("{:6}\t{line}\n", at + 1)).collect()
}

/// Work on one file: read, edited, tested, and a person who says what they think.
fn work() -> Vec<Value> {
    vec![
        user("Please fix total in src/cart.rs."),
        calls("c1", "read", &json!({"path": "src/cart.rs"})),
        answers("c1", "     1\tfn total() {\n     2\t    old_sum()\n     3\t}\n"),
        says("The error is in total."),
        edit("c2", "    old_sum()", "    new_sum()"),
        answers("c2", "The file src/cart.rs has been updated."),
        calls("c3", "bash", &json!({"command": "cargo test total"})),
        answers("c3", "running 1 test\ntest total ... FAILED\ntest result: FAILED. 0 passed; 1 failed\n"),
        user("total must round half up."),
    ]
}

#[tokio::test]
async fn a_hit_names_the_function_that_it_is_in_unless_that_is_shown() {
    let read =
        |name: &str, lines| [calls("c1", "read", &json!({"path": "a.rs"})), answers("c1", &long_file(name, lines))];
    for (lines, word, home) in [(120, "value_77", Some("fn total() {")), (120, "value_3", None), (20, "value_9", None)]
    {
        let found = search(&read("total", lines), word).await;
        assert_eq!(found.hits[0].home.as_deref(), home, "{word} of {lines}: {}", found.render());
        assert_eq!((found.hits[0].tool.as_deref(), found.hits[0].file.as_deref()), (Some("read"), Some("a.rs")));
    }
    let page = format!("# Rounding\n{}half up, always\n", "\n".repeat(60));
    let found = search(&[says(&page)], "half up").await;
    assert_eq!(found.hits[0].home.as_deref(), Some("# Rounding"), "{}", found.render());
}

#[tokio::test]
async fn an_edit_is_shown_as_a_diff_and_found_by_the_word_at_the_beginning_of_a_line() {
    let messages = [edit("c1", "one\nharbor = 1", "one\nquay = 2"), answers("c1", "ok")];
    for word in ["harbor", "quay"] {
        let found = search(&messages, word).await;
        assert_eq!(numbers(&found), ["m1"], "{word}");
        assert_eq!(found.hits[0].text, "edit src/cart.rs\n one\n-harbor = 1\n+quay = 2");
    }
}

#[tokio::test]
async fn a_common_name_is_found_where_it_is_loudest_newest_and_where_it_failed() {
    let loud = |at| says(&format!("total total total total, said for the {at}th time"));
    let mut messages: Vec<Value> = (0..60).map(loud).collect();
    messages.extend([
        calls("c1", "bash", &json!({"command": "make"})),
        answers("c1", &format!("{}error: the total is wrong\nExit code 1\n", "compiling\n".repeat(30))),
    ]);
    messages.extend((0..20).map(|at| says(&format!("another {at}"))));
    messages.push(says(&format!("{}and here the total is right", "a long report. ".repeat(20))));
    let found = search(&messages, "total").await;
    assert_eq!(&numbers(&found)[1..3], ["m83", "m62"], "{}", found.render());
    assert!(found.hits[2].failed && !found.hits[0].failed);
}

#[tokio::test]
async fn a_filter_leaves_out_all_that_it_does_not_name() {
    let none = RecallFilter::default;
    for (words, filter, expected) in [
        ("total", RecallFilter { who: Some(Who::User), ..none() }, vec!["m1", "m9"]),
        ("total", RecallFilter { who: Some(Who::Assistant), ..none() }, vec!["m4", "m7"]),
        ("total", RecallFilter { who: Some(Who::Tool), ..none() }, vec!["m3", "m8"]),
        ("total", RecallFilter { tool: Some("Bash".into()), ..none() }, vec!["m7", "m8"]),
        ("sum", RecallFilter { file: Some("cart.rs".into()), ..none() }, vec!["m3", "m5"]),
        ("sum", RecallFilter { file: Some("tax.rs".into()), ..none() }, vec![]),
        ("total", RecallFilter { after: Some(7), ..none() }, vec!["m8", "m9"]),
        ("", RecallFilter { who: Some(Who::User), ..none() }, vec!["m1", "m9"]),
        ("", none(), vec![]),
    ] {
        let request = RecallRequest { filter: filter.clone(), ..RecallRequest::from(words) };
        let found = search(&work(), request).await;
        let mut numbers = numbers(&found);
        numbers.sort_unstable();
        assert_eq!(numbers, expected, "{words} {filter:?}: {}", found.render());
    }
    let newest = RecallFilter { newest: true, ..none() };
    let found = search(&work(), RecallRequest { filter: newest, ..RecallRequest::from("total") }).await;
    assert_eq!(numbers(&found)[..3], ["m9", "m8", "m7"], "{}", found.render());
}

#[tokio::test]
async fn a_rejection_of_a_call_is_the_users_word() {
    let rejected = "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed, the user said:\nuse the helper";
    let messages = [edit("c1", "a", "b"), answers("c1", rejected)];
    let filter = RecallFilter { who: Some(Who::User), ..RecallFilter::default() };
    let found = search(&messages, RecallRequest { filter, ..RecallRequest::from("helper") }).await;
    assert_eq!(numbers(&found), ["m2"]);
}

#[tokio::test]
async fn lines_that_a_later_edit_took_out_are_marked_with_its_number() {
    let found = search(&work(), "old_sum").await;
    let read = found.hits.iter().find(|hit| hit.reference == "m3").expect("the file that was read");
    assert!(found.render().contains("[not in the file any more: line 2, since m5]"), "{}", found.render());
    assert_eq!(read.outdated.len(), 1);
    let edit = found.hits.iter().find(|hit| hit.reference == "m5").expect("the edit");
    assert!(edit.outdated.is_empty(), "what an edit takes out was never meant to stand");
}

#[tokio::test]
async fn what_is_shown_or_in_the_prompt_is_told_by_its_number_alone() {
    let text = "the harbor code is V-17\nand the quay is closed";
    let read = |id: &str| [calls(id, "read", &json!({"path": "notes.md"})), answers(id, text)];
    let twice = [read("c1"), read("c2")].concat();
    let found = search(&twice, "harbor").await;
    assert_eq!((numbers(&found).len(), found.left_out), (1, 1), "{}", found.render());
    assert!(matches!(found.others[0].reason, LeftOutReason::Repeats(_)));
    let prompt = PromptLines::of_texts([text]);
    let found = search_beside(&twice, "harbor", Some(&prompt)).await;
    assert!(
        found.hits.is_empty() && found.render() == "[in the prompt already: m2, m4]"
            || found.render() == "[in the prompt already: m4, m2]",
        "{}",
        found.render()
    );
}

#[tokio::test]
async fn what_does_not_fit_is_listed_with_its_number_and_its_line() {
    let messages: Vec<Value> =
        (0..40).map(|at| says(&format!("report {at} on the harbor: {}", format!("word{at} ").repeat(60)))).collect();
    let request = RecallRequest { tokens_max: Some(Tokens::new(800)), ..RecallRequest::from("harbor") };
    let found = search(&messages, request).await;
    let text = found.render();
    assert!(!found.hits.is_empty() && found.hits.len() + found.left_out == 40, "{text}");
    assert!(text.contains("Found as well; read them by their numbers:\nm"), "{text}");
    assert!(text.contains(" assistant: report ") && text.contains("more left out; narrow it with who"), "{text}");
    assert!(found.tokens <= Tokens::new(800), "{}", found.tokens);
}

#[tokio::test]
async fn a_file_is_read_back_as_its_edits_and_as_it_stands() {
    let (log, row) = log_of(&work()).await;
    let tools = Tools::default();
    let answer = async |question: FileQuestion| file_answer(&log, &row, &question, &tools).await.unwrap();
    for (question, expected) in [
        (FileQuestion::Edits("cart.rs".into()), "[m5 src/cart.rs edited]\n-    old_sum()\n+    new_sum()"),
        (
            FileQuestion::File("cart.rs".into()),
            "[src/cart.rs as it stands: whole, as of m3, edited since by m5; 3 lines]\nfn total() {\n    new_sum()\n}\n",
        ),
        (FileQuestion::File("tax.rs".into()), "No message reads, writes or changes a file called tax.rs."),
    ] {
        assert_eq!(answer(question).await, expected);
    }
}

#[tokio::test]
async fn messages_are_read_in_the_order_in_which_they_are_asked_for() {
    let (log, row) = log_of(&work()).await;
    for (text, around, expected) in
        [("m9, m1-m2", 0, vec![8, 0, 1]), ("m1", 1, vec![0, 1]), ("m9-m12", 0, vec![8]), ("m77", 0, vec![])]
    {
        let selection = MessageSelection::parse(text).unwrap().with_neighbors(around, row.length);
        let read = read_messages(&log, &row, &selection).await.unwrap();
        assert_eq!(read.iter().map(|entry| entry.place).collect::<Vec<_>>(), expected, "{text}");
    }
}
