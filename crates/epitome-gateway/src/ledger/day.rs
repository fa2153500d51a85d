//! A day, by UTC.

use std::fmt;
use std::str::FromStr;

use epitome_runtime::ids::Moment;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// A day, by UTC; written as `2026-11-16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day(Date);

impl Day {
    /// The day of a moment.
    pub fn of(at: Moment) -> Day {
        let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
        Day(time.to_zoned(TimeZone::UTC).date())
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Day {
    type Err = String;

    fn from_str(text: &str) -> Result<Day, String> {
        text.parse().map(Day).map_err(|_| format!("`{text}` is not a day; one is written as 2026-11-16"))
    }
}

impl TryFrom<String> for Day {
    type Error = String;

    fn try_from(text: String) -> Result<Day, String> {
        text.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> String {
        day.to_string()
    }
}
