//! The answer to a provider's "too long": ask for less output, compact harder, or give up.
//!
//! The engine and the gateway both retry by this table, so that a prompt is refused by one exactly when the other
//! refuses it.

use epitome::budget::Tokens;

use super::ModelError;

/// The most times that one prompt is made smaller. The engine aims at a smaller share of the window each time.
const HARDER_MAX: u8 = 3;
/// Tokens left free below the limit when the answer's maximum is lowered.
const OUTPUT_MARGIN: Tokens = Tokens::new(16);
/// A smaller answer is not worth a request.
const OUTPUT_MIN: Tokens = Tokens::new(64);

/// The next try after a refusal.
///
/// ```text
/// refused: input + output > limit ──► LowerOutput     while the new output is smaller than the last, and worth asking for
///          anything else too long ──► CompactHarder   1, 2, 3
///          after the third        ──► GiveUp          the caller passes the refusal on
/// ```
///
/// Lowering comes first because it costs nothing of the conversation. Each lowering is smaller than the one before, and
/// `harder` only rises, so that no provider can keep a caller in a loop by refusing everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowRetry {
    /// Send the same prompt with this maximum for the answer.
    LowerOutput(Tokens),
    /// Compact to this level, from 1 on, and send what results.
    CompactHarder(u8),
    /// Trying again cannot help.
    GiveUp,
}

impl OverflowRetry {
    /// Decides after a refusal of a prompt that was compacted to level `harder` (0: not at all) and sent with this maximum
    /// for its answer. Any error but an overflow is given up on: retrying those is the model client's job.
    pub fn after(error: &ModelError, harder: u8, output: Option<Tokens>) -> Self {
        let ModelError::Overflow { overflow, .. } = error else { return OverflowRetry::GiveUp };
        let lowered = overflow.output_that_fits(OUTPUT_MARGIN).filter(|lowered| *lowered >= OUTPUT_MIN);
        match lowered {
            Some(lowered) if output.is_none_or(|asked| lowered < asked) => OverflowRetry::LowerOutput(lowered),
            _ if harder < HARDER_MAX => OverflowRetry::CompactHarder(harder + 1),
            _ => OverflowRetry::GiveUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use epitome::budget::Overflow;

    use super::*;

    fn tokens(count: u64) -> Tokens {
        Tokens::new(count)
    }

    #[test]
    fn output_is_lowered_first_then_the_prompt_is_compacted_three_times_then_nothing_helps() {
        use OverflowRetry::{CompactHarder, GiveUp, LowerOutput};
        let output = |input, limit| Overflow::OutputBudget {
            input: tokens(input),
            max_tokens: tokens(800),
            limit: tokens(limit),
        };
        let input = || Overflow::InputTooLong { used: None, limit: Some(tokens(1000)) };
        let cases = [
            ("half of the window is left", output(500, 1000), 0, Some(800), LowerOutput(tokens(484))),
            ("no maximum was sent", output(500, 1000), 0, None, LowerOutput(tokens(484))),
            ("the maximum was that low already", output(500, 1000), 0, Some(484), CompactHarder(1)),
            ("too little is left for an answer", output(930, 1000), 0, Some(800), CompactHarder(1)),
            ("just enough is left", output(920, 1000), 3, Some(800), LowerOutput(tokens(64))),
            ("the input is too long", input(), 0, Some(800), CompactHarder(1)),
            ("and again", input(), 2, None, CompactHarder(3)),
            ("and again after the third time", input(), 3, None, GiveUp),
        ];
        for (case, overflow, harder, asked, expected) in cases {
            let error = ModelError::Overflow { status: 400, overflow, message: String::new(), quoted: false };
            assert_eq!(OverflowRetry::after(&error, harder, asked.map(tokens)), expected, "{case}");
        }
        let unreachable = ModelError::Unreachable("no route".to_owned());
        assert_eq!(OverflowRetry::after(&unreachable, 0, None), GiveUp);
    }
}
