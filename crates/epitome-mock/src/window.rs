//! The window of a model: what its name says, what the mock was configured, or what the library knows.

use epitome::budget::{Known, Model, Tokens};

/// Returns the window of a model; a suffix such as `-32k` wins.
pub(crate) fn window_of(model: &str, configured: Option<Tokens>) -> u64 {
    let named = suffix(model).or_else(|| configured.map(Tokens::get));
    named.unwrap_or_else(|| {
        let known = Model::named(model);
        match known.known {
            Known::As(_) => known.max_input.get(),
            Known::Fallback => epitome::budget::FALLBACK_WINDOW.get(),
        }
    })
}

/// Reads the `-32k` at the end of a name.
fn suffix(model: &str) -> Option<u64> {
    let (_, last) = model.rsplit_once('-')?;
    let thousands: u64 = last.strip_suffix(['k', 'K'])?.parse().ok()?;
    Some(thousands * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_beats_the_settings_and_they_beat_the_list() {
        for (model, configured, window) in [
            ("mock-8k", Some(5_000), 8_000),
            ("claude-sonnet-4-5-32k", None, 32_000),
            ("mock", Some(5_000), 5_000),
            ("mock-k", None, 128_000),
            ("gpt-4o", None, 128_000),
            ("gpt-5", None, 272_000),
        ] {
            assert_eq!(window_of(model, configured.map(Tokens::new)), window, "{model}");
        }
    }
}
