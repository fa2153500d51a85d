//! Lists that are compacted again and again: a list has no record of its compactions, so an earlier summary is known by its words
//! alone. In every dialect and under every preset it is found, taken in and replaced.

use epitome::policy::Preset;
use epitome::session::{ReadOptions, Session};
use epitome::wire::Dialect;
use epitome::{Limit, compact};
use serde_json::{Value, json};

use crate::outcomes::{say, step};

const ROUNDS: usize = 20;
const DIALECTS: [Dialect; 4] = [Dialect::Chat, Dialect::Responses, Dialect::Anthropic, Dialect::AiSdk];
const RULE: &str = "Never touch the vendored parser.";

/// The work between two compactions.
fn work(dialect: Dialect, round: usize) -> Vec<Value> {
    let mut messages = vec![say(dialect, "user", &format!("Now go on with part {round}."))];
    for at in 0..4 {
        let path = format!("src/part_{round}/file_{at}.rs");
        let text: String = (0..12).map(|line| format!("{line}: fn item_{round}_{at}_{line}() {{}}\n")).collect();
        messages.extend(step(dialect, &format!("call_{round}_{at}"), "read", &json!({"path": path}), &text));
    }
    messages.push(say(dialect, "assistant", &format!("Part {round} keeps its order.")));
    messages
}

/// The texts of the summaries in a list.
fn summaries(list: &str) -> Vec<String> {
    let session = Session::read(list.to_owned(), &ReadOptions::default()).expect("a list");
    let summaries = session.messages().into_iter().filter(|message| message.summary);
    summaries.map(|message| message.raw.as_str().to_owned()).collect()
}

/// Compacts a list round after round, and looks at each list that comes out with its round.
fn rounds(
    dialect: Dialect,
    preset: Preset,
    beginning: Vec<Value>,
    budget: u64,
    mut look: impl FnMut(usize, &epitome::plan::Compaction, &str),
) {
    let (mut messages, mut round) = (beginning, 0);
    for part in 1.. {
        let what = format!("{}, {dialect}, round {round}", preset.policy().name);
        assert!(part < 10 * ROUNDS, "{what}: {part} pieces of work");
        messages.extend(work(dialect, part));
        let list = Value::Array(messages.clone()).to_string();
        let made =
            compact(&list, &preset.policy(), Limit::budget(budget)).unwrap_or_else(|error| panic!("{what}: {error}"));
        let Some(compaction) = made.compaction else { continue };
        round += 1;
        look(round, &compaction, &made.text);
        if round == ROUNDS {
            return;
        }
        messages = serde_json::from_str(&made.text).expect("a list of messages");
    }
}

/// A job with something for each section of seed 003's summary.
fn job() -> Vec<Value> {
    let chat = Dialect::Chat;
    let todo = |name: &str, status: &str| json!({"content": name, "status": status, "activeForm": name});
    let todos = json!({"todos": [todo("Write the parser", "completed"), todo("Add the rollback", "pending")]});
    let edit = json!({"path": "/w/shop/src/cart.rs", "old_string": "floor", "new_string": "round"});
    let test = json!({"command": "cargo test -p shop"});
    let mut messages = vec![
        say(chat, "user", "Totals round down. Make them round half up, and keep the tests green."),
        say(chat, "assistant", "1. Round each line\n2. Round the sum\n\nWhich one?"),
        say(chat, "user", "2"),
        say(chat, "assistant", "I decided to keep cents as integers because floats lose half cents."),
    ];
    messages.extend(step(chat, "a", "TodoWrite", &todos, "The list was updated."));
    messages.extend(step(chat, "b", "read", &json!({"path": "/w/shop/src/tax.rs"}), "fn tax() {}"));
    messages.extend(step(chat, "c", "bash", &test, "error[E0599]: no method named `round_up`\nExit code: 101"));
    messages.push(say(chat, "assistant", "`Cents` has no such method: I round in the sum itself."));
    messages.extend(step(chat, "d", "edit", &edit, "The file was edited."));
    messages.extend(step(chat, "e", "bash", &test, "test result: ok. 14 passed; 0 failed"));
    messages.push(say(chat, "assistant", "The sum of a cart rounds half up now, and all 14 tests pass."));
    messages
}

#[test]
fn the_six_sections_of_a_layer_have_their_content_within_800_tokens_over_twenty_rounds() {
    let layer = Preset::ALL.into_iter().find(|preset| preset.policy().name == "layer").expect("a preset");
    rounds(Dialect::Chat, layer, job(), 4_000, |round, compaction, list| {
        let summary = &compaction.summaries[0];
        let text = &summary.text;
        assert!(summary.tokens.get() <= 800, "round {round}: {} tokens", summary.tokens);
        let sections = [
            ("### Original Task", "Totals round down. Make them round half up, and keep the tests green."),
            ("### Completed Work", "src/cart.rs | edited | `Cents` has no such method: I round in the sum itself. (m"),
            ("### Completed Work", "- [x] Write the parser"),
            ("### Completed Work", "The sum of a cart rounds half up now, and all 14 tests pass."),
            ("### Key Technical Decisions", "(answers \"2. Round the sum\"): 2"),
            ("### Key Technical Decisions", "I decided to keep cents as integers because floats lose half cents."),
            ("### Current State", "- Tests: `cargo test -p shop` passed"),
            ("### Current State", "- Last completed: m"),
            ("### Pending Work", "- [ ] Add the rollback"),
            ("### Errors & Resolutions", "error[E0599]: no method named `round_up` (m"),
            ("### Errors & Resolutions", " → cart.rs: `Cents` has no such method: I round in the sum itself. (m"),
        ];
        for (heading, words) in sections {
            let (_, below) = text.split_once(heading).unwrap_or_else(|| panic!("round {round}: no {heading}: {text}"));
            let section = below.split("\n### ").next().unwrap_or_default();
            // The newest conclusion is told with the state.
            let is_last = round == 1 && text.contains(words) && words.starts_with("The sum");
            assert!(section.contains(words) || is_last, "round {round}: {words} is not under {heading}: {text}");
        }
        assert!(!list.contains("tax.rs | read"), "round {round}: what was read is no work: {text}");
    });
}

#[test]
fn an_earlier_summary_is_known_again_and_replaced_in_every_dialect_and_preset() {
    let mut wrong = Vec::new();
    for preset in Preset::ALL {
        for dialect in DIALECTS {
            let beginning =
                vec![say(dialect, "user", &format!("{RULE} Port the parts.")), say(dialect, "assistant", "I will.")];
            rounds(dialect, preset, beginning, 2_000, |round, compaction, list| {
                let what = format!("{}, {dialect}, round {round}", preset.policy().name);
                let found = summaries(list);
                if found.len() != compaction.summaries.len() {
                    wrong.push(format!(
                        "{what}: {} of {} summaries are known: {list}",
                        found.len(),
                        compaction.summaries.len()
                    ));
                }
                if list.matches(RULE).count() != 1 {
                    wrong.push(format!("{what}: the rule is told {} times: {list}", list.matches(RULE).count()));
                }
            });
        }
    }
    assert!(wrong.is_empty(), "{} wrong, the first: {}", wrong.len(), wrong[..wrong.len().min(3)].join("\n"));
}
