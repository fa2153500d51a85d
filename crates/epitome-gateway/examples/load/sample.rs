//! Samples of a duration, and what they say.

use std::time::Duration;

/// How long something took, many times.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<Duration>);

impl Sample {
    pub fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// The duration that this share of them stays within, in microseconds.
    pub fn at(&self, share: f64) -> f64 {
        let mut all = self.0.clone();
        all.sort_unstable();
        let place = (share * (all.len().saturating_sub(1)) as f64).round() as usize;
        all.get(place).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Microseconds for people.
pub fn micros(micros: f64) -> String {
    match micros.abs() {
        small if small < 10_000.0 => format!("{micros:.0} µs"),
        _ => format!("{:.1} ms", micros / 1000.0),
    }
}
