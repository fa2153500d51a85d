//! The outcome of a tool call: read from what the dialect declares, and from what the tool printed.
//!
//! The call decides how its output may be read. The same line, "error: 2 tests failed", in the outputs of four calls:
//!
//! ```text
//! read notes.md            Shown      no outcome   it is text of a file, not of the call
//! mcp__ci__get_run         Record     no outcome   the record tells of another run; only its envelope tells of the call
//! cat log.txt              Printed    no outcome   unless the shell or the host reports that `cat` itself failed
//! make test | tail -5      Report     failure      read in this order, the first that tells wins:
//!                                                  1. the host's refusal ("The user rejected …")
//!                                                  2. JSON: an exit code, `is_error`, `success`, a state
//!                                                  3. an exit status on a line of its own ("Exit code 1")
//!                                                  4. a failure as the first words, a timeout, an interruption
//!                                                  5. the verdict of a build or a test run ("3 passed, 2 failed")
//! ```
//!
//! `make test | tail -5` ends with status 0 whatever the tests do, so for a pipe a verdict of failure beats a status of 0.
//! Where nothing tells there is no outcome: a guess would mark an open error as fixed, or a success as failed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::call::CallMeaning;
use super::tools::{ToolClass, Tools};
use crate::table::{LowerList, WordList};
use crate::thread::{Outcome, Thread, ToolCall, ToolResult};

/// The words of `data/outcome.toml`, which says where each list is looked for.
static WORDS: LazyLock<OutcomeWords> = LazyLock::new(|| crate::embedded_table!("outcome.toml"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutcomeWords {
    looking_up: LowerList,
    showing: WordList,
    showing_subcommands: BTreeMap<String, WordList>,
    host_status: LowerList,
    status_words: LowerList,
    exit_fields: WordList,
    inner: WordList,
    beside_code: WordList,
    failed_states: LowerList,
    partial_states: LowerList,
    good_states: LowerList,
    refused: LowerList,
    broken_off: LowerList,
    timed_out: LowerList,
    cut_short: LowerList,
    running: LowerList,
    running_states: LowerList,
    failures: LowerList,
    nothing_to_show: LowerList,
    failed_lines: WordList,
    good_lines: WordList,
    shells: WordList,
    counted_bad: LowerList,
    counted_good: LowerList,
    tallies: WordList,
}

/// The outcome and the exit status of a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallEnding {
    /// The outcome; `None` where nothing tells.
    pub(crate) outcome: Option<Outcome>,
    /// The exit status, where one is reported.
    pub(crate) exit: Option<i32>,
}

impl CallEnding {
    pub(crate) fn failed(self) -> bool {
        self.outcome == Some(Outcome::Failure)
    }
}

impl From<Outcome> for CallEnding {
    fn from(outcome: Outcome) -> Self {
        CallEnding { outcome: Some(outcome), exit: None }
    }
}

impl Tools {
    /// Reads how the call behind a result at a place of a thread ended.
    pub(crate) fn ending_at(&self, thread: &Thread, place: usize, result: &ToolResult) -> CallEnding {
        self.ending(thread.call_of(place, result), result)
    }

    /// Tells whether a call failed, by what its result declares and what it printed.
    pub fn has_failed(&self, call: Option<&ToolCall>, result: &ToolResult) -> bool {
        self.ending(call, result).failed()
    }

    /// Reads how a call ended from its result.
    pub(crate) fn ending(&self, call: Option<&ToolCall>, result: &ToolResult) -> CallEnding {
        let meaning = match call {
            Some(call) => self.meaning(call),
            None => CallMeaning { class: self.class(&result.tool), ..CallMeaning::default() },
        };
        let name = call.map_or(&*result.tool, |call| &*call.name);
        let read = Output::of(&meaning, name).read(&result.text);
        match (result.outcome, read.outcome) {
            // A declared failure is the host's own word; a declared success often only means that there was an answer.
            (Some(Outcome::Failure), _) => CallEnding { outcome: Some(Outcome::Failure), ..read },
            (declared, None) => CallEnding { outcome: declared, ..read },
            (_, Some(_)) => read,
        }
    }
}

/// Tells whether the output of a command says that it goes on in the background: how it ends is not known yet.
pub(crate) fn still_runs(output: &str) -> bool {
    let text = output.trim();
    if text.starts_with('{') && text.len() <= JSON_BYTES_MAX {
        let object: Option<Map<String, Value>> = serde_json::from_str(text).ok();
        let state =
            object.as_ref().and_then(|object| ["status", "state"].iter().find_map(|key| object.get(*key)?.as_str()));
        return state.is_some_and(|state| WORDS.running_states.contains(&state.to_ascii_lowercase()));
    }
    edge_lines(text).any(|line| WORDS.running.starts_ignoring_case(line))
}

/// The kind of an output, by the call that it answers: it decides what may be read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// The text of a file, hits of a search, or what was just written.
    Shown,
    /// A looked-up record: its envelope tells of the call, the record inside does not.
    Record,
    /// The output of a shell command that only shows text.
    Printed,
    /// The report of a command, or of an unknown tool; its status may have been lost to a pipe.
    Report { pipes: bool },
}

