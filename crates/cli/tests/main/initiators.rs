//! iSCSI initiators: the names and accounts by which volumes know them, and those by which they know volumes.

use crate::support::{PATIENCE, Place};
use md5::{Digest as _, Md5};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

/// An initiator with just enough of the protocol to log in, discover and read vital product data.
struct Initiator {
    stream: TcpStream,
    tag: u32,
}

impl Initiator {
    /// Logs in; `None`: the login is refused. A session without a target is for discovery.
    fn log_in(address: SocketAddr, name: &str, account: Option<(&str, &str)>, target: Option<&str>) -> Option<Self> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut this = Self { stream, tag: 0 };
        let mut pairs = vec![("InitiatorName", name.to_owned())];
        match target {
            Some(target) => pairs.push(("TargetName", target.to_owned())),
            None => pairs.push(("SessionType", "Discovery".to_owned())),
        }
        if let Some((account, secret)) = account {
            pairs.push(("AuthMethod", "CHAP".to_owned()));
            this.negotiate(0x81, &std::mem::take(&mut pairs))?;
            let asked = this.negotiate(0, &[("CHAP_A", "5".to_owned())])?;
            let value = |key: &str| asked.split('\0').find_map(|pair| pair.strip_prefix(key)).unwrap().to_owned();
            let challenge = value("CHAP_C=0x");
            let digits = |at: usize| u8::from_str_radix(&challenge[at..at + 2], 16).unwrap();
            let challenge: Vec<u8> = (0..challenge.len()).step_by(2).map(digits).collect();
            let identifier: u8 = value("CHAP_I=").parse().unwrap();
            let hash = Md5::digest([&[identifier], secret.as_bytes(), &challenge].concat());
            let response = hash.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"));
            this.negotiate(0x81, &[("CHAP_N", account.to_owned()), ("CHAP_R", response)])?;
        }
        this.negotiate(0x87, &pairs)?;
        Some(this)
    }

    /// Sends a PDU: its first two bytes, bytes 8 to 48, and its data.
    fn send(&mut self, opcode: u8, flags: u8, rest: [u8; 40], data: &[u8]) {
        let mut pdu = vec![opcode, flags, 0, 0, 0];
        pdu.extend(&(data.len() as u32).to_be_bytes()[1..]);
        pdu.extend(rest);
        pdu[16..20].copy_from_slice(&self.tag.to_be_bytes());
        pdu.extend(data);
        pdu.resize(pdu.len().next_multiple_of(4), 0);
        self.stream.write_all(&pdu).unwrap();
    }

    fn receive(&mut self) -> Option<([u8; 48], Vec<u8>)> {
        let mut header = [0; 48];
        self.stream.read_exact(&mut header).ok()?;
        let len = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let mut data = vec![0; len.next_multiple_of(4)];
        self.stream.read_exact(&mut data).ok()?;
        data.truncate(len);
        Some((header, data))
    }

    /// Sends a login request; `None`: it is refused.
    fn negotiate(&mut self, flags: u8, pairs: &[(&str, String)]) -> Option<String> {
        let text: String = pairs.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
        let mut rest = [0; 40];
        rest[0] = 0x80;
        self.send(0x43, flags, rest, text.as_bytes());
        let (header, data) = self.receive()?;
        (header[36] == 0).then(|| String::from_utf8(data).unwrap())
    }

    /// The names of the targets that it discovers.
    fn targets(&mut self) -> Vec<String> {
        let mut rest = [0; 40];
        rest[12..16].fill(0xff);
        self.send(0x04, 0x80, rest, b"SendTargets=All\0");
        let (_, data) = self.receive().unwrap();
        let text = String::from_utf8(data).unwrap();
        text.split('\0').filter_map(|pair| pair.strip_prefix("TargetName=")).map(str::to_owned).collect()
    }

    /// A page of vital product data, without its header.
    fn page(&mut self, page: u8) -> Vec<u8> {
        let mut rest = [0; 40];
        rest[15] = 255;
        // The number of the command, from 0 on, as at the login.
        rest[16..20].copy_from_slice(&self.tag.to_be_bytes());
        self.tag += 1;
        rest[24..30].copy_from_slice(&[0x12, 1, page, 0, 255, 0]);
        self.send(0x01, 0xc0, rest, &[]);
        self.receive().unwrap().1.split_off(4)
    }
}

/// Serves a configuration over iSCSI; returns the server's address with it.
fn serve(place: &Place, config: &str) -> (crate::support::Server, SocketAddr) {
    serve_with(place, "none", config)
}

/// As [`serve`], with a cache.
fn serve_with(place: &Place, cache: &str, config: &str) -> (crate::support::Server, SocketAddr) {
    let listen = "[server]\nlisten = [\"iscsi:127.0.0.1:0\"]\n";
    place.write("n.toml", format!("{listen}[cache.c]\npath = \"{cache}\"\n{config}"));
    let server = place.serve("--config n.toml");
    let uri = place.status()["server"]["uris"][0].as_str().unwrap().to_owned();
    let address = uri.strip_prefix("iscsi://").unwrap().split('/').next().unwrap().parse().unwrap();
    (server, address)
}

