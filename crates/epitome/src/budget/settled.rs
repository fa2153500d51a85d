//! The window that counts, of all that were named: one order for every door.
//!
//! A flag counts before a setting, a setting before what the session's file proves, that before the table of models, and
//! that before the policy's default. The window is always the most *input*: what a model may answer is not part of it.

use super::models::{Known, Model};
use super::tokens::Tokens;

/// Everything that was said about a window. What nobody said is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowHints<'a> {
    /// The tokens that the caller named.
    pub told: Option<Tokens>,
    /// The model that the caller named.
    pub told_model: Option<&'a str>,
    /// The tokens that are configured.
    pub configured: Option<Tokens>,
    /// What the session's file proves.
    pub proven: Option<ProvenWindow>,
    /// The model that the session or the configuration names.
    pub model: Option<&'a str>,
}

/// A window that a session's file proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenWindow {
    /// The tokens.
    pub tokens: Tokens,
    /// By what.
    pub proof: WindowProof,
}

/// By what a file proves a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowProof {
    /// The agent wrote it down.
    Recorded,
    /// The agent compacted by itself when its context had reached this size.
    AutoCompaction {
        /// The size.
        at: Tokens,
    },
}

/// The window that counts, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledWindow {
    /// The most input.
    pub tokens: Tokens,
    /// Who says so.
    pub source: WindowSource,
}

/// Who says how large a window is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WindowSource {
    /// The caller.
    Told,
    /// The configuration.
    Configured,
    /// The session's file.
    Proven(WindowProof),
    /// The table of models, under this name.
    Listed(String),
    /// Nobody: it is the policy's default.
    Default,
}

impl WindowHints<'_> {
    /// The window that counts; `default` where nobody knows.
    pub fn settle(&self, default: Tokens) -> SettledWindow {
        let listed = |model: Option<&str>| {
            let (name, known) = model.map(|name| (name, Model::named(name)))?;
            let is_known = known.known != Known::Fallback;
            is_known.then(|| SettledWindow { tokens: known.max_input, source: WindowSource::Listed(name.to_owned()) })
        };
        let of = |source: WindowSource| move |tokens: Tokens| SettledWindow { tokens, source };
        let told = self.told.map(of(WindowSource::Told)).or_else(|| listed(self.told_model));
        told.or_else(|| self.configured.map(of(WindowSource::Configured)))
            .or_else(|| {
                // A model that the caller named and nobody knows is not the one that wrote the file.
                let proven = self.proven.filter(|_| self.told_model.is_none())?;
                Some(SettledWindow { tokens: proven.tokens, source: WindowSource::Proven(proven.proof) })
            })
            .or_else(|| listed(self.model.filter(|_| self.told_model.is_none())))
            .unwrap_or(SettledWindow { tokens: default, source: WindowSource::Default })
    }
}

impl std::fmt::Display for WindowSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WindowSource::Told => f.write_str("as you said"),
            WindowSource::Configured => f.write_str("from `model.window`"),
            WindowSource::Proven(WindowProof::Recorded) => f.write_str("as the session records it"),
            WindowSource::Proven(WindowProof::AutoCompaction { at }) => {
                write!(f, "from the session's own compaction at {at}")
            }
            WindowSource::Listed(model) => write!(f, "the input limit of {model}"),
            WindowSource::Default => f.write_str("the policy's default: no known model is named"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_closer_to_the_caller_counts_and_a_window_is_for_input() {
        let default = Tokens::new(100_000);
        let proof = WindowProof::AutoCompaction { at: Tokens::new(170_431) };
        let proven = Some(ProvenWindow { tokens: Tokens::new(200_000), proof });
        let all = WindowHints {
            told: Some(Tokens::new(1)),
            told_model: Some("gpt-5-codex"),
            configured: Some(Tokens::new(2)),
            proven,
            model: Some("claude-opus-4-6"),
        };
        let settled = |hints: WindowHints<'_>| hints.settle(default).tokens.get();
        assert_eq!(settled(all), 1);
        assert_eq!(settled(WindowHints { told: None, ..all }), 272_000);
        let unasked = WindowHints { told: None, told_model: None, ..all };
        assert_eq!(settled(unasked), 2);
        assert_eq!(settled(WindowHints { configured: None, ..unasked }), 200_000);
        let unproven = WindowHints { configured: None, proven: None, ..unasked };
        assert_eq!(settled(unproven), Model::named("claude-opus-4-6").max_input.get());
        assert_eq!(settled(WindowHints { model: Some("nobody-knows-1"), ..unproven }), 100_000);
        assert_eq!(settled(WindowHints::default()), 100_000);
        // A model that was named is meant, even where nobody knows it.
        assert_eq!(
            settled(WindowHints { told_model: Some("nobody-knows-1"), proven, ..WindowHints::default() }),
            100_000
        );
    }
}
