//! The circuit breaker of an endpoint. It reads no clock and waits for nothing: moments are given to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ModelError;

/// The settings of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// The failures in a row after which it opens.
    pub failures: u32,
    /// The time that it stays open.
    pub rest: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        BreakerSettings { failures: 8, rest: Duration::from_secs(30) }
    }
}

/// The circuit breaker of an endpoint; clones share its state.
///
/// ```text
///         ┌── alive: failures = 0
///         ▼
///     closed ──(8 failures in a row)──► open ──(30 s later, the next call)──► probing
///         ▲                              ▲                                      │
///         └──────────── alive ───────────┼───────────────── failing ────────────┤
///                                        └── the probe was dropped unanswered ──┘  (the next call may probe at once)
/// ```
///
/// While it is open or probing, every other call fails at once with [`ModelError::Open`]. A call that began before the
/// breaker opened changes nothing when it ends: it knows nothing new. A [`CallPermit`] that is dropped without a result
/// counts as neither; without that rule an aborted probe would leave the breaker in `probing` for good.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    trip: BreakerSettings,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Calls are let through.
    Closed { failures: u32 },
    /// Calls fail at once.
    Open { failures: u32, until: Instant },
    /// One call is under way; the others fail at once.
    Probing { failures: u32 },
}

/// The state of an endpoint, as one call showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointHealth {
    /// It works.
    Alive,
    /// It does not.
    Failing,
}

impl EndpointHealth {
    /// Judges an outcome. A refusal and a request to slow down come from an endpoint that is alive.
    pub fn by<T>(outcome: &Result<T, ModelError>) -> Self {
        match outcome {
            Err(ModelError::Throttled { status, .. }) if *status < 500 => EndpointHealth::Alive,
            Err(error) if error.is_passing() => EndpointHealth::Failing,
            _ => EndpointHealth::Alive,
        }
    }
}

impl CircuitBreaker {
    /// A closed breaker.
    pub fn new(trip: BreakerSettings) -> Self {
        CircuitBreaker { trip, state: Arc::new(Mutex::new(State::Closed { failures: 0 })) }
    }

    /// Lets a call through, or fails with the time until the next one may try.
    pub fn ask(&self, now: Instant) -> Result<CallPermit, ModelError> {
        let mut state = self.lock();
        let kind = match *state {
            State::Closed { .. } => CallKind::Ordinary,
            State::Open { failures, until } if until <= now => {
                *state = State::Probing { failures };
                CallKind::Probe
            }
            State::Open { failures, until } => return Err(ModelError::Open(failures, until - now)),
            State::Probing { failures } => return Err(ModelError::Open(failures, Duration::ZERO)),
        };
        Ok(CallPermit { breaker: self.clone(), kind, told: false })
    }

    fn tell(&self, kind: CallKind, shown: EndpointHealth, now: Instant) {
        let mut state = self.lock();
        *state = match (*state, kind, shown) {
            (State::Closed { .. }, _, EndpointHealth::Alive)
            | (State::Probing { .. }, CallKind::Probe, EndpointHealth::Alive) => State::Closed { failures: 0 },
            (State::Closed { failures }, _, EndpointHealth::Failing) if failures + 1 < self.trip.failures => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { failures }, _, EndpointHealth::Failing)
            | (State::Probing { failures }, CallKind::Probe, EndpointHealth::Failing) => {
                State::Open { failures: failures + 1, until: now + self.trip.rest }
            }
            // A call that began before the breaker opened says nothing new.
            (unchanged, _, _) => unchanged,
        };
    }

    /// Lets another call probe after a probe was dropped.
    fn abandon(&self, kind: CallKind) {
        let mut state = self.lock();
        if let (CallKind::Probe, State::Probing { failures }) = (kind, *state) {
            *state = State::Open { failures, until: Instant::now() };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    Ordinary,
    Probe,
}

/// The permit for one call. Dropped without a result, it shows nothing.
#[derive(Debug)]
pub struct CallPermit {
    breaker: CircuitBreaker,
    kind: CallKind,
    told: bool,
}

impl CallPermit {
    /// Reports the result of the call.
    pub fn tell(mut self, shown: EndpointHealth, now: Instant) {
        self.told = true;
        self.breaker.tell(self.kind, shown, now);
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if !self.told {
            self.breaker.abandon(self.kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(30);

    fn breaker() -> CircuitBreaker {
        CircuitBreaker::new(BreakerSettings { failures: 3, rest: REST })
    }

    fn show(breaker: &CircuitBreaker, shown: EndpointHealth, now: Instant) {
        breaker.ask(now).unwrap().tell(shown, now);
    }

    fn opened(now: Instant) -> CircuitBreaker {
        let breaker = breaker();
        (0..3).for_each(|_| show(&breaker, EndpointHealth::Failing, now));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_not_after_others() {
        let now = Instant::now();
        let breaker = breaker();
        for shown in [
            EndpointHealth::Failing,
            EndpointHealth::Failing,
            EndpointHealth::Alive,
            EndpointHealth::Failing,
            EndpointHealth::Failing,
        ] {
            show(&breaker, shown, now);
        }
        show(&breaker, EndpointHealth::Failing, now);
        let soon = now + REST / 3;
        assert_eq!(breaker.ask(soon).unwrap_err(), ModelError::Open(3, REST - REST / 3));
    }

    #[test]
    fn after_its_rest_one_may_ask_and_the_answer_decides() {
        let now = Instant::now();
        let later = now + REST;
        let breaker = opened(now);
        let probe = breaker.ask(later).unwrap();
        assert_eq!(breaker.clone().ask(later).unwrap_err(), ModelError::Open(3, Duration::ZERO));
        probe.tell(EndpointHealth::Failing, later);
        assert_eq!(breaker.ask(later).unwrap_err(), ModelError::Open(4, REST));
        show(&breaker, EndpointHealth::Alive, later + REST);
        assert!(breaker.ask(later + REST).is_ok());
    }

    #[test]
    fn a_probe_that_is_given_up_leaves_room_for_the_next() {
        let now = Instant::now();
        let breaker = opened(now - 2 * REST);
        drop(breaker.ask(now).unwrap());
        assert!(breaker.ask(Instant::now()).is_ok());
    }

    #[test]
    fn a_call_from_before_it_opened_does_not_close_it() {
        let now = Instant::now();
        let breaker = breaker();
        let early = breaker.ask(now).unwrap();
        (0..3).for_each(|_| show(&breaker, EndpointHealth::Failing, now));
        early.tell(EndpointHealth::Alive, now);
        assert!(breaker.ask(now).is_err());
    }

    #[test]
    fn only_what_shows_a_failing_endpoint_counts() {
        let shown = |error: ModelError| EndpointHealth::by(&Err::<(), _>(error));
        let message = String::new;
        assert_eq!(shown(ModelError::Refused(401, message())), EndpointHealth::Alive);
        assert_eq!(
            shown(ModelError::Throttled { status: 429, after: None, message: message() }),
            EndpointHealth::Alive
        );
        assert_eq!(
            shown(ModelError::Throttled { status: 529, after: None, message: message() }),
            EndpointHealth::Failing
        );
        assert_eq!(shown(ModelError::Failed(500, message())), EndpointHealth::Failing);
        assert_eq!(shown(ModelError::Unreachable(message())), EndpointHealth::Failing);
        assert_eq!(EndpointHealth::by(&Ok(())), EndpointHealth::Alive);
    }
}
