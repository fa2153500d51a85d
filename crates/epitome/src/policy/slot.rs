//! What the arguments of tool calls hold, by their names, as data.
//!
//! It knows no agent in particular: an unknown argument is something the agent wrote.

/// What one argument of a call holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The file it is about.
    Path,
    /// The command it runs.
    Command,
    /// Text the agent put into a file or sent somewhere.
    Wrote,
    /// Text an edit took out.
    Replaced,
    /// What the agent looked for.
    Asked,
    /// Numbers, switches and descriptions of the call itself.
    Aside,
}

const NAMES: [(Slot, &[&str]); 5] = [
    (
        Slot::Path,
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
    (Slot::Command, &["command", "commands", "cmd", "script", "code"]),
    (Slot::Replaced, &["old_string", "old_str", "oldtext", "old_text"]),
    (Slot::Asked, &["pattern", "query", "glob", "regex", "search", "url"]),
    (
        Slot::Aside,
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

impl Slot {
    /// What the argument called `name` holds.
    pub fn of(name: &str) -> Slot {
        let row = NAMES.iter().find(|(_, names)| names.iter().any(|known| known.eq_ignore_ascii_case(name)));
        row.map_or(Slot::Wrote, |(slot, _)| *slot)
    }
}
