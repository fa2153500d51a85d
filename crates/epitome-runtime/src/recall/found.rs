//! A passage that was found: whose it is, which tool and file it is about, and how it is shown.

use std::collections::{BTreeSet, HashSet};

use epitome::budget::{TokenCounter, Tokens};
use epitome::files::{FileChange, FileEdit, FileView, home_of, is_path_of};
use epitome::policy::{ToolClass, Tools};
use epitome::thread::{Part, Role, ToolCall};

use super::entries::Entries;
use super::fusion::{RankedPassage, Ranks};
use super::hit::{LeftOut, LeftOutReason, RecallHit};
use super::passage::{passages, shown};
use super::query::{RecallQuery, Who};
use super::terms::mentions;
use crate::log::{LogEntry, part_words};

/// Shorter lines, such as brackets, are in everything.
const LINE_BYTES_MIN: usize = 4;
/// A passage of which this share of lines is shown already says nothing new.
const REPEATED_SHARE: f64 = 0.7;
/// The most characters of a first line that stands for a passage.
const FIRST_LINE_CHARS_MAX: usize = 90;

/// A passage that a search found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) place: u64,
    pub(super) passage: u32,
    pub(super) score: f64,
    /// Its ranks among those that words found, and among those that are near.
    pub(super) ranks: Ranks,
    /// The wanted terms that it holds.
    pub(super) held: BTreeSet<String>,
    /// What they weigh beside its meaning, from 0 to 1.
    pub(super) words_weight: f64,
    who: Who,
    tool: Option<String>,
    /// The file whose lines it shows or changes, or that the call names.
    file: Option<String>,
    /// How its lines are lines of that file.
    pub(super) lines_are: FileLines,
    pub(super) failed: bool,
    /// All words of its message.
    words: String,
    /// Where in them the part begins, the passage, and where it ends.
    part_start: usize,
    start: usize,
    end: usize,
    first_line: u32,
    /// Where in the words the first wanted term is.
    mention: usize,
    /// The tokens of the whole message, if the passage is all of it and they were counted.
    counted: Option<Tokens>,
}

/// How the lines of a passage are lines of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileLines {
    /// They are not.
    No,
    /// They are, perhaps with numbers before them.
    Yes,
    /// They are those of a diff.
    Diff,
}

impl Found {
    /// Reads what is at a candidate; `None` where a filter leaves it out.
    pub(super) fn new(
        candidate: &RankedPassage,
        entries: &Entries<'_>,
        wanted: &BTreeSet<String>,
        query: &RecallQuery<'_>,
    ) -> Option<Found> {
        let entry = entries.get(candidate.place)?;
        let (words, starts) = worded(&entry.message.parts);
        let all = passages(&words);
        let named = usize::try_from(candidate.passage).ok().and_then(|number| all.get(number));
        // An index that was made of other words still finds its message.
        let is_near = candidate.ranks.by_meaning.is_some();
        let holds = |text: &str| wanted.is_empty() || is_near || mentions(text, wanted).next().is_some();
        let passage = named.filter(|passage| holds(passage.text)).or_else(|| all.iter().find(|one| holds(one.text)));
        let passage = *passage.or(named)?;
        let start = passage.text.as_ptr() as usize - words.as_ptr() as usize;
        let mentions: Vec<(usize, String)> = mentions(passage.text, wanted).collect();
        let mention = start + mentions.first().map_or(0, |(at, _)| *at);
        let at = starts.iter().rposition(|(_, from)| *from <= mention)?;
        let (part, part_start) = starts[at];
        let origin = PartOrigin::of(entry, &entry.message.parts[part], entries, query.tools);
        if !origin.fits(entry, query) {
            return None;
        }
        let is_all = all.len() == 1 && entry.counter.is_none();
        Some(Found {
            place: candidate.place,
            passage: candidate.passage,
            score: candidate.score,
            ranks: candidate.ranks,
            held: mentions.into_iter().map(|(_, term)| term).collect(),
            words_weight: 1.0,
            who: origin.who,
            tool: origin.tool,
            file: origin.file,
            lines_are: origin.lines_are,
            failed: origin.failed,
            part_start,
            start,
            end: start + passage.text.trim_end_matches('\n').len(),
            first_line: passage.first_line,
            mention,
            counted: is_all.then(|| entry.part_tokens.iter().copied().sum()),
            words,
        })
    }

