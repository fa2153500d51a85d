//! Lines of passages: the units a summary quotes.
//! A line is trimmed and, when long, cut at a separator; its words are never changed.

use super::command::floor_boundary;
use super::lexicon::is_unit;

/// Lines longer than this are cut into pieces.
const LINE_BYTES_MAX: usize = 400;

/// A line, or a piece of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    pub text: &'a str,
    /// Whether it goes on where the piece before it was cut.
    pub continues: bool,
}

/// Calls `visit` with each line of `text` worth quoting; `is_printed` drops line numbers of tools.
pub fn each<'a>(text: &'a str, is_printed: bool, visit: &mut dyn FnMut(Piece<'a>)) {
    for line in text.lines() {
        let mut rest = if is_printed { without_gutter(line).trim() } else { line.trim() };
        let mut continues = false;
        while rest.len() > LINE_BYTES_MAX {
            let (piece, more) = rest.split_at(cut(rest));
            visit(Piece { text: piece, continues });
            rest = more;
            continues = true;
        }
        if rest.len() >= LINE_BYTES_MIN {
            visit(Piece { text: rest, continues });
        }
    }
}

/// Shorter lines (brackets, blanks) carry nothing.
const LINE_BYTES_MIN: usize = 4;

/// Where to cut a long line: after the last separator that leaves at least half a piece.
fn cut(line: &str) -> usize {
    let head = floor_boundary(line, LINE_BYTES_MAX);
    let from = floor_boundary(line, LINE_BYTES_MAX / 2);
    let separators = [". ", "; ", ", ", " ", ",", ";", "}"];
    let found = separators.iter().find_map(|sign| line[from..head].rfind(sign).map(|at| from + at + sign.len()));
    // No word is cut: the piece goes on to the next space, or to the next char that is a word of its own.
    let next = |(at, c): (usize, char)| match c {
        ' ' => Some(head + at + 1),
        c => is_unit(c).then_some(head + at),
    };
    found.or_else(|| line[head..].char_indices().find_map(next)).unwrap_or(line.len())
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

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, each};

    #[test]
    fn a_long_line_is_cut_and_no_word_is() {
        let cases = [
            ("words", "some words and more. ".repeat(60), 4),
            ("one word", "a1b2c3d4".repeat(300), 1),
            ("a script without spaces", "修复解析错误".repeat(200), 10),
            ("a word in such a script", format!("{}{}", "x".repeat(900), "修复解析错误".repeat(40)), 3),
        ];
        for (why, line, pieces_expected) in cases {
            let mut pieces = Vec::new();
            each(&line, false, &mut |piece| pieces.push(piece.text));
            assert_eq!(pieces.concat().trim_end(), line.trim_end(), "{why}");
            assert_eq!(pieces.len(), pieces_expected, "{why}");
            let is_cut = |piece: &&str| piece.len() > LINE_BYTES_MAX && piece.contains([' ', '修']);
            assert!(!pieces.iter().any(is_cut), "{why}");
        }
    }
}
