//! How a tool call ended: read from what the dialect declares, and from what the tool printed.
//!
//! It claims nothing: where neither the dialect nor the output tells, there is no outcome. What a tool only shows (a
//! file, a log, hits of a search) tells of other things than the call, and is not read for failures.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::meaning::Meaning;
use super::tools::{ToolClass, Tools};
use crate::thread::{Outcome, Thread, ToolCall, ToolResult};

/// How a tool call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// The outcome; `None`: nothing tells.
    pub outcome: Option<Outcome>,
    /// The exit status, where it is told.
    pub exit: Option<i32>,
}

impl Ending {
    /// Whether it failed.
    pub fn failed(self) -> bool {
        self.outcome == Some(Outcome::Failure)
    }
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        Ending { outcome: Some(outcome), exit: None }
    }
}

impl Tools {
    /// How the call behind a result at a place of a thread ended.
    pub fn ending_at(&self, thread: &Thread, place: usize, result: &ToolResult) -> Ending {
        self.ending(thread.call_of(place, result), result)
    }

    /// How a call ended, by its result.
    pub fn ending(&self, call: Option<&ToolCall>, result: &ToolResult) -> Ending {
        let meaning = match call {
            Some(call) => self.meaning(call),
            None => Meaning { class: self.class(&result.tool), ..Meaning::default() },
        };
        let name = call.map_or(&*result.tool, |call| &*call.name);
        let told = Output::of(&meaning, name).read(&result.text);
        match (result.outcome, told.outcome) {
            // A declared failure is the host's own word; a declared success often only means that there was an answer.
            (Some(Outcome::Failure), _) => Ending { outcome: Some(Outcome::Failure), ..told },
            (declared, None) => Ending { outcome: declared, ..told },
            (_, Some(_)) => told,
        }
    }
}

/// What an output is, by the call that it answers: it decides what may be read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// The text of a file, hits of a search, or what was just written.
    Shown,
    /// What a tool looked up: its envelope tells of the call, the record inside does not.
    Record,
    /// What a shell command printed that only shows text.
    Printed,
    /// What a command, or a tool nobody knows, reports; its status may have been lost to a pipe.
    Report { pipes: bool },
}

impl Output {
    fn of(meaning: &Meaning, tool: &str) -> Output {
        match (meaning.class, meaning.command.as_deref()) {
            (Some(ToolClass::Read | ToolClass::Write | ToolClass::Patch | ToolClass::Plan), _) => Output::Shown,
            (Some(ToolClass::Search | ToolClass::MemoryRead), _) => Output::Shown,
            (_, Some(command)) if only_shows(command) => Output::Printed,
            (_, Some(command)) => Output::Report { pipes: loses_status(command) },
            (Some(ToolClass::Exec), None) => Output::Report { pipes: false },
            _ if looks_up(tool) => Output::Record,
            _ => Output::Report { pipes: false },
        }
    }

    fn read(self, text: &str) -> Ending {
        let text = text.trim();
        match self {
            Output::Shown => refused(text).or_else(|| shown_failure(text)).unwrap_or_default(),
            Output::Record => refused(text)
                .or_else(|| json(text, Fields::Envelope))
                .or_else(|| shown_failure(text))
                .unwrap_or_default(),
            Output::Printed => {
                let status = || host_status(text).map(by_status);
                refused(text)
                    .or_else(status)
                    .or_else(|| stopped(text))
                    .or_else(|| shell_failure(text))
                    .unwrap_or_default()
            }
            Output::Report { pipes } => report(text, pipes),
        }
    }
}

fn report(text: &str, pipes: bool) -> Ending {
    if let Some(ending) = refused(text).or_else(|| json(text, Fields::All)) {
        return ending;
    }
    match host_status(text).or_else(|| status_nearby(text)).map(by_status) {
        // The status of a pipe is that of its last command: `make test | tail` ends well whatever the tests do.
        Some(ending) if pipes && ending.exit == Some(0) && verdict(text) == Some(Outcome::Failure) => {
            Ending { outcome: Some(Outcome::Failure), exit: None }
        }
        Some(ending) => ending,
        None => {
            let failure = leading_failure(text).or_else(|| stopped(text));
            let verdict = verdict(text).map(Ending::from);
            failure.or(verdict).or_else(|| cut_short(text)).unwrap_or_default()
        }
    }
}

