//! The claims of the papers, with the identifiers that reports and tests use.

/// A claim of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The identifier: a letter for the paper, and a number.
    pub id: &'static str,
    /// The claim in the words of the paper, or a summary.
    pub text: &'static str,
}

/// The papers, by the letter with which the identifiers of their claims begin.
pub const PAPERS: [(char, &str); 6] = [
    ('N', "Nitro"),
    ('A', "Azor"),
    ('D', "Data Domain"),
    ('B', "BufferHash"),
    ('S', "SILT"),
    ('F', "Differentiated Storage Services"),
];

/// All claims, in the order of [`PAPERS`].
pub const CLAIMS: [Claim; 46] = [
    claim(
        "N1",
        "Fig. 1: dedup ratio of 4 KiB blocks grows slowly with small caches, then to about 2.0 × once the unique working set fits; tens of thousands of blocks reach most of it",
    ),
    claim(
        "N2",
        "Fig. 4: WEU (D, C) raises the read-hit ratio over WEU (ND, NC) by 25, 14 and 20 % over the three FIU traces (cache 2 % of the file system)",
    ),
    claim("N3", "compression alone: +5–9 %"),
    claim("N4", "deduplication alone: WEU +8–19 %, extents +6–17 %; more than compression in every trace"),
    claim("N5", "extents (D, NC) beat WEU (D, NC) by only 1–4 % of hit ratio"),
    claim("N6", "at 5 % cache (D, C) still gains most"),
    claim(
        "N7",
        "Fig. 5: fingerprint index ratio 75 and 50 %: RAM −16 to −22 %, read hits −5 to −11 %; dedup ratio falls slowly; Homes and Mail ≥ 1.5 ×; Mail at 50 %: ≥ 131,000 duplicate extents not cached (10 GB cache)",
    ),
    claim(
        "N8",
        "Fig. 6: erasures of extent-LRU-mod and extent-LRU-TRIM are 2–4 × those of both WEU versions; WEU-LRU-TRIM is like WEU-LRU-mod; both within −9 to +20 % of plain WEU; naive extents several orders of magnitude more",
    ),
    claim("N9", "WEU-LRU-mod: read hits +5–8 % over the unmodified SSD"),
    claim(
        "N10",
        "Table 2, COS: IOPS at least +254 % and read response time at least −49 % for every WEU variant, against no SSD; Homes (D, C) +673 %",
    ),
    claim("N11", "(D, NC) has more IOPS than (ND, C) in every trace"),
    claim(
        "N12",
        "WEU (D, C) against extents (ND, NC): up to +120 % IOPS, −55 % response time; extents against WEU (ND, NC): −13 to −22 % IOPS, +4 to +7 % response time",
    ),
    claim("N13", "2 MiB writes give about 60 % more SSD throughput than 8 KiB writes"),
    claim("N14", "cold cache: IOPS up to +520 %, response time −2 to −29 %"),
    claim(
        "N15",
        "Table 2, TPS: IOPS at least +75 %, response time at least −41 %; without recipes 5–14 % fewer read hits",
    ),
    claim(
        "N16",
        "Fig. 7: dedup ≥ 5 × keeps response near the SSD's with a working set 5 × the cache; dedup ≤ 2 × degrades once the working set passes twice the cache; the transition is sharp (1 to > 8); 2 × dedup and 2 × compression make 16 GB act as 64 GB",
    ),
    claim(
        "N17",
        "Fig. 8: 0 % hits cost ≤ 7 % of response time; 100 % hits: (ND, NC) 2 %, (D, NC) 6.2 %, (ND, C) 11 %, (D, C) ≤ 18 %",
    ),
    claim("N18", "gzip is 23–47 % denser than LZ4, its decompression 380 % slower"),
    claim(
        "N19",
        "Fig. 9: random reads up to about 128 KiB are as fast in an aged store as in a young one; at 1 MiB Nitro on the aged COS takes 76 ms, slightly under the young COS; on the young COS 39 ms, slightly under the aged TPS",
    ),
    claim(
        "N20",
        "Fig. 10: restoring the oldest 25 snapshots with a 5 % cache: 374 s (D, C), 513 s (ND, C); overlap with the primary 80 % (newest) to 20 % (oldest)",
    ),
    claim(
        "N21",
        "SSD writes: WebVM and Mail at least −22 % by dedup alone and by compression alone, compression more; Homes −39 % by dedup; (D, C) up to −53 %",
    ),
    claim(
        "A1",
        "the write policy on misses (hdd-ssd, hdd-upd, hdd-inv) changes SPECsfs by up to 50 %; caching gives 11–66 % over HDDs; write-hdd-ssd evicts useful blocks where only 30 % of a large file set is touched",
    ),
    claim("A2", "metadata first: missing it in DRAM costs up to 71 %; about 23 % lower latency"),
    claim(
        "A3",
        "TPC-H: two-level selection 1.95 × (direct-mapped) and 1.53 × (fully associative); a medium direct-mapped cache with it beats a large one by 20 % at a 10 % lower hit ratio",
    ),
    claim(
        "A4",
        "fully associative beats direct-mapped at every size: 1.36 × when large, up to 15 % fewer conflict misses, the medium one 32 % better than the large direct-mapped; 4.7 × the metadata",
    ),
    claim("A5", "TPC-C: base cache +55 %, two-level selection +34 % more at the same hit ratio"),
    claim("A6", "counters: 256 MB of DRAM per TB of disk; replacement algorithms alone vary performance by up to 40 %"),
    claim("D1", "an 8 KiB non-sequential read needs 8 disk I/Os; 4 with the FMD cache; 0 with the data cache"),
    claim(
        "D2",
        "index I/Os are 25 % of a sequential restore's and 50 % of non-sequential reads'; 4-byte fingerprints cut the SSD share from 1.5 to 0.4 % of physical space with under 0.01 % collisions; restore up to +32 %",
    ),
    claim("D3", "IOPS: 5.7 × with metadata on SSD, 1.7 × more with data, 2.7 × more with the software changes"),
    claim(
        "D4",
        "mixed load: non-sequential work capped to its share costs backup and restore at most 10 % (share 10 %; default 20 %)",
    ),
    claim(
        "D5",
        "shares: FMD 10 % of the SSD (blocks of 16 KB, 0.05 % of logical size), data 40 %; 1 MB eviction units; LRU",
    ),
    claim("B1", "40 % hits: lookup 0.06 ms, insert 0.006 ms, against BerkeleyDB's 4.6 and 4.8"),
    claim("B2", "99 % of inserts under 0.1 ms, 99 % of lookups under 0.2 ms; 40 % of BerkeleyDB's over 5 ms"),
    claim("B3", "lookup share 0 / 0.5 / 1: 0.007 / 0.09 / 0.12 ms against 18.4 / 10.3 / 0.3"),
    claim("B4", "42 lookups and 420 inserts per second per dollar; DRAM 2.5"),
    claim(
        "B5",
        "2 GB of Bloom filters for 32 GB of flash keep false positives under 0.01; the best buffer total is 2 × SSD size / entry size (in bits, as the paper derives it)",
    ),
    claim(
        "B6",
        "WAN optimizer: with BufferHash it runs at its best up to 200 Mbit/s (Transcend), 500 (Intel); with BerkeleyDB up to 10; at 10 Mbit/s the mean throughput of an object improves by 65 %",
    ),
    claim(
        "S1",
        "SILT: 0.7 bytes of RAM per entry, 1.01 flash reads a query, 5.4 writes an entry; stores at 6.5, 2.2, 0.4 bytes",
    ),
    claim("S2", "conversions and merges cost little: 40K to 33K operations/s at worst on a drive of 48K reads/s"),
    claim("S3", "16 threads: median 330 µs, 99.9th 1510 µs; the index alone over 1.8 M lookups/s"),
    claim(
        "F1",
        "7200 rpm, cache 10 % of the data: IOPS 162 without, 161 with LRU, 468 with DSS (2.9 ×); application speed 217 %",
    ),
    claim("F2", "15K rpm: 231, 228, 556 (2.4 ×); 176 %"),
    claim("F3", "1.5–6.8 × LRU by workload; 7200 rpm with DSS beats 15K without and with LRU"),
    claim(
        "F4",
        "dollars per MB per IOPS: 0.88 / 1.43 / 0.49 (7200) and 5.47 / 6.81 / 2.80 (15K): −66 and −59 % against LRU",
    ),
    claim(
        "F5",
        "policy: all is admitted while more than 15 % of the cache is clean, else only metadata and files under 1 MB; largest classes evicted first, LRU within a class; write-allocate, write-back, no read-allocate",
    ),
];

