//! The CHAP accounts of iSCSI initiators, and the volumes that are bound to them.

use super::Config;
use nitro_console::error::Error;
use nitro_files as files;
use nitro_iscsi::{Account, NamePattern};
use std::path::Path;

/// The longest file of accounts, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A secret has at least so many bytes (RFC 7143 §9.2.1: 96 bits).
const SECRET_BYTES_MIN: usize = 12;
/// The form of a line.
const FORM: &str = "write NAME SECRET, and the initiator names that the account may claim, if they are to be bound";

/// Reads a file of accounts, which must be accessible only to its owner. Its content is never part of a message.
///
/// # Errors
/// It cannot be read, others can access it, or a line is invalid.
pub fn read(path: &Path) -> Result<Vec<Account>, Error> {
    let text = files::read_secret(path, FILE_BYTES_MAX)?;
    let mut accounts = Vec::<Account>::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let at = |why: &dyn std::fmt::Display| Error::new(format_args!("{}, line {number}", path.display()), why);
        let account = parse(line).map_err(|why| at(&why).or(FORM))?;
        if accounts.iter().any(|known| known.name == account.name) {
            return Err(at(&"an earlier line has the same account").or("give each account one line"));
        }
        accounts.push(account);
    }
    if accounts.is_empty() { Err(Error::new(path.display(), "it has no account").or(FORM)) } else { Ok(accounts) }
}

/// An account from its line: `NAME SECRET [INITIATOR…]`. The secret may have blanks; words after it are names of
/// initiators if they begin as such names do.
fn parse(line: &str) -> Result<Account, String> {
    let Some((name, rest)) = line.trim().split_once(char::is_whitespace) else {
        return Err("it is not a name and a secret".into());
    };
    let (mut secret, mut initiators) = (rest.trim(), Vec::new());
    while let Some((before, word)) = secret.rsplit_once(char::is_whitespace).filter(|(_, word)| is_initiator(word)) {
        initiators.push(word.parse::<NamePattern>().map_err(|why| why.to_string())?);
        secret = before.trim_end();
    }
    if secret.len() < SECRET_BYTES_MIN {
        return Err("the secret has less than 12 characters".into());
    }
    initiators.reverse();
    Ok(Account { name: name.to_owned(), secret: secret.as_bytes().to_vec(), initiators })
}

/// Whether a word is meant as the name of an initiator.
fn is_initiator(word: &str) -> bool {
    let kinds = ["iqn.", "eui.", "naa."];
    kinds.iter().any(|kind| word.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind)))
}

impl Config {
    /// Checks the volumes' accounts without the file of accounts.
    pub(super) fn check_accounts(&self) -> Result<(), Error> {
        for (name, _) in self.volumes.iter().filter(|(_, volume)| !volume.iscsi_accounts.is_empty()) {
            if self.server.iscsi.chap.is_none() {
                let why = "without CHAP, no initiator has an account";
                return Err(Error::new(format_args!("volume.{name}.iscsi_accounts"), why)
                    .or("set chap in [server.iscsi], or leave it out"));
            }
        }
        Ok(())
    }

