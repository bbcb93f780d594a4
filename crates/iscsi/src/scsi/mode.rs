//! MODE SENSE and MODE SELECT (SPC-5 §6.13 to §6.16, §7.5; SBC-5 §6.5).

use super::{Action, Facts, Sense};
use crate::groups::IoClass;

/// Number of groups in the IO Advice Hints Grouping page, each with a permanent stream: group 0, and one for each write
/// hint of Linux.
pub(super) const STREAMS: u16 = 6;

/// Values of PAGE CONTROL.
const CHANGEABLE: u8 = 1;
const DEFAULT: u8 = 2;
const SAVED: u8 = 3;

/// Codes of the pages, and of the subpage of [`CONTROL`].
const CACHING: u8 = 0x08;
const CONTROL: u8 = 0x0a;
const EXCEPTIONS: u8 = 0x1c;
const HINTS: u8 = 0x05;

/// WCE in the first byte of the Caching page after the length.
const WCE: u8 = 0x04;
/// D_SENSE in the first, and SWP in the third byte of the Control page after the length.
const D_SENSE: u8 = 0x04;
const SWP: u8 = 0x08;

/// The mode parameters that an initiator can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Modes {
    /// WCE: written data are durable after SYNCHRONIZE CACHE, or if FUA was set; otherwise when the command ends.
    pub(crate) write_cache: bool,
    /// D_SENSE: sense data have descriptor format.
    pub(crate) descriptor_sense: bool,
    /// SWP: commands that write are refused.
    pub(crate) write_protect: bool,
    /// The IO advice hints of each group.
    pub(crate) hints: [Hints; STREAMS as usize],
}

impl Default for Modes {
    fn default() -> Self {
        Self { write_cache: true, descriptor_sense: false, write_protect: false, hints: Default::default() }
    }
}

/// Length in bytes of an IO advice hints group descriptor, and of what precedes the first one.
const HINTS_BYTES: usize = 16;
const HINTS_START: usize = 12;
/// ST_ENBLE: the group has a stream.
const ST_ENBLE: u8 = 0x04;

/// The IO advice hints of a group (SBC-5 §6.5.7): IO ADVICE HINTS MODE, and the bytes of an access patterns logical
/// block markup descriptor (§6.8.3.1) that are not reserved. Only IO CLASS has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hints {
    mode: u8,
    patterns: [u8; 3],
}

impl Hints {
    /// The bits of a descriptor that can be changed. LBM DESCRIPTOR TYPE must be 0, access patterns.
    const MASK: Self = Self { mode: 3, patterns: [0xb0, 0xff, 0xff] };

    /// IO CLASS, if there is one and the markup is valid.
    pub(crate) const fn io_class(self) -> Option<IoClass> {
        if self.mode == 0 { IoClass::of(self.patterns[2] >> 4) } else { None }
    }

    /// Parses a descriptor; the error is the offset of a byte with a reserved value.
    fn parse(descriptor: &[u8; HINTS_BYTES]) -> Result<Self, usize> {
        let [mode, _, _, _, relation, frequencies, class, ..] = *descriptor;
        let hints = Self { mode: mode >> 6, patterns: [relation, frequencies, class] };
        let is_reserved = |pair: u8| pair & 3 == 3;
        let known_class = class >> 4 == 0 || IoClass::of(class >> 4).is_some();
        if hints.mode > 1 {
            Err(0)
        } else if relation >> 4 & 3 == 2 {
            Err(4)
        } else if [0, 2, 4, 6].into_iter().any(|shift| is_reserved(frequencies >> shift)) {
            Err(5)
        } else if !known_class || is_reserved(class) || is_reserved(class >> 2) {
            Err(6)
        } else {
            Ok(hints)
        }
    }

    fn put(self, descriptor: &mut [u8]) {
        if let [mode, _, _, _, relation, frequencies, class, ..] = descriptor {
            *mode |= self.mode << 6;
            [*relation, *frequencies, *class] = self.patterns;
        }
    }
}

