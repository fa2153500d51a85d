//! AI SDK message lists, and the rules that each of them breaks.

use super::{Case, check};
use crate::wire::Dialect;

#[test]
fn message_lists_are_judged_as_the_sdk_judges_them() {
    check(Dialect::AiSdk, CASES);
}

pub(super) const CASES: &[Case] = &[
    Case {
        claim: "a call is answered before the user speaks",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}}]},
                {"role":"user","content":"and?"}]"#,
        expect: "S1 messages.1.content.0",
    },
    Case {
        claim: "calls beside the content, as old versions have them, are calls",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":"","toolCalls":[{"toolCallId":"a","toolName":"f","args":{}}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"f","result":"r"}]},
                {"role":"assistant","content":"","toolCalls":[{"toolCallId":"b","toolName":"f","args":{}}]},
                {"role":"user","content":"and?"}]"#,
        expect: "S1 messages.3",
    },
    Case {
        claim: "calls of a run of assistant messages are answered in the run of tool messages after it",
        request: r#"[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"q"},{"type":"image","image":"u"}]},
                {"role":"assistant","content":[{"type":"reasoning","text":"t"},{"type":"tool-call","toolCallId":"a","toolName":"f","args":{}}]},
                {"role":"assistant","content":[{"type":"tool-call","toolCallId":"b","toolName":"f","input":{}}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"b","toolName":"f","result":"r"}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"f","output":{"type":"text","value":"r"}}]},
                {"role":"assistant","content":"x"}]"#,
        expect: "",
    },
    Case {
        claim: "an answered approval settles a call, and its result may follow",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}},{"type":"tool-approval-request","approvalId":"p","toolCallId":"a"},
                    {"type":"tool-call","toolCallId":"b","toolName":"f","input":{}},{"type":"tool-approval-request","approvalId":"r","toolCallId":"b"}]},
                {"role":"tool","content":[{"type":"tool-approval-response","approvalId":"p","approved":true},{"type":"tool-approval-response","approvalId":"r","approved":true}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"b","toolName":"f"}]}]"#,
        expect: "",
    },
    Case {
        claim: "the provider answers its own calls, now or later",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"f","input":{},"providerExecuted":true}]},
                {"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool-result","toolCallId":"a","toolName":"f"}]}]"#,
        expect: "",
    },
    Case {
        claim: "an open tail waits for the last exchange",
        request: r#"{"open":[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}},{"type":"tool-call","toolCallId":"b","toolName":"f","input":{}}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"b","toolName":"f"}]}]}"#,
        expect: "",
    },
    Case {
        claim: "a result needs its call",
        request: r#"[{"role":"user","content":"q"},{"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"f"}]}]"#,
        expect: "S2 messages.1.content.0",
    },
    Case {
        claim: "roles are a closed set, and messages are objects",
        request: r#"[{"role":"developer","content":"q"},7]"#,
        expect: "S3 messages.0; S3 messages.1",
    },
    Case {
        claim: "a tool answers in parts, a system speaks in a string",
        request: r#"[{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"tool","content":"r"},{"role":"user","content":null}]"#,
        expect: "S3 messages.0; S3 messages.1; S3 messages.2",
    },
    Case {
        claim: "a part has a type, a call an id and a name",
        request: r#"[{"role":"assistant","content":[7,{"type":"tool-call"},{"type":"new-kind"}]}]"#,
        expect: "S3 messages.0.content.0; S3 messages.0.content.1; S3 messages.0.content.1",
    },
    Case { claim: "no message is no request", request: "[]", expect: "S3 messages" },
    Case {
        claim: "messages are not empty",
        request: r#"[{"role":"user","content":""},{"role":"assistant","content":[]},{"role":"assistant","content":[{"type":"text","text":""}]}]"#,
        expect: "S4 messages.0; S4 messages.1; S4 messages.2",
    },
    Case {
        claim: "an empty text beside something does no harm",
        request: r#"[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"q"}]}]"#,
        expect: "",
    },
    Case {
        claim: "an id is used once in an exchange",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}},{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"f"},{"type":"tool-result","toolCallId":"a","toolName":"f"}]}]"#,
        expect: "S5 messages.1.content.1; S5 messages.2.content.1",
    },
    Case {
        claim: "an id may come back in a later exchange",
        request: r#"[{"role":"user","content":"q"},
                {"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"f"}]},
                {"role":"assistant","content":[{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"f"}]}]"#,
        expect: "",
    },
    Case {
        claim: "calls are the assistant's, texts are not a tool's",
        request: r#"[{"role":"user","content":[{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}}]},
                {"role":"tool","content":[{"type":"text","text":"r"}]}]"#,
        expect: "S6 messages.0.content.0; S6 messages.1.content.0",
    },
    Case {
        claim: "the assistant may think and attach files",
        request: r#"[{"role":"assistant","content":[{"type":"reasoning","text":""},{"type":"file","data":"d"}]}]"#,
        expect: "",
    },
    Case {
        claim: "the system speaks first",
        request: r#"[{"role":"user","content":"q"},{"role":"system","content":"s"}]"#,
        expect: "S7 messages.1",
    },
    Case {
        claim: "the system may speak twice, at first",
        request: r#"[{"role":"system","content":"s"},{"role":"system","content":"s"},{"role":"user","content":"q"}]"#,
        expect: "",
    },
];
