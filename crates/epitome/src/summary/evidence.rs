//! Evidence: the words of a span by speaker, so that a model's quotations can be checked.
//!
//! It compares without regard to white space, case and the shape of quotation marks. It does not judge meaning: a
//! paraphrase is neither confirmed nor refuted here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::parse::{listed_user_messages, parse_items};
use super::transcript::is_user_speech;
use super::{Quote, StructuredSummary};
use crate::message::said_in_result;
use crate::table::LowerList;
use crate::thread::{Message, Part, Span, Speaker, Thread, pieces};

/// The words of a span by speaker, folded for comparison.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    user: Vec<UserText>,
    others: String,
    turns: BTreeMap<usize, u32>,
}

/// A text that a person wrote.
#[derive(Clone, Debug)]
struct UserText {
    text: String,
    folded: String,
    place: usize,
}

impl Evidence {
    /// Collects what was said in a span, what an earlier summary says was said before, and the user's words elsewhere.
    pub(super) fn of(thread: &Thread, span: &Span, earlier: Option<&StructuredSummary>) -> Self {
        let mut evidence = Evidence::default();
        for at in span.range() {
            let message = thread.message(at);
            let place = message.log_place();
            evidence.turns.insert(place, message.turn());
            match thread.hidden(at) {
                Some(replacement) => evidence.add_other(replacement),
                None => evidence.add_message(message, place),
            }
        }
        // Requests that stay are shown too.
        let is_other = |at: &usize| !span.contains(*at) && is_user_speech(thread.message(*at));
        for at in (0..thread.len()).filter(is_other) {
            let message = thread.message(at);
            message.texts().for_each(|text| evidence.add_speech(text, message.log_place()));
        }
        if let Some(summary) = earlier {
            evidence.add_summary(summary);
        }
        evidence
    }

    fn add_message(&mut self, message: &Message, place: usize) {
        for part in message.parts() {
            match part {
                Part::Text(text) if message.is_summary() => self.add_summary_text(text, place),
                Part::Text(text) if is_user_speech(message) => self.add_speech(text, place),
                Part::Text(text) => self.add_other(text),
                Part::ToolCall(call) => self.add_other(&call.arguments),
                Part::ToolResult(result) => {
                    self.add_other(&result.text);
                    said_in_result(&result.text).iter().for_each(|said| self.add_user(said.words, place));
                }
                Part::Media(_) | Part::Reasoning(_) | Part::Opaque(_) => {}
            }
        }
    }

    /// Adds a text of a user's message: what a harness put into it was not said by a person.
    fn add_speech(&mut self, text: &str, place: usize) {
        for (speaker, piece) in pieces(text) {
            match speaker {
                Speaker::User => self.add_user(piece, place),
                Speaker::Harness(_) => self.add_other(piece),
            }
        }
    }

    /// Adds what an earlier compaction left behind: of its text, only what it tells as the user's words is theirs.
    fn add_summary_text(&mut self, text: &str, place: usize) {
        let mut items = StructuredSummary::default();
        parse_items(text, place, &mut items);
        self.add_other(text);
        self.add_summary(&items);
        listed_user_messages(text).into_iter().for_each(|words| self.add_user(words, place));
    }

    fn add_summary(&mut self, summary: &StructuredSummary) {
        let turn = summary.turn_context.as_ref().map(|turn| &turn.request);
        for quote in summary.constraints.iter().chain(turn) {
            self.add_user(&quote.text, quote.place);
        }
        summary.requests.iter().for_each(|request| self.add_user(&request.text, request.place));
        summary.pins.iter().for_each(|pin| self.add_user(pin, 0));
        self.add_other(&serde_json::to_string(summary).unwrap_or_default());
        summary.facts.iter().chain(&summary.current_task).for_each(|fact| self.add_other(&fact.text));
        summary.goal.iter().for_each(|goal| self.add_other(goal));
    }

    fn add_user(&mut self, text: &str, place: usize) {
        self.user.push(UserText { text: text.to_owned(), folded: fold(text), place });
    }

    fn add_other(&mut self, text: &str) {
        self.others.push_str(&fold(text));
        self.others.push('\0');
    }

    /// Returns the sentence in which a person said some words, as it was written; `None` if no person did. The whole sentence,
    /// because half of one can mean the opposite: “delete it” is a piece of “never delete it”.
    pub(super) fn user_sentence(&self, words: &str) -> Option<Quote> {
        let wanted = fold(words);
        let wanted = wanted.trim_end_matches(['.', ',', '…']);
        if wanted.is_empty() {
            return None;
        }
        let (own, at) = self.user.iter().rev().find_map(|own| own.folded.find(wanted).map(|at| (own, at)))?;
        Some(Quote { text: own.sentence(at, at + wanted.len()).to_owned(), place: own.place })
    }

