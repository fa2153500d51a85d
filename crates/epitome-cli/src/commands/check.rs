//! `epitome check`: the strict rules of a dialect, with the lines they are broken on.
//!
//! A session is judged as the request its agent would send next.

use std::path::Path;

use epitome::session::{ContextMessage, Format, Session};
use epitome::thread::{NewMessage, Part, Role};
use epitome::wire::{Dialect, Layout, Reach, Rule, Severity, Tail, Violation};
use serde_json::{Value, json};

use crate::cli::{Check, Input};
use crate::failure::{Answer, Exit, Failure};
use crate::open::{read, session};
use crate::receipt::{notices, notices_json, plural};
use crate::screen::Screen;
use crate::table::{Side, table};

/// Checks.
pub fn run(args: &Check, screen: Screen) -> Result<Answer, Failure> {
    match &args.file {
        Some(file) if !args.rules => check(args, file, screen),
        _ => Ok(rules(args.dialect, screen)),
    }
}

fn check(args: &Check, path: &Path, screen: Screen) -> Result<Answer, Failure> {
    let file = read(path)?;
    let plain = Input { file: path.to_owned(), format: None, skip_bad_lines: args.skip_bad_lines, artifacts: None };
    let mut session = session(&file, &plain)?;
    let asked = args.dialect.unwrap_or_else(|| session.counting_dialect());
    if matches!(session.format(), Format::List(found) if found != asked) {
        let forced = Input { format: Some(Format::List(asked)), ..plain };
        session = self::session(&file, &forced)?;
    }
    if asked != session.counting_dialect() {
        return Err(wrong_dialect(&session, asked));
    }
    let (request, lines) = request(&session);
    let closed = matches!(session.format(), Format::List(_)) && !args.open;
    let violations = epitome::wire::check(asked, &request, if closed { Tail::Closed } else { Tail::Open });
    Ok(report(path, &session, asked, &violations, &lines, screen))
}

fn wrong_dialect(session: &Session, asked: Dialect) -> Failure {
    let format = session.format().description();
    Failure::new(Exit::Usage, format!("The rules of {asked} are not about {format}."))
        .hint(format!("Leave `--dialect` away: it is judged by the rules of {}.", session.counting_dialect()))
}

/// The request that the session's next call would send, and the line of each of its messages.
fn request(session: &Session) -> (Value, Vec<usize>) {
    let lines = session.context().iter().map(|message| message.line).collect();
    match (session.format(), session.layout()) {
        (_, Some(Layout::Request)) => {
            let text = session.source().as_str().trim_start_matches('\u{feff}');
            (serde_json::from_str(text).unwrap_or_default(), lines)
        }
        (Format::ClaudeCode, _) => merged(session.context()),
        (Format::PiEvents | Format::PiTree, _) => {
            let seen = session.context().iter();
            let told = seen.flat_map(|seen| as_chat(&seen.message).into_iter().map(|message| (message, seen.line)));
            let (messages, lines): (Vec<Value>, Vec<usize>) = told.unzip();
            (Value::Array(messages), lines)
        }
        _ => (session.context().iter().map(|message| json_of(&message.message)).collect(), lines),
    }
}

fn json_of(message: &NewMessage) -> Value {
    serde_json::from_str(message.raw.as_str()).unwrap_or_default()
}

/// Claude Code keeps a line for each block and joins neighbors of one role before it sends them, results first.
fn merged(context: &[ContextMessage]) -> (Value, Vec<usize>) {
    let mut messages: Vec<Value> = Vec::new();
    let mut lines = Vec::new();
    for seen in context {
        let message = json_of(&seen.message);
        let blocks = blocks_of(&message);
        match messages.last_mut().filter(|last| last["role"] == message["role"]) {
            Some(last) => join(last, blocks),
            None => {
                messages.push(json!({"role": message["role"], "content": blocks}));
                lines.push(seen.line);
            }
        }
    }
    (Value::Array(messages), lines)
}

