//! Prefix binding: newer Anthropic models bind each thinking block to everything before it.
//!
//! After an edit such a request is only taken when it asks for mismatched blocks to be dropped, on every later request
//! of the thread. The field and the header that permits it go together.

use super::splice::{RawFields, set_field, splice};

/// Models that bind thinking to its prefix, by how their names go on after `claude-`.
const BOUND: [&str; 7] = ["fable-5-1", "fable-5-2", "mythos-5-1", "mythos-5-2", "opus-5-5", "sonnet-5-5", "haiku-5-5"];

/// The header that the field needs.
pub const BINDING_HEADER: (&str, &str) = ("anthropic-beta", "thinking-binding-controls-2026-08-01");

/// Whether a model binds thinking to its prefix.
pub fn binds_thinking(model: &str) -> bool {
    model.split_once("claude-").is_some_and(|(_, name)| BOUND.iter().any(|bound| name.starts_with(bound)))
}

/// A request that asks for thinking blocks of another prefix to be dropped; `None` when it has no thinking to ask for.
pub(crate) fn drop_mismatched_thinking(request: &str) -> Option<String> {
    let fields: RawFields<'_> = serde_json::from_str(request).ok()?;
    let thinking = fields.get("thinking").filter(|value| value.get().starts_with('{'))?.get();
    let asked = set_field(thinking, "block_binding", r#"{"prefix_mismatch_behavior":"drop_block"}"#);
    Some(splice(request, thinking, &asked))
}

#[cfg(test)]
mod tests {
    use super::{binds_thinking, drop_mismatched_thinking};

    #[test]
    fn only_the_bound_models_are_told_to_drop() {
        for (model, bound) in [
            ("claude-opus-5-5", true),
            ("anthropic/claude-sonnet-5-5-20260901", true),
            ("claude-opus-4-6", false),
            ("gpt-5", false),
        ] {
            assert_eq!(binds_thinking(model), bound, "{model}");
        }
    }

    #[test]
    fn nothing_but_the_thinking_field_changes() {
        let request = r#"{ "model":"m", "thinking" : {"type":"adaptive"}, "messages":[] }"#;
        let expected = r#"{ "model":"m", "thinking" : {"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}}, "messages":[] }"#;
        assert_eq!(drop_mismatched_thinking(request).unwrap(), expected);
        assert_eq!(drop_mismatched_thinking(r#"{"messages":[]}"#), None);
    }
}
