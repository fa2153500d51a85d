//! Evidence: who said what in the messages a summary stands for, so that a quotation can be checked against it.
//!
//! It compares without regard to white space, case and the shape of quotation marks. It does not judge meaning: a
//! paraphrase is neither confirmed nor refuted here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use serde::Deserialize;

use super::request::Earlier;
use super::transcript::is_user_speech;
use super::{Quote, StructuredSummary};
use crate::table::LowerList;
use crate::thread::{Message, Part, Span, Speaker, Thread, pieces};

/// Who said what.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    user: Vec<UserText>,
    others: String,
    turns: BTreeMap<usize, u32>,
}

/// Something a person said.
#[derive(Clone, Debug)]
struct UserText {
    text: String,
    folded: String,
    place: usize,
}

impl Evidence {
    /// What was said in some spans, and what an earlier summary says was said before.
    pub fn of(thread: &Thread, spans: &[&Span], earlier: Option<Earlier<'_>>) -> Self {
        let mut evidence = Evidence::default();
        for at in spans.iter().flat_map(|span| span.range()) {
            let message = thread.message(at);
            let place = message.log_place();
            evidence.turns.insert(place, message.turn());
            match thread.hidden(at) {
                Some(replacement) => evidence.other(replacement),
                None => evidence.message(message, place),
            }
        }
        match earlier {
            Some(Earlier::Summary(summary)) => evidence.summary(summary),
            Some(Earlier::Text(text)) => evidence.user(text, 0),
            None => {}
        }
        evidence
    }

    fn message(&mut self, message: &Message, place: usize) {
        for part in message.parts() {
            match part {
                // What an earlier compaction left behind stands in for an earlier summary.
                Part::Text(text) if message.is_summary() => self.user(text, place),
                Part::Text(text) if is_user_speech(message) => self.speech(text, place),
                Part::Text(text) => self.other(text),
                Part::ToolCall(call) => self.other(&call.arguments),
                Part::ToolResult(result) => self.other(&result.text),
                Part::Media(_) | Part::Reasoning(_) | Part::Opaque(_) => {}
            }
        }
    }

    /// A text of a user's message: what a harness put into it was not said by a person.
    fn speech(&mut self, text: &str, place: usize) {
        for (speaker, piece) in pieces(text) {
            match speaker {
                Speaker::User => self.user(piece, place),
                Speaker::Harness(_) => self.other(piece),
            }
        }
    }

    fn summary(&mut self, summary: &StructuredSummary) {
        let turn = summary.turn_context.as_ref().map(|turn| &turn.request);
        for quote in summary.constraints.iter().chain(turn) {
            self.user(&quote.text, quote.place);
        }
        summary.requests.iter().for_each(|request| self.user(&request.text, request.place));
        summary.pins.iter().for_each(|pin| self.user(pin, 0));
        self.other(&serde_json::to_string(summary).unwrap_or_default());
        summary.facts.iter().chain(&summary.current_task).for_each(|fact| self.other(&fact.text));
        summary.goal.iter().for_each(|goal| self.other(goal));
    }

    fn user(&mut self, text: &str, place: usize) {
        self.user.push(UserText { text: text.to_owned(), folded: folded(text), place });
    }

    fn other(&mut self, text: &str) {
        self.others.push_str(&folded(text));
        self.others.push('\0');
    }

    /// The sentence in which a person said some words, as it was written; `None` if no person did. The whole sentence,
    /// because half of one can mean the opposite: “delete it” is a piece of “never delete it”.
    pub fn by_user(&self, words: &str) -> Option<Quote> {
        let wanted = folded(words);
        let wanted = wanted.trim_end_matches(['.', ',', '…']);
        if wanted.is_empty() {
            return None;
        }
        let (said, at) = self.user.iter().rev().find_map(|said| said.folded.find(wanted).map(|at| (said, at)))?;
        Some(Quote { text: said.sentence(at, at + wanted.len()).to_owned(), place: said.place })
    }

    /// Whether anybody, or any tool, said some words.
    pub fn by_anyone(&self, words: &str) -> bool {
        let wanted = folded(words);
        let wanted = wanted.trim_end_matches(['.', ',', '…']);
        self.others.contains(wanted) || self.user.iter().any(|said| said.folded.contains(wanted))
    }

