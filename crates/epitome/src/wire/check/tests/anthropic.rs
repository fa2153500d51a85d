//! Messages requests, and the rules that each of them breaks.

use serde_json::{Value, json};

use super::{Case, check, verdict};
use crate::wire::{Dialect, LastExchange};

#[test]
fn messages_requests_are_judged_as_anthropic_judges_them() {
    check(Dialect::Anthropic, CASES);
}

#[test]
fn a_request_has_at_most_100_000_messages() {
    let messages = |count| Value::Array(vec![json!({"role": "user", "content": "q"}); count]);
    assert_eq!(verdict(Dialect::Anthropic, &messages(100_000), LastExchange::Closed), "");
    assert_eq!(verdict(Dialect::Anthropic, &messages(100_001), LastExchange::Closed), "A14 messages");
}

#[test]
fn a_request_has_at_most_32_mb() {
    let request = |bytes| json!([{"role": "user", "content": "x".repeat(bytes)}]);
    assert_eq!(verdict(Dialect::Anthropic, &request(33_000_000), LastExchange::Closed), "");
    assert_eq!(verdict(Dialect::Anthropic, &request(34_000_000), LastExchange::Closed), "A14 request");
}

pub(super) const CASES: &[Case] = &[
    Case {
        claim: "a call is answered in the next message",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":"and?"}]"#,
        expect: "A1 messages.1.content.1",
    },
    Case {
        claim: "a system message between a call and its result parts them",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"system","content":"s"},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]"#,
        expect: "A1 messages.1.content.0; A2 messages.3.content.0",
    },
    Case {
        claim: "messages of one role are one turn",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"assistant","content":[{"type":"tool_use","id":"b","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":""}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[]}]},
                {"role":"user","content":"next"},{"role":"system","content":"mid"},{"role":"assistant","content":"x"}]"#,
        expect: "",
    },
    Case {
        claim: "an open tail waits for the last exchange",
        request: r#"{"open":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"b"}]}]}"#,
        expect: "",
    },
    Case {
        claim: "an open tail may end in calls",
        request: r#"{"open":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}]}"#,
        expect: "",
    },
    Case {
        claim: "an open tail is over when the user speaks",
        request: r#"{"open":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":"stop"}]}"#,
        expect: "A1 messages.1.content.0",
    },
    Case {
        claim: "a result needs its call in the message before",
        request: r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}]"#,
        expect: "A2 messages.0.content.0",
    },
    Case {
        claim: "a server's result needs its call before it",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"s","content":[]}]}]"#,
        expect: "A2 messages.1.content.0",
    },
    Case {
        claim: "code on the server may call the client before it ends",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"code_execution","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]},
                {"role":"assistant","content":[{"type":"code_execution_tool_result","tool_use_id":"s","content":{}}]}]"#,
        expect: "",
    },
    Case {
        claim: "results come first",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"text","text":"t"},{"type":"tool_result","tool_use_id":"a"}]}]"#,
        expect: "A3 messages.2.content.1",
    },
    Case {
        claim: "results come first in the merged turn",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":"t"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]"#,
        expect: "A3 messages.3.content.0",
    },
    Case {
        claim: "text may come after results",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"text","text":"t"}]}]"#,
        expect: "",
    },
    Case {
        claim: "the user speaks first",
        request: r#"[{"role":"assistant","content":"x"},{"role":"user","content":"q"}]"#,
        expect: "A4 messages.0",
    },
    Case {
        claim: "a compaction may come first",
        request: r#"[{"role":"assistant","content":[{"type":"compaction","content":"s"}]},{"role":"user","content":"q"}]"#,
        expect: "",
    },
    Case {
        claim: "messages are not empty, except the assistant's last",
        request: r#"[{"role":"user","content":" "},{"role":"assistant","content":[]},{"role":"user","content":"q"},{"role":"assistant","content":""}]"#,
        expect: "A5 messages.0; A5 messages.1",
    },
    Case {
        claim: "texts are not blank, nor empty inside a result",
        request: r#"[{"role":"user","content":[{"type":"text","text":"\n"},{"type":"new_kind"}]},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":""}]}]}]"#,
        expect: "A5 messages.0.content.0; A5 messages.2.content.0",
    },
    Case {
        claim: "roles are a closed set, and messages are objects",
        request: r#"[{"role":"user","content":"q"},{"role":"tool","content":"q"},7]"#,
        expect: "A5 messages.1; A5 messages.2",
    },
    Case {
        claim: "blocks have a type and calls an object as input",
        request: r#"[{"role":"user","content":[null]},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":"{}"}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":7}]},{"role":"user","content":{}}]"#,
        expect: "A5 messages.0.content.0; A5 messages.1.content.0; A5 messages.2.content.0; A5 messages.3",
    },
    Case {
        claim: "calls are the assistant's",
        request: r#"[{"role":"user","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}]"#,
        expect: "A5 messages.0.content.0",
    },
    Case {
        claim: "the system prompt has no empty text",
        request: r#"{"system":[{"type":"text","text":"s"},{"type":"text","text":""}],"messages":[{"role":"user","content":"q"}]}"#,
        expect: "A5 system.1",
    },
    Case { claim: "no message is no request", request: r#"{"messages":[]}"#, expect: "A5 messages" },
    Case { claim: "nothing is no request", request: "null", expect: "A5 messages" },
    Case {
        claim: "an open loop starts with a thought",
        request: r#"{"thinking":{"type":"enabled"},"tools":[{"name":"f"}],"messages":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}"#,
        expect: "A6 messages.1.content.0",
    },
    Case {
        claim: "a closed loop need not start with a thought, nor each step of an open one",
        request: r#"{"thinking":{"type":"enabled"},"tools":[{"name":"f"}],"messages":[{"role":"user","content":"q"},
                {"role":"assistant","content":"x"},{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"redacted_thinking","data":"d"},{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]},
                {"role":"assistant","content":[{"type":"tool_use","id":"b","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"b"}]}]}"#,
        expect: "",
    },
    Case {
        claim: "a loop that was compacted goes on with a thought",
        request: r#"{"thinking":{"type":"enabled"},"tools":[{"name":"f"}],"messages":[
                {"role":"assistant","content":[{"type":"compaction","content":"s"},{"type":"thinking","thinking":"t","signature":"s"},
                    {"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}"#,
        expect: "",
    },
    Case {
        claim: "adaptive thinking asks for nothing",
        request: r#"{"thinking":{"type":"adaptive"},"tools":[{"name":"f"}],"messages":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}"#,
        expect: "",
    },
    Case {
        claim: "a final message does not think when thinking is off",
        request: r#"{"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"x"}]}]}"#,
        expect: "A7 messages.1.content.0",
    },
    Case {
        claim: "an earlier thought does no harm when thinking is off",
        request: r#"{"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"text","text":"x"}]},
                {"role":"user","content":"q"}]}"#,
        expect: "",
    },
    Case {
        claim: "a thought that lost its words is not the model's",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","content":[
                {"type":"thinking","signature":"s"},{"type":"redacted_thinking"},{"type":"text","text":"x"}]}]"#,
        expect: "A8 messages.1.content.0; A8 messages.1.content.1",
    },
    Case {
        claim: "the user does not think",
        request: r#"[{"role":"user","content":[{"type":"thinking","thinking":"t","signature":"s"}]}]"#,
        expect: "A8 messages.0.content.0",
    },
    Case {
        claim: "a thought is signed",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","content":[
                {"type":"thinking","thinking":"t"},{"type":"thinking","thinking":"t","signature":""},
                {"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"x"}]}]"#,
        expect: "A9 messages.1.content.0; A9 messages.1.content.1",
    },
    Case {
        claim: "a request with calls declares tools",
        request: r#"{"messages":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}"#,
        expect: "A11 messages.1.content.0",
    },
    Case {
        claim: "a request without calls needs no tools",
        request: r#"{"messages":[{"role":"user","content":"q"}]}"#,
        expect: "",
    },
    Case {
        claim: "ids and names are words",
        request: r#"{"tools":[{"name":"g.h"}],"messages":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a:1","name":"f","input":{}},{"type":"tool_use","id":"b","name":"","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a:1"},{"type":"tool_result","tool_use_id":"b"}]}]}"#,
        expect: "A12 tools.0; A12 messages.1.content.0; A12 messages.1.content.1",
    },
    Case {
        claim: "dashes and underscores are part of words",
        request: r#"{"tools":[{"name":"mcp__x-Y_9"}],"messages":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"toolu_01-Z","name":"mcp__x-Y_9","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01-Z"}]}]}"#,
        expect: "",
    },
    Case {
        claim: "a prefill does not end in whitespace",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"so "}]}]"#,
        expect: "A13 messages.1.content.0",
    },
    Case {
        claim: "a message that is not the last may end in whitespace",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","content":"so\n"},{"role":"user","content":"q\n"}]"#,
        expect: "",
    },
    Case {
        claim: "a session that stopped is no prefill",
        request: r#"{"open":[{"role":"user","content":"q"},{"role":"assistant","content":"so\n"}]}"#,
        expect: "",
    },
    Case {
        claim: "four marks are enough, wherever they are",
        request: r#"{"cache_control":{"type":"ephemeral"},"tools":[{"name":"f","cache_control":{}}],
                "system":[{"type":"text","text":"s","cache_control":{}}],
                "messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{}}]},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"r","cache_control":{}}]}]}]}"#,
        expect: "A14 messages.2.content.0",
    },
    Case {
        claim: "a mark that is null is none",
        request: r#"{"tools":[{"name":"f","cache_control":{}}],
                "system":[{"type":"text","text":"s","cache_control":{"ttl":"1h"}},{"type":"text","text":"s","cache_control":null}],
                "messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{}},{"type":"text","text":"q","cache_control":{}}]}]}"#,
        expect: "A14 system.0",
    },
    Case {
        claim: "four marks with the longest-lived first are taken",
        request: r#"{"tools":[{"name":"f","cache_control":{"ttl":"1h"}}],
                "system":[{"type":"text","text":"s","cache_control":{"ttl":"1h"}}],
                "messages":[{"role":"user","content":[{"type":"text","text":"q","cache_control":{"ttl":"5m"}},{"type":"text","text":"q","cache_control":{}}]}]}"#,
        expect: "",
    },
    Case {
        claim: "a thought carries no mark",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","content":[
                {"type":"thinking","thinking":"t","signature":"s","cache_control":{}},{"type":"text","text":"x"}]}]"#,
        expect: "A14 messages.1.content.0",
    },
    Case {
        claim: "an id is used once in a conversation",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]"#,
        expect: "A16 messages.3.content.0",
    },
    Case {
        claim: "a call has one result",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
                {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"a"}]}]"#,
        expect: "A16 messages.2.content.1",
    },
];
