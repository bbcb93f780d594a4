//! The judges of Nitro's claims. Each is written from the claim's sentence, takes figures of the three traces in the
//! paper's order (WebVM, Homes, Mail), and is tested with figures that do not hold. Gains and losses are in percent.

use crate::report::{Band, Holds, judge_up_to};

/// The line of a trace in Figure 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    /// The ratio of the largest cache.
    pub(super) end: f64,
    /// The share of its gain over 1 that tens of thousands of blocks reach.
    pub(super) share: f64,
    /// Whether no larger cache has a smaller ratio, apart from noise.
    pub(super) rises: bool,
    /// Whether the first doubling of the cache gains less than a later one.
    pub(super) slow_first: bool,
}

/// N1: the ratio grows slowly with small caches, then to about 2; tens of thousands of blocks reach most of it.
pub(super) fn n1(traces: &[Growth]) -> Holds {
    if traces.len() < 3 { Holds::NotJudged } else { n1_each(traces) }
}

/// Whether published counts decide N1: it does not hold, but it does in the traces whose counts allow a ratio of about
/// 2. `per_unique`: the published number of blocks written for each unique one, by trace.
pub(super) fn n1_is_decided(traces: &[Growth], per_unique: &[f64]) -> bool {
    let may = |per_unique: &f64| Band::at(2.0).has(*per_unique);
    let allowed: Vec<_> =
        traces.iter().zip(per_unique).filter(|(_, found)| may(found)).map(|(trace, _)| *trace).collect();
    n1(traces) == Holds::DoesNot
        && !allowed.is_empty()
        && allowed.len() < traces.len()
        && n1_each(&allowed) != Holds::DoesNot
}

fn n1_each(traces: &[Growth]) -> Holds {
    let order = traces.iter().all(|trace| trace.rises && trace.slow_first && trace.share > 0.5);
    let ends: Vec<_> = traces.iter().map(|trace| trace.end - 1.0).collect();
    Holds::of(
        order && traces.iter().all(|trace| Band::at(2.0).has(trace.end)),
        order && Band::at(1.0).judge(&ends) != Holds::DoesNot,
    )
}

/// N2: the gains of WebVM, Homes and Mail, in percent.
pub(super) const N2: [Band; 3] = [Band::at(25.0), Band::at(14.0), Band::at(20.0)];

/// N2: +25, +14 and +20 %; WebVM gains most and Homes least.
pub(super) fn n2(gains: &[f64]) -> Holds {
    let [web_vm, homes, mail] = *gains else { return Holds::NotJudged };
    let near = N2.iter().zip(gains).all(|(band, gain)| band.has(*gain));
    Holds::of(near, homes > 0.0 && homes < mail && mail < web_vm)
}

/// N3: the gain by compression, in percent.
pub(super) const N3: Band = Band::new(5.0, 9.0);

/// N3: compression alone.
pub(super) fn n3(compressed: &[f64]) -> Holds {
    N3.judge(compressed)
}

/// N4: the gain of units by deduplication, in percent.
pub(super) const N4_UNITS: Band = Band::new(8.0, 19.0);
/// N4: the gain of extents by deduplication, in percent.
pub(super) const N4_EXTENTS: Band = Band::new(6.0, 17.0);

/// N4: units +8–19 %, extents +6–17 %, and both more than compression in every trace.
pub(super) fn n4(units: &[f64], extents: &[f64], compressed: &[f64]) -> Holds {
    let order = match units.iter().zip(compressed).all(|(dedup, compressed)| dedup > compressed) {
        true => Holds::Holds,
        false => Holds::DoesNot,
    };
    N4_UNITS.judge(units).and(N4_EXTENTS.judge(extents)).and(order)
}

/// N5: the gain of extents over units, in percent.
pub(super) const N5: Band = Band::new(1.0, 4.0);