impl Output {
    fn of(meaning: &CallMeaning, tool: &str) -> Output {
        match (meaning.class, meaning.command.as_deref()) {
            (Some(ToolClass::Read | ToolClass::Write | ToolClass::Patch | ToolClass::Plan), _) => Output::Shown,
            (Some(ToolClass::Search | ToolClass::MemoryRead | ToolClass::Delegate), _) => Output::Shown,
            (_, Some(command)) if only_shows(command) => Output::Printed,
            (_, Some(command)) => Output::Report { pipes: loses_status(command) },
            (Some(ToolClass::Exec), None) => Output::Report { pipes: false },
            _ if looks_up(tool) => Output::Record,
            _ => Output::Report { pipes: false },
        }
    }

    fn read(self, text: &str) -> CallEnding {
        let text = text.trim();
        match self {
            Output::Shown => refusal(text).or_else(|| shown_failure(text)).unwrap_or_default(),
            Output::Record => refusal(text)
                .or_else(|| json(text, Fields::Envelope))
                .or_else(|| shown_failure(text))
                .unwrap_or_default(),
            Output::Printed => {
                let status = || host_status(text).map(by_status);
                refusal(text)
                    .or_else(status)
                    .or_else(|| interruption(text))
                    .or_else(|| shell_failure(text))
                    .unwrap_or_default()
            }
            Output::Report { pipes } => report(text, pipes),
        }
    }
}

fn report(text: &str, pipes: bool) -> CallEnding {
    if let Some(ending) = refusal(text).or_else(|| json(text, Fields::All)) {
        return ending;
    }
    match host_status(text).or_else(|| status_nearby(text)).map(by_status) {
        // The status of a pipe is that of its last command: `make test | tail` ends well whatever the tests do.
        Some(ending) if pipes && ending.exit == Some(0) && verdict(text) == Some(Outcome::Failure) => {
            CallEnding { outcome: Some(Outcome::Failure), exit: None }
        }
        Some(ending) => ending,
        None => {
            let failure = WORDS.failures.starts_ignoring_case(text).then(|| Outcome::Failure.into());
            let failure = failure.or_else(|| interruption(text));
            let verdict = verdict(text).map(CallEnding::from);
            failure.or(verdict).or_else(|| truncation(text)).unwrap_or_default()
        }
    }
}

// --- What a call is ------------------------------------------------------------------------------------------------

/// Tells whether a tool is named after looking something up: `get_issue`, `mcp__tracker__listIssues`.
fn looks_up(tool: &str) -> bool {
    let name = tool.rsplit("__").next().unwrap_or(tool).rsplit('.').next().unwrap_or(tool);
    let end = name.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(name.len());
    let first = if end == 0 { name.to_ascii_lowercase() } else { name[..end].to_owned() };
    WORDS.looking_up.contains(&first)
}

