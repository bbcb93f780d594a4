//! `[server.iscsi]`

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What iSCSI initiators may do, and how they show who they are.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IscsiConfig {
    /// Names of initiators that may log in, such as `iqn.1993-08.org.debian:01:abc`; a `*` at the end stands for any rest. Any if empty.
    #[serde(default)]
    pub initiators: Vec<String>,
    /// Addresses and networks from which they may, such as `10.0.0.0/8`. Any if empty.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// A file with a line `NAME SECRET` for each account with which initiators log in by CHAP. Without, they log in by name alone.
    pub chap: Option<PathBuf>,
    /// A file with one such line: what the server shows initiators that ask for it (mutual CHAP).
    pub mutual_chap: Option<PathBuf>,
    /// A folder in which persistent reservations are kept over a restart, where their owner asks for that (APTPL). Without, none can.
    pub state: Option<PathBuf>,
    /// Classes of SCSI group numbers, 1 to 63, by name or number; `none`: the volume's. A group that is not listed is the class of its number.
    #[serde(default)]
    pub groups: BTreeMap<String, String>,
}