    /// Checks that the volumes' accounts exist. Returns warnings of volumes that only names protect from other accounts.
    ///
    /// # Errors
    /// A volume names an account that does not exist.
    pub fn check_against(&self, accounts: &[Account]) -> Result<Vec<String>, Error> {
        let mut warnings = Vec::new();
        for (name, volume) in &self.volumes {
            let unknown = |one: &&String| !accounts.iter().any(|account| account.name == **one);
            if let Some(unknown) = volume.iscsi_accounts.iter().find(unknown) {
                let what = format!("volume.{name}.iscsi_accounts");
                return Err(Error::new(what, format_args!("there is no account {unknown:?}"))
                    .or("name an account of the file that server.iscsi.chap names"));
            }
            let allowed = volume.iscsi_allowed()?;
            let may_claim = |account: &&Account| {
                account.initiators.is_empty() || account.initiators.iter().any(|one| allowed.may_meet(one))
            };
            let is_open = !volume.iscsi_initiators.is_empty() && volume.iscsi_accounts.is_empty();
            if self.serves_iscsi() && is_open && accounts.iter().filter(may_claim).count() > 1 {
                warnings.push(format!(
                    "volume.{name}: initiators choose their names: each account that may claim a name of iscsi_initiators \
                     can use the volume; set iscsi_accounts, or bind the accounts to names in the file of accounts"
                ));
            }
        }
        Ok(warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn secrets_are_read_from_private_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chap");
        let read = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            super::read(&path).map_err(|error| error.to_string())
        };
        let account = |name: &str, initiators: &[&str]| Account {
            name: name.into(),
            secret: b"twelve bytes".to_vec(),
            initiators: initiators.iter().map(|name| name.parse().unwrap()).collect(),
        };
        assert_eq!(read("# who\n\nme twelve bytes\n", 0o600), Ok(vec![account("me", &[])]));
        assert!(read("me twelve bytes\n", 0o640).unwrap_err().contains("accessible to others"));
        let bound = "me twelve bytes IQN.a:one  iqn.b:*\nyou twelve bytes eui.0123456789abcdef\n";
        let bound_to = [account("me", &["iqn.a:one", "iqn.b:*"]), account("you", &["eui.0123456789abcdef"])];
        assert_eq!(read(bound, 0o600), Ok(bound_to.to_vec()));
        for wrong in [
            "me\n",
            "me short\n",
            "me short iqn.a:a-long-name\n",
            "",
            "# none\n",
            "me short iqn.a:wrong_name\n",
            "me short-of-it\nme short-of-it\n",
        ] {
            let told = read(wrong, 0o600).unwrap_err();
            assert!(!told.contains("short"), "{told}");
        }
        assert!(read("me twelve bytes iqn.a_b\n", 0o600).unwrap_err().contains("must not contain '_'"));
    }

    #[test]
    fn accounts_of_volumes_exist_and_names_alone_are_warned_of() {
        let config = |volume: &str, chap: &str| {
            let text = format!(
                "[server]\nlisten = [\"iscsi:127.0.0.1:0\"]\n[server.iscsi]\n{chap}\n[cache.c]\npath = \"none\"\n\
                 [volume.vm]\norigin = \"o\"\n{volume}\n"
            );
            Config::parse(&text).map_err(|error| error.to_string())
        };
        let account = |name: &str, initiators: &[&str]| Account {
            name: name.into(),
            secret: Vec::new(),
            initiators: initiators.iter().map(|name| name.parse().unwrap()).collect(),
        };
        let chap = "chap = \"/etc/chap\"";
        let accounts = [account("alice", &[]), account("bob", &[])];
        let warnings = |volume: &str, accounts: &[Account]| {
            config(volume, chap)
                .unwrap()
                .check_against(accounts)
                .map_err(|error| error.to_string())
                .map(|all| all.len())
        };
        let (named, bound) = ("iscsi_initiators = [\"iqn.t:alice\"]", "iscsi_accounts = [\"alice\"]");
        assert!(config(bound, "").unwrap_err().contains("without CHAP"));
        assert_eq!((warnings("", &accounts), warnings(bound, &accounts)), (Ok(0), Ok(0)));
        assert_eq!((warnings(named, &accounts), warnings(named, &accounts[..1])), (Ok(1), Ok(0)));
        assert_eq!(warnings(&format!("{named}\n{bound}"), &accounts), Ok(0));
        assert!(warnings("iscsi_accounts = [\"eve\"]", &accounts).unwrap_err().contains("no account \"eve\""));
        // Where the accounts are bound to names, names are no claims.
        let by_name = [account("alice", &["iqn.t:alice"]), account("bob", &["iqn.t:bob"])];
        assert_eq!(warnings(named, &by_name), Ok(0));
        assert_eq!(warnings("iscsi_initiators = [\"iqn.t:*\"]", &by_name), Ok(1));
    }
}