    /// The number of wanted terms that it holds.
    pub(super) fn coverage(&self) -> usize {
        self.held.len()
    }

    /// The passage as it stands in its message.
    pub(super) fn passage_text(&self) -> &str {
        &self.words[self.start..self.end]
    }

    pub(super) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns it as it is shown, and about what that costs.
    pub(super) fn hit(
        &self,
        wanted: &BTreeSet<String>,
        most: Tokens,
        counter: &dyn TokenCounter,
    ) -> (RecallHit, Tokens) {
        let whole = self.passage_text();
        let (start, text) = shown(whole, wanted, most, counter);
        let first_line = self.first_line + count_lines(&whole[..start]);
        let lines = u32::try_from(text.lines().count()).unwrap_or(1).max(1);
        let hit = RecallHit {
            reference: format!("m{}", self.place + 1),
            place: self.place,
            role: self.who.name().to_owned(),
            tool: self.tool.clone(),
            file: self.file.clone(),
            failed: self.failed,
            home: self.home(self.start + start),
            lines: first_line..=first_line + lines - 1,
            score: self.score,
            text: text.to_owned(),
            outdated: Vec::new(),
        };
        let words = self.counted.filter(|_| text.len() == whole.len()).unwrap_or_else(|| counter.count(text));
        let heading = Tokens::new(hit.heading().len() as u64 / 3 + 2);
        (hit, words + heading)
    }

    /// Returns the definition or heading that the found line belongs to, unless it is shown anyway.
    fn home(&self, shown_from: usize) -> Option<String> {
        let part = &self.words[self.part_start..self.end];
        let from = self.mention.max(shown_from) - self.part_start;
        let before_shown = count_lines(&part[..shown_from.saturating_sub(self.part_start).min(part.len())]) as usize;
        let signless;
        let (text, line) = if self.lines_are == FileLines::Diff {
            let number = count_lines(&part[..from]) as usize;
            signless = part.lines().map(without_sign).collect::<Vec<_>>().join("\n");
            (&*signless, signless.lines().nth(number)?)
        } else {
            let line = part[from..].lines().next()?;
            (part, line)
        };
        let home = home_of(text, line)?;
        let at = count_lines(&text[..home.as_ptr() as usize - text.as_ptr() as usize]) as usize;
        (at < before_shown).then(|| home.to_owned())
    }

    /// Tells whether a passage says what a shown one says.
    pub(super) fn repeats(&self, shown: &RecallHit) -> bool {
        let there: HashSet<&str> = telling_lines(&shown.text).collect();
        let here: Vec<&str> = telling_lines(self.passage_text()).collect();
        let repeated = here.iter().filter(|line| there.contains(*line)).count();
        !here.is_empty() && repeated as f64 >= here.len() as f64 * REPEATED_SHARE
    }

    /// Returns it as it is told when it is not shown.
    pub(super) fn left_out(&self, reason: LeftOutReason) -> LeftOut {
        let line = self.words[..self.mention].rfind('\n').map_or(0, |end| end + 1).max(self.start);
        let line = self.words[line..].lines().next().unwrap_or_default().trim();
        let first_line = match line.char_indices().nth(FIRST_LINE_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line.to_owned(),
        };
        LeftOut {
            reference: format!("m{}", self.place + 1),
            role: self.who.name().to_owned(),
            tool: self.tool.clone(),
            file: self.file.clone(),
            line: first_line,
            reason,
        }
    }
}

fn count_lines(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX)
}

