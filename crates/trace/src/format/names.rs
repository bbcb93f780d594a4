//! Numbers of objects that a trace names by words.

use crate::Problem;
use hashbrown::HashMap;

/// Most names of a trace. A trace with more is damaged, or not a trace of block devices.
const NAMES_MAX: usize = 1 << 16;
/// Bytes of the longest name; longer names are errors.
const NAME_BYTES_MAX: usize = 256;

/// The names so far, numbered in the order of their first occurrence.
#[derive(Default)]
pub struct Names {
    numbers: HashMap<Box<[u8]>, u32>,
    /// The names by number.
    names: Vec<Box<[u8]>>,
    /// The last name and its number, since most requests have the same object as the request before.
    last: (Box<[u8]>, u32),
}

impl Names {
    /// Returns the number of `name`.
    ///
    /// # Errors
    /// There are too many names, or the name is empty or too long.
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

    /// The name with a number that [`number`](Self::number) returned. Bytes that are not UTF-8 are shown as escapes.
    #[must_use]
    pub fn name(&self, number: u32) -> Option<String> {
        let name = self.names.get(number as usize)?;
        Some(match str::from_utf8(name) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("\"{}\"", name.escape_ascii()),
        })
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
        self.names.push(name.into());
        Ok(number)
    }
}
