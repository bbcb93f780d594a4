//! Dates of the Gregorian calendar, in UTC.

/// Seconds of a day.
pub const DAY_SECONDS: u64 = 86_400;

/// Year, month and day of a number of days since 1970 (civil_from_days of Howard Hinnant's chrono algorithms).
#[must_use]
pub fn of_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A time, in seconds since 1970, in the form of ISO 8601.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (year, month, day) = of_days(seconds / DAY_SECONDS);
    let second = seconds % DAY_SECONDS;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_732_142_742, "2024-11-20T22:45:42Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
