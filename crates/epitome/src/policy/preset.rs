//! The presets: one policy file for each system whose behavior people know.

use super::{Policy, PolicyError};

/// A policy that ships with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub toml: &'static str,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        [$(Preset { name: $name, toml: include_str!(concat!("../../policies/", $name, ".toml")) }),*]
    };
}

impl Preset {
    /// Every preset; the first is the default.
    pub const ALL: [Preset; 9] =
        presets!["ladder", "timeline", "pi", "codex", "claude-code", "opencode", "amp", "layer", "workstream"];

    /// Parses the policy.
    pub fn policy(&self) -> Policy {
        Policy::parse(self.toml).unwrap_or_else(|error: PolicyError| panic!("the preset {}: {error}", self.name))
    }
}

/// Returns the policy of the preset with a name.
pub fn preset(name: &str) -> Option<Policy> {
    Preset::ALL.iter().find(|preset| preset.name == name).map(Preset::policy)
}

#[cfg(test)]
mod tests {
    use super::Preset;

    #[test]
    fn every_preset_is_a_policy_of_its_own_name() {
        for preset in Preset::ALL {
            assert_eq!(preset.policy().name, preset.name);
        }
    }
}
