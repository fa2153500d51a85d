//! Chat Completions requests, and the rules that each of them breaks.

use super::{Case, check};
use crate::wire::Dialect;

#[test]
fn chat_requests_are_judged_as_openai_judges_them() {
    check(Dialect::Chat, CASES);
}

pub(super) const CASES: &[Case] = &[
    Case {
        claim: "a call needs its answer before the next message",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"user","content":"and?"}]"#,
        expect: "C1 messages.1.tool_calls.0",
    },
    Case {
        claim: "an answer after another message comes too late",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"user","content":"and?"},
                {"role":"tool","tool_call_id":"a","content":"r"}]"#,
        expect: "C1 messages.1.tool_calls.0; C2 messages.3",
    },
    Case {
        claim: "two calls cannot share an id",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[
                    {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
                    {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"a","content":"r"}]"#,
        expect: "C1 messages.1.tool_calls.1",
    },
    Case {
        claim: "parallel calls may be answered in any order, and ids come back in a later exchange",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":"","tool_calls":[
                    {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
                    {"id":"b","type":"custom","custom":{"name":"g","input":"not json"}}]},
                {"role":"tool","tool_call_id":"b","content":"r"},
                {"role":"tool","tool_call_id":"a","content":""},
                {"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"p\":1}"}}]},
                {"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"r"}]}]"#,
        expect: "",
    },
    Case {
        claim: "an open tail waits for the last exchange",
        request: r#"{"open":[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[
                    {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
                    {"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"b","content":"r"}]}"#,
        expect: "",
    },
    Case {
        claim: "an open tail forgives no earlier exchange",
        request: r#"{"open":[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"user","content":"stop"}]}"#,
        expect: "C1 messages.1.tool_calls.0",
    },
    Case {
        claim: "a result without its call is a stray",
        request: r#"[{"role":"user","content":"q"},{"role":"tool","tool_call_id":"a","content":"r"}]"#,
        expect: "C2 messages.1",
    },
    Case {
        claim: "a call is answered once",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"a","content":"r"},{"role":"tool","tool_call_id":"a","content":"r"}]"#,
        expect: "C2 messages.3",
    },
    Case { claim: "a list without messages is no request", request: "[]", expect: "C3 messages" },
    Case { claim: "a text is no request", request: r#""hello""#, expect: "C3 messages" },
    Case { claim: "`messages` must be a list", request: r#"{"messages":7}"#, expect: "C3 messages" },
    Case {
        claim: "a user says something, if only the empty string",
        request: r#"[{"role":"user","content":null},{"role":"assistant","content":""},{"role":"user","content":""}]"#,
        expect: "C3 messages.0",
    },
    Case { claim: "a message is an object", request: "[null]", expect: "C3 messages.0" },
    Case { claim: "roles are a closed set", request: r#"[{"role":"model","content":"q"}]"#, expect: "C3 messages.0" },
    Case { claim: "developer is a role", request: r#"[{"role":"developer","content":"q"}]"#, expect: "" },
    Case {
        claim: "content is not an empty list",
        request: r#"[{"role":"user","content":[]}]"#,
        expect: "C3 messages.0",
    },
    Case {
        claim: "a part has a type, and text is text",
        request: r#"[{"role":"user","content":[7,{"type":"text"},{"type":"new_kind"}]}]"#,
        expect: "C3 messages.0.content.0; C3 messages.0.content.1",
    },
    Case {
        claim: "a list of calls is not empty, but may be null",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","content":"x","tool_calls":[]},
                {"role":"user","content":"q"},{"role":"assistant","content":"x","tool_calls":null}]"#,
        expect: "C3 messages.1",
    },
    Case {
        claim: "a call has an id and a name, and a type of call nobody knows is carried",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[
                {"type":"function","function":{"arguments":"{}"}},{"id":"z","type":"custom"},{"id":"y","type":"new"}]},
                {"role":"tool","tool_call_id":"y","content":""},{"role":"tool","tool_call_id":"z","content":""}]"#,
        expect: "C3 messages.1.tool_calls.0; C3 messages.1.tool_calls.0; C3 messages.1.tool_calls.1",
    },
    Case {
        claim: "a tool message names its call",
        request: r#"[{"role":"user","content":"q"},{"role":"tool","content":"r"}]"#,
        expect: "C3 messages.1",
    },
    Case {
        claim: "an assistant says or calls something",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","content":null}]"#,
        expect: "C4 messages.1",
    },
    Case {
        claim: "a refusal is something to say",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","content":null,"refusal":"no"}]"#,
        expect: "",
    },
    Case {
        claim: "arguments cut in the middle are no JSON",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"p\": \"a"}}]},
                {"role":"tool","tool_call_id":"a","content":"r"}]"#,
        expect: "C5 messages.1.tool_calls.0",
    },
    Case {
        claim: "arguments are the text of an object, not an object or a list",
        request: r#"[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[
                {"id":"a","type":"function","function":{"name":"f","arguments":{}}},
                {"id":"b","type":"function","function":{"name":"f","arguments":"[1]"}}]},
                {"role":"tool","tool_call_id":"a","content":"r"},{"role":"tool","tool_call_id":"b","content":"r"}]"#,
        expect: "C5 messages.1.tool_calls.0; C5 messages.1.tool_calls.1",
    },
    Case {
        claim: "Mistral reads its own ids only, and no user after a tool",
        request: r#"{"model":"Mistral-large","tools":[{}],"messages":[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"call_1","content":"r"},{"role":"user","content":"q"},
                {"role":"assistant","content":"x"}]}"#,
        expect: "C6 messages.1.tool_calls.0; C6 messages.3; C6 messages.4",
    },
    Case {
        claim: "an id of nine letters and digits is Mistral's, and a prefix may come last",
        request: r#"{"model":"mistral-large","tools":[{}],"messages":[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[{"id":"abc123XYZ","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"abc123XYZ","content":"r"},{"role":"assistant","content":"x","prefix":true}]}"#,
        expect: "",
    },
    Case {
        claim: "templates alternate",
        request: r#"[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"user","content":"q"}]"#,
        expect: "C7 messages.2",
    },
    Case {
        claim: "templates take a system message first only",
        request: r#"[{"role":"user","content":"q"},{"role":"system","content":"s"}]"#,
        expect: "C7 messages.1",
    },
    Case {
        claim: "templates begin with the user",
        request: r#"[{"role":"assistant","content":"x"}]"#,
        expect: "C7 messages.0",
    },
    Case {
        claim: "results stand between two assistant messages",
        request: r#"[{"role":"system","content":"s"},{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"a","content":"r"},{"role":"assistant","content":"x"}]"#,
        expect: "",
    },
    Case {
        claim: "a request with calls declares tools",
        request: r#"{"tools":[],"messages":[{"role":"user","content":"q"},
                {"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"a","content":"r"}]}"#,
        expect: "C8 messages.1",
    },
    Case {
        claim: "a request without calls needs no tools",
        request: r#"{"messages":[{"role":"user","content":"q"}]}"#,
        expect: "",
    },
    Case {
        claim: "an image in a result is refused",
        request: r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]},
                {"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
                {"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"u"}}]}]"#,
        expect: "C9 messages.2.content.0",
    },
];
