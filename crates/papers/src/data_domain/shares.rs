//! D5: how the SSD is divided.

use super::bed::{Design, Image, System};
use super::failed;
use crate::report::{Band, Holds, Section, Table, Verdict};
use crate::store::bed::CHUNK_BYTES;
use nitro_cache::eviction::EvictionKind;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::{Fpi, SsdOptions};

/// The paper's figures.
const FMD_PERCENT: u8 = 10;
const DATA_PERCENT: u8 = 40;
const UNIT_BYTES: u32 = 1 << 20;
const BLOCK_BYTES: f64 = 16384.0;
const RECIPES_PERCENT: f64 = 0.05;
/// Bytes between reads that touch each recipe block: less than a block covers.
const STEP_BYTES: u64 = 1 << 20;

/// The figures of D5.
#[derive(Debug, Clone, Copy)]
struct Figures {
    fmd_percent: u8,
    data_percent: u8,
    unit_bytes: u32,
    eviction: EvictionKind,
    /// The mean size of a recipe block on the SSD.
    block_bytes: f64,
    /// Recipes in percent of the logical size of all objects.
    recipes_percent: f64,
    /// The recipes of the images in percent of the share that the SSD has for recipes.
    filled_percent: f64,
}

impl Figures {
    fn judge(&self) -> Holds {
        let settings = self.fmd_percent == FMD_PERCENT
            && self.data_percent == DATA_PERCENT
            && self.unit_bytes == UNIT_BYTES
            && self.eviction == EvictionKind::Lru;
        if !settings {
            return Holds::DoesNot;
        }
        let sizes = Band::at(BLOCK_BYTES).has(self.block_bytes) && Band::at(RECIPES_PERCENT).has(self.recipes_percent);
        // A larger recipe is in direction as long as the share still holds it.
        Holds::of(sizes, self.filled_percent <= 100.0)
    }
}

pub(super) async fn section(image: &Image) -> Result<Section, Error> {
    let options = SsdOptions { data: false, fpi: Fpi::Off, ..SsdOptions::default() };
    let bytes = image.ssd_bytes();
    let system = System::open(image, &Design::own().with_ssd(options, bytes)).await?;
    let volume = system.volume().await?;
    // Backwards, so that each block is read at random.
    for step in (0..image.contents.len() as u64 * CHUNK_BYTES / STEP_BYTES).rev() {
        volume.read_range(step * STEP_BYTES, 8192).await.map_err(|e| failed(&e))?;
    }
    let stats = system.store.ssd_stats().map(|stats| stats.pieces[0]);
    let (pieces, stored) = stats.map_or((0, 0), |fmd| (fmd.pieces, fmd.stored_bytes));
    let options = SsdOptions::default();
    let share = bytes as f64 * f64::from(options.fmd_percent) / 100.0;
    let figures = Figures {
        fmd_percent: options.fmd_percent,
        data_percent: options.data_percent,
        unit_bytes: options.unit_bytes,
        eviction: SsdOptions::EVICTION,
        block_bytes: stored as f64 / pieces.max(1) as f64,
        recipes_percent: 100.0 * image.stats.recipe_bytes as f64 / image.stats.logical_bytes.max(1) as f64,
        filled_percent: 100.0 * stored as f64 / share,
    };
    Ok(shown(image, &figures))
}

fn shown(image: &Image, figures: &Figures) -> Section {
    let mut table = Table::new("The SSD of the store", &["figure", "here", "paper"]);
    table.rows = vec![
        vec!["share of recipe blocks (FMD)".into(), format!("{} %", figures.fmd_percent), format!("{FMD_PERCENT} %")],
        vec!["share of chunks".into(), format!("{} %", figures.data_percent), format!("{DATA_PERCENT} %")],
        vec!["eviction unit".into(), Size(figures.unit_bytes.into()).to_string(), Size(UNIT_BYTES.into()).to_string()],
        vec!["order of eviction".into(), figures.eviction.name().into(), "LRU".into()],
        vec!["mean size of a recipe block".into(), format!("{:.1} KiB", figures.block_bytes / 1024.0), "16 KiB".into()],
        vec![
            "recipes, of the logical size".into(),
            format!("{:.3} %", figures.recipes_percent),
            format!("{RECIPES_PERCENT} %"),
        ],
        vec![
            "the images' recipes, of the share for recipes".into(),
            format!("{:.1} %", figures.filled_percent),
            "–".into(),
        ],
    ];
    let found = format!(
        "shares {} and {} %, units of {}, {}; recipe blocks of {:.1} KiB, {:.2} % of the logical size of {}; the images' recipes \
         take {:.0} % of the share",
        figures.fmd_percent,
        figures.data_percent,
        Size(figures.unit_bytes.into()),
        figures.eviction.name(),
        figures.block_bytes / 1024.0,
        figures.recipes_percent,
        Size(image.stats.logical_bytes),
        figures.filled_percent,
    );
    let stored = image.stats.recipe_bytes as f64 / image.stats.logical_bytes.max(1) as f64;
    let why = format!(
        "a reference takes {:.1} bytes of a recipe for each chunk of 8 KiB of logical data, after what generations share; the \
         paper's {RECIPES_PERCENT} % are {:.1} bytes, of which a fingerprint alone takes 20 where it is not shared",
        stored * 8192.0,
        RECIPES_PERCENT / 100.0 * 8192.0
    );
    Section {
        id: "data-domain-shares",
        title: "Shares of the SSD".into(),
        text: "Shares, units and order are the defaults of the store's SSD, which is the one of the other experiments. The size of \
               recipe blocks is that of the images' blocks on it; recipes of all generations are set against the logical size of \
               all generations."
            .into(),
        charts: Vec::new(),
        tables: vec![table],
        verdicts: vec![Verdict::new("D5", found, figures.judge()).because(&why)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        let good = Figures {
            fmd_percent: 10,
            data_percent: 40,
            unit_bytes: 1 << 20,
            eviction: EvictionKind::Lru,
            block_bytes: 15_000.0,
            recipes_percent: 0.05,
            filled_percent: 3.0,
        };
        assert_eq!(good.judge(), Holds::Holds);
        assert_eq!(Figures { recipes_percent: 0.4, ..good }.judge(), Holds::InDirection);
        assert_eq!(Figures { block_bytes: 4096.0, filled_percent: 120.0, ..good }.judge(), Holds::DoesNot);
        assert_eq!(Figures { eviction: EvictionKind::Fifo, ..good }.judge(), Holds::DoesNot);
        assert_eq!(Figures { data_percent: 60, ..good }.judge(), Holds::DoesNot);
    }
}
