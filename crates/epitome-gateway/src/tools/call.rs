//! A call as a model makes it: the tool's name and JSON, understood or refused with what to do.
//!
//! Numbers may come as text, and an argument that is null is one that was not given. One that there is not is refused:
//! a model that means something by it would otherwise read the same again and again.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use epitome_runtime::recall::{FileQuestion, MessageSelection, RecallFilter, RecallRequest, Who, message_number};

use super::{Outcome, READ_ARTIFACT, RECALL, TOOLS};

/// The most lines around a line that was found.
const CONTEXT_MAX: usize = 50;
/// The most messages before and after those that are read.
const AROUND_MAX: usize = 50;
/// The most characters of a text that lines are looked for by.
const GREP_CHARS_MAX: usize = 100;

/// A call that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Reads an artifact, messages, or what the thread tells of a file.
    ReadArtifact(ReadRequest),
    /// Searches what left the prompts.
    Recall(RecallRequest),
}

/// What to read, and which part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    pub(super) target: ReadTarget,
    pub(super) part: TextPart,
}

impl ReadRequest {
    /// The name of what is read.
    pub(crate) fn name(&self) -> String {
        self.target.name()
    }
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadTarget {
    /// An artifact, by its id.
    Artifact(String),
    /// Messages, by their numbers, with so many around each.
    Messages(MessageSelection, u64),
    /// What the thread tells of a file.
    File(FileQuestion),
}

impl ReadTarget {
    /// What an id names: messages, such as `m41` or `m188-m193, m200`, or else an artifact.
    pub fn named(id: &str, around: u64) -> ReadTarget {
        match MessageSelection::parse(id) {
            Some(selection) => ReadTarget::Messages(selection, around),
            None => ReadTarget::Artifact(id.to_owned()),
        }
    }

    /// The argument that names it in a call.
    pub(super) fn key(&self) -> &'static str {
        match self {
            ReadTarget::Artifact(_) | ReadTarget::Messages(..) => "id",
            ReadTarget::File(FileQuestion::Edits(_)) => "edits",
            ReadTarget::File(FileQuestion::File(_)) => "file",
        }
    }

    /// Its name as that argument takes it.
    pub(super) fn name(&self) -> String {
        match self {
            ReadTarget::Artifact(id) => id.clone(),
            ReadTarget::Messages(selection, around) => selection.with_neighbors(*around, u64::MAX).to_string(),
            ReadTarget::File(question) => question.path().to_owned(),
        }
    }
}

impl Call {
    /// The artifact that the call reads, if it reads one.
    pub(super) fn artifact(&self) -> Option<&str> {
        match self {
            Call::ReadArtifact(ReadRequest { target: ReadTarget::Artifact(id), .. }) => Some(id),
            _ => None,
        }
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
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    edits: Option<String>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default, deserialize_with = "number")]
    around: Option<usize>,
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
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    who: Option<String>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    after: Option<Value>,
    #[serde(default)]
    newest: Option<Switch>,
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
    let target = target(arguments.id, arguments.edits, arguments.file, arguments.around)?;
    Ok(Call::ReadArtifact(ReadRequest { target, part }))
}

fn target(
    id: Option<String>,
    edits: Option<String>,
    file: Option<String>,
    around: Option<usize>,
) -> Result<ReadTarget, Outcome> {
    let around = around.unwrap_or(0).min(AROUND_MAX) as u64;
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty()).map(|text| text.trim().to_owned());
    match (id.as_deref().map(named), given(edits), given(file)) {
        (Some(Some(id)), None, None) => Ok(ReadTarget::named(&id, around)),
        (None | Some(None), Some(path), None) => Ok(ReadTarget::File(FileQuestion::Edits(path))),
        (None | Some(None), None, Some(path)) => Ok(ReadTarget::File(FileQuestion::File(path))),
        (_, None, None) => Err(Outcome::failure(
            "`id` is empty. It is what a placeholder names, or messages such as `m41` or `m188-m193`. `edits` and `file` \
             take the path of a file instead.",
        )),
        _ => Err(Outcome::failure("Give one of `id`, `edits` and `file` alone.")),
    }
}

fn recall(arguments: RecallArguments) -> Result<Call, Outcome> {
    let given = |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let who = match given(arguments.who) {
        Some(name) => Some(Who::from_name(&name.to_lowercase()).ok_or_else(|| {
            Outcome::failure(format!("`who` is `{}`, and not user, assistant or tool.", shown(&name)))
        })?),
        None => None,
    };
    let filter = RecallFilter {
        who,
        file: given(arguments.file),
        tool: given(arguments.tool),
        after: after(arguments.after)?,
        newest: arguments.newest.is_some_and(Switch::is_on),
    };
    let words = given(arguments.query).unwrap_or_default();
    if words.is_empty() && filter.is_empty() {
        return Err(Outcome::failure(
            "`query` is empty. Give words to look for, such as a name, a path or an error; or who, file, tool or after.",
        ));
    }
    Ok(Call::Recall(RecallRequest { words, filter, limit: arguments.limit, tokens_max: None }))
}

/// Yes or no, as a value or as text.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Switch {
    Value(bool),
    Text(SwitchText),
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SwitchText {
    True,
    False,
}

impl Switch {
    fn is_on(self) -> bool {
        matches!(self, Switch::Value(true) | Switch::Text(SwitchText::True))
    }
}

