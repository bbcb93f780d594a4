//! Numbers for objects that a trace names by words.

use crate::Problem;
use hashbrown::HashMap;

/// A trace with more names than this is damaged, or not one of block devices.
const NAMES_MAX: usize = 1 << 16;
/// Longer names are taken for damage.
const NAME_BYTES_MAX: usize = 256;

/// The names seen, numbered as they come.
#[derive(Default)]
pub struct Names {
    numbers: HashMap<Box<[u8]>, u32>,
    /// The last name and its number: most requests are for the same object as the one before.
    last: (Box<[u8]>, u32),
}

impl Names {
    /// The number of `name`.
    ///
    /// # Errors
    /// There are too many names.
    pub fn number(&mut self, name: &[u8]) -> Result<u32, Problem> {
        if !self.numbers.is_empty() && *self.last.0 == *name {
            return Ok(self.last.1);
        }
        let number = match self.numbers.get(name) {
            Some(&number) => number,
            None => self.add(name)?,
        };
        self.last = (name.into(), number);
        Ok(number)
    }

    fn add(&mut self, name: &[u8]) -> Result<u32, Problem> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Problem::new("object", "empty or over 256 bytes long"));
        }
        if self.numbers.len() >= NAMES_MAX {
            return Err(Problem::new("object", "more than 65536 names"));
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(name.into(), number);
        Ok(number)
    }
}
