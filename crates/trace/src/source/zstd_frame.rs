//! The window that a zstd frame needs (RFC 8878, section 3.1.1.1).

/// The bytes of the window of a frame with this beginning; `None` if it is no frame, or cut short.
pub fn window_bytes(beginning: &[u8]) -> Option<u64> {
    let [0x28, 0xB5, 0x2F, 0xFD, descriptor, rest @ ..] = beginning else { return None };
    if descriptor & 1 << 5 == 0 {
        let window = rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A frame of a single segment: its window is its content.
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let rest = rest.get(dictionary_bytes..)?;
    Some(match descriptor >> 6 {
        0 => u64::from(*rest.first()?),
        1 => u64::from(u16::from_le_bytes(*rest.first_chunk()?)) + 256,
        2 => u64::from(u32::from_le_bytes(*rest.first_chunk()?)),
        _ => u64::from_le_bytes(*rest.first_chunk()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_those_of_frames_by_zstd() {
        for (log, bytes) in [(10, 1 << 10), (17, 1 << 17), (27, 1 << 27)] {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
            encoder.window_log(log).unwrap();
            std::io::Write::write_all(&mut encoder, b"x").unwrap();
            let frame = encoder.finish().unwrap();
            assert_eq!(window_bytes(&frame), Some(bytes), "{log}");
            assert_eq!(window_bytes(&frame[..5]), None);
        }
        for len in [0, 1, 255, 256, 257, 65_791, 65_792, 100_000] {
            let frame = zstd::bulk::compress(&vec![0; len], 1).unwrap();
            assert_eq!(window_bytes(&frame), Some(len as u64));
        }
        assert_eq!(window_bytes(b"\x28\xB5\x2F\xFD\0\xFF"), Some((1 << 41) + (1 << 41) / 8 * 7));
        assert_eq!(window_bytes(b"\x1F\x8B"), None);
    }
}
