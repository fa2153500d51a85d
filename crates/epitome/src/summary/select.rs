//! Chooses the lines of the past that the agent is likely to need again.
//!
//! Every name and word triple gets the chance that the agent writes it again: from who wrote it, how
//! often and how long ago. Lines are then taken greedily by the chance they newly cover per token.
//! It reads nothing but its arguments, never rewrites a line, and gives the same answer for the same
//! input.

use super::guess::guess;
use super::lexicon::{Feature, Lexicon, Shape, fingerprint};
use super::lines::{self, Piece};
use super::passages::{Kind, Passage, Past, Voice};
use super::slots::Slot;
use crate::policy::ToolClass;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::Range;

/// How likely things are to come back.
///
/// The first ten are chances that a word triple is written again by the agent when it was last
/// seen just now, as counted on recorded sessions and rounded; only their ratios matter.
#[derive(Clone, Debug)]
pub struct Options {
    pub user: f32,
    pub agent: f32,
    pub call: f32,
    /// Descriptions, modes and limits of calls.
    pub aside: f32,
    /// What an edit took out: half of it is in what was put in.
    pub replaced: f32,
    /// Text of files: edits quote it.
    pub read: f32,
    /// What the agent looked for: patterns are written once.
    pub asked: f32,
    /// Hits, and what unknown tools print.
    pub found: f32,
    /// What commands print.
    pub printed: f32,
    /// "File updated", repeated plans.
    pub echo: f32,
    /// What text printed for requests before the last two is worth.
    pub older_turn: f32,
    /// The share of all steps after which a chance has halved, and its limit in steps.
    pub fade_share: f32,
    pub fade_steps: f32,
    /// What a name and a joined name are worth in triples.
    pub name: f32,
    pub joined: f32,
    /// What is left of a name's worth once a line has it: another line may explain it better.
    pub again: f32,
    /// How much more a tool's words are worth when the agent uses the same words.
    pub interest: f32,
    /// Exponents: how chances grow with the messages that share the rarest word.
    pub common: f32,
    pub common_tool: f32,
    /// Exponents: how chances of names grow with mentions of the agent, and of tools.
    pub name_agent: f32,
    pub name_tool: f32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            user: 0.03,
            agent: 0.06,
            call: 0.10,
            aside: 0.03,
            replaced: 0.05,
            read: 0.025,
            asked: 0.03,
            found: 0.015,
            printed: 0.01,
            echo: 0.001,
            older_turn: 0.4,
            fade_share: 0.1,
            fade_steps: 30.0,
            name: 4.0,
            joined: 2.5,
            again: 0.3,
            interest: 3.0,
            common: 0.2,
            common_tool: 0.3,
            name_agent: 0.5,
            name_tool: 0.5,
        }
    }
}

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
    past: &Past<'a>,
    is_kept: &[bool],
    covered: &[&str],
    focus: &str,
    limit: usize,
    count: &dyn Fn(&str) -> usize,
    options: &Options,
) -> Vec<Pick<'a>> {
    let mut reading = Reading::of(past, is_kept, options);
    let mut worth = reading.worth(options);
    for text in covered {
        lines::each(text, false, &mut |piece| {
            reading.lexicon.scan(piece.text, |feature, _| worth.cover_known(feature));
        });
    }
    reading.favour(focus);
    let Reading { pool, lines, labels, .. } = reading;
    Greedy { past, pool, lines, labels, worth, is_open: vec![false; past.sources.len()] }.run(limit, count)
}

/// A candidate: a line, or a heading alone when its text is empty.
struct Line<'a> {
    text: &'a str,
    source: usize,
    tokens: f32,
    continues: bool,
    /// How much more it counts because the user asked for what it is about.
    favour: f32,
    features: Range<u32>,
}

struct Label {
    tokens: f32,
    features: Range<u32>,
}

/// What is known of a feature.
#[derive(Clone, Copy)]
struct Mentions {
    shape: Shape,
    /// Sum of the chances of mentions by the agent and the user.
    agent: f32,
    /// The best chance of mentions by tools.
    tool: f32,
    /// The last message of the agent, and of anyone, that had it.
    agent_message: u32,
    message: u32,
    messages: u16,
    times: u16,
}

