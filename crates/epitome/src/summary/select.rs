//! Chooses the lines of the past that the agent is likely to need again.
//!
//! Every feature of a line (word, coined name, joined name, word triple) has a worth: higher the rarer it is, the more often
//! the agent and the user wrote it, and the more recently. A line is worth what it *newly* covers; once a line is taken, its
//! features are worth less to the next. Lines are taken greedily by worth per token, until the limit is reached.
//!
//! A worked example, with three lines of 10 tokens and `read_frame` (60) and `load_frame` (40) as the only features of worth:
//!
//! ```text
//!                                       score at first    after taking A
//! A  m4: read_frame leaks, load_frame    100 / 10 = 10     taken
//!        does not
//! B  m5: read_frame is fixed now          60 / 10 =  6     60 × 0.35 / 10 = 2.1
//! C  m6: load_frame is only slow          40 / 10 =  4     40 × 0.35 / 10 = 1.4, × 1.2 where it is next to A = 1.7
//! ```
//!
//! Scores only fall as features are covered, with two exceptions: opening a source makes its other lines cheaper, since the
//! heading is paid for, and a line next to a chosen one is favored. So the heap is lazy: a popped line is scored again, and
//! goes back if it fell; lines that rose are pushed again. A stale duplicate scores lower when it is popped, or was taken.
//!
//! It reads nothing but its arguments, never rewrites a line, and gives the same answer for the same input. All weights below
//! are tuned by `just eval`: they are the ones under which summaries of recorded sessions held most of what the agents wrote
//! afterwards.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::Range;

use super::homes::find_homes;
use super::lexicon::{Feature, FeatureKind, Lexicon, fingerprint};
use super::lines::{LinePiece, each_line, estimate_tokens, gutter};
use super::passages::{Passage, Passages, RESULT, SourceKind, TextOrigin};
use crate::policy::ArgumentKind;

// Weights of a mention by its author. An agent repeats its own words and deeds many times more often than what tools
// printed; what an edit replaced is gone.
const USER_WEIGHT: f32 = 3.0;
const AGENT_WEIGHT: f32 = 6.0;
const CALL_WEIGHT: f32 = 5.0;
const BRIEFING_WEIGHT: f32 = 1.0;
const REPLACED_WEIGHT: f32 = 0.6;
const TOOL_WEIGHT: f32 = 0.15;
/// A line that an edit only gives as its surroundings.
const SURROUNDING_WEIGHT: f32 = 0.8;
const ECHO_WEIGHT: f32 = 0.02;

/// The age, as a share of all messages, at which a mention weighs half.
const RECENCY_HALF_LIFE: f32 = 0.04;

// Worth of a feature by its kind, times its rarity.
const WORD_WORTH: f32 = 0.1;
const NAME_WORTH: f32 = 10.0;
const JOINED_WORTH: f32 = 4.0;
const TRIPLE_WORTH: f32 = 8.0;

/// The share of a feature's worth that is left once a line has it: another line may explain it better. A triple has none.
const REPEAT_WORTH: f32 = 0.35;

/// The cost of a line besides its tokens: many short lines say less than a few whole ones.
const LINE_OVERHEAD_TOKENS: f32 = 8.0;

/// The factor for a line next to a chosen one: together they are an excerpt.
const ADJACENT_BONUS: f32 = 1.2;

// The user's instructions: what each of their words adds to the gain of a line that has it, for how many words at most, and
// how long a word must be to count.
const FOCUS_BONUS: f32 = 2.0;
const FOCUS_WORDS_MAX: usize = 3;
const FOCUS_BYTES_MIN: usize = 4;

/// The share of the room that is the agent's own conclusions' before other lines are chosen: they tell the story.
const CONCLUSION_SHARE: f32 = 0.2;

/// What a conclusion weighs at least for its age.
const CONCLUSION_RECENCY_MIN: f32 = 0.05;

/// The same two where there is room for so many tokens: then the whole story can be told.
const ROOMY_TOKENS: usize = 5000;
const ROOMY_CONCLUSION_SHARE: f32 = 0.35;
const ROOMY_CONCLUSION_RECENCY_MIN: f32 = 0.15;

