//! The window that a session's file proves: the one its agent wrote down, or the one it ran into.

use super::fields::Fields;
use super::{Body, RecordedCompaction, Session};
use crate::budget::{ProvenWindow, Tokens, WindowProof};

/// The windows that are sold. An agent that compacts by itself does so shortly before one of them is full.
const SOLD: [u64; 13] = [
    8_192, 16_384, 32_768, 65_536, 100_000, 128_000, 200_000, 256_000, 272_000, 400_000, 500_000, 1_000_000, 2_000_000,
];

/// Agents compact by themselves when at least this share of the window is taken; a compaction at less proves nothing.
const FULL_SHARE: f64 = 0.6;

impl Session {
    /// The window that the file proves for the model that was used last.
    pub(crate) fn proven_window(&self) -> Option<ProvenWindow> {
        match &self.body {
            Body::Codex(codex) => {
                let tokens = Tokens::new(codex.window?);
                Some(ProvenWindow { tokens, proof: WindowProof::Recorded })
            }
            Body::Claude(_) | Body::Pi(_) => self.overrun_window(),
            Body::List(_) => None,
        }
    }

    /// The window that the newest automatic compaction ran into, unless a prompt since was larger.
    fn overrun_window(&self) -> Option<ProvenWindow> {
        let compaction = self.compactions.iter().rev().find(|compaction| compaction.automatic && !compaction.own)?;
        let at = compaction.tokens_before?;
        let window = SOLD.into_iter().find(|window| at <= *window)?;
        if (at as f64) < window as f64 * FULL_SHARE || !self.is_of_same_model(compaction) {
            return None;
        }
        let was_exceeded = self.usage().is_some_and(|usage| usage.input > window);
        let proof = WindowProof::AutoCompaction { at: Tokens::new(at) };
        (!was_exceeded).then_some(ProvenWindow { tokens: Tokens::new(window), proof })
    }

    /// Whether the model before a compaction is the one that was used last, as far as the file tells.
    fn is_of_same_model(&self, compaction: &RecordedCompaction) -> bool {
        let model = |at: &usize| Fields::parse(self.log[*at].message.raw.as_str())?.text("model");
        let before = compaction.before.iter().rev().find_map(model);
        before.is_none() || self.model().is_none() || before.as_deref() == self.model()
    }
}
