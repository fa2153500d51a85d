//! Injecting: the gateway's tools put behind the client's own, and nothing else of the request touched.
//!
//! The definitions must be the same in every request of a thread, because they stand before everything else in the
//! provider's prefix cache and some models bind their thinking to them. So they are added whatever `tool_choice` says,
//! even where it forces another tool or none: what may not be called does no harm, what comes and goes does. Only a
//! request that has no tools and wants none gets none. No cache mark is added, and none is moved: the client's last mark
//! stays on the client's last tool, and ours stand behind it.

use epitome::wire::{Dialect, RawFields, extend_list, set_field, splice};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::tools::Tool;

/// A request with tools of the gateway in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injected {
    /// The request.
    pub body: String,
    /// The tools that were added: those whose names the client does not use itself.
    pub tools: Vec<Tool>,
}

/// True if calls inside this request can be answered without the client noticing.
///
/// They cannot where several answers are asked for at once, where functions are given the old way, where the provider
/// holds the conversation, and where it keeps the reasoning items that the client is shown: such an item may not be
/// sent back without the call that followed it.
pub fn can_inject(body: &str, dialect: Dialect) -> bool {
    let Ok(fields) = serde_json::from_str::<RawFields<'_>>(body) else { return false };
    let present = |name: &str| fields.get(name).is_some_and(|value| value.get() != "null");
    let word = |name: &str| fields.get(name).map(RawValue::get);
    match dialect {
        Dialect::Chat => {
            matches!(word("n"), None | Some("null" | "1")) && !present("functions") && !present("function_call")
        }
        Dialect::Responses => {
            let held = present("previous_response_id") || present("conversation");
            let kept = word("store") != Some("false") && shows_reasoning(word("reasoning"));
            !held && !kept && word("background") != Some("true")
        }
        Dialect::Anthropic => true,
        Dialect::AiSdk => false,
    }
}

fn shows_reasoning(reasoning: Option<&str>) -> bool {
    let reasoning: Value = reasoning.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    ["summary", "generate_summary"].iter().any(|name| reasoning.get(name).is_some_and(|summary| !summary.is_null()))
}

/// The request with these tools at the end of its list; `None` where there is nothing to add or no place for it.
pub fn inject(body: &str, dialect: Dialect, tools: &[Tool]) -> Option<Injected> {
    let fields: RawFields<'_> = serde_json::from_str(body).ok()?;
    let list = fields.get("tools").map(RawValue::get).filter(|list| *list != "null");
    let own: Vec<&RawValue> = list.map_or(Some(Vec::new()), |list| serde_json::from_str(list).ok())?;
    if own.is_empty() && fields.get("tool_choice").is_some_and(|choice| forbids(choice.get())) {
        return None;
    }
    let taken: Vec<String> = own.iter().filter_map(|tool| tool_name(tool.get())).collect();
    let tools: Vec<Tool> = tools.iter().filter(|tool| taken.iter().all(|name| name != tool.name)).copied().collect();
    let written = tools.iter().map(|tool| definition(dialect, tool)).collect::<Option<Vec<String>>>()?.join(",");
    let body = match list {
        _ if tools.is_empty() => return None,
        Some(list) => splice(body, list, &extend_list(list, &written)),
        None => set_field(body, "tools", &format!("[{written}]")),
    };
    Some(Injected { body, tools })
}

/// True if a `tool_choice` allows no tool at all.
fn forbids(choice: &str) -> bool {
    let choice: Value = serde_json::from_str(choice).unwrap_or_default();
    choice.as_str().or_else(|| choice.get("type")?.as_str()) == Some("none")
}

/// The name of a tool, in any dialect's form.
pub(super) fn tool_name(tool: &str) -> Option<String> {
    let tool: Value = serde_json::from_str(tool).ok()?;
    let name = ["/name", "/function/name", "/custom/name"].iter().find_map(|path| tool.pointer(path)?.as_str());
    name.map(str::to_owned)
}

