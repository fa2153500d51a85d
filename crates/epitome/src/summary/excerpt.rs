//! Excerpts: the chosen lines under their headings, as an agent can use them.
//!
//! ```text
//! ## Files, with lines from them
//! (paths are below /home/me/shop/)
//! src/cart.rs (edited m41):
//! fn total(&self) -> Cents {
//!   self.lines.iter().map(Line::price).sum()
//! Without lines: src/tax.rs (read m12), src/main.rs (read m9)
//!
//! ## The work so far, in order
//! m38: The rounding error is in total(), not in the tax table.
//! (the user spoke: m39)
//! m40 $ cargo test cart
//! test cart::rounds_half_up ... FAILED
//! ```
//!
//! Every line below a heading is quoted. A line of a file stands below the definition or the heading that it belongs to, indented, even
//! where that was not chosen by itself. The story says where the user spoke, whose words stand further up: what came before may be
//! overruled by them. `passages.rs` reads this layout back in the next round.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use super::headings::{OTHER_WORDS, Section, heading};
use super::passages::{Passage, Passages, RESULT, Source, SourceKind, TextOrigin};
use super::select::Pick;
use super::set_apart::set_apart_line;
use crate::files::is_definition;
use crate::policy::SummaryForm;

/// Stands before the directory that is left out of all paths.
pub(super) const PATHS_BELOW: &str = "(paths are below ";
/// Stands before the files of which no line is quoted.
pub(super) const WITHOUT_LINES: &str = "Without lines: ";

/// Stands before the numbers of the user's messages at a place of the story.
pub(super) const SPOKE: &str = "(the user spoke: ";

/// Renders picks under their sources, in the order of the thread; the directory of the paths once.
///
/// The user's words up to `spoken_until` are marked in the story.
pub(super) fn render_excerpts<'a>(
    passages: &Passages<'a>,
    picks: &[Pick<'a>],
    form: SummaryForm,
    is_root_told: bool,
    spoken_until: usize,
) -> String {
    let quoted: HashSet<usize> = picks.iter().filter(|pick| !pick.text.is_empty()).map(|pick| pick.source).collect();
    let is_bare =
        |pick: &Pick<'_>| passages.sources[pick.source].kind == SourceKind::File && !quoted.contains(&pick.source);
    let (bare, mut picks): (Vec<&Pick<'a>>, Vec<&Pick<'a>>) = picks.iter().partition(|pick| is_bare(pick));
    let first_lines = first_lines(&picks);
    picks.sort_by_cached_key(|pick| {
        let source = &passages.sources[pick.source];
        // A line without a home keeps its own place.
        let first = first_lines.get(&group(pick)).copied().unwrap_or(pick.line);
        (section(source), source.first, pick.source, first, pick.line)
    });
    let bare: Vec<&Source> = bare.into_iter().map(|pick| &passages.sources[pick.source]).collect();
    let is_spoken = |passage: &&Passage<'_>| passage.origin == TextOrigin::User && passage.message < spoken_until;
    let spoken = passages.passages.iter().filter(is_spoken).collect();
    let mut writer = ExcerptWriter { out: String::new(), passages, form, is_root_told, open: None, home: "", spoken };
    let mut last: Option<&Pick<'a>> = None;
    let files = picks.iter().filter(|pick| section(&passages.sources[pick.source]) <= Section::Files).count();
    if files == 0 && !passages.root.is_empty() && !is_root_told {
        // Paths above are shortened too.
        writer.open_section(Section::Files);
    }
    for (at, pick) in picks.into_iter().enumerate() {
        if at == files {
            writer.write_bare(&bare);
        }
        let source = &passages.sources[pick.source];
        if section(source) == Section::Notes {
            writer.write_spoken(source.first);
        }
        writer.open_section(section(source));
        let is_same = last.is_some_and(|last| last.source == pick.source);
        if source.kind == SourceKind::File {
            if !is_same {
                write_label(&mut writer.out, source, "");
            }
            writer.write_in_home(pick, last.filter(|_| is_same));
        } else if is_same {
            write_line(&mut writer.out, pick, last.is_some_and(|last| last.line + 1 == pick.line));
        } else {
            write_label(&mut writer.out, source, pick.text);
        }
        last = Some(pick);
    }
    writer.write_spoken(usize::MAX);
    if files == 0 && last.is_none()
        || last.is_some_and(|last| section(&passages.sources[last.source]) <= Section::Files)
    {
        writer.write_bare(&bare);
    }
    writer.out
}

/// What keeps lines of a file together: the definition that they belong to, whichever edits and readings they come from.
fn group<'a>(pick: &Pick<'a>) -> (usize, &'a str) {
    let own = if is_definition(pick.text) { pick.text } else { "" };
    (pick.source, pick.home.unwrap_or(own))
}

/// Returns the first chosen line of each definition.
fn first_lines<'a>(picks: &[&Pick<'a>]) -> HashMap<(usize, &'a str), usize> {
    let mut first = HashMap::new();
    for pick in picks.iter().filter(|pick| !group(pick).1.is_empty()) {
        let line = first.entry(group(pick)).or_insert(pick.line);
        *line = pick.line.min(*line);
    }
    first
}