/// The past, read once.
struct Reading<'a> {
    lexicon: Lexicon,
    /// Features of all lines and labels, one after the other.
    pool: Vec<Feature>,
    mentions: Vec<Mentions>,
    /// Features of lines read before: files are read again and again.
    known: HashMap<u64, Range<u32>>,
    lines: Vec<Line<'a>>,
    labels: Vec<Label>,
}

impl<'a> Reading<'a> {
    fn of(past: &Past<'a>, is_kept: &[bool], options: &Options) -> Reading<'a> {
        let bytes: usize = past.passages.iter().map(|passage| passage.text.len()).sum();
        let mut reading = Reading {
            lexicon: Lexicon::for_text(bytes),
            pool: Vec::with_capacity(bytes / 8),
            mentions: Vec::with_capacity(bytes / 16),
            known: HashMap::new(),
            lines: Vec::with_capacity(bytes / 32),
            labels: Vec::with_capacity(past.sources.len()),
        };
        let recency = Recency::of(past, options);
        for (passage, &is_kept) in past.passages.iter().zip(is_kept) {
            let chance = chance(passage, options) * recency.of_passage(passage);
            // The first line of a command is its heading.
            let is_command = passage.slot == Some(Slot::Command) && past.sources[passage.source].kind == Kind::Command;
            reading.passage(passage, chance, is_kept, is_command);
        }
        for (at, source) in past.sources.iter().enumerate() {
            let is_called = source.edited.is_some() || source.read.is_some();
            let features = reading.scan(&source.label, u32::MAX, false, if is_called { options.call } else { 0.0 });
            reading.labels.push(Label { tokens: guess(&source.label) + 1.0, features });
            if matches!(source.kind, Kind::File | Kind::Command) {
                reading.lines.push(Line {
                    text: "",
                    source: at,
                    tokens: 0.0,
                    continues: false,
                    favour: 1.0,
                    features: 0..0,
                });
            }
        }
        reading
    }

    fn passage(&mut self, passage: &Passage<'a>, chance: f32, is_kept: bool, mut is_label: bool) {
        let is_tool = passage.voice == Voice::Tool;
        lines::each(passage.text, is_tool, &mut |Piece { text, continues }| {
            let features = self.scan(text, passage.message as u32, is_tool, chance);
            if !is_kept && !is_label && !features.is_empty() {
                // One more for the line end.
                let (source, tokens) = (passage.source, guess(text) + 1.0);
                self.lines.push(Line { text, source, tokens, continues, favour: 1.0, features });
            }
            is_label = false;
        });
    }

    fn scan(&mut self, text: &str, message: u32, is_tool: bool, chance: f32) -> Range<u32> {
        let fingerprint = fingerprint(text);
        if let Some(features) = self.known.get(&fingerprint) {
            for &feature in &self.pool[features.start as usize..features.end as usize] {
                self.mentions[feature as usize].note(message, is_tool, chance);
            }
            return features.clone();
        }
        let from = self.pool.len() as u32;
        let (pool, mentions) = (&mut self.pool, &mut self.mentions);
        self.lexicon.scan(text, |feature, shape| {
            pool.push(feature);
            if feature as usize == mentions.len() {
                mentions.push(Mentions {
                    shape,
                    agent: 0.0,
                    tool: 0.0,
                    agent_message: u32::MAX,
                    message: u32::MAX,
                    messages: 0,
                    times: 0,
                });
            }
            mentions[feature as usize].note(message, is_tool, chance);
        });
        let features = from..self.pool.len() as u32;
        self.known.insert(fingerprint, features.clone());
        features
    }

    /// Favours lines with the words that the user asked to look at.
    fn favour(&mut self, focus: &str) {
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
            line.favour = 1.0 + FAVOUR * hits.min(FAVOURED_WORDS_MAX) as f32;
        }
    }

