//! The points of a sweep, and the adaptation of settings to variants.

use crate::axis::Axis;
use crate::knob::Knob;
use crate::{Settings, Variant};
use nitro_cache::admission::AdmissionKind;
use nitro_cache::class::Classes;
use nitro_cache::eviction::EvictionKind;
use nitro_cache::pattern::StreamSettings;
use nitro_cache::ram::RAM_CACHE_BYTES;

/// A value of an axis that its setting refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The setting.
    pub knob: Knob,
    /// The value.
    pub value: String,
    /// The values that are valid.
    pub why: String,
}

/// Switches off the features that a variant does not have, gives Nitro ([`Variant::Weu`]) the server's policies, and
/// every SSD the RAM and the read-ahead that the server has in front of it.
///
/// `asked` returns whether the user chose a setting, which is then not changed.
pub fn adapt(settings: &mut Settings, asked: impl Fn(Knob) -> bool) {
    if settings.variant == Variant::Weu {
        if !asked(Knob::Admission) {
            settings.admission = AdmissionKind::default();
        }
        if !asked(Knob::Eviction) {
            settings.eviction = EvictionKind::default();
        }
        if !asked(Knob::WeuSize) {
            settings.weu_bytes = nitro_cache::Settings::usual_weu_bytes(settings.cache_bytes, settings.extent_bytes);
        }
        if !asked(Knob::Staging) {
            settings.staging_bytes = nitro_cache::Settings::usual_staging_bytes(settings.cache_bytes);
        }
    }
    if settings.variant.is_on_ssd() {
        if !asked(Knob::Ram) {
            settings.ram_bytes = RAM_CACHE_BYTES;
        }
        if !asked(Knob::Sequential) {
            settings.sequential_bytes = StreamSettings::default().threshold_bytes;
        }
    }
    let dedups = settings.variant.has_weus()
        || settings.variant.has_places() && !matches!(settings.variant, Variant::Extent { ways: 1.. });
    if !dedups && !asked(Knob::Dedup) {
        settings.dedup = false;
    }
    if !settings.variant.has_weus() && !asked(Knob::Compress) {
        settings.compress = false;
    }
    if settings.variant == Variant::None {
        (settings.ram_bytes, settings.sequential_bytes) = (0, 0);
    }
    if !settings.variant.has_class_policies() {
        (settings.classes, settings.patterns) = (Classes::default(), false);
    }
}

/// All combinations of the axes' values, without repetitions; other settings are those of `settings`. Each is adapted
/// by [`adapt`].
///
/// # Errors
/// A setting refuses a value of its axis.
pub fn points(axes: &[Axis], settings: Settings, asked: impl Fn(Knob) -> bool) -> Result<Vec<Settings>, Refused> {
    let mut points = vec![settings];
    for Axis { knob, values } in axes {
        let mut next = Vec::with_capacity(points.len() * values.len());
        for point in &points {
            for value in values {
                let mut point = *point;
                knob.set(&mut point, value).map_err(|why| Refused { knob: *knob, value: value.clone(), why })?;
                next.push(point);
            }
        }
        points = next;
    }
    points.iter_mut().for_each(|point| adapt(point, &asked));
    let mut once: Vec<Settings> = Vec::with_capacity(points.len());
    points.into_iter().for_each(|point| once.extend((!once.contains(&point)).then_some(point)));
    Ok(once)
}
