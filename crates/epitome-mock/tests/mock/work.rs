//! Work for real agents, and the compactions they ask for themselves.

use std::process::Command;

use epitome_mock::{MockSettings, MockWork};
use serde_json::{Value, json};

use crate::bench::{Bench, chat, gemini, long, messages, responses, with};

fn working(turns: u64) -> Bench {
    let work = MockWork { turns, bytes: 3_000, ..MockWork::default() };
    Bench::over(MockSettings { work, ..MockSettings::default() })
}

/// A tool as an agent declares it: its name and its schema.
struct Declared {
    agent: &'static str,
    protocol: &'static str,
    name: &'static str,
    schema: Value,
}

fn object(properties: Value, required: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// The tools with which the agents run commands or read files, as they declare them.
fn declared() -> Vec<Declared> {
    let string = || json!({"type": "string"});
    let number = || json!({"type": "number"});
    vec![
        Declared {
            agent: "claude-code",
            protocol: "anthropic",
            name: "Bash",
            schema: object(
                json!({"command": string(), "timeout": number(), "description": string(),
                    "run_in_background": {"type": "boolean"}, "dangerouslyDisableSandbox": {"type": "boolean"}}),
                json!(["command"]),
            ),
        },
        Declared {
            agent: "codex, exec",
            protocol: "responses",
            name: "exec_command",
            schema: object(
                json!({"cmd": string(), "workdir": string(), "shell": string(), "login": {"type": "boolean"},
                    "yield_time_ms": number(), "max_output_tokens": number(), "tty": {"type": "boolean"}}),
                json!(["cmd"]),
            ),
        },
        Declared {
            agent: "codex, shell",
            protocol: "responses",
            name: "shell",
            schema: object(
                json!({"command": {"type": "array", "items": string()}, "workdir": string(), "timeout_ms": number()}),
                json!(["command"]),
            ),
        },
        Declared {
            agent: "opencode",
            protocol: "chat",
            name: "bash",
            schema: object(
                json!({"command": string(), "timeout": number(), "workdir": string(), "description": string()}),
                json!(["command", "description"]),
            ),
        },
        Declared {
            agent: "pi",
            protocol: "chat",
            name: "bash",
            schema: object(json!({"command": string(), "timeout": number()}), json!(["command"])),
        },
        Declared {
            agent: "qwen-code",
            protocol: "chat",
            name: "run_shell_command",
            schema: object(
                json!({"command": string(), "is_background": {"type": "boolean"}, "timeout": number(),
                    "description": string(), "directory": string()}),
                json!(["command", "is_background"]),
            ),
        },
        Declared {
            agent: "gemini-cli",
            protocol: "gemini",
            name: "run_shell_command",
            schema: object(
                json!({"command": string(), "description": string(), "dir_path": string(), "is_background": {"type": "boolean"}}),
                json!(["command"]),
            ),
        },
        Declared {
            agent: "strict, every field required",
            protocol: "chat",
            name: "shell",
            schema: object(
                json!({"command": string(), "mode": {"enum": ["fast", "slow"]}, "limit": {"type": "integer", "minimum": 5},
                    "env": {"type": ["object", "null"]}, "tags": {"type": "array", "minItems": 1, "items": string()},
                    "nested": object(json!({"deep": string()}), json!(["deep"]))}),
                json!(["command", "mode", "limit", "env", "tags", "nested"]),
            ),
        },
        Declared {
            agent: "only reads",
            protocol: "chat",
            name: "read_file",
            schema: object(
                json!({"absolute_path": string(), "offset": number(), "limit": number()}),
                json!(["absolute_path"]),
            ),
        },
    ]
}

impl Declared {
    fn request(&self) -> (&'static str, Value) {
        let Declared { name, schema, .. } = self;
        match self.protocol {
            "anthropic" => {
                let tools = json!([{"name": "Task", "input_schema": {"type": "object"}}, {"name": name, "input_schema": schema}]);
                ("/v1/messages", with(messages(10), json!({"tools": tools})))
            }
            "responses" => {
                let tools = json!([{"type": "custom", "name": "apply_patch"}, {"type": "web_search"},
                    {"type": "function", "name": name, "parameters": schema}]);
                ("/v1/responses", with(responses(10), json!({"tools": tools})))
            }
            "gemini" => {
                let tools = json!([{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}]);
                ("/v1beta/models/gemini-2.5-flash:generateContent", with(gemini(10), json!({"tools": tools})))
            }
            _ => {
                let tools = json!([{"type": "function", "function": {"name": "glob", "parameters": {"type": "object"}}},
                    {"type": "function", "function": {"name": name, "parameters": schema}}]);
                ("/v1/chat/completions", with(chat(10), json!({"tools": tools})))
            }
        }
    }
}

/// The calls of an answer: name and arguments.
fn calls(answer: &Value) -> Vec<(String, Value)> {
    let parsed = |text: &Value| serde_json::from_str(text.as_str().unwrap_or("null")).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let mut calls = Vec::new();
    for call in list(&answer["choices"][0]["message"]["tool_calls"]) {
        calls.push((name(&call["function"]), parsed(&call["function"]["arguments"])));
    }
    for item in list(&answer["output"]).iter().filter(|item| item["type"] == "function_call") {
        calls.push((name(item), parsed(&item["arguments"])));
    }
    for block in list(&answer["content"]).iter().filter(|block| block["type"] == "tool_use") {
        calls.push((name(block), block["input"].clone()));
    }
    for part in
        list(&answer["candidates"][0]["content"]["parts"]).iter().filter(|part| part.get("functionCall").is_some())
    {
        calls.push((name(&part["functionCall"]), part["functionCall"]["args"].clone()));
    }
    calls
}

/// Whether a value is what a schema asks for.
fn fits(schema: &Value, value: &Value) -> bool {
    if let Some(all) = schema["enum"].as_array() {
        return all.contains(value);
    }
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        one => vec![one.clone()],
    };
    kinds.iter().any(|kind| match kind.as_str().unwrap_or_default() {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_u64().is_some_and(|number| number >= schema["minimum"].as_u64().unwrap_or(0)),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.as_array().is_some_and(|list| {
            list.len() as u64 >= schema["minItems"].as_u64().unwrap_or(0)
                && list.iter().all(|item| fits(&schema["items"], item))
        }),
        "object" => value.as_object().is_some_and(|fields| {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            required.iter().all(|name| fields.contains_key(name.as_str().unwrap()))
                && fields.iter().all(|(name, value)| fits(&schema["properties"][name], value))
        }),
        _ => false,
    })
}

