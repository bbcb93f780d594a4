//! Puts the devices of a cache together, whatever the order in which they are given.

use super::{Flash, Stripes};
use crate::error::{Error, uuid_text};
use crate::format::FormatError;
use crate::format::superblock::{SUPERBLOCK_BYTES, Superblock, superblock_offsets};
use nitro_port::Device;
use std::sync::atomic::Ordering;

/// The superblock of a device: the later of two valid copies, with its offset.
///
/// # Errors
/// [`Error::Flash`]: no copy can be read; [`Error::Format`]: no copy is valid.
pub(crate) async fn superblock_of<F: Device>(device: &F) -> Result<(Superblock, u64), Error> {
    let mut best: Result<(Superblock, u64), Error> = Err(Error::Format(FormatError::Magic { structure: "superblock" }));
    for offset in superblock_offsets(device.geometry().size_bytes) {
        let copy = match device.read(offset, SUPERBLOCK_BYTES).await {
            Ok(bytes) => Superblock::decode(&bytes).map(|copy| (copy, offset)).map_err(Error::Format),
            Err(error) => Err(Error::Flash(error)),
        };
        best = match (best, copy) {
            (Ok(a), Ok(b)) => Ok(if age(&b.0) > age(&a.0) { b } else { a }),
            (Ok(a), Err(_)) => Ok(a),
            (Err(_), Ok(b)) => Ok(b),
            // Rather "checksum mismatch" than "no cache at all".
            (Err(Error::Format(FormatError::Magic { .. })), Err(b)) => Err(b),
            (Err(a), Err(_)) => Err(a),
        };
    }
    best
}

/// The order of superblocks in time: a start raises its number, and no device that is lost comes back.
fn age(superblock: &Superblock) -> (u32, u32) {
    (superblock.start, superblock.place.lost.count_ones())
}

/// A device that was given, with the superblock that it has.
struct Given<F> {
    /// Its position among those that were given.
    position: usize,
    device: F,
    superblock: Superblock,
    found_at: u64,
}

fn refuse<T>(device: Option<usize>, why: String) -> Result<T, Error> {
    Err(Error::Devices { device, why })
}

impl<F: Device> Flash<F> {
    /// The devices of an existing cache, in any order. A single device need not hold a cache; whoever opens it finds
    /// out. Devices that hold no cache are [left out](Self::left_out), and so are those that the others had lost
    /// before; those that are [missing](Self::missing) count as lost from now on.
    ///
    /// # Errors
    /// [`Error::Devices`]: the devices are those of several caches, or one is given twice, or too many are given;
    /// [`Error::Flash`] or [`Error::Format`]: none of several devices holds a cache.
    pub async fn assemble(devices: Vec<F>) -> Result<Self, Error> {
        let (mut given, mut left_out, mut first_error) = (Vec::new(), Vec::new(), None);
        let is_only = devices.len() == 1;
        for (position, device) in devices.into_iter().enumerate() {
            match superblock_of(&device).await {
                Ok((superblock, found_at)) => given.push(Given { position, device, superblock, found_at }),
                Err(_) if is_only => return Ok(Self::one(device)),
                Err(error) => {
                    left_out.push((position, error.to_string()));
                    first_error = first_error.or(Some(error));
                }
            }
        }
        let newest = given.iter().max_by_key(|given| age(&given.superblock));
        let Some(newest) = newest.map(|given| given.superblock) else {
            return match first_error {
                Some(error) => Err(error),
                None => refuse(None, String::from("no device is given")),
            };
        };
        if newest.place.devices == 1 && is_only {
            return Ok(Self::of_one(given));
        }
        check(&given, &newest)?;
        Ok(Self::of_several(given, left_out, newest))
    }

    fn of_one(given: Vec<Given<F>>) -> Self {
        let found_at = given.first().map_or(0, |given| given.found_at);
        let flash = Self::new(given.into_iter().map(|given| Some(given.device)).collect(), None);
        flash.members[0].first_copy_whole.store(found_at == 0, Ordering::SeqCst);
        flash
    }

