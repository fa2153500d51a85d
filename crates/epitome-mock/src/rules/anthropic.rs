//! Messages: A1 to A16 in Anthropic's words, with the headers and the signatures.

use epitome::wire::{BINDING_HEADER, Dialect, Rule, Violation, binds_thinking};
use serde_json::Value;

use super::first;
use crate::asked::Asked;
use crate::endpoint::Endpoint;
use crate::prompt::Prompt;
use crate::refusal::Complaint;
use crate::seal::{self, Signed};

/// Fields of a request that need a beta.
const BETA_FIELDS: &[(&str, &[&str])] = &[
    ("context_management", &["context-management-2025-06-27", "compact-2026-01-12"]),
    ("compaction", &["compact-2026-09-04"]),
    ("mcp_servers", &["mcp-client-2025-04-04", "mcp-client-2025-11-20"]),
    ("container", &["code-execution-2025-08-25", "skills-2025-10-02", "code-execution-2025-05-22"]),
];

/// Betas with which a message may hold a compaction.
const COMPACTION_BETAS: [&str; 2] = ["compact-2026-01-12", "compact-2026-09-04"];

pub(super) fn judge(asked: &Asked) -> Result<(), Complaint> {
    judge_betas(asked)?;
    judge_limits(asked)?;
    match first(Dialect::Anthropic, asked, |_| false) {
        Some(violation) => Err(tell(asked, &violation).breaking(violation.rule.name())),
        None => judge_prefill(asked),
    }
}

/// The models that bind thinking take no prefill; a compaction may end anywhere.
fn judge_prefill(asked: &Asked) -> Result<(), Complaint> {
    let is_prefill = asked.list("messages").last().is_some_and(|last| text(last, "role") == "assistant");
    if is_prefill && binds_thinking(asked.model()) && asked.field("compaction").is_none() {
        let message =
            "This model does not support assistant message prefill. The conversation must end with a user message.";
        return Err(Complaint::invalid(message).breaking("A13"));
    }
    Ok(())
}

fn judge_betas(asked: &Asked) -> Result<(), Complaint> {
    let refused = BETA_FIELDS
        .iter()
        .find(|(field, betas)| asked.field(field).is_some() && !betas.iter().any(|beta| asked.has_beta(beta)));
    if let Some((field, _)) = refused {
        return Err(extra(field));
    }
    if asked.body.pointer("/thinking/block_binding").is_some() && !asked.has_beta(BINDING_HEADER.1) {
        return Err(extra("thinking.block_binding"));
    }
    judge_edits(asked)?;
    if asked.field("compaction").is_some() && asked.field("context_management").is_some() {
        return Err(Complaint::invalid("compaction: cannot be combined with `context_management`").breaking("A15"));
    }
    judge_compactions(asked)
}

fn extra(field: &str) -> Complaint {
    Complaint::invalid(format!("{field}: Extra inputs are not permitted")).breaking("A15")
}

fn judge_edits(asked: &Asked) -> Result<(), Complaint> {
    let edits = asked.body.pointer("/context_management/edits").and_then(Value::as_array).into_iter().flatten();
    for (at, edit) in edits.enumerate() {
        let kind = edit.get("type").and_then(Value::as_str).unwrap_or_default();
        let beta = if kind == "compact_20260112" { "compact-2026-01-12" } else { "context-management-2025-06-27" };
        if !asked.has_beta(beta) {
            return Err(untagged(&format!("context_management.edits.{at}"), kind));
        }
    }
    Ok(())
}

fn judge_compactions(asked: &Asked) -> Result<(), Complaint> {
    if COMPACTION_BETAS.iter().any(|beta| asked.has_beta(beta)) {
        return Ok(());
    }
    for (place, block) in blocks(asked) {
        if kind(block) == "compaction" {
            return Err(untagged(&place.to_string(), "compaction"));
        }
    }
    Ok(())
}

fn untagged(place: &str, tag: &str) -> Complaint {
    let message = format!("{place}: Input tag '{tag}' found using 'type' does not match any of the expected tags");
    Complaint::invalid(message).breaking("A15")
}

