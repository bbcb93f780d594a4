//! How a disk identifies itself to clients that know it by more than the name of an export.

use sha2::{Digest, Sha256};

/// The start of the name of each iSCSI target that has no name of its own; the disk's name follows it, then what makes it
/// unique.
pub const TARGET_PREFIX: &str = "iqn.2026-11.nitro:";
/// The longest name of an iSCSI target, in bytes (RFC 7143, §4.2.7.2).
const TARGET_BYTES_MAX: usize = 223;
/// The longest serial number of a virtio disk, in bytes (virtio 1.2, §5.2.6).
pub const SHORT_SERIAL_BYTES: usize = 20;

/// The names and numbers of a disk in all protocols. They are decided here, and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitIdentity {
    /// The disk's name, as in [`Disks::open`](crate::Disks::open).
    pub disk: String,
    /// The name of its iSCSI target, in lower case. Not every disk's name makes a valid one.
    pub target: String,
    /// Another name under which initiators may log in to the target: the one that it has without a UUID.
    pub short_target: String,
    /// SCSI: the unit's serial number, in ASCII.
    pub serial: String,
    /// SCSI: a number whose first 60 bits are the unit's locally assigned NAA.
    pub number: u64,
    /// virtio: a serial number of at most [`SHORT_SERIAL_BYTES`].
    pub short_serial: String,
}

impl UnitIdentity {
    /// The identity of a disk of the machine identified by `machine`, by the disk's name.
    #[must_use]
    pub fn of(machine: &[u8], disk: &str) -> Self {
        // The case of the name is part of the number, although targets' names are in lower case.
        let number = number_of([machine, &[0], TARGET_PREFIX.as_bytes(), disk.as_bytes()]);
        let target = format!("{TARGET_PREFIX}{}", disk.to_ascii_lowercase());
        Self {
            disk: disk.to_owned(),
            short_target: target.clone(),
            target,
            serial: format!("{number:016x}"),
            number,
            short_serial: shortened(disk),
        }
    }

    /// With another target's name, and no other.
    #[must_use]
    pub fn with_target(self, target: String) -> Self {
        Self { short_target: target.clone(), target, ..self }
    }

    /// With the serial number and the number that follow from a UUID. The serial number is also the end of the target's name,
    /// which is therefore unique (RFC 7143, §4.2.7.1), unless the disk's name leaves no room for it.
    #[must_use]
    pub fn with_uuid(self, uuid: [u8; 16]) -> Self {
        let number = number_of([b"uuid", &[0], &uuid, &[]]);
        let serial = format!("{number:016x}");
        let unique = Some(format!("{}.{serial}", self.short_target)).filter(|name| name.len() <= TARGET_BYTES_MAX);
        Self { target: unique.unwrap_or(self.target), serial, number, ..self }
    }

    /// Whether an initiator may mean its target by a name in lower case.
    #[must_use]
    pub fn is_target(&self, name: &str) -> bool {
        [&self.target, &self.short_target].iter().any(|own| *own == name)
    }

    /// With another serial number, from which the other numbers follow: on any machine, the same serial number is the same
    /// unit.
    #[must_use]
    pub fn with_serial(self, serial: &str) -> Self {
        let number = number_of([b"serial", &[0], serial.as_bytes(), &[]]);
        Self { serial: serial.to_owned(), number, short_serial: shortened(serial), ..self }
    }

    /// What two disks of one server must not share, if they do.
    #[must_use]
    pub fn conflict(&self, other: &Self) -> Option<&'static str> {
        let has = |is_same, what| if is_same { Some(what) } else { None };
        has(self.serial == other.serial || self.number >> 4 == other.number >> 4, "serial number")
            .or(has(self.short_serial == other.short_serial, "serial number for virtual machines"))
            .or(has(self.is_target(&other.target) || self.is_target(&other.short_target), "iSCSI target name"))
    }
}

/// 64 bits of a hash.
fn number_of(parts: [&[u8]; 4]) -> u64 {
    let hash = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A text of at most [`SHORT_SERIAL_BYTES`]: itself, or 80 bits of its hash in hexadecimal digits.
fn shortened(text: &str) -> String {
    if text.len() <= SHORT_SERIAL_BYTES {
        return text.to_owned();
    }
    let hash = Sha256::digest(text);
    hash.iter().take(SHORT_SERIAL_BYTES / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_the_same_beginning_have_different_serial_numbers() {
        let long = ["a-long-name-of-a-disk-1", "a-long-name-of-a-disk-2"].map(|name| UnitIdentity::of(b"m", name));
        assert_eq!(long[0].conflict(&long[1]), None);
        for unit in &long {
            assert_eq!(unit.short_serial.len(), SHORT_SERIAL_BYTES);
        }
        for name in ["vm", "exactly-twenty-bytes"] {
            assert_eq!(UnitIdentity::of(b"m", name).short_serial, name, "as guests know it");
        }
    }

    /// What initiators have seen of units stays.
    #[test]
    fn identities_do_not_change() {
        let unit = UnitIdentity::of(b"here", "VM");
        assert_eq!((unit.target.as_str(), unit.serial.as_str()), ("iqn.2026-11.nitro:vm", "76ca026d3b05a814"));
        let other = UnitIdentity::of(b"there", "VM");
        assert!(unit.number != other.number && unit.serial != other.serial);
        assert_eq!(unit.conflict(&UnitIdentity::of(b"here", "vm")), Some("iSCSI target name"));
        let named = UnitIdentity::of(b"here", "VM").with_target("iqn.2000-01.org.example:a".into());
        assert_eq!((&named.serial, named.number), (&unit.serial, unit.number));
        let [one, other] = [1, 2].map(|byte| unit.clone().with_uuid([byte; 16]));
        assert!(one.number != other.number && one.serial != unit.serial && one.target != other.target);
        assert_eq!(one.target, format!("iqn.2026-11.nitro:vm.{}", one.serial));
        assert!(one.is_target("iqn.2026-11.nitro:vm") && !one.is_target(&other.target));
        assert_eq!(one.conflict(&other), Some("serial number for virtual machines"));
        assert_eq!(one.with_target(named.target.clone()).target, named.target);
    }

    #[test]
    fn a_serial_number_decides_whether_units_are_the_same() {
        let [one, other] = [(b"here", "a"), (b"more", "b")].map(|(m, d)| UnitIdentity::of(m, d).with_serial("S-1"));
        assert_eq!((one.number, &one.short_serial), (other.number, &"S-1".to_owned()));
        assert_eq!(one.conflict(&other), Some("serial number"));
        assert_eq!(one.with_serial("S-2").conflict(&other), None);
    }
}
