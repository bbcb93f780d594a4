//! MODE SENSE and MODE SELECT (SPC-5 §6.13 to §6.16, §7.5; SBC-4 §6.5). No parameter can be changed.

use super::{Action, BLOCK_BYTES, Facts, Sense};

/// Number of groups in the IO Advice Hints Grouping page, each with a permanent stream: group 0, and one for each write
/// hint of Linux.
pub(super) const STREAMS: u16 = 6;

/// Values of PAGE CONTROL.
const CHANGEABLE: u8 = 1;
const SAVED: u8 = 3;

/// The mode pages: page code, subpage code, and the content after the length. `changeable`: the masks of bits that can
/// be changed, of which there are none.
fn pages(changeable: bool) -> Vec<(u8, u8, Vec<u8>)> {
    let mut caching = vec![0; 18];
    let mut control = vec![0; 10];
    let mut exceptions = vec![0; 10];
    if !changeable {
        // WCE: written data are durable after SYNCHRONIZE CACHE, or if FUA was set.
        caching[0] = 0x04;
        // TST: each session has its own task set. QUEUE ALGORITHM MODIFIER: SIMPLE commands may be reordered.
        (control[0], control[1]) = (0x20, 0x10);
        // Busy timeout: unlimited.
        control[6..8].fill(0xff);
        // DEXCPT: no exceptions are reported.
        exceptions[0] = 0x08;
    }
    vec![(0x08, 0, caching), (0x0a, 0, control), (0x0a, 5, io_advice_hints(changeable)), (0x1c, 0, exceptions)]
}

/// IO Advice Hints Grouping (SBC-4 §6.5.7): 12 reserved bytes, then a descriptor for each group from 0 on.
fn io_advice_hints(changeable: bool) -> Vec<u8> {
    let mut bytes = vec![0; 12 + 16 * usize::from(STREAMS)];
    if !changeable {
        for descriptor in bytes[12..].chunks_exact_mut(16) {
            // IO ADVICE HINTS MODE 0; ST_ENBLE: the group has a stream; IC_ENABLE: information is collected.
            descriptor[0] = 0x05;
        }
    }
    bytes
}

/// The parameter data of a MODE SENSE; `control` is PAGE CONTROL.
pub(crate) fn mode_sense(
    facts: &Facts,
    long: bool,
    dbd: bool,
    control: u8,
    page: u8,
    subpage: u8,
) -> Result<Vec<u8>, Sense> {
    if control == SAVED {
        return Err(Sense::SAVING);
    }
    let is_wanted = |at: u8, below: u8| match (page, subpage) {
        (0x3f, 0xff) => true,
        (0x3f, 0) => below == 0,
        (_, 0xff) => at == page,
        _ => (at, below) == (page, subpage),
    };
    let mut body = Vec::new();
    for (at, below, content) in pages(control == CHANGEABLE).iter().filter(|(at, below, _)| is_wanted(*at, *below)) {
        if *below == 0 {
            body.extend([*at, content.len() as u8]);
        } else {
            body.extend([*at | 0x40, *below]);
            body.extend((content.len() as u16).to_be_bytes());
        }
        body.extend(content);
    }
    if body.is_empty() {
        return Err(Sense::cdb(if page == 0x3f { 3 } else { 2 }));
    }
    let descriptor = if dbd { Vec::new() } else { block_descriptor(facts) };
    // DPOFUA: the bits DPO and FUA are supported; WP: the unit is read-only.
    let specific = 0x10 | if facts.read_only { 0x80 } else { 0 };
    let mut bytes = Vec::new();
    if long {
        let len = 6 + descriptor.len() + body.len();
        bytes.extend((len as u16).to_be_bytes());
        bytes.extend([0, specific, 0, 0]);
        bytes.extend((descriptor.len() as u16).to_be_bytes());
    } else {
        let len = 3 + descriptor.len() + body.len();
        bytes.extend([len as u8, 0, specific, descriptor.len() as u8]);
    }
    bytes.extend(descriptor);
    bytes.extend(body);
    Ok(bytes)
}

/// The short block descriptor (SBC-4 §6.5.2.2).
fn block_descriptor(facts: &Facts) -> Vec<u8> {
    let blocks = u32::try_from(facts.blocks).unwrap_or(u32::MAX);
    [blocks.to_be_bytes(), BLOCK_BYTES.to_be_bytes()].concat()
}

