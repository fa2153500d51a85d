//! Terms: the words that a text is found by.
//!
//! A term is made of letters and digits only, in lower case. A name such as `readConfig_v2` is found whole and by its
//! pieces; scripts that write no spaces are found by pairs of characters.

use std::collections::BTreeSet;

/// The most characters of a term.
const TERM_CHARS_MAX: usize = 48;

/// The terms of a text, in their order, with repetition.
pub fn terms(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (_, word) in words(text) {
        word_terms(word, &mut found);
    }
    found
}

/// The wanted terms of a text, in their order, with repetition; each with the byte where its word begins.
///
/// A search asks this of each passage that it looks at, and most words of a passage hold none: their terms are not made.
pub(super) fn mentions<'a>(
    text: &'a str,
    wanted: &'a BTreeSet<String>,
) -> impl Iterator<Item = (usize, String)> + use<'a> {
    let may_hold = |word: &str| !word.is_ascii() || wanted.iter().any(|term| may_hold(word, term));
    words(text).filter(move |(_, word)| may_hold(word)).flat_map(|(at, word)| {
        let mut found = Vec::new();
        word_terms(word, &mut found);
        found.retain(|term| wanted.contains(term));
        found.into_iter().map(move |term| (at, term))
    })
}

/// Tells whether a word of ASCII characters may hold a term, from its length and the term's first and last character.
fn may_hold(word: &str, term: &str) -> bool {
    let has = |end: Option<&u8>| end.is_some_and(|end| word.bytes().any(|byte| byte.eq_ignore_ascii_case(end)));
    term.len() <= word.len() && has(term.as_bytes().first()) && has(term.as_bytes().last())
}

/// The words of a text, each with the byte where it begins.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let all = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    all.map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
}

fn word_terms(word: &str, found: &mut Vec<String>) {
    if word.chars().any(writes_no_spaces) {
        return pairs(word, found);
    }
    let whole = cleaned(word);
    let pieces = pieces(word);
    if pieces.len() > 1 {
        found.extend(pieces.into_iter().filter(|piece| *piece != whole));
    }
    if !whole.is_empty() {
        found.push(whole);
    }
}

/// Letters and digits in lower case.
fn cleaned(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).take(TERM_CHARS_MAX).collect()
}

/// The pieces of a name: at underscores, and where a small letter meets a capital.
fn pieces(word: &str) -> Vec<String> {
    let mut pieces: Vec<String> = vec![String::new()];
    let mut before = ' ';
    for c in word.chars() {
        let starts = c == '_' || before.is_lowercase() && c.is_uppercase() || before.is_numeric() != c.is_numeric();
        if starts && pieces.last().is_some_and(|piece| !piece.is_empty()) {
            pieces.push(String::new());
        }
        if let (true, Some(piece)) = (c != '_', pieces.last_mut()) {
            piece.extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
        }
        before = c;
    }
    pieces.retain(|piece| piece.chars().count() > 1);
    pieces
}

/// Tells whether words of this character's script are not parted by spaces.
fn writes_no_spaces(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1780..=0x17FF | 0x1000..=0x109F | 0x3040..=0x30FF | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// Pairs of neighboring characters; runs of other scripts in between as words.
fn pairs(word: &str, found: &mut Vec<String>) {
    let mut rest = String::new();
    let mut before: Option<char> = None;
    for c in word.chars() {
        if !writes_no_spaces(c) {
            rest.push(c);
            before = None;
            continue;
        }
        if !rest.is_empty() {
            found.extend(Some(cleaned(&std::mem::take(&mut rest))).filter(|term| !term.is_empty()));
        }
        match before {
            Some(first) => found.push([first, c].iter().collect()),
            None => found.push(c.to_string()),
        }
        before = Some(c);
    }
    found.extend(Some(cleaned(&rest)).filter(|term| !term.is_empty()));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{mentions, terms};

    #[test]
    fn a_text_is_found_by_its_words_its_names_and_their_pieces() {
        for (text, expected) in [
            ("Fix the Parser!", "fix the parser"),
            ("readConfig_v2()", "read config readconfigv2"),
            ("src/auth_middleware.rs:42", "src auth middleware authmiddleware rs 42"),
            ("ERR_CONN_42x", "err conn 42 errconn42x"),
            ("Größe über", "größe über"),
            ("生产数据库", "生 生产 产数 数据 据库"),
            ("用 Rust写的", "用 rust 写 写的"),
            ("--- ... !!", ""),
            ("Ключ в сейфе", "ключ в сейфе"),
        ] {
            assert_eq!(terms(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn a_term_holds_nothing_but_letters_and_digits_and_is_bounded() {
        for text in ["a\u{0}b\"c'd", "x".repeat(500).as_str(), "🏴 👩‍👩‍👧‍👦 e\u{301}a\u{308}"] {
            for term in terms(text) {
                assert!(term.chars().all(char::is_alphanumeric) && term.chars().count() <= 48, "{term:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn mentions_are_the_wanted_ones_of_all_terms(text in "([a-cA-C_1é生产K]{0,5}[ .\n]){0,30}", of in 0usize..9) {
            let all = terms(&text);
            let wanted: BTreeSet<String> = all.iter().skip(of % 3).step_by(of + 1).cloned().collect();
            let found: Vec<(usize, String)> = mentions(&text, &wanted).collect();
            let expected: Vec<&String> = all.iter().filter(|term| wanted.contains(*term)).collect();
            prop_assert_eq!(found.iter().map(|(_, term)| term).collect::<Vec<_>>(), expected);
            for (at, term) in &found {
                prop_assert!(terms(text[*at..].split([' ', '.', '\n']).next().unwrap_or_default()).contains(term));
            }
        }
    }
}