/// N5: "only" 1–4 %: more than 0, and less than the gain of units by deduplication.
pub(super) fn n5(finer: &[f64], dedup: &[f64]) -> Holds {
    if finer.is_empty() || finer.len() != dedup.len() {
        return Holds::NotJudged;
    }
    let only = finer.iter().zip(dedup).all(|(finer, dedup)| *finer > 0.0 && finer < dedup);
    Holds::of(finer.iter().all(|finer| N5.has(*finer)), only)
}

/// The smallest headroom at 5 %, in percent, with which a trace can distinguish the variants.
pub(super) const HEADROOM_MIN: f64 = 2.0;

/// N6: (D, C) gains more than the best other variant of units, in every trace. A trace without headroom at a cache of 5 %
/// can show that it does, but not that it does not. `headroom`: the gain of (D, C) with a cache for everything over (ND, NC)
/// at 5 %.
pub(super) fn n6(gains: &[f64], headroom: &[f64]) -> Holds {
    let each = gains.iter().zip(headroom).map(|(gain, headroom)| match (*gain > 0.0, *headroom >= HEADROOM_MIN) {
        (true, _) => Holds::Holds,
        (false, true) => Holds::DoesNot,
        (false, false) => Holds::NotJudged,
    });
    each.reduce(Holds::and).unwrap_or(Holds::NotJudged)
}

/// The figures of a trace in Figure 5: at fingerprint index ratios of 75 and 50 %, relative to 100 %.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partial {
    pub(super) ram: [f64; 2],
    pub(super) hits: [f64; 2],
    /// Deduplication ratios at 100, 75 and 50 %.
    pub(super) ratios: [f64; 3],
}

/// N7. `uncached`: the number of extents by which Mail's cache holds fewer at 50 %.
pub(super) fn n7(traces: &[Partial], uncached: f64) -> Holds {
    let [web_vm, homes, mail] = traces else { return Holds::NotJudged };
    let each = |of: fn(&Partial, usize) -> f64, theirs: [f64; 2]| {
        (0..2).fold(Holds::Holds, |all, n| {
            all.and(Band::at(theirs[n]).judge(&[of(web_vm, n), of(homes, n), of(mail, n)]))
        })
    };
    let slowly = |trace: &Partial| {
        let [all, most, half] = trace.ratios;
        // Half of the fingerprints find more than half of the duplicates.
        all >= most && most >= half && half - 1.0 > 0.5 * (all - 1.0)
    };
    let slow = if traces.iter().all(slowly) { Holds::Holds } else { Holds::DoesNot };
    let many = [homes.ratios[0], mail.ratios[0]];
    let higher = many.iter().all(|ratio| *ratio > web_vm.ratios[0]);
    // At least 1.5, and about 2 with all fingerprints (N1).
    let ratios = Holds::of(higher && many.iter().all(|ratio| Band::new(1.5, 2.0).has(*ratio)), higher);
    each(|trace, n| trace.ram[n], [-16.0, -22.0])
        .and(each(|trace, n| trace.hits[n], [-5.0, -11.0]))
        .and(slow)
        .and(ratios)
        .and(Band::at(131_000.0).judge(&[uncached]))
}

/// Erasures of a trace, relative to plain units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wear {
    /// WEU-LRU-mod and WEU-LRU-TRIM.
    pub(super) units: [f64; 2],
    /// Extent-LRU-mod and extent-LRU-TRIM.
    pub(super) extents: [f64; 2],
    pub(super) naive: f64,
}

/// The least factor that counts as "several orders of magnitude".
const ORDERS: f64 = 100.0;

/// N8. "Like" has no direction: units outside the band do not hold. "Several orders of magnitude" has none either.
pub(super) fn n8(traces: &[Wear]) -> Holds {
    if traces.len() < 3 { Holds::NotJudged } else { n8_each(traces) }
}

