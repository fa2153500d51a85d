//! The present time, as session files write it. `SOURCE_DATE_EPOCH` takes its place where it is set.

use std::time::{SystemTime, UNIX_EPOCH};

/// The present time in RFC 3339, in UTC, to the millisecond.
pub fn now() -> String {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|value| value.parse::<u64>().ok());
    let now_ms = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    rfc3339(fixed.map_or_else(now_ms, |seconds| seconds * 1000))
}

fn rfc3339(ms: u64) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The date that many days after 1970-01-01, by the Gregorian calendar's cycle of 400 years.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is a year's last.
    let days = days + 719_468;
    let (cycle, day_of_cycle) = (days / 146_097, days % 146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (400 * cycle + year_of_cycle + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn a_stamp_is_a_date_people_know() {
        let known = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ];
        for (ms, stamp) in known {
            assert_eq!(rfc3339(ms), stamp);
        }
    }
}
