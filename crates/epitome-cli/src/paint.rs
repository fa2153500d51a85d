//! Color and bars. Nothing is colored unless a terminal is looking and `NO_COLOR` is not set.

use std::io::IsTerminal;

use crate::sketch::Kind;

/// Whether and how to color.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    color: bool,
}

/// How many blocks a strip has.
const STRIP_BLOCKS: usize = 72;

impl Paint {
    /// Colors if standard output is a terminal and nobody objects.
    pub fn for_stdout() -> Self {
        let objected = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Paint { color: std::io::stdout().is_terminal() && !objected && !dumb }
    }

    /// A heading.
    pub fn head(self, text: &str) -> String {
        self.code("1", text)
    }

    /// Something secondary.
    pub fn dim(self, text: &str) -> String {
        self.code("2", text)
    }

    /// Something that is wrong.
    pub fn bad(self, text: &str) -> String {
        self.code("31", text)
    }

    fn code(self, code: &str, text: &str) -> String {
        match self.color {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    /// One line of blocks for a row of amounts, each with its kind: colored blocks, or letters without color.
    pub fn strip(self, amounts: &[(Kind, u64)]) -> String {
        let total: u64 = amounts.iter().map(|(_, amount)| amount).sum();
        if total == 0 {
            return String::new();
        }
        (0..STRIP_BLOCKS).map(|block| self.block(heaviest(amounts, block, total))).collect()
    }

    fn block(self, kind: Kind) -> String {
        match self.color {
            true => format!("\x1b[{}m█\x1b[0m", color_of(kind)),
            false => kind.letter().to_string(),
        }
    }

    /// The mark of a kind in a strip, for its legend.
    pub fn mark(self, kind: Kind) -> String {
        self.block(kind)
    }

    /// A bar for a share of a whole.
    pub fn bar(self, part: u64, whole: u64, width: usize) -> String {
        let filled = (part as f64 / whole.max(1) as f64 * width as f64).round() as usize;
        "#".repeat(filled.clamp(usize::from(part > 0), width))
    }
}

/// The kind that fills most of a block.
fn heaviest(amounts: &[(Kind, u64)], block: usize, total: u64) -> Kind {
    let edge = |block: usize| block as f64 * total as f64 / STRIP_BLOCKS as f64;
    let (from, to) = (edge(block), edge(block + 1));
    let mut weights = [0.0_f64; Kind::ALL.len()];
    let mut at = 0.0;
    for (kind, amount) in amounts {
        let end = at + *amount as f64;
        weights[*kind as usize] += (end.min(to) - at.max(from)).max(0.0);
        at = end;
    }
    let heavier = |a: &Kind, b: &Kind| weights[*a as usize].total_cmp(&weights[*b as usize]);
    Kind::ALL.into_iter().rev().max_by(heavier).unwrap_or(Kind::Other)
}

fn color_of(kind: Kind) -> &'static str {
    match kind {
        Kind::System => "90",
        Kind::User => "32",
        Kind::Assistant => "34",
        Kind::Reasoning => "35",
        Kind::Call => "36",
        Kind::Result => "33",
        Kind::Image => "95",
        Kind::Summary => "92",
        Kind::Other => "37",
    }
}
