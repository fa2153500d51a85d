//! Word tables: what the code looks for in texts, kept as TOML in the `data` folder of each crate.
//!
//! Which words bind, how servers say "too long", which marks a harness writes: that is data. It grows with every new
//! host and language, and a line can be added without reading the code that looks for it. A table is a TOML file with lists
//! of strings, a comment above each list that says where its entries are looked for, and a struct in the module that uses
//! it:
//!
//! ```
//! use epitome::table::{self, WordList};
//!
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Verdicts {
//!     good: WordList,
//!     bad: WordList,
//! }
//!
//! let text = "good = ['OK', 'passed']\nbad = ['FAILED ']";
//! let verdicts: Verdicts = table::parse("verdicts.toml", text)?;
//! assert!(verdicts.bad.starts("FAILED tests/a.py"));
//! assert!(verdicts.good.contains("OK"));
//!
//! let twice = table::parse::<Verdicts>("verdicts.toml", "good = [\n'OK',\n'OK']\nbad = ['FAILED ']");
//! assert_eq!(twice.err().unwrap().to_string(), "verdicts.toml, line 3: \"OK\" stands twice in this list");
//! # Ok::<(), epitome::table::TableError>(())
//! ```
//!
//! A module embeds its table with [`embedded_table!`](crate::embedded_table) in a `LazyLock`, so a file is parsed once, on
//! first use. A list that no field names is refused by serde, a field that no code reads is refused by the compiler, and
//! `tests/tables.rs` reads every file: an entry that stands in a table is looked for.
//!
//! The lists are asked for every line of a conversation. [`WordList`] therefore knows its entries by their first byte, and
//! compares a text with the few that may fit.

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Reads a table of the calling crate's `data` folder into the type that the place of use asks for.
///
/// The file is embedded when the crate is compiled. Panics where it is malformed, and says in which line; a test that reads
/// the table finds that first.
#[macro_export]
macro_rules! embedded_table {
    ($file:literal) => {
        $crate::table::parse(
            concat!("data/", $file),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/", $file)),
        )
        .unwrap_or_else(|error| panic!("{error}"))
    };
}

/// Reads a table. `file` is its name for error messages.
///
/// No list of strings may be empty, hold an empty string, or hold one string twice; `T` says which lists there are.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, TableError> {
    let table = check_form(file, text)?;
    T::deserialize(toml::Deserializer::from(table)).map_err(|error| TableError::of(file, text, &error))
}

/// Checks the form of a table whose type is not known; see [`parse`].
pub fn check(file: &str, text: &str) -> Result<(), TableError> {
    check_form(file, text).map(|_| ())
}

fn check_form<'a>(file: &str, text: &'a str) -> Result<Spanned<DeTable<'a>>, TableError> {
    let table = DeTable::parse(text).map_err(|error| TableError::of(file, text, &error))?;
    check_table(table.get_ref()).map_err(|fault| TableError::at(file, text, fault.place, fault.reason))?;
    Ok(table)
}

/// A malformed table: the file, the line, and the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {reason}")]
pub struct TableError {
    file: String,
    line: usize,
    reason: String,
}

impl TableError {
    fn of(file: &str, text: &str, error: &toml::de::Error) -> TableError {
        TableError::at(file, text, error.span().map_or(0, |span| span.start), error.message().to_owned())
    }

