//! Words of obligation in the languages people write to agents in, words with which an agent tells a decision, and how a text is
//! split into sentences. `speech.rs` decides with them what of a person's words binds.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::table::LowerList;

/// Shorter sentences bind nothing, unless they are two words.
const SENTENCE_CHARS_MIN: usize = 6;
/// No two words bind with fewer.
const PHRASE_CHARS_MIN: usize = 4;
/// Longer ones are prose.
const SENTENCE_CHARS_MAX: usize = 600;
/// The most words of a ban, as in "no new dependencies please".
const BAN_WORDS_MAX: usize = 8;

/// The words of `data/constraints.toml`, which says what each list is for.
static WORDS: LazyLock<ConstraintWords> = LazyLock::new(|| crate::embedded_table!("constraints.toml"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstraintWords {
    lead_ins: LowerList,
    answering: LowerList,
    telling: LowerList,
    reasons: LowerList,
    deciding: LowerList,
    announcing: LowerList,
    obligations: Obligations,
}

/// Returns the sentences of an agent's message that tell a decision.
pub(super) fn decisions(text: &str) -> impl Iterator<Item = &str> {
    sentences(text).filter(|sentence| {
        let lower = sentence.to_lowercase();
        WORDS.deciding.iter().any(|words| has_words(&lower, words))
    })
}

/// Tells whether a sentence only announces what comes next: "Here's my proposal:".
pub(super) fn announces(sentence: &str) -> bool {
    let lower = sentence.to_lowercase().replace('’', "'");
    let is_word_end = |end: usize| !lower[end..].starts_with(char::is_alphanumeric) || !lower.is_ascii();
    WORDS.announcing.prefixes_of(&lower).any(|words| is_word_end(words.len()))
}

/// Tells whether a sentence that tells a decision gives its reason.
pub(super) fn gives_reason(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    WORDS.reasons.iter().any(|words| lower.contains(words))
}

/// Tells whether a sentence in lower case has words of obligation; `opening` is what it begins with.
pub(super) fn binds(lower: &str, opening: &str) -> bool {
    WORDS.obligations.bind(lower, opening) || stops(opening) || bans(opening)
}

/// Skips bullets and lead-ins such as "ok," and "please".
pub(super) fn opening(lower: &str) -> &str {
    let mut rest = lower.trim_start_matches(|c: char| !c.is_alphanumeric());
    let lead_in_end =
        |text: &str| WORDS.lead_ins.prefixes_of(text).map(str::len).find(|end| text[*end..].starts_with([' ', ',']));
    while let Some(end) = lead_in_end(rest) {
        rest = rest[end + 1..].trim_start();
    }
    rest
}

/// Recognizes an order to stop: "stop adding comments".
fn stops(opening: &str) -> bool {
    let mut words = words_of(opening);
    words.next() == Some("stop") && words.next().is_some_and(|word| word.ends_with("ing"))
}

/// Recognizes a short ban: "no tabs". An answer ("no problem") or a report ("no tests failed") does not.
fn bans(opening: &str) -> bool {
    let Some(banned) = opening.strip_prefix("no ") else { return false };
    let words: Vec<&str> = words_of(banned).collect();
    (1..=BAN_WORDS_MAX).contains(&words.len())
        && !banned.ends_with('?')
        && !WORDS.answering.contains(words[0])
        && !words.iter().any(|word| WORDS.telling.contains(word))
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty())
}

/// Words of obligation of all languages, by where they are looked for.
#[derive(Default, Deserialize)]
#[serde(from = "BTreeMap<String, LowerList>")]
struct Obligations {
    /// Whole words, by their first letter.
    whole: HashMap<char, Vec<Phrase>>,
    anywhere: Vec<Box<str>>,
    opening: Vec<Phrase>,
}

/// Words that follow each other; the later ones may come further on in the sentence: "only … when".
struct Phrase {
    first: Box<str>,
    later: Option<Box<str>>,
}

impl Phrase {
    fn of(words: &str) -> Phrase {
        match words.split_once(" … ") {
            Some((first, later)) => Phrase { first: first.into(), later: Some(later.into()) },
            None => Phrase { first: words.into(), later: None },
        }
    }

    fn begins(&self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix(&*self.first) else { return false };
        !rest.starts_with(char::is_alphanumeric) && self.later.as_ref().is_none_or(|later| has_words(rest, later))
    }
}

impl From<BTreeMap<String, LowerList>> for Obligations {
    fn from(languages: BTreeMap<String, LowerList>) -> Obligations {
        let mut obligations = Obligations::default();
        languages.values().flat_map(|words| words.iter()).for_each(|words| obligations.add(words));
        obligations
    }
}

impl Obligations {
    fn add(&mut self, words: &str) {
        match (words.strip_prefix('~'), words.strip_prefix('^'), words.chars().next()) {
            (Some(piece), _, _) => self.anywhere.push(piece.into()),
            (_, Some(first), _) => self.opening.push(Phrase::of(first)),
            (_, _, Some(letter)) => self.whole.entry(letter).or_default().push(Phrase::of(words)),
            _ => {}
        }
    }

    fn bind(&self, lower: &str, opening: &str) -> bool {
        let begins = |rest: &str| self.whole.get(&rest.chars().next()?)?.iter().find(|words| words.begins(rest));
        word_starts(lower).any(|at| begins(&lower[at..]).is_some())
            || self.opening.iter().any(|words| words.begins(opening))
            || !lower.is_ascii() && self.anywhere.iter().any(|word| lower.contains(&**word))
    }
}

fn word_starts(text: &str) -> impl Iterator<Item = usize> {
    let mut inside = false;
    text.char_indices().filter_map(move |(at, c)| {
        let before = std::mem::replace(&mut inside, c.is_alphanumeric());
        (inside && !before).then_some(at)
    })
}

/// Tells whether a text holds some words, not as a piece of longer ones.
pub(super) fn has_words(text: &str, words: &str) -> bool {
    // Looking whether they are there at all is much faster than looking where.
    text.contains(words)
        && text.match_indices(words).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
}

/// Splits a text into sentences: up to a full stop, an exclamation or question mark, or a line's end.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(split_line).map(str::trim).filter(|sentence| {
        let chars = sentence.chars().count();
        let terse = !sentence.is_ascii() || sentence.contains(' ');
        let chars_min = if terse { PHRASE_CHARS_MIN } else { SENTENCE_CHARS_MIN };
        (chars_min..=SENTENCE_CHARS_MAX).contains(&chars)
    })
}

