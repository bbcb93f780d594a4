//! Parts of devices. The tests are here, where devices are available.

pub use nitro_port::slice::SliceDevice;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RamDevice;
    use nitro_port::{Device, ErrorKind};
    use std::sync::Arc;

    fn block_on<F: Future>(future: F) -> F::Output {
        crate::Reactor::new().unwrap().block_on(future)
    }

    #[test]
    fn a_part_stays_within_its_bounds() {
        let whole = Arc::new(RamDevice::new(64 << 10, 4096));
        block_on(whole.write(8192, vec![7; 4096].into())).unwrap();
        let part = SliceDevice::new(Arc::clone(&whole), 8192, 16384).unwrap();
        assert_eq!(part.geometry().size_bytes, 16384);
        assert_eq!(block_on(part.read(0, 4096)).unwrap(), vec![7; 4096]);
        block_on(part.write(12288, vec![9; 4096].into())).unwrap();
        assert_eq!(block_on(whole.read(20480, 4096)).unwrap(), vec![9; 4096]);
        for (offset, len) in [(16384, 4096), (12288, 8192), (u64::MAX - 4095, 4096)] {
            assert_eq!(block_on(part.read(offset, len)).unwrap_err().kind, ErrorKind::OutOfRange);
        }
        assert!(SliceDevice::new(RamDevice::new(8192, 4096), 4096, 8192).is_err());
        assert!(SliceDevice::new(RamDevice::new(8192, 4096), 512, 4096).is_err());
    }
}
