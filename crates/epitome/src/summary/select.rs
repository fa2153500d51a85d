//! Chooses the lines of the past that the agent is likely to need again.
//!
//! Every word, name and word triple is worth more the rarer it is, the more the agent and the user wrote it, and the
//! later. Lines are then taken greedily by what they newly cover per token, and by who wrote the line and when.
//! It reads nothing but its arguments, never rewrites a line, and gives the same answer for the same input.

use super::guess::guess;
use super::lexicon::{Feature, Lexicon, Shape, fingerprint};
use super::lines::{self, Piece};
use super::passages::{Passage, Passages, SourceKind, TextOrigin};
use crate::policy::ArgumentKind;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::Range;

/// What a mention weighs, by who made it. The agent's own words and deeds come back many times more often than what tools
/// printed; what an edit took out is gone.
const USER: f32 = 3.0;
const AGENT: f32 = 6.0;
const CALL: f32 = 5.0;
const REPLACED: f32 = 0.6;
const TOOL: f32 = 0.15;
const ECHO: f32 = 0.02;

/// The share of all messages after which a mention weighs half.
const FADE: f32 = 0.04;

/// What a word, a name, a joined name and a triple are worth.
const WORD: f32 = 0.1;
const NAME: f32 = 10.0;
const JOINED: f32 = 4.0;
const TRIPLE: f32 = 8.0;

/// What is left of the worth of a word or a name once a line has it: another line may explain it better.
const AGAIN: f32 = 0.35;

/// What a line costs beside its tokens: many short lines say less than a few whole ones.
const LINE: f32 = 8.0;

/// How much more a line is worth beside one that was chosen.
const BESIDE: f32 = 1.2;

/// A chosen line; empty text means that only the heading was chosen.
#[derive(Clone, Debug)]
pub struct Pick<'a> {
    pub text: &'a str,
    pub source: usize,
    /// Its place among all lines, in the order of the past.
    pub line: usize,
    /// Whether it goes on where the line before it was cut.
    pub continues: bool,
}

/// Chooses lines worth at most `limit` tokens with their headings, best first.
///
/// Passages marked in `is_kept` stay in the prompt and are not quoted; `covered` is all text that
/// stays.
pub fn select<'a>(
    past: &Passages<'a>,
    is_kept: &[bool],
    covered: &[&str],
    focus: &str,
    limit: usize,
    count: &dyn Fn(&str) -> usize,
) -> Vec<Pick<'a>> {
    let mut reading = Reading::of(past, is_kept);
    let mut worth = reading.worth();
    for text in covered {
        lines::each(text, false, &mut |piece| {
            reading.lexicon.scan(piece.text, |feature, _| worth.cover_known(feature));
        });
    }
    reading.favor(focus);
    let Reading { pool, lines, labels, .. } = reading;
    Greedy { past, pool, lines, labels, worth, is_open: vec![false; past.sources.len()] }.run(limit, count)
}

/// A candidate: a line, or a heading alone when its text is empty.
struct Line<'a> {
    text: &'a str,
    source: usize,
    tokens: f32,
    continues: bool,
    /// How much what it covers counts, by who wrote it and when, and whether the user asked for what it is about.
    favor: f32,
    features: Range<u32>,
}

struct Label {
    tokens: f32,
    favor: f32,
    features: Range<u32>,
}

/// What is known of a feature.
#[derive(Clone, Copy)]
struct Mentions {
    shape: Shape,
    /// The weights of the lines that have it.
    weight: f32,
    lines: u32,
    /// The last line that had it, by the number of lines read.
    last: u32,
}

/// The past, read once.
struct Reading<'a> {
    lexicon: Lexicon,
    /// Features of all lines and labels, one after the other.
    pool: Vec<Feature>,
    mentions: Vec<Mentions>,
    /// How many lines were read.
    read: u32,
    /// Features of lines read before: files are read again and again.
    known: HashMap<u64, Range<u32>>,
    lines: Vec<Line<'a>>,
    labels: Vec<Label>,
}