/// The number in `after`, as text or as a number.
fn after(value: Option<Value>) -> Result<Option<u64>, Outcome> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => text,
        Some(value) => value.to_string(),
    };
    let number = message_number(text.trim());
    number
        .map(Some)
        .ok_or_else(|| Outcome::failure(format!("`after` is `{}`, and not a message such as `m41`.", shown(&text))))
}

fn parsed<T: DeserializeOwned>(tool: &str, arguments: &str) -> Result<T, Outcome> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    // A list would be taken for the fields in their order.
    let fields = serde_json::from_str::<Map<String, Value>>(arguments);
    fields.and_then(|fields| serde_json::from_value(Value::Object(fields))).map_err(|error| {
        let error = error.to_string();
        let (what, _) = error.split_once(" at line ").unwrap_or((&error, ""));
        Outcome::failure(format!("The arguments of `{tool}` cannot be used: {what}. Call it again with its schema."))
    })
}

/// An id without what is often written around it: quotes, the word before it, an address.
fn named(id: &str) -> Option<String> {
    let around = |c: char| c.is_whitespace() || "\"'`[]()".contains(c);
    let id = id.trim_matches(around);
    let id = id.strip_prefix("epitome://").and_then(|address| address.rsplit('/').next()).unwrap_or(id);
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
        read(id, TextPart::Lines { from, to })
    }

    fn read(id: &str, part: TextPart) -> Call {
        Call::ReadArtifact(ReadRequest { target: ReadTarget::named(id, 0), part })
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
            (r#"{"id":"m1","byte":12}"#, read("m1", TextPart::After { byte: 12 })),
            (r#"{"id":"m188-m193, m200"}"#, lines("m188-m193, m200", 1, max)),
            (
                r#"{"id":"m41","around":"2"}"#,
                Call::ReadArtifact(ReadRequest {
                    target: ReadTarget::named("m41", 2),
                    part: TextPart::Lines { from: 1, to: max },
                }),
            ),
            (
                r#"{"id":"","edits":" src/a.rs "}"#,
                Call::ReadArtifact(ReadRequest {
                    target: ReadTarget::File(FileQuestion::Edits("src/a.rs".to_owned())),
                    part: TextPart::Lines { from: 1, to: max },
                }),
            ),
            (
                r#"{"file":"/x/src/a.rs"}"#,
                Call::ReadArtifact(ReadRequest {
                    target: ReadTarget::File(FileQuestion::File("/x/src/a.rs".to_owned())),
                    part: TextPart::Lines { from: 1, to: max },
                }),
            ),
        ] {
            assert_eq!(Call::parse("read_artifact", arguments), Ok(call), "{arguments}");
        }
        let valve = || RecallRequest { limit: Some(2), ..RecallRequest::from("valve") };
        let every = RecallFilter {
            who: Some(Who::User),
            file: Some("a.rs".to_owned()),
            tool: Some("read".to_owned()),
            after: Some(41),
            newest: true,
        };
        for (arguments, request) in [
            (r#"{"query":" valve ","limit":"2"}"#, valve()),
            (
                r#"{"query":"valve","limit":2,"who":"User","file":"a.rs","tool":"read","after":"m41","newest":true}"#,
                RecallRequest { filter: every, ..valve() },
            ),
            (
                r#"{"after":41}"#,
                RecallRequest {
                    filter: RecallFilter { after: Some(41), ..RecallFilter::default() },
                    ..RecallRequest::default()
                },
            ),
        ] {
            assert_eq!(Call::parse("recall", arguments), Ok(Call::Recall(request)), "{arguments}");
        }
    }

    #[test]
    fn what_cannot_be_used_says_what_to_do() {
        for (name, arguments, says) in [
            ("read_artefact", "{}", "There is no tool `read_artefact`. There are `read_artifact` and `recall`."),
            ("read_artifact", "", "`id` is empty"),
            ("read_artifact", r#"{"id":"m1","file":"a.rs"}"#, "Give one of"),
            ("recall", r#"{"query":"x","who":"me"}"#, "not user, assistant or tool"),
            ("recall", r#"{"query":"x","after":"yesterday"}"#, "not a message such as `m41`"),
            ("read_artifact", "{\"id\":", "EOF while parsing"),
            ("read_artifact", "[]", "cannot be used"),
            ("read_artifact", r#"{"id":7}"#, "expected a string"),
            ("read_artifact", r#"{"id":" "}"#, "`id` is empty"),
            ("read_artifact", r#"{"id":"m1","offset":3}"#, "unknown field `offset`"),
            ("read_artifact", r#"{"id":"m1","from":-1}"#, "-1 is not a number from 0 up"),
            ("read_artifact", r#"{"id":"m1","from":1.5}"#, "1.5 is not a number from 0 up"),
            ("read_artifact", r#"{"id":"m1","from":9,"to":3}"#, "cannot come after"),
            ("recall", r#"{"query":""}"#, "`query` is empty"),
            ("recall", r#"{"limit":3}"#, "`query` is empty"),
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
            let value = |name: &String| match (schema["properties"][name]["type"].as_str(), name.as_str()) {
                (Some("string"), "who") => "\"user\"",
                (Some("string"), "after") => "\"m1\"",
                (Some("string"), _) => "\"x\"",
                (Some("boolean"), _) => "true",
                _ => "1",
            };
            // Of what names the target one is given.
            let all = all.filter(|name| tool.name == RECALL.name || !["edits", "file"].contains(&name.as_str()));
            let every: Vec<String> = all.map(|name| format!("\"{name}\":{}", value(name))).collect();
            assert!(Call::parse(tool.name, &format!("{{{}}}", every.join(","))).is_ok(), "{}", tool.name);
        }
    }
}