// --- What a call is ------------------------------------------------------------------------------------------------

/// Verbs with which tools are named that look something up.
const LOOKING_UP: [&str; 14] = [
    "get", "list", "read", "fetch", "search", "find", "show", "view", "describe", "query", "lookup", "retrieve",
    "download", "recall",
];

/// Whether a tool is named after looking something up: `get_issue`, `mcp__tracker__listIssues`.
fn looks_up(tool: &str) -> bool {
    let name = tool.rsplit("__").next().unwrap_or(tool).rsplit('.').next().unwrap_or(tool);
    let end = name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(name.len());
    let first = if end == 0 { name.to_ascii_lowercase() } else { name[..end].to_owned() };
    LOOKING_UP.contains(&first.as_str())
}

/// Programs that show text, and those that do nothing to it.
const SHOWING: [&str; 50] = [
    "cat",
    "head",
    "tail",
    "sed",
    "awk",
    "nl",
    "less",
    "more",
    "bat",
    "type",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "ack",
    "find",
    "fd",
    "ls",
    "dir",
    "tree",
    "wc",
    "sort",
    "uniq",
    "cut",
    "tr",
    "column",
    "jq",
    "yq",
    "xxd",
    "hexdump",
    "strings",
    "diff",
    "cd",
    "pwd",
    "echo",
    "printf",
    "export",
    "set",
    "source",
    "journalctl",
    "dmesg",
    "zcat",
    "stat",
    "file",
    "which",
    "env",
    "date",
    "true",
    "sleep",
];
/// Programs with subcommands that show text.
const SHOWING_SUBCOMMANDS: [(&str, &[&str]); 7] = [
    (
        "git",
        &["log", "show", "diff", "status", "blame", "grep", "branch", "ls-files", "cat-file", "reflog", "shortlog"],
    ),
    ("gh", &["run", "pr", "issue", "api", "release", "search"]),
    ("docker", &["logs", "ps", "inspect", "images"]),
    ("kubectl", &["logs", "get", "describe", "events"]),
    ("systemctl", &["status"]),
    ("svn", &["log", "diff", "cat"]),
    ("hg", &["log", "diff", "cat"]),
];

/// Whether all that a shell command does is to show text: every program in it shows text.
fn only_shows(command: &str) -> bool {
    let mut programs = command.split(['|', ';', '&', '\n']).map(str::trim).filter(|piece| !piece.is_empty()).peekable();
    programs.peek().is_some() && programs.all(shows)
}

fn shows(command: &str) -> bool {
    let mut words = command.split_whitespace().filter(|word| !word.contains('='));
    let Some(program) = words.next().map(|word| word.rsplit('/').next().unwrap_or(word)) else { return true };
    // What follows a redirection sign is `1`, as in `2>&1`, or a file.
    if SHOWING.contains(&program) || program.starts_with('#') || program.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    let subcommand = words.find(|word| !word.starts_with('-')).unwrap_or_default();
    SHOWING_SUBCOMMANDS.iter().any(|(name, shown)| *name == program && shown.contains(&subcommand))
}

/// Whether a shell command's status is not that of the program it is about.
fn loses_status(command: &str) -> bool {
    let bytes = command.as_bytes();
    let is_pipe = |at: usize| {
        bytes[at] == b'|'
            && bytes.get(at + 1) != Some(&b'|')
            && (at == 0 || bytes[at - 1] != b'|' && bytes[at - 1] != b'>')
    };
    command.contains("|| true")
        || command.contains("|| echo")
        || command.contains("; ")
        || (0..bytes.len()).any(is_pipe) && !command.contains("pipefail")
}

// --- Exit statuses -------------------------------------------------------------------------------------------------