/// Tells whether every program of a shell command only shows text.
pub(crate) fn only_shows(command: &str) -> bool {
    let mut programs = command.split(['|', ';', '&', '\n']).map(str::trim).filter(|piece| !piece.is_empty()).peekable();
    programs.peek().is_some() && programs.all(shows)
}

fn shows(command: &str) -> bool {
    let mut words = command.split_whitespace().filter(|word| !word.contains('='));
    let Some(program) = words.next().map(|word| word.rsplit('/').next().unwrap_or(word)) else { return true };
    // What follows a redirection sign is `1`, as in `2>&1`, or a file.
    if WORDS.showing.contains(program) || program.starts_with('#') || program.bytes().all(|byte| byte.is_ascii_digit())
    {
        return true;
    }
    let subcommand = words.find(|word| !word.starts_with('-')).unwrap_or_default();
    WORDS.showing_subcommands.get(program).is_some_and(|shown| shown.contains(subcommand))
}

/// Tells whether a shell command's status is not that of the program it is about.
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

/// The lines, and bytes, at either end of an output in which a host adds its own.
const EDGE_LINES: usize = 6;
const EDGE_BYTES: usize = 400;
/// Longer lines are not a host's.
const HOST_LINE_BYTES_MAX: usize = 160;

fn by_status(code: i32) -> CallEnding {
    let outcome = if code == 0 { Outcome::Success } else { Outcome::Failure };
    CallEnding { outcome: Some(outcome), exit: Some(code) }
}

/// Finds the status that a host reports on a line of its own, at either end of an output.
fn host_status(text: &str) -> Option<i32> {
    edge_lines(text).find(|line| WORDS.host_status.starts_ignoring_case(line)).and_then(status_in)
}

