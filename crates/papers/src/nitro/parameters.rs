//! Table 1: the configuration space.

use super::{Outcomes, Plan};
use crate::report::{Section, Table};
use nitro_cache::settings::{EXTENT_BYTES, FINGERPRINT_INDEX_RATIO, Setting, WEU_BYTES};

pub(super) fn section(plan: &Plan, _outcomes: &Outcomes) -> Section {
    let mut table = Table::new("Parameters", &["parameter", "the paper", "Nitro here", "in these runs"]);
    let range = |setting: &Setting| format!("{} to {} {}, {}", setting.min, setting.max, setting.unit, setting.default);
    let rows: [[String; 4]; 10] = [
        ["extent size".into(), "4 to 128 KB, 8 KB".into(), range(&EXTENT_BYTES), "8 KiB; Figure 1: 4 KiB".into()],
        ["write-evict unit".into(), "2 MB".into(), range(&WEU_BYTES), format!("{} KiB", plan.weu_bytes >> 10)],
        [
            "fingerprint index ratio".into(),
            "0 to 100 %, 100 %".into(),
            range(&FINGERPRINT_INDEX_RATIO),
            "100 %; Figure 5: 0 to 100 %".into(),
        ],
        ["fingerprint".into(), "SHA-1".into(), "BLAKE3 (160 bits) or SHA-1".into(), "of the traces".into()],
        [
            "compression".into(),
            "LZ4; NC".into(),
            "LZ4, Zstandard or none".into(),
            "normal, mean 2, variance 0.25; NC".into(),
        ],
        ["deduplication".into(), "D; ND".into(), "on; off".into(), "D; ND".into()],
        ["cache".into(), "2 % of the file system".into(), "any".into(), "2 %; Figure 4: 2 and 5 %".into()],
        [
            "writes".into(),
            "through; back".into(),
            "through; back".into(),
            "through; Figures 4 to 6 also back; Table 2: back".into(),
        ],
        [
            "NVRAM".into(),
            "960 MB".into(),
            "RAM for staging".into(),
            "960 MiB, scaled with the trace; Figures 1 and 7: none".into(),
        ],
        [
            "SSD".into(),
            "7 % over-provisioned, 10 % log blocks; none reserved where modified".into(),
            "the same (crate nitro-model)".into(),
            "the same".into(),
        ],
    ];
    table.rows.extend(rows.map(Vec::from));
    Section {
        id: "table-1",
        title: "Table 1: parameters".into(),
        text: "The parameters of the paper (defaults last), the corresponding parameters of Nitro, and the values in \
               these runs."
            .into(),
        tables: vec![table],
        ..Section::default()
    }
}
