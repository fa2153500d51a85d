//! The result of a search, and how a model reads it.

use std::ops::RangeInclusive;

use epitome::budget::Tokens;
use serde::Serialize;

/// The result of a search.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RecallResult {
    /// The passages, in the order in which they are worth reading.
    pub hits: Vec<RecallHit>,
    /// The tokens of the answer as text.
    pub tokens: Tokens,
    /// The number of passages that were found and are not shown.
    pub left_out: usize,
    /// The first of those, each with its number and its first line.
    pub others: Vec<LeftOut>,
    /// What became of the search by meaning.
    #[serde(skip_serializing_if = "SearchByMeaning::is_off")]
    pub by_meaning: SearchByMeaning,
}

crate::named_enum! {
    /// What became of the search by meaning, which goes along with that by words where there is an embedding endpoint.
    #[derive(Default, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum SearchByMeaning {
        /// There was none: no endpoint is configured, or there was no word to search for.
        #[default]
        Off = "off",
        /// All passages were compared.
        Done = "done",
        /// Some passages were not compared, because they have no vector yet or are too many; they were searched by words alone.
        Partly = "partly",
        /// The endpoint gave no vector of the words; all passages were searched by words alone.
        Failed = "failed",
    }
}

impl SearchByMeaning {
    /// Tells whether words alone were to be searched.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    pub fn is_off(&self) -> bool {
        *self == SearchByMeaning::Off
    }

    /// The line that tells a reader what was not searched.
    fn note(self) -> Option<&'static str> {
        match self {
            SearchByMeaning::Off | SearchByMeaning::Done => None,
            SearchByMeaning::Partly => Some("[some passages were searched by words alone]"),
            SearchByMeaning::Failed => Some("[searched by words alone: the embedding endpoint gave no answer]"),
        }
    }
}

/// A passage of a message that was compacted.
#[derive(Clone, Debug, Serialize)]
pub struct RecallHit {
    /// The message, as summaries call it: `m41`.
    pub reference: String,
    /// Its place in the log, from 0.
    pub place: u64,
    /// Who said it: user, assistant, tool or other.
    pub role: String,
    /// The tool that was called or answered.
    pub tool: Option<String>,
    /// The file that it shows, changes or names.
    pub file: Option<String>,
    /// True if it is the result of a call that failed.
    pub failed: bool,
    /// The function, type or section that the found line belongs to, where that is not among the lines.
    pub home: Option<String>,
    /// The lines of the message that are shown, from 1.
    pub lines: RangeInclusive<u32>,
    /// The score; comparable within one answer.
    pub score: f64,
    /// The lines.
    pub text: String,
    /// Those of the lines that are not in the file any more.
    pub outdated: Vec<OutdatedLines>,
}

/// Lines of a file that a later message changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutdatedLines {
    /// The lines, numbered as those of the hit.
    pub lines: RangeInclusive<u32>,
    /// The message since which they are not in the file.
    pub by: String,
}

/// A passage that was found and is not shown.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    /// The message: `m41`.
    pub reference: String,
    /// Who said it.
    pub role: String,
    /// The tool that was called or answered.
    pub tool: Option<String>,
    /// The file that it shows, changes or names.
    pub file: Option<String>,
    /// The line that was found.
    pub line: String,
    /// Why it is not shown.
    pub reason: LeftOutReason,
}

/// The reasons for which a passage is not shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOutReason {
    /// There was no room for it.
    NoRoom,
    /// Its lines stand in the prompt.
    InPrompt,
    /// Its lines are shown with this message.
    Repeats(String),
}

impl RecallResult {
    /// The answer as a model reads it.
    pub fn render(&self) -> String {
        if self.hits.is_empty() && self.others.is_empty() {
            let nothing = ["Nothing that left the prompt matches."].into_iter().chain(self.by_meaning.note());
            return nothing.collect::<Vec<_>>().join("\n");
        }
        let mut out: Vec<String> = self.hits.iter().map(RecallHit::render).collect();
        out.extend(Some(self.list()).filter(|list| !list.is_empty()));
        out.join("\n\n")
    }

    /// What is not shown: the lines that were found, then numbers.
    fn list(&self) -> String {
        let mut lines = Vec::new();
        let unseen: Vec<String> =
            self.others.iter().filter(|one| one.reason == LeftOutReason::NoRoom).map(LeftOut::render).collect();
        if !unseen.is_empty() {
            lines.push("Found as well; read them by their numbers:".to_owned());
            lines.extend(unseen);
        }
        let in_prompt = self.numbers(|reason| *reason == LeftOutReason::InPrompt);
        let repeated = self.numbers(|reason| matches!(reason, LeftOutReason::Repeats(_)));
        lines.extend((!in_prompt.is_empty()).then(|| format!("[in the prompt already: {in_prompt}]")));
        lines.extend((!repeated.is_empty()).then(|| format!("[the same lines as above: {repeated}]")));
        let more = self.left_out.saturating_sub(self.others.len());
        if more > 0 {
            lines.push(format!("[{more} more left out; narrow it with who, file, tool, after or newest]"));
        }
        lines.extend(self.by_meaning.note().map(str::to_owned));
        lines.join("\n")
    }

    fn numbers(&self, is_wanted: impl Fn(&LeftOutReason) -> bool) -> String {
        let mut numbers: Vec<&str> = Vec::new();
        for one in self.others.iter().filter(|one| is_wanted(&one.reason)) {
            if !numbers.contains(&one.reference.as_str()) {
                numbers.push(&one.reference);
            }
        }
        numbers.join(", ")
    }
}

/// Names a message: `m41 tool read src/cart.rs`.
fn label(reference: &str, role: &str, tool: Option<&str>, file: Option<&str>) -> String {
    let named = [Some(reference), Some(role), tool, file];
    named.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

impl RecallHit {
    /// Returns the line above its text.
    pub(super) fn heading(&self) -> String {
        let (first, last) = (self.lines.start(), self.lines.end());
        let label = label(&self.reference, &self.role, self.tool.as_deref(), self.file.as_deref());
        let failed = if self.failed { ", failed" } else { "" };
        let home = self.home.as_ref().map(|home| format!(", in: {home}")).unwrap_or_default();
        format!("[{label}{failed}, lines {first}-{last}{home}]")
    }

    fn render(&self) -> String {
        let mut out = format!("{}\n{}", self.heading(), self.text);
        if !self.outdated.is_empty() {
            let told: Vec<String> = self.outdated.iter().map(OutdatedLines::render).collect();
            out.push_str(&format!("\n[not in the file any more: {}]", told.join("; ")));
        }
        out
    }
}

impl OutdatedLines {
    fn render(&self) -> String {
        let (first, last) = (self.lines.start(), self.lines.end());
        let lines = if first == last { format!("line {first}") } else { format!("lines {first}-{last}") };
        format!("{lines}, since {}", self.by)
    }
}

impl LeftOut {
    fn render(&self) -> String {
        format!("{}: {}", label(&self.reference, &self.role, self.tool.as_deref(), self.file.as_deref()), self.line)
    }

    /// About what it costs.
    pub(super) fn cost(&self) -> usize {
        if self.reason == LeftOutReason::NoRoom { self.render().len() / 3 + 2 } else { 4 }
    }
}
