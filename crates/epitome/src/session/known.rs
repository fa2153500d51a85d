//! The names of what agents are known to write beside the conversation, so that only what is new is reported.

use std::sync::LazyLock;

use serde::Deserialize;

use super::Format;
use crate::table::WordList;

static KNOWN: LazyLock<KnownEntries> = LazyLock::new(|| crate::embedded_table!("entries.toml"));

/// The lists of `data/entries.toml`, which says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownEntries {
    claude: WordList,
    codex: WordList,
    pi: WordList,
    parts: WordList,
}

/// Tells whether a format is known to have entries of this type beside its messages and compactions.
pub(super) fn is_known_entry(format: Format, name: &str) -> bool {
    match format {
        Format::ClaudeCode => KNOWN.claude.contains(name),
        Format::Codex => KNOWN.codex.contains(name),
        Format::PiEvents | Format::PiTree => KNOWN.pi.contains(name),
        Format::List(_) => false,
    }
}

/// Tells whether a part of this type is known, though it is not read.
pub(super) fn is_known_part(name: &str) -> bool {
    KNOWN.parts.contains(name)
}
