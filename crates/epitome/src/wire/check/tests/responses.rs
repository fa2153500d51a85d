//! Responses requests, and the rules that each of them breaks.

use super::{Case, check};
use crate::wire::Dialect;

#[test]
fn responses_requests_are_judged_as_openai_judges_them() {
    check(Dialect::Responses, CASES);
}

pub(super) const CASES: &[Case] = &[
    Case {
        claim: "a call needs an output",
        request: r#"[{"role":"user","content":"q"},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}]"#,
        expect: "R1 input.1",
    },
    Case {
        claim: "an output answers its own kind of call",
        request: r#"[{"type":"custom_tool_call","call_id":"a","name":"f","input":"x"},
                {"type":"function_call_output","call_id":"a","output":"r"}]"#,
        expect: "R1 input.0; R2 input.1",
    },
    Case {
        claim: "every kind of call is paired by call_id, and ids come back once answered",
        request: r#"[
                {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                {"type":"custom_tool_call","call_id":"b","name":"f","input":"x"},
                {"type":"local_shell_call","call_id":"c","action":{}},
                {"type":"local_shell_call","call_id":"d","action":{}},
                {"type":"shell_call","call_id":"e","action":{}},
                {"type":"apply_patch_call","call_id":"f","operation":{}},
                {"type":"computer_call","call_id":"g","action":{}},
                {"type":"tool_search_call","call_id":"h","execution":"client"},
                {"type":"tool_search_call","call_id":null,"execution":"server"},
                {"type":"tool_search_output","call_id":"h","tools":[]},
                {"type":"computer_call_output","call_id":"g","output":{}},
                {"type":"apply_patch_call_output","call_id":"f","status":"completed"},
                {"type":"shell_call_output","call_id":"e","output":[]},
                {"type":"function_call_output","call_id":"d","output":"codex"},
                {"type":"local_shell_call_output","id":"c","output":"r"},
                {"type":"custom_tool_call_output","call_id":"b","output":"r"},
                {"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"r"}]},
                {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"a","output":"r"}]"#,
        expect: "",
    },
    Case {
        claim: "an open tail waits for the last exchange",
        request: r#"{"open":[{"type":"reasoning","summary":[]},
                {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                {"type":"function_call","call_id":"b","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"a","output":"r"}]}"#,
        expect: "",
    },
    Case {
        claim: "an item nobody knows does not end an open tail",
        request: r#"{"open":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"new_kind"}]}"#,
        expect: "",
    },
    Case {
        claim: "an open tail may end in a thought",
        request: r#"{"open":[{"role":"user","content":"q"},{"type":"reasoning","summary":[]}]}"#,
        expect: "",
    },
    Case {
        claim: "an open tail forgives no earlier exchange",
        request: r#"{"open":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                {"role":"user","content":"stop"}]}"#,
        expect: "R1 input.0",
    },
    Case {
        claim: "an output without its call is a stray",
        request: r#"[{"role":"user","content":"q"},{"type":"function_call_output","call_id":"a","output":"r"}]"#,
        expect: "R2 input.1",
    },
    Case {
        claim: "a call has one output",
        request: r#"[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"a","output":"r"},
                {"type":"function_call_output","call_id":"a","output":"r"}]"#,
        expect: "R2 input.2",
    },
    Case {
        claim: "the call may be on the server",
        request: r#"{"previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"a","output":"r"}]}"#,
        expect: "",
    },
    Case {
        claim: "a referenced item may be the other half of a pair",
        request: r#"[{"type":"item_reference","id":"fc_1"},{"type":"function_call_output","call_id":"a","output":"r"},
                {"type":"function_call","call_id":"b","name":"f","arguments":"{}"}]"#,
        expect: "",
    },
    Case {
        claim: "reasoning keeps what followed it",
        request: r#"[{"type":"reasoning","id":"rs_1","summary":[]},{"role":"user","content":"q"}]"#,
        expect: "R3 input.0",
    },
    Case {
        claim: "an output is not what the model made of its reasoning",
        request: r#"[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"reasoning","summary":[]},
                {"type":"function_call_output","call_id":"a","output":"r"}]"#,
        expect: "R3 input.1",
    },
    Case {
        claim: "reasoning does not come last",
        request: r#"[{"role":"user","content":"q"},{"type":"reasoning","id":"rs_1","summary":[]}]"#,
        expect: "R3 input.1",
    },
    Case {
        claim: "reasoning may be followed by reasoning, a message, or an item nobody knows",
        request: r#"[{"type":"reasoning","summary":[]},{"type":"reasoning","summary":[]},{"role":"assistant","content":"x"},
                {"type":"reasoning","summary":[]},{"type":"web_search_call","id":"ws_1"}]"#,
        expect: "",
    },
    Case {
        claim: "a stored call may miss its reasoning",
        request: r#"{"reasoning":{"effort":"high"},"input":[
                {"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"a","output":"r"}]}"#,
        expect: "R4 input.0",
    },
    Case {
        claim: "a call without an id, or behind its reasoning, misses nothing",
        request: r#"{"reasoning":{"effort":"high"},"input":[
                {"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"a","output":"r"},
                {"type":"reasoning","id":"rs_1","summary":[]},
                {"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"x"}]},
                {"type":"function_call","id":"fc_2","call_id":"b","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"b","output":"r"}]}"#,
        expect: "",
    },
    Case {
        claim: "without a store an id is not enough",
        request: r#"{"store":false,"input":[{"type":"item_reference","id":"msg_1"},
                {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null},{"role":"assistant","content":"x"}]}"#,
        expect: "R5 input.0; R5 input.1",
    },
    Case {
        claim: "without a store the sealed thought is enough",
        request: r#"{"store":false,"input":[
                {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"},{"role":"assistant","content":"x"}]}"#,
        expect: "",
    },
    Case {
        claim: "an output comes after its call",
        request: r#"[{"type":"function_call_output","call_id":"a","output":"r"},
                {"type":"function_call","call_id":"a","name":"f","arguments":"{}"}]"#,
        expect: "R6 input.0",
    },
    Case {
        claim: "an output need not come at once",
        request: r#"[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},
                {"role":"assistant","content":"x"},{"type":"function_call_output","call_id":"a","output":"r"}]"#,
        expect: "",
    },
    Case {
        claim: "only messages have a role",
        request: r#"[{"type":"function_call","role":"assistant","call_id":"a","name":"f","arguments":"{}"},
                {"type":"function_call_output","call_id":"a","output":"r"},
                {"type":"message","role":"assistant","content":"x"},{"type":"new_kind","role":"assistant"}]"#,
        expect: "R7 input.0",
    },
    Case {
        claim: "items have a type or a role",
        request: r#"[null,{"type":7},{"content":"x"}]"#,
        expect: "R7 input.0; R7 input.1; R7 input.2",
    },
    Case {
        claim: "messages have a role and content, parts a type",
        request: r#"[{"type":"message","content":"q"},{"role":"user","content":null},{"role":"user","content":[7]}]"#,
        expect: "R7 input.0; R7 input.1; R7 input.2.content.0",
    },
    Case {
        claim: "calls and outputs have an id and a body",
        request: r#"[{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":7},
                {"type":"function_call","call_id":"a","name":"f","arguments":{}},{"type":"function_call_output","call_id":"a"}]"#,
        expect: "R7 input.0; R7 input.1; R7 input.2; R7 input.3",
    },
    Case {
        claim: "reasoning has a summary and compaction its content",
        request: r#"[{"type":"reasoning"},{"type":"compaction"}]"#,
        expect: "R7 input.0; R7 input.1",
    },
    Case { claim: "no item is no request", request: "[]", expect: "R7 input" },
    Case { claim: "a number is no input", request: r#"{"input":7}"#, expect: "R7 input" },
    Case { claim: "a text is an input", request: r#"{"input":"q"}"#, expect: "" },
    Case { claim: "the server may have the input", request: r#"{"conversation":"conv_1"}"#, expect: "" },
    Case {
        claim: "a trigger comes last",
        request: r#"[{"type":"compaction_trigger"},{"role":"user","content":"q"}]"#,
        expect: "R9 input.0",
    },
    Case {
        claim: "a trigger at the end is where it belongs",
        request: r#"[{"type":"compaction","id":"cmp_1","encrypted_content":"g"},{"role":"user","content":"q"},{"type":"compaction_trigger"}]"#,
        expect: "",
    },
    Case {
        claim: "an id is used once",
        request: r#"[{"id":"msg_1","role":"assistant","content":"x"},{"id":"msg_1","role":"assistant","content":"x"}]"#,
        expect: "R10 input.1",
    },
    Case {
        claim: "an empty id is no id",
        request: r#"[{"id":"","role":"assistant","content":"x"},{"id":"","role":"assistant","content":"x"}]"#,
        expect: "",
    },
];