    /// What each feature is worth to have in the prompt.
    fn worth(&self, options: &Options) -> Worth {
        let most = self.mentions.iter().map(|known| known.messages).max().unwrap_or_default();
        let powers = |exponent: f32| (0..=most).map(|n| f32::from(n).powf(exponent)).collect::<Vec<f32>>();
        let (common, common_tool) = (powers(options.common), powers(options.common_tool));
        let phrase = |weight: f32, known: &Mentions, words: &[Feature]| {
            let words = || words.iter().map(|&word| &self.mentions[word as usize]);
            let rarest = usize::from(words().map(|word| word.messages).min().unwrap_or_default());
            let interest = words().map(|word| word.agent).sum::<f32>() / words().count() as f32;
            weight
                * (known.agent * common[rarest]
                    + known.tool * common_tool[rarest] * (1.0 + options.interest * interest))
                    .min(1.0)
        };
        let left = self.mentions.iter().map(|known| match known.shape {
            Shape::Word => 0.0,
            Shape::Name => options.name * known.name_chance(options),
            Shape::Joined(a, b) => phrase(options.joined, known, &[a, b]),
            Shape::Triple(a, b, c) => phrase(1.0, known, &[a, b, c]),
        });
        let again = self
            .mentions
            .iter()
            .map(|known| if matches!(known.shape, Shape::Triple(..)) { 0.0 } else { options.again });
        Worth { left: left.collect(), again: again.collect() }
    }
}

impl Mentions {
    fn note(&mut self, message: u32, is_tool: bool, chance: f32) {
        self.times = self.times.saturating_add(1);
        if self.message != message {
            self.message = message;
            self.messages = self.messages.saturating_add(1);
        }
        if is_tool {
            self.tool = self.tool.max(chance);
        } else if self.agent_message != message {
            self.agent_message = message;
            self.agent += chance;
        }
    }

    /// Names come back less than in proportion to their mentions.
    fn name_chance(&self, options: &Options) -> f32 {
        let agent = options.call * (self.agent / options.call).powf(options.name_agent);
        let tool = self.tool * f32::from(self.times.min(NAME_TIMES_MAX)).powf(options.name_tool);
        (agent + tool).min(1.0)
    }
}

/// What a word that the user asked for adds to a line's gain, up to how many of them, and which are too short to count.
const FAVOUR: f32 = 2.0;
const FAVOURED_WORDS_MAX: usize = 3;
const FOCUS_BYTES_MIN: usize = 4;

/// More mentions by tools say nothing more.
const NAME_TIMES_MAX: u16 = 10;

/// How chances fade with the steps of the agent: tool output of any length is one step.
struct Recency {
    last_step: usize,
    last_turn: usize,
    fade: f32,
    older_turn: f32,
}

impl Recency {
    fn of(past: &Past<'_>, options: &Options) -> Recency {
        let (last_step, last_turn) = past.passages.last().map_or((0, 0), |passage| (passage.step, passage.turn));
        let fade = (last_step as f32 * options.fade_share).clamp(1.0, options.fade_steps);
        Recency { last_step, last_turn, fade, older_turn: options.older_turn }
    }

    fn of_passage(&self, passage: &Passage<'_>) -> f32 {
        let is_old = passage.voice == Voice::Tool && passage.turn + 1 < self.last_turn;
        let turn = if is_old { self.older_turn } else { 1.0 };
        turn / (1.0 + (self.last_step - passage.step) as f32 / self.fade)
    }
}

/// The chance that a mention in this passage comes back, were it the newest.
fn chance(passage: &Passage<'_>, options: &Options) -> f32 {
    match (passage.voice, passage.class, passage.slot) {
        (Voice::User, ..) => options.user,
        (Voice::Agent, ..) => options.agent,
        (Voice::Call, _, Some(Slot::Aside)) => options.aside,
        (Voice::Call, _, Some(Slot::Replaced)) => options.replaced,
        (Voice::Call, _, Some(Slot::Asked)) => options.asked,
        (Voice::Call, ..) => options.call,
        (Voice::Tool, Some(ToolClass::Read), _) => options.read,
        (Voice::Tool, Some(ToolClass::Patch | ToolClass::Write | ToolClass::Plan), _) => options.echo,
        (Voice::Tool, Some(ToolClass::Exec), _) => options.printed,
        (Voice::Tool, ..) => options.found,
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
    past: &'p Past<'a>,
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
            picks.push(Pick { text, source, line, continues });
        }
        picks
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
        let gain = self.worth.of(self.features(&line.features)) * line.favour;
        if self.is_open[line.source] {
            return if line.text.is_empty() { 0.0 } else { gain / line.tokens };
        }
        let label = &self.labels[line.source];
        (gain + self.worth.of(self.features(&label.features))) / (line.tokens + label.tokens)
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
