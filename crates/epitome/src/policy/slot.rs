//! What the arguments of tool calls hold, by their names, as data.
//!
//! It knows no agent in particular: an unknown argument is something the agent wrote.

/// What one argument of a call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// The file it is about.
    Path,
    /// The command it runs.
    Command,
    /// Text the agent put into a file or sent somewhere.
    Written,
    /// Text an edit took out.
    Replaced,
    /// What the agent looked for.
    Query,
    /// Numbers, switches and descriptions of the call itself.
    Setting,
}

const NAMES: [(ArgumentKind, &[&str]); 5] = [
    (
        ArgumentKind::Path,
        &[
            "path",
            "file_path",
            "filepath",
            "filename",
            "file",
            "notebook_path",
            "target_file",
            "relative_path",
            "absolute_path",
            "uri",
        ],
    ),
    (ArgumentKind::Command, &["command", "commands", "cmd", "script", "code"]),
    (ArgumentKind::Replaced, &["old_string", "old_str", "oldtext", "old_text"]),
    (ArgumentKind::Query, &["pattern", "query", "glob", "regex", "search", "url"]),
    (
        ArgumentKind::Setting,
        &[
            "description",
            "timeout",
            "limit",
            "offset",
            "output_mode",
            "activeform",
            "type",
            "subagent_type",
            "workdir",
            "cwd",
        ],
    ),
];

impl ArgumentKind {
    /// What the argument called `name` holds.
    pub fn of(name: &str) -> ArgumentKind {
        let row = NAMES.iter().find(|(_, names)| names.iter().any(|known| known.eq_ignore_ascii_case(name)));
        row.map_or(ArgumentKind::Written, |(slot, _)| *slot)
    }
}