    fn was_said(&self, words: &str) -> bool {
        let wanted = fold(words);
        let wanted = wanted.trim_end_matches(['.', ',', '…']);
        self.others.contains(wanted) || self.user.iter().any(|own| own.folded.contains(wanted))
    }

    /// Finds a quotation in a text that nobody said; or, in a text that speaks of the user, that no user said.
    pub(super) fn find_invented<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (quotations, around) = quotations(text);
        let of_user = mentions_user(&around);
        quotations.into_iter().find(|words| match of_user {
            true => self.user_sentence(words).is_none() && !words.trim().is_empty(),
            false => weight(words) >= NAME_WEIGHT_MAX && !self.was_said(words),
        })
    }

    pub(super) fn turn(&self, place: usize) -> u32 {
        self.turns.get(&place).copied().unwrap_or(0)
    }

    /// Returns the numbers among those that an answer names for which there is a message.
    pub(super) fn known(&self, named: &[usize]) -> Vec<usize> {
        let newest = self.turns.keys().next_back().map_or(0, |place| place + 1);
        named.iter().copied().filter(|number| (1..=newest).contains(number)).collect()
    }

    /// Returns the place of the newest message that an answer names; the newest of all where it names none that exists.
    pub(super) fn place(&self, named: &[usize]) -> usize {
        let newest = self.turns.keys().next_back().copied().unwrap_or(0);
        self.known(named).into_iter().max().map_or(newest, |number| number - 1)
    }

    /// Tells whether words of the user were taken back, as far as it can be told: the answer repeats them, and names a later
    /// message in which the user speaks.
    pub(super) fn takes_back(&self, words: &Quote, named: &str, messages: &[usize]) -> bool {
        let (folded, named) = (fold(&words.text), fold(named));
        // A word or two are in many sentences.
        let is_same = named.contains(&folded) || folded.contains(&named) && named.len() * 2 >= folded.len();
        let speaks = |number: &usize| {
            let place = number - 1;
            place > words.place && self.user.iter().any(|own| own.place == place)
        };
        is_same && self.known(messages).iter().any(speaks)
    }
}

impl UserText {
    /// Returns the sentences around a piece of the folded form, as they were written.
    fn sentence(&self, from: usize, to: usize) -> &str {
        let piece = self.piece(from, to);
        let starts = sentence_starts(&self.text);
        let start = starts.iter().rev().copied().find(|start| *start <= piece.start).unwrap_or(0);
        let end = starts.iter().copied().find(|start| *start >= piece.end).unwrap_or(self.text.len());
        self.text[start..end].trim()
    }

    /// Maps a piece of the folded form back to the text.
    fn piece(&self, from: usize, to: usize) -> Range<usize> {
        let mut at = 0;
        let mut piece = None::<Range<usize>>;
        for (offset, c) in self.text.char_indices() {
            let length = fold_char(c).map(char::len_utf8).sum::<usize>();
            if length > 0 && at + length > from && at < to {
                let start = piece.map_or(offset, |piece| piece.start);
                piece = Some(start..offset + c.len_utf8());
            }
            at += length;
        }
        piece.unwrap_or(0..0)
    }
}

fn sentence_starts(text: &str) -> Vec<usize> {
    let ends = text.char_indices().filter(|(at, c)| ends_sentence(*c, &text[at + c.len_utf8()..]));
    std::iter::once(0).chain(ends.map(|(at, c)| at + c.len_utf8())).collect()
}

fn ends_sentence(c: char, rest: &str) -> bool {
    match c {
        '。' | '！' | '？' | '।' => true,
        // After an abbreviation a small letter follows; taking too much is harmless, too little is not.
        '.' => is_apart(rest) && !rest.trim_start().starts_with(char::is_lowercase),
        '!' | '?' => is_apart(rest),
        '\n' => rest.trim_start_matches([' ', '\t']).starts_with(|c: char| "\n-*•#".contains(c) || c.is_ascii_digit()),
        _ => false,
    }
}

fn is_apart(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(char::is_whitespace)
}

/// Quotations with less in them than this are taken for names and labels.
const NAME_WEIGHT_MAX: usize = 12;

/// Weighs a quotation by its letters; those of scripts with a word to a character or two count threefold.
fn weight(text: &str) -> usize {
    let dense = |c: char| matches!(u32::from(c), 0x0E00..=0x0E7F | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xAC00..=0xD7AF | 0x20000..=0x3FFFF);
    text.chars().filter(|c| c.is_alphanumeric()).map(|c| if dense(c) { 3 } else { 1 }).sum()
}

/// Folds a text for comparison: no white space, lower case, plain quotation marks.
fn fold(text: &str) -> String {
    text.chars().flat_map(fold_char).collect()
}

