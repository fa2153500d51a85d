//! Chooses the lines of the past that the agent is likely to need again.
//!
//! Every name and word triple gets the chance that the agent writes it again, from who wrote it,
//! how often and how long ago; lines are then taken greedily by the chance they newly cover per
//! token. It reads nothing but its arguments, never rewrites a line, and gives the same answer for
//! the same input.

use super::guess;
use super::lexicon::{Feature, Lexicon, Shape};
use super::lines;
use super::passages::{Kind, Passage, Past, Voice};
use super::slots::Slot;
use crate::policy::ToolClass;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

/// How likely things are to come back; see `Default` for the reasons.
#[derive(Clone, Debug)]
pub struct Options {
    pub user: f32,
    pub agent: f32,
    pub call: f32,
    pub aside: f32,
    pub replaced: f32,
    pub read: f32,
    pub printed: f32,
    pub older_turn: f32,
    pub fade_tokens: f32,
    pub fade_share: f32,
    pub name: f32,
    pub joined: f32,
    pub again: f32,
    pub line_overhead: f32,
    pub interest: f32,
    pub smooth: f32,
    pub last_touch: f32,
    pub tool_again: f32,
    pub common: f32,
    pub common_name: f32,
    pub common_tool: f32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            user: 0.03,
            agent: 0.06,
            call: 0.10,
            aside: 0.03,
            replaced: 0.05,
            read: 0.04,
            printed: 0.015,
            older_turn: 0.4,
            fade_tokens: 16000.0,
            fade_share: 0.3,
            name: 4.0,
            joined: 2.0,
            again: 0.3,
            line_overhead: 1.0,
            interest: 0.0,
            smooth: 0.0,
            last_touch: 0.0,
            tool_again: 0.0,
            common: 0.25,
            common_name: 0.0,
            common_tool: 0.5,
        }
    }
}

/// A chosen line; empty text means that only the heading was chosen.
#[derive(Clone, Debug)]
pub struct Pick<'a> {
    pub text: &'a str,
    pub source: usize,
    pub passage: usize,
    /// Its place among all lines, in the order of the past.
    pub line: usize,
}

/// Chooses lines worth at most `limit` tokens, best first.
pub fn select<'a>(
    past: &Past<'a>,
    is_kept: &[bool],
    covered: &[&str],
    limit: usize,
    count: &dyn Fn(&str) -> usize,
    options: &Options,
) -> Vec<Pick<'a>> {
    let mut chances = Chances::measure(past, is_kept, options);
    for text in covered {
        lines::each(text, false, &mut |line| chances.cover_text(line));
    }
    chances.greedy(past, limit, count)
}

struct Line<'a> {
    text: &'a str,
    passage: usize,
    source: usize,
    cost: f32,
    boost: f32,
    features: std::ops::Range<usize>,
}

struct Chances<'a> {
    lexicon: Lexicon,
    /// Features of all lines, one after the other.
    pool: Vec<Feature>,
    lines: Vec<Line<'a>>,
    labels: Vec<(std::ops::Range<usize>, f32)>,
    /// What each feature is still worth.
    worth: Vec<f32>,
    is_triple: Vec<bool>,
    again: f32,
    overhead: f32,
}

/// What is known of a feature while the past is read.
#[derive(Clone, Copy)]
struct Mentions {
    agent: f32,
    tool: f32,
    /// The last message of the agent, and of anyone, that had it.
    agent_message: u32,
    message: u32,
    /// In how many messages it is.
    messages: f32,
    shape: Shape,
}

