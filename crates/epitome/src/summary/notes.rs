//! Notes: the chosen lines under their headings, as an agent can use them.
//!
//! Every line below a heading is quoted; it adds headings, message marks and nothing else.

use std::fmt::Write;

use super::form::heading;
use super::passages::{Passages, Source, SourceKind};
use super::section::Section;
use super::select::Pick;
use crate::policy::SummaryForm;

/// What stands before the whole path of the first file, when a directory is left out of them all.
pub(super) const FIRST_IN_FULL: &str = "(the first in full is ";

/// Renders picks under their sources, in the order of the past.
pub(crate) fn notes(past: &Passages<'_>, picks: &[Pick<'_>], form: SummaryForm) -> String {
    let mut picks: Vec<&Pick<'_>> = picks.iter().collect();
    picks.sort_by_key(|pick| {
        let source = &past.sources[pick.source];
        (section(source), source.first, pick.source, pick.line)
    });
    let mut out = String::new();
    let mut last: Option<&Pick<'_>> = None;
    for pick in picks {
        let source = &past.sources[pick.source];
        if last.is_none_or(|last| section(&past.sources[last.source]) != section(source)) {
            open_section(&mut out, past, form, section(source), source);
        }
        match last {
            Some(last) if last.source == pick.source => line(&mut out, pick, last.line + 1 == pick.line),
            _ => label(&mut out, source, pick.text),
        }
        last = Some(pick);
    }
    out
}

/// Writes a line, on the line of the piece before it when it goes on there.
fn line(out: &mut String, pick: &Pick<'_>, is_next: bool) {
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

fn open_section(out: &mut String, past: &Passages<'_>, form: SummaryForm, section: Section, first: &Source) {
    let _ = match section {
        Section::Requests => writeln!(out, "\nFrom other messages of the user:"),
        Section::Files if !past.root.is_empty() && !first.label.starts_with(['/', '~']) => {
            let heading = heading(form, section).unwrap_or_default();
            writeln!(out, "\n{heading}\n{FIRST_IN_FULL}{}{})", past.root, first.label)
        }
        section => writeln!(out, "\n{}", heading(form, section).unwrap_or_default()),
    };
}

fn label(out: &mut String, source: &Source, text: &str) {
    let _ = match source.kind {
        SourceKind::Note | SourceKind::Request => writeln!(out, "{} {text}", source.label),
        SourceKind::File => writeln!(out, "{}{}:", source.label, touched(source)),
        SourceKind::Command | SourceKind::Call => writeln!(out, "{}", source.label),
    };
    if !matches!(source.kind, SourceKind::Note | SourceKind::Request) && !text.is_empty() {
        let _ = writeln!(out, "{text}");
    }
}

fn touched(source: &Source) -> String {
    match (source.edited, source.read) {
        (Some(at), _) => format!(" (edited m{at})"),
        (None, Some(at)) => format!(" (read m{at})"),
        (None, None) => String::new(),
    }
}