    /// A quotation in a text that nobody said; or, in a text that speaks of the user, that no user said.
    pub fn invented<'a>(&self, text: &'a str) -> Option<&'a str> {
        let (quotations, around) = quotations(text);
        let of_user = names_user(&around);
        quotations.into_iter().find(|words| match of_user {
            true => self.by_user(words).is_none() && !words.trim().is_empty(),
            false => weight(words) >= NAME_WEIGHT_MAX && !self.by_anyone(words),
        })
    }

    /// The turn of a message.
    pub(super) fn turn(&self, place: usize) -> u32 {
        self.turns.get(&place).copied().unwrap_or(0)
    }

    /// The place of a message that an answer names; the newest where it names none that there is.
    pub(super) fn place(&self, named: Option<usize>) -> usize {
        let newest = self.turns.keys().next_back().copied().unwrap_or(0);
        named.filter(|place| *place <= newest).unwrap_or(newest)
    }
}

impl UserText {
    /// The sentences around a piece of the folded form, as they were written.
    fn sentence(&self, from: usize, to: usize) -> &str {
        let piece = self.piece(from, to);
        let starts = sentence_starts(&self.text);
        let start = starts.iter().rev().copied().find(|start| *start <= piece.start).unwrap_or(0);
        let end = starts.iter().copied().find(|start| *start >= piece.end).unwrap_or(self.text.len());
        self.text[start..end].trim()
    }

    /// Where the text has what a piece of its folded form stands for.
    fn piece(&self, from: usize, to: usize) -> Range<usize> {
        let mut at = 0;
        let mut piece = None::<Range<usize>>;
        for (offset, c) in self.text.char_indices() {
            let length = folded_char(c).map(char::len_utf8).sum::<usize>();
            if length > 0 && at + length > from && at < to {
                let start = piece.map_or(offset, |piece| piece.start);
                piece = Some(start..offset + c.len_utf8());
            }
            at += length;
        }
        piece.unwrap_or(0..0)
    }
}

/// Where sentences, paragraphs and list entries begin.
fn sentence_starts(text: &str) -> Vec<usize> {
    let ends = text.char_indices().filter(|(at, c)| ends_sentence(*c, &text[at + c.len_utf8()..]));
    std::iter::once(0).chain(ends.map(|(at, c)| at + c.len_utf8())).collect()
}

fn ends_sentence(c: char, rest: &str) -> bool {
    match c {
        '。' | '！' | '？' | '।' => true,
        // A small letter goes on after an abbreviation; taking too much is harmless, too little is not.
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

/// How much a quotation says: letters, those of scripts with a word to a character or two counting threefold.
fn weight(text: &str) -> usize {
    let dense = |c: char| matches!(u32::from(c), 0x0E00..=0x0E7F | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xAC00..=0xD7AF | 0x20000..=0x3FFFF);
    text.chars().filter(|c| c.is_alphanumeric()).map(|c| if dense(c) { 3 } else { 1 }).sum()
}

/// A text as it is compared.
fn folded(text: &str) -> String {
    text.chars().flat_map(folded_char).collect()
}

fn folded_char(c: char) -> impl Iterator<Item = char> {
    let c = match c {
        '“' | '”' | '„' | '«' | '»' => '"',
        '‘' | '’' => '\'',
        c => c,
    };
    let drops = c.is_whitespace() || matches!(c, '\u{200b}' | '\u{feff}');
    (!drops).then(|| c.to_lowercase()).into_iter().flatten()
}

/// The closing mark of an opening one. Single quotation marks are apostrophes more often than not and are left alone.
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

/// The quotations in a text, and the text without them. What stands in backticks is code and is neither.
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

/// Whether a text speaks of the user, in a language many conversations are held in.
fn names_user(text: &str) -> bool {
    let text = text.to_lowercase();
    text.split(|c: char| !c.is_alphanumeric()).any(|word| USER.words.contains(word)) || USER.stems.stands_in(&text)
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
        Evidence::of(&thread, &[&thread.span(0..thread.len()).unwrap()], None)
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
            let found = evidence().by_user(words);
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
            assert_eq!(evidence().invented(text), expected, "{text}");
        }
    }
}
