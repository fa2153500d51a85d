//! `epitome check`: checks a file against the strict rules of its dialect.
//!
//! A session is checked as the request that its agent would send next.

use std::path::Path;

use epitome::session::{ContextMessage, Format, Session};
use epitome::thread::{NewMessage, Part, Role};
use epitome::wire::{Dialect, LastExchange, Layout, Reach, Rule, Severity, Violation};
use serde_json::{Value, json};

use crate::cli::{CheckArgs, InputArgs};
use crate::failure::{Answer, Exit, Failure, Result};
use crate::input::{read, session};
use crate::receipt::{count, notices, notices_json};
use crate::screen::Screen;
use crate::table::Table;

pub fn run(args: &CheckArgs, screen: Screen) -> Result<Answer> {
    match &args.file {
        Some(file) if !args.rules => check(args, file, screen),
        _ => Ok(rules(args.dialect, screen)),
    }
}

fn check(args: &CheckArgs, path: &Path, screen: Screen) -> Result<Answer> {
    let plain = InputArgs { file: path.to_owned(), format: None, skip_bad_lines: args.skip_bad_lines, artifacts: None };
    let mut session = session(read(path)?.text, &plain)?;
    let asked = args.dialect.unwrap_or_else(|| session.counting_dialect());
    if matches!(session.format(), Format::List(found) if found != asked) {
        let forced = InputArgs { format: Some(Format::List(asked)), ..plain };
        session = self::session(session.source().as_str(), &forced)?;
    }
    if asked != session.counting_dialect() {
        return Err(wrong_dialect(&session, asked));
    }
    let (request, lines) = request(&session);
    let closed = matches!(session.format(), Format::List(_)) && !args.open;
    let violations =
        epitome::wire::check(asked, &request, if closed { LastExchange::Closed } else { LastExchange::Open });
    Ok(report(path, &session, asked, &violations, &lines, screen))
}

fn wrong_dialect(session: &Session, asked: Dialect) -> Failure {
    let format = session.format().description();
    Failure::new(Exit::Usage, format!("The rules of {asked} do not apply to {format}."))
        .hint(format!("Leave `--dialect` out: the rules of {} apply to it.", session.counting_dialect()))
}

/// Builds the request that the session's next call would send, with the line of each message.
fn request(session: &Session) -> (Value, Vec<usize>) {
    let lines = session.context().iter().map(|message| message.line).collect();
    match (session.format(), session.layout()) {
        (_, Some(Layout::Request)) => {
            let text = session.source().as_str().trim_start_matches('\u{feff}');
            (serde_json::from_str(text).unwrap_or_default(), lines)
        }
        (Format::ClaudeCode, _) => merge(session.context()),
        (Format::PiEvents | Format::PiTree, _) => {
            let seen = session.context().iter();
            let sent = seen.flat_map(|seen| as_chat(&seen.message).into_iter().map(|message| (message, seen.line)));
            let (messages, lines): (Vec<Value>, Vec<usize>) = sent.unzip();
            (Value::Array(messages), lines)
        }
        _ => (session.context().iter().map(|message| json_of(&message.message)).collect(), lines),
    }
}

fn json_of(message: &NewMessage) -> Value {
    serde_json::from_str(message.raw.as_str()).unwrap_or_default()
}

/// Joins neighbors of one role, results first, as Claude Code does: its file has a line for each block.
fn merge(context: &[ContextMessage]) -> (Value, Vec<usize>) {
    let mut messages: Vec<(Value, Vec<Value>)> = Vec::new();
    let mut lines = Vec::new();
    for seen in context {
        let message = json_of(&seen.message);
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            Value::Array(blocks) => blocks.clone(),
            _ => Vec::new(),
        };
        match messages.last_mut() {
            Some((role, content)) if *role == message["role"] => {
                content.extend(blocks);
                content.sort_by_key(|block| block["type"] != "tool_result");
            }
            _ => {
                messages.push((message["role"].clone(), blocks));
                lines.push(seen.line);
            }
        }
    }
    (messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect(), lines)
}

