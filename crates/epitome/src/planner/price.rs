//! The price of rewriting: what a compaction re-bills against what it saves.

use serde::{Deserialize, Serialize};

use crate::budget::Tokens;
use crate::policy::CachePrices;

/// What is known of the provider's prompt cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Nothing is known, or nothing is cached: rewriting costs nothing extra.
    #[default]
    Cold,
    /// The prompt so far was cached by the previous call, this many seconds ago.
    Warm {
        /// Seconds since the previous call.
        age_s: u64,
    },
}

/// What a compaction costs and what it saves, in tokens at the uncached price.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Worth {
    /// What the rewritten part costs more on the next call.
    pub rebilled: f64,
    /// What the smaller prompt saves over the expected calls.
    pub saved: f64,
}

impl Worth {
    /// The worth of going from `before` to `after` tokens when all after `unchanged` is written anew.
    pub(super) fn of(
        price: &CachePrices,
        cache: CacheState,
        before: Tokens,
        after: Tokens,
        unchanged: Tokens,
    ) -> Worth {
        let warm = matches!(cache, CacheState::Warm { age_s } if age_s < price.ttl_s);
        let rewritten = (after - unchanged).get() as f64;
        let rebilled = if warm { rewritten * (price.write - price.read) } else { 0.0 };
        let saved = (before - after).get() as f64 * price.read * f64::from(price.calls_expected);
        Worth { rebilled, saved }
    }

    /// Whether it pays.
    pub(super) fn pays(&self) -> bool {
        self.saved > self.rebilled
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheState, Worth};
    use crate::budget::Tokens;
    use crate::policy::CachePrices;

    #[test]
    fn a_small_gain_does_not_pay_while_the_cache_is_warm_and_does_when_it_has_expired() {
        let price = CachePrices::default();
        let worth =
            |cache, after| Worth::of(&price, cache, Tokens::new(100_000), Tokens::new(after), Tokens::new(1000));
        let warm = CacheState::Warm { age_s: 10 };
        assert!(!worth(warm, 95_000).pays());
        assert!(worth(warm, 50_000).pays());
        assert!(worth(CacheState::Warm { age_s: 301 }, 95_000).pays());
        assert!(worth(CacheState::Cold, 95_000).pays());
    }
}
