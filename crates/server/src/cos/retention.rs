//! Which snapshots a retention keeps: of each kind of period, the newest snapshot in each of the last periods that have any.

use nitro_console::date::{DAY_SECONDS, of_days};
use serde::{Deserialize, Serialize};

/// How many snapshots of an object are kept, by periods in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// The newest ones.
    pub last: u32,
    /// One for each of so many hours.
    pub hourly: u32,
    /// Days.
    pub daily: u32,
    /// Weeks, which begin on Mondays.
    pub weekly: u32,
    /// Months.
    pub monthly: u32,
    /// Years.
    pub yearly: u32,
}

/// A reason, the number of periods, and the period of a snapshot by its number and its time.
type Rule<'a> = (&'static str, u32, &'a dyn Fn(usize, u64) -> u64);

impl Keep {
    /// Whether it keeps nothing.
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// For each of an object's snapshots, which are given by their times of creation in seconds since 1970, the newest
    /// first: the reasons for which it is kept; none: it is not.
    pub(super) fn reasons(&self, created: &[u64]) -> Vec<Vec<&'static str>> {
        let mut reasons = vec![Vec::new(); created.len()];
        let month = |seconds: u64| {
            let (year, month, _) = of_days(seconds / DAY_SECONDS);
            year * 12 + month
        };
        let rules: [Rule<'_>; 6] = [
            ("last", self.last, &|number, _| number as u64),
            ("hourly", self.hourly, &|_, seconds| seconds / 3600),
            ("daily", self.daily, &|_, seconds| seconds / DAY_SECONDS),
            // The first of January 1970 was a Thursday.
            ("weekly", self.weekly, &|_, seconds| (seconds / DAY_SECONDS + 3) / 7),
            ("monthly", self.monthly, &|_, seconds| month(seconds)),
            ("yearly", self.yearly, &|_, seconds| of_days(seconds / DAY_SECONDS).0),
        ];
        for (name, count, period) in rules {
            let (mut kept, mut last) = (0, None);
            for (number, seconds) in created.iter().enumerate() {
                let now = Some(period(number, *seconds));
                if kept < count && now != last {
                    reasons[number].push(name);
                    kept += 1;
                    last = now;
                }
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-02-26, a Monday, at midnight.
    const MONDAY: u64 = 1_708_905_600;

    fn kept(keep: Keep, created: &[u64]) -> Vec<u64> {
        let reasons = keep.reasons(created);
        created.iter().zip(reasons).filter(|(_, reasons)| !reasons.is_empty()).map(|(created, _)| *created).collect()
    }

    #[test]
    fn the_newest_of_each_period_is_kept() {
        // Each hour of the six days up to Saturday noon, with February 29 among them.
        let hours: Vec<u64> = (0..=5 * 24 + 12).rev().map(|hour| MONDAY + hour * 3600).collect();
        let day = |day: u64| MONDAY + day * DAY_SECONDS + 23 * 3600;
        let noon = MONDAY + 5 * DAY_SECONDS + 12 * 3600;
        assert_eq!(kept(Keep { last: 2, ..Keep::default() }, &hours), [noon, noon - 3600]);
        assert_eq!(kept(Keep { daily: 3, ..Keep::default() }, &hours), [noon, day(4), day(3)]);
        assert_eq!(kept(Keep { monthly: 9, ..Keep::default() }, &hours), [noon, day(3)], "March and February");
        assert_eq!(kept(Keep { yearly: 1, ..Keep::default() }, &hours), [noon]);
        // Sunday's last belongs to the week before.
        let weeks = [MONDAY + 60, MONDAY - 60, MONDAY - 8 * DAY_SECONDS, MONDAY - 9 * DAY_SECONDS];
        assert_eq!(kept(Keep { weekly: 2, ..Keep::default() }, &weeks), [MONDAY + 60, MONDAY - 60]);
        assert_eq!(kept(Keep { weekly: 9, ..Keep::default() }, &weeks), weeks[..3]);
    }

    #[test]
    fn periods_without_snapshots_do_not_count_and_something_is_always_kept() {
        let old = [MONDAY, MONDAY - 400 * DAY_SECONDS, MONDAY - 900 * DAY_SECONDS];
        assert_eq!(kept(Keep { daily: 2, ..Keep::default() }, &old), old[..2]);
        for keep in [Keep { last: 1, ..Keep::default() }, Keep { yearly: 1, ..Keep::default() }] {
            assert_eq!(kept(keep, &old), old[..1]);
        }
        assert!(Keep::default().is_nothing() && kept(Keep::default(), &old).is_empty());
        assert_eq!(Keep { last: 1, daily: 1, ..Keep::default() }.reasons(&old[..1]), [["last", "daily"]]);
    }
}
