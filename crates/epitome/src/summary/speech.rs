//! Marks on a person's words: which sentences bind, which correct, which approve.
//!
//! ```text
//! m20 user   "Yeah, do it. Write the test first, and don't touch vendor/."
//!             ├─ approval    Yeah, do it.
//!             └─ constraint  Write the test first, and don't touch vendor/.
//! ```
//!
//! Marks label and order. What a person typed stays in the prompt whether it is marked or not, so a sentence that is missed here
//! loses its label and nothing else. Material that a person pasted is not marked: it binds as far as they say.

use std::sync::LazyLock;

use serde::Deserialize;

use super::arguments::search_hit;
use super::constraint::{binds, has_words, opening, sentences};
use crate::table::LowerList;

/// The words of `data/speech.toml`, which says what each list is for.
static WORDS: LazyLock<SpeechWords> = LazyLock::new(|| crate::embedded_table!("speech.toml"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpeechWords {
    directing: LowerList,
    next_step: LowerList,
    directing_anywhere: LowerList,
    correcting: LowerList,
    correcting_anywhere: LowerList,
    taking_back: LowerList,
    approving: LowerList,
    choosing: LowerList,
}

/// A longer message may hold pasted material.
const TYPED_BYTES_MAX: usize = 600;
/// A longer paragraph of such a message is pasted.
const PARAGRAPH_BYTES_MAX: usize = 900;
/// A longer answer is not an approval.
const APPROVAL_BYTES_MAX: usize = 300;

/// Returns the sentences of a person's words that bind.
pub(super) fn constraints(text: &str) -> impl Iterator<Item = &str> {
    typed(text).into_iter().flat_map(sentences).filter(|sentence| directs(sentence))
}

/// Returns the sentences that correct what was said or done before.
pub(super) fn corrections(text: &str) -> impl Iterator<Item = &str> {
    typed(text).into_iter().flat_map(sentences).filter(|sentence| corrects(sentence))
}

/// Tells whether a sentence is a rule: it has words of obligation. "Without" alone limits one step and is none.
pub(super) fn is_rule(sentence: &str) -> bool {
    let lower = lower(&sentence.replace("without", ""));
    binds(&lower, opening(&lower))
}

/// Tells whether words take back what the person said before: "scratch that", "on second thought".
pub(crate) fn takes_back(text: &str) -> bool {
    let found = |lower: &str, words: &str| match words.strip_prefix('^') {
        Some(words) => opening(lower).strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric)),
        None if words.is_ascii() => has_words(lower, words),
        None => lower.contains(words),
    };
    typed(text).into_iter().flat_map(sentences).any(|sentence| {
        let lower = lower(sentence);
        WORDS.taking_back.iter().any(|words| found(&lower, words))
    })
}

/// Returns the sentence of a short answer that approves, declines or chooses.
pub(super) fn approval(text: &str) -> Option<&str> {
    let text = text.trim();
    let first = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if first.len() > APPROVAL_BYTES_MAX {
        return None;
    }
    let lower = lower(first);
    (choice(first).is_some() || begins_with_any(&WORDS.approving, &lower)).then(|| first_clause(first))
}

/// Tells whether a question offers a choice: "which approach?".
pub(super) fn offers_choice(question: &str) -> bool {
    let lower = lower(question);
    WORDS.choosing.iter().any(|words| if words.is_ascii() { has_words(&lower, words) } else { lower.contains(words) })
}

/// Returns the choice that words begin with, in lower case: `2`, `2.`, `B)`, `#4`, `option 2`.
pub(super) fn choice(words: &str) -> Option<String> {
    let lower = lower(words);
    let rest = ["i think ", "let's try ", "let's go with ", "option "]
        .iter()
        .fold(lower.as_str(), |rest, lead| rest.strip_prefix(lead).unwrap_or(rest));
    let word = rest.split_whitespace().next().unwrap_or_default();
    let bare = word.trim_start_matches('#').trim_end_matches(['.', ')', ',', ':', '=']);
    let is_number = !bare.is_empty() && bare.len() <= 2 && bare.bytes().all(|byte| byte.is_ascii_digit());
    let is_letter = bare.len() == 1 && (word.ends_with([')', '.']) || word == rest && rest != lower);
    (is_number || is_letter).then(|| bare.to_owned())
}

