//! A sentence with numbers in it, found in a text: the small part of a regular expression that errors need.
//!
//! `{limit}`, `{used}`, `{input}` and `{output}` stand for a number, `…` for any words, everything else for itself. It
//! never goes back further than to the next place where the sentence may start, so it is fast on any text.

use super::tokens::Tokens;

/// A sentence to look for, in lower case.
#[derive(serde::Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Phrase {
    parts: Vec<Part>,
}

/// The numbers that a sentence named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Captured {
    pub(super) limit: Option<Tokens>,
    pub(super) used: Option<Tokens>,
    pub(super) input: Option<Tokens>,
    pub(super) output: Option<Tokens>,
}

enum Part {
    Words(Box<str>),
    Number(Number),
    Gap,
}

#[derive(Clone, Copy)]
enum Number {
    Limit,
    Used,
    Input,
    Output,
}

impl TryFrom<String> for Phrase {
    type Error = String;

    fn try_from(sentence: String) -> Result<Phrase, String> {
        match sentence.chars().any(char::is_uppercase) {
            true => Err(format!("{sentence:?} is not in lower case")),
            false => Phrase::parse(&sentence),
        }
    }
}

impl Phrase {
    /// Reads a sentence of the table.
    fn parse(sentence: &str) -> Result<Phrase, String> {
        let mut parts = Vec::new();
        let mut rest = sentence;
        while let Some(at) = rest.find(['{', '…']) {
            parts.extend((at > 0).then(|| Part::Words(rest[..at].into())));
            let (part, after) = match rest[at..].strip_prefix('…') {
                Some(after) => (Part::Gap, after),
                None => {
                    let (name, after) = rest[at + 1..].split_once('}').ok_or("a `{` is not closed")?;
                    (Part::Number(Number::named(name)?), after)
                }
            };
            parts.push(part);
            rest = after;
        }
        parts.extend((!rest.is_empty()).then(|| Part::Words(rest.into())));
        Ok(Phrase { parts })
    }

    /// The numbers of the first place in a text where the whole sentence stands.
    pub(super) fn find(&self, text: &str) -> Option<Captured> {
        let Some(Part::Words(first)) = self.parts.first() else {
            return None;
        };
        text.match_indices(&**first).find_map(|(at, _)| self.read(&text[at..]))
    }

    fn read(&self, text: &str) -> Option<Captured> {
        let mut captured = Captured::default();
        let mut rest = text;
        let mut gap = false;
        for part in &self.parts {
            rest = match part {
                Part::Words(words) if gap => &rest[rest.find(&**words)? + words.len()..],
                Part::Words(words) => rest.strip_prefix(&**words)?,
                Part::Number(name) => {
                    let from = if gap { rest.find(|c: char| c.is_ascii_digit())? } else { 0 };
                    let (number, after) = split_number(&rest[from..])?;
                    captured.take(*name, number);
                    after
                }
                Part::Gap => rest,
            };
            gap = matches!(part, Part::Gap);
        }
        Some(captured)
    }
}

impl Number {
    fn named(name: &str) -> Result<Number, String> {
        match name {
            "limit" => Ok(Number::Limit),
            "used" => Ok(Number::Used),
            "input" => Ok(Number::Input),
            "output" => Ok(Number::Output),
            _ => Err(format!("`{{{name}}}` is not a number: use {{limit}}, {{used}}, {{input}} or {{output}}")),
        }
    }
}

impl Captured {
    fn take(&mut self, name: Number, number: Tokens) {
        match name {
            Number::Limit => self.limit = Some(number),
            Number::Used => self.used = Some(number),
            Number::Input => self.input = Some(self.input.unwrap_or_default() + number),
            Number::Output => self.output = Some(number),
        }
    }
}

/// A number at the start of a text, with commas between its digits or without.
fn split_number(text: &str) -> Option<(Tokens, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(text.len());
    let written = text[..end].trim_end_matches(',');
    let number = written.replace(',', "").parse().ok()?;
    Some((Tokens::new(number), &text[written.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(sentence: &str, text: &str) -> Option<[Option<u64>; 4]> {
        let Captured { limit, used, input, output } = Phrase::parse(sentence).unwrap().find(text)?;
        Some([limit, used, input, output].map(|number| number.map(Tokens::get)))
    }

    #[test]
    fn a_sentence_is_found_with_its_numbers_or_not_at_all() {
        for (sentence, text, found) in [
            ("limit is {limit}", "the limit is 4,096, sorry", Some([Some(4_096), None, None, None])),
            ("limit is {limit}", "the limit is unknown, the limit is 7", Some([Some(7), None, None, None])),
            ("{limit}", "7", None),
            ("has {used}…of {limit}", "it has 9 apples out of 8", Some([Some(8), Some(9), None, None])),
            ("({input} a, {input} b, {output} c", "(1 a, 2 b, 3 c)", Some([None, None, Some(3), Some(3)])),
            ("too long", "is too long", Some([None; 4])),
            ("over {used} and under", "over 9", None),
            ("over {used}", "over 99999999999999999999999999", None),
        ] {
            assert_eq!(find(sentence, text), found, "{sentence:?} in {text:?}");
        }
    }

    #[test]
    fn a_sentence_that_could_never_be_found_is_refused() {
        for (sentence, reason) in [
            ("Too long", "\"Too long\" is not in lower case"),
            ("over {used", "a `{` is not closed"),
            ("over {most}", "`{most}` is not a number: use {limit}, {used}, {input} or {output}"),
        ] {
            assert_eq!(Phrase::try_from(sentence.to_owned()).err().as_deref(), Some(reason));
        }
    }
}
