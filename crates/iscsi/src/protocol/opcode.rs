//! Opcodes (RFC 7143 §11.2.1.2), and reasons of Reject (§11.17.1).
#![expect(missing_docs, reason = "the names are the standard's")]

pub const NOP_OUT: u8 = 0x00;
pub const SCSI_COMMAND: u8 = 0x01;
pub const TASK_MANAGEMENT: u8 = 0x02;
pub const LOGIN: u8 = 0x03;
pub const TEXT: u8 = 0x04;
pub const DATA_OUT: u8 = 0x05;
pub const LOGOUT: u8 = 0x06;
pub const SNACK: u8 = 0x10;
pub const NOP_IN: u8 = 0x20;
pub const SCSI_RESPONSE: u8 = 0x21;
pub const TASK_RESPONSE: u8 = 0x22;
pub const LOGIN_RESPONSE: u8 = 0x23;
pub const TEXT_RESPONSE: u8 = 0x24;
pub const DATA_IN: u8 = 0x25;
pub const LOGOUT_RESPONSE: u8 = 0x26;
pub const R2T: u8 = 0x31;
pub const REJECT: u8 = 0x3f;

pub const REASON_DATA_DIGEST: u8 = 0x02;
pub const REASON_PROTOCOL: u8 = 0x04;
pub const REASON_UNSUPPORTED: u8 = 0x05;
pub const REASON_TOO_MANY_IMMEDIATE: u8 = 0x06;
pub const REASON_TASK_IN_PROGRESS: u8 = 0x07;
pub const REASON_INVALID_FIELD: u8 = 0x09;
pub const REASON_OUT_OF_RESOURCES: u8 = 0x0a;
