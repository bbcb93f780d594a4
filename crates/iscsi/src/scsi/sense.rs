//! The status of a command (SAM-5 §5.3) and its sense data (SPC-5 §4.4).

/// A command's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// GOOD.
    Good,
    /// CONDITION MET: a PRE-FETCH succeeded.
    ConditionMet,
    /// CHECK CONDITION, with sense data.
    Check(Sense),
    /// RESERVATION CONFLICT.
    ReservationConflict,
    /// TASK SET FULL: there is no memory for the command at present.
    TaskSetFull,
}

impl Status {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Check(_) => 0x02,
            Self::ConditionMet => 0x04,
            Self::ReservationConflict => 0x18,
            Self::TaskSetFull => 0x28,
        }
    }
}

/// Sense data: key, additional code and qualifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    /// The sense key.
    pub key: u8,
    /// ADDITIONAL SENSE CODE in the high byte, its qualifier in the low byte.
    pub code: u16,
    /// INFORMATION: after a miscompare, the offset of the first different byte.
    pub information: Option<u32>,
    /// The invalid byte of the CDB (`true`) or of the parameter list (`false`) (SPC-5 §4.4.2.4.2).
    pub field: Option<(bool, u16)>,
}

impl Sense {
    /// NO SENSE.
    pub const NONE: Self = Self::new(0, 0);
    /// UNRECOVERED READ ERROR.
    pub const READ_ERROR: Self = Self::new(3, 0x1100);
    /// WRITE ERROR.
    pub const WRITE_ERROR: Self = Self::new(3, 0x0c00);
    /// INVALID MESSAGE ERROR: the task attribute is not supported.
    pub const INVALID_MESSAGE: Self = Self::new(5, 0x4900);
    /// INVALID COMMAND OPERATION CODE.
    pub const INVALID_OPCODE: Self = Self::new(5, 0x2000);
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub const OUT_OF_RANGE: Self = Self::new(5, 0x2100);
    /// INVALID FIELD IN CDB.
    pub const INVALID_FIELD: Self = Self::new(5, 0x2400);
    /// LOGICAL UNIT NOT SUPPORTED.
    pub const NO_UNIT: Self = Self::new(5, 0x2500);
    /// INVALID FIELD IN PARAMETER LIST.
    pub const INVALID_PARAMETER: Self = Self::new(5, 0x2600);
    /// INVALID RELEASE OF PERSISTENT RESERVATION.
    pub const INVALID_RELEASE: Self = Self::new(5, 0x2604);
    /// PARAMETER LIST LENGTH ERROR.
    pub const PARAMETER_LENGTH: Self = Self::new(5, 0x1a00);
    /// SAVING PARAMETERS NOT SUPPORTED.
    pub const SAVING: Self = Self::new(5, 0x3900);
    /// INSUFFICIENT REGISTRATION RESOURCES.
    pub const NO_REGISTRATIONS: Self = Self::new(5, 0x5504);
    /// WRITE PROTECTED.
    pub const WRITE_PROTECTED: Self = Self::new(7, 0x2700);
    /// SPACE ALLOCATION FAILED WRITE PROTECT.
    pub const NO_SPACE: Self = Self::new(7, 0x2707);
    /// INTERNAL TARGET FAILURE.
    pub const INTERNAL: Self = Self::new(4, 0x4400);
    /// WRITE ERROR - UNEXPECTED UNSOLICITED DATA.
    pub const UNEXPECTED_DATA: Self = Self::new(0xb, 0x0c0c);
    /// WRITE ERROR - NOT ENOUGH UNSOLICITED DATA: there are fewer data than the command needs.
    pub const MISSING_DATA: Self = Self::new(0xb, 0x0c0d);
    /// DATA OFFSET ERROR: the number or the offset of a Data-Out PDU is wrong.
    pub const DATA_ORDER: Self = Self::new(0xb, 0x4b05);
    /// PROTOCOL SERVICE CRC ERROR.
    pub const DATA_DIGEST: Self = Self::new(0xb, 0x4705);
    /// MISCOMPARE DURING VERIFY OPERATION.
    pub const MISCOMPARE: Self = Self::new(0xe, 0x1d00);