/// Likewise: after so many lines of one conclusion, another of its lines counts half, so that a long report of a finished step leaves
/// room for the others.
const ROOMY_LINES_HALF: f32 = 12.0;

/// The factor for the heading of a call that only looked something up.
const LOOKUP_FAVOR: f32 = 0.8;

/// The factor for a line between two chosen ones: an excerpt with one line missing is hard to read.
const GAP_BONUS: f32 = 2.0;

/// The factor for a line that only names what a file uses: the lines that use it say more.
const IMPORT_FAVOR: f32 = 0.25;

/// The factor for data that a tool printed: `"avatar_url": "https://…"`.
const DATA_FAVOR: f32 = 0.3;

/// With fewer tokens left, no further line is tried.
const TOKENS_LEFT_MIN: usize = 24;

/// Candidates per token of the limit; the others cannot win.
const CANDIDATES_PER_TOKEN: usize = 2;

/// A chosen line; empty text means that only the heading was chosen.
#[derive(Clone, Debug)]
pub(super) struct Pick<'a> {
    pub(super) text: &'a str,
    pub(super) source: usize,
    /// The index of its passage; a heading alone has none.
    pub(super) passage: Option<usize>,
    /// Its index among all lines, in the order of the thread.
    pub(super) line: usize,
    /// It continues the line of the piece before it.
    pub(super) continues: bool,
    /// The definition or heading of its file that it belongs to.
    pub(super) home: Option<&'a str>,
}

/// Chooses lines of at most `limit` tokens with their headings, best first.
///
/// Passages marked in `is_kept` are in the prompt already and are not quoted; `covered` is all text of the prompt.
pub(super) fn select<'a>(
    passages: &Passages<'a>,
    is_kept: &[bool],
    covered: &[&str],
    focus: &str,
    limit: usize,
    count: &dyn Fn(&str) -> usize,
) -> Vec<Pick<'a>> {
    let is_roomy = limit >= ROOMY_TOKENS;
    let outdated = OutdatedLines::of(passages);
    let mut reading = Reading::of(passages, is_kept, is_roomy, &outdated);
    let mut worth = reading.worth();
    for text in covered {
        each_line(text, false, &mut |piece| {
            reading.lexicon.scan(piece.text, |feature, _| worth.cover_known(feature));
        });
    }
    reading.favor_focus(focus);
    let Reading { pool, lines, labels, .. } = reading;
    let mut picks = GreedySelection {
        passages,
        pool,
        is_taken: vec![false; lines.len()],
        lines,
        labels,
        worth,
        is_open: vec![false; passages.sources.len()],
        taken: vec![0; passages.sources.len()],
        is_roomy,
    }
    .run(limit, count);
    find_homes(passages, &outdated, &mut picks);
    picks
}

/// A candidate: a line, or a heading alone when its text is empty.
struct Line<'a> {
    text: &'a str,
    source: usize,
    passage: Option<usize>,
    tokens: f32,
    continues: bool,
    is_conclusion: bool,
    /// The factor on its worth: its author, its age, and whether the user asked for its subject.
    favor: f32,
    features: Range<u32>,
}

struct Label {
    tokens: f32,
    favor: f32,
    features: Range<u32>,
}

/// The mentions of a feature.
#[derive(Clone, Copy)]
struct Mentions {
    kind: FeatureKind,
    /// The sum of the weights of the lines that have it.
    weight: f32,
    lines: u32,
    /// The number of the last line that had it.
    last: u32,
}

/// The features of all lines, counted in one pass.
struct Reading<'a> {
    lexicon: Lexicon,
    /// Features of all lines and labels, one after the other.
    pool: Vec<Feature>,
    mentions: Vec<Mentions>,
    lines_read: u32,
    /// Features of lines read before: files are read again and again.
    known: HashMap<u64, Range<u32>>,
    lines: Vec<Line<'a>>,
    labels: Vec<Label>,
}

