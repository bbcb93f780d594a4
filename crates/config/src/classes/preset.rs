//! Tables of classes for kinds of servers.

use super::ClassTable;
use nitro_cache::builtin;
use nitro_cache::class::{Allocation, Band, ClassPolicy};
use nitro_units::ClassId;

/// Their names.
pub const PRESETS: [&str; 5] = ["none", "file-server", "database", "hypervisor", "dss"];

/// The table of that name.
pub(super) fn named(name: &str) -> Option<ClassTable> {
    PRESETS.contains(&name).then(|| {
        let mut table = ClassTable::default();
        let mut set = |class: ClassId, priority: &str, allocation| {
            let priority = Band::named(priority).unwrap_or_default();
            table.classes.set(class, ClassPolicy { priority, allocation, ..ClassPolicy::default() });
        };
        let sizes = (0..11).map(|step| builtin::of_file(4096_u64 << (2 * step)));
        if name != "none" {
            // With `patterns`: a scan does not displace other data. The other two have the usual priority: all writes are
            // `random`, and the cache must keep what was read once until its next use, to see that there is one.
            set(builtin::SCAN, "low", Allocation::Always);
        }
        match name {
            // What the paper gave its file server: the smaller the file, the higher its priority.
            "file-server" => {
                for class in [builtin::METADATA, builtin::DIRECTORY] {
                    set(class, "highest", Allocation::Always);
                }
                set(builtin::JOURNAL, "low", Allocation::Always);
                for (step, class) in sizes.enumerate() {
                    let priority = match step {
                        0..=3 => "high",
                        4..=6 => "normal",
                        _ => "low",
                    };
                    set(class, priority, Allocation::Always);
                }
            }
            // Its files are all large; what is small is logs and configuration. Journals are written once and never read.
            "database" => {
                set(builtin::METADATA, "high", Allocation::Always);
                set(builtin::DIRECTORY, "high", Allocation::Always);
                set(builtin::JOURNAL, "low", Allocation::Never);
            }
            "hypervisor" => {
                set(builtin::METADATA, "highest", Allocation::Always);
                set(builtin::DIRECTORY, "highest", Allocation::Always);
                set(builtin::JOURNAL, "low", Allocation::SecondAccess);
                for (step, class) in sizes.enumerate() {
                    set(class, if step <= 4 { "high" } else { "normal" }, Allocation::Always);
                }
            }
            // Differentiated Storage Services, SOSP 2011, §4.2: reads allocate nothing; while little is clean, only metadata
            // and files up to 1 MiB enter; the largest files are evicted first. Needs a `dirty_max` of 86 to 90, by the size
            // of the cache (`nitro check` tells).
            "dss" => {
                let all = || ClassId::all().filter(|class| builtin::name(*class).is_some());
                all().for_each(|class| set(class, "0", Allocation::WhileClean));
                for class in [builtin::METADATA, builtin::DIRECTORY] {
                    set(class, "highest", Allocation::Always);
                }
                // Its blocks are overwritten in turn; in units of their own, they leave no gaps between metadata.
                set(builtin::JOURNAL, "14", Allocation::Always);
                let order = ["11", "10", "9", "7", "6", "3", "2", "1", "0", "0", "0"];
                for ((step, class), priority) in sizes.enumerate().zip(order) {
                    let always = if step <= 4 { Allocation::Always } else { Allocation::WhileClean };
                    set(class, priority, always);
                }
                for class in all() {
                    let policy = ClassPolicy { on_read: false, ..*table.classes.of(class) };
                    table.classes.set(class, policy);
                }
            }
            _ => {}
        }
        table
    })
}
