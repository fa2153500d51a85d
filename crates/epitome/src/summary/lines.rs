//! Lines of passages: the units that a summary quotes.
//!
//! A line is trimmed and, when long, split at a separator; its words are never changed.

use super::lexicon::is_unit;
pub(super) use crate::files::{gutter, without_gutter};

/// Longer lines are split into pieces.
const LINE_BYTES_MAX: usize = 400;
/// Shorter lines (brackets, blanks) carry nothing.
const LINE_BYTES_MIN: usize = 4;

/// A line, or a piece of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinePiece<'a> {
    pub(super) text: &'a str,
    /// It continues the line of the piece before it.
    pub(super) continues: bool,
}

/// Calls `visit` with each line of `text` worth quoting; of what tools printed, line numbers are dropped.
pub(super) fn each_line<'a>(text: &'a str, is_printed: bool, visit: &mut dyn FnMut(LinePiece<'a>)) {
    for line in text.lines() {
        let mut rest = if is_printed { without_gutter(line).trim() } else { line.trim() };
        let mut continues = false;
        while rest.len() > LINE_BYTES_MAX {
            let (piece, more) = rest.split_at(split_point(rest));
            visit(LinePiece { text: piece, continues });
            rest = more;
            continues = true;
        }
        if rest.len() >= LINE_BYTES_MIN {
            visit(LinePiece { text: rest, continues });
        }
    }
}

/// Returns where to split a long line: after the last separator that leaves at least half a piece.
fn split_point(line: &str) -> usize {
    let head = line.floor_char_boundary(LINE_BYTES_MAX);
    let from = line.floor_char_boundary(LINE_BYTES_MAX / 2);
    let separators = [". ", "; ", ", ", " ", ",", ";", "}"];
    let found = separators.iter().find_map(|sign| line[from..head].rfind(sign).map(|at| from + at + sign.len()));
    // No word is split: the piece extends to the next space, or to the next char that is a word of its own.
    let next = |(at, c): (usize, char)| match c {
        ' ' => Some(head + at + 1),
        c => is_unit(c).then_some(head + at),
    };
    found.or_else(|| line[head..].char_indices().find_map(next)).unwrap_or(line.len())
}

/// Estimates the tokens of a line from its runs of letters, digits and signs; 12 % off on the mean line. Ranking asks for
/// every candidate, and a real count would cost more than the rest of the selection.
pub(super) fn estimate_tokens(text: &str) -> f32 {
    let (mut letters, mut words, mut humps, mut digits, mut numbers, mut signs, mut beyond) =
        (0u32, 0u32, 0u32, 0u32, 0u32, 0u32, 0u32);
    let mut before = b' ';
    for &byte in text.as_bytes() {
        let (is_letter, is_digit, is_sign) =
            (byte.is_ascii_alphabetic(), byte.is_ascii_digit(), byte.is_ascii_punctuation());
        letters += u32::from(is_letter);
        words += u32::from(is_letter & !before.is_ascii_alphabetic());
        humps += u32::from(byte.is_ascii_uppercase() & before.is_ascii_lowercase());
        digits += u32::from(is_digit);
        numbers += u32::from(is_digit & !before.is_ascii_digit());
        signs += u32::from(is_sign & !before.is_ascii_punctuation());
        beyond += u32::from(byte >= 128);
        before = byte;
    }
    let long = letters.saturating_sub(words * 5);
    // Least squares against o200k on lines of recorded sessions, rounded.
    [(words, 1.0), (humps, 0.6), (long, 0.08), (digits, 0.37), (numbers, 1.0), (signs, 0.8), (beyond, 0.25)]
        .iter()
        .map(|&(n, weight)| n as f32 * weight)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, each_line};

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
            each_line(&line, false, &mut |piece| pieces.push(piece.text));
            assert_eq!(pieces.concat().trim_end(), line.trim_end(), "{why}");
            assert_eq!(pieces.len(), pieces_expected, "{why}");
            let is_cut = |piece: &&str| piece.len() > LINE_BYTES_MAX && piece.contains([' ', '修']);
            assert!(!pieces.iter().any(is_cut), "{why}");
        }
    }
}
