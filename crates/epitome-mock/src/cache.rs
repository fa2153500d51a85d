//! The prefix cache: what of a prompt was there before, what is kept now, and what that costs.
//!
//! OpenAI and Gemini cache by themselves, in steps; Anthropic caches where a mark says so and looks a few blocks back
//! from it. A prefix is found by its hash, so one changed byte before a mark is a miss.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::prompt::{CacheMark, CountedPrompt};
use super::seal::PromptPrefix;
use super::settings::{CacheRules, TokenPrices};

/// The steps in which an automatic cache counts.
const STEP_TOKENS: u64 = 128;

/// The most prefixes that are remembered before expired ones are removed.
const ENTRIES_MAX: usize = 100_000;

/// The input tokens of a request, by how they were billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputUsage {
    /// All of it.
    pub(crate) input: u64,
    /// Read from the cache.
    pub(crate) read: u64,
    /// Written to the cache for five minutes.
    pub(crate) written: u64,
    /// Written to the cache for an hour.
    pub(crate) written_long: u64,
}

impl InputUsage {
    /// Returns the tokens neither read from the cache nor written to it.
    pub(crate) fn plain(&self) -> u64 {
        self.input - self.read - self.written - self.written_long
    }

    /// Returns the cost with the output, in uncached input tokens.
    pub(crate) fn cost(&self, output: u64, prices: &TokenPrices) -> f64 {
        self.plain() as f64
            + self.read as f64 * prices.cache_read
            + self.written as f64 * prices.cache_write
            + self.written_long as f64 * prices.cache_write_long
            + output as f64 * prices.output
    }
}

/// The key and the model that a cached prefix belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheOwner(pub(crate) String, pub(crate) String);

/// The prefixes that are known.
#[derive(Default)]
pub(crate) struct PrefixCache {
    entries: HashMap<(CacheOwner, PromptPrefix), CacheEntry>,
}

struct CacheEntry {
    until: Instant,
    lives: Duration,
}

impl PrefixCache {
    /// Serves a prompt of a provider that caches by itself, and keeps all of it.
    pub(crate) fn serve(
        &mut self,
        owner: &CacheOwner,
        prompt: &CountedPrompt,
        rules: &CacheRules,
        now: Instant,
    ) -> InputUsage {
        let mut read = 0;
        let mut sum = 0;
        for piece in &prompt.pieces {
            sum += piece.tokens;
            if self.knows(owner, piece.prefix, now) {
                read = sum;
            }
            self.keep(owner, piece.prefix, rules.ttl, now);
        }
        let read = if read >= rules.tokens_min { read / STEP_TOKENS * STEP_TOKENS } else { 0 };
        InputUsage { input: prompt.tokens(), read, ..InputUsage::default() }
    }

    /// Serves a prompt of a provider that caches up to marks.
    pub(crate) fn serve_marked(
        &mut self,
        owner: &CacheOwner,
        prompt: &CountedPrompt,
        rules: &CacheRules,
        now: Instant,
    ) -> InputUsage {
        let sums = running_sums(prompt);
        // A request cannot read what it writes itself.
        let found = marks(prompt).filter_map(|(at, _)| self.look_back(owner, prompt, at, rules, now)).max();
        let read = found.map_or(0, |at| sums[at]);
        let mut served = InputUsage { input: prompt.tokens(), read, ..InputUsage::default() };
        for (at, mark) in marks(prompt).filter(|(at, _)| sums[*at] >= rules.tokens_min) {
            let new = sums[at].saturating_sub(served.read + served.written + served.written_long);
            let lives = match mark {
                CacheMark::Short => rules.ttl,
                CacheMark::Long => rules.ttl * 12,
            };
            match mark {
                CacheMark::Short => served.written += new,
                CacheMark::Long => served.written_long += new,
            }
            self.keep(owner, prompt.pieces[at].prefix, lives, now);
        }
        served
    }

    /// The nearest known prefix at or before a mark.
    fn look_back(
        &self,
        owner: &CacheOwner,
        prompt: &CountedPrompt,
        at: usize,
        rules: &CacheRules,
        now: Instant,
    ) -> Option<usize> {
        let first = at.saturating_sub(rules.blocks_back);
        (first..=at).rev().find(|&at| self.knows(owner, prompt.pieces[at].prefix, now))
    }

    fn knows(&self, owner: &CacheOwner, prefix: PromptPrefix, now: Instant) -> bool {
        self.entries.get(&(owner.clone(), prefix)).is_some_and(|entry| entry.until > now)
    }

    /// Keeps a prefix, at least as long as it was kept before.
    fn keep(&mut self, owner: &CacheOwner, prefix: PromptPrefix, lives: Duration, now: Instant) {
        if self.entries.len() >= ENTRIES_MAX {
            self.entries.retain(|_, entry| entry.until > now);
        }
        let entry = self.entries.entry((owner.clone(), prefix)).or_insert(CacheEntry { until: now, lives });
        entry.lives = entry.lives.max(lives);
        entry.until = now + entry.lives;
    }
}

fn running_sums(prompt: &CountedPrompt) -> Vec<u64> {
    let add = |sum: &mut u64, tokens: u64| {
        *sum += tokens;
        Some(*sum)
    };
    prompt.pieces.iter().map(|piece| piece.tokens).scan(0, add).collect()
}

fn marks(prompt: &CountedPrompt) -> impl Iterator<Item = (usize, CacheMark)> + '_ {
    prompt.pieces.iter().enumerate().filter_map(|(at, piece)| Some((at, piece.mark?)))
}
