//! Which users may connect to a unix socket, in addition to the server's user.

use nitro_console::error::Error;
use nitro_device::net::Access;
use serde::Deserialize;
use std::fmt;
use std::fs;
use std::str::FromStr;

/// The file of local groups.
const GROUPS: &str = "/etc/group";
/// The default mode of a socket with a group.
const GROUP_MODE: u32 = 0o660;
/// The owner's permissions: connecting requires write permission.
const OWNER: u32 = 0o600;

/// Permissions of a socket, in octal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SocketMode(u32);

/// An invalid mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeError(String);

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a socket's mode: write octal digits from 0600 to 0777, such as 0660", self.0)
    }
}

impl std::error::Error for ModeError {}

impl FromStr for SocketMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && mode & OWNER == OWNER);
        mode.map(Self).ok_or_else(|| ModeError(text.to_owned()))
    }
}

impl TryFrom<String> for SocketMode {
    type Error = ModeError;

    fn try_from(text: String) -> Result<Self, ModeError> {
        text.parse()
    }
}

/// The access that a mode and a group give; `name` is the name of the group's setting.
///
/// # Errors
/// There is no such group.
pub(super) fn access(mode: Option<SocketMode>, group: Option<&str>, name: &str) -> Result<Access, Error> {
    let mode = mode.map_or(if group.is_some() { GROUP_MODE } else { OWNER }, |mode| mode.0);
    Ok(Access { mode, group: group.map(|group| number_of(group, name)).transpose()? })
}

/// The number of a group, given by name or number.
fn number_of(group: &str, name: &str) -> Result<u32, Error> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let unknown = |why: &dyn fmt::Display| {
        Error::new(format_args!("server.{name} = {group:?}"), why)
            .or("create the group, or give its number (getent group)")
    };
    let groups = fs::read_to_string(GROUPS).map_err(|e| unknown(&format_args!("{GROUPS}: {e}")))?;
    // NAME:PASSWORD:NUMBER:MEMBERS (group(5)).
    let found = groups.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == group);
    let number = found.and_then(|fields| fields.get(2)?.parse().ok());
    number.ok_or_else(|| unknown(&format_args!("{GROUPS} has no such group")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_and_let_the_owner_in() {
        assert_eq!("0660".parse(), Ok(SocketMode(0o660)));
        assert_eq!("666".parse(), Ok(SocketMode(0o666)));
        for wrong in ["", "0888", "7777", "0060", "-660", "rw"] {
            assert_eq!(wrong.parse::<SocketMode>(), Err(ModeError(wrong.to_owned())));
        }
    }

    #[test]
    fn a_group_has_a_name_or_a_number() {
        let of = |mode: Option<SocketMode>, group| access(mode, group, "socket_group").map_err(|e| e.to_string());
        assert_eq!(of(None, None), Ok(Access { mode: 0o600, group: None }));
        assert_eq!(of(None, Some("root")), Ok(Access { mode: 0o660, group: Some(0) }));
        assert_eq!(of(Some(SocketMode(0o666)), Some("4711")), Ok(Access { mode: 0o666, group: Some(4711) }));
        let refused = of(None, Some("no such")).unwrap_err();
        assert!(
            refused.contains("server.socket_group = \"no such\"") && refused.contains("give its number"),
            "{refused}"
        );
    }
}
