//! Checks requests; a refused request gets an error number and a message.

use crate::errno::NbdErrno;
use crate::protocol::{
    COMMAND_DF, COMMAND_FAST_ZERO, COMMAND_FUA, COMMAND_NO_HOLE, COMMAND_PAYLOAD_LEN, COMMAND_REQ_ONE, Command,
    Headers, Request,
};
use nitro_frontend::{DiskInfo, ZeroFlags};

/// A valid request. Its range is not empty and lies within the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Read {
        offset: u64,
        len: u32,
    },
    Write {
        offset: u64,
        len: u32,
        fua: bool,
    },
    Flush,
    Trim {
        offset: u64,
        len: u64,
        fua: bool,
    },
    WriteZeroes {
        offset: u64,
        len: u64,
        flags: ZeroFlags,
    },
    Cache {
        offset: u64,
        len: u64,
    },
    BlockStatus {
        one: bool,
    },
    /// A request with an empty range: it succeeds.
    Nothing {
        read: bool,
    },
    Disconnect,
}

/// The reply to a refused request: the error number and a message for the client's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) errno: NbdErrno,
    pub(super) message: &'static str,
}

/// The properties of a connection that decide whether a request is valid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) info: &'a DiskInfo,
    pub(super) headers: Headers,
    pub(super) has_contexts: bool,
    /// Offsets and lengths are multiples of this.
    pub(super) block_bytes: u32,
}

const fn refuse<T>(errno: NbdErrno, message: &'static str) -> Result<T, Refusal> {
    Err(Refusal { errno, message })
}

