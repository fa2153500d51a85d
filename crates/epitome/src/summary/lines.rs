//! Lines of passages: the units a summary quotes.
//! A line is trimmed and, when long, cut at a separator; its words are never changed.

use super::command::floor_boundary;

/// Lines longer than this are cut into pieces.
static MAX: std::sync::LazyLock<usize> =
    std::sync::LazyLock::new(|| std::env::var("LAB_linemax").ok().and_then(|t| t.parse().ok()).unwrap_or(300));

/// Calls `visit` with each line of `text` worth quoting.
pub fn each<'a>(text: &'a str, is_printed: bool, visit: &mut dyn FnMut(&'a str)) {
    for line in text.lines() {
        let mut rest = if is_printed { without_gutter(line).trim() } else { line.trim() };
        while rest.len() > *MAX {
            let (piece, more) = rest.split_at(cut(rest));
            visit(piece.trim());
            rest = more.trim_start();
        }
        if rest.len() >= LINE_BYTES_MIN {
            visit(rest);
        }
    }
}

/// Shorter lines (brackets, blanks) carry nothing.
const LINE_BYTES_MIN: usize = 4;

/// Where to cut a long line: after the last separator that leaves at least half a piece.
fn cut(line: &str) -> usize {
    let head = floor_boundary(line, *MAX);
    let from = floor_boundary(line, *MAX / 2);
    let separators = [". ", "; ", ", ", " ", ",", ";", "}"];
    let found = separators.iter().find_map(|sign| line[from..head].rfind(sign).map(|at| from + at + sign.len()));
    found.unwrap_or_else(|| line[head..].find(' ').map_or(line.len(), |at| head + at + 1))
}

/// The line without the number that tools print before the lines of a file.
fn without_gutter(line: &str) -> &str {
    let body = line.trim_start();
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 6 {
        return line;
    }
    let rest = &body[digits..];
    ["→", "\t", "|", ":"].iter().find_map(|sign| rest.strip_prefix(sign)).unwrap_or(line)
}
