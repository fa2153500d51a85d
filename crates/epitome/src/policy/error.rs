//! What is wrong with a policy file: the key, the value, and what is allowed.

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
    /// A value that reads well but means nothing.
    pub(super) fn value(toml: &str, key: &str, value: &str, allowed: &str) -> Self {
        PolicyError {
            line: line_of(toml, key),
            key: key.to_owned(),
            value: value.to_owned(),
            problem: format!("allowed is {allowed}"),
        }
    }

    /// What the TOML reader said, with the key and the value it said it about.
    pub(super) fn from_toml(toml: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map(|span| span.start.min(toml.len()));
        let line = start.map(|start| toml[..start].matches('\n').count() + 1);
        let text = line.and_then(|line| toml.lines().nth(line - 1)).unwrap_or_default();
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        let table = start.map(|start| table_at(toml, start)).unwrap_or_default();
        let key = match (table.as_str(), key.trim()) {
            ("", key) | (_, key) if key.starts_with('[') || table.is_empty() => key.trim_matches(['[', ']']).to_owned(),
            (table, key) => format!("{table}.{key}"),
        };
        PolicyError { line, key, value: value.trim().to_owned(), problem: error.message().trim().to_owned() }
    }

    /// The key, with its table.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value as it was written.
    pub fn written(&self) -> &str {
        &self.value
    }
}

/// The table that a place in the file belongs to.
fn table_at(toml: &str, start: usize) -> String {
    let before = toml[..start].lines().rev().map(str::trim);
    let header = before.into_iter().find(|line| line.starts_with('[') && line.ends_with(']'));
    header.map(|header| header.trim_matches(['[', ']']).to_owned()).unwrap_or_default()
}

/// The line on which a key of a table is set.
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