/// Writes excerpts, with a heading wherever the section changes.
struct ExcerptWriter<'p, 'a> {
    out: String,
    passages: &'p Passages<'a>,
    form: SummaryForm,
    is_root_told: bool,
    open: Option<Section>,
    /// The definition or heading of the file that was written last.
    home: &'a str,
    /// The user's words that the story has not come to yet.
    spoken: Vec<&'p Passage<'a>>,
}

impl<'a> ExcerptWriter<'_, 'a> {
    /// Writes a line of a file below the definition that it belongs to; `last` is the line of the same file before it.
    fn write_in_home(&mut self, pick: &Pick<'a>, last: Option<&Pick<'a>>) {
        if last.is_none() {
            self.home = "";
        }
        let is_next = last.is_some_and(|last| last.line + 1 == pick.line);
        if pick.text.is_empty() || pick.continues && is_next {
            return write_line(&mut self.out, pick, is_next);
        }
        let home = pick.home;
        if let Some(home) = home.filter(|home| *home != self.home) {
            let _ = writeln!(self.out, "{}", set_apart_line(home));
            self.home = home;
        }
        if is_definition(pick.text) {
            self.home = pick.text;
        } else if home.is_some() {
            self.out.push_str("  ");
        }
        write_line(&mut self.out, pick, is_next);
    }

    /// Tells where in the story the user spoke, up to a message; before its first line nothing is told.
    fn write_spoken(&mut self, message: usize) {
        let later = self.spoken.partition_point(|passage| passage.message < message);
        let said: Vec<&Passage<'_>> = self.spoken.drain(..later).collect();
        if self.open != Some(Section::Notes) {
            return;
        }
        let label =
            |passage: &&Passage<'_>| self.passages.sources[passage.source].label.trim_end_matches(':').to_owned();
        let mut numbers: Vec<String> = said.iter().map(label).collect();
        numbers.dedup();
        if !numbers.is_empty() {
            let _ = writeln!(self.out, "{SPOKE}{})", numbers.join(", "));
        }
    }

    fn open_section(&mut self, section: Section) {
        if self.open.replace(section) == Some(section) {
            return;
        }
        let heading = heading(self.form, section).unwrap_or_default();
        let _ = match section {
            Section::Requests => writeln!(self.out, "\n{OTHER_WORDS}"),
            Section::Files if !self.passages.root.is_empty() && !self.is_root_told => {
                writeln!(self.out, "\n{heading}\n{PATHS_BELOW}{})", self.passages.root)
            }
            _ => writeln!(self.out, "\n{heading}"),
        };
    }

    /// Writes the names of files of which no line was chosen.
    fn write_bare(&mut self, files: &[&Source]) {
        if files.is_empty() {
            return;
        }
        self.open_section(Section::Files);
        let named = files.iter().map(|source| match (source.edited, source.read) {
            (Some(at), _) => format!("{} (edited m{at})", source.label),
            (None, Some(at)) => format!("{} (read m{at})", source.label),
            (None, None) => source.label.clone(),
        });
        let named: Vec<String> = named.collect();
        let _ = writeln!(self.out, "{WITHOUT_LINES}{}", named.join(", "));
    }
}

/// Writes a line; a piece of a long one joins the piece before it.
fn write_line(out: &mut String, pick: &Pick<'_>, is_next: bool) {
    if pick.continues && is_next {
        out.pop();
    }
    if !pick.text.is_empty() {
        // Behind the beginning of its line, nothing is in the first column.
        let begins = out.is_empty() || out.ends_with('\n');
        out.push_str(&if begins { set_apart_line(pick.text) } else { pick.text.into() });
        out.push('\n');
    }
}

fn section(source: &Source) -> Section {
    match source.kind {
        SourceKind::Request => Section::Requests,
        SourceKind::File => Section::Files,
        SourceKind::Note | SourceKind::Command | SourceKind::Call => Section::Notes,
    }
}

/// Writes a source's heading with the first line under it; a note and a request begin on the line of their heading.
fn write_label(out: &mut String, source: &Source, text: &str) {
    // What came of a call stands among the newest actions already.
    let label = match source.label.split_once(RESULT) {
        Some((call, _)) if source.is_told => call,
        _ => &source.label,
    };
    let _ = match (source.kind, source.edited, source.read) {
        (SourceKind::Note | SourceKind::Request, _, _) => write!(out, "{label} "),
        (SourceKind::File, Some(at), _) => writeln!(out, "{label} (edited m{at}):"),
        (SourceKind::File, None, Some(at)) => writeln!(out, "{label} (read m{at}):"),
        (SourceKind::File, None, None) => writeln!(out, "{label}:"),
        (SourceKind::Command | SourceKind::Call, _, _) => writeln!(out, "{label}"),
    };
    let is_behind_label = matches!(source.kind, SourceKind::Note | SourceKind::Request);
    if !text.is_empty() || is_behind_label {
        let _ = writeln!(out, "{}", if is_behind_label { text.into() } else { set_apart_line(text) });
    }
}
