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