impl<'a> Reading<'a> {
    fn of(passages: &Passages<'a>, is_kept: &[bool], is_roomy: bool, outdated: &OutdatedLines) -> Reading<'a> {
        let bytes: usize = passages.passages.iter().map(|passage| passage.text.len()).sum();
        let mut reading = Reading {
            lexicon: Lexicon::for_text(bytes),
            pool: Vec::with_capacity(bytes / 8),
            mentions: Vec::with_capacity(bytes / 16),
            lines_read: 0,
            known: HashMap::new(),
            lines: Vec::with_capacity(bytes / 32),
            labels: Vec::with_capacity(passages.sources.len()),
        };
        let recency = Recency::of(passages);
        for (at, (passage, &is_kept)) in passages.passages.iter().zip(is_kept).enumerate() {
            // What the agent found out long ago still tells the story.
            let least = match passage.is_conclusion {
                false => 0.0,
                true if is_roomy => ROOMY_CONCLUSION_RECENCY_MIN,
                true => CONCLUSION_RECENCY_MIN,
            };
            let weight = weight(passage) * recency.at(passage.message).max(least);
            // The first line of a command is its heading.
            let is_command = passage.argument == Some(ArgumentKind::Command)
                && passages.sources[passage.source].kind == SourceKind::Command;
            let is_file = passages.sources[passage.source].kind == SourceKind::File;
            // A tool's echo of an edit says no more than the edit.
            let says_something = !passage.is_heading && passage.origin != TextOrigin::Echo;
            let is_quotable = !is_kept && says_something && !outdated.is_whole(passage);
            reading.passage(passage, is_quotable.then_some(at), weight, is_command, is_file, outdated);
        }
        // A call that stays in the prompt needs no heading here, even where its result was shortened.
        let mut leaves: Vec<Option<bool>> = vec![None; passages.sources.len()];
        for (passage, is_kept) in passages.passages.iter().zip(is_kept) {
            leaves[passage.source].get_or_insert(!is_kept);
        }
        for (at, source) in passages.sources.iter().enumerate() {
            let features = reading.scan(&source.label, 0.0);
            let favor =
                (CALL_WEIGHT * recency.at(source.last)).sqrt() * if source.is_lookup { LOOKUP_FAVOR } else { 1.0 };
            reading.labels.push(Label { tokens: estimate_tokens(&source.label) + 1.0, favor, features });
            let is_call = matches!(source.kind, SourceKind::File | SourceKind::Command | SourceKind::Call);
            // A look-up whose result a few words do not tell is worth nothing by its name alone.
            let is_bare_lookup = source.is_lookup && !source.action.is_empty() && !source.label.contains(RESULT);
            let is_gone = source.kind == SourceKind::File || leaves[at] == Some(true);
            if is_call && is_gone && !source.is_told && !is_bare_lookup {
                reading.lines.push(Line {
                    text: "",
                    source: at,
                    passage: None,
                    tokens: LINE_OVERHEAD_TOKENS,
                    continues: false,
                    is_conclusion: false,
                    favor: 0.0,
                    features: 0..0,
                });
            }
        }
        reading
    }

    /// Reads the lines of a passage; they can be chosen where the index of the passage is given.
    fn passage(
        &mut self,
        passage: &Passage<'a>,
        quotable: Option<usize>,
        weight: f32,
        mut is_label: bool,
        is_file: bool,
        outdated: &OutdatedLines,
    ) {
        let is_tool = passage.origin.is_printed();
        let is_conclusion = passage.is_conclusion;
        each_line(passage.text, is_tool, &mut |LinePiece { text, continues }| {
            let is_surrounding =
                passage.argument == Some(ArgumentKind::Written) && outdated.is_surrounding(passage, text);
            let weight = if is_surrounding { weight * SURROUNDING_WEIGHT / CALL_WEIGHT } else { weight };
            let features = self.scan(text, weight);
            let says_nothing = is_label || features.is_empty() || is_tool && is_link_list(text);
            if quotable.is_some() && !says_nothing && !outdated.has(passage, text) {
                // One more for the line end.
                let tokens = estimate_tokens(text) + 1.0 + LINE_OVERHEAD_TOKENS;
                let favor = weight.sqrt()
                    * match is_file {
                        true if is_import(text) => IMPORT_FAVOR,
                        false if is_tool && is_data(text) => DATA_FAVOR,
                        _ => 1.0,
                    };
                let (source, passage) = (passage.source, quotable);
                self.lines.push(Line { text, source, passage, tokens, continues, is_conclusion, favor, features });
            }
            is_label = false;
        });
    }

    fn scan(&mut self, text: &str, weight: f32) -> Range<u32> {
        self.lines_read += 1;
        let line = self.lines_read;
        let fingerprint = fingerprint(text);
        if let Some(features) = self.known.get(&fingerprint) {
            for &feature in &self.pool[features.start as usize..features.end as usize] {
                self.mentions[feature as usize].count(weight, line);
            }
            return features.clone();
        }
        let from = self.pool.len() as u32;
        let (pool, mentions) = (&mut self.pool, &mut self.mentions);
        self.lexicon.scan(text, |feature, kind| {
            if feature as usize == mentions.len() {
                mentions.push(Mentions { kind, weight: 0.0, lines: 0, last: 0 });
            }
            if mentions[feature as usize].count(weight, line) {
                pool.push(feature);
            }
        });
        let features = from..self.pool.len() as u32;
        self.known.insert(fingerprint, features.clone());
        features
    }

    /// Favors lines with words of the user's instructions.
    fn favor_focus(&mut self, focus: &str) {
        let mut wanted: HashSet<Feature> = HashSet::new();
        for word in
            focus.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| word.len() >= FOCUS_BYTES_MIN)
        {
            self.lexicon.scan(word, |feature, _| _ = wanted.insert(feature));
            self.lexicon.scan(&word.to_lowercase(), |feature, _| _ = wanted.insert(feature));
        }
        if wanted.is_empty() {
            return;
        }
        for line in &mut self.lines {
            let features = &self.pool[line.features.start as usize..line.features.end as usize];
            let hits = features.iter().filter(|feature| wanted.contains(feature)).count();
            line.favor *= 1.0 + FOCUS_BONUS * hits.min(FOCUS_WORDS_MAX) as f32;
        }
    }

