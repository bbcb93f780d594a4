//! Settings that may change while a cache is in use.

use crate::settings::LiveSettings;
use parking_lot::RwLock;

/// Declares which of [`EngineSettings`](crate::EngineSettings) may change while a cache is in use.
macro_rules! live_settings {
    ($($name:ident: $type:ty),+ $(,)?) => {
        /// The present values of the settings that may change.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct LiveSettings {
            $(
                #[doc = concat!("See [`EngineSettings::", stringify!($name), "`].")]
                pub $name: $type,
            )+
        }

        impl LiveSettings {
            /// The live part of a cache's settings.
            #[must_use]
            pub fn of(settings: &EngineSettings) -> Self {
                Self { $($name: settings.$name),+ }
            }
        }

        impl crate::live::Live {
            $(pub(crate) fn $name(&self) -> $type {
                self.get().$name
            })+
        }
    };
}
pub(crate) use live_settings;

/// The shared live settings.
#[derive(Debug)]
pub(crate) struct Live(RwLock<LiveSettings>);

impl Live {
    pub(crate) fn new(settings: LiveSettings) -> Self {
        let live = Self(RwLock::new(settings));
        live.set(&settings);
        live
    }

    pub(crate) fn get(&self) -> LiveSettings {
        *self.0.read()
    }

    /// Destage begins before writers wait, at the latest.
    pub(crate) fn set(&self, to: &LiveSettings) {
        *self.0.write() = LiveSettings { dirty_start_percent: to.dirty_start_percent.min(to.dirty_max_percent), ..*to };
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
        assert_eq!(live.get(), usual);
        live.set(&LiveSettings { dirty_start_percent: 9, dirty_max_percent: 7, ..usual });
        assert_eq!(
            (live.dirty_start_percent(), live.dirty_max_percent()),
            (7, 7),
            "destage begins before writers wait"
        );
    }
}
