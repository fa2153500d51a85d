//! A message list of the ai-sdk dialect: decoded, written back byte for byte, compacted, and the prompt checked.

#![no_main]

use epitome::wire::Dialect;
use libfuzzer_sys::fuzz_target;

#[path = "../document.rs"]
mod document;

fuzz_target!(|text: &str| document::holds(text, Dialect::AiSdk));