    /// Computes the worth of each feature.
    fn worth(&self) -> FeatureWorth {
        let rarity = |known: &Mentions| (1.0 + self.lines_read as f32 / known.lines as f32).ln();
        let left = self.mentions.iter().map(|known| {
            known.weight.ln_1p()
                * match known.kind {
                    FeatureKind::Word => WORD_WORTH * rarity(known),
                    FeatureKind::Name => NAME_WORTH * rarity(known),
                    FeatureKind::Joined => JOINED_WORTH * rarity(known),
                    FeatureKind::Triple => TRIPLE_WORTH,
                }
        });
        let repeat =
            self.mentions.iter().map(|known| if known.kind == FeatureKind::Triple { 0.0 } else { REPEAT_WORTH });
        FeatureWorth { left: left.collect(), repeat: repeat.collect() }
    }
}

impl Mentions {
    /// Counts a mention; `true` when it is the first in its line.
    fn count(&mut self, weight: f32, line: u32) -> bool {
        let is_first = self.last != line;
        if is_first {
            self.weight += weight;
            self.lines += 1;
            self.last = line;
        }
        is_first
    }
}

/// Tells whether a line of a file only names what the file uses: `use a::b;`, `import x from 'y'`, a Go import.
fn is_import(line: &str) -> bool {
    let names = ["import ", "use ", "from ", "#include", "require ", "require_relative ", "package ", "using "];
    // A Go import may have another name before its path.
    let named = line.split_once(' ').filter(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
    let path = named.map_or(line, |(_, path)| path);
    let is_path = path.starts_with('"') && path.ends_with('"') && !path.contains(' ') && path.contains(['/', '.']);
    is_path || names.iter().any(|name| line.starts_with(name))
}

/// Tells whether a line is a field of printed JSON, several of them, or a text in which line ends are escaped.
fn is_data(line: &str) -> bool {
    let mut fields = line.match_indices("\":").map(|(at, _)| at);
    let is_field = line.starts_with('"') && !line.ends_with('{') && fields.next().is_some();
    is_field || fields.nth(2).is_some() || line.matches("\\n").nth(2).is_some()
}

/// Tells whether a line is one address after the other, as in the answers of web services.
fn is_link_list(line: &str) -> bool {
    line.matches("://").nth(2).is_some()
}

/// The lines of files that no longer stand: quoting them beside what took their place would tell two truths.
///
/// ```text
/// m10  read cart.rs, lines 1-80      line 12: let total = 0;
/// m14  edit: total = 0 -> total = 1                            the line of m10 is outdated
/// m20  read cart.rs, lines 1-40      line 30: fn tax()         what m10 had in lines 1-40 and m20 has not is outdated
/// m30  write cart.rs, or read whole                            all lines before m30 are
/// ```
#[derive(Default)]
pub(super) struct OutdatedLines {
    /// The lines that were taken out, each with the message of the last edit or reading that shows it.
    taken_out: HashMap<(usize, u64), usize>,
    /// The lines that an edit gives on both sides, by its message and source.
    surrounding: HashSet<(usize, usize, u64)>,
    /// The message that has the newest text of a whole file, by source.
    whole: HashMap<usize, usize>,
}

impl OutdatedLines {
    fn of(passages: &Passages<'_>) -> OutdatedLines {
        let mut outdated = OutdatedLines::default();
        let mut read: HashMap<usize, Vec<NumberedLines>> = HashMap::new();
        for (at, passage) in passages.passages.iter().enumerate() {
            if passage.is_whole_file {
                outdated.whole.insert(passage.source, passage.message);
            }
            if passage.argument == Some(ArgumentKind::Replaced) {
                outdated.note_edit(passages, at);
            }
            if passage.origin == TextOrigin::Tool
                && passages.sources[passage.source].kind == SourceKind::File
                && let Some(lines) = NumberedLines::of(passage.text)
            {
                let earlier = read.entry(passage.source).or_default();
                for line in earlier.iter().flat_map(|earlier| earlier.missing_in(&lines)) {
                    outdated.taken_out.insert((passage.source, line), passage.message);
                }
                earlier.push(lines);
            }
        }
        outdated
    }

    fn note_edit(&mut self, passages: &Passages<'_>, at: usize) {
        let all = &passages.passages;
        let passage = &all[at];
        let is_same_edit = |other: &&Passage<'_>| other.message == passage.message && other.source == passage.source;
        let near = &all[at.saturating_sub(4)..(at + 5).min(all.len())];
        let mut written: HashSet<u64> = HashSet::new();
        for other in near.iter().filter(is_same_edit).filter(|other| other.argument == Some(ArgumentKind::Written)) {
            each_line(other.text, false, &mut |piece| _ = written.insert(fingerprint(piece.text)));
        }
        each_line(passage.text, false, &mut |piece| {
            let line = fingerprint(piece.text);
            if written.contains(&line) {
                self.surrounding.insert((passage.message, passage.source, line));
            } else {
                self.taken_out.insert((passage.source, line), passage.message);
            }
        });
    }

    /// Tells whether an edit changed nothing about a line that it wrote.
    fn is_surrounding(&self, passage: &Passage<'_>, line: &str) -> bool {
        self.surrounding.contains(&(passage.message, passage.source, fingerprint(line)))
    }

    /// Tells whether all of a passage is out of date, because the whole file was read or written later.
    fn is_whole(&self, passage: &Passage<'_>) -> bool {
        self.whole.get(&passage.source).is_some_and(|whole| *whole > passage.message)
    }

    /// Tells whether a line of a passage was taken out of its file by the passage itself or later.
    pub(super) fn has(&self, passage: &Passage<'_>, line: &str) -> bool {
        if self.taken_out.is_empty() {
            return false;
        }
        let by = self.taken_out.get(&(passage.source, fingerprint(line)));
        by.is_some_and(|by| *by > passage.message || passage.argument == Some(ArgumentKind::Replaced))
    }
}

/// The lines of a file as a tool printed them, with their numbers.
struct NumberedLines(Vec<(u32, u64)>);

impl NumberedLines {
    fn of(text: &str) -> Option<NumberedLines> {
        let lines = text.lines().filter_map(|line| {
            let (number, body) = gutter(line)?;
            (!body.trim().is_empty()).then(|| (number, fingerprint(body.trim())))
        });
        Some(lines.collect()).filter(|lines: &Vec<_>| lines.len() > 1).map(NumberedLines)
    }

    /// Returns the lines whose numbers a later reading has and whose text it has not.
    fn missing_in(&self, later: &NumberedLines) -> Vec<u64> {
        let (Some((first, _)), Some((last, _))) = (later.0.first(), later.0.last()) else { return Vec::new() };
        let stands: HashSet<u64> = later.0.iter().map(|(_, line)| *line).collect();
        let gone = self.0.iter().filter(|(number, line)| (first..=last).contains(&number) && !stands.contains(line));
        gone.map(|(_, line)| *line).collect()
    }
}

/// The factor by which mentions lose weight with their age.
struct Recency {
    newest: usize,
    half_life: f32,
}

impl Recency {
    fn of(passages: &Passages<'_>) -> Recency {
        let newest = passages.passages.last().map_or(0, |passage| passage.message);
        Recency { newest, half_life: newest as f32 * RECENCY_HALF_LIFE + 1.0 }
    }

    fn at(&self, message: usize) -> f32 {
        1.0 / (1.0 + self.newest.saturating_sub(message) as f32 / self.half_life)
    }
}

/// Returns the weight of a mention in this passage, were it the newest.
fn weight(passage: &Passage<'_>) -> f32 {
    match (passage.origin, passage.argument) {
        (TextOrigin::User, _) => USER_WEIGHT,
        (TextOrigin::Agent, _) => AGENT_WEIGHT,
        (TextOrigin::Call, Some(ArgumentKind::Replaced)) => REPLACED_WEIGHT,
        (TextOrigin::Call, _) => CALL_WEIGHT,
        (TextOrigin::Briefing, _) => BRIEFING_WEIGHT,
        (TextOrigin::Tool, _) => TOOL_WEIGHT,
        (TextOrigin::Echo, _) => ECHO_WEIGHT,
    }
}

/// The worth that each feature still has, and the share of it that is left each time a line covers it.
struct FeatureWorth {
    left: Vec<f32>,
    repeat: Vec<f32>,
}

impl FeatureWorth {
    fn of(&self, features: &[Feature]) -> f32 {
        features.iter().map(|&feature| self.left[feature as usize]).sum()
    }

    fn cover(&mut self, features: &[Feature]) {
        for &feature in features {
            self.left[feature as usize] *= self.repeat[feature as usize];
        }
    }

    /// Covers a feature, unless no line has it.
    fn cover_known(&mut self, feature: Feature) {
        if (feature as usize) < self.left.len() {
            self.cover(&[feature]);
        }
    }
}

/// What was chosen so far.
#[derive(Default)]
struct SelectedLines<'a> {
    picks: Vec<Pick<'a>>,
    /// The tokens of the picks with their headings.
    spent: usize,
    seen: HashSet<&'a str>,
}

