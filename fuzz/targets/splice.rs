//! Any text, edited as an object: fields set and taken out, and no other byte changed.

#![no_main]

use epitome::wire::{RawFields, extend_list, set_field, unmarked, without_field};
use libfuzzer_sys::fuzz_target;

const KEY: &str = "cache_control";

fn fields(text: &str) -> Option<Vec<(String, &str)>> {
    let fields = RawFields::of(text)?;
    Some(fields.iter().map(|(name, value)| (name.to_owned(), value.get())).collect())
}

fuzz_target!(|text: &str| {
    let (without, set, plain) = (without_field(text, KEY), set_field(text, KEY, "[7]"), unmarked(text).concat());
    assert_eq!(unmarked(&plain).concat(), plain);
    let Some(before) = fields(text) else {
        assert_eq!((without.as_str(), set.as_str()), (text, text));
        return;
    };
    let kept: Vec<_> = before.iter().filter(|(name, _)| name != KEY).cloned().collect();
    if kept.len() == before.len() {
        assert_eq!(without, text);
    }
    assert_eq!(fields(&without), Some(kept));
    let mut expected = before.clone();
    match expected.iter_mut().rev().find(|(name, _)| name == KEY) {
        Some((_, value)) => *value = "[7]",
        None => expected.push((KEY.to_owned(), "[7]")),
    }
    assert_eq!(fields(&set), Some(expected));
    for (_, value) in before.iter().filter(|(_, value)| value.starts_with('[')) {
        let longer = extend_list(value, "7");
        assert!(fields(&format!("{{\"list\":{longer}}}")).is_some(), "{longer}");
    }
});
