//! Errors in a policy file: the key, the value, and what is allowed.

use std::fmt;

/// A mistake in a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    line: Option<usize>,
    key: String,
    value: String,
    problem: String,
}

impl PolicyError {
    /// Reports a value that parses but is not allowed.
    pub(super) fn value(toml: &str, key: &str, value: &str, allowed: &str) -> Self {
        PolicyError {
            line: line_of(toml, key),
            key: key.to_owned(),
            value: value.to_owned(),
            problem: format!("allowed is {allowed}"),
        }
    }

    /// Reports what the TOML parser said, with the key and the value.
    pub(super) fn from_toml(toml: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map(|span| span.start.min(toml.len()));
        let line = start.map(|start| toml[..start].matches('\n').count() + 1);
        let text = line.and_then(|line| toml.lines().nth(line - 1)).unwrap_or_default();
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let table = start.map(|start| table_at(toml, start)).unwrap_or_default();
        let message = error.message().trim();
        if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            let key = if table.is_empty() { field.to_owned() } else { format!("{table}.{field}") };
            return PolicyError { line: None, key, value: String::new(), problem: "it is missing".to_owned() };
        }
        let key = match (table.as_str(), key.trim()) {
            ("", key) | (_, key) if key.starts_with('[') || table.is_empty() => key.trim_matches(['[', ']']).to_owned(),
            (table, key) => format!("{table}.{key}"),
        };
        PolicyError { line, key, value: value.trim().to_owned(), problem: in_words(message) }
    }

    /// Returns the key, with its table.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the value as it was written.
    pub fn written(&self) -> &str {
        &self.value
    }
}

/// Rewrites the TOML parser's message with plain names for kinds of numbers.
fn in_words(message: &str) -> String {
    let kinds = [("u8", WHOLE), ("u16", WHOLE), ("u32", WHOLE), ("u64", WHOLE), ("usize", WHOLE), ("f64", "a number")];
    let Some((said, expected)) = message.rsplit_once("expected ") else { return message.to_owned() };
    let said = said.split(" as ").next().unwrap_or(said).trim_end_matches([',', ' ']);
    match kinds.iter().find(|(kind, _)| *kind == expected) {
        Some((_, words)) => format!("{said}, allowed is {words}"),
        None => message.to_owned(),
    }
}

const WHOLE: &str = "a whole number from 0 on";

/// Returns the table that an offset of the file belongs to.
fn table_at(toml: &str, start: usize) -> String {
    let before = toml[..start].lines().rev().map(str::trim);
    let header = before.into_iter().find(|line| line.starts_with('[') && line.ends_with(']'));
    header.map(|header| header.trim_matches(['[', ']']).to_owned()).unwrap_or_default()
}

/// Returns the line on which a key of a table is set.
fn line_of(toml: &str, key: &str) -> Option<usize> {
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut current = String::new();
    for (at, line) in toml.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            current = line.trim_matches(['[', ']']).to_owned();
        } else if current == table && line.split('=').next().is_some_and(|left| left.trim() == name) {
            return Some(at + 1);
        }
    }
    None
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match (self.key.is_empty(), self.value.is_empty()) {
            (true, _) => write!(f, "{}", self.problem),
            (false, true) => write!(f, "`{}`: {}", self.key, self.problem),
            (false, false) => write!(f, "`{} = {}`: {}", self.key, self.value, self.problem),
        }
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use crate::policy::Policy;

    #[test]
    fn a_mistake_is_told_with_its_key_its_value_and_what_is_allowed() {
        let head = "name = \"x\"\nabout = \"a\"\n";
        let trigger = "[trigger]\nat = { share_of_window = 0.8 }\n";
        let cases = [
            (format!("{head}rungs = [\"trim\"]\n{trigger}"), "`version`: it is missing"),
            (
                format!("{head}version = -1\nrungs = [\"trim\"]\n{trigger}"),
                "line 3: `version = -1`: invalid value: integer `-1`, allowed is a whole number from 0 on",
            ),
            (format!("{head}version = 1\nrungs = []\n{trigger}"), "line 4: `rungs = []`: allowed is at least one rung"),
            (
                format!("{head}version = 1\nrungs = [\"trim\"]\n{trigger}window = 0\n"),
                "line 7: `trigger.window = 0`: allowed is a whole number above 0",
            ),
            (
                format!("{head}version = 1\nrungs = [\"trim\"]\n{trigger}[protect]\nrecent_turns = \"three\"\n"),
                "line 8: `protect.recent_turns = \"three\"`: invalid type: string \"three\", allowed is a whole number from 0 on",
            ),
        ];
        for (toml, expected) in cases {
            assert_eq!(Policy::parse(&toml).expect_err(expected).to_string(), expected);
        }
    }
}