/// The greedy selection: takes the best line, lowers the worth of what it covers, and looks for the next.
struct GreedySelection<'p, 'a> {
    passages: &'p Passages<'a>,
    pool: Vec<Feature>,
    lines: Vec<Line<'a>>,
    labels: Vec<Label>,
    worth: FeatureWorth,
    is_open: Vec<bool>,
    /// The number of lines taken so far, by source.
    taken: Vec<u32>,
    /// The lines taken so far.
    is_taken: Vec<bool>,
    is_roomy: bool,
}

impl<'a> GreedySelection<'_, 'a> {
    fn run(mut self, limit: usize, count: &dyn Fn(&str) -> usize) -> Vec<Pick<'a>> {
        let candidates = self.candidates(limit * CANDIDATES_PER_TOKEN);
        let of_source = self.by_source(&candidates);
        let mut selected = SelectedLines::default();
        let conclusions: Vec<usize> = (0..self.lines.len()).filter(|line| self.lines[*line].is_conclusion).collect();
        let conclusions = conclusions.into_iter().map(|line| Candidate { score: self.score(line), line }).collect();
        let share = if self.is_roomy { ROOMY_CONCLUSION_SHARE } else { CONCLUSION_SHARE };
        let share = (limit as f32 * share) as usize;
        self.take_best(conclusions, true, share, &of_source, &mut selected, count);
        let candidates =
            candidates.into_iter().map(|Candidate { line, .. }| Candidate { score: self.score(line), line });
        self.take_best(candidates.collect(), false, limit, &of_source, &mut selected, count);
        selected.picks
    }

    /// Takes the best of some candidates until the limit is reached; of conclusions alone where that is asked for.
    fn take_best(
        &mut self,
        mut heap: BinaryHeap<Candidate>,
        conclusions: bool,
        limit: usize,
        of_source: &[Vec<usize>],
        selected: &mut SelectedLines<'a>,
        count: &dyn Fn(&str) -> usize,
    ) {
        while let Some(Candidate { score, line }) = heap.pop() {
            let now = self.score(line);
            let Line { text, source, passage, continues, is_conclusion, .. } = self.lines[line];
            let is_known = !text.is_empty() && selected.seen.contains(text);
            if now <= 0.0 || is_known || conclusions && !is_conclusion {
                continue;
            }
            if now < score {
                heap.push(Candidate { score: now, line });
                continue;
            }
            let opens = !self.is_open[source];
            let cost = if text.is_empty() { 0 } else { count(text) + 1 }
                + if opens { count(&self.passages.sources[source].label) + 4 } else { 0 };
            if selected.spent + cost > limit {
                if limit - selected.spent < TOKENS_LEFT_MIN {
                    break;
                }
                continue;
            }
            selected.spent += cost;
            selected.seen.insert(text);
            self.cover(line);
            if opens {
                // Its other lines got cheaper.
                let cheaper = of_source[source].iter().map(|&line| Candidate { score: self.score(line), line });
                heap.extend(cheaper);
            }
            heap.extend(self.favor_adjacent(line));
            selected.picks.push(Pick { text, source, passage, line, continues, home: None });
        }
    }

    /// Favors the lines before and after a chosen one.
    fn favor_adjacent(&mut self, line: usize) -> Vec<Candidate> {
        let Line { source, text, .. } = self.lines[line];
        let near = [line.checked_sub(1), Some(line + 1)].into_iter().flatten();
        let near = near.filter(|&near| {
            let is_adjacent = self.lines.get(near).is_some_and(|near| near.source == source && !near.text.is_empty());
            is_adjacent && !text.is_empty()
        });
        let near: Vec<usize> = near.collect();
        self.is_taken[line] = true;
        for &near in &near {
            let behind = if near > line { Some(near + 1) } else { near.checked_sub(1) };
            let is_gap = behind
                .is_some_and(|behind| self.is_taken.get(behind) == Some(&true) && self.lines[behind].source == source);
            self.lines[near].favor *= if is_gap { GAP_BONUS } else { ADJACENT_BONUS };
        }
        near.into_iter().map(|line| Candidate { score: self.score(line), line }).collect()
    }

    /// Returns the `most` best candidates, in no order.
    fn candidates(&self, most: usize) -> Vec<Candidate> {
        let mut all: Vec<Candidate> =
            (0..self.lines.len()).map(|line| Candidate { score: self.score(line), line }).collect();
        if all.len() > most {
            all.select_nth_unstable_by(most, |a, b| b.cmp(a));
            all.truncate(most);
        }
        all
    }

    fn by_source(&self, candidates: &[Candidate]) -> Vec<Vec<usize>> {
        let mut of_source = vec![Vec::new(); self.passages.sources.len()];
        for candidate in candidates {
            of_source[self.lines[candidate.line].source].push(candidate.line);
        }
        of_source
    }

    /// Returns what the line newly covers per token, with its heading while that is not open.
    fn score(&self, line: usize) -> f32 {
        let line = &self.lines[line];
        let mut gain = self.worth.of(self.features(&line.features)) * line.favor;
        if line.is_conclusion && self.is_roomy {
            gain /= 1.0 + self.taken[line.source] as f32 / ROOMY_LINES_HALF;
        }
        if self.is_open[line.source] {
            return if line.text.is_empty() { 0.0 } else { gain / line.tokens };
        }
        let label = &self.labels[line.source];
        (gain + self.worth.of(self.features(&label.features)) * label.favor) / (line.tokens + label.tokens)
    }

    fn cover(&mut self, line: usize) {
        let Line { source, features, .. } = &self.lines[line];
        self.taken[*source] += 1;
        self.worth.cover(&self.pool[features.start as usize..features.end as usize]);
        if !self.is_open[*source] {
            self.is_open[*source] = true;
            let label = &self.labels[*source].features;
            self.worth.cover(&self.pool[label.start as usize..label.end as usize]);
        }
    }

    fn features(&self, range: &Range<u32>) -> &[Feature] {
        &self.pool[range.start as usize..range.end as usize]
    }
}

