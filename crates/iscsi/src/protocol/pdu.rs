//! The basic header segment (RFC 7143 §11.2.1) as bytes, whose meaning depends on the opcode.

/// Bytes of a basic header segment.
pub const HEADER_BYTES: usize = 48;
/// The reserved tag value, which means that there is no tag.
pub const NO_TAG: u32 = u32::MAX;

/// Padding in bytes that extends a segment of `len` bytes to a multiple of four.
#[must_use]
pub const fn padding_of(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// A basic header segment, received or to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header(pub [u8; HEADER_BYTES]);

impl Header {
    /// The header at the start of `bytes`; `None` if there are too few bytes.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }

    /// A header to be sent, with its opcode, its flags and the initiator's task tag.
    #[must_use]
    pub fn new(opcode: u8, flags: u8, tag: u32) -> Self {
        let mut header = Self([0; HEADER_BYTES]);
        (header.0[0], header.0[1]) = (opcode, flags);
        header.with(16, tag)
    }

    /// The opcode.
    #[must_use]
    pub const fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// Whether it is for immediate delivery.
    #[must_use]
    pub const fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// The byte after the opcode.
    #[must_use]
    pub const fn flags(&self) -> u8 {
        self.0[1]
    }

    /// The bit F; in a login request, T.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        self.0[1] & 0x80 != 0
    }

    /// Bytes of additional header segments.
    #[must_use]
    pub const fn additional_bytes(&self) -> usize {
        self.0[4] as usize * 4
    }

    /// Bytes of the data segment, without padding.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        (self.word(4) & 0x00ff_ffff) as usize
    }

    /// Sets the length of the data segment in bytes (less than 2²⁴).
    #[must_use]
    pub fn with_data(mut self, bytes: usize) -> Self {
        self.0[5..8].copy_from_slice(&(bytes as u32).to_be_bytes()[1..]);
        self
    }

    /// The logical unit number, as encoded in the header.
    #[must_use]
    pub fn lun(&self) -> [u8; 8] {
        std::array::from_fn(|at| self.0[8 + at])
    }

    /// The initiator's task tag.
    #[must_use]
    pub fn tag(&self) -> u32 {
        self.word(16)
    }

    /// The big-endian number in the four bytes at `at`.
    #[must_use]
    pub fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(std::array::from_fn(|byte| self.0.get(at + byte).copied().unwrap_or(0)))
    }

    /// Sets the four bytes at `at` to a big-endian number.
    #[must_use]
    pub fn with(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// Sets the byte at `at`.
    #[must_use]
    pub fn with_byte(mut self, at: usize, value: u8) -> Self {
        self.0[at] = value;
        self
    }

    /// The command descriptor block of a SCSI command.
    #[must_use]
    pub fn cdb(&self) -> [u8; 16] {
        std::array::from_fn(|at| self.0[32 + at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_standard_has_them() {
        let header = Header::new(0x25, 0x81, 7).with_data(0x01_0203).with(20, 9).with_byte(3, 2);
        assert_eq!((header.opcode(), header.is_final(), header.is_immediate()), (0x25, true, false));
        assert_eq!((header.data_bytes(), header.additional_bytes(), header.tag()), (0x01_0203, 0, 7));
        assert_eq!((header.word(20), header.0[3]), (9, 2));
        assert_eq!(Header::parse(&header.0), Some(header));
        assert_eq!(Header::parse(&header.0[1..]), None);
        assert_eq!([0, 1, 2, 3, 4].map(padding_of), [0, 3, 2, 1, 0]);
    }
}
