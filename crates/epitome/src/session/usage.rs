//! What the provider reported last: the true size of a context, to calibrate estimates with.

use super::claude::SYNTHETIC;
use super::fields::Fields;
use super::{Body, Session};
use crate::message::Role;

/// The provider's last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The line it is on, from 1.
    pub line: usize,
    /// Every token that went in, cached or not.
    pub input: u64,
    /// Every token that came out.
    pub output: u64,
    /// How many messages of the present context, from its start, `input` and `output` together stand for; `None` when
    /// the context was compacted since.
    pub covers: Option<usize>,
}

impl Session {
    /// What the provider reported last, where the file tells.
    pub fn usage(&self) -> Option<Usage> {
        match &self.body {
            Body::Codex(codex) => codex.reported.map(|report| {
                let covered = self.context.iter().rposition(|seen| seen.entry < report.entry).map(|at| at + 1);
                let line = self.entries[report.entry].line;
                let covers = covered.filter(|_| self.is_current(report.entry));
                Usage { line, input: report.input, output: report.output, covers }
            }),
            Body::List(_) => None,
            Body::Pi(_) | Body::Claude(_) => self.message_usage(),
        }
    }

    /// The report that came with the newest answer that was finished.
    fn message_usage(&self) -> Option<Usage> {
        let answers = self.context.iter().enumerate().rev().filter(|(_, seen)| seen.message.role == Role::Assistant);
        let originals = answers.filter(|(_, seen)| seen.logged.is_none_or(|at| self.log[at].copy_of.is_none()));
        let mut reports = originals.filter_map(|(at, seen)| {
            if !is_valid(seen.message.raw.as_str()) {
                return None;
            }
            let (input, output) = reported(seen.message.raw.as_str())?;
            let covers = self.is_current(seen.entry).then_some(at + 1);
            Some(Usage { line: seen.line, input, output, covers })
        });
        reports.next()
    }

    /// Whether no compaction came after an entry.
    fn is_current(&self, entry: usize) -> bool {
        self.compactions.last().is_none_or(|compaction| compaction.entry < entry)
    }
}

/// Whether an answer came to its end: what was broken off or failed reports what it got to, or nothing.
fn is_valid(message: &str) -> bool {
    let Some(fields) = Fields::parse(message) else { return false };
    let reason = fields.text("stopReason").or_else(|| fields.text("stop_reason"));
    let failed = matches!(reason.as_deref(), Some("aborted" | "error"));
    !failed && fields.text("model").as_deref() != Some(SYNTHETIC)
}

/// The usage in a message of pi's or Anthropic's; a report of nothing is none.
fn reported(message: &str) -> Option<(u64, u64)> {
    let usage = Fields::parse(message)?.inner("usage")?;
    let sum = |keys: [&str; 3]| keys.iter().filter_map(|key| usage.number(key)).sum::<u64>();
    let input = sum(["input", "cacheRead", "cacheWrite"])
        + sum(["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]);
    let output = sum(["output", "output_tokens", ""]);
    (input + output > 0).then_some((input, output))
}
