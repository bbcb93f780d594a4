//! Recognises the content of a device, so that no data are overwritten.

/// Bytes at a device's start that contain the signatures.
pub(super) const PROBE_BYTES: usize = 128 << 10;

/// Signatures of known contents: offset, bytes and name, as in libblkid. The first match is used.
const SIGNATURES: [(usize, &[u8], &str); 23] = [
    (0x438, b"\x53\xEF", "an ext2, ext3 or ext4 filesystem"),
    (0, b"XFSB", "an XFS filesystem"),
    (0x1_0040, b"_BHRfS_M", "a btrfs filesystem"),
    (1024, b"\x10\x20\xF5\xF2", "an F2FS filesystem"),
    (24, b"\xC6\x85\x73\xF6", "a bcache device"),
    (4096 + 24, b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA", "a bcache or bcachefs device"),
    (0, b"LUKS\xBA\xBE", "a LUKS container"),
    (512, b"LABELONE", "an LVM physical volume"),
    (0, b"LABELONE", "an LVM physical volume"),
    (4096, b"\xFC\x4E\x2B\xA9", "a RAID member (md)"),
    (0, b"\xFC\x4E\x2B\xA9", "a RAID member (md)"),
    (4096 - 10, b"SWAPSPACE2", "swap space"),
    (4096 - 10, b"SWAP-SPACE", "swap space"),
    (3, b"NTFS    ", "an NTFS filesystem"),
    (3, b"EXFAT   ", "an exFAT filesystem"),
    (0x8001, b"CD001", "an ISO 9660 filesystem"),
    (0, b"hsqs", "a squashfs filesystem"),
    (0, b"QFI\xFB", "a qcow2 image"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT)"),
    (0x52, b"FAT32", "a FAT filesystem"),
    (0x36, b"FAT1", "a FAT filesystem"),
    (510, b"\x55\xAA", "a partition table or boot sector"),
];

/// The name of the content at the start of a device; `None`: unknown.
pub(super) fn recognise(start: &[u8]) -> Option<&'static str> {
    let matches = |at: usize, magic: &[u8]| start.get(at..at + magic.len()) == Some(magic);
    SIGNATURES.iter().find(|(at, magic, _)| matches(*at, magic)).map(|(_, _, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filesystems_are_recognised_and_zeroes_are_not() {
        let mut start = vec![0; PROBE_BYTES];
        assert_eq!(recognise(&start), None);
        start[0x438..0x43A].copy_from_slice(b"\x53\xEF");
        assert_eq!(recognise(&start), Some("an ext2, ext3 or ext4 filesystem"));
        assert_eq!(recognise(b"XFSB"), Some("an XFS filesystem"));
        assert_eq!(recognise(b""), None);
    }
}
