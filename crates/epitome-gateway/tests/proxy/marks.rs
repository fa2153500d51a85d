//! Cache marks: what becomes of a request does not depend on how a client spells its JSON.

use epitome::wire::{Dialect, MarkLifetime, cache_marks};
use serde_json::{Value, json};

use crate::talk::Talk;
use crate::world::Plan;

/// The ways to write the same JSON.
const SPELLINGS: [Spelling; 5] =
    [Spelling::Compact, Spelling::Python, Spelling::Pretty, Spelling::Escaped, Spelling::Reversed];

#[derive(Clone, Copy, Debug)]
enum Spelling {
    /// Without any space.
    Compact,
    /// `", "` and `": "`, as Python writes it.
    Python,
    /// A line for each value.
    Pretty,
    /// Letters by their numbers, and white space of every kind.
    Escaped,
    /// The fields of each object in the other order.
    Reversed,
}

impl Spelling {
    fn write(self, value: &Value) -> String {
        match (self, value) {
            (Spelling::Pretty, value) => serde_json::to_string_pretty(value).unwrap(),
            (_, Value::Array(values)) => {
                let values: Vec<String> = values.iter().map(|value| self.write(value)).collect();
                format!("[{}]", values.join(self.comma()))
            }
            (_, Value::Object(fields)) => {
                let field = |(name, value): (&String, &Value)| {
                    let name = self.write(&Value::String(name.clone()));
                    format!("{name}{}{}", self.colon(), self.write(value))
                };
                let mut fields: Vec<String> = fields.iter().map(field).collect();
                if matches!(self, Spelling::Reversed) {
                    fields.reverse();
                }
                format!("{{{}}}", fields.join(self.comma()))
            }
            (Spelling::Escaped, Value::String(text)) => escaped(text),
            (_, value) => value.to_string(),
        }
    }

    fn comma(self) -> &'static str {
        match self {
            Spelling::Python => ", ",
            Spelling::Escaped => "\t,\r\n ",
            _ => ",",
        }
    }

    fn colon(self) -> &'static str {
        match self {
            Spelling::Python => ": ",
            Spelling::Escaped => " \n:\t",
            _ => ":",
        }
    }
}

/// A text whose words begin with a letter that is spelled by its number.
fn escaped(text: &str) -> String {
    let mut out = String::from("\"");
    let mut is_first = true;
    for char in text.chars() {
        match is_first && (char.is_ascii_alphabetic() || char == '_') {
            true => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            false => out.push_str(Value::String(char.to_string()).to_string().trim_matches('"')),
        }
        is_first = !char.is_ascii_alphanumeric();
    }
    out + "\""
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mark {
    None,
    Short,
    ShortSaid,
    Hour,
}

impl Mark {
    fn put(self, block: &mut Value) {
        let mark = match self {
            Mark::None => return,
            Mark::Short => json!({"type": "ephemeral"}),
            Mark::ShortSaid => json!({"type": "ephemeral", "ttl": "5m"}),
            Mark::Hour => json!({"type": "ephemeral", "ttl": "1h"}),
        };
        block["cache_control"] = mark;
    }
}

/// A long request with these marks on its tool, its system prompt, an early message and its newest.
fn marked([tool, system, early, newest]: [Mark; 4]) -> Value {
    let mut request: Value = serde_json::from_str(&Talk::new(Dialect::Anthropic).grown(16_000).body()).unwrap();
    tool.put(&mut request["tools"][0]);
    let mut block = json!({"type": "text", "text": request["system"]});
    system.put(&mut block);
    request["system"] = json!([block]);
    early.put(&mut request["messages"][2]["content"][0]);
    newest.put(request["messages"].as_array_mut().unwrap().last_mut().unwrap()["content"].get_mut(0).unwrap());
    request
}

#[tokio::test]
async fn what_goes_out_does_not_depend_on_how_the_json_of_a_request_is_spelled() {
    use Mark::{Hour, None, Short, ShortSaid};
    for marks in [
        [None, None, None, None],
        [None, None, None, Short],
        [None, None, None, Hour],
        [None, None, Hour, Hour],
        [None, None, Hour, Short],
        [None, None, Short, ShortSaid],
        [None, Hour, None, Hour],
        [Hour, Hour, Hour, Hour],
        [Hour, Hour, None, ShortSaid],
        [Hour, None, Hour, ShortSaid],
        [None, Short, Short, Short],
        [Hour, Short, None, Short],
    ] {
        let mut sent: Option<Vec<MarkLifetime>> = Option::None;
        for spelling in SPELLINGS {
            let world = Plan::new().window(12_000).budget(8_000).start().await;
            let body = spelling.write(&marked(marks));
            let got = world.post("/v1/messages", &[], body).await;
            assert_eq!(got.status, 200, "{marks:?} {spelling:?}: {}", got.text());
            assert_eq!((got.plan(), got.told("failed-open")), (1, Option::None), "{marks:?} {spelling:?}");
            assert_eq!(world.mock.requests().len(), 1, "{marks:?} {spelling:?}: it was refused");
            world.assert_lawful();
            // The summary has room for a line more or less, as the tools are written shorter or longer.
            let now = cache_marks(&String::from_utf8_lossy(&world.newest().body));
            assert!(now.len() <= 4, "{marks:?} {spelling:?}: {now:?}");
            assert_eq!(!now.is_empty(), marks != [None; 4], "{marks:?} {spelling:?}: {now:?}");
            assert_eq!(sent.get_or_insert_with(|| now.clone()), &now, "{marks:?} {spelling:?}");
        }
    }
}

#[tokio::test]
async fn a_history_is_the_same_thread_however_its_json_is_spelled_and_marked() {
    let world = Plan::new().window(12_000).budget(8_000).start().await;
    let mut threads = std::collections::BTreeSet::new();
    for spelling in SPELLINGS {
        for mark in [Mark::None, Mark::Short, Mark::Hour] {
            let body = spelling.write(&marked([Mark::None, Mark::None, Mark::None, mark]));
            threads.insert(world.post("/v1/messages", &[], body).await.fine().placed().0);
        }
    }
    assert_eq!(threads.len(), 1, "{threads:?}");
    world.assert_lawful();
}
