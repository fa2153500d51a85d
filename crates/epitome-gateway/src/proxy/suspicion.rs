//! Suspicions: windows that nobody named, guessed from how a provider behaves. They are believed for a while, and kept
//! nowhere: one odd answer must not shrink a model for everybody.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use epitome::budget::Tokens;
use epitome_runtime::model::Usage;

/// How long a suspicion is believed.
const BELIEVED: Duration = Duration::from_secs(600);
/// The smallest window that anybody has.
pub(super) const WINDOW_MIN: Tokens = Tokens::new(1500);
/// A provider that counted less than this share of what it was sent has left something out.
const CUT_SHARE: f64 = 0.6;
/// One that counted less than this may have: the second time that it stops at the same number it has.
const ODD_SHARE: f64 = 0.85;
/// How close two numbers are to be the same.
const SAME: f64 = 0.03;
/// The most models that are watched.
const MODELS_MAX: usize = 256;

/// What is suspected of models.
#[derive(Debug, Default)]
pub struct Suspicions {
    models: Mutex<HashMap<String, Watched>>,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    /// What it used for what was counted as the other, the last time that this was odd.
    odd: Option<(Tokens, Tokens)>,
    window: Option<(Tokens, Instant)>,
}

impl Suspicions {
    /// The window that a model is suspected to have.
    pub fn window(&self, model: &str) -> Option<Tokens> {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let (window, since) = models.get(model)?.window?;
        (since.elapsed() < BELIEVED).then_some(window)
    }

    /// A prompt of this size was refused without a number.
    pub fn refused(&self, model: &str, counted: Tokens) {
        if counted > WINDOW_MIN {
            self.watch(model, |watched| watched.window = Some((counted, Instant::now())));
        }
    }

    /// A prompt went through; the window that it shows, where the provider left something of it out.
    pub fn went_through(&self, model: &str, counted: Tokens, usage: &Usage) -> Option<Tokens> {
        let used = Tokens::new(usage.input);
        let window = used + Tokens::new(usage.output);
        // Who reads from a cache may leave that out of what it counts.
        let is_odd = used < counted.share(ODD_SHARE) && window >= WINDOW_MIN && usage.cached == 0;
        self.watch(model, |watched| {
            if !is_odd {
                watched.odd = None;
                // It took more than was thought possible.
                watched.window = watched.window.filter(|(known, _)| used <= *known);
                return None;
            }
            let stops_there = watched
                .odd
                .is_some_and(|(before, counted_before)| is_same(before, used) && !is_same(counted_before, counted));
            watched.odd = Some((used, counted));
            let is_cut = used < counted.share(CUT_SHARE) || stops_there;
            is_cut.then(|| {
                watched.window = Some((window, Instant::now()));
                window
            })
        })
    }

    fn watch<T>(&self, model: &str, change: impl FnOnce(&mut Watched) -> T) -> T {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() >= MODELS_MAX && !models.contains_key(model) {
            models.clear();
        }
        change(models.entry(model.to_owned()).or_insert(Watched { odd: None, window: None }))
    }
}

fn is_same(one: Tokens, other: Tokens) -> bool {
    let (one, other) = (one.get() as f64, other.get() as f64);
    (one - other).abs() <= SAME * one.max(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, cached: u64) -> Usage {
        Usage { input, cached, ..Usage::default() }
    }

    #[test]
    fn one_odd_answer_to_a_small_prompt_teaches_nothing() {
        let suspicions = Suspicions::default();
        suspicions.refused("m", Tokens::new(224));
        assert_eq!(suspicions.went_through("m", Tokens::new(2600), &usage(30, 0)), None);
        assert_eq!(suspicions.went_through("m", Tokens::new(9000), &usage(2000, 7000)), None);
        assert_eq!(suspicions.window("m"), None);
    }

    #[test]
    fn a_provider_that_stops_at_a_number_has_that_window() {
        let suspicions = Suspicions::default();
        assert_eq!(suspicions.went_through("m", Tokens::new(16_000), &usage(7900, 0)), Some(Tokens::new(7900)));
        assert_eq!(suspicions.window("m"), Some(Tokens::new(7900)));
        let slowly = Suspicions::default();
        assert_eq!(slowly.went_through("m", Tokens::new(10_000), &usage(8000, 0)), None, "it may count otherwise");
        assert_eq!(slowly.went_through("m", Tokens::new(11_000), &usage(8010, 0)), Some(Tokens::new(8010)));
    }

    #[test]
    fn a_larger_prompt_that_goes_through_ends_a_suspicion() {
        let suspicions = Suspicions::default();
        suspicions.refused("m", Tokens::new(5000));
        assert_eq!(suspicions.window("m"), Some(Tokens::new(5000)));
        suspicions.went_through("m", Tokens::new(6000), &usage(6000, 0));
        assert_eq!(suspicions.window("m"), None);
    }
}
