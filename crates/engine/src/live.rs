//! Settings that may change while a cache is in use.

use crate::endurance::Endurance;
use crate::settings::EngineSettings;
use nitro_port::codec::Compression;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The present values of the settings that may change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LiveSettings {
    /// See [`EngineSettings::compression`]: of what is inserted from now on.
    pub compression: Compression,
    /// See [`EngineSettings::dirty_start_percent`].
    pub dirty_start_percent: u8,
    /// See [`EngineSettings::dirty_max_percent`].
    pub dirty_max_percent: u8,
    /// See [`EngineSettings::dirty_age`].
    pub dirty_age: Duration,
    /// See [`EngineSettings::dirty_wait`].
    pub dirty_wait: Duration,
    /// See [`EngineSettings::origin_timeout`].
    pub origin_timeout: Option<Duration>,
    /// See [`EngineSettings::endurance`]: a new budget starts with nothing saved.
    pub endurance: Option<Endurance>,
}

impl LiveSettings {
    /// The live part of a cache's settings.
    #[must_use]
    pub fn of(settings: &EngineSettings) -> Self {
        Self {
            compression: settings.compression,
            dirty_start_percent: settings.dirty_start_percent,
            dirty_max_percent: settings.dirty_max_percent,
            dirty_age: settings.dirty_age,
            dirty_wait: settings.dirty_wait,
            origin_timeout: settings.origin_timeout,
            endurance: settings.endurance,
        }
    }
}

/// The shared live settings.
#[derive(Debug)]
pub(crate) struct Live {
    /// Its place among [`COMPRESSIONS`].
    compression: AtomicU8,
    dirty_start_percent: AtomicU8,
    dirty_max_percent: AtomicU8,
    dirty_age_ms: AtomicU64,
    dirty_wait_ms: AtomicU64,
    /// 0: without limit.
    origin_timeout_ms: AtomicU64,
}

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn place(compression: Compression) -> u8 {
    COMPRESSIONS.iter().position(|known| *known == compression).map_or(0, |at| at as u8)
}

impl Live {
    pub(crate) fn new(settings: &EngineSettings) -> Self {
        let live = Self {
            compression: AtomicU8::new(0),
            dirty_start_percent: AtomicU8::new(0),
            dirty_max_percent: AtomicU8::new(0),
            dirty_age_ms: AtomicU64::new(0),
            dirty_wait_ms: AtomicU64::new(0),
            origin_timeout_ms: AtomicU64::new(0),
        };
        live.set(&LiveSettings::of(settings));
        live
    }

    pub(crate) fn set(&self, to: &LiveSettings) {
        self.compression.store(place(to.compression), Relaxed);
        self.dirty_start_percent.store(to.dirty_start_percent.min(to.dirty_max_percent), Relaxed);
        self.dirty_max_percent.store(to.dirty_max_percent, Relaxed);
        self.dirty_age_ms.store(ms(to.dirty_age), Relaxed);
        self.dirty_wait_ms.store(ms(to.dirty_wait), Relaxed);
        self.origin_timeout_ms.store(to.origin_timeout.map_or(0, ms), Relaxed);
    }

    pub(crate) fn compression(&self) -> Compression {
        COMPRESSIONS.get(usize::from(self.compression.load(Relaxed))).copied().unwrap_or_default()
    }

    pub(crate) fn dirty_start_percent(&self) -> u8 {
        self.dirty_start_percent.load(Relaxed)
    }

    pub(crate) fn dirty_max_percent(&self) -> u8 {
        self.dirty_max_percent.load(Relaxed)
    }

    pub(crate) fn dirty_age(&self) -> Duration {
        Duration::from_millis(self.dirty_age_ms.load(Relaxed))
    }

    pub(crate) fn dirty_wait(&self) -> Duration {
        Duration::from_millis(self.dirty_wait_ms.load(Relaxed))
    }

    pub(crate) fn origin_timeout(&self) -> Option<Duration> {
        Some(self.origin_timeout_ms.load(Relaxed)).filter(|ms| *ms > 0).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_cache::Settings;

    #[test]
    fn what_is_set_is_told_again() {
        let settings = EngineSettings::new(Settings::new(1 << 30));
        let live = Live::new(&settings);
        let to = LiveSettings {
            compression: Compression::Zstd,
            dirty_start_percent: 5,
            dirty_max_percent: 7,
            dirty_age: Duration::from_secs(3),
            dirty_wait: Duration::ZERO,
            origin_timeout: Some(Duration::from_secs(9)),
            endurance: None,
        };
        live.set(&to);
        assert_eq!((live.compression(), live.dirty_start_percent(), live.dirty_max_percent()), (to.compression, 5, 7));
        assert_eq!((live.dirty_age(), live.dirty_wait()), (to.dirty_age, to.dirty_wait));
        assert_eq!(live.origin_timeout(), to.origin_timeout);
        live.set(&LiveSettings { origin_timeout: None, dirty_start_percent: 9, ..to });
        assert_eq!(
            (live.origin_timeout(), live.dirty_start_percent()),
            (None, 7),
            "destage begins before writers wait"
        );
    }
}
