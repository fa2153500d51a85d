//! The one door to properties by generation: a fixed seed unless one is given, and a shrunk failure.
//!
//! `EPITOME_SEED=n` looks elsewhere, `EPITOME_CASES=n` looks n times as long.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Holds a claim against generated values.
pub fn forall<S: Strategy>(cases: u32, values: &S, claim: impl Fn(S::Value) -> Result<(), String>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let seed = number("EPITOME_SEED").unwrap_or(0);
    let config = Config {
        cases: cases * number("EPITOME_CASES").unwrap_or(1),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    if let Err(failure) = runner.run(values, |value| claim(value).map_err(TestCaseError::fail)) {
        panic!("with EPITOME_SEED={seed}: {failure}");
    }
}