fn first_clause(line: &str) -> &str {
    sentences(line).next().unwrap_or(line)
}

fn directs(sentence: &str) -> bool {
    let lower = lower(sentence);
    let start = opening(&lower);
    let directing = begins_with_any(&WORDS.directing, start) && !WORDS.next_step.starts(start);
    if sentence.trim_end().ends_with(['?', '？']) {
        return directing;
    }
    directing || binds(&lower, start) || WORDS.directing_anywhere.iter().any(|words| has_words(&lower, words))
}

fn corrects(sentence: &str) -> bool {
    let lower = lower(sentence);
    begins_with_any(&WORDS.correcting, &lower) || WORDS.correcting_anywhere.iter().any(|words| has_words(&lower, words))
}

fn lower(text: &str) -> String {
    text.trim().to_lowercase().replace('’', "'")
}

/// Tells whether a text begins with an entry and then with something else than a letter; scripts without spaces need no such end.
fn begins_with_any(list: &LowerList, text: &str) -> bool {
    let ends = |entry: &&str| !entry.is_ascii() || !text[entry.len()..].starts_with(|c: char| c.is_alphanumeric());
    list.prefixes_of(text).any(|entry| ends(&entry))
}

/// Returns what of a person's words they typed: of a long message, the paragraphs before and after what they pasted. In any
/// message, fenced code and quoted lines are somebody else's.
pub(super) fn typed(text: &str) -> Vec<&str> {
    let paragraphs = paragraphs(text);
    let has_headings = paragraphs.iter().any(|paragraph| paragraph.starts_with("# ") || paragraph.starts_with("## "));
    if text.len() <= TYPED_BYTES_MAX && !has_headings {
        return paragraphs.into_iter().filter(|paragraph| !is_quoted(paragraph)).collect();
    }
    let first = paragraphs.iter().position(|paragraph| is_pasted(paragraph));
    let last = paragraphs.iter().rposition(|paragraph| is_pasted(paragraph));
    match (first, last) {
        (Some(first), Some(last)) => [&paragraphs[..first], &paragraphs[last + 1..]].concat(),
        _ => paragraphs,
    }
}

/// Tells whether a person's words are mostly material that they pasted.
pub(crate) fn is_pasted_mostly(text: &str) -> bool {
    text.len() > TYPED_BYTES_MAX && typed(text).iter().map(|piece| piece.len()).sum::<usize>() * 2 < text.len()
}

/// Splits a text at blank lines; a code fence is one paragraph.
fn paragraphs(text: &str) -> Vec<&str> {
    let mut paragraphs = Vec::new();
    let (mut from, mut at, mut in_fence) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        let breaks = (fence || line.trim().is_empty()) && !in_fence;
        if breaks {
            paragraphs.push(&text[from..at]);
            from = at;
        }
        at += line.len();
        if fence {
            if in_fence {
                paragraphs.push(&text[from..at]);
                from = at;
            }
            in_fence = !in_fence;
        }
    }
    paragraphs.push(&text[from..]);
    paragraphs.into_iter().map(str::trim).filter(|paragraph| !paragraph.is_empty()).collect()
}

/// Tells whether a paragraph is somebody else's: fenced, quoted, or what a tool printed about a line of a file.
fn is_quoted(paragraph: &str) -> bool {
    let is_report = |line: &str| search_hit(line.trim_start()).is_some();
    paragraph.starts_with("```")
        || paragraph.lines().all(|line| line.starts_with(['>', '+', '|']))
        || paragraph.lines().next().is_some_and(is_report)
}