/// What `nitro check` and `nitro serve` say of a configuration that cannot be used.
fn refused(place: &Place, config: &str) -> String {
    place.write("n.toml", config);
    let said = place.failure("check n.toml", 1);
    assert_eq!(place.failure("serve --config n.toml", 1), said);
    said
}

fn place(volumes: &[&str]) -> Place {
    let place = Place::new();
    volumes.iter().for_each(|name| drop(place.file(&format!("{name}.img"), 1 << 20)));
    place
}

#[test]
fn names_are_found_in_upper_and_lower_case_and_invalid_ones_are_refused() {
    let place = place(&["vm"]);
    let volume = "[volume.VM]\norigin = \"vm.img\"\niscsi_initiators = [\"IQN.1991-05.com.Microsoft:Host1\"]\n";
    let (_server, address) = serve(&place, volume);
    for name in ["iqn.1991-05.com.microsoft:host1", "IQN.1991-05.com.microsoft:HOST1"] {
        let targets = Initiator::log_in(address, name, None, None).unwrap().targets();
        let [unique] = targets.as_slice() else { panic!("{targets:?}") };
        assert!(unique.strip_prefix("iqn.2026-11.nitro:vm.").is_some_and(|serial| serial.len() == 16), "{unique}");
        for target in ["iqn.2026-11.nitro:vm", "iqn.2026-11.nitro:VM", unique] {
            assert!(Initiator::log_in(address, name, None, Some(target)).is_some(), "{name} {target}");
        }
    }
    assert!(
        Initiator::log_in(address, "iqn.1991-05.com.microsoft:host2", None, Some("iqn.2026-11.nitro:vm")).is_none()
    );
    let config = |server: &str, volume: &str| {
        format!("[server]\nlisten = [\"iscsi:127.0.0.1:0\"]\n{server}\n[cache.c]\npath = \"none\"\n{volume}\n")
    };
    let plain = "[volume.vm]\norigin = \"vm.img\"\n";
    for (server, volume, what) in [
        ("[server.iscsi]\ninitiators = [\"iqn.a:host_1\"]", plain.to_owned(), "server.iscsi.initiators"),
        ("", format!("{plain}iscsi_initiators = [\"host1\"]"), "begins with iqn., eui. or naa."),
        ("", plain.replace("vm]", "a_b]"), "must not contain '_'"),
        ("", format!("{plain}iscsi_name = \"iqn.a b\""), "must not contain ' '"),
        ("", format!("{plain}[volume.VM]\norigin = \"other.img\""), "the same iSCSI target name"),
    ] {
        let said = refused(&place, &config(server, &volume));
        assert!(said.contains(what), "{said}");
    }
}

const ALICE: Option<(&str, &str)> = Some(("alice", "the-secret-of-alice"));
const BOB: Option<(&str, &str)> = Some(("bob", "the-secret-of-bob-1"));