impl<'a> Reading<'a> {
    fn of(past: &Passages<'a>, is_kept: &[bool]) -> Reading<'a> {
        let bytes: usize = past.passages.iter().map(|passage| passage.text.len()).sum();
        let mut reading = Reading {
            lexicon: Lexicon::for_text(bytes),
            pool: Vec::with_capacity(bytes / 8),
            mentions: Vec::with_capacity(bytes / 16),
            read: 0,
            known: HashMap::new(),
            lines: Vec::with_capacity(bytes / 32),
            labels: Vec::with_capacity(past.sources.len()),
        };
        let recency = Recency::of(past);
        for (passage, &is_kept) in past.passages.iter().zip(is_kept) {
            let weight = weight(passage) * recency.at(passage.message);
            // The first line of a command is its heading.
            let is_command =
                passage.slot == Some(ArgumentKind::Command) && past.sources[passage.source].kind == SourceKind::Command;
            reading.passage(passage, weight, is_kept || passage.is_heading, is_command);
        }
        for (at, source) in past.sources.iter().enumerate() {
            let features = reading.scan(&source.label, 0.0);
            let favor = (CALL * recency.at(source.last)).sqrt();
            reading.labels.push(Label { tokens: guess(&source.label) + 1.0, favor, features });
            if matches!(source.kind, SourceKind::File | SourceKind::Command) {
                reading.lines.push(Line {
                    text: "",
                    source: at,
                    tokens: LINE,
                    continues: false,
                    favor: 0.0,
                    features: 0..0,
                });
            }
        }
        reading
    }

    fn passage(&mut self, passage: &Passage<'a>, weight: f32, is_kept: bool, mut is_label: bool) {
        let is_tool = passage.voice.is_printed();
        let favor = weight.sqrt();
        lines::each(passage.text, is_tool, &mut |Piece { text, continues }| {
            let features = self.scan(text, weight);
            if !is_kept && !is_label && !features.is_empty() {
                // One more for the line end.
                let (source, tokens) = (passage.source, guess(text) + 1.0 + LINE);
                self.lines.push(Line { text, source, tokens, continues, favor, features });
            }
            is_label = false;
        });
    }

    fn scan(&mut self, text: &str, weight: f32) -> Range<u32> {
        self.read += 1;
        let line = self.read;
        let fingerprint = fingerprint(text);
        if let Some(features) = self.known.get(&fingerprint) {
            for &feature in &self.pool[features.start as usize..features.end as usize] {
                self.mentions[feature as usize].note(weight, line);
            }
            return features.clone();
        }
        let from = self.pool.len() as u32;
        let (pool, mentions) = (&mut self.pool, &mut self.mentions);
        self.lexicon.scan(text, |feature, shape| {
            if feature as usize == mentions.len() {
                mentions.push(Mentions { shape, weight: 0.0, lines: 0, last: 0 });
            }
            if mentions[feature as usize].note(weight, line) {
                pool.push(feature);
            }
        });
        let features = from..self.pool.len() as u32;
        self.known.insert(fingerprint, features.clone());
        features
    }

    /// Favors lines with the words that the user asked to look at.
    fn favor(&mut self, focus: &str) {
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
            line.favor *= 1.0 + FAVOR * hits.min(FAVORED_WORDS_MAX) as f32;
        }
    }

    /// What each feature is worth to have in the prompt.
    fn worth(&self) -> Worth {
        let rarity = |known: &Mentions| (1.0 + self.read as f32 / known.lines as f32).ln();
        let left = self.mentions.iter().map(|known| {
            known.weight.ln_1p()
                * match known.shape {
                    Shape::Word => WORD * rarity(known),
                    Shape::Name => NAME * rarity(known),
                    Shape::Joined(..) => JOINED * rarity(known),
                    Shape::Triple(..) => TRIPLE,
                }
        });
        let again =
            self.mentions.iter().map(|known| if matches!(known.shape, Shape::Triple(..)) { 0.0 } else { AGAIN });
        Worth { left: left.collect(), again: again.collect() }
    }
}

impl Mentions {
    /// Notes a mention; answers whether it is the first in its line.
    fn note(&mut self, weight: f32, line: u32) -> bool {
        let is_first = self.last != line;
        if is_first {
            self.weight += weight;
            self.lines += 1;
            self.last = line;
        }
        is_first
    }
}

/// What a word that the user asked for adds to a line's gain, up to how many of them, and which are too short to count.
const FAVOR: f32 = 2.0;
const FAVORED_WORDS_MAX: usize = 3;
const FOCUS_BYTES_MIN: usize = 4;

/// How mentions fade with the messages since.
struct Recency {
    newest: usize,
    fade: f32,
}

impl Recency {
    fn of(past: &Passages<'_>) -> Recency {
        let newest = past.passages.last().map_or(0, |passage| passage.message);
        Recency { newest, fade: newest as f32 * FADE + 1.0 }
    }

    fn at(&self, message: usize) -> f32 {
        1.0 / (1.0 + self.newest.saturating_sub(message) as f32 / self.fade)
    }
}

/// What a mention in this passage weighs, were it the newest.
fn weight(passage: &Passage<'_>) -> f32 {
    match (passage.voice, passage.slot) {
        (TextOrigin::User, _) => USER,
        (TextOrigin::Agent, _) => AGENT,
        (TextOrigin::Call, Some(ArgumentKind::Replaced)) => REPLACED,
        (TextOrigin::Call, _) => CALL,
        (TextOrigin::Tool, _) => TOOL,
        (TextOrigin::Echo, _) => ECHO,
    }
}

/// What features are still worth, and what covering them leaves of it.
struct Worth {
    left: Vec<f32>,
    again: Vec<f32>,
}

