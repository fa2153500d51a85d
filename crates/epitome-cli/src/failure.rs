//! What a command answers: text, JSON and an exit code; or why it cannot, in a sentence with a hint.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It is done, or there was nothing to do.
    Fine = 0,
    /// A check found errors.
    Violations = 1,
    /// The command line, the configuration or the policy is wrong.
    Usage = 2,
    /// The input or the store cannot be read.
    Unreadable = 3,
    /// It cannot be done as asked.
    CannotFit = 4,
    /// The output or the store cannot be written.
    CannotWrite = 5,
}

impl Exit {
    /// Every way to end, by its code.
    pub const ALL: [Exit; 6] =
        [Exit::Fine, Exit::Violations, Exit::Usage, Exit::Unreadable, Exit::CannotFit, Exit::CannotWrite];

    /// Returns the meaning of the code, as `--help` prints it.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Fine => "done, or there was nothing to do",
            Exit::Violations => "`check`, `policy check`, `store check` or `store rotate` found errors",
            Exit::Usage => "the command line, the configuration or the policy is wrong",
            Exit::Unreadable => "the input or the store cannot be read",
            Exit::CannotFit => {
                "it cannot be done: the budget is below the floor, the format cannot express it, no model wrote\n     \
                 the summary, the thread exists with other content, or the port is in use; nothing was written"
            }
            Exit::CannotWrite => "the output or the store cannot be written; the file is as it was",
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Exit::Fine => "fine",
            Exit::Violations => "violations",
            Exit::Usage => "usage",
            Exit::Unreadable => "unreadable",
            Exit::CannotFit => "cannot-fit",
            Exit::CannotWrite => "cannot-write",
        }
    }
}

/// What a command has to say.
#[derive(Debug)]
pub struct Answer {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: Value,
    /// How it ended.
    pub exit: Exit,
    /// What goes to standard output as it is; the rest then goes to standard error.
    pub data: Option<String>,
}

impl Answer {
    /// An answer with nothing wrong about it.
    pub fn new(text: impl Into<String>, json: Value) -> Self {
        Answer { text: text.into(), json, exit: Exit::Fine, data: None }
    }
}

/// Why a command cannot do what it was asked.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// What is wrong, and where.
    pub sentence: String,
    /// What to do next.
    pub hint: Option<String>,
    /// Numbers for programs.
    pub facts: Option<Box<Value>>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Failure { exit, sentence: sentence.into(), hint: None, facts: None }
    }

    /// The same with what to do next.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// The same with numbers for programs.
    pub fn facts(self, facts: Value) -> Self {
        Failure { facts: Some(Box::new(facts)), ..self }
    }

    /// A file that cannot be read.
    pub fn unreadable(path: &Path, why: impl fmt::Display) -> Self {
        Failure::new(Exit::Unreadable, format!("{} cannot be read: {why}.", path.display()))
    }

    /// A file that cannot be written.
    pub fn unwritable(path: &Path, why: impl fmt::Display) -> Self {
        Failure::new(Exit::CannotWrite, format!("{} cannot be written: {why}.", path.display()))
            .hint("Nothing was changed. Name another place with `-o` or `--artifacts`.")
    }

    /// It for programs.
    pub fn to_json(&self) -> Value {
        let mut error = json!({"kind": self.exit.kind(), "message": self.sentence, "exit_code": self.exit as u8});
        if let Some(hint) = &self.hint {
            error["hint"] = json!(hint);
        }
        if let Some(facts) = &self.facts {
            error["facts"] = Value::clone(facts);
        }
        json!({ "error": error })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", self.sentence)?;
        match &self.hint {
            Some(hint) => writeln!(f, "hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// An operating system's error in its own words, without its number.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}

/// An error as a sentence: a capital at its beginning, a full stop at its end.
pub fn sentence(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    let text = text.trim_end_matches('.');
    let end = if text.ends_with(['?', '!']) { "" } else { "." };
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if text.split_whitespace().next().is_some_and(|word| word.chars().all(char::is_alphabetic)) => {
            format!("{}{}{end}", first.to_uppercase(), letters.as_str())
        }
        _ => format!("{text}{end}"),
    }
}