/// A mode page: its code and subpage code, and the content after the length.
struct Page {
    code: u8,
    subpage: u8,
    content: Vec<u8>,
}

impl Page {
    const fn is(&self, code: u8, subpage: u8) -> bool {
        self.code == code && self.subpage == subpage
    }
}

/// The content of all pages; only bits that can be changed are set in it.
fn variable(modes: &Modes) -> [Page; 4] {
    let page = |code, subpage, len| Page { code, subpage, content: vec![0; len] };
    let mut caching = page(CACHING, 0, 18);
    let mut control = page(CONTROL, 0, 10);
    let mut hints = page(CONTROL, HINTS, HINTS_START + HINTS_BYTES * usize::from(STREAMS));
    let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    caching.content[0] = bit(modes.write_cache, WCE);
    control.content[0] = bit(modes.descriptor_sense, D_SENSE);
    control.content[2] = bit(modes.write_protect, SWP);
    let descriptors = hints.content[HINTS_START..].chunks_exact_mut(HINTS_BYTES);
    descriptors.zip(modes.hints).for_each(|(descriptor, hints)| hints.put(descriptor));
    [caching, control, hints, page(EXCEPTIONS, 0, 10)]
}

/// The masks of all pages: bits that can be changed are set.
fn masks() -> [Page; 4] {
    let hints = [Hints::MASK; STREAMS as usize];
    variable(&Modes { write_cache: true, descriptor_sense: true, write_protect: true, hints })
}

/// All pages with the values of `modes`.
fn pages(modes: &Modes) -> [Page; 4] {
    let mut pages = variable(modes);
    let [_, control, hints, exceptions] = &mut pages;
    // TST: each session has its own task set. QUEUE ALGORITHM MODIFIER: SIMPLE commands may be reordered.
    control.content[0] |= 0x20;
    control.content[1] = 0x10;
    // Busy timeout: unlimited.
    control.content[6..8].fill(0xff);
    for descriptor in hints.content[HINTS_START..].chunks_exact_mut(HINTS_BYTES) {
        // IC_ENABLE is 0: there are no log pages with statistics of groups.
        descriptor[0] |= ST_ENBLE;
    }
    // DEXCPT: no exceptions are reported.
    exceptions.content[0] = 0x08;
    pages
}

/// The parameter data of a MODE SENSE; `control` is PAGE CONTROL.
pub(crate) fn mode_sense(
    facts: &Facts,
    modes: &Modes,
    long: bool,
    dbd: bool,
    control: u8,
    page: u8,
    subpage: u8,
) -> Result<Vec<u8>, Sense> {
    let pages = match control {
        CHANGEABLE => masks(),
        DEFAULT => pages(&Modes::default()),
        SAVED => return Err(Sense::SAVING),
        _ => pages(modes),
    };
    let is_wanted = |at: &Page| match (page, subpage) {
        (0x3f, 0xff) => true,
        (0x3f, 0) => at.subpage == 0,
        (_, 0xff) => at.code == page,
        _ => at.is(page, subpage),
    };
    let mut body = Vec::new();
    for Page { code, subpage, content } in pages.iter().filter(|at| is_wanted(at)) {
        if *subpage == 0 {
            body.extend([*code, content.len() as u8]);
        } else {
            body.extend([*code | 0x40, *subpage]);
            body.extend((content.len() as u16).to_be_bytes());
        }
        body.extend(content);
    }
    if body.is_empty() {
        return Err(Sense::cdb(if page == 0x3f { 3 } else { 2 }));
    }
    let descriptor = if dbd { Vec::new() } else { block_descriptor(facts) };
    // DPOFUA: the bits DPO and FUA are supported; WP: the unit is write-protected.
    let specific = 0x10 | if facts.read_only || modes.write_protect { 0x80 } else { 0 };
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
    [blocks.to_be_bytes(), facts.block_bytes.to_be_bytes()].concat()
}

