//! Keywords: the words to find a dropped span by.

use std::collections::HashMap;
use std::ops::Range;

use crate::thread::{Part, Thread};

/// Returns the names that a range of messages mentions most, most mentioned first.
pub(crate) fn keywords(thread: &Thread, range: Range<usize>, most: usize) -> Vec<String> {
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    let mut seen = 0;
    for place in range {
        for word in all_words(thread, place).split(|c: char| !(c.is_alphanumeric() || "_./-".contains(c))) {
            let word = word.trim_matches(['.', '/', '-']);
            if is_name(word) {
                seen += 1;
                counts.entry(word.to_owned()).or_insert((0, seen)).0 += 1;
            }
        }
    }
    let mut words: Vec<(String, (usize, usize))> = counts.into_iter().collect();
    words.sort_by(|(_, (a, first_a)), (_, (b, first_b))| b.cmp(a).then(first_a.cmp(first_b)));
    words.into_iter().take(most).map(|(word, _)| word).collect()
}

/// Tells whether a word is something somebody named, rather than prose.
fn is_name(word: &str) -> bool {
    let chars = word.chars().count();
    let named = word.contains(['_', '/', '.', '-']) || word.chars().skip(1).any(char::is_uppercase) || !word.is_ascii();
    (3..=60).contains(&chars) && named && word.chars().any(char::is_alphabetic)
}

/// Returns everything that is said in a message, call arguments included.
pub(crate) fn all_words(thread: &Thread, place: usize) -> String {
    let words = thread.message(place).parts().iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        Part::ToolCall(call) => Some(&*call.arguments),
        Part::ToolResult(result) => Some(&*result.text),
        _ => None,
    });
    words.collect::<Vec<_>>().join("\n")
}
