//! What is known of the contents of a trace: its own fingerprints and sizes, those of an image, or an assumption.

use crate::args::SizeArgs;
use nitro_commands::estimate::{self, Tally, Totals};
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_sim::workload::SaidContents;
use nitro_sim::{Knob, Settings};
use serde::Serialize;
use std::slice;

/// RAM for the fingerprints of an image, in bytes.
const IMAGE_RAM_BYTES: u64 = 512 << 20;

/// Where a ratio comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Origin {
    /// The trace has fingerprints, or compressed sizes.
    Trace,
    /// It was measured in the image of `--image`, and is taken to hold for what the trace reads and writes.
    Image,
    /// It was given as an option.
    Given,
    /// Nothing is known of it.
    Assumed,
    /// The cache does not do it.
    Off,
}

/// A ratio before and after deduplication or compression.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// Where it comes from.
    pub(super) origin: Origin,
    /// The mean that the simulation uses; `None`: each extent has its own in the trace.
    pub(super) mean: Option<f64>,
}

/// What is known of contents.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Contents {
    pub(super) compression: Ratio,
    pub(super) dedup: Ratio,
    /// The image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image: Option<String>,
}

impl Contents {
    /// What a trace `said`, the options and an image tell.
    pub(super) fn new(args: &SizeArgs, base: &Settings, said: SaidContents, threads: usize) -> Result<Self, Error> {
        let given = |knob| args.given().find(|(given, _)| *given == knob).map(|(_, text)| text);
        let measured = match &args.image {
            Some(_) if said.fingerprints && said.compressed_sizes => {
                nitro_console::note!("--image: the trace has fingerprints and compressed sizes of its own");
                None
            }
            Some(_) => measure(args, base, threads)?,
            None => None,
        };
        let is_zstd = given(Knob::Compress) == Some("zstd");
        let compression = match measured {
            _ if !base.compress => Ratio { origin: Origin::Off, mean: None },
            _ if said.compressed_sizes => Ratio { origin: Origin::Trace, mean: None },
            _ if given(Knob::Compression).is_some() => {
                Ratio { origin: Origin::Given, mean: Some(base.compression_mean) }
            }
            Some(Totals { lz4_ratio, zstd_ratio, .. }) => {
                Ratio { origin: Origin::Image, mean: Some(if is_zstd { zstd_ratio } else { lz4_ratio }) }
            }
            None => Ratio { origin: Origin::Assumed, mean: Some(base.compression_mean) },
        };
        let dedup = match measured {
            _ if !base.dedup => Ratio { origin: Origin::Off, mean: None },
            _ if said.fingerprints => Ratio { origin: Origin::Trace, mean: None },
            // Sizes of the trace's own cannot be made smaller by a ratio.
            Some(totals) if !said.compressed_sizes => Ratio { origin: Origin::Image, mean: Some(totals.dedup_ratio) },
            _ => Ratio { origin: Origin::Assumed, mean: Some(1.0) },
        };
        let image = measured.and(args.image.as_ref()).map(|path| path.display().to_string());
        Ok(Self { compression, dedup, image })
    }

    /// Sets what a simulation with or without compression and deduplication assumes. Without fingerprints, duplicates are
    /// extents that take no room: they make the mean extent smaller, as compression does.
    pub(super) fn apply(&self, settings: &mut Settings, compress: bool, dedup: bool) {
        settings.dedup = dedup && self.dedup.origin != Origin::Off;
        settings.compress = compress && self.compression.origin != Origin::Off;
        if self.compression.origin == Origin::Trace {
            return;
        }
        let part = |ratio: Ratio, used| ratio.mean.filter(|_| used).unwrap_or(1.0);
        let mean = part(self.compression, settings.compress) * part(self.dedup, settings.dedup);
        settings.compress |= mean > 1.0;
        if settings.compress {
            settings.compression_mean = mean.clamp(1.0, 100.0);
        }
    }
}

/// Scans the image of `--image` for extents of the simulated size.
fn measure(args: &SizeArgs, base: &Settings, threads: usize) -> Result<Option<Totals>, Error> {
    let Some(path) = &args.image else { return Ok(None) };
    let what = format!("image {}", path.display());
    let regions = estimate::open(&what, path, 100.0)?;
    let tally = Tally::new(base.extent_bytes as usize, IMAGE_RAM_BYTES);
    let progress = Progress::new(regions.size_bytes(), "read");
    let scanned = estimate::scan(&regions, slice::from_ref(&tally), threads, |position| progress.show(position));
    progress.end();
    scanned.map_err(|e| Error::new(&what, e).or("check the device; ddrescue can copy the readable parts first"))?;
    let totals = tally.totals();
    if totals.others == 0 {
        return Err(Error::new(what, "it has only zeroes").or("name an image with data in it"));
    }
    Ok(Some(totals))
}