/// How many lines, and bytes, at either end of an output hold what the host adds to it.
const EDGE_LINES: usize = 6;
const EDGE_BYTES: usize = 400;
/// Longer lines are not a host's.
const HOST_LINE_BYTES_MAX: usize = 160;

/// How lines begin, in lower case, with which hosts tell an exit status.
const HOST_STATUS: [&str; 16] = [
    "exit code",
    "exit_code",
    "exitcode",
    "exit status:",
    "(exit code",
    "[exit code",
    "[exit status",
    "process exited with",
    "command exited with",
    "command failed with exit",
    "command finished with exit",
    "command execution was not successful",
    "command executed",
    "<returncode>",
    "<exit_code>",
    "returncode:",
];
/// Words before an exit status inside a line, in lower case.
const STATUS_WORDS: [&str; 9] = [
    "exit code",
    "exit status",
    "exited with code",
    "exited with status",
    "exited with exit code",
    "exit_code",
    "exitcode",
    "returncode",
    "return code",
];

fn by_status(code: i32) -> Ending {
    let outcome = if code == 0 { Outcome::Success } else { Outcome::Failure };
    Ending { outcome: Some(outcome), exit: Some(code) }
}

/// The status that a host tells on a line of its own, at either end of an output.
fn host_status(text: &str) -> Option<i32> {
    let told = |line: &&str| HOST_STATUS.iter().any(|start| begins(line, start));
    edge_lines(text).find(told).and_then(status_in)
}

/// A status that is told at the end of an output, whoever tells it; the last one counts.
fn status_nearby(text: &str) -> Option<i32> {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(EDGE_BYTES))..];
    tail.lines().rev().filter(|line| line.len() <= HOST_LINE_BYTES_MAX).find_map(status_in)
}

/// The short lines at both ends of an output.
fn edge_lines(text: &str) -> impl Iterator<Item = &str> {
    let head = &text[..text.floor_char_boundary(EDGE_BYTES)];
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(EDGE_BYTES))..];
    let lines = head.lines().take(EDGE_LINES).chain(tail.lines().rev().take(EDGE_LINES));
    lines.map(str::trim).filter(|line| !line.is_empty() && line.len() <= HOST_LINE_BYTES_MAX)
}

