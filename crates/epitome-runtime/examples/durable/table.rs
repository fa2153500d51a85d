//! The table: ratios with their targets, and the times they are made of.

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

    /// The mean of the middle half, in microseconds. A disk answers either at once or after its next tick: a median
    /// jumps from one to the other, this does not; and like a median it does not see the few that took long.
    pub fn middle_us(&self) -> f64 {
        let mut sorted: Vec<f64> = self.0.iter().map(|took| took.as_secs_f64() * 1e6).collect();
        sorted.sort_by(f64::total_cmp);
        let quarter = sorted.len() / 4;
        let middle = &sorted[quarter..sorted.len() - quarter];
        middle.iter().sum::<f64>() / middle.len() as f64
    }

    /// This side's middle as a multiple of another's.
    pub fn of(&self, other: &Times) -> f64 {
        self.middle_us() / other.middle_us()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.middle_us() {
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
