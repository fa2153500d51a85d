//! Messages: A1 to A16 in Anthropic's words, with the headers and the signatures.

use epitome::wire::{BINDING_HEADER, Dialect, Rule, Violation, binds_thinking};
use serde_json::Value;

use super::first;
use crate::endpoint::MockEndpoint;
use crate::prompt::CountedPrompt;
use crate::rejection::ProviderRejection;
use crate::request::MockRequest;
use crate::seal::{self, SignatureCheck};

/// Fields of a request that need a beta.
const BETA_FIELDS: &[(&str, &[&str])] = &[
    ("context_management", &["context-management-2025-06-27", "compact-2026-01-12"]),
    ("compaction", &["compact-2026-09-04"]),
    ("mcp_servers", &["mcp-client-2025-04-04", "mcp-client-2025-11-20"]),
    ("container", &["code-execution-2025-08-25", "skills-2025-10-02", "code-execution-2025-05-22"]),
];

/// Betas with which a message may hold a compaction.
const COMPACTION_BETAS: [&str; 2] = ["compact-2026-01-12", "compact-2026-09-04"];

pub(super) fn judge(request: &MockRequest) -> Result<(), ProviderRejection> {
    judge_betas(request)?;
    judge_limits(request)?;
    match first(Dialect::Anthropic, request, |_| false) {
        Some(violation) => Err(tell(request, &violation).breaking(violation.rule.name())),
        None => judge_prefill(request),
    }
}

/// The models that bind thinking take no prefill; a compaction may end anywhere.
fn judge_prefill(request: &MockRequest) -> Result<(), ProviderRejection> {
    let is_prefill = request.list("messages").last().is_some_and(|last| text(last, "role") == "assistant");
    if is_prefill && binds_thinking(request.model()) && request.field("compaction").is_none() {
        let message =
            "This model does not support assistant message prefill. The conversation must end with a user message.";
        return Err(ProviderRejection::invalid(message).breaking("A13"));
    }
    Ok(())
}

fn judge_betas(request: &MockRequest) -> Result<(), ProviderRejection> {
    let refused = BETA_FIELDS
        .iter()
        .find(|(field, betas)| request.field(field).is_some() && !betas.iter().any(|beta| request.has_beta(beta)));
    if let Some((field, _)) = refused {
        return Err(extra(field));
    }
    if request.body.pointer("/thinking/block_binding").is_some() && !request.has_beta(BINDING_HEADER.1) {
        return Err(extra("thinking.block_binding"));
    }
    judge_edits(request)?;
    if request.field("compaction").is_some() && request.field("context_management").is_some() {
        return Err(
            ProviderRejection::invalid("compaction: cannot be combined with `context_management`").breaking("A15")
        );
    }
    judge_compactions(request)
}

fn extra(field: &str) -> ProviderRejection {
    ProviderRejection::invalid(format!("{field}: Extra inputs are not permitted")).breaking("A15")
}

fn judge_edits(request: &MockRequest) -> Result<(), ProviderRejection> {
    let edits = request.body.pointer("/context_management/edits").and_then(Value::as_array).into_iter().flatten();
    for (at, edit) in edits.enumerate() {
        let kind = edit.get("type").and_then(Value::as_str).unwrap_or_default();
        let beta = if kind == "compact_20260112" { "compact-2026-01-12" } else { "context-management-2025-06-27" };
        if !request.has_beta(beta) {
            return Err(untagged(&format!("context_management.edits.{at}"), kind));
        }
    }
    Ok(())
}

fn judge_compactions(request: &MockRequest) -> Result<(), ProviderRejection> {
    if COMPACTION_BETAS.iter().any(|beta| request.has_beta(beta)) {
        return Ok(());
    }
    for (place, block) in blocks(request) {
        if kind(block) == "compaction" {
            return Err(untagged(&place.to_string(), "compaction"));
        }
    }
    Ok(())
}

fn untagged(place: &str, tag: &str) -> ProviderRejection {
    let message = format!("{place}: Input tag '{tag}' found using 'type' does not match any of the expected tags");
    ProviderRejection::invalid(message).breaking("A15")
}