/// Goals beyond the papers' claims.
pub const GOALS: [Claim; 2] = [
    claim(
        "N20b",
        "beyond the paper: a snapshot that shares 80 % with a cached primary is restored with at most 25 % of the disk reads that compression \
         alone needs",
    ),
    claim(
        "N20c",
        "beyond the paper: no restore takes more than 1.01 times as long with a cache as without one, nor more than 1.05 times the least time \
         of the disks",
    ),
];

/// Claims that recorded traces can judge, judged on them: the sentences of N3, N5, N8 and N9.
pub const RECORDED: [Claim; 4] = [
    claim("N3r", "N3 on recorded traces: compression alone: +5–9 %"),
    claim("N5r", "N5 on recorded traces: extents beat WEUs by only 1–4 % of hit ratio"),
    claim(
        "N8r",
        "N8 on recorded traces: erasures of extent-LRU-mod and extent-LRU-TRIM are 2–4 × those of both WEU versions; WEU-LRU-TRIM is like WEU-LRU-mod; both within −9 to +20 % of plain WEU; naive extents several orders of magnitude more",
    ),
    claim("N9r", "N9 on recorded traces: WEU-LRU-mod: read hits +5–8 % over the unmodified SSD"),
];

/// Claims of Differentiated Storage Services, judged on recordings of real file systems: the sentences of F1 to F5.
pub const DSS_RECORDED: [Claim; 5] = [
    claim(
        "F1r",
        "F1 on recordings: 7200 rpm: IOPS 162 without, 161 with LRU, 468 with DSS (2.9 ×); application speed 217 %",
    ),
    claim("F2r", "F2 on recordings: 15K rpm: 231, 228, 556 (2.4 ×); 176 %"),
    claim("F3r", "F3 on recordings: 1.5–6.8 × LRU by workload; 7200 rpm with DSS beats 15K without and with LRU"),
    claim(
        "F4r",
        "F4 on recordings: dollars per MB per IOPS: 0.88 / 1.43 / 0.49 (7200) and 5.47 / 6.81 / 2.80 (15K): −66 and −59 % against LRU",
    ),
    claim(
        "F5r",
        "F5 on recordings: all is admitted while more than 15 % of the cache is clean, else only metadata and files under 1 MB; largest classes evicted first; write-allocate, write-back, no read-allocate",
    ),
];

const fn claim(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text }
}

/// All claims, in the order of reports.
pub(crate) fn all() -> impl Iterator<Item = &'static Claim> {
    CLAIMS.iter().chain(&GOALS).chain(&RECORDED).chain(&DSS_RECORDED)
}

/// The text of a claim.
pub(crate) fn text(id: &str) -> &'static str {
    let found = all().find(|claim| claim.id == id);
    found.unwrap_or_else(|| panic!("{id} is a claim")).text
}

/// The reason why `nitro-lab reproduce` judges none of the claims of a paper; `None` if it judges them.
pub(crate) fn why_not_judged(id: &str) -> Option<&'static str> {
    match &id[..1] {
        "A" => Some("simulated by `nitro-lab reproduce azor`"),
        "B" => Some("measured on this machine by `nitro-lab reproduce clam`"),
        "D" => Some("judged by `nitro-lab reproduce data-domain`, in virtual time"),
        "F" => Some("simulated by `nitro-lab reproduce dss`"),
        "S" => Some("measured on this machine by `nitro-lab reproduce silt`"),
        _ => None,
    }
}
