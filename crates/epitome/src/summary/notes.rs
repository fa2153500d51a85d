//! Notes: the chosen lines under their headings, as an agent can use them.
//!
//! Every line below a heading is quoted; it adds headings, message marks and nothing else.

use std::fmt::Write;

use super::form::heading;
use super::passages::{Kind, Past, Source};
use super::section::Section;
use super::select::Pick;
use crate::policy::Form;

/// Renders picks under their sources, in the order of the past.
pub(crate) fn notes(past: &Past<'_>, picks: &[Pick<'_>], form: Form) -> String {
    let mut picks: Vec<&Pick<'_>> = picks.iter().collect();
    picks.sort_by_key(|pick| {
        let source = &past.sources[pick.source];
        (section(source), source.first, pick.source, pick.line)
    });
    let mut out = String::new();
    let (mut last_section, mut last_source) = (None, usize::MAX);
    for pick in picks {
        let source = &past.sources[pick.source];
        if Some(section(source)) != last_section {
            last_section = Some(section(source));
            open_section(&mut out, past, form, section(source), source);
        }
        if pick.source != last_source {
            last_source = pick.source;
            label(&mut out, source, pick.text);
        } else {
            let _ = writeln!(out, "{}", pick.text);
        }
    }
    out
}

fn section(source: &Source) -> Section {
    match source.kind {
        Kind::Request => Section::Requests,
        Kind::File => Section::Files,
        Kind::Note | Kind::Command | Kind::Call => Section::Notes,
    }
}

fn open_section(out: &mut String, past: &Past<'_>, form: Form, section: Section, first: &Source) {
    let _ = match section {
        Section::Requests => writeln!(out, "\nFrom other messages of the user:"),
        Section::Files if !past.root.is_empty() && !first.label.starts_with(['/', '~']) => {
            let heading = heading(form, section).unwrap_or_default();
            writeln!(out, "\n{heading}\n(the first in full is {}{})", past.root, first.label)
        }
        section => writeln!(out, "\n{}", heading(form, section).unwrap_or_default()),
    };
}

fn label(out: &mut String, source: &Source, text: &str) {
    let _ = match source.kind {
        Kind::Note | Kind::Request => writeln!(out, "{} {text}", source.label),
        Kind::File => writeln!(out, "{}{}:\n{text}", source.label, touched(source)),
        Kind::Command | Kind::Call if source.label.contains(text) => writeln!(out, "{}", source.label),
        Kind::Command | Kind::Call => writeln!(out, "{}\n{text}", source.label),
    };
}

fn touched(source: &Source) -> String {
    match (source.edited, source.read) {
        (Some(at), _) => format!(" (edited m{})", at + 1),
        (None, Some(at)) => format!(" (read m{})", at + 1),
        (None, None) => String::new(),
    }
}