/// N8, in any number of traces.
pub(super) fn n8_each(traces: &[Wear]) -> Holds {
    if traces.is_empty() {
        return Holds::NotJudged;
    }
    let more = |wear: &Wear| {
        wear.extents.into_iter().flat_map(|extents| wear.units.map(|units| extents / units)).collect::<Vec<_>>()
    };
    let extents: Vec<_> = traces.iter().flat_map(more).collect();
    let extents = Holds::of(
        extents.iter().all(|times| Band::new(2.0, 4.0).has(*times)),
        extents.iter().all(|times| *times > 1.0),
    );
    let units: Vec<_> = traces.iter().flat_map(|wear| wear.units.map(|times| (times - 1.0) * 100.0)).collect();
    let alike = traces.iter().all(|wear| Band::at(1.0).has(wear.units[1] / wear.units[0]));
    let naive = traces.iter().all(|wear| wear.naive >= ORDERS);
    let sure = if alike && naive { Holds::Holds } else { Holds::DoesNot };
    extents.and(Band::new(-9.0, 20.0).judge(&units)).and(sure)
}

/// N9: the gain of read hits of WEU-LRU-mod, in percent.
pub(super) const N9: Band = Band::new(5.0, 8.0);

/// N9: the hits of WEU-LRU-mod.
pub(super) fn n9(gains: &[f64]) -> Holds {
    N9.judge(gains)
}

/// N10: IOPS at least +254 %, and at most +673 %, which is Homes with (D, C); responses at least 49 % shorter.
pub(super) fn n10(iops: &[f64], response: &[f64], homes: Option<f64>) -> Holds {
    let Some(homes) = homes else { return Holds::NotJudged };
    let best = Holds::of(Band::at(673.0).has(homes), iops.iter().all(|iops| *iops <= homes));
    Band::new(254.0, 673.0).judge(iops).and(Band::new(-100.0, -49.0).judge(response)).and(best)
}

/// N11: (D, NC) has more IOPS in every trace; the claim has no figure.
pub(super) fn n11(more: &[f64]) -> Holds {
    match more {
        [] => Holds::NotJudged,
        _ if more.iter().all(|more| *more > 0.0) => Holds::Holds,
        _ => Holds::DoesNot,
    }
}

/// N12: (D, C) relative to extents, and extents relative to units; IOPS and responses.
pub(super) fn n12(over: [&[f64]; 2], extents: [&[f64]; 2]) -> Holds {
    judge_up_to(120.0, over[0])
        .and(judge_up_to(-55.0, over[1]))
        .and(Band::new(-22.0, -13.0).judge(extents[0]))
        .and(Band::new(4.0, 7.0).judge(extents[1]))
}

/// N13: the SSD's throughput.
pub(super) fn n13(more: &[f64]) -> Holds {
    Band::at(60.0).judge(more)
}

/// N14: the cold cache.
pub(super) fn n14(iops: &[f64], response: &[f64]) -> Holds {
    judge_up_to(520.0, iops).and(Band::new(-29.0, -2.0).judge(response))
}

/// N15. A plain origin gains less than a deduplicating one, so the bound is the best of the latter (N10). `fewer`: read
/// hits relative to those with recipes.
pub(super) fn n15(iops: &[f64], response: &[f64], fewer: &[f64]) -> Holds {
    Band::new(75.0, 673.0)
        .judge(iops)
        .and(Band::new(-100.0, -41.0).judge(response))
        .and(Band::new(-14.0, -5.0).judge(fewer))
}

/// Responses in Figure 7, relative to a working set that fits, by the working set over the cache and the dedup ratio.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contours {
    /// (D, NC), working set 5 ×, dedup 5 ×.
    pub(super) many: f64,
    /// (D, NC), dedup 2 ×: at 1 ×, at 2 × and at the next larger working set.
    pub(super) few: [f64; 3],
    /// (D, C), working set 4 ×, dedup 2 ×.
    pub(super) four: f64,
}

/// The end of the paper's contours: "from 1 to > 8".
const SLOW: f64 = 8.0;

/// N16. "Near" is within a quarter; figures on the right side of the transition that are not near hold in direction.
pub(super) fn n16(found: Contours) -> Holds {
    let Contours { many, few: [inside, edge, beyond], four } = found;
    let near = |response: f64| Holds::of(Band::at(1.0).has(response), response < SLOW);
    let sharp = Band::at(1.0).has(inside) && beyond > edge && beyond > SLOW;
    near(many).and(near(four)).and(if sharp { Holds::Holds } else { Holds::DoesNot })
}

