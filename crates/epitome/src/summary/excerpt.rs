//! Excerpts: the chosen lines under their headings, as an agent can use them.
//!
//! ```text
//! ## Files, with lines from them
//! (the first in full is /home/me/shop/src/cart.rs)
//! src/cart.rs (edited m41):
//! fn total(&self) -> Cents {
//!
//! ## The work so far, in order
//! m38: The rounding error is in total(), not in the tax table.
//! m40 $ cargo test cart
//! test cart::rounds_half_up ... FAILED
//! ```
//!
//! Every line below a heading is quoted. `passages.rs` reads this layout back in the next round.

use std::fmt::Write;

use super::headings::{Section, heading};
use super::passages::{Passages, Source, SourceKind};
use super::select::Pick;
use crate::policy::SummaryForm;

/// Stands before the whole path of the first file, where a common directory is left out of all of them.
pub(super) const FIRST_IN_FULL: &str = "(the first in full is ";

/// Renders picks under their sources, in the order of the thread.
pub(super) fn render_excerpts(passages: &Passages<'_>, picks: &[Pick<'_>], form: SummaryForm) -> String {
    let mut picks: Vec<&Pick<'_>> = picks.iter().collect();
    picks.sort_by_key(|pick| {
        let source = &passages.sources[pick.source];
        (section(source), source.first, pick.source, pick.line)
    });
    let mut out = String::new();
    let mut last: Option<&Pick<'_>> = None;
    for pick in picks {
        let source = &passages.sources[pick.source];
        if last.is_none_or(|last| section(&passages.sources[last.source]) != section(source)) {
            open_section(&mut out, passages, form, section(source), source);
        }
        match last {
            Some(last) if last.source == pick.source => write_line(&mut out, pick, last.line + 1 == pick.line),
            _ => write_label(&mut out, source, pick.text),
        }
        last = Some(pick);
    }
    out
}

/// Writes a line; a piece of a long one joins the piece before it.
fn write_line(out: &mut String, pick: &Pick<'_>, is_next: bool) {
    if pick.continues && is_next {
        out.pop();
    }
    if !pick.text.is_empty() {
        out.push_str(pick.text);
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

fn open_section(out: &mut String, passages: &Passages<'_>, form: SummaryForm, section: Section, first: &Source) {
    let _ = match section {
        Section::Requests => writeln!(out, "\nFrom other messages of the user:"),
        Section::Files if !passages.root.is_empty() && !first.label.starts_with(['/', '~']) => {
            let heading = heading(form, section).unwrap_or_default();
            writeln!(out, "\n{heading}\n{FIRST_IN_FULL}{}{})", passages.root, first.label)
        }
        section => writeln!(out, "\n{}", heading(form, section).unwrap_or_default()),
    };
}

/// Writes a source's heading with the first line under it; a note and a request begin on the line of their heading.
fn write_label(out: &mut String, source: &Source, text: &str) {
    let label = &source.label;
    let _ = match (source.kind, source.edited, source.read) {
        (SourceKind::Note | SourceKind::Request, _, _) => write!(out, "{label} "),
        (SourceKind::File, Some(at), _) => writeln!(out, "{label} (edited m{at}):"),
        (SourceKind::File, None, Some(at)) => writeln!(out, "{label} (read m{at}):"),
        (SourceKind::File, None, None) => writeln!(out, "{label}:"),
        (SourceKind::Command | SourceKind::Call, _, _) => writeln!(out, "{label}"),
    };
    if !text.is_empty() || matches!(source.kind, SourceKind::Note | SourceKind::Request) {
        let _ = writeln!(out, "{text}");
    }
}