fn blocks_of(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

fn join(message: &mut Value, blocks: Vec<Value>) {
    let Some(content) = message["content"].as_array_mut() else { return };
    content.extend(blocks);
    content.sort_by_key(|block| block["type"] != "tool_result");
}

/// A message in OpenAI Chat's words; each tool result is a message of its own there.
fn as_chat(message: &NewMessage) -> Vec<Value> {
    let text: Vec<&str> = message.parts.iter().filter_map(text_of).collect();
    let results: Vec<Value> = message.parts.iter().filter_map(result_of).collect();
    if !results.is_empty() {
        return results;
    }
    let calls: Vec<Value> = message.parts.iter().filter_map(call_of).collect();
    let mut json = json!({"role": message.role.name(), "content": text.join("\n")});
    if message.role == Role::Assistant && !calls.is_empty() {
        json["tool_calls"] = Value::Array(calls);
    }
    vec![json]
}

fn text_of(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        Part::Media(_) => Some("[media]"),
        Part::Reasoning(reasoning) => Some(&reasoning.text),
        _ => None,
    }
}

fn result_of(part: &Part) -> Option<Value> {
    let Part::ToolResult(result) = part else { return None };
    Some(json!({"role": "tool", "tool_call_id": result.call_id, "content": result.text}))
}

fn call_of(part: &Part) -> Option<Value> {
    let Part::ToolCall(call) = part else { return None };
    let function = json!({"name": call.name, "arguments": call.arguments});
    Some(json!({"id": call.id, "type": "function", "function": function}))
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
        let severity = match violation.severity() {
            Severity::Error => screen.bad("error"),
            Severity::Advice => "advice".to_owned(),
        };
        text.push_str(&format!("{}, {place}: {severity} {}: {}\n", path.display(), violation.rule, violation.detail));
    }
    let advice = found.len() - errors;
    text.push_str(&match found.is_empty() {
        true => format!("{}: OK ({dialect} rules)\n", path.display()),
        false => {
            let (error_s, warning_s) = (plural(errors), plural(advice));
            format!("{errors} error{error_s}, {advice} warning{warning_s}; `epitome check --rules` explains them.\n")
        }
    });
    text.push_str(&notices(session, screen));
    let listed = |violation: &Violation| {
        json!({
            "rule": violation.rule.name(), "severity": violation.severity().to_string(), "line": line_of(violation),
            "place": violation.place.to_string(), "detail": violation.detail,
        })
    };
    let json = json!({
        "file": path.display().to_string(), "format": session.format().name(), "dialect": dialect.name(),
        "errors": errors, "advice": advice, "violations": found.iter().map(listed).collect::<Vec<Value>>(),
        "notices": notices_json(session),
    });
    let exit = if errors > 0 { Exit::Violations } else { Exit::Fine };
    Answer { exit, ..Answer::new(text, json) }
}

/// The rules themselves.
fn rules(dialect: Option<Dialect>, screen: Screen) -> Answer {
    let rules: Vec<Rule> =
        Rule::ALL.iter().copied().filter(|rule| dialect.is_none_or(|asked| rule.dialect() == asked)).collect();
    let reach = |rule: &Rule| match rule.reach() {
        Reach::Whole => String::new(),
        Reach::Part(what) => format!(" ({what})"),
        Reach::Nothing(why) => format!(" (not judged: {why})"),
    };
    let row = |rule: &Rule| {
        let severity = rule.severity().to_string();
        vec![
            screen.head(rule.name()),
            rule.dialect().to_string(),
            severity,
            format!("{}{}", rule.summary(), reach(rule)),
        ]
    };
    let rows: Vec<Vec<String>> = rules.iter().map(row).collect();
    let listed = |rule: &Rule| {
        json!({
            "rule": rule.name(), "dialect": rule.dialect().name(), "severity": rule.severity().to_string(),
            "summary": rule.summary(), "reach": reach(rule).trim(),
        })
    };
    let json = json!({"rules": rules.iter().map(listed).collect::<Vec<Value>>()});
    Answer::new(table(&[Side::Left; 4], &rows, screen), json)
}
