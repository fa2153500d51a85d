//! A call as a model makes it: the tool's name and JSON, understood or refused with what to do.
//!
//! Numbers may come as text, and an argument that is null is one that was not given. One that there is not is refused:
//! a model that means something by it would otherwise read the same again and again.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Outcome, READ_ARTIFACT, RECALL, TOOLS};

/// The most lines around a line that was found.
const CONTEXT_MAX: usize = 50;
/// The most characters of a text that lines are looked for by.
const GREP_CHARS_MAX: usize = 100;

/// A call that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads an artifact or a message.
    ReadArtifact(ReadRequest),
    /// Searches what left the prompts.
    Recall {
        /// The words to look for.
        query: String,
        /// The most passages.
        limit: Option<usize>,
    },
}

/// The artifact or message to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// An artifact's id or a message's reference.
    pub(super) id: String,
    pub(super) part: TextPart,
}

impl ReadRequest {
    /// The artifact or message to read.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// True if that is a message, such as `m41`.
    pub(super) fn is_message(&self) -> bool {
        super::reader::place(&self.id).is_some()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextPart {
    /// Lines, from 1.
    Lines { from: usize, to: usize },
    /// Everything after a byte.
    After { byte: usize },
    /// Those of these lines that hold a text, with lines around them.
    Holding { text: String, context: usize, from: usize, to: usize },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    id: String,
    #[serde(default, deserialize_with = "number")]
    from: Option<usize>,
    #[serde(default, deserialize_with = "number")]
    to: Option<usize>,
    #[serde(default)]
    grep: Option<String>,
    #[serde(default, deserialize_with = "number")]
    context: Option<usize>,
    #[serde(default, deserialize_with = "number")]
    byte: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecallArguments {
    query: String,
    #[serde(default, deserialize_with = "number")]
    limit: Option<usize>,
}

impl Call {
    /// A call of this tool with these arguments, as JSON.
    pub fn parse(name: &str, arguments: &str) -> Result<Call, Outcome> {
        match name {
            _ if name == READ_ARTIFACT.name => read_artifact(parsed(name, arguments)?),
            _ if name == RECALL.name => recall(parsed(name, arguments)?),
            _ => Err(Outcome::failure(format!("There is no tool `{}`. There are {}.", shown(name), names()))),
        }
    }
}

fn names() -> String {
    TOOLS.map(|tool| format!("`{}`", tool.name)).join(" and ")
}

fn read_artifact(arguments: ReadArguments) -> Result<Call, Outcome> {
    let (from, to) = (arguments.from.unwrap_or(1).max(1), arguments.to.unwrap_or(usize::MAX));
    if from > to {
        return Err(Outcome::failure(format!(
            "`from` is {from} and `to` is {to}: the first line cannot come after the last. Lines are counted from 1."
        )));
    }
    let grep = arguments.grep.filter(|text| !text.is_empty());
    if grep.as_ref().is_some_and(|text| text.contains('\n') || text.chars().count() > GREP_CHARS_MAX) {
        return Err(Outcome::failure(format!(
            "`grep` is looked for in single lines: give at most {GREP_CHARS_MAX} characters of one line."
        )));
    }
    let context = arguments.context.unwrap_or(0).min(CONTEXT_MAX);
    let part = match (grep, arguments.byte) {
        (Some(text), _) => TextPart::Holding { text, context, from, to },
        (None, Some(byte)) => TextPart::After { byte },
        (None, None) => TextPart::Lines { from, to },
    };
    match named(&arguments.id) {
        Some(id) => Ok(Call::ReadArtifact(ReadRequest { id, part })),
        None => Err(Outcome::failure("`id` is empty. It is what a placeholder names, or a message such as `m41`.")),
    }
}

fn recall(arguments: RecallArguments) -> Result<Call, Outcome> {
    match arguments.query.trim() {
        "" => Err(Outcome::failure("`query` is empty. Give words to look for, such as a name, a path or an error.")),
        query => Ok(Call::Recall { query: query.to_owned(), limit: arguments.limit }),
    }
}

fn parsed<T: DeserializeOwned>(tool: &str, arguments: &str) -> Result<T, Outcome> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(arguments).map_err(|error| {
        let error = error.to_string();
        let (what, _) = error.split_once(" at line ").unwrap_or((&error, ""));
        Outcome::failure(format!("The arguments of `{tool}` cannot be used: {what}. Call it again with its schema."))
    })
}

/// An id without what is often written around it: quotes, the word before it, an address.
fn named(id: &str) -> Option<String> {
    let around = |c: char| c.is_whitespace() || "\"'`[]()".contains(c);
    let id = id.trim_matches(around);
    let id = id.rsplit('/').next().unwrap_or(id);
    let id = id.strip_prefix("artifact:").unwrap_or(id).trim_matches(around);
    (!id.is_empty()).then(|| id.to_owned())
}

/// A name as it may be repeated: whatever a model sent in its place is cut short.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// A number, as a number or as text.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let number = match &value {
        Value::Null => return Ok(None),
        Value::Number(number) => {
            number.as_u64().or_else(|| number.as_f64().filter(is_whole).map(|number| number as u64))
        }
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.map(Some).ok_or_else(|| D::Error::custom(format!("{} is not a number from 0 up", shown(&value.to_string()))))
}

/// True if a number with a point is a whole number.
fn is_whole(number: &f64) -> bool {
    number.fract() == 0.0 && (0.0..9e15).contains(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(id: &str, from: usize, to: usize) -> Call {
        Call::ReadArtifact(ReadRequest { id: id.to_owned(), part: TextPart::Lines { from, to } })
    }

    #[test]
    fn arguments_are_understood_as_models_write_them() {
        let max = usize::MAX;
        for (arguments, call) in [
            (r#"{"id":"9f86d081884c7d65"}"#, lines("9f86d081884c7d65", 1, max)),
            (r#"{"id":"artifact:9f86d081884c7d65","from":null}"#, lines("9f86d081884c7d65", 1, max)),
            (r#"{"id":" \"m41\" ","from":"3","to":7.0}"#, lines("m41", 3, 7)),
            (r#"{"id":"m41","from":0,"grep":""}"#, lines("m41", 1, max)),
            (r#"{"id":"epitome://thread/t/artifact/9f86d081884c7d65"}"#, lines("9f86d081884c7d65", 1, max)),
            (
                r#"{"id":"m1","byte":12}"#,
                Call::ReadArtifact(ReadRequest { id: "m1".to_owned(), part: TextPart::After { byte: 12 } }),
            ),
        ] {
            assert_eq!(Call::parse("read_artifact", arguments), Ok(call), "{arguments}");
        }
        let recall = Call::Recall { query: "valve".to_owned(), limit: Some(2) };
        assert_eq!(Call::parse("recall", r#"{"query":" valve ","limit":"2"}"#), Ok(recall));
    }

    #[test]
    fn what_cannot_be_used_says_what_to_do() {
        for (name, arguments, says) in [
            ("read_artefact", "{}", "There is no tool `read_artefact`. There are `read_artifact` and `recall`."),
            ("read_artifact", "", "missing field `id`"),
            ("read_artifact", "{\"id\":", "EOF while parsing"),
            ("read_artifact", "[]", "cannot be used"),
            ("read_artifact", r#"{"id":7}"#, "expected a string"),
            ("read_artifact", r#"{"id":" "}"#, "`id` is empty"),
            ("read_artifact", r#"{"id":"m1","offset":3}"#, "unknown field `offset`"),
            ("read_artifact", r#"{"id":"m1","from":-1}"#, "-1 is not a number from 0 up"),
            ("read_artifact", r#"{"id":"m1","from":1.5}"#, "1.5 is not a number from 0 up"),
            ("read_artifact", r#"{"id":"m1","from":9,"to":3}"#, "cannot come after"),
            ("recall", r#"{"query":""}"#, "`query` is empty"),
            ("recall", r#"{"limit":3}"#, "missing field `query`"),
        ] {
            let outcome = Call::parse(name, arguments).unwrap_err();
            assert!(outcome.is_error && outcome.text.contains(says), "{name} {arguments}: {}", outcome.text);
        }
    }

    #[test]
    fn every_schema_is_json_and_names_what_is_understood() {
        for tool in TOOLS {
            let schema: Value = serde_json::from_str(tool.parameters).unwrap();
            let all = schema["properties"].as_object().unwrap().keys();
            let value = |name: &String| if ["id", "query", "grep"].contains(&name.as_str()) { "\"x\"" } else { "1" };
            let every: Vec<String> = all.map(|name| format!("\"{name}\":{}", value(name))).collect();
            assert!(Call::parse(tool.name, &format!("{{{}}}", every.join(","))).is_ok(), "{}", tool.name);
        }
    }
}