/// Checks the parameter list of a MODE SELECT. Each value must be the present one, as none can be changed.
pub(crate) fn mode_select(facts: &Facts, action: Action, list: &[u8]) -> Result<(), Sense> {
    let Action::ModeSelect { long, save, .. } = action else { return Ok(()) };
    if save {
        return Err(Sense::cdb(1));
    }
    if list.is_empty() {
        return Ok(());
    }
    let header = if long { 8 } else { 4 };
    let head = list.get(..header).ok_or(Sense::PARAMETER_LENGTH)?;
    let descriptors = if long { u16::from_be_bytes([head[6], head[7]]).into() } else { usize::from(head[3]) };
    let descriptor = list.get(header..header + descriptors).ok_or(Sense::PARAMETER_LENGTH)?;
    if !(descriptor.is_empty() || descriptor == block_descriptor(facts)) {
        return Err(Sense::parameter(header as u16));
    }
    let mut at = header + descriptors;
    while at < list.len() {
        at += check_page(&list[at..], at)?;
    }
    Ok(())
}

/// Checks the page at the start of `list`, which begins at byte `at` of the parameter list; returns its length in
/// bytes.
fn check_page(list: &[u8], at: usize) -> Result<usize, Sense> {
    let first = list[0];
    let (below, start, len) = if first & 0x40 == 0 {
        (0, 2, usize::from(*list.get(1).ok_or(Sense::PARAMETER_LENGTH)?))
    } else {
        let head: &[u8; 4] = list.first_chunk().ok_or(Sense::PARAMETER_LENGTH)?;
        (head[1], 4, u16::from_be_bytes([head[2], head[3]]).into())
    };
    let content = list.get(start..start + len).ok_or(Sense::PARAMETER_LENGTH)?;
    let known = pages(false).into_iter().find(|(page, subpage, _)| (*page, *subpage) == (first & 0x3f, below));
    let (_, _, now) = known.ok_or(Sense::parameter(at as u16))?;
    if now.len() != len {
        return Err(Sense::parameter(at as u16 + start as u16 - 1));
    }
    match now.iter().zip(content).position(|(now, wanted)| now != wanted) {
        Some(byte) => Err(Sense::parameter((at + start + byte) as u16)),
        None => Ok(start + len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux: `sd_read_io_hints` of drivers/scsi/sd.c, with DBD.
    #[test]
    fn the_hints_page_is_as_linux_reads_it() {
        let bytes = mode_sense(&Facts::example(), false, true, 0, 0x0a, 5).unwrap();
        assert_eq!(bytes[..8], [bytes.len() as u8 - 1, 0, 0x10, 0, 0x4a, 5, 0, 12 + 16 * 6]);
        let descriptors: Vec<_> = bytes[4 + 16..].chunks_exact(16).collect();
        assert_eq!(descriptors.len(), 6);
        assert!(descriptors.iter().all(|descriptor| descriptor[0] & 4 != 0));
    }

    #[test]
    fn all_pages_come_one_after_another() {
        for (long, header) in [(false, 12), (true, 16)] {
            let bytes = mode_sense(&Facts::example(), long, false, 0, 0x3f, 0).unwrap();
            assert_eq!([bytes[header], bytes[header + 20], bytes[header + 32]], [0x08, 0x0a, 0x1c]);
            assert_eq!(bytes.len(), header + 20 + 12 + 12);
        }
        assert_eq!(mode_sense(&Facts::example(), false, false, 3, 0x3f, 0), Err(Sense::SAVING));
        assert_eq!(mode_sense(&Facts::example(), false, false, 0, 0x01, 0), Err(Sense::cdb(2)));
    }

    #[test]
    fn a_select_that_changes_something_is_refused() {
        let facts = Facts::example();
        let select = Action::ModeSelect { long: false, save: false, len: 0 };
        let mut list = mode_sense(&facts, false, false, 0, 0x3f, 0).unwrap();
        list[0] = 0;
        assert_eq!(mode_select(&facts, select, &list), Ok(()));
        for at in 14..list.len() {
            let mut changed = list.clone();
            changed[at] ^= 1;
            assert!(mode_select(&facts, select, &changed).is_err(), "byte {at}");
        }
        for len in [1, 3, 5, 13, list.len() - 1] {
            assert_eq!(mode_select(&facts, select, &list[..len]), Err(Sense::PARAMETER_LENGTH), "{len}");
        }
        assert_eq!(mode_select(&facts, select, &[]), Ok(()));
    }
}
