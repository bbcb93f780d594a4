//! Access control of logins.

use crate::name::NamePattern;
use nitro_frontend::Caller;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A CHAP account (RFC 1994). Its `Debug` output does not contain the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// `CHAP_N`.
    pub name: String,
    /// The secret that both sides share.
    pub secret: Vec<u8>,
    /// The initiator names that the account may claim. Empty: any name.
    pub initiators: Vec<NamePattern>,
}

impl Account {
    /// Whether the account may claim an initiator's name.
    #[must_use]
    pub fn may_claim(&self, name: &str) -> bool {
        self.initiators.is_empty() || self.initiators.iter().any(|pattern| pattern.matches(name))
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An IP network: `ADDRESS` or `ADDRESS/BITS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Whether the network contains an address. An IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u32| self.bits == 0 || (a ^ b) >> (width - self.bits) == 0;
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || format!("{text:?} is not a network: write ADDRESS or ADDRESS/BITS, such as 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), |bits| bits.parse().map_err(|_| refuse()))?;
        if bits > width { Err(refuse()) } else { Ok(Self { address, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Names, accounts and addresses of initiators that are allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    /// Allowed names. Empty: any name.
    pub initiators: Vec<NamePattern>,
    /// Names of allowed accounts. Empty: any account, and initiators without one.
    pub accounts: Vec<String>,
    /// Allowed networks. Empty: any address.
    pub networks: Vec<Network>,
}

impl AllowList {
    /// Whether the list contains an initiator, by name, account and address. It contains no other clients.
    #[must_use]
    pub fn allows(&self, caller: Caller<'_>) -> bool {
        let Caller::Initiator { name, account, address } = caller else { return false };
        self.allows_name(name) && self.allows_account(account) && self.allows_address(address)
    }

    /// Whether the list contains an initiator's name.
    #[must_use]
    pub fn allows_name(&self, name: &str) -> bool {
        self.initiators.is_empty() || self.initiators.iter().any(|pattern| pattern.matches(name))
    }

    /// Whether the list contains a name that `pattern` matches.
    #[must_use]
    pub fn may_meet(&self, pattern: &NamePattern) -> bool {
        self.initiators.is_empty() || self.initiators.iter().any(|one| one.overlaps(pattern))
    }

    /// Whether the list contains the account as which an initiator has authenticated.
    #[must_use]
    pub fn allows_account(&self, account: Option<&str>) -> bool {
        self.accounts.is_empty() || account.is_some_and(|account| self.accounts.iter().any(|one| one == account))
    }

    /// Whether the list contains an initiator's address; `None`: it has no address.
    #[must_use]
    pub fn allows_address(&self, address: Option<IpAddr>) -> bool {
        self.networks.is_empty()
            || address.is_some_and(|address| self.networks.iter().any(|network| network.holds(address)))
    }
}

/// Which initiators may log in, and how they authenticate.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The initiators that may log in. A disk may restrict them further (`nitro_frontend::Disks::admits`).
    pub allowed: AllowList,
    /// CHAP accounts, with one of which an initiator must log in. Empty: initiators log in without CHAP.
    pub accounts: Vec<Account>,
    /// The target's own account, for initiators that request mutual CHAP.
    pub own: Option<Account>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let holds = |network: &str, address: &str| network.parse::<Network>().unwrap().holds(address.parse().unwrap());
        assert!(holds("10.0.0.0/8", "10.1.2.3") && !holds("10.0.0.0/8", "11.1.2.3"));
        assert!(holds("0.0.0.0/0", "1.2.3.4") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("10.0.0.1", "::ffff:10.0.0.1") && !holds("10.0.0.1", "10.0.0.2"));
        assert!(holds("fe80::/10", "fe80::1") && !holds("fe80::/10", "::1") && holds("::/0", "::1"));
        for network in ["10.0.0.0/8", "::/0", "10.0.0.1/32"] {
            assert_eq!(network.parse::<Network>().unwrap().to_string(), network);
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "a/b", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    fn patterns(list: &[&str]) -> Vec<NamePattern> {
        list.iter().map(|pattern| pattern.parse().unwrap()).collect()
    }

    #[test]
    fn names_match_whole_or_by_their_beginning() {
        let list = AllowList { initiators: patterns(&["iqn.a:one", "iqn.b:*"]), ..AllowList::default() };
        assert!(list.allows_name("iqn.a:one") && list.allows_name("iqn.b:") && list.allows_name("iqn.b:x"));
        assert!(!list.allows_name("iqn.a:one2") && !list.allows_name("iqn.b") && !list.allows_name(""));
        assert!(AllowList::default().allows_name("any") && AllowList::default().allows_address(None));
    }

    #[test]
    fn names_accounts_and_addresses_must_all_be_allowed() {
        let all = AllowList {
            initiators: patterns(&["iqn.a:one"]),
            accounts: vec!["alice".into()],
            networks: vec!["10.0.0.0/8".parse().unwrap()],
        };
        let address = "10.0.0.1".parse().ok();
        let caller = |name, account, address| Caller::Initiator { name, account, address };
        assert!(all.allows(caller("iqn.a:one", Some("alice"), address)));
        for (name, account, address) in [
            ("iqn.a:two", Some("alice"), address),
            ("iqn.a:one", Some("bob"), address),
            ("iqn.a:one", Some("Alice"), address),
            ("iqn.a:one", None, address),
            ("iqn.a:one", Some("alice"), None),
        ] {
            assert!(!all.allows(caller(name, account, address)), "{name} {account:?} {address:?}");
        }
        assert!(!AllowList::default().allows(Caller::Certified { identities: &[] }));
        let bound = Account { name: "a".into(), secret: Vec::new(), initiators: patterns(&["iqn.a:*"]) };
        assert!(bound.may_claim("iqn.a:x") && !bound.may_claim("iqn.b:x"));
    }

    #[test]
    fn secrets_are_not_shown() {
        let account = Account { name: "n".into(), secret: b"hidden".to_vec(), initiators: Vec::new() };
        assert!(!format!("{account:?}").contains("hidden") && !format!("{account:?}").contains("104"));
    }
}