    fn of_several(given: Vec<Given<F>>, mut left_out: Vec<(usize, String)>, newest: Superblock) -> Self {
        let count = usize::from(newest.place.devices);
        let mut members: Vec<Option<F>> = (0..count).map(|_| None).collect();
        let mut first_whole = vec![false; count];
        let mut positions = vec![None; count];
        let lost = u32::from(newest.place.lost);
        let mut present = 0;
        for Given { position, device, superblock, found_at } in given {
            let number = usize::from(superblock.place.number);
            if lost >> number & 1 == 1 {
                left_out.push((position, format!("it is device {number} of the cache, which was lost before")));
                continue;
            }
            present |= 1 << number;
            members[number] = Some(device);
            positions[number] = Some(position);
            first_whole[number] = found_at == 0 && age(&superblock) == age(&newest);
        }
        let stripes = Stripes { data_offset: newest.data_offset, weu_bytes: newest.weu_bytes.into() };
        let mut flash = Self::new(members, Some(stripes));
        for (member, whole) in flash.members.iter().zip(first_whole) {
            member.first_copy_whole.store(whole, Ordering::SeqCst);
        }
        let all = (1_u32 << count) - 1;
        flash.missing = all & !present & !lost;
        flash.out.store(all & !present, Ordering::SeqCst);
        flash.recorded.store(lost, Ordering::SeqCst);
        for (number, member) in flash.members.iter().enumerate().filter(|(_, member)| member.device.is_none()) {
            let why = if lost >> number & 1 == 1 { "it was lost before" } else { "it is missing" };
            let _ = member.reason.set(why.to_owned());
        }
        (flash.left_out, flash.positions) = (left_out, positions);
        flash.found = Some(newest);
        flash
    }

    /// The superblock of the cache on these devices, and whether the copy at the start of a single device is valid.
    ///
    /// # Errors
    /// [`Error::Flash`]: no copy can be read; [`Error::Format`]: no copy is valid; [`Error::Devices`]: the device is
    /// one of several.
    pub async fn superblock(&self) -> Result<Superblock, Error> {
        if let Some(found) = self.found {
            return Ok(found);
        }
        let Some(device) = self.device(0) else { return refuse(None, String::from("no device is given")) };
        let (superblock, found_at) = superblock_of(device).await?;
        if superblock.place.devices > 1 && !self.is_striped() {
            return refuse(Some(0), format!("the cache has {} devices", superblock.place.devices));
        }
        self.members[0].first_copy_whole.store(found_at == 0, Ordering::SeqCst);
        Ok(superblock)
    }
}

/// Checks that devices are those of one cache.
fn check<F>(given: &[Given<F>], newest: &Superblock) -> Result<(), Error> {
    let count = newest.place.devices;
    let mut seen: Vec<Option<usize>> = vec![None; usize::from(count)];
    for Given { position, superblock, .. } in given {
        let (place, position) = (superblock.place, *position);
        if (superblock.uuid, superblock.epoch) != (newest.uuid, newest.epoch) {
            let (this, other) = (uuid_text(&superblock.uuid), uuid_text(&newest.uuid));
            let other = if this == other { String::from("an earlier formatting of it") } else { this };
            return refuse(
                Some(position),
                format!(
                    "the devices are not those of one cache: this one belongs to {other}, another to {}",
                    uuid_text(&newest.uuid)
                ),
            );
        }
        if place.devices != count
            || (superblock.data_offset, superblock.weu_bytes) != (newest.data_offset, newest.weu_bytes)
        {
            return refuse(
                Some(position),
                format!("it belongs to a cache of {} devices, another to one of {count}", place.devices),
            );
        }
        if let Some(slot) = seen.get_mut(usize::from(place.number))
            && slot.replace(position).is_some()
        {
            return refuse(
                Some(position),
                format!("device {} of the cache is given twice: this may be a copy of it", place.number),
            );
        }
        // What one has lost must not have lost the one in its turn.
        if place.lost & !newest.place.lost != 0 {
            return refuse(
                Some(position),
                String::from("the devices were used apart from each other: each of them goes without another one"),
            );
        }
    }
    Ok(())
}
