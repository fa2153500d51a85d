//! The results of a command: an answer as text and JSON, or a failure with a sentence and a hint; both with an exit code.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

/// An exit code; [`Exit::meaning`] explains each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Fine = 0,
    Violations = 1,
    Usage = 2,
    Unreadable = 3,
    CannotFit = 4,
    CannotWrite = 5,
}

impl Exit {
    pub const ALL: [Exit; 6] =
        [Exit::Fine, Exit::Violations, Exit::Usage, Exit::Unreadable, Exit::CannotFit, Exit::CannotWrite];

    /// Returns the meaning as `--help` prints it, in lines that fit 80 columns.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Fine => "done, or there was nothing to do",
            Exit::Violations => "check, policy check, store check or store rotate found errors",
            Exit::Usage => "the command line, the configuration or the policy is wrong",
            Exit::Unreadable => "the input or the store cannot be read",
            Exit::CannotFit => {
                "it cannot be done, and nothing was written: the budget is too small, the\n     \
                 format cannot express it, no model wrote the summary, the thread exists\n     \
                 with other content, or the port is in use"
            }
            Exit::CannotWrite => "the output or the store cannot be written; the file is unchanged",
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

/// The answer of a command.
#[derive(Debug)]
pub struct Answer {
    /// For people.
    pub text: String,
    /// For programs.
    pub json: Value,
    pub exit: Exit,
    /// A file's content for standard output; text or JSON then go to standard error.
    pub data: Option<String>,
}

impl Answer {
    pub fn new(text: impl Into<String>, json: Value) -> Self {
        Answer { text: text.into(), json, exit: Exit::Fine, data: None }
    }
}

/// The result of a command, or of a part of it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The reason that a command did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// The problem and its place.
    pub sentence: String,
    /// The next thing to do.
    pub hint: Option<String>,
    /// Numbers for programs.
    pub facts: Option<Box<Value>>,
}

impl Failure {
    pub fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Failure { exit, sentence: sentence.into(), hint: None, facts: None }
    }

    pub fn hint(self, hint: impl Into<String>) -> Self {
        Failure { hint: Some(hint.into()), ..self }
    }

    pub fn facts(self, facts: Value) -> Self {
        Failure { facts: Some(Box::new(facts)), ..self }
    }

    pub fn unreadable(path: &Path, why: impl fmt::Display) -> Self {
        Failure::new(Exit::Unreadable, format!("{} cannot be read: {why}.", path.display()))
    }

    pub fn unwritable(path: &Path, why: impl fmt::Display) -> Self {
        Failure::new(Exit::CannotWrite, format!("{} cannot be written: {why}.", path.display()))
            .hint("Nothing was changed. Name another file with `-o`, or another folder with `--artifacts`.")
    }

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

/// Returns an operating system's error without its number.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_lowercase(),
        None => text,
    }
}
