//! As much of Thrift's compact protocol as is needed to check metadata before the `parquet` crate allocates memory for
//! it. Nothing here allocates.

/// Most levels of nested values.
const DEPTH_MAX: u32 = 16;

const BOOLEANS: [u8; 2] = [1, 2];
const BYTE: u8 = 3;
const INTEGERS: [u8; 3] = [4, 5, 6];
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
/// The type of a list.
pub const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
/// The type of a structure.
pub const STRUCT: u8 = 12;

/// Bytes in the compact protocol. All methods return `None` if the bytes end or are invalid.
#[derive(Debug, Clone, Copy)]
pub struct Compact<'a> {
    rest: &'a [u8],
}

/// A field of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its number; 0: the structure ends here.
    pub number: i16,
    /// The type of its value.
    pub kind: u8,
}

impl<'a> Compact<'a> {
    /// The value that `bytes` begin with.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes that are not read yet.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.rest.len()
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn past(&mut self, bytes: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// An integer.
    pub fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A number of bytes or items: an integer that is not negative.
    pub fn size(&mut self) -> Option<u64> {
        u64::try_from(self.integer()?).ok()
    }

    /// The next field of a structure, after the field with number `before`.
    pub fn field(&mut self, before: i16) -> Option<Field> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(Field { number: 0, kind: 0 });
        }
        let number = match byte >> 4 {
            0 => i16::try_from(self.integer()?).ok()?,
            step => before.checked_add(step.into())?,
        };
        (number > 0).then_some(Field { number, kind: byte & 0x0F })
    }

    /// The type and the number of a list's items.
    pub fn list(&mut self) -> Option<(u8, u64)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => count.into(),
        };
        Some((byte & 0x0F, count))
    }

    /// Calls `visit` for each field of a structure. It reads the field's value and returns `Some(true)`, or leaves it and
    /// returns `Some(false)`.
    pub fn fields(&mut self, mut visit: impl FnMut(&mut Self, Field) -> Option<bool>) -> Option<()> {
        let mut before = 0;
        loop {
            let field = self.field(before)?;
            if field.number == 0 {
                return Some(());
            }
            if !visit(self, field)? {
                self.skip(field.kind, 0)?;
            }
            before = field.number;
        }
    }

    /// Reads past a value.
    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match kind {
            // The value of a Boolean field is in its type.
            _ if BOOLEANS.contains(&kind) => Some(()),
            BYTE => self.past(1),
            _ if INTEGERS.contains(&kind) => self.varint().map(drop),
            DOUBLE => self.past(8),
            BINARY => {
                let bytes = self.varint()?;
                self.past(bytes)
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                self.skip_items(kind, count, depth)
            }
            MAP => self.skip_map(depth),
            STRUCT => {
                let mut before = 0;
                loop {
                    let field = self.field(before)?;
                    if field.number == 0 {
                        return Some(());
                    }
                    self.skip(field.kind, depth + 1)?;
                    before = field.number;
                }
            }
            _ => None,
        }
    }

    fn skip_items(&mut self, kind: u8, count: u64, depth: u32) -> Option<()> {
        if BOOLEANS.contains(&kind) {
            // In lists, Booleans take a byte.
            return self.past(count);
        }
        for _ in 0..count {
            self.skip(kind, depth + 1)?;
        }
        Some(())
    }

    fn skip_map(&mut self, depth: u32) -> Option<()> {
        let count = self.varint()?;
        if count == 0 {
            return Some(());
        }
        let kinds = self.byte()?;
        for _ in 0..count {
            for kind in [kinds >> 4, kinds & 0x0F] {
                self.skip_items(kind, 1, depth + 1)?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lists_and_numbers() {
        // {1: i32 -3, 5: "ab", 6: [i32 1, 2], 20: true, 21: {}}
        let bytes = [0x15, 0x05, 0x48, 2, b'a', b'b', 0x19, 0x25, 2, 4, 0x01, 40, 0x1C, 0, 0, 99];
        let mut value = Compact::new(&bytes);
        let mut seen = Vec::new();
        let first = |value: &mut Compact<'_>, field: Field| {
            seen.push((field.number, field.kind));
            if field.number == 1 { value.integer().map(|number| number == -3) } else { Some(false) }
        };
        value.fields(first).unwrap();
        assert_eq!(seen, [(1, 5), (5, BINARY), (6, LIST), (20, 1), (21, STRUCT)]);
        assert_eq!(value.left(), 1);
    }

    #[test]
    fn lists_of_nothing_and_deep_values_end() {
        // 2⁶³ items, none of which is there.
        let endless = [0xF5, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
        assert_eq!(Compact::new(&endless).skip(LIST, 0), None);
        assert_eq!(Compact::new(&[0x1C; 100]).skip(STRUCT, 0), None, "nested without end");
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut value = Compact::new(&bytes);
            let _ = value.fields(|_, _| Some(false));
            prop_assert!(value.left() <= bytes.len());
        }
    }
}