    fn at(file: &str, text: &str, place: usize, reason: String) -> TableError {
        let line = text.as_bytes()[..place.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        TableError { file: file.to_owned(), line, reason }
    }
}

/// A fault of a table, and its byte offset.
struct Fault {
    place: usize,
    reason: String,
}

fn check_table(table: &DeTable<'_>) -> Result<(), Fault> {
    table.iter().try_for_each(|(_, value)| check_value(value))
}

fn check_value(value: &Spanned<DeValue<'_>>) -> Result<(), Fault> {
    match value.get_ref() {
        DeValue::Table(table) => check_table(table),
        DeValue::Array(list) if list.is_empty() => {
            Err(Fault { place: value.span().start, reason: "this list is empty".to_owned() })
        }
        DeValue::Array(list) => check_list(list),
        _ => Ok(()),
    }
}

fn check_list(list: &DeArray<'_>) -> Result<(), Fault> {
    let mut seen = std::collections::BTreeSet::new();
    for entry in list {
        check_value(entry)?;
        let Some(word) = entry.get_ref().as_str() else { continue };
        let fault = |reason| Err(Fault { place: entry.span().start, reason });
        if word.is_empty() {
            return fault("an empty string stands in everything".to_owned());
        }
        if !seen.insert(word) {
            return fault(format!("{word:?} stands twice in this list"));
        }
    }
    Ok(())
}

/// A list of words or phrases, in the order of the file.
#[derive(Clone)]
pub struct WordList {
    /// The entries by their first byte; those with the same one are in the order of the file.
    entries: Vec<Box<str>>,
    /// Where the entries that begin with each byte start; the next byte's is where they end.
    starts: Box<[u16; 257]>,
    /// The place of each entry of the file in `entries`.
    order: Vec<u16>,
}

impl WordList {
    fn new(words: Vec<Box<str>>) -> WordList {
        let first = |word: &str| word.as_bytes().first().copied().unwrap_or_default();
        let mut places: Vec<usize> = (0..words.len()).collect();
        // Stable: which of two entries comes first may matter.
        places.sort_by_key(|place| first(&words[*place]));
        let mut order = vec![0; words.len()];
        places.iter().enumerate().for_each(|(sorted, place)| order[*place] = sorted as u16);
        let mut starts = Box::new([0; 257]);
        for word in &words {
            starts[usize::from(first(word)) + 1..].iter_mut().for_each(|start| *start += 1);
        }
        let entries = places.into_iter().map(|place| words[place].clone()).collect();
        WordList { entries, starts, order }
    }

    /// Returns the entries, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|at| &*self.entries[usize::from(*at)])
    }

    /// Tells whether a word is an entry.
    pub fn contains(&self, word: &str) -> bool {
        self.beginning_with(word.as_bytes().first()).iter().any(|entry| **entry == *word)
    }

    /// Returns the entries that a text starts with, in the order of the file.
    pub fn prefixes_of(&self, text: &str) -> impl Iterator<Item = &str> {
        let entries = self.beginning_with(text.as_bytes().first()).iter();
        entries.map(|entry| &**entry).filter(|entry| text.starts_with(*entry))
    }

    /// Tells whether a text starts with an entry.
    pub fn starts(&self, text: &str) -> bool {
        self.prefixes_of(text).next().is_some()
    }

    /// Tells whether an entry is anywhere in a text.
    pub fn occurs_in(&self, text: &str) -> bool {
        self.entries.iter().any(|entry| text.contains(&**entry))
    }

    fn beginning_with(&self, byte: Option<&u8>) -> &[Box<str>] {
        let Some(byte) = byte.map(|byte| usize::from(*byte)) else { return &[] };
        &self.entries[usize::from(self.starts[byte])..usize::from(self.starts[byte + 1])]
    }
}

impl<'de> Deserialize<'de> for WordList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WordList, D::Error> {
        let words = Vec::<Box<str>>::deserialize(deserializer)?;
        if words.len() > usize::from(u16::MAX) {
            return Err(D::Error::custom("this list is too long"));
        }
        Ok(WordList::new(words))
    }
}

impl fmt::Debug for WordList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A [`WordList`] in lower case, for texts that are compared in lower case. An entry in upper case would never be found,
/// and is refused.
#[derive(Clone, Debug)]
pub struct LowerList(WordList);

