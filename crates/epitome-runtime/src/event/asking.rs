//! Whether an agent asks for something it was told before: "What was the budget again?"
//!
//! A text is cut into clauses and clauses into words; a clause asks when a phrase of the table is in it. Scripts without
//! spaces are cut into characters. In a phrase, `a|b` stands for either word, `*` for one to eight words, `~` for none to
//! two, `^` and `$` for the beginning and the end of the clause, and `?` says that the clause must be part of a question.
//!
//! The table, `data/asking.toml`, does not try to understand. A phrase is in it when ordinary work does not produce it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// The most bytes that are looked at, from the end: questions come last.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The fewest and the most words that `*` and `~` stand for.
const GAP: (usize, usize) = (1, 8);
const FILLER: (usize, usize) = (0, 2);

/// The phrases of each language: `data/asking.toml`.
static TABLE: LazyLock<Table> = LazyLock::new(|| epitome::embedded_table!("asking.toml"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    phrases: BTreeMap<String, Vec<Phrase>>,
}

/// Tells whether the text asks for something that was said before.
pub fn asks_again(text: &str) -> bool {
    let asks = |clause: &Clause| TABLE.phrases.values().flatten().any(|phrase| phrase.is_in(clause));
    clauses(&spoken(&text[text.ceil_char_boundary(text.len().saturating_sub(TEXT_BYTES_MAX))..])).iter().any(asks)
}

/// The text without code and without quotations.
fn spoken(text: &str) -> String {
    let prose = text.split("```").step_by(2).flat_map(str::lines).filter(|line| !line.trim_start().starts_with('>'));
    prose.map(without_quotes).collect::<Vec<_>>().join("\n")
}

/// The line without what stands between quotation marks or backticks.
fn without_quotes(line: &str) -> String {
    let mut closes = None;
    let kept = line.chars().filter(|c| match closes {
        Some(close) if *c == close => {
            closes = None;
            false
        }
        Some(_) => false,
        None => {
            closes = closing(*c);
            closes.is_none()
        }
    });
    let kept: String = kept.collect();
    // An open quotation mark takes nothing with it: it may be an inch or a typing error.
    if closes.is_some() { line.to_owned() } else { kept }
}

fn closing(open: char) -> Option<char> {
    [('"', '"'), ('`', '`'), ('“', '”'), ('„', '“'), ('«', '»'), ('「', '」')]
        .into_iter()
        .find_map(|(opens, closes)| (opens == open).then_some(closes))
}

/// A clause: its words in lower case, and whether it is part of a question.
#[derive(Debug, Default)]
struct Clause {
    words: Vec<String>,
    asks: bool,
}

fn clauses(text: &str) -> Vec<Clause> {
    let mut clauses = Vec::new();
    for (sentence, asks) in sentences(text) {
        let parts = sentence.split([',', ';', ':', '—', '–', '(', ')', '、', '，', '；', '：', '،']);
        clauses.extend(parts.map(|part| Clause { words: words(part), asks }).filter(|clause| !clause.words.is_empty()));
    }
    clauses
}

/// The sentences, and whether each is a question. A full stop within a word does not end one.
fn sentences(text: &str) -> Vec<(&str, bool)> {
    let mut sentences = Vec::new();
    let (mut from, mut chars) = (0, text.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        let last = chars.peek().is_none_or(|(_, next)| next.is_whitespace());
        let ends = matches!(c, '?' | '!' | '…' | '\n' | '。' | '！' | '？' | '؟' | '।') || (c == '.' && last);
        if ends {
            sentences.push((&text[from..at], matches!(c, '?' | '？' | '؟')));
            from = at + c.len_utf8();
        }
    }
    sentences.push((&text[from..], false));
    sentences
}

fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars().flat_map(char::to_lowercase) {
        let is_alone = stands_alone(c);
        if is_alone || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.push(c);
        }
        if is_alone {
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Kana, Han and Hangul: in these a character is the smallest thing to look for.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// A phrase of the table.
#[derive(Deserialize)]
#[serde(from = "String")]
struct Phrase {
    steps: Vec<Step>,
    only_asked: bool,
}

enum Step {
    Word(String),
    OneOf(Vec<String>),
    Gap((usize, usize)),
    Start,
    End,
}

impl From<String> for Phrase {
    fn from(text: String) -> Self {
        let only_asked = text.ends_with('?');
        let steps = text.trim_end_matches('?').split_whitespace().flat_map(|token| match token {
            "*" => vec![Step::Gap(GAP)],
            "~" => vec![Step::Gap(FILLER)],
            "^" => vec![Step::Start],
            "$" => vec![Step::End],
            token if token.contains('|') => vec![Step::OneOf(words(token))],
            token => words(token).into_iter().map(Step::Word).collect(),
        });
        Phrase { steps: steps.collect(), only_asked }
    }
}

impl Phrase {
    fn is_in(&self, clause: &Clause) -> bool {
        let fits = clause.asks || !self.only_asked;
        fits && (0..clause.words.len()).any(|at| follows(&self.steps, &clause.words, at))
    }
}

/// Tells whether the steps lead on from this word.
fn follows(steps: &[Step], words: &[String], at: usize) -> bool {
    let Some((step, rest)) = steps.split_first() else { return true };
    match step {
        Step::Word(word) => words.get(at) == Some(word) && follows(rest, words, at + 1),
        Step::OneOf(either) => words.get(at).is_some_and(|word| either.contains(word)) && follows(rest, words, at + 1),
        Step::Gap((least, most)) => {
            (*least..=*most).any(|skip| at + skip <= words.len() && follows(rest, words, at + skip))
        }
        Step::Start => at == 0 && follows(rest, words, at),
        Step::End => at == words.len() && follows(rest, words, at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The phrases of one language.
    #[derive(Deserialize)]
    struct Sayings {
        asks: Vec<String>,
        ordinary: Vec<String>,
    }

    fn cases() -> BTreeMap<String, Sayings> {
        toml::from_str(include_str!("../../../../testdata/asking.toml")).unwrap()
    }

    #[test]
    fn an_agent_that_asks_for_what_it_was_told_is_heard_and_ordinary_questions_are_not() {
        for (language, Sayings { asks, ordinary }) in cases() {
            for text in asks {
                assert!(asks_again(&text), "{language}: {text} asks for what was said before");
            }
            for text in ordinary {
                assert!(!asks_again(&text), "{language}: {text} is an ordinary sentence");
            }
        }
    }

    #[test]
    fn every_language_of_the_table_is_tried_in_its_own_words() {
        let cases = cases();
        assert!(cases.keys().eq(TABLE.phrases.keys()), "each language of the table is tried");
        for ((language, tried), phrases) in cases.iter().zip(TABLE.phrases.values()) {
            let own =
                |text: &String| clauses(&spoken(text)).iter().any(|clause| phrases.iter().any(|p| p.is_in(clause)));
            assert!(tried.asks.iter().all(own), "{language} leans on another language");
        }
    }

    #[test]
    fn a_long_text_is_searched_from_its_end_and_cut_between_characters() {
        let long = "ж".repeat(TEXT_BYTES_MAX);
        assert!(asks_again(&format!("{long}. What was the budget again?")));
        assert!(!asks_again(&format!("What was the budget again? {long}x")));
    }
}
