//! Clipping: the head and the tail of a text that is too long, cut where lines or words end.

use super::command::floor_boundary;
use crate::budget::Tokens;

/// Stands where the middle was.
pub const GAP: &str = "[... left out ...]";

/// The head and the tail of a text of more than `limit` tokens; `None` when it fits as it is.
pub fn middle_out(text: &str, limit: Tokens, count: &dyn Fn(&str) -> Tokens) -> Option<String> {
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

/// The first and the last bytes of a text, cut at breaks.
pub fn clip_bytes(text: &str, head: usize, tail: usize) -> String {
    let head = last_break(&text[..floor_boundary(text, head)]);
    let tail = floor_boundary(text, text.len() - tail.min(text.len()));
    let tail = (tail + first_break(&text[tail..])).max(head);
    let (head, tail) = (text[..head].trim_end(), text[tail..].trim_start());
    match (head.is_empty(), tail.is_empty()) {
        (true, true) => GAP.to_owned(),
        (false, true) => format!("{head}\n{GAP}"),
        (true, false) => format!("{GAP}\n{tail}"),
        (false, false) => format!("{head}\n{GAP}\n{tail}"),
    }
}

/// Where to end a head: after its last line, else its last word, else where it is.
fn last_break(head: &str) -> usize {
    let line = head.rfind('\n').filter(|at| at * 2 > head.len());
    line.or_else(|| head.rfind(char::is_whitespace).filter(|at| at * 2 > head.len())).unwrap_or(head.len())
}

/// Where to start a tail: at its first line, else its first word, else where it is.
fn first_break(tail: &str) -> usize {
    let line = tail.find('\n').filter(|at| at * 2 < tail.len());
    let at = line.or_else(|| tail.find(char::is_whitespace).filter(|at| at * 2 < tail.len()));
    at.map_or(0, |at| at + tail[at..].chars().next().map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use super::middle_out;
    use crate::budget::Tokens;

    #[test]
    fn a_clipped_text_keeps_its_ends_and_its_bound_in_any_script() {
        let count = |text: &str| Tokens::new(text.chars().count() as u64);
        for text in ["word ".repeat(400), "行".repeat(2000), "a".repeat(3000), "line one\n".repeat(300)] {
            let clipped = middle_out(&text, Tokens::new(200), &count).unwrap();
            assert!(count(&clipped) <= Tokens::new(200), "{clipped}");
            assert_eq!(clipped.chars().next(), text.chars().next());
        }
        assert_eq!(middle_out("short", Tokens::new(200), &count), None);
    }
}