/// The number behind the words for an exit status.
fn status_in(line: &str) -> Option<i32> {
    let lower = line.to_ascii_lowercase();
    STATUS_WORDS.iter().chain(&["exited with"]).find_map(|words| {
        let rest = lower.split_once(words)?.1;
        let rest = rest.trim_start_matches([' ', ':', '=', '>', '"', '\'', '`']);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

// --- JSON ----------------------------------------------------------------------------------------------------------

/// Longer outputs are not read as JSON: what tells how a call ended is not that long.
const JSON_BYTES_MAX: usize = 256 * 1024;

/// Which fields tell of the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    /// Those of an envelope: errors and flags.
    Envelope,
    /// Those, and the states and codes of what was done.
    All,
}

const EXIT_FIELDS: [&str; 7] =
    ["exit_code", "exitCode", "returncode", "return_code", "returnCode", "exit_status", "exitStatus"];
/// Fields that hold an envelope of their own.
const INNER: [&str; 6] = ["metadata", "meta", "result", "details", "outcome", "response"];
/// Fields beside which `code` and `exit` are the status of a command.
const BESIDE_CODE: [&str; 9] = ["stdout", "stderr", "output", "signal", "message", "msg", "error", "cmd", "command"];
const FAILED_STATES: [&str; 14] = [
    "failed",
    "failure",
    "fail",
    "error",
    "errored",
    "rejected",
    "denied",
    "timeout",
    "timed_out",
    "crashed",
    "cancelled",
    "canceled",
    "aborted",
    "killed",
];
const PARTIAL_STATES: [&str; 6] = ["partial", "incomplete", "interrupted", "in_progress", "running", "truncated"];
const GOOD_STATES: [&str; 8] = ["success", "succeeded", "successful", "ok", "completed", "complete", "passed", "done"];

fn json(text: &str, fields: Fields) -> Option<Ending> {
    if !text.starts_with(['{', '[']) || text.len() > JSON_BYTES_MAX {
        return None;
    }
    match serde_json::from_str(text).ok()? {
        Value::Object(object) => in_object(&object, fields),
        Value::Array(items) => {
            let endings = items.iter().filter_map(|item| in_object(item.as_object()?, fields));
            endings.min_by_key(|ending| ending.outcome.map_or(3, severity))
        }
        _ => None,
    }
}

fn severity(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Failure => 0,
        Outcome::Partial => 1,
        Outcome::Success => 2,
    }
}

fn in_object(object: &Map<String, Value>, fields: Fields) -> Option<Ending> {
    if fields == Fields::All
        && let Some(code) = exit_field(object)
    {
        return Some(by_status(code));
    }
    let flag = |names: &[&str]| names.iter().find_map(|name| object.get(*name)?.as_bool());
    let is_set = |names: &[&str]| flag(names) == Some(true);
    let failed = is_set(&["is_error", "isError", "timed_out", "timedOut", "timeout"])
        || flag(&["success", "ok", "succeeded"]) == Some(false);
    let well = is_set(&["success", "ok", "succeeded"]) || flag(&["is_error", "isError"]) == Some(false);
    let told = match () {
        () if failed => Some(Outcome::Failure),
        () if well => Some(Outcome::Success),
        () if ["error", "errors", "error_code"].iter().any(|name| object.get(*name).is_some_and(says_something)) => {
            Some(Outcome::Failure)
        }
        () if is_set(&["interrupted", "truncated", "incomplete"]) => Some(Outcome::Partial),
        () if fields == Fields::All => state_of(object),
        () => None,
    };
    let inner = || INNER.iter().find_map(|name| in_object(object.get(*name)?.as_object()?, fields));
    let own = told.map(Ending::from);
    // What is inside tells the exit status, where there is one.
    if own.is_none_or(|ending| !ending.failed()) { inner().or(own) } else { own }
}

fn exit_field(object: &Map<String, Value>) -> Option<i32> {
    let number = |name: &str| object.get(name)?.as_i64().and_then(|code| i32::try_from(code).ok());
    let named = EXIT_FIELDS.iter().find_map(|name| number(name));
    let beside = BESIDE_CODE.iter().any(|name| object.contains_key(*name));
    named.or_else(|| {
        number("code").or_else(|| number("exit")).filter(|_| beside).map(|code| match code {
            // Some interfaces answer with HTTP's codes.
            200..=299 => 0,
            code => code,
        })
    })
}

fn state_of(object: &Map<String, Value>) -> Option<Outcome> {
    let word = ["status", "state", "outcome", "conclusion", "result", "type"].iter().find_map(|name| {
        let word = object.get(*name)?.as_str()?.trim().to_ascii_lowercase().replace([' ', '-'], "_");
        let outcome = match () {
            () if FAILED_STATES.contains(&word.as_str()) => Outcome::Failure,
            () if PARTIAL_STATES.contains(&word.as_str()) => Outcome::Partial,
            () if GOOD_STATES.contains(&word.as_str()) => Outcome::Success,
            () => return None,
        };
        Some(outcome)
    });
    word.or_else(|| match object.get("status")?.as_i64()? {
        400..=599 => Some(Outcome::Failure),
        200..=299 => Some(Outcome::Success),
        _ => None,
    })
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(said) => *said,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(words) => !words.trim().is_empty() && words != "(none)" && words != "none",
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

// --- Words of hosts ------------------------------------------------------------------------------------------------

/// How an output begins, in lower case, when the call was not made: the user or a rule refused it.
const REFUSED: [&str; 12] = [
    "the user doesn't want to proceed",
    "the user doesn't want to take this action",
    "user rejected",
    "user denied",
    "user declined",
    "the user rejected",
    "the user denied",
    "the user declined",
    "tool use was rejected",
    "permission to use",
    "rejected by user",
    "<tool_use_error>",
];
/// How an output begins, in lower case, when the call was broken off.
const BROKEN_OFF: [&str; 8] = [
    "[request interrupted by user",
    "request interrupted by user",
    "interrupted by user",
    "aborted by user",
    "user aborted the command",
    "command was aborted",
    "command aborted",
    "(command cancelled)",
];
/// Words of a short line at either end, in lower case, that say that the time was up.
const TIMED_OUT: [&str; 8] = [
    "timed out after",
    "command timed out",
    "execution timed out",
    "operation timed out",
    "request timed out",
    "exceeding timeout",
    "timeout exceeded",
    "deadline exceeded",
];
/// Words of a short line at either end, in lower case, that say that not all of it is there.
const CUT_SHORT: [&str; 4] = ["[output truncated", "output was truncated", "[truncated", "<response clipped>"];

fn refused(text: &str) -> Option<Ending> {
    if REFUSED.iter().any(|start| begins(text, start)) {
        return Some(Outcome::Failure.into());
    }
    BROKEN_OFF.iter().any(|start| begins(text, start)).then(|| Outcome::Partial.into())
}

/// Whether the time was up, or somebody broke the call off.
fn stopped(text: &str) -> Option<Ending> {
    let lines = || edge_lines(text).map(str::to_ascii_lowercase);
    let timed_out =
        |line: String| TIMED_OUT.iter().any(|words| line.contains(words)) || line == "timed out" || line == "timeout";
    if lines().any(timed_out) {
        return Some(Outcome::Failure.into());
    }
    let broken_off = |line: String| BROKEN_OFF.iter().any(|start| line.starts_with(start)) || line == "^c";
    lines().any(broken_off).then(|| Outcome::Partial.into())
}

fn cut_short(text: &str) -> Option<Ending> {
    let is_cut = |line: &str| CUT_SHORT.iter().any(|words| line.to_ascii_lowercase().contains(words));
    edge_lines(text).any(is_cut).then(|| Outcome::Partial.into())
}

/// Whether a text begins with words that are given in lower case.
fn begins(text: &str, words: &str) -> bool {
    text.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words))
}