/// The mode parameters after a MODE SELECT. If any part of the parameter list is invalid, nothing is changed (SPC-5
/// §6.13).
pub(crate) fn mode_select(facts: &Facts, modes: &Modes, action: Action, list: &[u8]) -> Result<Modes, Sense> {
    let Action::ModeSelect { long, save, .. } = action else { return Ok(*modes) };
    if save {
        return Err(Sense::cdb(1));
    }
    if list.is_empty() {
        return Ok(*modes);
    }
    let header = if long { 8 } else { 4 };
    let head = list.get(..header).ok_or(Sense::PARAMETER_LENGTH)?;
    let descriptors = if long { u16::from_be_bytes([head[6], head[7]]).into() } else { usize::from(head[3]) };
    let descriptor = list.get(header..header + descriptors).ok_or(Sense::PARAMETER_LENGTH)?;
    if !(descriptor.is_empty() || descriptor == block_descriptor(facts)) {
        return Err(Sense::parameter(header as u16));
    }
    let mut changed = *modes;
    let mut at = header + descriptors;
    while at < list.len() {
        at += changed.take_page(&list[at..], at)?;
    }
    Ok(changed)
}

impl Modes {
    /// Takes the values of the page at the start of `list`, which begins at byte `at` of the parameter list. Returns
    /// the length of the page in bytes.
    fn take_page(&mut self, list: &[u8], at: usize) -> Result<usize, Sense> {
        let first = list[0];
        let (subpage, start, len) = if first & 0x40 == 0 {
            (0, 2, usize::from(*list.get(1).ok_or(Sense::PARAMETER_LENGTH)?))
        } else {
            let head: &[u8; 4] = list.first_chunk().ok_or(Sense::PARAMETER_LENGTH)?;
            (head[1], 4, u16::from_be_bytes([head[2], head[3]]).into())
        };
        let content = list.get(start..start + len).ok_or(Sense::PARAMETER_LENGTH)?;
        let known = pages(self).into_iter().zip(masks()).find(|(page, _)| page.is(first & 0x3f, subpage));
        let (now, mask) = known.ok_or(Sense::parameter(at as u16))?;
        if now.content.len() != len {
            return Err(Sense::parameter((at + start - 1) as u16));
        }
        let wrong = |byte: usize| Sense::parameter((at + start + byte) as u16);
        let mut values = now.content.iter().zip(&mask.content).zip(content);
        if let Some(byte) = values.position(|((now, mask), wanted)| (now ^ wanted) & !mask != 0) {
            return Err(wrong(byte));
        }
        self.take_values(&now, content).map_err(wrong)?;
        Ok(start + len)
    }