    /// UNIT ATTENTION: BUS DEVICE RESET FUNCTION OCCURRED.
    pub const WAS_RESET: Self = Self::new(6, 0x2903);
    /// UNIT ATTENTION: MODE PARAMETERS CHANGED.
    pub const MODE_CHANGED: Self = Self::new(6, 0x2a01);
    /// UNIT ATTENTION: RESERVATIONS PREEMPTED.
    pub const RESERVATIONS_PREEMPTED: Self = Self::new(6, 0x2a03);
    /// UNIT ATTENTION: RESERVATIONS RELEASED.
    pub const RESERVATIONS_RELEASED: Self = Self::new(6, 0x2a04);
    /// UNIT ATTENTION: REGISTRATIONS PREEMPTED.
    pub const REGISTRATIONS_PREEMPTED: Self = Self::new(6, 0x2a05);
    /// UNIT ATTENTION: CAPACITY DATA HAS CHANGED.
    pub const CAPACITY_CHANGED: Self = Self::new(6, 0x2a09);

    /// Sense data of a sense key, and of a code with its qualifier.
    #[must_use]
    pub const fn new(key: u8, code: u16) -> Self {
        Self { key, code, information: None, field: None }
    }

    /// INVALID FIELD IN CDB, with the number of the invalid byte.
    #[must_use]
    pub const fn cdb(byte: u16) -> Self {
        Self { field: Some((true, byte)), ..Self::INVALID_FIELD }
    }

    /// INVALID FIELD IN PARAMETER LIST, with the number of the invalid byte.
    #[must_use]
    pub const fn parameter(byte: u16) -> Self {
        Self { field: Some((false, byte)), ..Self::INVALID_PARAMETER }
    }

    /// The sense data in descriptor format (§4.4.2), with descriptors for INFORMATION and for the invalid byte.
    #[must_use]
    pub fn descriptor_bytes(&self) -> Vec<u8> {
        let [code, qualifier] = self.code.to_be_bytes();
        let mut bytes = vec![0x72, self.key, code, qualifier, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0a, 0x80, 0]);
            bytes.extend(u64::from(information).to_be_bytes());
        }
        if let Some((in_cdb, byte)) = self.field {
            let [high, low] = byte.to_be_bytes();
            bytes.extend([0x02, 0x06, 0, 0, 0x80 | if in_cdb { 0x40 } else { 0 }, high, low, 0]);
        }
        bytes[7] = bytes.len() as u8 - 8;
        bytes
    }

    /// The sense data in fixed format (§4.4.3).
    #[must_use]
    pub fn bytes(&self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[0] = 0x70 | if self.information.is_some() { 0x80 } else { 0 };
        bytes[2] = self.key;
        bytes[3..7].copy_from_slice(&self.information.unwrap_or(0).to_be_bytes());
        bytes[7] = 10;
        bytes[12..14].copy_from_slice(&self.code.to_be_bytes());
        if let Some((in_cdb, byte)) = self.field {
            bytes[15] = 0x80 | if in_cdb { 0x40 } else { 0 };
            bytes[16..18].copy_from_slice(&byte.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_data_are_in_fixed_format() {
        let sense = Sense { information: Some(0x0102), ..Sense::MISCOMPARE };
        assert_eq!(sense.bytes(), [0xf0, 0, 0xe, 0, 0, 1, 2, 10, 0, 0, 0, 0, 0x1d, 0, 0, 0, 0, 0]);
        assert_eq!(Sense::cdb(0x0203).bytes()[12..], [0x24, 0, 0, 0xc0, 2, 3]);
    }

    #[test]
    fn sense_data_are_in_descriptor_format() {
        assert_eq!(Sense::WAS_RESET.descriptor_bytes(), [0x72, 6, 0x29, 3, 0, 0, 0, 0]);
        let sense = Sense { information: Some(0x0102), ..Sense::MISCOMPARE };
        let information = [0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2];
        assert_eq!(sense.descriptor_bytes(), [&[0x72, 0xe, 0x1d, 0, 0, 0, 0, 12][..], &information].concat());
        let field = [2, 6, 0, 0, 0x80, 2, 3, 0];
        assert_eq!(Sense::parameter(0x0203).descriptor_bytes(), [&[0x72, 5, 0x26, 0, 0, 0, 0, 8][..], &field].concat());
    }
}