// --- Failures in words ---------------------------------------------------------------------------------------------

/// The longest answer of a tool that shows things and had nothing to show.
const SHORT_ANSWER_BYTES_MAX: usize = 300;
/// How an output begins, in lower case, that reports a failure.
const FAILURES: [&str; 18] = [
    "error:",
    "error[",
    "error -",
    "error while",
    "error executing",
    "error running",
    "error occurred",
    "an error occurred",
    "fatal:",
    "traceback (most recent call last)",
    "panic:",
    "exception:",
    "uncaught ",
    "unhandled ",
    "command failed",
    "failed to ",
    "permission denied",
    "request failed",
];
/// How a tool begins, in lower case, that had nothing to show.
const NOTHING_TO_SHOW: [&str; 8] = [
    "file does not exist",
    "no such file",
    "file not found",
    "enoent",
    "eacces",
    "eisdir",
    "string to replace not found",
    "cannot read",
];

fn leading_failure(text: &str) -> Option<Ending> {
    FAILURES.iter().any(|start| begins(text, start)).then(|| Outcome::Failure.into())
}

/// A short answer that reports a failure: what is shown of a file or a log is longer, or begins otherwise.
fn shown_failure(text: &str) -> Option<Ending> {
    let is_short = text.len() <= SHORT_ANSWER_BYTES_MAX && text.lines().count() <= 3;
    let fails = || FAILURES.iter().chain(&NOTHING_TO_SHOW).any(|start| begins(text, start));
    (is_short && fails()).then(|| Outcome::Failure.into())
}

