//! The names of what agents are known to write beside the conversation, so that only what is new is reported.

use super::Format;

/// Entries of Claude Code that are neither messages nor compactions: titles, snapshots, queues, settings.
const CLAUDE: [&str; 32] = [
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "atis-latch",
    "attachment",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "custom-title",
    "file-history-delta",
    "file-history-snapshot",
    "last-prompt",
    "marble-origami-commit",
    "marble-origami-snapshot",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "result",
    "saved_hook_context",
    "speculation-accept",
    "started",
    "stream_event",
    "summary",
    "system",
    "tag",
    "task-summary",
    "thinking",
    "tombstone",
    "worktree-state",
];
/// Entries of Codex that are neither items nor compactions.
const CODEX: [&str; 7] = [
    "event_msg",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
];
/// Entries of pi that are neither messages nor compactions.
const PI: [&str; 8] = [
    "active_tools_change",
    "custom",
    "label",
    "leaf",
    "model_change",
    "session",
    "session_info",
    "thinking_level_change",
];
/// Parts of messages, and items, that are carried unread because nothing of them is needed.
const PARTS: [&str; 40] = [
    "additional_tools",
    "agent_message",
    "audio",
    "code_interpreter_call",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "computer_call",
    "container_upload",
    "context_compaction",
    "document",
    "file",
    "file_search_call",
    "ghost_snapshot",
    "image_generation_call",
    "input_audio",
    "input_file",
    "input_video",
    "item_reference",
    "local_shell_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "mcp_list_tools",
    "mid_conv_system",
    "output_audio",
    "program",
    "program_output",
    "reasoning-file",
    "search_result",
    "source",
    "source-document",
    "source-url",
    "step-start",
    "tool-approval-request",
    "tool-approval-response",
    "tool_reference",
    "tool_search_call",
    "video_url",
    "web_search_call",
];

/// Whether a format is known to have entries of this type beside its messages and compactions.
pub(super) fn is_known_entry(format: Format, name: &str) -> bool {
    match format {
        Format::ClaudeCode => CLAUDE.contains(&name),
        Format::Codex => CODEX.contains(&name),
        Format::PiEvents | Format::PiTree => PI.contains(&name),
        Format::List(_) => false,
    }
}

/// Whether a part of this type is known, though it is not read.
pub(super) fn is_known_part(name: &str) -> bool {
    PARTS.contains(&name)
}
