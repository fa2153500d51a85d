//! The abstract form of a conversation, and strategies that make one.

use std::fmt;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

/// A conversation in no dialect.
#[derive(Clone, Default)]
pub struct Script(pub Vec<Entry>);

/// One line for each entry, long ones cut: a failing thread is to be read.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.0 {
            let line = format!("{entry:?}");
            let shown: String = line.chars().take(400).collect();
            write!(f, "\n    {shown}")?;
            if shown.len() < line.len() {
                write!(f, "… ({} bytes)", line.len())?;
            }
        }
        Ok(())
    }
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Entry {
    /// The operator speaks.
    System(String),
    /// The user speaks.
    User(Vec<Bit>),
    /// The model speaks, and may call tools.
    Assistant { thought: Option<Thought>, words: Option<String>, calls: Vec<Call> },
    /// Tools answer.
    Results(Vec<Answer>),
    /// A message or item nobody has heard of.
    Unknown(u32),
}

/// A piece of what the user says.
#[derive(Clone, Debug)]
pub enum Bit {
    Text(String),
    Image,
    Unknown,
}

/// The model's thinking.
#[derive(Clone, Debug)]
pub enum Thought {
    Open(String),
    Signed(String),
    Encrypted,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub id: String,
    pub tool: String,
    pub arguments: Value,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub id: String,
    pub tool: String,
    pub text: String,
    pub failed: bool,
    pub image: bool,
}

/// What a tool loop does, before ids are given.
#[derive(Clone, Debug)]
struct Loop {
    thought: Option<Thought>,
    words: Option<String>,
    calls: Vec<(Deed, Fate, String, bool)>,
    reversed: bool,
    apart: bool,
}

/// What a call does.
#[derive(Clone, Debug)]
struct Deed {
    tool: &'static str,
    arguments: Value,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Answered,
    Twice,
    Late,
    Never,
}

#[derive(Clone, Debug)]
enum Beat {
    System(String),
    User(Vec<Bit>),
    Work(Loop),
    Orphan(String),
    Unknown(u32),
}

/// Conversations that a provider would take: nothing is unanswered but what is still running, misplaced or empty.
pub fn tidy() -> impl Strategy<Value = Script> {
    conversation(any::<bool>())
}

/// Tidy conversations in which nothing is still running.
pub fn finished() -> impl Strategy<Value = Script> {
    conversation(Just(false))
}

fn conversation(in_flight: impl Strategy<Value = bool>) -> impl Strategy<Value = Script> {
    let beat = prop_oneof![
        3 => user_words().prop_map(|text| Beat::User(vec![Bit::Text(text)])),
        1 => user_words().prop_map(|text| Beat::User(vec![Bit::Text(text), Bit::Image])),
        6 => work(Just(Fate::Answered), option::of(words())).prop_map(Beat::Work),
    ];
    (option::of(words()), user_words(), vec(beat, 2..24), in_flight).prop_map(|(system, first, beats, in_flight)| {
        let mut all: Vec<Beat> = system.map(Beat::System).into_iter().collect();
        all.push(Beat::User(vec![Bit::Text(first)]));
        all.extend(beats);
        perform(all, in_flight)
    })
}

/// Conversations as they are found: late, doubled, missing and orphan results, empty content, unknown things.
pub fn oddity() -> impl Strategy<Value = Script> {
    let bit = prop_oneof![4 => any_words().prop_map(Bit::Text), 1 => Just(Bit::Image), 1 => Just(Bit::Unknown)];
    let fate = prop_oneof![
        8 => Just(Fate::Answered), 1 => Just(Fate::Twice), 1 => Just(Fate::Late), 1 => Just(Fate::Never)
    ];
    let beat = prop_oneof![
        1 => words().prop_map(Beat::System),
        4 => vec(bit, 0..3).prop_map(Beat::User),
        9 => work(fate, option::of(any_words())).prop_map(Beat::Work),
        1 => result_text().prop_map(Beat::Orphan),
        1 => (0u32..3).prop_map(Beat::Unknown),
    ];
    (vec(beat, 1..24), any::<bool>()).prop_map(|(beats, in_flight)| perform(beats, in_flight))
}

/// Both kinds.
pub fn script() -> impl Strategy<Value = Script> {
    prop_oneof![tidy().boxed(), oddity().boxed()]
}

fn work(
    fate: impl Strategy<Value = Fate> + Clone + 'static,
    said: impl Strategy<Value = Option<String>>,
) -> impl Strategy<Value = Loop> {
    let call = (deed(), fate, result_text(), prop::bool::weighted(0.05));
    let thought = option::weighted(0.3, thought());
    (thought, said, vec(call, 0..4), any::<bool>(), any::<bool>()).prop_map(
        |(thought, words, calls, reversed, apart)| {
            // An assistant message says or does something.
            let words = if calls.is_empty() { words.or_else(|| Some("Done.".to_owned())) } else { words };
            Loop { thought, words, calls, reversed, apart }
        },
    )
}

fn thought() -> impl Strategy<Value = Thought> {
    prop_oneof![words().prop_map(Thought::Open), words().prop_map(Thought::Signed), Just(Thought::Encrypted)]
}

