//! Counters. A counter is declared in one row, with its meaning and its place in the metrics; the atomic, the field of the status, the
//! metric and the documents follow from it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a value only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// The counter is one of several values of a metric, which differ in a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The metric, without prefix, unit and `_total`.
    pub family: &'static str,
    /// The label's name.
    pub label: &'static str,
    /// The label's value.
    pub value: &'static str,
}

/// What a counter counts. Status, metrics, alerts and documents are derived from this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The counter's name; a unit other than extents, requests and the like is its end.
    pub name: &'static str,
    /// Its meaning, in sentences.
    pub meaning: &'static str,
    /// Whether it only grows.
    pub growth: Growth,
    /// It counts data that are lost, or failures: any value above 0 is reported to the operator.
    pub is_loss: bool,
    /// It counts how often clients waited: any value above 0 is in the text of the status.
    pub is_wait: bool,
    /// The metric that it is a part of; `None`: it is a metric of its own.
    pub part: Option<Part>,
}

/// A counter that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Declares counters: `struct` of atomics `/` its state at one moment, or the latter alone, and a row for each counter: its meaning as
/// a doc comment; `[loss]`, `[wait]` or `[gauge]`; `{family label value}` if it is a [`Part`]; its name. The crate depends on serde.
#[macro_export]
macro_rules! counters {
    (@is $wanted:ident) => { false };
    (@is loss loss) => { true };
    (@is wait wait) => { true };
    (@is gauge gauge) => { true };
    (@is $wanted:ident $tag:ident) => { false };
    (@part) => { None };
    (@part $family:ident $label:ident $value:ident) => {
        Some($crate::Part {
            family: stringify!($family),
            label: stringify!($label),
            value: stringify!($value),
        })
    };
    ($(#[$doc:meta])* $visibility:vis struct $name:ident / $snapshot:ident {
        $($(#[doc = $meaning:literal])+ $([$tag:ident])? $({$family:ident $label:ident $value:ident})? $field:ident,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        $visibility struct $name { $($(#[doc = $meaning])+ pub $field: $crate::Counter,)* }

        impl $name {
            /// The counters as they are now.
            #[must_use]
            pub fn snapshot(&self) -> $snapshot {
                $snapshot { $($field: self.$field.get(),)* }
            }
        }

        $crate::counters! {
            $(#[$doc])*
            /// At one moment.
            pub struct $snapshot {
                $($(#[doc = $meaning])+ $([$tag])? $({$family $label $value})? $field,)*
            }
        }
    };
    ($(#[$doc:meta])* $visibility:vis struct $snapshot:ident {
        $($(#[doc = $meaning:literal])+ $([$tag:ident])? $({$family:ident $label:ident $value:ident})? $field:ident,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        $visibility struct $snapshot { $($(#[doc = $meaning])+ pub $field: u64,)* }

        impl $snapshot {
            /// All counters, in the order of their declaration.
            pub const ALL: &'static [$crate::Counted] = &[$($crate::Counted {
                name: stringify!($field),
                meaning: concat!($($meaning),+).trim_ascii(),
                growth: if $crate::counters!(@is gauge $($tag)?) { $crate::Growth::Gauge } else { $crate::Growth::Counter },
                is_loss: $crate::counters!(@is loss $($tag)?),
                is_wait: $crate::counters!(@is wait $($tag)?),
                part: $crate::counters!(@part $($family $label $value)?),
            },)*];

            /// All counters with their values.
            pub fn each(&self) -> impl Iterator<Item = (&'static $crate::Counted, u64)> + use<> {
                Self::ALL.iter().zip([$(self.$field,)*])
            }

            /// The sums of two.
            #[must_use]
            pub const fn plus(&self, more: &Self) -> Self {
                Self { $($field: self.$field.saturating_add(more.$field),)* }
            }

            /// Those that count losses or failures, and are above 0.
            pub fn losses(&self) -> impl Iterator<Item = (&'static $crate::Counted, u64)> + use<> {
                self.each().filter(|(counted, value)| counted.is_loss && *value > 0)
            }

            /// Those that count how often clients waited, and are above 0.
            pub fn waits(&self) -> impl Iterator<Item = (&'static $crate::Counted, u64)> + use<> {
                self.each().filter(|(counted, value)| counted.is_wait && *value > 0)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up() {
        let counter = Counter::default();
        counter.add(2);
        counter.add(3);
        assert_eq!(counter.get(), 5);
    }
}