impl Worth {
    fn of(&self, features: &[Feature]) -> f32 {
        features.iter().map(|&feature| self.left[feature as usize]).sum()
    }

    fn cover(&mut self, features: &[Feature]) {
        for &feature in features {
            self.left[feature as usize] *= self.again[feature as usize];
        }
    }

    /// Covers a feature unless it is new, as in text the prompt adds.
    fn cover_known(&mut self, feature: Feature) {
        if (feature as usize) < self.left.len() {
            self.cover(&[feature]);
        }
    }
}

struct Greedy<'p, 'a> {
    past: &'p Passages<'a>,
    pool: Vec<Feature>,
    lines: Vec<Line<'a>>,
    labels: Vec<Label>,
    worth: Worth,
    is_open: Vec<bool>,
}

/// When less is left, no further line is tried.
const TOKENS_LEFT_MIN: usize = 24;

/// Candidates per token of the limit; the others cannot win.
const CANDIDATES_PER_TOKEN: usize = 2;

impl<'a> Greedy<'_, 'a> {
    /// Takes the best line until the limit is reached, looking again at those that got worse.
    fn run(mut self, limit: usize, count: &dyn Fn(&str) -> usize) -> Vec<Pick<'a>> {
        let candidates = self.candidates(limit * CANDIDATES_PER_TOKEN);
        let of_source = self.by_source(&candidates);
        let mut heap = BinaryHeap::from(candidates);
        let (mut picks, mut spent, mut seen) = (Vec::new(), 0, HashSet::new());
        while let Some(Candidate { score, line }) = heap.pop() {
            let now = self.score(line);
            let Line { text, source, continues, .. } = self.lines[line];
            if now <= 0.0 || (!text.is_empty() && seen.contains(text)) {
                continue;
            }
            if now < score {
                heap.push(Candidate { score: now, line });
                continue;
            }
            let opens = !self.is_open[source];
            let cost = if text.is_empty() { 0 } else { count(text) + 1 }
                + if opens { count(&self.past.sources[source].label) + 4 } else { 0 };
            if spent + cost > limit {
                if limit - spent < TOKENS_LEFT_MIN {
                    break;
                }
                continue;
            }
            spent += cost;
            seen.insert(text);
            self.cover(line);
            if opens {
                // Its other lines got cheaper.
                let cheaper = of_source[source].iter().map(|&line| Candidate { score: self.score(line), line });
                heap.extend(cheaper);
            }
            heap.extend(self.favor_beside(line));
            picks.push(Pick { text, source, line, continues });
        }
        picks
    }

    /// Favors the lines before and after a chosen one: together they are an excerpt.
    fn favor_beside(&mut self, line: usize) -> Vec<Candidate> {
        let Line { source, text, .. } = self.lines[line];
        let near = [line.checked_sub(1), Some(line + 1)].into_iter().flatten();
        let near = near.filter(|&near| {
            let is_beside = self.lines.get(near).is_some_and(|near| near.source == source && !near.text.is_empty());
            is_beside && !text.is_empty()
        });
        let near: Vec<usize> = near.collect();
        for &near in &near {
            self.lines[near].favor *= BESIDE;
        }
        near.into_iter().map(|line| Candidate { score: self.score(line), line }).collect()
    }

    /// The `most` best candidates, in no order.
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
        let mut of_source = vec![Vec::new(); self.past.sources.len()];
        for candidate in candidates {
            of_source[self.lines[candidate.line].source].push(candidate.line);
        }
        of_source
    }

    /// What the line newly covers per token, with its heading when that is not there yet.
    fn score(&self, line: usize) -> f32 {
        let line = &self.lines[line];
        let gain = self.worth.of(self.features(&line.features)) * line.favor;
        if self.is_open[line.source] {
            return if line.text.is_empty() { 0.0 } else { gain / line.tokens };
        }
        let label = &self.labels[line.source];
        (gain + self.worth.of(self.features(&label.features)) * label.favor) / (line.tokens + label.tokens)
    }

    fn cover(&mut self, line: usize) {
        let Line { source, features, .. } = &self.lines[line];
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
    use super::super::passages::{Arguments, cut};
    use super::super::testing;
    use super::select;
    use crate::policy::Tools;

    /// The first line that is chosen of a past told in small text.
    fn first(lines: &str, covered: &[&str], focus: &str) -> String {
        let thread = testing::thread(lines);
        let arguments = Arguments::of(&thread);
        let tools = Tools::default();
        let past = cut(&thread, &arguments, &tools, &[]);
        let is_kept = vec![false; past.passages.len()];
        let picks = select(&past, &is_kept, covered, focus, 200, &|text| text.len() / 4);
        picks.first().map(|pick| format!("{}{}", past.sources[pick.source].label, pick.text)).unwrap_or_default()
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
