//! The terminal that output is for: its colors and its width.
//!
//! Colors follow `--color`, `NO_COLOR`, `CLICOLOR_FORCE` and `TERM=dumb`. Rows are cut only where a terminal would wrap
//! them or `--width` asks for it: a pipe gets everything.

use std::io::{IsTerminal as _, stdout};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Color, Style};
use clap::ValueEnum;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

use crate::excerpt::ContentKind;

/// The narrowest width that rows are cut to; below it nothing readable is left.
pub const WIDTH_MIN: usize = 40;

/// The most blocks of a strip, where the screen is wider than that.
const STRIP_BLOCKS_MAX: usize = 72;

/// The value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal, unless the environment objects.
    #[default]
    Auto,
    Always,
    Never,
}

impl From<ColorArg> for ColorChoice {
    fn from(arg: ColorArg) -> Self {
        match arg {
            ColorArg::Auto => ColorChoice::Auto,
            ColorArg::Always => ColorChoice::Always,
            ColorArg::Never => ColorChoice::Never,
        }
    }
}

/// The screen that text is made for.
///
/// Decided once, before any verb runs, and passed by value: what a verb prints depends on its input and on this alone.
/// Text is styled last, after it was cut and padded, because escapes have no width and must not be cut.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    color: bool,
    /// The columns of a row; `None` where rows are not cut.
    width: Option<usize>,
}

impl Screen {
    /// Returns the screen behind standard output.
    pub fn of_stdout(color: ColorArg, width: Option<usize>) -> Self {
        let choice = match color {
            ColorArg::Auto => AutoStream::choice(&stdout()),
            asked => asked.into(),
        };
        Screen { color: choice != ColorChoice::Never, width: width.or_else(terminal_width) }
    }

    /// Returns a screen without colors, whatever terminal the tests run in.
    #[cfg(test)]
    pub fn plain(width: Option<usize>) -> Self {
        Screen { color: false, width }
    }

    /// Styles a heading.
    pub fn head(self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// Styles something secondary.
    pub fn dim(self, text: &str) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    /// Styles an error.
    pub fn bad(self, text: &str) -> String {
        self.styled(color(AnsiColor::Red), text)
    }

    /// Styles a line of a difference by its mark.
    pub fn marked(self, mark: char, text: &str) -> String {
        match mark {
            '-' => self.styled(color(AnsiColor::Red), text),
            '+' => self.styled(color(AnsiColor::Green), text),
            '~' => self.styled(color(AnsiColor::Yellow), text),
            _ => text.to_owned(),
        }
    }

    fn styled(self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Cuts a line, which has no colors yet, to the width of the screen.
    pub fn cut(self, line: &str) -> String {
        self.width.map_or_else(|| line.to_owned(), |width| cut_to(line, width))
    }

    pub fn width(self) -> Option<usize> {
        self.width
    }

    /// Draws amounts, each with its kind, as one line of blocks: colored, or letters without color.
    pub fn strip(self, amounts: &[(ContentKind, u64)]) -> String {
        let total: u64 = amounts.iter().map(|(_, amount)| amount).sum();
        if total == 0 {
            return String::new();
        }
        let blocks = self.width.map_or(STRIP_BLOCKS_MAX, |width| STRIP_BLOCKS_MAX.min(width - 2));
        (0..blocks).map(|block| self.mark(heaviest(amounts, block, blocks, total))).collect()
    }

    /// Draws one block of a strip.
    pub fn mark(self, kind: ContentKind) -> String {
        if self.color { self.styled(color(color_of(kind)), "█") } else { kind.letter().to_string() }
    }

    /// Draws a bar for a share of a whole.
    pub fn bar(self, part: u64, whole: u64, width: usize) -> String {
        let filled = (part as f64 / whole.max(1) as f64 * width as f64).round() as usize;
        "#".repeat(filled.clamp(usize::from(part > 0), width))
    }
}

/// Returns the columns of the terminal behind standard output; `COLUMNS` overrides what the terminal says.
fn terminal_width() -> Option<usize> {
    if !stdout().is_terminal() {
        return None;
    }
    let variable =
        std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|&columns| columns > 0);
    let terminal = || terminal_size::terminal_size_of(stdout()).map(|(width, _)| usize::from(width.0));
    variable.or_else(terminal).filter(|&width| width > 0).map(|width| width.max(WIDTH_MIN))
}

/// Returns the columns that a text takes, without its colors.
pub fn width_of(text: &str) -> usize {
    anstream::adapter::strip_str(text).map(UnicodeWidthStr::width).sum()
}

/// Cuts a plain text to a width, with `…` for the rest.
pub fn cut_to(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut taken = 0;
    let mut out = String::new();
    for c in text.chars() {
        taken += c.width().unwrap_or(0);
        if taken > width.saturating_sub(1) {
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    out + "…"
}

/// Returns the kind that fills most of a block.
fn heaviest(amounts: &[(ContentKind, u64)], block: usize, blocks: usize, total: u64) -> ContentKind {
    let edge = |block: usize| block as f64 * total as f64 / blocks as f64;
    let (from, to) = (edge(block), edge(block + 1));
    let mut weights = [0.0_f64; ContentKind::ALL.len()];
    let mut at = 0.0;
    for (kind, amount) in amounts {
        let end = at + *amount as f64;
        weights[*kind as usize] += (end.min(to) - at.max(from)).max(0.0);
        at = end;
    }
    let heavier = |a: &ContentKind, b: &ContentKind| weights[*a as usize].total_cmp(&weights[*b as usize]);
    ContentKind::ALL.into_iter().rev().max_by(heavier).unwrap_or(ContentKind::Other)
}

fn color(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(color)))
}

fn color_of(kind: ContentKind) -> AnsiColor {
    match kind {
        ContentKind::System => AnsiColor::BrightBlack,
        ContentKind::User => AnsiColor::Green,
        ContentKind::Assistant => AnsiColor::Blue,
        ContentKind::Reasoning => AnsiColor::Magenta,
        ContentKind::Call => AnsiColor::Cyan,
        ContentKind::Result => AnsiColor::Yellow,
        ContentKind::Image => AnsiColor::BrightMagenta,
        ContentKind::Summary => AnsiColor::BrightGreen,
        ContentKind::Other => AnsiColor::White,
    }
}
