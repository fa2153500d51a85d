//! Asking again: how often, after how long, and when not at all. Nothing here sleeps.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::HeaderMap;

use super::ModelError;

/// The retry settings of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The most attempts, the first one included.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles from there, with up to as much again by chance.
    pub base: Duration,
    /// The longest wait that is our own choice.
    pub max: Duration,
    /// No attempt begins later than this after the first one did.
    pub total: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            attempts: 4,
            base: Duration::from_millis(500),
            max: Duration::from_secs(20),
            total: Duration::from_secs(120),
        }
    }
}

impl Retry {
    /// One attempt and no other.
    pub fn never() -> Self {
        Retry { attempts: 1, ..Retry::default() }
    }
}

/// The attempts that one call has left.
#[derive(Debug)]
pub(super) struct RetrySchedule {
    waits: ExponentialBackoff,
    retry: Retry,
}

impl RetrySchedule {
    pub(super) fn new(retry: Retry) -> Self {
        let more = retry.attempts.saturating_sub(1) as usize;
        let waits = ExponentialBuilder::new().with_jitter().with_min_delay(retry.base).with_max_delay(retry.max);
        RetrySchedule { waits: waits.with_max_times(more).build(), retry }
    }

    /// Returns the wait before the next attempt, at least what the provider asks for; `None` when there is none.
    pub(super) fn wait(&mut self, error: &ModelError, elapsed: Duration) -> Option<Duration> {
        if !error.is_passing() {
            return None;
        }
        let own = self.waits.next()?.min(self.retry.max);
        let asked = if let ModelError::Throttled { after: Some(after), .. } = error { *after } else { Duration::ZERO };
        let wait = own.max(asked);
        (elapsed.saturating_add(wait) <= self.retry.total).then_some(wait)
    }
}

/// Reads the wait that a response asks for: milliseconds, seconds, or a date.
pub(super) fn asked_wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text("retry-after-ms").and_then(|text| seconds(text, 1e-3));
    millis.or_else(|| text("retry-after").and_then(|text| seconds(text, 1.0).or_else(|| until(text, now))))
}

fn seconds(text: &str, unit: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse::<f64>().ok()? * unit).ok()
}

fn until(date: &str, now: Timestamp) -> Option<Duration> {
    let then = rfc2822::parse(date).ok()?.timestamp();
    Some(Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn throttled(after: Option<u64>) -> ModelError {
        ModelError::Throttled { status: 429, after: after.map(Duration::from_secs), message: String::new() }
    }

    fn schedule(attempts: u32) -> RetrySchedule {
        let second = Duration::from_secs(1);
        RetrySchedule::new(Retry { attempts, base: second, max: 4 * second, total: 60 * second })
    }

    #[test]
    fn waits_grow_with_chance_up_to_their_bound_and_end_with_the_attempts() {
        let mut schedule = schedule(5);
        let waits: Vec<f64> = std::iter::from_fn(|| schedule.wait(&throttled(None), Duration::ZERO))
            .map(|wait| wait.as_secs_f64())
            .collect();
        assert_eq!(waits.len(), 4);
        for (wait, (least, most)) in waits.iter().zip([(1.0, 2.0), (2.0, 4.0), (4.0, 4.0), (4.0, 4.0)]) {
            assert!((least..=most).contains(wait), "{waits:?}");
        }
    }

    #[test]
    fn the_provider_is_waited_for_unless_that_takes_too_long_in_all() {
        let seconds = Duration::from_secs;
        assert_eq!(schedule(3).wait(&throttled(Some(30)), Duration::ZERO), Some(seconds(30)));
        assert_eq!(schedule(3).wait(&throttled(Some(30)), seconds(31)), None);
        assert_eq!(schedule(1).wait(&throttled(Some(1)), Duration::ZERO), None);
    }

    #[test]
    fn what_does_not_pass_is_not_waited_for() {
        let refused = ModelError::Refused(401, String::new());
        assert_eq!(schedule(3).wait(&refused, Duration::ZERO), None);
    }

    #[test]
    fn a_wait_is_read_in_each_of_its_forms() {
        let now: Timestamp = "2026-11-16T10:00:00Z".parse().unwrap();
        let asked = |headers: &[(&'static str, &'static str)]| {
            let map = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
            asked_wait(&map, now).map(|wait| wait.as_secs_f64())
        };
        assert_eq!(asked(&[("retry-after", "7")]), Some(7.0));
        assert_eq!(asked(&[("retry-after", "0.25")]), Some(0.25));
        assert_eq!(asked(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(1.5));
        assert_eq!(asked(&[("retry-after", "Mon, 16 Nov 2026 10:00:42 GMT")]), Some(42.0));
        assert_eq!(asked(&[("retry-after", "Mon, 16 Nov 2026 09:00:00 GMT")]), Some(0.0));
        assert_eq!(asked(&[("retry-after", "-3")]), None);
        assert_eq!(asked(&[("retry-after", "soon")]), None);
        assert_eq!(asked(&[]), None);
    }
}