/// Converts a message to OpenAI Chat, where each tool result is a message of its own.
fn as_chat(message: &NewMessage) -> Vec<Value> {
    let (mut text, mut results, mut calls): (Vec<&str>, Vec<Value>, Vec<Value>) = Default::default();
    for part in &message.parts {
        match part {
            Part::Text(words) => text.push(words),
            Part::Media(_) => text.push("[media]"),
            Part::Reasoning(reasoning) => text.push(&reasoning.text),
            Part::ToolResult(result) => {
                results.push(json!({"role": "tool", "tool_call_id": result.call_id, "content": result.text}));
            }
            Part::ToolCall(call) => {
                let function = json!({"name": call.name, "arguments": call.arguments});
                calls.push(json!({"id": call.id, "type": "function", "function": function}));
            }
            Part::Opaque(_) => {}
        }
    }
    if !results.is_empty() {
        return results;
    }
    let mut json = json!({"role": message.role.name(), "content": text.join("\n")});
    if message.role == Role::Assistant && !calls.is_empty() {
        json["tool_calls"] = Value::Array(calls);
    }
    vec![json]
}

fn report(
    path: &Path,
    session: &Session,
    dialect: Dialect,
    found: &[Violation],
    lines: &[usize],
    screen: Screen,
) -> Answer {
    let errors = found.iter().filter(|violation| violation.severity() == Severity::Error).count();
    let line_of = |violation: &Violation| match violation.place.list() {
        "messages" | "input" => violation.place.index().and_then(|index| lines.get(index)).copied(),
        _ => None,
    };
    let mut text = String::new();
    for violation in found {
        let place = line_of(violation)
            .map_or_else(|| violation.place.to_string(), |line| format!("line {line}, {}", violation.place));
        let mut severity = severity_text(violation.severity()).to_owned();
        if violation.severity() == Severity::Error {
            severity = screen.bad(&severity);
        }
        text.push_str(&format!("{}, {place}: {severity} {}: {}\n", path.display(), violation.rule, violation.detail));
    }
    let advice = found.len() - errors;
    text.push_str(&if found.is_empty() {
        format!("{}: OK ({dialect} rules)\n", path.display())
    } else {
        let (errors, warnings) = (count(errors, "error"), count(advice, "warning"));
        format!("{errors}, {warnings}; `epitome check --rules` explains them.\n")
    });
    text.push_str(&notices(session, screen));
    let to_json = |violation: &Violation| {
        json!({
            "rule": violation.rule.name(), "severity": violation.severity().to_string(), "line": line_of(violation),
            "place": violation.place.to_string(), "detail": violation.detail,
        })
    };
    let json = json!({
        "file": path.display().to_string(), "format": session.format().name(), "dialect": dialect.name(),
        "errors": errors, "advice": advice, "violations": found.iter().map(to_json).collect::<Vec<Value>>(),
        "notices": notices_json(session),
    });
    let exit = if errors > 0 { Exit::Violations } else { Exit::Fine };
    Answer { exit, ..Answer::new(text, json) }
}

fn severity_text(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Advice => "warning",
    }
}

/// Lists the rules.
fn rules(dialect: Option<Dialect>, screen: Screen) -> Answer {
    let mut table = Table::new("llll");
    let mut rules: Vec<Value> = Vec::new();
    for rule in Rule::ALL.iter().filter(|rule| dialect.is_none_or(|asked| rule.dialect() == asked)) {
        let reach = match rule.reach() {
            Reach::Whole => String::new(),
            Reach::Part(what) => format!(" ({what})"),
            Reach::Nothing(why) => format!(" (not checked: {why})"),
        };
        let (dialect, severity, summary) = (rule.dialect(), rule.severity(), rule.summary());
        let text = format!("{summary}{reach}");
        table.row(&[&screen.head(rule.name()), &dialect, &severity_text(severity), &text]);
        rules.push(json!({
            "rule": rule.name(), "dialect": dialect.name(), "severity": severity.to_string(), "summary": summary,
            "reach": reach.trim(),
        }));
    }
    Answer::new(table.text(screen), json!({"rules": rules}))
}