struct Candidate {
    score: f32,
    line: usize,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        self.score.total_cmp(&other.score).then(other.line.cmp(&self.line))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

#[cfg(test)]
mod tests {
    use super::super::arguments::CallArguments;
    use super::super::passages::Passages;
    use super::super::testing;
    use super::select;
    use crate::policy::Tools;

    /// The first line that is chosen of a thread written as small text.
    fn first(lines: &str, covered: &[&str], focus: &str) -> String {
        let thread = testing::thread(lines);
        let arguments = CallArguments::of(&thread);
        let tools = Tools::default();
        let passages = Passages::of(&thread, &arguments, &tools, &[]);
        let is_kept = vec![false; passages.passages.len()];
        let picks = select(&passages, &is_kept, covered, focus, 200, &|text| text.len() / 4);
        picks.first().map(|pick| format!("{}{}", passages.sources[pick.source].label, pick.text)).unwrap_or_default()
    }

    #[test]
    fn what_comes_first() {
        let cases: [(&str, &str, &[&str], &str, &str); 6] = [
            (
                "the agent's words before a tool's",
                "user: go\ncall look: {}\nresult look: the cause is load_frame here\nassistant: the cause is read_frame here",
                &[],
                "",
                "m4:the cause is read_frame here",
            ),
            (
                "the newer of two",
                "user: go\nassistant: the cause is load_frame here\nassistant: well\nassistant: well\nassistant: the cause is read_frame here",
                &[],
                "",
                "m5:the cause is read_frame here",
            ),
            (
                "a name before plain words",
                "assistant: the cause is somewhere in there\nassistant: the cause is probably read_frame",
                &[],
                "",
                "m2:the cause is probably read_frame",
            ),
            (
                "what is not in the prompt yet",
                "assistant: it is load_frame that leaks memory\nassistant: it is read_frame that leaks handles",
                &["it is read_frame that leaks handles"],
                "",
                "m1:it is load_frame that leaks memory",
            ),
            (
                "what was put in before what was taken out",
                r#"call edit: {"path":"a/b.rs","old_string":"let frame = old_frame(size);","new_string":"let frame = new_frame(size);"}"#,
                &[],
                "",
                "a/b.rslet frame = new_frame(size);",
            ),
            (
                "what the user wants it to look at",
                "assistant: the parser loses parse_tree nodes\nassistant: the writer loses write_tree nodes",
                &[],
                "everything about the parser",
                "m1:the parser loses parse_tree nodes",
            ),
        ];
        for (why, lines, covered, focus, expected) in cases {
            assert_eq!(first(lines, covered, focus), expected, "{why}");
        }
    }
}