fn judge_limits(request: &MockRequest) -> Result<(), ProviderRejection> {
    if request.endpoint == MockEndpoint::Count(crate::endpoint::ProviderProtocol::Anthropic) {
        return Ok(());
    }
    let Some(max_tokens) = request.field("max_tokens").and_then(Value::as_u64) else {
        return Err(ProviderRejection::invalid("max_tokens: Field required"));
    };
    let thinks = request.body.pointer("/thinking/type").and_then(Value::as_str) == Some("enabled");
    let budget = request.body.pointer("/thinking/budget_tokens").and_then(Value::as_u64);
    match budget {
        None if thinks => Err(ProviderRejection::invalid("thinking.enabled.budget_tokens: Field required")),
        Some(budget) if thinks && budget < 1024 => Err(ProviderRejection::invalid(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        )),
        Some(budget) if thinks && budget >= max_tokens => Err(ProviderRejection::invalid(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at \
             https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size",
        )),
        _ => Ok(()),
    }
}

/// A block's place, as the provider writes it.
#[derive(Clone, Copy)]
struct BlockPlace(usize, usize);

impl std::fmt::Display for BlockPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "messages.{}.content.{}", self.0, self.1)
    }
}

fn blocks(request: &MockRequest) -> impl Iterator<Item = (BlockPlace, &Value)> {
    request.list("messages").iter().enumerate().flat_map(|(at, message)| {
        let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
        blocks.enumerate().map(move |(part, block)| (BlockPlace(at, part), block))
    })
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn tell(request: &MockRequest, violation: &Violation) -> ProviderRejection {
    let at = violation.place.index().unwrap_or(0);
    let message = request.list("messages").get(at).unwrap_or(&Value::Null);
    let block = violation.place.part().and_then(|part| message.get("content")?.get(part)).unwrap_or(&Value::Null);
    let place = violation.place.to_string();
    ProviderRejection::invalid(match violation.rule {
        Rule::A1 => without_results(request, at),
        Rule::A3 => without_results(request, at.saturating_sub(1)),
        Rule::A2 => stray(&place, block),
        Rule::A4 => "messages: first message must use the \"user\" role".into(),
        Rule::A5 => shape(request, message, violation),
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

fn without_results(request: &MockRequest, at: usize) -> String {
    let messages = request.list("messages");
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

fn shape(request: &MockRequest, message: &Value, violation: &Violation) -> String {
    let place = &violation.place;
    match (place.list(), place.index(), place.part()) {
        ("messages", None, _) if request.field("messages").is_none() => "messages: Field required".into(),
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
pub(super) fn judge_seals(request: &MockRequest, prompt: &CountedPrompt) -> Result<(), ProviderRejection> {
    let latest = request.list("messages").iter().rposition(|message| text(message, "role") == "assistant");
    let bound = binds_thinking(request.model()) && !drops_mismatches(request);
    for (at, block) in blocks(request) {
        judge_compaction(request, at, block)?;
        let signed = match kind(block) {
            "thinking" => seal::inspect(text(block, "signature"), text(block, "thinking")),
            "redacted_thinking" => seal::inspect(text(block, "data"), ""),
            _ => continue,
        };
        let rejection = match signed {
            SignatureCheck::Changed if latest == Some(at.0) => ProviderRejection::invalid(unoriginal(&at.to_string())).breaking("A8"),
            SignatureCheck::Foreign | SignatureCheck::Changed => {
                ProviderRejection::invalid(format!("{at}: Invalid `signature` in `thinking` block")).breaking("A9")
            }
            SignatureCheck::After(prefix) if bound && prompt.before(at.0, at.1).is_some_and(|before| before != prefix) => ProviderRejection::invalid(format!(
                "{at}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove \
                     the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
            ))
            .breaking("A10"),
            SignatureCheck::After(_) => continue,
        };
        return Err(rejection);
    }
    Ok(())
}

/// A sealed compaction was sealed here, for this model.
fn judge_compaction(request: &MockRequest, at: BlockPlace, block: &Value) -> Result<(), ProviderRejection> {
    let sealed = block.get("encrypted_content").and_then(Value::as_str).filter(|_| kind(block) == "compaction");
    if sealed.is_some_and(|sealed| seal::stands_for(request.model(), sealed).is_none()) {
        let message = format!("{at}: Invalid `encrypted_content` in `compaction` block");
        return Err(ProviderRejection::invalid(message).breaking("A9"));
    }
    Ok(())
}

fn drops_mismatches(request: &MockRequest) -> bool {
    let behavior = request.body.pointer("/thinking/block_binding/prefix_mismatch_behavior").and_then(Value::as_str);
    behavior == Some("drop_block") && request.has_beta(BINDING_HEADER.1)
}
