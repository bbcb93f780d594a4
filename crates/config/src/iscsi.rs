//! `[server.iscsi]`

use nitro_console::error::Error;
use nitro_iscsi::AllowList;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Access and authentication of iSCSI initiators.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IscsiConfig {
    /// Names of initiators that may log in, to any volume that does not restrict them further, such as
    /// `iqn.1993-08.org.debian:01:abc`; a `*` at the end matches any suffix. Empty: all may.
    #[serde(default)]
    pub initiators: Vec<String>,
    /// Addresses and networks from which initiators may log in, such as `10.0.0.0/8`. Empty: all.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// A file with a line `NAME SECRET [INITIATOR…]` for each CHAP account: with names of initiators, the account may
    /// claim no others. Without it, initiators log in without authentication.
    pub chap: Option<PathBuf>,
    /// A file with one such line: the server's own account, for initiators that request mutual CHAP.
    pub mutual_chap: Option<PathBuf>,
    /// A folder in which persistent reservations are kept over a restart if their owner requests it (APTPL). Without
    /// it, such requests are refused.
    pub state: Option<PathBuf>,
    /// Classes of SCSI group numbers, 1 to 63, by name or number; `none`: the volume's. A group that is not listed is the class of its number.
    #[serde(default)]
    pub groups: BTreeMap<String, String>,
    /// Classes of groups to which an initiator gives an IO CLASS (`metadata`, `small` or `large`) by logical block
    /// markup, and that `groups` does not list: by name or number; `none`: the volume's.
    #[serde(default)]
    pub markup: BTreeMap<String, String>,
}

impl IscsiConfig {
    /// The initiators that may log in.
    ///
    /// # Errors
    /// A name or an address is invalid.
    pub fn allowed(&self) -> Result<AllowList, Error> {
        allow_list(&self.initiators, &self.addresses, ("server.iscsi.initiators", "server.iscsi.addresses"))
    }
}

/// The list of these names and addresses; `keys` are their keys.
pub(super) fn allow_list(
    initiators: &[String],
    addresses: &[String],
    (names, networks): (&str, &str),
) -> Result<AllowList, Error> {
    let pattern = |text: &String| {
        let wrong = |why| {
            Error::new(format_args!("{names} = {text:?}"), why)
                .or("write a name such as iqn.1993-08.org.debian:01:abc, or its beginning and a *")
        };
        text.parse().map_err(wrong)
    };
    let network = |text: &String| text.parse().map_err(|why| Error::new(networks, why));
    Ok(AllowList {
        initiators: initiators.iter().map(pattern).collect::<Result<_, _>>()?,
        accounts: Vec::new(),
        networks: addresses.iter().map(network).collect::<Result<_, _>>()?,
    })
}