/// Finds a status near the end of an output; the last one counts.
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
    WORDS.status_words.iter().find_map(|words| {
        let rest = lower.split_once(words)?.1;
        let rest = rest.trim_start_matches([' ', ':', '=', '>', '"', '\'', '`']);
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

// --- JSON ----------------------------------------------------------------------------------------------------------

/// Longer outputs are not read as JSON: what tells how a call ended is not that long.
const JSON_BYTES_MAX: usize = 256 * 1024;

/// The fields of a JSON output that tell of the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    /// Those of an envelope: errors and flags.
    Envelope,
    /// Those, and the states and codes of what was done.
    All,
}

fn json(text: &str, fields: Fields) -> Option<CallEnding> {
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

fn in_object(object: &Map<String, Value>, fields: Fields) -> Option<CallEnding> {
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
    let outcome = match () {
        () if failed => Some(Outcome::Failure),
        () if well => Some(Outcome::Success),
        () if ["error", "errors", "error_code"].iter().any(|name| object.get(*name).is_some_and(is_filled)) => {
            Some(Outcome::Failure)
        }
        () if is_set(&["interrupted", "truncated", "incomplete"]) => Some(Outcome::Partial),
        () if fields == Fields::All => state_of(object),
        () => None,
    };
    let inner = || WORDS.inner.iter().find_map(|name| in_object(object.get(name)?.as_object()?, fields));
    let own = outcome.map(CallEnding::from);
    // What is inside tells the exit status, where there is one.
    if own.is_none_or(|ending| !ending.failed()) { inner().or(own) } else { own }
}

fn exit_field(object: &Map<String, Value>) -> Option<i32> {
    let number = |name: &str| object.get(name)?.as_i64().and_then(|code| i32::try_from(code).ok());
    let named = WORDS.exit_fields.iter().find_map(number);
    let beside = WORDS.beside_code.iter().any(|name| object.contains_key(name));
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
            () if WORDS.failed_states.contains(&word) => Outcome::Failure,
            () if WORDS.partial_states.contains(&word) => Outcome::Partial,
            () if WORDS.good_states.contains(&word) => Outcome::Success,
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

fn is_filled(value: &Value) -> bool {
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

fn refusal(text: &str) -> Option<CallEnding> {
    if WORDS.refused.starts_ignoring_case(text) {
        return Some(Outcome::Failure.into());
    }
    WORDS.broken_off.starts_ignoring_case(text).then(|| Outcome::Partial.into())
}

/// Recognizes a timeout or an interruption.
fn interruption(text: &str) -> Option<CallEnding> {
    let lines = || edge_lines(text).map(str::to_ascii_lowercase);
    let timed_out = |line: String| WORDS.timed_out.occurs_in(&line) || line == "timed out" || line == "timeout";
    if lines().any(timed_out) {
        return Some(Outcome::Failure.into());
    }
    let broken_off = |line: String| WORDS.broken_off.starts(&line) || line == "^c";
    lines().any(broken_off).then(|| Outcome::Partial.into())
}

fn truncation(text: &str) -> Option<CallEnding> {
    let is_cut = |line: &str| WORDS.cut_short.occurs_in(&line.to_ascii_lowercase());
    edge_lines(text).any(is_cut).then(|| Outcome::Partial.into())
}

// --- Failures in words ---------------------------------------------------------------------------------------------

/// The longest answer of a tool that shows things and had nothing to show.
const SHORT_ANSWER_BYTES_MAX: usize = 300;

/// A short answer that reports a failure: what is shown of a file or a log is longer, or begins otherwise.
fn shown_failure(text: &str) -> Option<CallEnding> {
    let is_short = text.len() <= SHORT_ANSWER_BYTES_MAX && text.lines().count() <= 3;
    let fails = || WORDS.failures.starts_ignoring_case(text) || WORDS.nothing_to_show.starts_ignoring_case(text);
    (is_short && fails()).then(|| Outcome::Failure.into())
}

/// A shell, or a program that was to show a file, says in one line that it could not.
fn shell_failure(text: &str) -> Option<CallEnding> {
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

/// The bytes of an output's end, and of its beginning, that are read for a verdict.
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

fn line_verdict(line: &str) -> Option<Outcome> {
    let line = line.trim_start_matches([' ', '>']).trim_end();
    if line.is_empty() || line.len() > 400 {
        return None;
    }
    if WORDS.failed_lines.starts(line)
        || line == "FAIL"
        || line == "FAILED"
        || is_compiler_error(line)
        || is_make_error(line)
        || line.starts_with("thread '") && line.contains("panicked at")
        || WORDS.shells.starts(line) && line.ends_with("not found")
    {
        return Some(Outcome::Failure);
    }
    if let Some(outcome) = tally_verdict(line) {
        return Some(outcome);
    }
    (line == "OK" || WORDS.good_lines.starts(line)).then_some(Outcome::Success)
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

/// The verdict of a line that counts: `3 passed, 2 failed`, `Tests run: 5, Failures: 1`, `✖ 3 problems (2 errors)`.
fn tally_verdict(line: &str) -> Option<Outcome> {
    if !is_tally(line) {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    let counts = |words: &LowerList| -> Vec<u64> { words.iter().flat_map(|word| counts_of(&lower, word)).collect() };
    let (bad, good) = (counts(&WORDS.counted_bad), counts(&WORDS.counted_good));
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

/// The most words of a tally that begins with a number.
const TALLY_WORDS_MAX: usize = 14;

/// Tells whether a line is the tally of a test run or a linter, and not a sentence with a number in it.
fn is_tally(line: &str) -> bool {
    let begins_with_count = line.starts_with(|c: char| c.is_ascii_digit())
        && line.split_whitespace().count() <= TALLY_WORDS_MAX
        && ["passed", "failed", "passing", "failing", "examples,"].iter().any(|word| line.contains(word));
    begins_with_count || WORDS.tallies.starts(line)
}

#[cfg(test)]
mod tests;