#[tokio::test]
async fn every_agent_gets_calls_that_its_own_schema_takes() {
    for tool in declared() {
        let bench = working(3);
        let (path, request) = tool.request();
        let answer = bench.post(path, &request).await.fine().json();
        let calls = calls(&answer);
        assert_eq!(calls.len(), 1, "{}: {answer}", tool.agent);
        assert_eq!(calls[0].0, tool.name, "{}", tool.agent);
        assert!(fits(&tool.schema, &calls[0].1), "{}: {}", tool.agent, calls[0].1);
    }
}

#[tokio::test]
async fn codex_own_shell_gets_an_action() {
    let bench = working(1);
    let answer = bench
        .post("/v1/responses", &with(responses(10), json!({"tools": [{"type": "local_shell"}]})))
        .await
        .fine()
        .json();
    let item = answer["output"].as_array().unwrap().iter().find(|item| item["type"] == "local_shell_call").unwrap();
    assert_eq!(item["action"]["type"], "exec");
    assert_eq!(item["action"]["command"][0], "bash");
}

/// A chat request after so many turns: a body that differs each time.
fn turn(at: usize) -> Value {
    let (_, request) = declared().remove(4).request();
    with(request, json!({"messages": [{"role": "user", "content": format!("go {at}")}]}))
}

#[tokio::test]
async fn the_work_ends_after_its_turns_and_each_command_really_runs() {
    let bench = working(7);
    let mut seen = Vec::new();
    let mut parallel = 0;
    for at in 0..7 {
        let answer = bench.post("/v1/chat/completions", &turn(at)).await.fine().json();
        let calls = calls(&answer);
        parallel += usize::from(calls.len() == 2);
        for (_, arguments) in calls {
            let command = arguments["command"].as_str().unwrap().to_owned();
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            assert!(output.status.success(), "{command}");
            assert!((2_000..5_000).contains(&output.stdout.len()), "{command}: {}", output.stdout.len());
            assert!(!seen.contains(&command), "{command}");
            seen.push(command);
        }
    }
    assert_eq!((seen.len(), parallel), (9, 2));
    let text = |answer: Value| answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let done = bench.post("/v1/chat/completions", &turn(7)).await.fine().json();
    assert_eq!(text(done), "WORK DONE after 7 calls");
    let idle = bench.post("/v1/chat/completions", &turn(8)).await.fine().json();
    assert_eq!(text(idle), "This is the mock provider. I saw 1 messages.");
}

#[tokio::test]
async fn a_retry_and_a_title_are_no_progress() {
    let bench = working(2);
    let first = bench.post("/v1/chat/completions", &turn(0)).await.fine();
    assert_eq!(bench.post("/v1/chat/completions", &turn(0)).await.fine().text(), first.text());
    let title = bench.post("/v1/chat/completions", &chat(20)).await.fine().json();
    assert!(calls(&title).is_empty());
    assert_eq!(bench.mock.work_turns("sk-test"), 1);
}

#[tokio::test]
async fn who_wants_one_call_at_a_time_gets_one() {
    let bench = working(9);
    for at in 0..4 {
        let answer = bench
            .post("/v1/chat/completions", &with(turn(at), json!({"parallel_tool_calls": false})))
            .await
            .fine()
            .json();
        assert_eq!(calls(&answer).len(), 1);
    }
}

