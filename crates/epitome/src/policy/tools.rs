//! A policy's knowledge of tools: how durable their results are, what they do, and which of them a summarizer sees.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::Tokens;
use crate::thread::{Durability, ToolResult};

/// A policy's knowledge of tools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tools {
    /// The durability of tools without a rule.
    pub default_durability: Durability,
    /// Rules by tool name; a trailing `*` matches any ending.
    pub rules: BTreeMap<String, ToolRule>,
    /// The tools of each class, by name; a trailing `*` matches any ending, case is ignored. A class that is not given has
    /// its default names.
    #[serde(deserialize_with = "with_default_classes")]
    pub classes: BTreeMap<ToolClass, Vec<String>>,
    /// When given, only these tools' parts are shown to a summarizer; a trailing `*` matches any ending.
    pub summarized: Option<Vec<String>>,
}

impl Default for Tools {
    fn default() -> Self {
        Tools {
            default_durability: Durability::Anchoring,
            rules: BTreeMap::new(),
            classes: default_classes(),
            summarized: None,
        }
    }
}

/// The key of a JSON schema under which a tool declares the durability of its results.
const DECLARED: &str = "x-epitome-durability";

/// One tool's rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolRule {
    /// The durability of its results.
    pub durability: Option<Durability>,
    /// Fields of its results that must survive.
    pub preserve: Vec<String>,
    /// The size from which its results move out.
    pub externalize_from: Option<Tokens>,
    /// The cost of running it again.
    pub replay_cost: ReplayCost,
}

/// The cost of running a tool again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplayCost {
    /// Nothing.
    Free,
    /// Little.
    #[default]
    Cheap,
    /// Much: such a result is treated as non-replayable.
    Expensive,
}

/// The kind of work that a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolClass {
    /// Reads a file.
    Read,
    /// Writes a file whole.
    Write,
    /// Changes a file in part.
    Patch,
    /// Runs a command.
    Exec,
    /// Searches files or the web.
    Search,
    /// Reads a memory.
    MemoryRead,
    /// Streams an artifact to the user.
    Artifact,
    /// Keeps a plan or a list of things to do.
    Plan,
    /// Gives a task to another agent; the result is its report.
    Delegate,
}

impl Tools {
    /// Returns the class of a tool, if one names it.
    pub fn class(&self, tool: &str) -> Option<ToolClass> {
        self.classes.iter().find(|(_, names)| names.iter().any(|name| matches(name, tool))).map(|(class, _)| *class)
    }

    /// Returns the rule of a tool; an exact name wins over a pattern, a longer pattern over a shorter one.
    pub fn rule(&self, tool: &str) -> Option<&ToolRule> {
        self.rules.get(tool).or_else(|| {
            let fitting = self.rules.iter().filter(|(name, _)| matches(name, tool));
            fitting.max_by_key(|(name, _)| name.len()).map(|(_, rule)| rule)
        })
    }

    /// Returns the durability of a result: the caller's, else the rule's, else the default.
    pub fn durability(&self, result: &ToolResult) -> Durability {
        let rule = self.rule(&result.tool);
        let declared = result.durability.or_else(|| rule.and_then(|rule| rule.durability));
        match (declared.unwrap_or(self.default_durability), rule.map(|rule| rule.replay_cost)) {
            (Durability::Replayable, Some(ReplayCost::Expensive)) => Durability::NonReplayable,
            (durability, _) => durability,
        }
    }

    /// Returns these with what a request's tool definitions declare, a list in any dialect: `"x-epitome-durability": "ephemeral"` in the
    /// JSON schema of a tool's parameters. What a rule says of a tool counts more. `None` where nothing is declared, as in most
    /// requests.
    pub fn with_declared(&self, definitions: &str) -> Option<Tools> {
        if !definitions.contains(DECLARED) {
            return None;
        }
        let mut tools = self.clone();
        let definitions: Vec<Value> = serde_json::from_str(definitions).unwrap_or_default();
        for definition in &definitions {
            let tool = definition.get("function").unwrap_or(definition);
            let schema = ["parameters", "input_schema", "inputSchema"].iter().find_map(|key| tool.get(*key));
            let declared = schema.and_then(|schema| Durability::deserialize(schema.get(DECLARED)?).ok());
            let (Some(name), Some(durability)) = (tool.get("name").and_then(Value::as_str), declared) else { continue };
            let rule = self.rule(name).cloned().unwrap_or_default();
            if rule.durability.is_none() {
                tools.rules.insert(name.to_owned(), ToolRule { durability: Some(durability), ..rule });
            }
        }
        Some(tools)
    }

    /// Returns the fields of a result that must survive it: its envelope's own, and those that the tool's rule names.
    pub fn preserved_fields(&self, result: &ToolResult) -> BTreeMap<String, String> {
        let mut fields = result.key_fields.clone();
        let Some(rule) = self.rule(&result.tool) else { return fields };
        if let Ok(Value::Object(object)) = serde_json::from_str(&result.text) {
            for name in &rule.preserve {
                if let Some(value) = object.get(name) {
                    fields.insert(name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                }
            }
        }
        fields
    }

    /// Tells whether a tool's parts are shown to a summarizer.
    pub fn is_summarized(&self, tool: &str) -> bool {
        self.summarized.as_ref().is_none_or(|names| names.iter().any(|name| matches(name, tool)))
    }
}

/// Tells whether a pattern names a tool, in upper or lower case.
fn matches(pattern: &str, tool: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => tool.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)),
        None => tool.eq_ignore_ascii_case(pattern),
    }
}