fn definition(dialect: Dialect, tool: &Tool) -> Option<String> {
    let Tool { name, description, parameters } = tool;
    let parameters: Value = serde_json::from_str(parameters).ok()?;
    let definition = match dialect {
        Dialect::Chat => json!({
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }),
        // The schema's fields may be left out, so it cannot be a strict one; strict is what this API assumes.
        Dialect::Responses => json!({
            "type": "function", "name": name, "description": description, "parameters": parameters, "strict": false,
        }),
        Dialect::Anthropic => json!({"name": name, "description": description, "input_schema": parameters}),
        Dialect::AiSdk => return None,
    };
    Some(definition.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use epitome::wire::{Dialect::*, LastExchange, check};

    const RECALL: Tool = Tool { name: "recall", description: "Finds.", parameters: r#"{"type":"object"}"# };
    const READ: Tool = Tool { name: "read_artifact", description: "Reads.", parameters: r#"{"type":"object"}"# };

    /// `…` in the expectation stands for the definitions of both tools.
    fn check_injected(dialect: Dialect, body: &str, expect: &str) {
        let both = [RECALL, READ].map(|tool| definition(dialect, &tool).unwrap()).join(",");
        let injected = inject(body, dialect, &[RECALL, READ]).unwrap();
        assert_eq!(injected.body, expect.replace('…', &both));
        assert_eq!(injected.tools, [RECALL, READ]);
    }

    #[test]
    fn tools_go_behind_the_clients_own_and_no_other_byte_changes() {
        check_injected(
            Chat,
            r#"{ "tools" : [ {"type":"function","function":{"name":"read"}} ] , "x":1.0 }"#,
            r#"{ "tools" : [ {"type":"function","function":{"name":"read"}},… ] , "x":1.0 }"#,
        );
        check_injected(
            Anthropic,
            r#"{"tools":[{"name":"read","input_schema":{},"cache_control":{"type":"ephemeral"}}],"messages":[]}"#,
            r#"{"tools":[{"name":"read","input_schema":{},"cache_control":{"type":"ephemeral"}},…],"messages":[]}"#,
        );
        check_injected(Responses, r#"{"tools":[],"input":"x"}"#, r#"{"tools":[…],"input":"x"}"#);
        check_injected(
            Responses,
            r#"{"tools":null,"input":"x"}"#,
            r#"{"tools":null,"input":"x"}"#.replace("null", "[…]").as_str(),
        );
        check_injected(Chat, r#"{"messages":[] }"#, r#"{"messages":[],"tools":[…]}"#);
    }

    #[test]
    fn each_dialect_gets_its_own_form() {
        let forms = [Chat, Responses, Anthropic].map(|dialect| definition(dialect, &RECALL).unwrap());
        insta::assert_snapshot!(forms.join("\n"), @r#"
        {"type":"function","function":{"name":"recall","description":"Finds.","parameters":{"type":"object"}}}
        {"type":"function","name":"recall","description":"Finds.","parameters":{"type":"object"},"strict":false}
        {"name":"recall","description":"Finds.","input_schema":{"type":"object"}}
        "#);
    }

    #[test]
    fn a_name_the_client_uses_itself_is_the_clients() {
        for (dialect, tool) in [
            (Chat, r#"{"type":"function","function":{"name":"recall"}}"#),
            (Chat, r#"{"type":"custom","custom":{"name":"recall"}}"#),
            (Responses, r#"{"type":"function","name":"recall"}"#),
            (Anthropic, r#"{"name":"recall","input_schema":{}}"#),
        ] {
            let body = format!(r#"{{"tools":[{tool}]}}"#);
            assert_eq!(inject(&body, dialect, &[RECALL, READ]).unwrap().tools, [READ]);
            assert_eq!(inject(&body, dialect, &[RECALL]), None);
        }
    }

    #[test]
    fn the_definitions_do_not_come_and_go_with_the_choice_of_a_tool() {
        for choice in [r#""auto""#, r#""none""#, r#"{"type":"none"}"#, r#"{"type":"tool","name":"read"}"#] {
            let body = format!(r#"{{"tool_choice":{choice},"tools":[{{"name":"read","input_schema":{{}}}}]}}"#);
            assert!(inject(&body, Anthropic, &[RECALL]).is_some(), "{choice}");
        }
        assert_eq!(inject(r#"{"tool_choice":"none","messages":[]}"#, Chat, &[RECALL]), None);
        assert_eq!(inject(r#"{"tool_choice":{"type":"none"},"tools":[]}"#, Anthropic, &[RECALL]), None);
    }

    #[test]
    fn what_is_no_request_is_left_alone() {
        for body in ["", "[]", "{", r#"{"tools":{}}"#, r#"{"tools":"x"}"#] {
            assert_eq!(inject(body, Chat, &[RECALL]), None, "{body}");
        }
        assert_eq!(inject("{}", AiSdk, &[RECALL]), None);
    }

    #[test]
    fn an_injected_request_is_one_that_a_provider_takes() {
        let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
        for dialect in [Chat, Anthropic] {
            let body = inject(body, dialect, &[RECALL, READ]).unwrap().body;
            assert_eq!(check(dialect, &serde_json::from_str(&body).unwrap(), LastExchange::Closed), []);
        }
    }

    #[test]
    fn some_requests_cannot_be_woven() {
        for (dialect, body, expect) in [
            (Chat, r#"{}"#, true),
            (Chat, r#"{"n":1}"#, true),
            (Chat, r#"{"n":2}"#, false),
            (Chat, r#"{"functions":[]}"#, false),
            (Responses, r#"{}"#, true),
            (Responses, r#"{"previous_response_id":null}"#, true),
            (Responses, r#"{"previous_response_id":"resp_1"}"#, false),
            (Responses, r#"{"conversation":"conv_1"}"#, false),
            (Responses, r#"{"background":true}"#, false),
            (Responses, r#"{"reasoning":{"summary":"auto"}}"#, false),
            (Responses, r#"{"reasoning":{"summary":"auto"},"store":false}"#, true),
            (Responses, r#"{"reasoning":{"effort":"low"}}"#, true),
            (Anthropic, r#"{}"#, true),
            (AiSdk, r#"{}"#, false),
            (Chat, "nothing", false),
        ] {
            assert_eq!(can_inject(body, dialect), expect, "{body}");
        }
    }
}