fn split_line(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (sentence, more) = rest.split_at(sentence_end(rest));
        rest = more;
        Some(sentence)
    })
}

fn sentence_end(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let full_stop = matches!(c, '.' | '!' | '?' | '؟') && next.is_none_or(char::is_whitespace);
        if full_stop || matches!(c, '。' | '！' | '？' | '।' | '۔') {
            return at + c.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::{binds, opening, sentences};
    use crate::table::LowerList;

    fn check(text: &str, expect: &[&str]) {
        let lower = |sentence: &str| sentence.to_lowercase().replace('’', "'");
        let is_binding = |sentence: &&str| binds(&lower(sentence), opening(&lower(sentence)));
        let found: Vec<&str> = sentences(text).filter(is_binding).collect();
        assert_eq!(found, expect, "{text:?}");
    }

    #[derive(Deserialize)]
    struct Sentences {
        binding: String,
        harmless: String,
    }

    #[derive(Deserialize)]
    struct Languages {
        obligations: BTreeMap<String, LowerList>,
    }

    #[test]
    fn a_prohibition_is_found_in_every_language_of_the_table_and_a_report_in_none() {
        let cases: BTreeMap<String, Sentences> =
            toml::from_str(include_str!("../../../../testdata/constraints.toml")).unwrap();
        for Sentences { binding, harmless } in cases.values() {
            check(binding, &[binding]);
            check(harmless, &[]);
        }
        let Languages { obligations } = crate::embedded_table!("constraints.toml");
        assert!(cases.keys().eq(obligations.keys()), "each language of the table is tried");
    }

    #[test]
    fn an_order_without_a_never_binds_as_well() {
        let orders = [
            "Lösche die Datenbank nicht.",
            "No borres la base de datos.",
            "Não apague o banco de dados.",
            "Non cancellare il database.",
            "Nie usuwaj bazy danych.",
            "Не удаляй базу данных.",
            "千万别删数据库。",
            "Verwijder de database niet.",
            "Ta inte bort databasen.",
            "Brug kun tabulatorer.",
            "Ikke slett databasen.",
            "Tietokantaa ei saa poistaa.",
            "Không được xóa cơ sở dữ liệu.",
            "Basis data tidak boleh dihapus.",
            "Veritabanını silmeyin.",
            "لا تقم بحذف قاعدة البيانات.",
            "डेटाबेस को कभी न हटाएं।",
            "ডাটাবেস মুছবেন না।",
            "อย่าลบฐานข้อมูล",
            "אסור למחוק את מסד הנתונים.",
            "Не видаляй базу даних.",
            "Η βάση δεν πρέπει να διαγραφεί.",
            "Databázi nesmíš smazat.",
            "Nemaž databázu.",
            "Az adatbázist tilos törölni.",
            "Nu șterge baza de date.",
            "Не изтривай базата данни.",
            "پایگاه داده را حذف نکنید.",
        ];
        orders.iter().for_each(|order| check(order, &[order]));
    }

    #[test]
    fn a_users_binding_sentences_are_found_whole() {
        check("Fix the parser. Never touch vendor/. Thanks!", &["Never touch vendor/."]);
        check("please use tabs, but only in Makefiles", &["please use tabs, but only in Makefiles"]);
        check("Bitte niemals auf main pushen. Danke", &["Bitte niemals auf main pushen."]);
        check("不要修改生产数据库。谢谢", &["不要修改生产数据库。"]);
        check("本番のデータは絶対に消さないでください。", &["本番のデータは絶対に消さないでください。"]);
        check("Никогда не трогай config.yaml! Потом тесты.", &["Никогда не трогай config.yaml!"]);
        check("Don’t push.", &["Don’t push."]);
        check("the lonely mustache neverland", &[]);
        check("v1.2.3 is out", &[]);
    }

    #[test]
    fn a_short_order_binds_and_an_answer_does_not() {
        let orders = [
            "No tabs.",
            "No JS",
            "- no emojis!",
            "No new dependencies please.",
            "Use tabs, not spaces.",
            "Please use pnpm rather than npm.",
            "Stop adding comments.",
            "ok, stop apologizing",
        ];
        orders.iter().for_each(|order| check(order, &[order]));
        let answers = [
            "No, that is fine.",
            "No problem.",
            "no idea why",
            "No tests failed.",
            "No errors now.",
            "No comments?",
            "No funciona.",
            "I use vim.",
            "Use the new parser.",
            "Where does it stop?",
            "no",
            "Only",
        ];
        answers.iter().for_each(|answer| check(answer, &[]));
    }

    #[test]
    fn a_long_order_is_taken_whole_and_prose_is_not() {
        let order = |words: usize| format!("Never touch {}these.", "vendor ".repeat(words));
        check(&order(80), &[&*order(80)]);
        check(&order(90), &[]);
    }
}