fn fold_char(c: char) -> impl Iterator<Item = char> {
    let c = match c {
        '“' | '”' | '„' | '«' | '»' => '"',
        '‘' | '’' => '\'',
        c => c,
    };
    let drops = c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}');
    (!drops).then(|| c.to_lowercase()).into_iter().flatten()
}

/// Returns the closing marks of an opening one. Single quotation marks are apostrophes more often than not and are left alone.
fn closing(open: char) -> Option<&'static [char]> {
    match open {
        '"' => Some(&['"']),
        '“' => Some(&['”']),
        '„' => Some(&['“', '”']),
        '«' => Some(&['»']),
        '»' => Some(&['«']),
        '「' => Some(&['」']),
        '『' => Some(&['』']),
        '`' => Some(&['`']),
        _ => None,
    }
}

/// Returns the quotations in a text, and the text without them. Backticks hold code, which is neither.
fn quotations(text: &str) -> (Vec<&str>, String) {
    let mut found = Vec::new();
    let mut around = String::new();
    let mut rest = text;
    while let Some(open) = rest.chars().next() {
        let after = &rest[open.len_utf8()..];
        match closing(open).and_then(|marks| after.find(marks)) {
            Some(end) => {
                if open != '`' {
                    found.push(&after[..end]);
                }
                around.push(' ');
                let close = after[end..].chars().next().map_or(0, char::len_utf8);
                rest = &after[end + close..];
            }
            None => {
                around.push(open);
                rest = after;
            }
        }
    }
    (found, around)
}

/// Tells whether a text speaks of the user, in one of the languages of the table.
fn mentions_user(text: &str) -> bool {
    let text = text.to_lowercase();
    text.split(|c: char| !c.is_alphanumeric()).any(|word| USER.words.contains(word)) || USER.stems.occurs_in(&text)
}

/// Words for the user: `data/user.toml`.
static USER: LazyLock<UserWords> = LazyLock::new(|| crate::embedded_table!("user.toml"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserWords {
    words: LowerList,
    stems: LowerList,
}

#[cfg(test)]
mod tests {
    use super::Evidence;
    use crate::summary::testing::thread;

    fn evidence() -> Evidence {
        let thread = thread(
            "user: Never touch\\n  the production DB. “Ever.”\nassistant: Sure thing, understood.\ncall sh: {}\nresult sh: permission denied for relation accounts\nuser: 绝对不要删除备份文件\nuser: İstanbul'da! KAL\nuser: 1. first\\n2. second\\n3. third\nuser: Hi. Don't, i.e. never, drop the table! Ok?",
        );
        Evidence::of(&thread, &thread.span(0..thread.len()).unwrap(), None)
    }

    #[test]
    fn words_of_the_user_are_given_back_as_the_sentence_they_were_written_in() {
        let cases = [
            ("never touch the production db", Some(("Never touch\n  the production DB.", 0))),
            ("touch the production db", Some(("Never touch\n  the production DB.", 0))),
            ("the production DB. \"Ever.\"", Some(("Never touch\n  the production DB. “Ever.”", 0))),
            ("删除 备份", Some(("绝对不要删除备份文件", 4))),
            ("istanbul", None),
            ("kal", Some(("KAL", 5))),
            ("second", Some(("2. second", 6))),
            ("drop the table", Some(("Don't, i.e. never, drop the table!", 7))),
            ("permission denied", None),
            ("Sure thing", None),
            ("", None),
            (" … ", None),
        ];
        for (words, expected) in cases {
            let found = evidence().user_sentence(words);
            assert_eq!(found.as_ref().map(|quote| (quote.text.as_str(), quote.place)), expected, "{words}");
        }
    }

    #[test]
    fn an_invented_quotation_is_found_in_any_marks_and_a_true_one_passes() {
        let cases = [
            ("The user said “never touch the production DB”.", None),
            ("The user said \"yes\".", Some("yes")),
            (
                "The user agreed: \"permission denied for relation accounts\"",
                Some("permission denied for relation accounts"),
            ),
            ("Failed with \"permission denied for relation accounts\"", None),
            ("用户说「可以删除所有数据」", Some("可以删除所有数据")),
            ("用户说「绝对不要删除备份文件」", None),
            ("L’utilisateur a dit « supprime tout »", Some(" supprime tout ")),
            ("Man sagte „bitte alles sofort löschen“", Some("bitte alles sofort löschen")),
            ("Renamed \"foo\" to \"bar\"", None),
            ("The user table: `\"never said by anyone at all\"`", None),
            ("unclosed \"quote of nothing that was ever said", None),
        ];
        for (text, expected) in cases {
            assert_eq!(evidence().find_invented(text), expected, "{text}");
        }
    }
}