impl Facts<'_> {
    /// Checks a request ("Request types" and "Error values" in proto.md).
    pub(super) fn check(&self, request: &Request) -> Result<Action, Refusal> {
        let Request { offset, len, flags, command, .. } = *request;
        if flags & !self.legal_flags(command) != 0 {
            return refuse(NbdErrno::Invalid, "flag not valid for this command");
        }
        let fua = flags & COMMAND_FUA != 0;
        let action = match command {
            Command::Disconnect => return Ok(Action::Disconnect),
            Command::Flush if offset != 0 || len != 0 => return refuse(NbdErrno::Invalid, "a flush has no range"),
            Command::Flush => return Ok(Action::Flush),
            Command::Unknown(_) => return refuse(NbdErrno::Invalid, "unknown command"),
            Command::Cache if !self.info.can_cache => return refuse(NbdErrno::Invalid, "cache is not offered"),
            Command::Trim if !self.info.can_trim => return refuse(NbdErrno::Invalid, "trim is not offered"),
            Command::BlockStatus if !self.has_contexts => {
                return refuse(NbdErrno::Invalid, "no metadata context was negotiated");
            }
            Command::BlockStatus => {
                let one = flags & COMMAND_REQ_ONE != 0;
                Action::BlockStatus { one }
            }
            // The length of both is checked below.
            Command::Read => Action::Read { offset, len: len as u32 },
            Command::Write => Action::Write { offset, len: len as u32, fua },
            Command::Trim => Action::Trim { offset, len, fua },
            Command::Cache => Action::Cache { offset, len },
            Command::WriteZeroes => {
                let (no_hole, fast) = (flags & COMMAND_NO_HOLE != 0, flags & COMMAND_FAST_ZERO != 0);
                Action::WriteZeroes { offset, len, flags: ZeroFlags { fua, no_hole, fast } }
            }
        };
        self.check_range(request)?;
        match (len, command) {
            (0, Command::BlockStatus) => refuse(NbdErrno::Invalid, "a block status request needs a range"),
            (0, _) => Ok(Action::Nothing { read: command == Command::Read }),
            _ => Ok(action),
        }
    }

    fn legal_flags(&self, command: Command) -> u16 {
        // Clients may set FUA on every command.
        COMMAND_FUA
            | match command {
                Command::Read if self.headers != Headers::Simple => COMMAND_DF,
                Command::Write if self.headers == Headers::Extended => COMMAND_PAYLOAD_LEN,
                Command::WriteZeroes if self.info.can_fast_zero => COMMAND_NO_HOLE | COMMAND_FAST_ZERO,
                Command::WriteZeroes => COMMAND_NO_HOLE,
                Command::BlockStatus => COMMAND_REQ_ONE,
                // A disconnect has no reply, so that its flags are ignored.
                Command::Disconnect => u16::MAX,
                _ => 0,
            }
    }

    fn check_range(&self, request: &Request) -> Result<(), Refusal> {
        let Request { offset, len, command, .. } = *request;
        if self.info.read_only && matches!(command, Command::Write | Command::WriteZeroes | Command::Trim) {
            return refuse(NbdErrno::Permission, "the export is read-only");
        }
        if len > self.info.block_max_bytes.into() && matches!(command, Command::Read | Command::Write) {
            return refuse(NbdErrno::Invalid, "longer than the maximum block size");
        }
        let block = u64::from(self.block_bytes);
        if !(offset.is_multiple_of(block) && len.is_multiple_of(block)) {
            return refuse(NbdErrno::Invalid, "not a multiple of the minimum block size");
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.info.size_bytes => Ok(()),
            _ if matches!(command, Command::Write | Command::WriteZeroes) => {
                refuse(NbdErrno::NoSpace, "past the end of the export")
            }
            _ => refuse(NbdErrno::Invalid, "past the end of the export"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Cookie;

    fn check(info: &DiskInfo, command: Command, flags: u16, offset: u64, len: u64) -> Result<Action, NbdErrno> {
        check_blocks(info, 1, command, flags, offset, len)
    }

    fn check_blocks(
        info: &DiskInfo,
        block_bytes: u32,
        command: Command,
        flags: u16,
        offset: u64,
        len: u64,
    ) -> Result<Action, NbdErrno> {
        let facts = Facts { info, headers: Headers::Simple, has_contexts: false, block_bytes };
        facts.check(&Request { flags, command, cookie: Cookie(1), offset, len }).map_err(|refusal| refusal.errno)
    }

    #[test]
    fn the_end_of_the_export_is_exact() {
        let info = DiskInfo::new(1000);
        assert_eq!(check(&info, Command::Read, 0, 999, 1), Ok(Action::Read { offset: 999, len: 1 }));
        assert_eq!(check(&info, Command::Read, 0, 999, 2), Err(NbdErrno::Invalid));
        assert_eq!(check(&info, Command::Write, 0, 999, 2), Err(NbdErrno::NoSpace));
        assert_eq!(check(&info, Command::WriteZeroes, 0, u64::MAX, u64::MAX), Err(NbdErrno::NoSpace));
        assert_eq!(check(&info, Command::Trim, 0, u64::MAX, 1), Err(NbdErrno::Invalid));
        assert_eq!(check(&info, Command::Read, 0, 1000, 0), Ok(Action::Nothing { read: true }));
    }

    #[test]
    fn requests_are_of_whole_blocks_if_the_client_knows_them() {
        let info = DiskInfo { block_bytes: 4096, ..DiskInfo::new(1 << 20) };
        for command in [Command::Read, Command::Write, Command::Trim, Command::WriteZeroes, Command::Cache] {
            for (offset, len) in [(0, 512), (512, 4096), (4096, 6144)] {
                let checked = check_blocks(&info, 4096, command, 0, offset, len);
                assert_eq!(checked, Err(NbdErrno::Invalid), "{command:?} {offset} {len}");
                assert!(check(&info, command, 0, offset, len).is_ok());
            }
            assert!(check_blocks(&info, 4096, command, 0, 8192, 8192).is_ok());
        }
        assert_eq!(check_blocks(&info, 4096, Command::Flush, 0, 0, 0), Ok(Action::Flush));
    }

    #[test]
    fn flags_belong_to_their_commands() {
        let info = DiskInfo::new(1000);
        assert_eq!(check(&info, Command::Read, COMMAND_FUA, 0, 1), Ok(Action::Read { offset: 0, len: 1 }));
        assert_eq!(check(&info, Command::Read, COMMAND_DF, 0, 1), Err(NbdErrno::Invalid));
        assert_eq!(check(&info, Command::Write, COMMAND_NO_HOLE, 0, 1), Err(NbdErrno::Invalid));
        assert_eq!(check(&info, Command::Trim, 1 << 5, 0, 1), Err(NbdErrno::Invalid));
        let slow = DiskInfo { can_fast_zero: false, ..info };
        assert_eq!(check(&slow, Command::WriteZeroes, COMMAND_FAST_ZERO, 0, 1), Err(NbdErrno::Invalid));
    }

    #[test]
    fn read_only_comes_before_the_range() {
        let info = DiskInfo { read_only: true, ..DiskInfo::new(10) };
        for command in [Command::Write, Command::Trim, Command::WriteZeroes] {
            assert_eq!(check(&info, command, 0, 100, 1), Err(NbdErrno::Permission));
        }
        assert_eq!(check(&info, Command::Flush, 0, 0, 0), Ok(Action::Flush));
    }
}
