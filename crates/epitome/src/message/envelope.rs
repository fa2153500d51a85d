//! The envelope of a tool result: what is known of it beyond its text.
//!
//! Durability and key fields come from the policy's rules or from the caller; nothing here guesses them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::media::Media;
use super::raw::Raw;

/// How a tool call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It did what was asked.
    Success,
    /// It failed.
    Failure,
    /// It did part of it.
    Partial,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Success => "success",
            Outcome::Failure => "failure",
            Outcome::Partial => "partial",
        })
    }
}

/// How safe it is to take a result out of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// May be cleared whole: listings, progress output.
    Ephemeral,
    /// Its outcome and key fields must stay: ids, decisions.
    Anchoring,
    /// May be cleared while its source has not changed: running the tool again gives the same.
    Replayable,
    /// Must be kept or moved out: paid, limited, or of its moment.
    NonReplayable,
}

/// What identifies the state of a result's source when it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Determinism {
    /// A hash of what was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// An HTTP entity tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// A modification time, Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtime: Option<f64>,
    /// A version of the interface or schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Determinism {
    /// Whether the source has drifted; what cannot be verified counts as drifted.
    pub fn has_drifted(&self, now: &Determinism) -> bool {
        if let (Some(then), Some(now)) = (&self.content_hash, &now.content_hash) {
            return then != now;
        }
        if let (Some(then), Some(now)) = (&self.etag, &now.etag) {
            return then != now;
        }
        if let (Some(then), Some(now)) = (self.mtime, now.mtime) {
            return then != now;
        }
        true
    }
}

/// What a dialect lets stand in the place of a result's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultForm {
    /// Words.
    Words,
    /// Nothing but an object or a list of the provider's own making: it stays whole or leaves with its exchange.
    Fixed,
}

/// A tool's answer in its envelope.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The id of the call it answers.
    pub call_id: Box<str>,
    /// The tool's name; empty until the thread has found the call.
    pub tool: Box<str>,
    /// How the call ended as the dialect declares it, where it does. What was printed may tell more: see
    /// `Tools::ending` of the policy.
    pub outcome: Option<Outcome>,
    /// What the tool said, as text.
    pub text: Arc<str>,
    /// The media in it.
    pub media: Vec<Media>,
    /// What its dialect lets stand in the place of its content.
    pub form: ResultForm,
    /// The part as it came, where there is more to it than its text.
    pub json: Option<Raw>,
    /// Fields that must survive any compaction.
    pub key_fields: BTreeMap<String, String>,
    /// How safe it is to clear, where the caller said so; else the policy's rules decide.
    pub durability: Option<Durability>,
    /// The state of its source when it was made.
    pub determinism: Option<Determinism>,
    /// When the call started and ended, in milliseconds of Unix time.
    pub timing_ms: Option<(i64, i64)>,
}

impl ToolResult {
    /// A result with nothing known but its text.
    pub fn new(call_id: &str, text: impl Into<Arc<str>>, outcome: impl Into<Option<Outcome>>) -> Self {
        ToolResult {
            call_id: call_id.into(),
            tool: Box::default(),
            outcome: outcome.into(),
            text: text.into(),
            media: Vec::new(),
            form: ResultForm::Words,
            json: None,
            key_fields: BTreeMap::new(),
            durability: None,
            determinism: None,
            timing_ms: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Determinism;

    #[test]
    fn drift_is_assumed_unless_a_shared_mark_says_otherwise() {
        let hash = |h: &str| Determinism { content_hash: Some(h.into()), ..Determinism::default() };
        let mtime = |m: f64| Determinism { mtime: Some(m), ..Determinism::default() };
        let cases = [
            (hash("a"), hash("a"), false),
            (hash("a"), hash("b"), true),
            (mtime(1.0), mtime(1.0), false),
            (mtime(1.0), mtime(2.0), true),
            (hash("a"), mtime(1.0), true),
            (Determinism::default(), Determinism::default(), true),
        ];
        for (then, now, drifted) in cases {
            assert_eq!(then.has_drifted(&now), drifted, "{then:?} against {now:?}");
        }
    }
}
