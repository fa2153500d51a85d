//! How a command ended, as its output tells.

/// The ending that an output tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing is said.
    Untold,
    /// It went well.
    Well,
    /// It failed, with this status where it is given.
    Failed(Option<i32>),
}

impl Ending {
    /// The exit status, where it is told.
    pub fn code(self) -> Option<i32> {
        match self {
            Ending::Untold => None,
            Ending::Well => Some(0),
            Ending::Failed(code) => code,
        }
    }
}

/// Words before an exit status, as harnesses print them.
const STATUS_WORDS: [&str; 8] = [
    "exit code ",
    "exit code: ",
    "exited with code ",
    "<returncode>",
    "exit_code\":",
    "exit status ",
    "exit status: ",
    "returncode: ",
];
/// How an output begins that reports a failure.
const FAILURES: [&str; 9] = [
    "error",
    "fatal:",
    "traceback",
    "<tool_use_error>",
    "panic",
    "exception",
    "command failed",
    "permission denied",
    "no such file",
];
/// How far from either end an exit status is looked for.
const EDGE_BYTES: usize = 240;

/// How an output says that its command ended.
pub fn ending(output: &str) -> Ending {
    let output = output.trim();
    let head = output[..floor_boundary(output, EDGE_BYTES)].to_lowercase();
    let tail_from = floor_boundary(output, output.len().saturating_sub(EDGE_BYTES));
    let tail = output[tail_from..].to_lowercase();
    if let Some(code) = status(&head).or_else(|| status(&tail)) {
        return if code == 0 { Ending::Well } else { Ending::Failed(Some(code)) };
    }
    match FAILURES.iter().any(|mark| head.starts_with(mark)) {
        true => Ending::Failed(None),
        false => Ending::Untold,
    }
}

fn status(text: &str) -> Option<i32> {
    STATUS_WORDS.iter().filter(|words| text.contains(**words)).find_map(|words| {
        let rest = text.split_once(words)?.1.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// The line of an output that says what went wrong.
pub fn error_line(output: &str) -> &str {
    let telling = |line: &&str| {
        let lower = line.to_lowercase();
        ["error", "failed", "panicked", "exception", "fatal", "not found", "denied", "cannot"]
            .iter()
            .any(|word| lower.contains(word))
    };
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines().find(telling).or_else(|| lines().next()).unwrap_or_default();
    &line[..floor_boundary(line, 240)]
}

/// The largest char boundary of a text up to a place.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{Ending, ending, error_line};

    #[test]
    fn an_output_tells_how_its_command_ended() {
        let cases = [
            ("Exit code 2\nbad", Ending::Failed(Some(2))),
            ("<returncode>0</returncode>\n<output>fine", Ending::Well),
            ("lots of words\n\nProcess exited with code 101", Ending::Failed(Some(101))),
            ("error[E0432]: unresolved import", Ending::Failed(None)),
            ("Traceback (most recent call last):", Ending::Failed(None)),
            ("the word error in the middle", Ending::Untold),
            ("", Ending::Untold),
        ];
        for (output, expected) in cases {
            assert_eq!(ending(output), expected, "{output:?}");
        }
    }

    #[test]
    fn the_error_line_is_the_one_that_names_the_error() {
        assert_eq!(
            error_line("Exit code 1\nrunning\nerror: no such table: users\nmore"),
            "error: no such table: users"
        );
        assert_eq!(error_line("nur so"), "nur so");
    }
}
