//! A policy file: read, or refused with a sentence.

#![no_main]

use epitome::policy::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Policy::parse(text) {
        assert!(!error.to_string().is_empty());
    }
});
