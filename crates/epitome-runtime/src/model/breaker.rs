//! The circuit breaker: who fails again and again is left alone for a while, then asked once.
//!
//! The state changes with moments that are given to it; it reads no clock and waits for nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::ModelError;

/// When an endpoint is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// After so many failures in a row.
    pub failures: u32,
    /// For so long.
    pub rest: Duration,
}

impl Default for Trip {
    fn default() -> Self {
        Trip { failures: 8, rest: Duration::from_secs(30) }
    }
}

/// The breaker of an endpoint; clones share its state.
#[derive(Clone, Debug)]
pub struct Breaker {
    trip: Trip,
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Everybody may ask.
    Closed { failures: u32 },
    /// Nobody may.
    Open { failures: u32, until: Instant },
    /// One is asking.
    Probing { failures: u32 },
}

/// What a call has shown about the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// It works.
    Alive,
    /// It does not.
    Failing,
}

impl Shown {
    /// What an outcome shows. A refusal and a request to slow down come from one who is alive.
    pub fn by<T>(outcome: &Result<T, ModelError>) -> Self {
        match outcome {
            Err(ModelError::Throttled { status, .. }) if *status < 500 => Shown::Alive,
            Err(error) if error.is_passing() => Shown::Failing,
            _ => Shown::Alive,
        }
    }
}

impl Breaker {
    /// A closed breaker.
    pub fn new(trip: Trip) -> Self {
        Breaker { trip, state: Arc::new(Mutex::new(State::Closed { failures: 0 })) }
    }

    /// Lets a call through, or says for how long the endpoint is still left alone.
    pub fn ask(&self, now: Instant) -> Result<Pass, ModelError> {
        let mut state = self.lock();
        let kind = match *state {
            State::Closed { .. } => Kind::Ordinary,
            State::Open { failures, until } if until <= now => {
                *state = State::Probing { failures };
                Kind::Probe
            }
            State::Open { failures, until } => return Err(ModelError::Open { failures, left: until - now }),
            State::Probing { failures } => return Err(ModelError::Open { failures, left: Duration::ZERO }),
        };
        Ok(Pass { breaker: self.clone(), kind, told: false })
    }

    fn tell(&self, kind: Kind, shown: Shown, now: Instant) {
        let mut state = self.lock();
        *state = match (*state, kind, shown) {
            (State::Closed { .. }, _, Shown::Alive) | (State::Probing { .. }, Kind::Probe, Shown::Alive) => {
                State::Closed { failures: 0 }
            }
            (State::Closed { failures }, _, Shown::Failing) if failures + 1 < self.trip.failures => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { failures }, _, Shown::Failing)
            | (State::Probing { failures }, Kind::Probe, Shown::Failing) => {
                State::Open { failures: failures + 1, until: now + self.trip.rest }
            }
            // A call that began before the breaker opened says nothing new.
            (unchanged, _, _) => unchanged,
        };
    }

    /// Somebody else may probe when the one who did went away.
    fn abandon(&self, kind: Kind) {
        let mut state = self.lock();
        if let (Kind::Probe, State::Probing { failures }) = (kind, *state) {
            *state = State::Open { failures, until: Instant::now() };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ordinary,
    Probe,
}

/// The leave to make one call. Dropped without a word, it shows nothing.
#[derive(Debug)]
pub struct Pass {
    breaker: Breaker,
    kind: Kind,
    told: bool,
}

impl Pass {
    /// Tells what the call has shown.
    pub fn tell(mut self, shown: Shown, now: Instant) {
        self.told = true;
        self.breaker.tell(self.kind, shown, now);
    }
}

impl Drop for Pass {
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

    fn breaker() -> Breaker {
        Breaker::new(Trip { failures: 3, rest: REST })
    }

    fn show(breaker: &Breaker, shown: Shown, now: Instant) {
        breaker.ask(now).unwrap().tell(shown, now);
    }

    fn opened(now: Instant) -> Breaker {
        let breaker = breaker();
        (0..3).for_each(|_| show(&breaker, Shown::Failing, now));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_not_after_others() {
        let now = Instant::now();
        let breaker = breaker();
        for shown in [Shown::Failing, Shown::Failing, Shown::Alive, Shown::Failing, Shown::Failing] {
            show(&breaker, shown, now);
        }
        show(&breaker, Shown::Failing, now);
        let soon = now + REST / 3;
        assert_eq!(breaker.ask(soon).unwrap_err(), ModelError::Open { failures: 3, left: REST - REST / 3 });
    }

    #[test]
    fn after_its_rest_one_may_ask_and_the_answer_decides() {
        let now = Instant::now();
        let later = now + REST;
        let breaker = opened(now);
        let probe = breaker.ask(later).unwrap();
        assert_eq!(breaker.clone().ask(later).unwrap_err(), ModelError::Open { failures: 3, left: Duration::ZERO });
        probe.tell(Shown::Failing, later);
        assert_eq!(breaker.ask(later).unwrap_err(), ModelError::Open { failures: 4, left: REST });
        show(&breaker, Shown::Alive, later + REST);
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
        (0..3).for_each(|_| show(&breaker, Shown::Failing, now));
        early.tell(Shown::Alive, now);
        assert!(breaker.ask(now).is_err());
    }

    #[test]
    fn only_what_shows_a_failing_endpoint_counts() {
        let shown = |error: ModelError| Shown::by(&Err::<(), _>(error));
        let message = String::new;
        assert_eq!(shown(ModelError::Refused { status: 401, message: message() }), Shown::Alive);
        assert_eq!(shown(ModelError::Throttled { status: 429, after: None, message: message() }), Shown::Alive);
        assert_eq!(shown(ModelError::Throttled { status: 529, after: None, message: message() }), Shown::Failing);
        assert_eq!(shown(ModelError::Failed { status: 500, message: message() }), Shown::Failing);
        assert_eq!(shown(ModelError::Unreachable { reason: message() }), Shown::Failing);
        assert_eq!(Shown::by(&Ok(())), Shown::Alive);
    }
}
