//! Running the program in a folder of its own.

use nitro_testkit::programs;
use std::ops::Deref;

/// A folder with files of its own, for `nitro-lab`.
pub struct Place(programs::Place);

impl Deref for Place {
    type Target = programs::Place;

    fn deref(&self) -> &programs::Place {
        &self.0
    }
}

impl Place {
    pub fn new() -> Self {
        Self(programs::Place::new(env!("CARGO_BIN_EXE_nitro-lab"), env!("CARGO_TARGET_TMPDIR")))
    }
}