impl<'a> Chances<'a> {
    fn measure(past: &Past<'a>, is_kept: &[bool], options: &Options) -> Chances<'a> {
        let bytes: usize = past.passages.iter().map(|passage| passage.text.len()).sum();
        let mut lexicon = Lexicon::for_text(bytes);
        let (mut pool, mut all, mut mentions) = (Vec::new(), Vec::new(), Vec::<Mentions>::new());
        let last_turn = past.passages.last().map_or(0, |passage| passage.turn);
        let fade = (bytes as f32 / 4.0 * options.fade_share).min(options.fade_tokens);
        let mut left = bytes;
        let mut behind = vec![0.0; past.passages.last().map_or(0, |passage| passage.message + 1)];
        let mut sum = 0.0;
        for passage in past.passages.iter().rev() {
            sum += passage.text.len() as f32;
            behind[passage.message] = sum;
        }
        for (at, passage) in past.passages.iter().enumerate() {
            left -= passage.text.len();
            let source = &past.sources[passage.source];
            // What touched a source last may have said nothing, and then it has no passage.
            let since = behind.get(source.last).copied().unwrap_or(0.0);
            let ago = left as f32 * (1.0 - options.last_touch) + since.min(left as f32) * options.last_touch;
            let rate = rate(passage, last_turn, options) / (1.0 + ago / 4.0 / fade);
            let is_tool = passage.voice == Voice::Tool;
            lines::each(passage.text, is_tool, &mut |text| {
                let from = pool.len();
                lexicon.scan(text, &mut |feature, shape| {
                    pool.push(feature);
                    note(&mut mentions, feature, shape, passage.message as u32, is_tool, rate, options.tool_again);
                });
                if !is_kept[at] && pool.len() > from {
                    let cost = guess::guess(text) as f32 + options.line_overhead;
                    all.push(Line {
                        text,
                        passage: at,
                        source: passage.source,
                        cost,
                        boost: 1.0,
                        features: from..pool.len(),
                    });
                }
            });
        }
        let mut labels = Vec::with_capacity(past.sources.len());
        for source in &past.sources {
            let from = pool.len();
            lexicon.scan(&source.label, &mut |feature, shape| {
                pool.push(feature);
                let is_called = source.edited.is_some() || source.read.is_some();
                let rate = if source.kind == Kind::File && is_called { options.call } else { 0.0 };
                note(&mut mentions, feature, shape, u32::MAX, false, rate, 0.0);
            });
            labels.push((from..pool.len(), guess::guess(&source.label) as f32 + 1.0));
        }
        let worth = mentions.iter().map(|m| worth(m, &mentions, options)).collect();
        let is_triple = mentions.iter().map(|m| matches!(m.shape, Shape::Triple(..))).collect();
        let mut chances = Chances {
            lexicon,
            pool,
            lines: all,
            labels,
            worth,
            is_triple,
            again: options.again,
            overhead: options.line_overhead,
        };
        if options.smooth > 0.0 {
            chances.smooth(options.smooth);
        }
        chances
    }

    /// Raises lines among lines that are worth much, lowers those among lines that are not.
    fn smooth(&mut self, power: f32) {
        let density: Vec<f32> = self.lines.iter().map(|line| self.gain(line.features.clone()) / line.cost).collect();
        let mean = density.iter().sum::<f32>() / density.len().max(1) as f32;
        if mean <= 0.0 {
            return;
        }
        for at in 0..self.lines.len() {
            let (from, to) = (at.saturating_sub(4), (at + 5).min(self.lines.len()));
            let near = (from..to).filter(|&other| self.lines[other].passage == self.lines[at].passage);
            let (sum, n) = near.fold((0.0, 0.0), |(sum, n), other| (sum + density[other], n + 1.0));
            self.lines[at].boost = ((sum / n + 0.1 * mean) / mean).powf(power);
        }
    }

    fn cover_text(&mut self, text: &str) {
        let (worth, is_triple, again) = (&mut self.worth, &self.is_triple, self.again);
        self.lexicon.scan(text, &mut |feature, _| {
            if let Some(left) = worth.get_mut(feature as usize) {
                *left *= if is_triple[feature as usize] { 0.0 } else { again };
            }
        });
    }

    fn cover(&mut self, features: std::ops::Range<usize>) {
        for &feature in &self.pool[features] {
            self.worth[feature as usize] *= if self.is_triple[feature as usize] { 0.0 } else { self.again };
        }
    }

    fn gain(&self, features: std::ops::Range<usize>) -> f32 {
        self.pool[features].iter().map(|&feature| self.worth[feature as usize]).sum()
    }

    fn score(&self, line: usize, is_open: &[bool]) -> f32 {
        let line = &self.lines[line];
        let (label, label_cost) = &self.labels[line.source];
        let gain = self.gain(line.features.clone()) * line.boost;
        if is_open[line.source] {
            return gain / line.cost;
        }
        // A heading serves several lines: the first one pays for half of it.
        (gain + self.gain(label.clone())) / (line.cost + label_cost)
    }

    fn greedy(&mut self, past: &Past<'a>, limit: usize, count: &dyn Fn(&str) -> usize) -> Vec<Pick<'a>> {
        let mut is_open = vec![false; past.sources.len()];
        let mut of_source: Vec<Vec<u32>> = vec![Vec::new(); past.sources.len()];
        let mut heap = BinaryHeap::with_capacity(self.lines.len());
        for line in 0..self.lines.len() {
            of_source[self.lines[line].source].push(line as u32);
            heap.push(Candidate { score: self.score(line, &is_open), line });
        }
        let (mut picks, mut spent, mut seen) = (Vec::new(), 0, HashSet::new());
        while let Some(Candidate { score, line }) = heap.pop() {
            let now = self.score(line, &is_open);
            if now <= 0.0 || seen.contains(self.lines[line].text) {
                continue;
            }
            if now < score * 0.999 {
                heap.push(Candidate { score: now, line });
                continue;
            }
            let Line { text, passage, source, ref features, .. } = self.lines[line];
            let features = features.clone();
            let opens = !is_open[source];
            let label = if opens { count(&past.sources[source].label) + 1 } else { 0 };
            let cost = count(text) + self.overhead as usize + label;
            if spent + cost > limit {
                if limit - spent < 24 {
                    break;
                }
                continue;
            }
            spent += cost;
            seen.insert(text);
            self.cover(features);
            if opens {
                is_open[source] = true;
                self.cover(self.labels[source].0.clone());
                for &other in &of_source[source] {
                    heap.push(Candidate { score: self.score(other as usize, &is_open), line: other as usize });
                }
            }
            picks.push(Pick { text, source, passage, line });
        }
        picks
    }
}

fn note(
    mentions: &mut Vec<Mentions>,
    feature: Feature,
    shape: Shape,
    message: u32,
    is_tool: bool,
    rate: f32,
    tool_again: f32,
) {
    let feature = feature as usize;
    if feature == mentions.len() {
        mentions.push(Mentions {
            agent: 0.0,
            tool: 0.0,
            agent_message: u32::MAX,
            message: u32::MAX,
            messages: 0.0,
            shape,
        });
    }
    let known = &mut mentions[feature];
    let is_new = known.message != message;
    if is_new {
        known.messages += 1.0;
        known.message = message;
    }
    if is_tool {
        let (less, more) = if known.tool < rate { (known.tool, rate) } else { (rate, known.tool) };
        known.tool = more + if is_new { less * tool_again } else { 0.0 };
    } else if known.agent_message != message {
        known.agent += rate;
        known.agent_message = message;
    }
}

/// The chance that one mention in this passage comes back, were it the newest.
fn rate(passage: &Passage, last_turn: usize, options: &Options) -> f32 {
    let older = if passage.turn + 1 < last_turn { options.older_turn } else { 1.0 };
    match (passage.voice, passage.class, passage.slot) {
        (Voice::User, ..) => options.user,
        (Voice::Agent, ..) => options.agent,
        (Voice::Call, _, Some(Slot::Aside)) => options.aside,
        (Voice::Call, _, Some(Slot::Replaced)) => options.replaced,
        (Voice::Call, ..) => options.call,
        (Voice::Tool, Some(ToolClass::Read), _) => options.read * older,
        (Voice::Tool, ..) => options.printed * older,
    }
}

fn worth(known: &Mentions, all: &[Mentions], options: &Options) -> f32 {
    let messages = |word: Feature| all[word as usize].messages;
    let (weight, rarest, common) = match known.shape {
        Shape::Word => return 0.0,
        Shape::Name => (options.name, known.messages, options.common_name),
        Shape::Joined(a, b) => (options.joined, messages(a).min(messages(b)), options.common),
        Shape::Triple(a, b, c) => (1.0, messages(a).min(messages(b)).min(messages(c)), options.common),
    };
    let interest = match known.shape {
        Shape::Triple(a, b, c) => (all[a as usize].agent + all[b as usize].agent + all[c as usize].agent) / 3.0,
        Shape::Joined(a, b) => (all[a as usize].agent + all[b as usize].agent) / 2.0,
        _ => known.agent,
    };
    let tool = known.tool * rarest.powf(options.common_tool) * (1.0 + options.interest * interest);
    weight * (known.agent * rarest.powf(common) + tool).min(1.0)
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