/// Tells whether a paragraph of a long message looks like a document, a log, code or a diff.
fn is_pasted(paragraph: &str) -> bool {
    let is_marked = |line: &str| {
        let line = line.trim_start();
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        line.starts_with(['#', '|', '>', '+', '{', '}', '<', '\t', '⏺', '•', '✓', '$', '%'])
            || line.starts_with("- **")
            || line.starts_with("**")
            || digits > 0 && line[digits..].starts_with(". **")
            || digits > 2
            || line.ends_with([';', '{', '}'])
            || line.contains("error:")
            || line.contains("://")
    };
    is_quoted(paragraph)
        || paragraph.len() > PARAGRAPH_BYTES_MAX
        || paragraph.lines().next().is_some_and(is_marked)
        || paragraph.lines().filter(|line| is_marked(line)).count() * 2 > paragraph.lines().count()
}

#[cfg(test)]
mod tests {
    use super::{approval, constraints, corrections, takes_back, typed};

    #[test]
    fn a_sentence_that_directs_the_work_is_a_constraint_and_a_question_or_report_is_not() {
        let directs = [
            "write the test first",
            "let's store it in metadata",
            "I'd like all those assertions replaced with a single comparison.",
            "Use `migration_source_commit` as the field please",
            "do not stash anything",
            "Wir sollten zuerst die Tests schreiben.",
            "我们应该先写测试。",
        ];
        for sentence in directs {
            assert_eq!(constraints(sentence).collect::<Vec<_>>(), [sentence]);
        }
        let others = [
            "is there the ability to retry?",
            "are we looping through every single checkpoint on every single commit?",
            "the stop hooks are running quite slowly in some cases",
            "let's look at them together",
            "yes please",
        ];
        for sentence in others {
            assert_eq!(constraints(sentence).collect::<Vec<_>>(), [""; 0], "{sentence}");
        }
    }

    #[test]
    fn what_a_person_pasted_does_not_bind() {
        let review = "Fix these. Never push.\n\n## Review\n\nThe parser must never panic here, and it always does so.\n\n\
            - **High**: you should not use unwrap in parse.rs:12 since it must not fail in production at all.\n\n\
            - **Low**: names should be longer. They must be. The reviewer has a lot to say about every one of them, for pages \
            and pages, so that nobody can take this for a sentence that the person typed on their own keyboard today.\n\n\
            - **Low**: tests should be shorter than they are. Each of them has forty lines, which is far too long.\n\n\
            Use the helper for all of it.";
        assert_eq!(
            constraints(review).collect::<Vec<_>>(),
            ["Never push.", "Use the helper for all of it."],
            "{:?}",
            typed(review)
        );
    }

    #[test]
    fn an_answer_approves_or_chooses_and_a_request_does_not() {
        let cases = [
            ("yes please", Some("yes please")),
            ("Yeah, do it. Then push.", Some("Yeah, do it.")),
            ("2", Some("2")),
            ("C) update this branch", Some("C) update this branch")),
            ("ja, gerne", Some("ja, gerne")),
            ("好的", Some("好的")),
            ("Fix the parser.", None),
            ("2026 was better", None),
            ("Nothing works", None),
        ];
        for (text, expected) in cases {
            assert_eq!(approval(text), expected, "{text}");
        }
    }

    #[test]
    fn what_a_person_takes_back() {
        for words in
            ["Actually, scratch that. Use B.", "Forget A and B, go with C.", "Vergiss das, nimm B.", "算了，用B吧"]
        {
            assert!(takes_back(words), "{words}");
        }
        for words in ["Don't forget the tests.", "Use B instead of A in the parser.", "no, use tabs"] {
            assert!(!takes_back(words), "{words}");
        }
    }

    #[test]
    fn a_correction_is_told_from_a_request() {
        assert!(corrections("no, use tabs instead").next().is_some());
        assert!(corrections("I meant the tests in e2e/").next().is_some());
        assert!(corrections("Add a test for the parser.").next().is_none());
    }
}