/// N17, for one system: overheads at 0 % and at 100 % hits, in the order (D, C), (D, NC), (ND, C), (ND, NC).
pub(super) fn n17(misses: &[f64], hits: &[f64]) -> Holds {
    let [both, dedup, compressed, plain] = *hits else { return Holds::NotJudged };
    // A negative cost beyond noise is not what the claim says.
    let none = if misses.iter().all(|more| Band::new(-NO_HITS_MAX, NO_HITS_MAX).has(*more)) {
        Holds::Holds
    } else {
        Holds::DoesNot
    };
    let near = ALL_HITS.iter().zip(hits).all(|(theirs, ours)| Band::at(*theirs).has(*ours));
    let order = plain < dedup && dedup < compressed && compressed < both && plain > 0.0;
    none.and(Holds::of(near, order))
}

/// The paper's overheads at 100 % hits, in percent, in the order of [`Kind::ALL`](crate::kind::Kind::ALL).
pub(super) const ALL_HITS: [f64; 4] = [18.0, 6.2, 11.0, 2.0];
/// The paper's bound at 0 % hits, in percent.
pub(super) const NO_HITS_MAX: f64 = 7.0;

/// N18: gzip compared with LZ4.
pub(super) fn n18(denser: &[f64], slower: &[f64]) -> Holds {
    Band::new(23.0, 47.0).judge(denser).and(Band::at(380.0).judge(slower))
}

/// N21: the bytes saved in WebVM and Mail, in percent: the bound is the best of (D, C), 53 %.
pub(super) const N21: Band = Band::new(-53.0, -22.0);
/// N21: the bytes saved in Homes by deduplication, in percent.
pub(super) const N21_HOMES: Band = Band::at(-39.0);

/// N21: bytes written relative to (ND, NC), for (D, C), (D, NC) and (ND, C).
pub(super) fn n21(both: &[f64], dedup: &[f64], compressed: &[f64]) -> Holds {
    n21_with([true; 2], both, dedup, compressed)
}

/// Whether compression can save more than deduplication in a trace. It cannot if deduplication saves more than
/// `compression` (a share) of the writes of a period whose unique content fits in the cache. `per_unique`: the published
/// number of blocks written for each unique one.
pub(super) fn n21_order_may_hold(per_unique: f64, unique_bytes: f64, cache_bytes: f64, compression: f64) -> bool {
    unique_bytes > cache_bytes || 1.0 - 1.0 / per_unique < compression
}

/// Whether published counts decide N21: it does not hold, but it does without the order of the traces (WebVM and Mail)
/// whose counts exclude it.
pub(super) fn n21_is_decided(order_may_hold: [bool; 2], both: &[f64], dedup: &[f64], compressed: &[f64]) -> bool {
    let without = n21_with(order_may_hold, both, dedup, compressed);
    order_may_hold.contains(&false) && n21(both, dedup, compressed) == Holds::DoesNot && without != Holds::DoesNot
}

/// N21. `ordered`: whether compression must save more than deduplication in WebVM and in Mail.
fn n21_with(ordered: [bool; 2], both: &[f64], dedup: &[f64], compressed: &[f64]) -> Holds {
    let [d_web, d_homes, d_mail] = *dedup else { return Holds::NotJudged };
    let [c_web, c_homes, c_mail] = *compressed else { return Holds::NotJudged };
    let order = (!ordered[0] || c_web < d_web) && (!ordered[1] || c_mail < d_mail) && c_homes < 0.0;
    N21.judge(&[d_web, d_mail, c_web, c_mail])
        .and(N21_HOMES.judge(&[d_homes]))
        .and(judge_up_to(-53.0, both))
        .and(if order { Holds::Holds } else { Holds::DoesNot })
}

#[cfg(test)]
mod tests {
    use super::Holds::{DoesNot, Holds as Yes, InDirection, NotJudged};
    use super::*;

