//! The ladder's token budget: the window less everything that is not conversation.
//!
//! Amounts are given, not counted, and a budget never goes below zero: overhead larger than the window leaves no room
//! for messages, which the planner reports as a shortfall.

use serde::{Deserialize, Serialize};

use super::threshold::Threshold;
use super::tokens::Tokens;

/// A budget that accounts for all overhead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenBudget {
    /// The most input the model takes.
    pub max_input_tokens: Tokens,
    /// The share of it at which compaction starts.
    #[serde(default = "soft_share")]
    pub soft_threshold_percent: f64,
    /// The system prompt.
    #[serde(default)]
    pub system_prompt_tokens: Tokens,
    /// The declarations of tools.
    #[serde(default)]
    pub tool_schema_tokens: Tokens,
    /// What the provider wraps around messages.
    #[serde(default)]
    pub formatting_overhead_tokens: Tokens,
    /// Kept for the answer and what was counted wrong.
    #[serde(default = "safety_buffer")]
    pub safety_buffer_tokens: Tokens,
    /// Kept for artifacts that are brought back.
    #[serde(default = "rehydration_reserve")]
    pub rehydration_reserve_tokens: Tokens,
    /// The most artifacts brought back into one prompt.
    #[serde(default = "rehydration_artifacts")]
    pub max_rehydration_artifacts: usize,
}

fn soft_share() -> f64 {
    0.85
}

fn safety_buffer() -> Tokens {
    Tokens::new(500)
}

fn rehydration_reserve() -> Tokens {
    Tokens::new(2_000)
}

fn rehydration_artifacts() -> usize {
    3
}

impl TokenBudget {
    /// The budget of a model that takes this much input, with the ladder's reserves and nothing else spent yet.
    pub fn new(max_input_tokens: Tokens) -> Self {
        TokenBudget {
            max_input_tokens,
            soft_threshold_percent: soft_share(),
            system_prompt_tokens: Tokens::ZERO,
            tool_schema_tokens: Tokens::ZERO,
            formatting_overhead_tokens: Tokens::ZERO,
            safety_buffer_tokens: safety_buffer(),
            rehydration_reserve_tokens: rehydration_reserve(),
            max_rehydration_artifacts: rehydration_artifacts(),
        }
    }

    /// What messages may cost.
    pub fn available_for_messages(&self) -> Tokens {
        self.threshold().trigger_at(self.max_input_tokens) - self.fixed_overhead()
    }

    /// What artifacts brought back may cost together.
    pub fn available_for_rehydration(&self) -> Tokens {
        self.rehydration_reserve_tokens
    }

    /// Whether messages of this cost stay within the budget.
    pub fn fits(&self, messages: Tokens) -> bool {
        messages <= self.available_for_messages()
    }

    /// How much messages of this cost exceed the budget by.
    pub fn excess(&self, messages: Tokens) -> Tokens {
        messages - self.available_for_messages()
    }

    /// What every request costs before its first message.
    pub fn fixed_overhead(&self) -> Tokens {
        self.system_prompt_tokens + self.tool_schema_tokens + self.formatting_overhead_tokens
    }

    /// The threshold this budget stands for, on the count of the whole request.
    pub fn threshold(&self) -> Threshold {
        Threshold::Soft {
            share: self.soft_threshold_percent,
            safety: self.safety_buffer_tokens,
            rehydration: self.rehydration_reserve_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_get_the_soft_share_less_every_overhead() {
        for (max, system, tools, formatting, available) in [
            (128_000, 0, 0, 0, 106_300),
            (128_000, 1_200, 3_400, 96, 101_604),
            (8_192, 0, 0, 0, 4_463),
            (8_192, 6_000, 0, 0, 0),
            (0, 0, 0, 0, 0),
        ] {
            let budget = TokenBudget {
                system_prompt_tokens: Tokens::new(system),
                tool_schema_tokens: Tokens::new(tools),
                formatting_overhead_tokens: Tokens::new(formatting),
                ..TokenBudget::new(Tokens::new(max))
            };
            assert_eq!(budget.available_for_messages(), Tokens::new(available), "{budget:?}");
        }
    }

    #[test]
    fn what_does_not_fit_exceeds_the_budget_by_the_difference() {
        let budget = TokenBudget::new(Tokens::new(128_000));
        for (messages, excess) in [(106_299, 0), (106_300, 0), (106_301, 1), (200_000, 93_700)] {
            assert_eq!(budget.excess(Tokens::new(messages)), Tokens::new(excess));
            assert_eq!(budget.fits(Tokens::new(messages)), excess == 0);
        }
    }

    #[test]
    fn a_budget_written_without_its_defaults_has_them() {
        let written: TokenBudget = toml::from_str("max_input_tokens = 128000").expect("a budget");
        assert_eq!(written, TokenBudget::new(Tokens::new(128_000)));
    }
}
