//! The stored form of reservations: text with a line for each registration, and one for the reservation.
//!
//! ```text
//! nitro-iscsi-reservations 1
//! registered 0000000000001234 iqn.1993-08.org.debian:01:abc,i,0x00023d000001
//! reserved 5 iqn.1993-08.org.debian:01:abc,i,0x00023d000001
//! end
//! ```

use super::nexus::Port;
use super::reservation::{Kind, Registration, Reservations};
use std::io;

const FIRST: &str = "nitro-iscsi-reservations 1";
const LAST: &str = "end";

pub(super) fn to_bytes(reservations: &Reservations) -> Vec<u8> {
    let mut text = format!("{FIRST}\n");
    for Registration { port, key } in reservations.registrations() {
        text += &format!("registered {key:016x} {}\n", port.0);
    }
    if let Some((kind, holder)) = reservations.held() {
        text += &format!("reserved {} {}\n", kind.number(), holder.0);
    }
    text += LAST;
    text.push('\n');
    text.into_bytes()
}

pub(super) fn parse(bytes: &[u8]) -> io::Result<Reservations> {
    let refuse = || io::Error::new(io::ErrorKind::InvalidData, "the stored reservations are damaged");
    let text = std::str::from_utf8(bytes).map_err(|_| refuse())?;
    let mut lines = text.lines();
    if lines.next() != Some(FIRST) || lines.next_back() != Some(LAST) {
        return Err(refuse());
    }
    let (mut registrations, mut held) = (Vec::new(), None);
    for line in lines {
        let (what, rest) = line.split_once(' ').ok_or_else(refuse)?;
        let (number, port) = rest.split_once(' ').ok_or_else(refuse)?;
        // Earlier versions compared names with regard to case.
        let port = Port(port.to_ascii_lowercase());
        match what {
            "registered" => {
                let key = u64::from_str_radix(number, 16).map_err(|_| refuse())?;
                if !registrations.iter().any(|one: &Registration| one.port == port) {
                    registrations.push(Registration { port, key });
                }
            }
            "reserved" => {
                let kind = number.parse().ok().and_then(Kind::of).ok_or_else(refuse)?;
                held = Some((kind, port));
            }
            _ => return Err(refuse()),
        }
    }
    Reservations::kept(registrations, held).ok_or_else(refuse)
}