fn with_default_classes<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<ToolClass, Vec<String>>, D::Error> {
    let given: BTreeMap<ToolClass, Vec<String>> = BTreeMap::deserialize(deserializer)?;
    let mut classes = default_classes();
    classes.extend(given);
    Ok(classes)
}

/// Returns the names under which agents offer common tools.
fn default_classes() -> BTreeMap<ToolClass, Vec<String>> {
    let names = |list: &str| list.split_whitespace().map(str::to_owned).collect();
    BTreeMap::from([
        (
            ToolClass::Read,
            names("read read_file readfile view open_file cat get_file_contents fs_read notebookread read_many_files"),
        ),
        (ToolClass::Write, names("write write_file create create_file save_file fs_write notebookwrite")),
        (
            ToolClass::Patch,
            names(
                "edit multiedit apply_patch patch str_replace str_replace_editor str_replace_based_edit_tool replace edit_file notebookedit replace_in_file update_file",
            ),
        ),
        (
            ToolClass::Exec,
            names(
                "bash shell exec exec_command run run_command execute terminal local_shell run_shell_command run_terminal_cmd execute_command python container.exec",
            ),
        ),
        (
            ToolClass::Search,
            names(
                "grep glob search find ls list list_dir list_files search_files web_search websearch webfetch web_fetch fetch codebase_search",
            ),
        ),
        (
            ToolClass::MemoryRead,
            names("memory_read memory_search recall read_memory memsearch react.memsearch react.read"),
        ),
        (ToolClass::Artifact, names("artifact write_artifact stream_artifact canvas render_artifact")),
        (
            ToolClass::Plan,
            names(
                "todowrite todo_write todo update_plan plan todoread write_todos update_todo_list manage_todo_list exitplanmode taskcreate taskupdate task_create task_update",
            ),
        ),
        (
            ToolClass::Delegate,
            names("task agent dispatch_agent spawn_agent subagent run_subagent delegate delegate_task new_task"),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::{ReplayCost, ToolClass, ToolRule, Tools};
    use crate::thread::{Durability, Outcome, ToolResult};

    #[test]
    fn a_result_is_as_durable_as_its_caller_then_its_rule_then_the_default_says() {
        let mut tools = Tools::default();
        let rule = |durability| ToolRule { durability: Some(durability), ..ToolRule::default() };
        tools.rules.insert("ls".into(), rule(Durability::Ephemeral));
        tools.rules.insert("linear*".into(), rule(Durability::NonReplayable));
        let dear = ToolRule { replay_cost: ReplayCost::Expensive, ..rule(Durability::Replayable) };
        tools.rules.insert("crawl".into(), dear);
        let result = |tool: &str, own: Option<Durability>| {
            let mut result = ToolResult::new("c", "x", Outcome::Success);
            result.tool = tool.into();
            result.durability = own;
            result
        };
        let cases = [
            ("ls", None, Durability::Ephemeral),
            ("ls", Some(Durability::Anchoring), Durability::Anchoring),
            ("linearCreateIssue", None, Durability::NonReplayable),
            ("crawl", None, Durability::NonReplayable),
            ("never heard of", None, Durability::Anchoring),
        ];
        for (tool, own, expected) in cases {
            assert_eq!(tools.durability(&result(tool, own)), expected, "{tool}");
        }
    }

    #[test]
    fn a_tool_declares_its_durability_in_its_schema_and_a_rule_says_otherwise() {
        let mut tools = Tools::default();
        let rule = ToolRule { durability: Some(Durability::Anchoring), ..ToolRule::default() };
        tools.rules.insert("order".into(), rule);
        tools.rules.insert("quote".into(), ToolRule { preserve: vec!["price".into()], ..ToolRule::default() });
        let schema = |durability: &str| format!(r#"{{"type":"object","x-epitome-durability":"{durability}"}}"#);
        let chat = format!(
            r#"[{{"type":"function","function":{{"name":"quote","parameters":{}}}}},{{"type":"function","function":{{"name":"order","parameters":{}}}}}]"#,
            schema("non-replayable"),
            schema("ephemeral")
        );
        let anthropic = format!(
            r#"[{{"name":"scan","input_schema":{}}},{{"name":"odd","input_schema":{}}}]"#,
            schema("ephemeral"),
            schema("forever")
        );
        let responses = format!(r#"[{{"type":"function","name":"page","parameters":{}}}]"#, schema("replayable"));
        for definitions in [chat.as_str(), &anthropic, &responses, "x-epitome-durability", "[]"] {
            tools = tools.with_declared(definitions).unwrap_or(tools);
        }
        for (tool, expected) in [
            ("quote", Durability::NonReplayable),
            ("order", Durability::Anchoring),
            ("scan", Durability::Ephemeral),
            ("odd", Durability::Anchoring),
            ("page", Durability::Replayable),
        ] {
            let mut result = ToolResult::new("c", "x", Outcome::Success);
            result.tool = tool.into();
            assert_eq!(tools.durability(&result), expected, "{tool}");
        }
        assert_eq!(tools.rules["quote"].preserve, ["price"]);
    }

    #[test]
    fn tools_are_classed_by_name_whatever_their_case() {
        let tools = Tools::default();
        let cases = [
            ("Read", Some(ToolClass::Read)),
            ("apply_patch", Some(ToolClass::Patch)),
            ("Bash", Some(ToolClass::Exec)),
            ("dance", None),
        ];
        for (tool, class) in cases {
            assert_eq!(tools.class(tool), class, "{tool}");
        }
    }
}