/// A shell, or a program that was to show a file, says in one line that it could not.
fn shell_failure(text: &str) -> Option<Ending> {
    let line = text.lines().next().unwrap_or_default();
    let is_only = text.lines().count() <= 2 && line.len() <= SHORT_ANSWER_BYTES_MAX;
    let says = line.ends_with("No such file or directory")
        || line.ends_with("command not found")
        || line.ends_with("Permission denied")
        || line.ends_with("Is a directory")
        || line.starts_with("fatal: ");
    (is_only && says).then(|| Outcome::Failure.into())
}

// --- Verdicts of tools that build and test -------------------------------------------------------------------------

/// How much of an output's end, and of its beginning, is read for a verdict.
const VERDICT_TAIL_BYTES: usize = 16 * 1024;
const VERDICT_HEAD_BYTES: usize = 4 * 1024;

/// The verdict of a build, a test run or an interpreter: one failure is a failure.
fn verdict(text: &str) -> Option<Outcome> {
    let head = match text.len() > VERDICT_TAIL_BYTES {
        true => &text[..text.floor_char_boundary(VERDICT_HEAD_BYTES.min(text.len() - VERDICT_TAIL_BYTES))],
        false => "",
    };
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(VERDICT_TAIL_BYTES))..];
    let mut verdict = None;
    for line in tail.lines().rev().chain(head.lines()) {
        match line_verdict(&plain(line)) {
            Some(Outcome::Success) => verdict = Some(Outcome::Success),
            Some(failure) => return Some(failure),
            None => {}
        }
    }
    verdict
}

/// A line without the codes that color it.
fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line);
    }
    let mut pieces = line.split('\u{1b}');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| c.is_ascii_alphabetic()).map_or(piece.len(), |at| at + 1);
        out.push_str(piece.get(end..).unwrap_or_default());
    }
    Cow::Owned(out)
}

/// How lines begin that report a failure, as the tools spell them.
const FAILED_LINES: [&str; 36] = [
    "test result: FAILED",
    "error: could not compile",
    "error: aborting due to",
    "error: test failed",
    "error: process didn't exit successfully",
    "error: build failed",
    "error[E",
    "FAILED ",
    "FAIL\t",
    "FAIL ",
    "FAIL: ",
    "--- FAIL:",
    "ERROR tests/",
    "panic: ",
    "Traceback (most recent call last):",
    "[INFO] BUILD FAILURE",
    "[ERROR] BUILD FAILURE",
    "BUILD FAILED",
    "BUILD FAILURE",
    "Build FAILED",
    "FAILURE: Build failed",
    "FAILURES!",
    "** BUILD FAILED **",
    "** TEST FAILED **",
    "npm ERR!",
    "npm error ",
    "error Command failed with exit code",
    "ELIFECYCLE",
    "ninja: build stopped",
    "collect2: error",
    "ld: symbol(s) not found",
    "Node.js v",
    "fatal: ",
    "error: failed to ",
    "ERROR: failed to ",
    "CONFLICT (",
];
/// How lines begin that report that all went well.
const GOOD_LINES: [&str; 8] = [
    "test result: ok.",
    "[INFO] BUILD SUCCESS",
    "BUILD SUCCESSFUL",
    "Build succeeded.",
    "** BUILD SUCCEEDED **",
    "** TEST SUCCEEDED **",
    "ok  \t",
    "OK (",
];
/// Shells, which name themselves before what they could not do.
const SHELLS: [&str; 6] = ["bash: ", "sh: ", "zsh: ", "/bin/sh: ", "/bin/bash: ", "-bash: "];

fn line_verdict(line: &str) -> Option<Outcome> {
    let line = line.trim_start_matches([' ', '>']).trim_end();
    if line.is_empty() || line.len() > 400 {
        return None;
    }
    if FAILED_LINES.iter().any(|start| line.starts_with(start))
        || line == "FAIL"
        || line == "FAILED"
        || is_compiler_error(line)
        || is_make_error(line)
        || line.starts_with("thread '") && line.contains("panicked at")
        || SHELLS.iter().any(|shell| line.starts_with(shell)) && line.ends_with("not found")
    {
        return Some(Outcome::Failure);
    }
    if let Some(outcome) = counted(line) {
        return Some(outcome);
    }
    (line == "OK" || GOOD_LINES.iter().any(|start| line.starts_with(start))).then_some(Outcome::Success)
}

