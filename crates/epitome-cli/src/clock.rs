//! The present time, as session files write it. `SOURCE_DATE_EPOCH` overrides it, for reproducible output.

use jiff::Timestamp;

/// Returns the present time in RFC 3339, in UTC, to the millisecond.
pub fn now() -> String {
    let fixed =
        std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|value| Timestamp::from_second(value.parse().ok()?).ok());
    rfc3339(fixed.unwrap_or_else(Timestamp::now))
}

fn rfc3339(time: Timestamp) -> String {
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, rfc3339};

    #[test]
    fn times_are_written_in_rfc_3339() {
        let known = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ];
        for (ms, expected) in known {
            assert_eq!(rfc3339(Timestamp::from_millisecond(ms).unwrap()), expected);
        }
    }
}
