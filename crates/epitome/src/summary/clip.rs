//! Clipping: the head and the tail of a text that is too long, in tokens or in characters.

use std::collections::HashSet;

use crate::budget::Tokens;

/// Stands where the middle was.
pub(crate) const GAP: &str = "[... left out ...]";

/// Clips a text to `limit` tokens, two thirds of them its head; `None` when it fits as it is. Counting is not additive, so the
/// cut begins at the mean bytes per token and shrinks by a tenth until the count fits.
pub(crate) fn clip_middle(text: &str, limit: Tokens, count: &dyn Fn(&str) -> Tokens) -> Option<String> {
    if (text.len() as u64) <= limit.get() {
        return None;
    }
    let tokens = count(text);
    if tokens <= limit {
        return None;
    }
    let room = limit.get().saturating_sub(12);
    let mut bytes = (text.len() as u64 * room / tokens.get().max(1)) as usize;
    loop {
        let clipped = clip_bytes(text, bytes * 2 / 3, bytes / 3);
        if bytes < 16 || count(&clipped) <= limit {
            return Some(clipped);
        }
        bytes = bytes * 9 / 10;
    }
}

/// Stands for left out lines of an outline.
const LINES_LEFT_OUT: &str = "…";
/// A longer line of an outline is cut.
const OUTLINE_CHARS_MAX: usize = 300;

/// Clips a document to the lines that carry it: first `said`, the person's own words about it, then its first and last lines, its
/// headings, its list items, its prose and the first line of each block of code, and the rest of the code; what only repeats names that
/// stand above comes later. `None` when it fits as it is.
pub(super) fn outline(text: &str, said: &[&str], limit: Tokens, count: &dyn Fn(&str) -> Tokens) -> Option<String> {
    if (text.len() as u64) <= limit.get() || count(text) <= limit {
        return None;
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut ranked: Vec<(u8, usize)> = Vec::new();
    let (mut in_code, mut opens_code) = (false, false);
    let mut known: HashSet<&str> = HashSet::new();
    for (at, line) in lines.iter().enumerate() {
        let fence = line.trim_start().starts_with("```");
        let is_end = at < 2 || at + 2 >= lines.len();
        let rank = match line_rank(line) {
            _ if said.iter().any(|piece| piece.contains(line.trim())) => 0,
            _ if opens_code && !fence => 3,
            _ if (fence || in_code) && !line.contains(char::is_alphanumeric) => 6,
            _ if fence || in_code => 4,
            _ if is_end => 1,
            rank @ 2.. if repeats_names(line, &known) => rank + if says_more_than_names(line) { 1 } else { 3 },
            rank => rank,
        };
        opens_code = fence && !in_code;
        in_code ^= fence;
        known.extend(line_names(line));
        ranked.push((rank, at));
    }
    ranked.sort_unstable();
    let cut = |line: &str| line[..offset(line, OUTLINE_CHARS_MAX)].to_owned();
    let (mut taken, mut room) = (vec![false; lines.len()], limit);
    for (_, at) in ranked {
        // One for the line's end, one for what may be left out before it.
        let cost = count(&cut(lines[at])) + Tokens::new(2);
        if cost <= room {
            room -= cost;
            taken[at] = true;
        }
    }
    let mut out: Vec<String> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if taken[at] {
            out.push(cut(line));
        } else if out.last().is_some_and(|last| last != LINES_LEFT_OUT) {
            out.push(LINES_LEFT_OUT.to_owned());
        }
    }
    if out.is_empty() { clip_middle(text, limit, count) } else { Some(out.join("\n")) }
}

/// Returns the names in a line: paths, identifiers, flags.
fn line_names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c.is_whitespace() || "`\"'(),;:*".contains(c));
    words.map(|word| word.trim_end_matches('.')).filter(|word| {
        let is_joined =
            word.contains(['/', '_', '.', '-']) || word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
        word.len() > 3 && is_joined
    })
}

/// Tells whether a line has names, and none that was not there before: an overview at the end of a plan.
fn repeats_names(line: &str, known: &HashSet<&str>) -> bool {
    let mut names = line_names(line).peekable();
    names.peek().is_some() && names.all(|name| known.contains(name))
}

/// Tells whether a line says something beside the names in it: a step of a plan, rather than an entry of a list of files.
fn says_more_than_names(line: &str) -> bool {
    let names: usize = line_names(line).map(str::len).sum();
    let letters =
        line.bytes().filter(u8::is_ascii_alphabetic).count() + line.bytes().filter(|byte| *byte >= 128).count();
    letters > names + SAID_BESIDE_MIN
}

/// So many letters beside the names of a line say something.
const SAID_BESIDE_MIN: usize = 8;

/// Ranks a line of a document: headings, then items of its outer lists, then prose.
fn line_rank(line: &str) -> u8 {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let is_item =
        line.starts_with("- ") || line.starts_with("* ") || digits > 0 && line[digits..].starts_with(['.', ')']);
    match line {
        _ if line.starts_with('#') || line.starts_with("**") => 1,
        _ if is_item => 2,
        _ => 3,
    }
}

/// Returns the first and the last bytes of a text, cut where lines or words end.
fn clip_bytes(text: &str, head: usize, tail: usize) -> String {
    let head = last_break(&text[..text.floor_char_boundary(head)]);
    let tail = text.floor_char_boundary(text.len() - tail.min(text.len()));
    let tail = (tail + first_break(&text[tail..])).max(head);
    let (head, tail) = (text[..head].trim_end(), text[tail..].trim_start());
    match (head.is_empty(), tail.is_empty()) {
        (true, true) => GAP.to_owned(),
        (false, true) => format!("{head}\n{GAP}"),
        (true, false) => format!("{GAP}\n{tail}"),
        (false, false) => format!("{head}\n{GAP}\n{tail}"),
    }
}

