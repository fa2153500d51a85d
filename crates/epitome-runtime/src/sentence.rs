//! Errors as sentences, for people who read them on a terminal, in a finding or in a tool's answer.

use std::fmt;

/// Turns an error into a sentence: a capital first, unless it begins with a name or a path, and a period at the end.
pub fn sentence(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    let text = text.trim_end_matches('.');
    let end = if text.ends_with(['?', '!']) { "" } else { "." };
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if text.split_whitespace().next().is_some_and(|word| word.chars().all(char::is_alphabetic)) => {
            format!("{}{}{end}", first.to_uppercase(), letters.as_str())
        }
        _ => format!("{text}{end}"),
    }
}