fn deed() -> impl Strategy<Value = Deed> {
    let path = select(vec!["src/lib.rs", "src/main.rs", "/repo/README.md", "données/été.txt", "资料/表.csv"]);
    prop_oneof![
        path.clone().prop_map(|path| Deed { tool: "read", arguments: json!({"path": path}) }),
        path.clone().prop_map(|path| Deed { tool: "read", arguments: json!({"path": path, "offset": 10, "limit": 5}) }),
        (path.clone(), words())
            .prop_map(|(path, text)| Deed { tool: "write", arguments: json!({"path": path, "content": text}) }),
        (path, words(), words()).prop_map(|(path, old, new)| Deed {
            tool: "edit",
            arguments: json!({"path": path, "old_string": old, "new_string": new})
        }),
        select(vec!["cargo test", "ls -la", "git diff\ngit log"])
            .prop_map(|c| Deed { tool: "bash", arguments: json!({"command": c}) }),
        Just(Deed {
            tool: "todowrite",
            arguments: json!({"todos": [{"content": "write the parser", "status": "pending"}]})
        }),
        Just(Deed { tool: "dance", arguments: json!({}) }),
    ]
}

/// Words of many scripts, never empty.
fn words() -> impl Strategy<Value = String> {
    let some = select(vec![
        "I looked at the parser and decided to keep it because the tests pass.",
        "The root cause is in `src/lib.rs:42`, see https://example.org/a?b=c.",
        "修正しました。テストは全部通りました。",
        "مرحبا بالعالم، هذا نص من اليمين إلى اليسار.",
        "👩‍👩‍👧‍👦 fertig 🏳️‍🌈 e\u{301}a\u{308}\u{323} Zalgo t\u{336}e\u{336}x\u{336}t",
        "error: no such table: users",
        "{\"a\": [1, 2, {\"b\": null}]}",
        "x",
        "tabs\tand\r\nreturns \u{0} \u{7f} \u{2028} \\ \" /",
    ]);
    vec(some, 1..4).prop_map(|all| all.join(" "))
}

/// What users write: requests, and constraints in several languages.
fn user_words() -> impl Strategy<Value = String> {
    let some = select(vec![
        "Please fix the parser.",
        "Never touch vendor/.",
        "Bitte niemals auf main pushen.",
        "不要修改生产数据库。",
        "本番のデータは絶対に消さないでください。",
        "Никогда не трогай config.yaml!",
        "Now add a test for the empty case.",
        "What does `cargo test` say?",
        "Always answer in one sentence, no matter what.",
    ]);
    vec(some, 1..4).prop_map(|all| all.join("\n"))
}

/// Words, or nothing, or only whitespace.
fn any_words() -> impl Strategy<Value = String> {
    prop_oneof![6 => user_words(), 2 => words(), 1 => Just(String::new()), 1 => Just(" \n\t".to_owned())]
}

fn result_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => words(),
        1 => Just(String::new()),
        1 => Just("  \n".to_owned()),
        3 => (words(), 2usize..40).prop_map(|(line, times)| format!("{line}\n").repeat(times)),
        1 => (words(), 50usize..200).prop_map(|(line, times)| (0..times).map(|at| format!("{at}: {line}\n")).collect()),
        1 => Just("a".repeat(9000)),
        1 => Just("行".repeat(3000)),
        1 => Just("Exit code 1\nerror: it failed".to_owned()),
    ]
}

/// Gives ids and puts results where their fate wants them.
fn perform(beats: Vec<Beat>, in_flight: bool) -> Script {
    let mut script = Script::default();
    let mut late: Vec<Answer> = Vec::new();
    let (mut ids, last) = (0, beats.len().saturating_sub(1));
    for (at, beat) in beats.into_iter().enumerate() {
        match beat {
            Beat::System(text) => script.0.push(Entry::System(text)),
            Beat::User(bits) => script.0.push(Entry::User(bits)),
            Beat::Unknown(kind) => script.0.push(Entry::Unknown(kind)),
            Beat::Orphan(text) => {
                ids += 1;
                let id = format!("orphan_{ids}");
                script.0.push(Entry::Results(vec![Answer {
                    id,
                    tool: "read".into(),
                    text,
                    failed: false,
                    image: false,
                }]));
            }
            Beat::Work(work) => {
                let open = in_flight && at == last;
                work.perform(&mut script, &mut ids, &mut late, open);
                continue;
            }
        }
        if !late.is_empty() {
            script.0.push(Entry::Results(std::mem::take(&mut late)));
        }
    }
    script
}

impl Loop {
    fn perform(self, script: &mut Script, ids: &mut usize, late: &mut Vec<Answer>, open: bool) {
        let (mut calls, mut answers) = (Vec::new(), Vec::new());
        let many = self.calls.len();
        for (at, (deed, fate, text, image)) in self.calls.into_iter().enumerate() {
            *ids += 1;
            let id = format!("toolu_{ids}");
            let failed = text.starts_with("Exit code 1");
            let answer = Answer { id: id.clone(), tool: deed.tool.into(), text, failed, image };
            match fate {
                // The last of several calls is still running.
                _ if open && at + 1 == many => {}
                Fate::Answered => answers.push(answer),
                Fate::Twice => answers.extend([answer.clone(), answer]),
                Fate::Late => late.push(answer),
                Fate::Never => {}
            }
            calls.push(Call { id, tool: deed.tool.into(), arguments: deed.arguments });
        }
        if self.reversed {
            answers.reverse();
        }
        script.0.push(Entry::Assistant { thought: self.thought, words: self.words, calls });
        match self.apart {
            true => script.0.extend(answers.into_iter().map(|answer| Entry::Results(vec![answer]))),
            false if answers.is_empty() => {}
            false => script.0.push(Entry::Results(answers)),
        }
    }
}
