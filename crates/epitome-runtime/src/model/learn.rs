//! What answers and refusals teach: how large a model's window is and how its counts compare with ours.
//!
//! Plain data that can be stored and sent. It learns numbers only, never what was said.

use epitome::budget::{Calibration, Overflow, Tokens, Windows};
use serde::{Deserialize, Serialize};

use super::{ModelError, Usage};

/// What is learnt of the models that were asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Learnt {
    /// How providers count, compared with us.
    pub calibration: Calibration,
    /// How much input models take, as their providers say.
    pub windows: Windows,
}

impl Learnt {
    /// Learns from the usage of an answer, given what the prompt was counted as here, before any correction.
    pub fn usage(&mut self, model: &str, counted: Tokens, usage: &Usage) {
        self.calibration.learn(model, counted, Some(Tokens::new(usage.input)).filter(|input| *input > Tokens::ZERO));
    }

    /// Learns from an error, if it is one that tells sizes.
    pub fn error(&mut self, model: &str, counted: Tokens, error: &ModelError) {
        let ModelError::Overflow { overflow, .. } = error else { return };
        if let Some(limit) = overflow.limit() {
            self.windows.learn(model, limit);
        }
        let used = match *overflow {
            Overflow::InputTooLong { used, .. } => used,
            Overflow::OutputBudget { input, .. } => Some(input),
            _ => None,
        };
        self.calibration.learn(model, counted, used);
    }
}

#[cfg(test)]
mod tests {
    use epitome::budget::Window;

    use super::*;

    fn overflow(overflow: Overflow) -> ModelError {
        ModelError::Overflow { status: 400, overflow, message: String::new() }
    }

    #[test]
    fn an_overflow_teaches_the_window_and_the_factor() {
        let mut learnt = Learnt::default();
        let said = Overflow::InputTooLong { used: Some(Tokens::new(4031)), limit: Some(Tokens::new(2048)) };
        learnt.error("m", Tokens::new(3225), &overflow(said));
        assert_eq!(learnt.windows.of("m"), Window::Learned(Tokens::new(2048)));
        assert!((learnt.calibration.factor("m").unwrap() - 1.25).abs() < 0.001);
    }

    #[test]
    fn too_much_output_teaches_the_window_too() {
        let mut learnt = Learnt::default();
        let (input, max_tokens, limit) = (Tokens::new(1900), Tokens::new(500), Tokens::new(2048));
        learnt.error("m", Tokens::new(1900), &overflow(Overflow::OutputBudget { input, max_tokens, limit }));
        assert_eq!(learnt.windows.of("m"), Window::Learned(limit));
        assert_eq!(learnt.calibration.factor("m"), Some(1.0));
    }

    #[test]
    fn what_tells_no_sizes_teaches_nothing() {
        let mut learnt = Learnt::default();
        learnt.error("m", Tokens::new(10), &ModelError::Refused { status: 400, message: "2048 tokens".into() });
        learnt.error("m", Tokens::new(10), &overflow(Overflow::InputTooLong { used: None, limit: None }));
        learnt.usage("m", Tokens::new(10), &Usage::default());
        learnt.usage("m", Tokens::ZERO, &Usage { input: 10, ..Usage::default() });
        assert_eq!(learnt, Learnt::default());
    }

    #[test]
    fn what_is_learnt_survives_being_stored() {
        let mut learnt = Learnt::default();
        learnt.usage("m", Tokens::new(100), &Usage { input: 130, ..Usage::default() });
        let stored = serde_json::to_string(&learnt).unwrap();
        assert_eq!(serde_json::from_str::<Learnt>(&stored).unwrap(), learnt);
    }
}