fn judge_limits(asked: &Asked) -> Result<(), Complaint> {
    if asked.endpoint == Endpoint::Count(crate::endpoint::Protocol::Anthropic) {
        return Ok(());
    }
    let Some(max_tokens) = asked.field("max_tokens").and_then(Value::as_u64) else {
        return Err(Complaint::invalid("max_tokens: Field required"));
    };
    let thinks = asked.body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled");
    let budget = asked.body.pointer("/thinking/budget_tokens").and_then(Value::as_u64);
    match budget {
        None if thinks => Err(Complaint::invalid("thinking.enabled.budget_tokens: Field required")),
        Some(budget) if thinks && budget < 1024 => {
            Err(Complaint::invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"))
        }
        Some(budget) if thinks && budget >= max_tokens => Err(Complaint::invalid(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at \
             https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
        )),
        _ => Ok(()),
    }
}

/// A block's place, as the provider writes it.
#[derive(Clone, Copy)]
struct At(usize, usize);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "messages.{}.content.{}", self.0, self.1)
    }
}

fn blocks(asked: &Asked) -> impl Iterator<Item = (At, &Value)> {
    asked.list("messages").iter().enumerate().flat_map(|(at, message)| {
        let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
        blocks.enumerate().map(move |(part, block)| (At(at, part), block))
    })
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn tell(asked: &Asked, violation: &Violation) -> Complaint {
    let at = violation.place.index().unwrap_or(0);
    let message = asked.list("messages").get(at).unwrap_or(&Value::Null);
    let block = violation.place.part().and_then(|part| message.get("content")?.get(part)).unwrap_or(&Value::Null);
    let place = violation.place.to_string();
    Complaint::invalid(match violation.rule {
        Rule::A1 => without_results(asked, at),
        Rule::A3 => without_results(asked, at.saturating_sub(1)),
        Rule::A2 => stray(&place, block),
        Rule::A4 => "messages: first message must use the \"user\" role".into(),
        Rule::A5 => shape(asked, message, violation),
        Rule::A6 => format!(
            "{place}.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a final \
             `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and \
             `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this \
             requirement, disable `thinking`.",
            if block.is_null() { "text" } else { kind(block) }
        ),
        Rule::A7 => format!(
            "{place}: When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."
        ),
        Rule::A8 => unoriginal(&place),
        Rule::A9 => format!("{place}.thinking.signature: Field required"),
        Rule::A11 => "Requests which include `tool_use` or `tool_result` blocks must define tools".into(),
        Rule::A12 => pattern(&place, block),
        Rule::A13 => "messages: final assistant content cannot end with trailing whitespace".into(),
        Rule::A14 => marks(violation),
        Rule::A16 if kind(block) == "tool_result" => format!(
            "{place}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {}",
            text(block, "tool_use_id")
        ),
        Rule::A16 => format!("{place}: `tool_use` ids must be unique"),
        _ => format!("{place}: {}", violation.detail),
    })
}

fn without_results(asked: &Asked, at: usize) -> String {
    let messages = asked.list("messages");
    let results = messages.get(at + 1).map(crate::prompt::content_blocks).unwrap_or_default();
    let answered: Vec<&str> = results
        .iter()
        .take_while(|block| kind(block) == "tool_result")
        .map(|block| text(block, "tool_use_id"))
        .collect();
    let calls = messages.get(at).map(crate::prompt::content_blocks).unwrap_or_default();
    let missing: Vec<&str> = calls
        .iter()
        .filter(|block| kind(block) == "tool_use")
        .map(|block| text(block, "id"))
        .filter(|id| !answered.contains(id))
        .collect();
    format!(
        "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block \
         must have a corresponding `tool_result` block in the next message.",
        missing.join(", ")
    )
}

fn stray(place: &str, block: &Value) -> String {
    let (kind, id) = (kind(block), text(block, "tool_use_id"));
    match kind {
        "tool_result" => format!(
            "{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a \
             corresponding `tool_use` block in the previous message."
        ),
        _ => format!(
            "{place}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block must have a \
             corresponding `server_tool_use` block before it."
        ),
    }
}

fn shape(asked: &Asked, message: &Value, violation: &Violation) -> String {
    let place = &violation.place;
    match (place.list(), place.index(), place.part()) {
        ("messages", None, _) if asked.field("messages").is_none() => "messages: Field required".into(),
        ("messages", None, _) => "messages: at least one message is required".into(),
        ("messages", Some(at), None) => match message.get("content") {
            Some(Value::String(text)) if text.trim().is_empty() && !text.is_empty() => {
                "messages: text content blocks must contain non-whitespace text".into()
            }
            Some(Value::String(_) | Value::Array(_)) if known_role(message) => format!(
                "messages.{at}: all messages must have non-empty content except for the optional final assistant message"
            ),
            _ if !known_role(message) => format!(
                "messages: Unexpected role \"{}\". Allowed roles are \"user\" or \"assistant\". For a system prompt, use \
                 the top-level `system` parameter.",
                text(message, "role")
            ),
            _ => format!("messages.{at}.content: Field required"),
        },
        ("messages", Some(_), Some(part)) => {
            let block = message.get("content").and_then(|content| content.get(part)).unwrap_or(&Value::Null);
            match (kind(block), block.get("text").and_then(Value::as_str)) {
                ("text", Some("")) => "messages: text content blocks must be non-empty".into(),
                ("text", Some(_)) => "messages: text content blocks must contain non-whitespace text".into(),
                _ if violation.detail.contains("non-empty") => "messages: text content blocks must be non-empty".into(),
                _ => format!("{place}: {}", violation.detail),
            }
        }
        ("system", ..) if violation.detail.contains("non-empty") => {
            "system: text content blocks must be non-empty".into()
        }
        _ => format!("{place}: {}", violation.detail),
    }
}

fn known_role(message: &Value) -> bool {
    matches!(text(message, "role"), "user" | "assistant" | "system")
}

fn pattern(place: &str, block: &Value) -> String {
    let is_id = !text(block, "id").bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    match (place.starts_with("tools"), is_id) {
        (true, _) => format!("{place}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"),
        (false, true) => format!("{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"),
        (false, false) => format!("{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"),
    }
}

fn marks(violation: &Violation) -> String {
    let found: String = violation.detail.chars().skip_while(|c| *c != ',').filter(char::is_ascii_digit).collect();
    let detail = &violation.detail;
    if detail.contains("maximum of 4") {
        return format!("A maximum of 4 blocks with cache_control may be provided. Found {found}.");
    }
    if detail.contains("thinking") {
        return format!("{}.thinking.cache_control: Extra inputs are not permitted", violation.place);
    }
    format!("{}: {detail}", violation.place)
}

fn unoriginal(place: &str) -> String {
    format!(
        "{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks \
         must remain as they were in the original response."
    )
}

/// Every thought was thought here, in these words, and on some models after this very prefix.
pub(super) fn judge_seals(asked: &Asked, prompt: &Prompt) -> Result<(), Complaint> {
    let latest = asked.list("messages").iter().rposition(|message| text(message, "role") == "assistant");
    let bound = binds_thinking(asked.model()) && !drops_mismatches(asked);
    for (at, block) in blocks(asked) {
        judge_compaction(asked, at, block)?;
        let signed = match kind(block) {
            "thinking" => seal::inspect(text(block, "signature"), text(block, "thinking")),
            "redacted_thinking" => seal::inspect(text(block, "data"), ""),
            _ => continue,
        };
        let complaint = match signed {
            Signed::Changed if latest == Some(at.0) => Complaint::invalid(unoriginal(&at.to_string())).breaking("A8"),
            Signed::Foreign | Signed::Changed => {
                Complaint::invalid(format!("{at}: Invalid `signature` in `thinking` block")).breaking("A9")
            }
            Signed::After(prefix) if bound && prompt.before(at.0, at.1).is_some_and(|before| before != prefix) => Complaint::invalid(format!(
                "{at}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove \
                     the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
            ))
            .breaking("A10"),
            Signed::After(_) => continue,
        };
        return Err(complaint);
    }
    Ok(())
}

/// A sealed compaction was sealed here, for this model.
fn judge_compaction(asked: &Asked, at: At, block: &Value) -> Result<(), Complaint> {
    let sealed = block.get("encrypted_content").and_then(Value::as_str).filter(|_| kind(block) == "compaction");
    if sealed.is_some_and(|sealed| seal::stands_for(asked.model(), sealed).is_none()) {
        let message = format!("{at}: Invalid `encrypted_content` in `compaction` block");
        return Err(Complaint::invalid(message).breaking("A9"));
    }
    Ok(())
}

fn drops_mismatches(asked: &Asked) -> bool {
    let behavior = asked.body.pointer("/thinking/block_binding/prefix_mismatch_behavior").and_then(Value::as_str);
    behavior == Some("drop_block") && asked.has_beta(BINDING_HEADER.1)
}
