//! The tools that a request offers, and arguments that satisfy their schemas.
//!
//! A tool is known by its name: one that runs commands, one that reads files, or one of the gateway's own. Arguments are
//! made from the schema alone, so that an agent this mock has never seen can run what it is asked to.

use serde_json::{Map, Value, json};

use super::endpoint::ProviderProtocol;
use super::reply::CallKind;
use super::request::MockRequest;

/// A tool that a request offers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OfferedTool {
    pub(crate) name: String,
    pub(crate) kind: CallKind,
    schema: Value,
}

/// Names of tools that run commands.
const RUNNERS: &[&str] = &[
    "bash",
    "shell",
    "shell_command",
    "exec_command",
    "local_shell",
    "run_shell_command",
    "execute_command",
    "run_command",
    "run_terminal_cmd",
    "run_in_terminal",
    "terminal",
    "execute_bash",
    "execute",
    "exec",
    "container.exec",
    "cmd",
    "powershell",
];

/// Names of tools that read files.
const READERS: &[&str] =
    &["read", "read_file", "view", "view_file", "cat", "readfile", "open_file", "read_text_file", "fs_read"];

/// Fields that hold a command.
const COMMANDS: &[&str] = &["command", "cmd", "commands", "script", "code", "input"];

/// Fields that hold a path.
const PATHS: &[&str] =
    &["file_path", "filepath", "path", "absolute_path", "absolutepath", "target_file", "filename", "file", "paths"];

impl OfferedTool {
    /// Reads the tools of a request.
    pub(crate) fn all(request: &MockRequest) -> Vec<OfferedTool> {
        let tools = request.list("tools").iter();
        match request.protocol() {
            ProviderProtocol::Gemini => tools.flat_map(declarations).collect(),
            _ => tools.filter_map(OfferedTool::read).collect(),
        }
    }

    fn read(tool: &Value) -> Option<OfferedTool> {
        let kind = tool.get("type").and_then(Value::as_str).unwrap_or("function");
        let body = tool.get("function").unwrap_or(tool);
        let schema = ["parameters", "input_schema"].iter().find_map(|field| body.get(*field));
        let name = body.get("name").and_then(Value::as_str);
        match kind {
            "local_shell" => {
                Some(OfferedTool { name: "local_shell".into(), kind: CallKind::LocalShell, schema: Value::Null })
            }
            "custom" if schema.is_none() => None,
            // Anthropic's own tools have no schema; theirs is known.
            kind if kind.starts_with("bash_") => Some(OfferedTool::function(name?, command_schema())),
            _ => Some(OfferedTool::function(name?, schema?.clone())),
        }
    }

    fn function(name: &str, schema: Value) -> OfferedTool {
        OfferedTool { name: name.into(), kind: CallKind::Function, schema }
    }

    fn is_named(&self, names: &[&str]) -> bool {
        let name = self.name.to_lowercase();
        names.contains(&name.as_str())
    }

    /// Returns true for a tool that runs commands.
    pub(crate) fn runs(&self) -> bool {
        self.is_named(RUNNERS) && (self.kind == CallKind::LocalShell || self.command_field().is_some())
    }

    /// Returns true for a tool that reads files.
    pub(crate) fn reads(&self) -> bool {
        self.is_named(READERS) && self.field_among(PATHS).is_some()
    }

    fn properties(&self) -> Option<&Map<String, Value>> {
        self.schema.get("properties")?.as_object()
    }

    fn field_among(&self, names: &[&str]) -> Option<&str> {
        let fields = self.properties()?;
        names.iter().find_map(|name| fields.keys().find(|field| field.to_lowercase() == **name)).map(String::as_str)
    }

    fn command_field(&self) -> Option<&str> {
        self.field_among(COMMANDS)
    }

    /// Returns arguments that make it run a command.
    pub(crate) fn running(&self, command: &str) -> Value {
        if self.kind == CallKind::LocalShell {
            return json!({"type": "exec", "command": ["bash", "-lc", command], "env": {}});
        }
        let Some(field) = self.command_field() else { return self.filled(Map::new()) };
        let schema = self.properties().and_then(|fields| fields.get(field)).unwrap_or(&Value::Null);
        let value = if allows(schema, "array") && !allows(schema, "string") {
            json!(["bash", "-lc", command])
        } else {
            command.into()
        };
        self.filled(Map::from_iter([(field.to_owned(), value)]))
    }

    /// Returns arguments that make it read a file.
    pub(crate) fn reading(&self, path: &str) -> Value {
        let Some(field) = self.field_among(PATHS) else { return self.filled(Map::new()) };
        let schema = self.properties().and_then(|fields| fields.get(field)).unwrap_or(&Value::Null);
        let value = if allows(schema, "array") { json!([path]) } else { path.into() };
        self.filled(Map::from_iter([(field.to_owned(), value)]))
    }

    /// Returns these arguments, plus a plausible value for every other required one.
    pub(crate) fn filled(&self, mut values: Map<String, Value>) -> Value {
        let required = self.schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !values.contains_key(name) {
                let schema = self.properties().and_then(|fields| fields.get(name)).unwrap_or(&Value::Null);
                values.insert(name.to_owned(), plausible(name, schema));
            }
        }
        values.into()
    }
}

fn declarations(tool: &Value) -> Vec<OfferedTool> {
    let list = tool.get("functionDeclarations").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|function| {
        let schema = ["parameters", "parametersJsonSchema"].iter().find_map(|field| function.get(*field));
        Some(OfferedTool::function(function.get("name")?.as_str()?, schema.cloned().unwrap_or(Value::Null)))
    })
    .collect()
}

fn command_schema() -> Value {
    json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]})
}

/// Returns true if a schema accepts values of a type.
fn allows(schema: &Value, kind: &str) -> bool {
    let named = |value: &Value| value.as_str().is_some_and(|name| name.eq_ignore_ascii_case(kind));
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(named),
        Some(own) => named(own),
        None => ["anyOf", "oneOf"].iter().any(|field| {
            schema.get(*field).and_then(Value::as_array).is_some_and(|kinds| kinds.iter().any(|one| allows(one, kind)))
        }),
    }
}

/// A value that a schema takes.
fn plausible(name: &str, schema: &Value) -> Value {
    if let Some(value) = schema.get("const").or_else(|| schema.get("default")) {
        return value.clone();
    }
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        return first.clone();
    }
    match KINDS.iter().find(|kind| allows(schema, kind)) {
        Some(&"null") => Value::Null,
        Some(&"boolean") => false.into(),
        Some(&("integer" | "number")) => number(name, schema),
        Some(&"array") => list(name, schema),
        Some(&"object") => OfferedTool::function(name, schema.clone()).filled(Map::new()),
        _ => words_for(name).into(),
    }
}

/// Types, in the order in which they are tried: nothing at all is the easiest value.
const KINDS: [&str; 7] = ["null", "string", "boolean", "integer", "number", "array", "object"];

fn words_for(name: &str) -> &'static str {
    match name.to_lowercase().as_str() {
        "description" | "justification" | "explanation" | "reason" | "intent" => "Prints numbered lines",
        "workdir" | "cwd" | "dir_path" | "directory" => ".",
        _ => "mock",
    }
}

fn number(name: &str, schema: &Value) -> Value {
    let minimum = schema.get("minimum").and_then(Value::as_u64);
    let usual = if name.to_lowercase().contains("timeout") { 60_000 } else { 1 };
    minimum.unwrap_or(usual).into()
}

fn list(name: &str, schema: &Value) -> Value {
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let item = schema.get("items").unwrap_or(&Value::Null);
    (0..least).map(|_| plausible(name, item)).collect()
}