/// The configuration of two tenants, with the lines of their accounts and of their volumes.
fn tenants(place: &Place, [alice, bob]: [&str; 2], is_bound: bool) -> String {
    let path = place.write("chap", format!("alice the-secret-of-alice {alice}\nbob the-secret-of-bob-1 {bob}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut config = "[server.iscsi]\nchap = \"chap\"\n".to_owned();
    for name in ["alice", "bob"] {
        config += &format!("[volume.{name}]\norigin = \"{name}.img\"\niscsi_initiators = [\"iqn.t:{name}\"]\n");
        if is_bound {
            config += &format!("iscsi_accounts = [\"{name}\"]\n");
        }
    }
    config
}

#[test]
fn an_account_finds_and_uses_only_the_volumes_that_are_bound_to_it() {
    // By a setting of the volume, and by names in the file of accounts.
    for (names, is_bound) in [(["", ""], true), (["iqn.t:alice", "iqn.t:bob"], false)] {
        let place = place(&["alice", "bob"]);
        let (_server, address) = serve(&place, &tenants(&place, names, is_bound));
        let target = |volume: &str| format!("iqn.2026-11.nitro:{volume}");
        for (account, name) in [(ALICE, "alice"), (BOB, "bob")] {
            let own = format!("iqn.t:{name}");
            let found = Initiator::log_in(address, &own, account, None).unwrap().targets();
            assert!(found.len() == 1 && found[0].starts_with(&(target(name) + ".")), "{found:?}");
            assert!(Initiator::log_in(address, &own, account, Some(&target(name))).is_some());
        }
        for claimed in ["iqn.t:alice", "iqn.t:bob"] {
            let found = Initiator::log_in(address, claimed, BOB, None).map(|mut session| session.targets());
            assert!(!found.unwrap_or_default().iter().any(|found| found.starts_with(&target("alice"))), "{claimed}");
            assert!(Initiator::log_in(address, claimed, BOB, Some(&target("alice"))).is_none(), "{claimed}");
        }
        assert!(Initiator::log_in(address, "iqn.t:alice", None, None).is_none());
    }
}

#[test]
fn a_bond_changes_at_a_reload_and_an_account_that_is_missing_is_refused() {
    let place = place(&["alice", "bob"]);
    let (_server, address) = serve(&place, &tenants(&place, ["", ""], true));
    let may = || Initiator::log_in(address, "iqn.t:alice", BOB, Some("iqn.2026-11.nitro:alice")).is_some();
    assert!(!may());
    place.stdout("set volume.alice.iscsi_accounts [\"alice\",\"bob\"]");
    assert!(may());
    assert!(place.failure("set volume.alice.iscsi_accounts [\"eve\"]", 1).contains("no account \"eve\""));
    let said = refused(
        &place,
        "[cache.c]\npath = \"none\"\n[volume.a]\norigin = \"alice.img\"\niscsi_accounts = [\"alice\"]\n",
    );
    assert!(said.contains("without CHAP"), "{said}");
}

#[test]
fn names_that_any_account_may_claim_are_warned_of() {
    let place = place(&["alice", "bob"]);
    for (names, is_bound, warned) in
        [(["", ""], false, true), (["", ""], true, false), (["iqn.t:alice", "iqn.t:bob"], false, false)]
    {
        let config = tenants(&place, names, is_bound);
        let listen = "[server]\nlisten = [\"iscsi:127.0.0.1:0\"]\n";
        place.write("n.toml", format!("{listen}[cache.c]\npath = \"none\"\n{config}"));
        let said = place.stdout("check n.toml");
        assert_eq!(said.contains("set iscsi_accounts"), warned, "{said}");
    }
}

#[test]
fn a_unit_has_the_name_and_the_serial_number_that_are_set() {
    let place = place(&["a", "b"]);
    let settings = "iscsi_name = \"iqn.2000-01.org.example:Disk\"\nserial = \"S-1\"\n";
    let (_server, address) =
        serve(&place, &format!("[volume.a]\norigin = \"a.img\"\n{settings}[volume.b]\norigin = \"b.img\"\n"));
    let name = "iqn.a:i";
    let mut targets = Initiator::log_in(address, name, None, None).unwrap().targets();
    targets.sort();
    assert_eq!((targets.len(), targets[0].as_str()), (2, "iqn.2000-01.org.example:disk"));
    assert!(targets[1].starts_with("iqn.2026-11.nitro:b."), "{targets:?}");
    let of = |at: usize| {
        let mut session = Initiator::log_in(address, name, None, Some(&targets[at])).unwrap();
        (session.page(0x80), session.page(0x83))
    };
    let ((serial, identification), (other_serial, other_identification)) = (of(0), of(1));
    assert_eq!((serial.as_slice(), other_serial.len()), (&b"S-1"[..], 16));
    assert!(identification[..12] != other_identification[..12], "the NAA designators");
    let said = refused(
        &place,
        "[cache.c]\npath = \"none\"\n[volume.a]\norigin = \"a.img\"\nserial = \"1\"\n[volume.b]\norigin = \"b.img\"\n\
         serial = \"1\"\n",
    );
    assert!(said.contains("the same serial number"), "{said}");
}

#[test]
fn a_copy_of_a_volume_beside_a_copy_of_its_cache_is_another_unit() {
    let place = place(&["vm"]);
    place.stdout("cache create vm.cache --size 32M");
    let unit = |cache: &str, origin: &str| {
        let (server, address) = serve_with(&place, cache, &format!("[volume.vm]\norigin = \"{origin}\"\n"));
        let targets = Initiator::log_in(address, "iqn.a:i", None, None).unwrap().targets();
        let mut session = Initiator::log_in(address, "iqn.a:i", None, Some(&targets[0])).unwrap();
        let unit = (targets[0].clone(), session.page(0x80), session.page(0x83));
        drop(session);
        (unit, server.stop().1)
    };
    let (first, _) = unit("vm.cache", "vm.img");
    for name in ["vm.cache", "vm.img"] {
        std::fs::copy(place.path(name), place.path(&format!("copy.{name}"))).unwrap();
    }
    let (copy, said) = unit("copy.vm.cache", "copy.vm.img");
    assert!(copy.0 != first.0 && copy.1 != first.1 && copy.2[..12] != first.2[..12], "{copy:?} {first:?}");
    assert!(said.contains("another target with another serial number"), "{said}");
    assert_eq!(unit("copy.vm.cache", "copy.vm.img").0, copy);
    assert_eq!(unit("vm.cache", "vm.img").0, first);
}