/// A line of a diff without its sign.
pub(super) fn without_sign(line: &str) -> &str {
    line.strip_prefix(['+', '-', ' ']).unwrap_or(line)
}

/// The lines of a text that say something, without the numbers and signs before them.
fn telling_lines(text: &str) -> impl Iterator<Item = &str> {
    let bare = |line| epitome::files::without_gutter(line).trim_start_matches(['+', '-']).trim();
    text.lines().map(bare).filter(|line| line.len() >= LINE_BYTES_MIN)
}

/// The words of parts, joined as a message's are, and where each part begins.
fn worded(parts: &[Part]) -> (String, Vec<(usize, usize)>) {
    let (mut words, mut starts) = (String::new(), Vec::new());
    for (at, part) in parts.iter().enumerate() {
        let Some(said) = part_words(part) else { continue };
        if !starts.is_empty() {
            words.push('\n');
        }
        starts.push((at, words.len()));
        words.push_str(&said);
    }
    (words, starts)
}

/// Who said a part, with which tool, about which file.
struct PartOrigin {
    who: Who,
    tool: Option<String>,
    file: Option<String>,
    lines_are: FileLines,
    failed: bool,
}

impl PartOrigin {
    fn of(entry: &LogEntry, part: &Part, entries: &Entries<'_>, tools: &Tools) -> PartOrigin {
        let plain = |who| PartOrigin { who, tool: None, file: None, lines_are: FileLines::No, failed: false };
        match part {
            Part::ToolCall(call) => {
                let (file, lines_are) = file_of_call(tools, call);
                PartOrigin { tool: Some(call.name.to_string()), file, lines_are, ..plain(Who::Assistant) }
            }
            Part::ToolResult(result) => {
                let call = entries.call_of(entry.place, &result.call_id);
                let name = call.map(|call| &*call.name).unwrap_or(&result.tool);
                let view = call.and_then(|call| FileView::of(tools, call, result));
                let lines_are = if view.is_some() { FileLines::Yes } else { FileLines::No };
                let file = view.map(|view| view.path).or_else(|| call.and_then(|call| file_of_call(tools, call).0));
                PartOrigin {
                    tool: (!name.is_empty()).then(|| name.to_owned()),
                    file,
                    lines_are,
                    failed: tools.has_failed(call, result),
                    ..plain(Who::Tool)
                }
            }
            _ => plain(match entry.message.role {
                Role::User if entry.message.opens_turn() => Who::User,
                Role::Assistant => Who::Assistant,
                Role::Tool => Who::Tool,
                _ => Who::Other,
            }),
        }
    }

    fn fits(&self, entry: &LogEntry, query: &RecallQuery<'_>) -> bool {
        let filter = &query.filter;
        let says =
            |who| self.who == who || who == Who::User && entry.message.holds_persons_words() && self.who == Who::Tool;
        let is_tool = |name: &String| self.tool.as_ref().is_some_and(|tool| tool.eq_ignore_ascii_case(name));
        let is_file = |name: &String| self.file.as_ref().is_some_and(|file| is_path_of(file, name));
        filter.who.is_none_or(says)
            && filter.tool.as_ref().is_none_or(is_tool)
            && filter.file.as_ref().is_none_or(is_file)
    }
}

/// Returns the file that a call is about, and how the call's own lines are lines of it.
fn file_of_call(tools: &Tools, call: &ToolCall) -> (Option<String>, FileLines) {
    if let Some(FileEdit { path, change }) = FileEdit::of(tools, call).into_iter().next() {
        let is_patch = call.arguments.contains("*** Begin Patch");
        let is_whole = matches!(change, FileChange::Written(_)) && !is_patch;
        return (Some(path), if is_whole { FileLines::Yes } else { FileLines::Diff });
    }
    let meaning = tools.meaning(call);
    let path = meaning.paths.into_iter().next().filter(|_| meaning.class != Some(ToolClass::Search));
    (path, FileLines::No)
}
