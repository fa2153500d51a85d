//! What a command that failed says of it.

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
    use super::error_line;

    #[test]
    fn the_error_line_is_the_one_that_names_the_error() {
        assert_eq!(
            error_line("Exit code 1\nrunning\nerror: no such table: users\nmore"),
            "error: no such table: users"
        );
        assert_eq!(error_line("nur so"), "nur so");
    }
}
