//! Suspicions: windows that nobody named, guessed from how a provider behaves. They are believed for a while, of one model
//! at one upstream for one tenant, and kept nowhere: one odd answer must not shrink a model for everybody.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use epitome::budget::Tokens;
use epitome_runtime::model::{ServedModel, Usage};

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
/// How close two shares are to be the same.
const SAME_SHARE: f64 = 0.12;
/// The most models that are watched.
const MODELS_MAX: usize = 256;

/// What is suspected of models.
#[derive(Debug, Default)]
pub struct Suspicions {
    models: Mutex<HashMap<ServedModel, Watched>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    /// What it used for what was counted as the other, the last time that this was odd.
    odd: Option<(Tokens, Tokens)>,
    /// The share of our own count that it counts, where it is known to count otherwise.
    share: Option<f64>,
    window: Option<(Tokens, Instant)>,
}

/// What the usage of an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing is odd.
    Fine,
    /// Something of the prompt was left out: the provider's window is this.
    Cut(Tokens),
    /// It counts less than we do, whatever it is sent: nothing was left out, now or before.
    CountsLess,
}

impl Suspicions {
    /// The window that a model is suspected to have.
    pub fn window(&self, model: &ServedModel) -> Option<Tokens> {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        let (window, since) = models.get(model)?.window?;
        (since.elapsed() < BELIEVED).then_some(window)
    }

    /// A prompt of this size was refused without a number.
    pub fn refused(&self, model: &ServedModel, counted: Tokens) {
        if counted > WINDOW_MIN {
            self.watch(model, |watched| watched.window = Some((counted, Instant::now())));
        }
    }

    /// A prompt went through: what its usage shows of the provider.
    pub fn went_through(&self, model: &ServedModel, counted: Tokens, usage: &Usage) -> Shown {
        let used = Tokens::new(usage.input);
        let window = used + Tokens::new(usage.output);
        self.watch(model, |watched| {
            let expected = counted.share(watched.share.unwrap_or(1.0));
            let before = watched.odd.filter(|(_, before)| !is_same(*before, counted));
            // One that has left something out stops at its window; one that counts otherwise does so each time.
            if let Some((used_before, counted_before)) = before.filter(|_| usage.cached == 0) {
                let (share, share_before) = (ratio(used, counted), ratio(used_before, counted_before));
                if (share - share_before).abs() <= SAME_SHARE * share.max(share_before) {
                    *watched = Watched { share: Some(share.min(share_before)), ..Watched::default() };
                    return Shown::CountsLess;
                }
            }
            // Who reads from a cache may leave that out of what it counts.
            let is_odd = used < expected.share(ODD_SHARE) && window >= WINDOW_MIN && usage.cached == 0;
            if !is_odd {
                watched.odd = None;
                // It took more than was thought possible.
                watched.window = watched.window.filter(|(known, _)| used <= *known);
                return Shown::Fine;
            }
            watched.odd = Some((used, counted));
            let stops_there = before.is_some_and(|(before, _)| is_same(before, used));
            if !stops_there && used >= expected.share(CUT_SHARE) {
                return Shown::Fine;
            }
            watched.window = Some((window, Instant::now()));
            Shown::Cut(window)
        })
    }

    fn watch<T>(&self, model: &ServedModel, change: impl FnOnce(&mut Watched) -> T) -> T {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() >= MODELS_MAX && !models.contains_key(model) {
            models.clear();
        }
        change(models.entry(model.clone()).or_default())
    }
}

fn ratio(used: Tokens, counted: Tokens) -> f64 {
    used.get() as f64 / counted.get().max(1) as f64
}

fn is_same(one: Tokens, other: Tokens) -> bool {
    let (one, other) = (one.get() as f64, other.get() as f64);
    (one - other).abs() <= SAME * one.max(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m() -> ServedModel {
        ServedModel::new(epitome_runtime::ids::TenantId::local(), "http://127.0.0.1:1", "m")
    }

    fn usage(input: u64, cached: u64) -> Usage {
        Usage { input, cached, ..Usage::default() }
    }

    #[test]
    fn one_odd_answer_to_a_small_prompt_teaches_nothing() {
        let suspicions = Suspicions::default();
        suspicions.refused(&m(), Tokens::new(224));
        assert_eq!(suspicions.went_through(&m(), Tokens::new(2600), &usage(30, 0)), Shown::Fine);
        assert_eq!(suspicions.went_through(&m(), Tokens::new(9000), &usage(2000, 7000)), Shown::Fine);
        assert_eq!(suspicions.window(&m()), None);
    }

    #[test]
    fn a_provider_that_stops_at_a_number_has_that_window() {
        let suspicions = Suspicions::default();
        let cut = Shown::Cut(Tokens::new(7900));
        assert_eq!(suspicions.went_through(&m(), Tokens::new(16_000), &usage(7900, 0)), cut);
        assert_eq!(suspicions.window(&m()), Some(Tokens::new(7900)));
        assert_eq!(suspicions.went_through(&m(), Tokens::new(16_000), &usage(7900, 0)), cut, "the same again");
        assert_eq!(suspicions.went_through(&m(), Tokens::new(26_000), &usage(7900, 0)), cut);
        let slowly = Suspicions::default();
        let fine = slowly.went_through(&m(), Tokens::new(10_000), &usage(8000, 0));
        assert_eq!(fine, Shown::Fine, "it may count otherwise");
        let cut = slowly.went_through(&m(), Tokens::new(12_000), &usage(8010, 0));
        assert_eq!(cut, Shown::Cut(Tokens::new(8010)));
    }

    #[test]
    fn a_provider_that_counts_less_each_time_has_left_nothing_out() {
        let suspicions = Suspicions::default();
        let first = suspicions.went_through(&m(), Tokens::new(19_000), &usage(9300, 0));
        assert_eq!(first, Shown::Cut(Tokens::new(9300)));
        let second = suspicions.went_through(&m(), Tokens::new(7000), &usage(3500, 0));
        assert_eq!((second, suspicions.window(&m())), (Shown::CountsLess, None));
        assert_eq!(suspicions.went_through(&m(), Tokens::new(30_000), &usage(14_600, 0)), Shown::Fine);
        let cut = suspicions.went_through(&m(), Tokens::new(60_000), &usage(16_000, 0));
        assert_eq!(cut, Shown::Cut(Tokens::new(16_000)), "and is still watched");
    }

    #[test]
    fn a_larger_prompt_that_goes_through_ends_a_suspicion() {
        let suspicions = Suspicions::default();
        suspicions.refused(&m(), Tokens::new(5000));
        assert_eq!(suspicions.window(&m()), Some(Tokens::new(5000)));
        suspicions.went_through(&m(), Tokens::new(6000), &usage(6000, 0));
        assert_eq!(suspicions.window(&m()), None);
    }

    #[test]
    fn a_suspicion_is_one_tenants_at_one_upstream() {
        let suspicions = Suspicions::default();
        suspicions.refused(&m(), Tokens::new(5000));
        let other_tenant = ServedModel { tenant: "bolt".parse().unwrap(), ..m() };
        let other_upstream = ServedModel { upstream: "http://127.0.0.1:2".into(), ..m() };
        for other in [other_tenant, other_upstream] {
            assert_eq!(suspicions.window(&other), None, "{other:?}");
        }
    }
}
