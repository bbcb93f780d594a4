//! Which extents of a victim are copied forward.

/// How copying forward changes the heat of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cooling {
    /// The heat does not change.
    None,
    /// The heat is reduced by one.
    ByOne,
    /// The heat is reset to 0.
    All,
}

/// Which extents of a unit are copied forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Extents with at least this heat; above [`HEAT_MAX`](crate::weu::HEAT_MAX): none.
    pub heat_min: u8,
    /// How their heat changes.
    pub cooling: Cooling,
    /// Extents of side and dirty units with at least this heat go to [`Lane::Main`](crate::admission::Lane::Main),
    /// others to [`Lane::Side`](crate::admission::Lane::Side). Extents of main units stay in that lane.
    pub main_min: u8,
}

impl Keep {
    /// None.
    pub const NOTHING: Self = Self { heat_min: u8::MAX, cooling: Cooling::None, main_min: 0 };
}
