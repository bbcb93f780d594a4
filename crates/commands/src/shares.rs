//! Shares of a total as text: of hits, and of the causes of misses.

use nitro_cache::Missed;

/// The causes of missed reads, the most frequent first.
#[must_use]
pub fn missed(missed: &Missed) -> String {
    let Missed { cold, evicted, overwritten, refused, dropped, invalidated, stream } = *missed;
    let mut parts = [
        (cold, "not cached lately"),
        (evicted, "evicted"),
        (overwritten, "overwritten"),
        (refused, "not admitted"),
        (dropped, "dropped on their way"),
        (invalidated, "invalidated"),
        (stream, "of streams"),
    ];
    let all = missed.all();
    if all == 0 {
        return "none".to_owned();
    }
    parts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let told =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{} {why}", percent(*count, all)));
    format!("{all} extents: {}", told.collect::<Vec<_>>().join(", "))
}

/// A share of a total, in percent.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
}
