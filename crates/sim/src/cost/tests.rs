use super::*;

#[test]
fn costs_are_those_of_the_paper() {
    let prices = Prices::built_in().unwrap_or_else(|error| panic!("{error}"));
    // The IOPS of Table 3 and the costs of Table 4: without a cache, with LRU, and with DSS, the latter two with a
    // cache of 100 GB.
    for (rpm, iops, costs) in
        [(7200, [162.0, 161.0, 468.0], [0.88, 1.43, 0.49]), (15000, [231.0, 228.0, 556.0], [5.47, 6.81, 2.80])]
    {
        let hdd = prices.hdds.iter().find(|hdd| hdd.rpm == rpm).unwrap_or_else(|| panic!("{rpm}"));
        for ((iops, paper), cache_bytes) in iops.into_iter().zip(costs).zip([0, 100_000_000_000, 100_000_000_000]) {
            let millionths = prices.cost(hdd, cache_bytes, iops).price_per_mb_iops * 1e6;
            assert!((millionths / paper - 1.0).abs() < 0.005, "{rpm} rpm: {millionths}, in the paper {paper}");
        }
    }
}

#[test]
fn a_cache_costs_its_share_of_an_ssd_or_whole_ones() {
    let share = Prices::built_in().unwrap_or_else(|error| panic!("{error}"));
    let whole = Prices { whole_drives: true, ..share.clone() };
    let ssd = |prices: &Prices, cache_bytes| prices.cost(&prices.hdds[0], cache_bytes, 100.0).ssd_price;
    for (cache_bytes, of_share, of_whole) in [
        (0, 0.0, 0.0),
        (25_000_000_000, 175.0, 700.0),
        (100_000_000_000, 700.0, 700.0),
        (100_000_000_001, 700.0, 1400.0),
    ] {
        assert!((ssd(&share, cache_bytes) - of_share).abs() < 1e-6 && ssd(&whole, cache_bytes) == of_whole);
    }
    assert!(share.cost(&share.hdds[0], 0, 0.0).price_per_mb_iops.is_infinite());
}

#[test]
fn tables_that_cannot_be_used_are_refused_with_their_place() {
    let good = Prices::built_in_text();
    for (from, to, told) in [
        ("rpm = 7200 ", "rpm = 5400 ", "line 17, column 7: rpm = 5400: disks of 7200 or 15000"),
        ("price = 285", "price = -1", "line 19, column 9: price = -1: must be from"),
        ("price = 285", "price = nan", "line 19, column 9: price = NaN: must be from"),
        ("price = 285", "prize = 285", "line 19, column 1: unknown field `prize`, expected one of"),
        ("price = 285", "price = 2,85", "line 19, column "),
        ("capacity_gb = 2000", "capacity_gb = \"2T\"", "line 18, column 15: invalid type: string \"2T\""),
        ("raid = \"raid0\"  ", "raid = \"raid1\"  ", "line 21, column 8: raid = \"raid1\": there are raid0, raid5"),
        ("count = 4  ", "count = 0  ", "line 20, column 9: count = 0: must be from 1 to 1024"),
        (
            "count = 4             # drives of the origin\nraid = \"raid0\"",
            "count = 1\nraid = \"raid5\"",
            "line 20, column 9",
        ),
        ("15K rpm, 600 GB", "7200 rpm, 2 TB", "line 24, column 8: there are two disks with the name"),
        ("currency = \"USD\"", "currency = \"\"", "line 8, column 12: currency: must have 1 to 64 characters"),
        ("random_reads = 18700", "random_reads = 0", "column 16: random_reads = 0: must be from 1 to"),
        ("[ssd]", "[ssds]", "unknown field `ssds`"),
    ] {
        assert!(good.contains(from), "{from}");
        let refused = Prices::parse(&good.replacen(from, to, 1)).map_err(|error| error.to_string());
        let refused = refused.err().unwrap_or_default();
        assert!(refused.contains(told), "{refused:?}, where {told:?} was expected");
    }
    let refused = Prices::parse("currency = \"USD\"\nhdd = []\n[ssd]\nname = \"a\"\ncapacity_gb = 1\nprice = 1\n");
    assert_eq!(refused.map_err(|error| (error.line, error.column)), Err((2, 7)));
}

#[test]
fn later_prices_are_for_the_same_kinds_of_disks() {
    let [then, now] =
        [Prices::built_in(), Prices::today()].map(|table| table.unwrap_or_else(|error| panic!("{error}")));
    let kinds = |prices: &Prices| prices.hdds.iter().map(|hdd| hdd.rpm).collect::<Vec<_>>();
    assert_eq!(kinds(&then), kinds(&now));
}

#[test]
fn every_table_of_ours_names_its_month_and_source() {
    for table in [Prices::built_in(), Prices::today(), Prices::of_2026()] {
        let table = table.unwrap_or_else(|error| panic!("{error}"));
        assert!(table.date.is_some() && table.source.is_some(), "{table:?}");
    }
    let of_2026 = Prices::of_2026().unwrap_or_else(|error| panic!("{error}"));
    let (ssd, hdd) = (of_2026.ssd_price(1 << 40), &of_2026.hdds[0]);
    let times = ssd / (hdd.price / hdd.capacity_bytes as f64 * (1u64 << 40) as f64);
    assert!((times - 16.4).abs() < 0.1, "{times}: the source's ratio");
}