    /// Takes the values of a page, whose content has the length of `page`'s. The error is the number of a byte with a
    /// reserved value.
    fn take_values(&mut self, page: &Page, content: &[u8]) -> Result<(), usize> {
        match (page.code, page.subpage) {
            (CACHING, 0) => self.write_cache = content[0] & WCE != 0,
            (CONTROL, 0) => {
                self.descriptor_sense = content[0] & D_SENSE != 0;
                self.write_protect = content[2] & SWP != 0;
            }
            (CONTROL, HINTS) => {
                let (descriptors, _) = content[HINTS_START..].as_chunks::<HINTS_BYTES>();
                for (group, (descriptor, hints)) in descriptors.iter().zip(&mut self.hints).enumerate() {
                    let parsed = Hints::parse(descriptor);
                    *hints = parsed.map_err(|byte| HINTS_START + HINTS_BYTES * group + byte)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELECT: Action = Action::ModeSelect { long: false, save: false, len: 0 };

    fn sense(modes: &Modes, control: u8, page: u8, subpage: u8) -> Vec<u8> {
        mode_sense(&Facts::example(), modes, false, true, control, page, subpage).unwrap()
    }

    fn select(modes: &Modes, list: &[u8]) -> Result<Modes, Sense> {
        mode_select(&Facts::example(), modes, SELECT, list)
    }

    /// Linux: `sd_read_io_hints` of drivers/scsi/sd.c, with DBD.
    #[test]
    fn the_hints_page_is_as_linux_reads_it() {
        let bytes = sense(&Modes::default(), 0, 0x0a, 5);
        assert_eq!(bytes[..8], [bytes.len() as u8 - 1, 0, 0x10, 0, 0x4a, 5, 0, 12 + 16 * 6]);
        let descriptors: Vec<_> = bytes[4 + 16..].chunks_exact(16).collect();
        assert_eq!(descriptors.len(), 6);
        assert!(descriptors.iter().all(|descriptor| descriptor[0] & 4 != 0));
    }

    #[test]
    fn all_pages_come_one_after_another() {
        let (facts, modes) = (Facts::example(), Modes::default());
        for (long, header) in [(false, 12), (true, 16)] {
            let bytes = mode_sense(&facts, &modes, long, false, 0, 0x3f, 0).unwrap();
            assert_eq!([bytes[header], bytes[header + 20], bytes[header + 32]], [0x08, 0x0a, 0x1c]);
            assert_eq!(bytes.len(), header + 20 + 12 + 12);
        }
        assert_eq!(mode_sense(&facts, &modes, false, false, 3, 0x3f, 0), Err(Sense::SAVING));
        assert_eq!(mode_sense(&facts, &modes, false, false, 0, 0x01, 0), Err(Sense::cdb(2)));
    }

    #[test]
    fn changeable_values_are_the_masks_of_the_fields() {
        let modes = Modes::default();
        // WCE is bit 2 of byte 2 of its page; D_SENSE is bit 2 of byte 2, and SWP is bit 3 of byte 4.
        let mut caching = vec![0; 20];
        caching[..3].copy_from_slice(&[0x08, 18, 0x04]);
        assert_eq!(sense(&modes, 1, 0x08, 0)[4..], caching);
        assert_eq!(sense(&modes, 1, 0x0a, 0)[4..], [0x0a, 10, 0x04, 0, 0x08, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sense(&modes, 1, 0x1c, 0)[4..], [0x1c, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for descriptor in sense(&modes, 1, 0x0a, 5)[4 + 16..].chunks_exact(16) {
            assert_eq!(descriptor, [0xc0, 0, 0, 0, 0xb0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn default_values_remain_when_the_current_ones_change() {
        let default = Modes::default();
        let changed = Modes { write_cache: false, descriptor_sense: true, write_protect: true, ..default };
        assert_eq!(sense(&changed, 0, 0x08, 0)[4 + 2], 0);
        // TST is 001b.
        assert_eq!(sense(&changed, 0, 0x0a, 0)[4 + 2..4 + 5], [0x24, 0x10, 0x08]);
        assert_eq!(sense(&changed, 0, 0x0a, 0)[2], 0x90, "WP");
        assert_eq!(sense(&changed, 2, 0x08, 0)[4..], sense(&default, 0, 0x08, 0)[4..]);
        assert_eq!(sense(&changed, 2, 0x0a, 0xff)[4..], sense(&default, 0, 0x0a, 0xff)[4..]);
    }

    #[test]
    fn exactly_the_changeable_bits_are_changed_by_a_select() {
        let modes = Modes::default();
        for page in [0x08, 0x0a, 0x1c] {
            let (mut list, mask) = (sense(&modes, 0, page, 0), sense(&modes, 1, page, 0));
            list[0] = 0;
            assert_eq!(select(&modes, &list), Ok(modes));
            for at in 6..list.len() {
                for bit in 0..8 {
                    let mut changed = list.clone();
                    changed[at] ^= 1 << bit;
                    let result = select(&modes, &changed);
                    if mask[at] >> bit & 1 == 0 {
                        assert_eq!(result, Err(Sense::parameter(at as u16)), "page {page:#x} byte {at} bit {bit}");
                    } else {
                        let now = result.unwrap();
                        assert_eq!(sense(&now, 0, page, 0)[at], changed[at], "page {page:#x} byte {at} bit {bit}");
                        assert_eq!(select(&now, &list), Ok(modes), "it can be changed back");
                    }
                }
            }
        }
    }

    #[test]
    fn a_select_with_an_error_changes_nothing_and_names_the_byte() {
        let modes = Modes::default();
        let caching: Vec<u8> = [&[0x08, 18][..], &[0; 18]].concat();
        let control = [0x0a, 10, 0x20, 0x10, 0x08, 0, 0, 0, 0xff, 0xff, 0, 0];
        let list = [&[0; 4][..], &caching[..], &control].concat();
        let changed = select(&modes, &list).unwrap();
        assert_eq!(changed, Modes { write_cache: false, write_protect: true, ..modes });
        for len in [1, 3, 5, 13, list.len() - 1] {
            assert_eq!(select(&modes, &list[..len]), Err(Sense::PARAMETER_LENGTH), "{len}");
        }
        let wrong = |at: usize, value: u8, pointer: u16| {
            let mut list = list.clone();
            list[at] = value;
            assert_eq!(select(&modes, &list), Err(Sense::parameter(pointer)), "byte {at}");
        };
        // An unknown page, a wrong length of a page, and a value that cannot be changed.
        wrong(4, 0x01, 4);
        wrong(5, 17, 5);
        wrong(24 + 3, 0, 24 + 3);
        // A block descriptor of another unit.
        let other = [&[0, 0, 0, 8][..], &[1; 8], &caching[..]].concat();
        assert_eq!(select(&modes, &other), Err(Sense::parameter(4)));
        assert_eq!(select(&modes, &[]), Ok(modes));
        let save = Action::ModeSelect { long: false, save: true, len: 0 };
        assert_eq!(mode_select(&Facts::example(), &modes, save, &list), Err(Sense::cdb(1)));
    }

    #[test]
    fn groups_get_the_io_class_of_their_markup() {
        let modes = Modes::default();
        let list = sense(&modes, 0, 0x0a, 5);
        let at = |group: usize, byte: usize| 4 + 4 + HINTS_START + HINTS_BYTES * group + byte;
        let with = |changes: &[(usize, u8)]| {
            let mut list = list.clone();
            changes.iter().for_each(|(at, value)| list[*at] = *value);
            select(&modes, &list)
        };
        let classes = |modes: Modes| modes.hints.map(Hints::io_class);
        assert_eq!(classes(modes), [None; 6]);
        let marked = with(&[(at(1, 6), 0x10), (at(2, 6), 0x40), (at(3, 6), 0x58), (at(4, 5), 0x96)]).unwrap();
        let (metadata, small, large) = (Some(IoClass::Metadata), Some(IoClass::Small), Some(IoClass::Large));
        assert_eq!(classes(marked), [None, metadata, small, large, None, None]);
        assert_eq!(sense(&marked, 0, 0x0a, 5)[at(4, 5)], 0x96);
        // IO ADVICE HINTS MODE 01b: the markup is invalid.
        assert_eq!(classes(with(&[(at(1, 0), 0x44), (at(1, 6), 0x10)]).unwrap()), [None; 6]);
        // Reserved values, another type of descriptor, and a group without a stream.
        for (byte, value) in [(0, 0x84), (4, 0x20), (5, 0x03), (5, 0xc0), (6, 0x20), (6, 0x0c), (4, 0x01), (0, 0)] {
            let wrong = at(3, byte);
            assert_eq!(with(&[(wrong, value)]), Err(Sense::parameter(wrong as u16)), "byte {byte} {value:#x}");
        }
    }
}