    const GROWTH: Growth = Growth { end: 2.0, share: 0.8, rises: true, slow_first: true };
    const PARTIAL: [Partial; 3] = [
        Partial { ram: [-16.0, -22.0], hits: [-5.0, -11.0], ratios: [1.4, 1.35, 1.3] },
        Partial { ram: [-16.0, -22.0], hits: [-5.0, -11.0], ratios: [1.6, 1.5, 1.4] },
        Partial { ram: [-16.0, -22.0], hits: [-5.0, -11.0], ratios: [2.0, 1.9, 1.8] },
    ];
    const WEAR: Wear = Wear { units: [0.95, 1.0], extents: [3.0, 2.5], naive: 5000.0 };

    #[test]
    fn deduplication_ratios() {
        assert_eq!(n1(&[GROWTH; 3]), Yes);
        let with = |last: Growth| n1(&[GROWTH, GROWTH, last]);
        // One trace that does not hold is enough.
        assert_eq!(with(Growth { share: 0.31, ..GROWTH }), DoesNot);
        assert_eq!(with(Growth { slow_first: false, ..GROWTH }), DoesNot);
        assert_eq!(with(Growth { rises: false, ..GROWTH }), DoesNot);
        assert_eq!(with(Growth { end: 3.9, ..GROWTH }), InDirection);
        assert_eq!(with(Growth { end: 1.2, ..GROWTH }), InDirection);
        assert_eq!(n1(&[GROWTH]), NotJudged);
    }

    #[test]
    fn published_counts_decide_only_what_they_exclude() {
        const COUNTS: [f64; 3] = [1.9, 1.51, 11.1];
        let more = Growth { end: 9.1, share: 0.09, ..GROWTH };
        assert!(n1_is_decided(&[GROWTH, GROWTH, more], &COUNTS));
        // A trace whose counts allow the claim does not hold it.
        assert!(!n1_is_decided(&[GROWTH, Growth { share: 0.45, ..GROWTH }, more], &COUNTS));
        // It holds, or no count excludes it, or all do.
        assert!(!n1_is_decided(&[GROWTH; 3], &COUNTS));
        assert!(!n1_is_decided(&[GROWTH, GROWTH, more], &[1.9, 1.51, 2.0]));
        assert!(!n1_is_decided(&[GROWTH, GROWTH, more], &[9.0, 9.0, 11.1]));
        // A day of Mail's unique content fits in 10 GB, WebVM's 21 days do not in 1.4 GB.
        assert!(!n21_order_may_hold(11.1, 7.7e9, 10e9, 0.5));
        assert!(n21_order_may_hold(1.9, 24.1e9, 1.4e9, 0.5));
        assert!(n21_order_may_hold(11.1, 7.7e9, 1e9, 0.5) && n21_order_may_hold(1.5, 1e9, 10e9, 0.5));
        let (both, dedup, compressed) = ([-45.0, -50.0, -53.0], [-22.0, -39.0, -60.0], [-30.0, -25.0, -30.0]);
        assert!(n21_is_decided([true, false], &both, &dedup, &compressed));
        assert!(!n21_is_decided([true, true], &both, &dedup, &compressed));
        assert!(!n21_is_decided([true, false], &both, &[-35.0, -39.0, -60.0], &compressed), "WebVM's order");
        assert!(!n21_is_decided([true, false], &both, &[-22.0, 3.0, -60.0], &compressed), "Homes");
    }

