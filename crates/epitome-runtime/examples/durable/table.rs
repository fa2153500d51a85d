//! The table: ratios with their targets, and the medians they are made of.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

/// The times of one side.
#[derive(Debug, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    /// One more.
    pub fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// The one in the middle, in microseconds.
    pub fn median_us(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
    }

    /// This side's median as a multiple of another's.
    pub fn of(&self, other: &Times) -> f64 {
        self.median_us() / other.median_us()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.median_us() {
            us if us < 10_000.0 => write!(f, "{us:.0} us"),
            us => write!(f, "{:.1} ms", us / 1e3),
        }
    }
}

/// Everything that was measured.
#[derive(Debug)]
pub struct Table {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    name: String,
    value: String,
    /// The most that it may be, and whether it is.
    target: Option<(f64, bool)>,
    details: String,
}

impl Table {
    /// An empty one.
    pub fn new() -> Self {
        Table { lines: Vec::new() }
    }

    /// A ratio that must not be above a target.
    pub fn ratio(&mut self, name: impl Into<String>, ratio: f64, most: f64, details: impl Into<String>) {
        let target = Some((most, ratio <= most));
        self.lines.push(Line { name: name.into(), value: format!("{ratio:.2}x"), target, details: details.into() });
    }

    /// Something that is shown alone.
    pub fn shown(&mut self, name: impl Into<String>, value: impl Into<String>, details: impl Into<String>) {
        self.lines.push(Line { name: name.into(), value: value.into(), target: None, details: details.into() });
    }

    /// Whether every target is met.
    pub fn passes(&self) -> bool {
        self.lines.iter().all(|line| line.target.is_none_or(|(_, met)| met))
    }

    /// Prints it.
    pub fn print(&self) -> io::Result<()> {
        let width = self.lines.iter().map(|line| line.name.len()).max().unwrap_or_default();
        let mut out = io::stdout().lock();
        for Line { name, value, target, details } in &self.lines {
            let (verdict, bound) = match target {
                Some((most, met)) => (if *met { "PASS" } else { "FAIL" }, format!("at most {most}x")),
                None => ("", "no target".to_owned()),
            };
            writeln!(out, "{verdict:4}  {name:<width$}  {value:>10}  {bound:<13}  {details}")?;
        }
        Ok(())
    }
}
