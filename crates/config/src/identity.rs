//! How volumes identify themselves to initiators and virtual machines.

use super::{Config, Protocol, VolumeConfig};
use nitro_console::error::Error;
use nitro_frontend::UnitIdentity;
use nitro_iscsi::Name;
use std::fs;

/// The file with the identity of this machine (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";
/// The longest serial number in characters: that of a UUID.
const SERIAL_CHARS_MAX: usize = 36;

impl VolumeConfig {
    /// The names and numbers of the volume `name`, made from its UUID; without one, from the machine and the name, as
    /// initiators know the volumes of earlier programs.
    ///
    /// # Errors
    /// A setting that decides them is invalid.
    pub fn identity(&self, name: &str, uuid: Option<[u8; 16]>) -> Result<UnitIdentity, Error> {
        let mut unit = UnitIdentity::of(&fs::read(MACHINE_ID).unwrap_or_default(), name);
        if let Some(uuid) = uuid {
            unit = unit.with_uuid(uuid);
        }
        if let Some(target) = &self.iscsi_name {
            let target = target.parse::<Name>().map_err(|why| {
                Error::new(format_args!("volume.{name}.iscsi_name = {target:?}"), why)
                    .or("write a name such as iqn.2026-11.org.example:vm")
            })?;
            unit = unit.with_target(target.into());
        }
        if let Some(serial) = &self.serial {
            let is_valid = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            if serial.is_empty() || serial.len() > SERIAL_CHARS_MAX || !serial.chars().all(is_valid) {
                let why = "it is not a serial number";
                return Err(Error::new(format_args!("volume.{name}.serial = {serial:?}"), why)
                    .or(format_args!("write 1 to {SERIAL_CHARS_MAX} letters, digits, '-', '.' and '_'")));
            }
            unit = unit.with_serial(serial);
        }
        Ok(unit)
    }
}

/// Checks a unit beside those that the server has already; `is_target`: volumes are iSCSI targets, too.
///
/// # Errors
/// The name of its target is invalid, or another unit has the same name or number.
pub fn check_unit<'a>(
    unit: &UnitIdentity,
    others: impl IntoIterator<Item = &'a UnitIdentity>,
    is_target: bool,
) -> Result<(), Error> {
    let what = format!("volume {:?}", unit.disk);
    let way_out = "set iscsi_name of the volume to a name of its own, such as iqn.2026-11.org.example:vm";
    if is_target && let Err(why) = unit.target.parse::<Name>() {
        return Err(
            Error::new(what, format_args!("its iSCSI target cannot be named {:?}: {why}", unit.target)).or(way_out)
        );
    }
    for other in others.into_iter().filter(|other| other.disk != unit.disk) {
        let is_meant = |what: &&str| is_target || *what != "iSCSI target name";
        if let Some(same) = unit.conflict(other).filter(is_meant) {
            let why = format!("it has the same {same} as volume {:?}", other.disk);
            return Err(Error::new(what, why).or(if same.starts_with("serial") {
                "set serial of one of them to another, or leave it out"
            } else {
                way_out
            }));
        }
    }
    Ok(())
}

impl Config {
    /// Whether volumes are iSCSI targets.
    #[must_use]
    pub fn serves_iscsi(&self) -> bool {
        self.server.listen.iter().any(|address| address.protocol() == Protocol::Iscsi)
    }

    /// Checks the names and numbers of all volumes.
    pub(super) fn check_identities(&self) -> Result<(), Error> {
        let mut units = Vec::<UnitIdentity>::new();
        for (name, volume) in &self.volumes {
            let unit = volume.identity(name, None)?;
            check_unit(&unit, &units, self.serves_iscsi())?;
            units.push(unit);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listen: &str, volumes: &[(&str, &str)]) -> Result<(), String> {
        let volume = |(name, more): &(&str, &str)| format!("[volume.{name:?}]\norigin = \"o\"\n{more}\n");
        let volumes: String = volumes.iter().map(volume).collect();
        let text = format!("[server]\nlisten = [{listen:?}]\n[cache.c]\npath = \"none\"\n{volumes}");
        Config::parse(&text).map(drop).map_err(|error| error.to_string())
    }

    const ISCSI: &str = "iscsi:127.0.0.1:0";
    const NBD: &str = "unix:/run/n";

    #[test]
    fn the_names_of_targets_are_valid_and_different() {
        for name in ["a_b", "a b", "é", "a,b"] {
            let refused = check(ISCSI, &[(name, "")]).unwrap_err();
            assert!(refused.contains("must not contain") && refused.contains("set iscsi_name"), "{refused}");
            assert_eq!(check(NBD, &[(name, "")]), Ok(()), "it is not a target's name");
            assert_eq!(check(ISCSI, &[(name, "iscsi_name = \"IQN.a:b\"")]), Ok(()));
        }
        assert_eq!(check(NBD, &[("VM", ""), ("vm", "")]), Ok(()));
        for (one, other) in [("", ""), ("iscsi_name = \"iqn.a:B\"", "iscsi_name = \"iqn.A:b\"")] {
            let refused = check(ISCSI, &[("VM", one), ("vm", other)]).unwrap_err();
            assert!(refused.contains("the same iSCSI target name as volume \"VM\""), "{refused}");
        }
        assert!(check(NBD, &[("vm", "iscsi_name = \"vm\"")]).unwrap_err().contains("volume.vm.iscsi_name = \"vm\""));
    }

    #[test]
    fn serial_numbers_are_valid_and_different() {
        let long = "x".repeat(37);
        for wrong in ["", "a b", "é", &long] {
            let refused = check(NBD, &[("vm", &format!("serial = {wrong:?}"))]).unwrap_err();
            assert!(refused.contains("volume.vm.serial"), "{refused}");
        }
        let refused = check(NBD, &[("a", "serial = \"1\""), ("b", "serial = \"1\"")]).unwrap_err();
        assert!(refused.contains("the same serial number as volume \"a\""), "{refused}");
        let refused = check(NBD, &[("a", ""), ("b", "serial = \"a\"")]).unwrap_err();
        assert!(refused.contains("for virtual machines"), "{refused}");
        assert_eq!(check(NBD, &[("a", ""), ("b", "serial = \"b-2\"")]), Ok(()));
    }
}