/// `main.c:3:5: error: …`, `src/a.ts(3,5): error TS2322: …`, `src/a.ts:3:5 - error TS2322: …`.
fn is_compiler_error(line: &str) -> bool {
    let Some((place, _)) = [": error:", ": fatal error:", ": error TS", ": error CS", " - error TS"]
        .iter()
        .find_map(|sign| line.split_once(sign))
    else {
        return false;
    };
    !place.is_empty()
        && !place.contains(['"', '\'', '`', '=', '{'])
        && place.ends_with(|c: char| c.is_ascii_digit() || c == ')' || c == 'd')
}

/// `make: *** [Makefile:3: all] Error 2`, `make[1]: *** …`.
fn is_make_error(line: &str) -> bool {
    let rest = ["make", "gmake", "mingw32-make"].iter().find_map(|program| line.strip_prefix(program));
    rest.and_then(|rest| rest.split_once(": *** ")).is_some_and(|(level, _)| level.is_empty() || level.starts_with('['))
}

/// Words for what did not go well, and for what did, in lower case.
const COUNTED_BAD: [&str; 6] = ["failed", "failing", "failure", "error", "errored", "timed out"];
const COUNTED_GOOD: [&str; 3] = ["passed", "passing", "succeeded"];

/// The verdict of a line that counts: `3 passed, 2 failed`, `Tests run: 5, Failures: 1`, `✖ 3 problems (2 errors)`.
fn counted(line: &str) -> Option<Outcome> {
    if !is_tally(line) {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    let counts = |words: &[&str]| -> Vec<u64> { words.iter().flat_map(|word| counts_of(&lower, word)).collect() };
    let (bad, good) = (counts(&COUNTED_BAD), counts(&COUNTED_GOOD));
    match () {
        () if bad.iter().any(|count| *count > 0) => Some(Outcome::Failure),
        () if !bad.is_empty() || good.iter().any(|count| *count > 0) => Some(Outcome::Success),
        () => None,
    }
}

/// The numbers that a line counts a word with: `2 failed`, `0 tests failed`, `Failures: 1`, `errors=1`.
fn counts_of(lower: &str, word: &str) -> Vec<u64> {
    let count = |(at, _): (usize, &str)| {
        let before = lower[..at].trim_end();
        let before = ["tests", "test"].iter().find_map(|unit| before.strip_suffix(unit)).unwrap_or(before).trim_end();
        let digits = before.bytes().rev().take_while(u8::is_ascii_digit).count();
        let behind = lower[at + word.len()..].trim_start_matches(|c: char| c.is_ascii_lowercase());
        let behind = behind.trim_start().strip_prefix([':', '=']).map(str::trim_start);
        match digits {
            0 => behind.and_then(|text| {
                let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
                text[..end].parse().ok()
            }),
            digits => before[before.len() - digits..].parse().ok(),
        }
    };
    lower.match_indices(word).filter_map(count).collect()
}

/// How the tallies of test runs and linters begin.
const TALLIES: [&str; 14] = [
    "Tests:",
    "Tests ",
    "Test Suites:",
    "Test Files ",
    "Tests run:",
    "[ERROR] Tests run:",
    "[INFO] Tests run:",
    "FAILED (",
    "Failed!",
    "Passed!",
    "✖ ",
    "Found ",
    "===",
    "Suites:",
];
/// The most words of a tally that begins with a number.
const TALLY_WORDS_MAX: usize = 14;

/// Whether a line is the tally of a test run or a linter, and not a sentence with a number in it.
fn is_tally(line: &str) -> bool {
    let begins_with_count = line.starts_with(|c: char| c.is_ascii_digit())
        && line.split_whitespace().count() <= TALLY_WORDS_MAX
        && ["passed", "failed", "passing", "failing", "examples,"].iter().any(|word| line.contains(word));
    begins_with_count || TALLIES.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests;
