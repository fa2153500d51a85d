//! The room that messages have: where to act, where to stop, and what must not be exceeded.

use serde::{Deserialize, Serialize};

use crate::budget::Tokens;
use crate::policy::Policy;

/// The least of the room that a prompt may fill before the policy acts, whatever its threshold reserves.
const TRIGGER_SHARE_MIN: f64 = 0.25;

/// The room for the messages of one prompt, without system prompt, tools and reserves.
///
/// ```text
/// 0 ──────────── target ──────────── trigger ──────── limit ──────────── window
///                down to here        act above this   refused above      fixed tokens and reserves
/// ```
///
/// `target ≤ trigger ≤ limit`. A target near the trigger compacts again after a few messages and re-bills the cache each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// From this size on the policy acts.
    pub trigger: Tokens,
    /// Down to this size.
    pub target: Tokens,
    /// Above this size the provider refuses.
    pub limit: Tokens,
}

impl Room {
    /// Exactly this many tokens for the messages, nothing else reserved.
    pub fn exactly(tokens: Tokens) -> Self {
        Room { trigger: tokens, target: tokens, limit: tokens }
    }

    /// The room that a policy leaves in a window beside the system prompt and the tools.
    pub fn in_window(policy: &Policy, window: Tokens, fixed: Tokens) -> Self {
        let reserved = fixed + policy.reserve.safety + policy.reserve.rehydration;
        let limit = window - reserved;
        // A threshold may keep room for a system prompt and tools that are larger than it thinks.
        let trigger = (policy.trigger.at.trigger_at(window) - reserved).max(limit.share(TRIGGER_SHARE_MIN));
        Room { trigger, target: trigger.share(policy.target.low_water), limit: limit.max(trigger) }
    }
}