/// Returns where to end a head: after its last line, else its last word, else where it is.
fn last_break(head: &str) -> usize {
    let line = head.rfind('\n').filter(|at| at * 2 > head.len());
    line.or_else(|| head.rfind(char::is_whitespace).filter(|at| at * 2 > head.len())).unwrap_or(head.len())
}

/// Returns where to start a tail: at its first line, else its first word, else where it is.
fn first_break(tail: &str) -> usize {
    let line = tail.find('\n').filter(|at| at * 2 < tail.len());
    let at = line.or_else(|| tail.find(char::is_whitespace).filter(|at| at * 2 < tail.len()));
    at.map_or(0, |at| at + tail[at..].chars().next().map_or(0, char::len_utf8))
}

/// Clips a text to so many characters: its head and its tail, and between them a mark that says how long it was.
pub(super) fn clip_chars(text: &str, chars_max: usize) -> String {
    let chars = text.chars().count();
    if chars <= chars_max {
        return text.to_owned();
    }
    let mark = format!("\n[… of {chars} characters, the middle is left out …]\n");
    let room = chars_max.saturating_sub(mark.chars().count());
    let head = room - room / 3;
    let tail = room - head;
    let kept_head = &text[..offset(text, head)];
    let kept_tail = &text[offset(text, chars - tail)..];
    if room == 0 { text[..offset(text, chars_max)].to_owned() } else { format!("{kept_head}{mark}{kept_tail}") }
}

/// Joins a text into one line of at most so many characters, with `…` where it is cut.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let (mut line, mut chars) = (String::new(), 0);
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
            chars += 1;
        }
        line.push_str(word);
        chars += word.chars().count();
        // The text may be much longer than the line.
        if chars > chars_max {
            break;
        }
    }
    if chars <= chars_max {
        return line;
    }
    let kept = &line[..offset(&line, chars_max.saturating_sub(1))];
    // A piece of a name is another name: only whole words are kept, unless the first is longer than all that may stay.
    let kept = kept.rsplit_once(' ').map_or(kept, |(words, _)| words);
    if chars_max == 0 { String::new() } else { format!("{}…", kept.trim_end()) }
}

fn offset(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::{clip_chars, clip_middle, one_line, outline};
    use crate::budget::Tokens;

    #[test]
    fn a_text_clipped_in_tokens_keeps_its_ends_and_its_bound_in_any_script() {
        let count = |text: &str| Tokens::new(text.chars().count() as u64);
        for text in ["word ".repeat(400), "行".repeat(2000), "a".repeat(3000), "line one\n".repeat(300)] {
            let clipped = clip_middle(&text, Tokens::new(200), &count).unwrap();
            assert!(count(&clipped) <= Tokens::new(200), "{clipped}");
            assert_eq!(clipped.chars().next(), text.chars().next());
        }
        assert_eq!(clip_middle("short", Tokens::new(200), &count), None);
    }

    #[test]
    fn an_outline_has_what_carries_a_document() {
        let plan = "Carry out this plan:\n# Totals\nThey are wrong since March.\n## Steps\n1. Change `cart/total.rs`\n```rust\nfn total(items: &[Item]) -> Cents {\n    items.iter().map(Item::price).sum()\n}\n```\n2. Test `cart/tests.rs`\n## Files\n- `cart/total.rs`\n- `cart/tests.rs`\nThat is all.\nThank you.";
        let count = |text: &str| Tokens::new(text.len() as u64);
        let cases = [
            (
                250,
                "Carry out this plan:\n# Totals\nThey are wrong since March.\n## Steps\n1. Change `cart/total.rs`\n```rust\nfn total(items: &[Item]) -> Cents {\n    items.iter().map(Item::price).sum()\n}\n…\n2. Test `cart/tests.rs`\n## Files\n…\nThat is all.\nThank you.",
            ),
            (
                200,
                "Carry out this plan:\n# Totals\nThey are wrong since March.\n## Steps\n1. Change `cart/total.rs`\n…\nfn total(items: &[Item]) -> Cents {\n…\n}\n…\n2. Test `cart/tests.rs`\n## Files\n…\nThat is all.\nThank you.",
            ),
        ];
        for (limit, expected) in cases {
            assert_eq!(outline(plan, &[], Tokens::new(limit), &count).unwrap(), expected, "{limit}");
        }
        assert_eq!(outline(plan, &[], Tokens::new(2000), &count), None);
    }

    #[test]
    fn a_text_clipped_in_characters_keeps_its_ends_and_its_bound_in_any_script() {
        for text in ["0123456789".repeat(40), "日本語のテキスト".repeat(50), "🙂é".repeat(200)] {
            for chars_max in [0, 1, 30, 100, 399, 10_000] {
                let clip = clip_chars(&text, chars_max);
                assert!(clip.chars().count() <= chars_max, "{chars_max}");
                assert!(one_line(&text, chars_max).chars().count() <= chars_max);
            }
            let clip = clip_chars(&text, 100);
            assert!(clip.contains("of 400 characters") && clip.chars().next() == text.chars().next());
            assert_eq!(clip.chars().last(), text.chars().last());
        }
    }
}
