//! What is wrong with a configuration: the setting, where it stands, and what is allowed.

use std::path::PathBuf;

use super::layer::Origin;

/// What is wrong with a configuration. No variant holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {0} cannot be read: {1}")]
    Unreadable(PathBuf, String),
    /// The list of trusted files cannot be written.
    #[error("{0} cannot be written: {1}")]
    Unwritable(PathBuf, String),
    /// The file is not TOML.
    #[error("{path}, line {line}: {problem}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What the reader says.
        problem: String,
    },
    /// There is no such setting.
    #[error("{at}: there is no setting `{name}`{}", hint(.nearest))]
    Unknown {
        /// As it was written.
        name: String,
        /// Where.
        at: Origin,
        /// The nearest one that there is.
        nearest: Option<String>,
    },
    /// The value is not allowed.
    #[error("{at}: `{key} = {written}` is invalid; expected {allowed}")]
    Wrong {
        /// The setting.
        key: String,
        /// As it was written, unless it may be a secret.
        written: String,
        /// Where.
        at: Origin,
        /// What is allowed.
        allowed: String,
    },
    /// A default needs a folder that nobody knows.
    #[error("`{0}` has no default here, because neither XDG_DATA_HOME nor HOME is set; set it")]
    Homeless(&'static str),
    /// There is a preset and a policy file.
    #[error("`policy.name` ({name}) and `policy.path` ({path}) are both set; keep one of them")]
    TwoPolicies {
        /// Where the name stands.
        name: Origin,
        /// Where the path stands.
        path: Origin,
    },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default()
}

/// The candidate that is nearest to what was written, if one is near at all.
pub(super) fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = 2.max(written.len() / 3);
    let near = candidates.map(|candidate| (strsim::levenshtein(written, candidate), candidate));
    near.filter(|(distance, _)| *distance <= far).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}
