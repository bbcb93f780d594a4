//! Settings that may change while a cache is in use.

use crate::settings::{Live, LiveSettings};
use nitro_port::codec::Compression;
use std::time::Duration;

/// Declares which of [`EngineSettings`](crate::EngineSettings) may change while a cache is in use: those that are read at each use,
/// without a lock, and behind the semicolon those that something else keeps.
macro_rules! live_settings {
    ($($name:ident: $type:ty),+; $($kept:ident: $kept_type:ty),+) => {
        /// The present values of the settings that may change.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct LiveSettings {
            $(
                #[doc = concat!("See [`EngineSettings::", stringify!($name), "`].")]
                pub $name: $type,
            )+
            $(
                #[doc = concat!("See [`EngineSettings::", stringify!($kept), "`].")]
                pub $kept: $kept_type,
            )+
        }

        impl LiveSettings {
            /// The live part of a cache's settings.
            #[must_use]
            pub fn of(settings: &EngineSettings) -> Self {
                Self { $($name: settings.$name,)+ $($kept: settings.$kept,)+ }
            }
        }

        /// The shared live settings.
        #[derive(Debug, Default)]
        pub(crate) struct Live {
            $($name: std::sync::atomic::AtomicU64,)+
        }

        impl Live {
            pub(crate) fn store(&self, to: &LiveSettings) {
                $(self.$name.store($crate::live::Bits::to_bits(to.$name), std::sync::atomic::Ordering::Relaxed);)+
            }

            pub(crate) fn load(&self, $($kept: $kept_type),+) -> LiveSettings {
                LiveSettings { $($name: self.$name(),)+ $($kept,)+ }
            }

            $(pub(crate) fn $name(&self) -> $type {
                $crate::live::Bits::from_bits(self.$name.load(std::sync::atomic::Ordering::Relaxed))
            })+
        }
    };
}
pub(crate) use live_settings;

/// A value as one word.
pub(crate) trait Bits {
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

impl Bits for u8 {
    fn to_bits(self) -> u64 {
        self.into()
    }

    fn from_bits(bits: u64) -> Self {
        bits as Self
    }
}

/// In milliseconds.
impl Bits for Duration {
    fn to_bits(self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }

    fn from_bits(bits: u64) -> Self {
        Self::from_millis(bits)
    }
}

/// 0: without limit.
impl Bits for Option<Duration> {
    fn to_bits(self) -> u64 {
        self.map_or(0, Duration::to_bits)
    }

    fn from_bits(bits: u64) -> Self {
        (bits > 0).then(|| Duration::from_bits(bits))
    }
}

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

/// Its place among [`COMPRESSIONS`].
impl Bits for Compression {
    fn to_bits(self) -> u64 {
        COMPRESSIONS.iter().position(|known| *known == self).map_or(0, |at| at as u64)
    }

    fn from_bits(bits: u64) -> Self {
        COMPRESSIONS.get(bits as usize).copied().unwrap_or_default()
    }
}

impl Live {
    pub(crate) fn new(settings: LiveSettings) -> Self {
        let live = Self::default();
        live.set(&settings);
        live
    }

    /// Changes the settings. Destage begins before writers wait, at the latest.
    pub(crate) fn set(&self, to: &LiveSettings) {
        let dirty_start_percent = to.dirty_start_percent.min(to.dirty_max_percent);
        self.store(&LiveSettings { dirty_start_percent, ..*to });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineSettings;
    use nitro_cache::Settings;

    #[test]
    fn what_is_set_is_told_again() {
        let usual = LiveSettings::of(&EngineSettings::new(Settings::new(1 << 30)));
        let live = Live::new(usual);
        assert_eq!(live.load(None), usual);
        let to = LiveSettings { compression: Compression::Zstd, ..usual };
        live.set(&LiveSettings { dirty_start_percent: 9, dirty_max_percent: 7, ..to });
        let told = LiveSettings { dirty_start_percent: 7, dirty_max_percent: 7, ..to };
        assert_eq!(live.load(None), told, "destage begins before writers wait");
    }
}