#[tokio::test]
async fn the_gateways_own_tools_are_called_now_and_then_with_an_id_that_the_prompt_names() {
    let work = MockWork { turns: 8, gateway_tools: true, ..MockWork::default() };
    let bench = Bench::over(MockSettings { work, ..MockSettings::default() });
    let mut names = Vec::new();
    for at in 0..10 {
        let mut request = turn(at);
        let own = |name: &str, field: &str| json!({"type": "function", "function": {"name": name, "parameters": object(json!({field: {"type": "string"}}), json!([field]))}});
        let tools = request["tools"].as_array_mut().unwrap();
        tools.extend([own("read_artifact", "id"), own("recall", "query")]);
        request["messages"][0]["content"] =
            format!("go {at} [Externalized Content - artifact:9f86d081884c7d65]").into();
        let answer = bench.post("/v1/chat/completions", &request).await.fine().json();
        for (name, arguments) in calls(&answer) {
            if name == "read_artifact" {
                assert_eq!(arguments, json!({"id": "9f86d081884c7d65"}));
            }
            names.push(name);
        }
    }
    assert_eq!(names.iter().filter(|name| *name == "read_artifact").count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == "bash").count(), 8 + 2, "{names:?}");
}

#[tokio::test]
async fn a_compaction_is_answered_in_the_shape_it_is_asked_for() {
    let bench = working(50);
    let (_, bash) = declared().remove(0).request();
    let summary = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\nYour task is to create a detailed summary of the \
                   conversation so far";
    let claude = with(bash, json!({"messages": [{"role": "user", "content": summary}]}));
    let answer = bench.post("/v1/messages", &claude).await.fine().json();
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("<summary>") && text.contains("</summary>"), "{text}");

    let codex = json!({"model": "m", "input": [{"role": "user", "content": "You are performing a CONTEXT CHECKPOINT COMPACTION."}]});
    let answer = bench.post("/v1/responses", &codex).await.fine().json();
    assert!(answer["output"][0]["content"][0]["text"].as_str().unwrap().contains("## Goal"));

    let qwen = json!({"model": "m", "messages": [{"role": "system", "content": "Answer with a <state_snapshot>"}, {"role": "user", "content": "go"}]});
    let answer = bench.post("/v1/chat/completions", &qwen).await.fine().json();
    assert!(answer["choices"][0]["message"]["content"].as_str().unwrap().ends_with("</state_snapshot>"));
    assert_eq!(bench.mock.work_turns("sk-test"), 0);
}

#[tokio::test]
async fn openai_compacts_on_demand_and_takes_its_own_item_back() {
    let bench = Bench::new();
    let user = json!({"type": "message", "role": "user", "content": "one"});
    let input = json!([user, {"role": "assistant", "content": "a"}]);
    let compact = bench.post("/v1/responses/compact", &json!({"model": "m", "input": input})).await.fine().json();
    assert_eq!(compact["object"], "response.compaction");
    let output = compact["output"].as_array().unwrap();
    assert_eq!((output.len(), &output[0], &output[1]["type"]), (2, &user, &json!("compaction")));
    let next =
        json!({"model": "m", "store": false, "input": [output[0], output[1], {"role": "user", "content": "two"}]});
    bench.post("/v1/responses", &next).await.fine();

    let triggered = json!({"model": "m", "input": [user, {"type": "compaction_trigger"}]});
    let answer = bench.post("/v1/responses", &triggered).await.fine().json();
    assert_eq!((answer["output"].as_array().unwrap().len(), &answer["output"][0]["type"]), (1, &json!("compaction")));

    let threshold = json!([{"type": "compaction", "compact_threshold": 1_000}]);
    let over = json!({"model": "m", "input": long(3_000), "context_management": threshold});
    let kinds: Vec<Value> = bench.post("/v1/responses", &over).await.fine().json()["output"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].clone())
        .collect();
    assert_eq!(kinds, ["compaction", "message"]);
}

#[tokio::test]
async fn anthropic_compacts_on_demand_and_forgets_what_came_before() {
    let bench = Bench::new();
    let beta = [("anthropic-beta", "compact-2026-09-04")];
    let body = with(messages(5_000), json!({"compaction": {"type": "summarize"}}));
    let answer = bench.post_with("/v1/messages", &beta, &body).await.fine().json();
    assert_eq!(answer["stop_reason"], "compaction");
    let block = answer["content"][0].clone();
    assert_eq!(block["type"], "compaction");
    let compacted = json!([{"role": "user", "content": long(5_000)}, {"role": "assistant", "content": [block]}, {"role": "user", "content": "two"}]);
    let next = with(messages(10), json!({"messages": compacted}));
    let usage = bench.post_with("/v1/messages", &beta, &next).await.fine().json()["usage"].clone();
    assert!(usage["input_tokens"].as_u64().unwrap() < 1_000, "{usage}");
    assert_eq!(bench.post("/v1/messages", &next).await.status, 400);

    let edits = json!({"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 2_000}, "pause_after_compaction": true}]});
    let beta = [("anthropic-beta", "compact-2026-01-12")];
    let over = with(messages(5_000), json!({"context_management": edits}));
    let answer = bench.post_with("/v1/messages", &beta, &over).await.fine().json();
    assert_eq!((&answer["stop_reason"], &answer["content"][0]["type"]), (&json!("compaction"), &json!("compaction")));
}