    #[test]
    fn read_hits() {
        assert_eq!(n2(&[25.0, 14.0, 20.0]), Yes);
        assert_eq!(n2(&[9.1, 8.0, 8.5]), InDirection);
        assert_eq!(n2(&[14.0, 25.0, 20.0]), DoesNot);
        assert_eq!(n2(&[25.0, -1.0, 20.0]), DoesNot);
        assert_eq!(n3(&[5.0, 9.0, 7.0]), Yes);
        assert_eq!(n3(&[5.0, 20.0, 7.0]), InDirection);
        assert_eq!(n3(&[5.0, -0.1, 7.0]), DoesNot);
        assert_eq!(n4(&[8.0, 19.0, 10.0], &[6.0, 17.0, 9.0], &[5.0, 9.0, 7.0]), Yes);
        assert_eq!(n4(&[8.0, 30.0, 10.0], &[6.0, 17.0, 9.0], &[5.0, 9.0, 7.0]), InDirection);
        // In one trace, compression gains more.
        assert_eq!(n4(&[8.0, 8.5, 10.0], &[6.0, 17.0, 9.0], &[5.0, 9.0, 7.0]), DoesNot);
        assert_eq!(n4(&[], &[], &[]), NotJudged);
        assert_eq!(n5(&[1.0, 4.0, 2.0], &[8.0, 19.0, 10.0]), Yes);
        assert_eq!(n5(&[1.0, 7.0, 2.0], &[8.0, 19.0, 10.0]), InDirection);
        assert_eq!(n5(&[14.8, 17.0, 2.6], &[3.5, 0.8, 9.3]), DoesNot);
        assert_eq!(n6(&[1.0, 2.0, 0.1], &[10.0, 9.0, 0.3]), Yes);
        assert_eq!(n6(&[1.0, -2.0, 0.0], &[10.0, 9.0, 0.3]), DoesNot);
        // Without headroom, no gain says nothing.
        assert_eq!(n6(&[1.0, 2.0, 0.0], &[10.0, 9.0, 0.3]), NotJudged);
        assert_eq!(n6(&[], &[]), NotJudged);
    }

    #[test]
    fn partial_indexes() {
        assert_eq!(n7(&PARTIAL, 131_000.0), Yes);
        assert_eq!(n7(&PARTIAL, 338_850.0), InDirection);
        assert_eq!(n7(&PARTIAL, -1.0), DoesNot);
        let with = |mail: Partial| n7(&[PARTIAL[0], PARTIAL[1], mail], 131_000.0);
        assert_eq!(with(Partial { hits: [-0.1, -0.9], ..PARTIAL[2] }), InDirection);
        assert_eq!(with(Partial { hits: [0.4, -0.9], ..PARTIAL[2] }), DoesNot);
        assert_eq!(with(Partial { ratios: [2.0, 1.5, 1.4], ..PARTIAL[2] }), DoesNot);
        assert_eq!(with(Partial { ratios: [1.3, 1.28, 1.25], ..PARTIAL[2] }), DoesNot);
        assert_eq!(n7(&PARTIAL[..2], 131_000.0), NotJudged);
    }

    #[test]
    fn erasures() {
        assert_eq!(n8(&[WEAR; 3]), Yes);
        let with = |last: Wear| n8(&[WEAR, WEAR, last]);
        assert_eq!(with(Wear { naive: 11.0, ..WEAR }), DoesNot);
        assert_eq!(with(Wear { extents: [9.0, 3.0], ..WEAR }), InDirection);
        assert_eq!(with(Wear { extents: [0.9, 3.0], ..WEAR }), DoesNot);
        assert_eq!(with(Wear { units: [1.0, 1.4], ..WEAR }), DoesNot);
        assert_eq!(n9(&[5.0, 8.0, 6.0]), Yes);
        assert_eq!(n9(&[1.8, 3.6, 1.3]), InDirection);
        assert_eq!(n9(&[-1.8, 3.6, 1.3]), DoesNot);
        assert_eq!(n13(&[62.0]), Yes);
        assert_eq!(n13(&[6.4]), InDirection);
        assert_eq!(n13(&[-6.4]), DoesNot);
    }