impl LowerList {
    /// Tells whether a text starts with an entry, ignoring the case of ASCII letters.
    pub fn starts_ignoring_case(&self, text: &str) -> bool {
        let first = text.as_bytes().first().map(u8::to_ascii_lowercase);
        let fits = |entry: &str| text.get(..entry.len()).is_some_and(|start| start.eq_ignore_ascii_case(entry));
        self.0.beginning_with(first.as_ref()).iter().any(|entry| fits(entry))
    }
}

impl std::ops::Deref for LowerList {
    type Target = WordList;

    fn deref(&self) -> &WordList {
        &self.0
    }
}

impl<'de> Deserialize<'de> for LowerList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LowerList, D::Error> {
        let list = WordList::deserialize(deserializer)?;
        if let Some(word) = list.iter().find(|word| word.chars().any(char::is_uppercase)) {
            return Err(D::Error::custom(format!("{word:?} is not in lower case")));
        }
        Ok(LowerList(list))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Sample {
        words: WordList,
        lower: LowerList,
        inner: std::collections::BTreeMap<String, WordList>,
    }

    #[test]
    fn a_malformed_table_is_refused_with_its_file_and_line() {
        for (text, reason) in [
            ("words = ['a']\nlower = [\n'b',\n'b',\n]", "line 4: \"b\" stands twice in this list"),
            ("words = []", "line 1: this list is empty"),
            ("words = ['a',\n'']", "line 2: an empty string stands in everything"),
            ("words = ['a']\nlower = ['b']\n[inner]\nx = ['y',\n'y']", "line 5: \"y\" stands twice in this list"),
            ("words = ['a']\nlower = ['B']\n[inner]\n", "line 2: \"B\" is not in lower case"),
            (
                "words = ['a']\nwrods = ['a']\nlower = ['b']",
                "line 2: unknown field `wrods`, expected one of `words`, `lower`, `inner`",
            ),
            ("words = ['a']\n\nlower = ['b'\n[inner]", "line 4: missing comma between array elements, expected `,`"),
            ("words = ['a', 1]", "line 1: invalid type: integer `1`, expected a string"),
            ("words = ['a']\nlower = ['b']", "line 1: missing field `inner`"),
        ] {
            let error = parse::<Sample>("data/sample.toml", text).expect_err(text);
            assert_eq!(error.to_string(), format!("data/sample.toml, {reason}"), "{text}");
        }
    }

    fn list(words: &[&str]) -> WordList {
        WordList::new(words.iter().map(|word| Box::from(*word)).collect())
    }

    #[test]
    fn the_prefixes_of_a_text_come_in_the_order_of_the_file() {
        let words = list(&["é", "ab", "b", "a", "abc"]);
        assert_eq!(words.iter().collect::<Vec<_>>(), ["é", "ab", "b", "a", "abc"]);
        let prefixes: [(&str, &[&str]); 5] =
            [("abcd", &["ab", "a", "abc"]), ("ax", &["a"]), ("élan", &["é"]), ("c", &[]), ("", &[])];
        for (text, expected) in prefixes {
            assert_eq!(words.prefixes_of(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_list_answers_as_a_walk_through_it_would(
            words in prop::collection::btree_set("[a-cé ]{1,4}", 1..12),
            text in "[a-cA-Cé ]{0,8}",
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).rev().collect();
            let asked = LowerList(list(&words));
            let begins = |start: &str| text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
            prop_assert_eq!(asked.iter().collect::<Vec<_>>(), words.clone());
            prop_assert_eq!(asked.contains(&text), words.contains(&text.as_str()));
            let prefixes: Vec<&str> = words.iter().copied().filter(|word| text.starts_with(word)).collect();
            prop_assert_eq!(asked.prefixes_of(&text).collect::<Vec<_>>(), prefixes);
            prop_assert_eq!(asked.occurs_in(&text), words.iter().any(|word| text.contains(word)));
            prop_assert_eq!(asked.starts_ignoring_case(&text), words.iter().any(|word| begins(word)));
        }
    }
}
