//! Enums with names.

/// Implements display, parsing and serialisation of an enum by the names of its variants.
macro_rules! by_name {
    ($kind:ty, $what:literal) => {
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $kind {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                Self::named(name).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
                    format!("there is no {} {name:?}; there are: {}", $what, names.join(", "))
                })
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <std::borrow::Cow<'de, str>>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use by_name;