    #[test]
    fn pace() {
        assert_eq!(n10(&[254.0, 673.0], &[-49.0, -80.0], Some(673.0)), Yes);
        assert_eq!(n10(&[254.0, 673.0], &[-4.0, -80.0], Some(673.0)), InDirection);
        // A figure above the band does not hold either.
        assert_eq!(n10(&[254.0, 1900.0], &[-49.0, -80.0], Some(1900.0)), InDirection);
        assert_eq!(n10(&[254.0, 700.0], &[-49.0, -80.0], Some(300.0)), DoesNot);
        assert_eq!(n10(&[254.0, 673.0], &[41.0, -80.0], Some(673.0)), DoesNot);
        assert_eq!(n11(&[1.0, 2.0, 0.1]), Yes);
        assert_eq!(n11(&[-3.1, -4.0, 26.7]), DoesNot);
        let over: [&[f64]; 2] = [&[120.0, 20.0], &[-55.0, -2.0]];
        let extents: [&[f64]; 2] = [&[-13.0, -22.0], &[4.0, 7.0]];
        assert_eq!(n12(over, extents), Yes);
        assert_eq!(n12([&[35.0, 20.0], over[1]], extents), InDirection);
        assert_eq!(n12([&[120.0, -3.7], over[1]], extents), DoesNot);
        assert_eq!(n12(over, [&[-13.0, 42.0], extents[1]]), DoesNot);
        assert_eq!(n14(&[520.0, 100.0], &[-2.0, -29.0]), Yes);
        assert_eq!(n14(&[520.0, 100.0], &[-2.0, -60.0]), InDirection);
        assert_eq!(n14(&[520.0, 100.0], &[2.0, -29.0]), DoesNot);
        assert_eq!(n15(&[75.0, 300.0], &[-41.0, -60.0], &[-5.0, -14.0]), Yes);
        assert_eq!(n15(&[75.0, 985.0], &[-41.0, -60.0], &[-5.0, -14.0]), InDirection);
        assert_eq!(n15(&[75.0, 300.0], &[-41.0, 60.0], &[-5.0, -14.0]), DoesNot);
    }

    #[test]
    fn sensitivity_and_overheads() {
        let paper = Contours { many: 1.1, few: [1.0, 1.2, 9.0], four: 1.2 };
        assert_eq!(n16(paper), Yes);
        assert_eq!(n16(Contours { many: 5.6, ..paper }), InDirection);
        assert_eq!(n16(Contours { four: 26.7, ..paper }), DoesNot);
        assert_eq!(n16(Contours { few: [1.0, 1.2, 3.0], ..paper }), DoesNot);
        assert_eq!(n17(&[7.0, 3.0, 2.0, 0.1], &ALL_HITS), Yes);
        assert_eq!(n17(&[7.0, 3.0, 2.0, 0.1], &[30.0, 6.2, 11.0, 2.0]), InDirection);
        assert_eq!(n17(&[7.0, 3.0, 2.0, 0.1], &[16.3, 5.9, -18.5, -2.9]), DoesNot);
        assert_eq!(n17(&[17.0, 3.0, 2.0, 0.1], &ALL_HITS), DoesNot);
        assert_eq!(n17(&[-27.0, 3.0, 2.0, 0.1], &ALL_HITS), DoesNot);
        assert_eq!(n18(&[23.0, 47.0], &[380.0]), Yes);
        assert_eq!(n18(&[23.0, 47.0], &[5544.0]), InDirection);
        assert_eq!(n18(&[-1.0, 47.0], &[380.0]), DoesNot);
    }

    #[test]
    fn writes() {
        assert_eq!(n21(&[-45.0, -50.0, -53.0], &[-22.0, -39.0, -25.0], &[-30.0, -25.0, -30.0]), Yes);
        assert_eq!(n21(&[-45.0, -50.0, -53.0], &[-22.0, -12.0, -25.0], &[-30.0, -25.0, -30.0]), InDirection);
        // The order of Mail is reversed.
        assert_eq!(n21(&[-45.0, -50.0, -53.0], &[-22.0, -39.0, -45.0], &[-30.0, -25.0, -30.0]), DoesNot);
        assert_eq!(n21(&[-45.0, -50.0, -84.0], &[-22.0, -39.0, -25.0], &[-30.0, -25.0, -30.0]), InDirection);
        assert_eq!(n21(&[], &[], &[]), NotJudged);
    }
}
