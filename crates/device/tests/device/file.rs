//! Files on the file system of the build folder.

use crate::common::folder;
use bytes::Bytes;
use nitro_device::{ErrorKind as SetupErrorKind, FileOptions, Reactor};
use nitro_port::buf::BufMut;
use nitro_port::{Allocation, Device, ErrorKind, Operation};
use std::error::Error as _;
use std::fs;

const MIB: u64 = 1 << 20;

fn pattern(len: usize) -> Bytes {
    Bytes::from((0..len).map(|i| (i * 7 % 253) as u8).collect::<Vec<_>>())
}

#[test]
fn what_is_written_is_read_also_from_unaligned_memory() {
    let folder = folder();
    let device = FileOptions::new(folder.path().join("f")).create(4 * MIB).unwrap();
    let data = pattern(3 * MIB as usize + 1);
    Reactor::new().unwrap().block_on(async {
        device.write(4096, data.slice(1..)).await.unwrap();
        device.write(0, BufMut::zeroed(4096).freeze()).await.unwrap();
        device.flush().await.unwrap();
        assert_eq!(device.read(4096, data.len() - 1).await.unwrap(), data.slice(1..));
        assert!(device.read(0, 0).await.unwrap().is_empty());
    });
    drop(device);
    let bytes = fs::read(folder.path().join("f")).unwrap();
    assert_eq!(bytes.len() as u64, 4 * MIB);
    assert_eq!(bytes[4096..][..data.len() - 1], data[1..]);
}

#[test]
fn requests_outside_the_geometry_are_refused() {
    let folder = folder();
    let options = FileOptions::new(folder.path().join("f"));
    let device = options.create(MIB).unwrap();
    let block = device.geometry().block_bytes as usize;
    Reactor::new().unwrap().block_on(async {
        assert_eq!(device.read(MIB, block).await.unwrap_err().kind, ErrorKind::OutOfRange);
        assert_eq!(device.read(u64::MAX / 4096 * 4096, 4096).await.unwrap_err().kind, ErrorKind::OutOfRange);
        if block > 1 {
            assert_eq!(device.read(1, block).await.unwrap_err().kind, ErrorKind::Misaligned);
            assert_eq!(device.write(0, pattern(block - 1)).await.unwrap_err().kind, ErrorKind::Misaligned);
        }
    });
    drop(device);
    let device = options.read_only(true).open().unwrap();
    Reactor::new().unwrap().block_on(async {
        let error = device.write(0, pattern(4096)).await.unwrap_err();
        assert_eq!((error.kind, error.operation, error.len), (ErrorKind::ReadOnly, Operation::Write, 4096));
        assert_eq!(device.discard(0, 4096).await.unwrap_err().kind, ErrorKind::ReadOnly);
        device.flush().await.unwrap();
    });
}

#[test]
fn a_file_is_locked_also_within_the_process() {
    let folder = folder();
    let options = FileOptions::new(folder.path().join("f"));
    let device = options.create(MIB).unwrap();
    let error = options.open().unwrap_err();
    assert_eq!(error.kind, SetupErrorKind::InUse);
    assert!(error.to_string().ends_with("f: is in use by another process"), "{error}");
    assert_eq!(options.clone().read_only(true).open().unwrap_err().kind, SetupErrorKind::InUse);
    drop(options.clone().exclusive(false).open().unwrap());
    drop(device);
    let readers = [options.clone().read_only(true).open().unwrap(), options.clone().read_only(true).open().unwrap()];
    assert_eq!(options.open().unwrap_err().kind, SetupErrorKind::InUse);
    drop(readers);
    options.open().unwrap();
}

#[test]
fn the_page_cache_serves_where_direct_io_is_refused() {
    // The kernel's own files refuse O_DIRECT and have no size.
    let device = FileOptions::new("/proc/version").read_only(true).open().unwrap();
    assert!(!device.is_direct());
    assert_eq!(device.geometry().size_bytes, 0);

    let folder = folder();
    let path = folder.path().join("odd");
    fs::write(&path, pattern(10_001)).unwrap();
    let device = FileOptions::new(&path).open().unwrap();
    assert!(!device.is_direct());
    assert_eq!((device.geometry().size_bytes, device.geometry().block_bytes), (10_001, 1));
    Reactor::new().unwrap().block_on(async {
        assert_eq!(device.read(9_990, 11).await.unwrap(), pattern(10_001).slice(9_990..));
        device.write(10_000, Bytes::from_static(b"x")).await.unwrap();
        assert_eq!(device.read(9_999, 2).await.unwrap()[1], b'x');
    });
}

#[test]
fn a_file_that_was_cut_fails_where_it_ends() {
    let folder = folder();
    let path = folder.path().join("f");
    let device = FileOptions::new(&path).create(MIB).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(MIB / 2 + 100).unwrap();
    Reactor::new().unwrap().block_on(async {
        device.read(0, MIB as usize / 2).await.unwrap();
        let error = device.read(0, MIB as usize).await.unwrap_err();
        assert_eq!((error.kind, error.operation, error.len), (ErrorKind::Io, Operation::Read, MIB));
        assert!(error.source().is_some());
    });
}

#[test]
fn holes_show_in_the_allocation_map() {
    let folder = folder();
    let path = folder.path().join("f");
    fs::File::create(&path).unwrap().set_len(4 * MIB).unwrap();
    let device = FileOptions::new(&path).open().unwrap();
    let run = |len, hole| Allocation { len, hole };
    Reactor::new().unwrap().block_on(async {
        device.write(MIB, pattern(2 * MIB as usize)).await.unwrap();
        device.flush().await.unwrap();
        let map = device.allocation(0, 4 * MIB).await.unwrap();
        assert_eq!(map, [run(MIB, true), run(2 * MIB, false), run(MIB, true)]);
        assert_eq!(device.allocation(MIB + 4096, 4096).await.unwrap(), [run(4096, false)]);
        device.discard(MIB, MIB).await.unwrap();
        let map = device.allocation(MIB / 2, 3 * MIB).await.unwrap();
        assert_eq!(map, [run(MIB + MIB / 2, true), run(MIB, false), run(MIB / 2, true)]);
        assert_eq!(device.read(MIB, 4096).await.unwrap(), vec![0; 4096]);
        device.write_zeroes(2 * MIB, MIB, false).await.unwrap();
        assert_eq!(device.read(2 * MIB, MIB as usize).await.unwrap(), vec![0; MIB as usize]);
    });
    assert_eq!(fs::metadata(&path).unwrap().len(), 4 * MIB);
}

#[test]
fn a_file_that_does_not_fit_leaves_nothing_behind() {
    let folder = folder();
    let path = folder.path().join("f");
    let error = FileOptions::new(&path).create(8 << 40).unwrap_err();
    assert_eq!(error.kind, SetupErrorKind::NoSpace, "{error}: {:?}", error.source);
    assert!(error.to_string().starts_with("cannot create /"), "{error}");
    assert!(!path.exists());
}

#[test]
fn only_devices_are_opened_and_only_new_files_are_created() {
    let folder = folder();
    assert_eq!(FileOptions::new(folder.path()).open().unwrap_err().kind, SetupErrorKind::NotADevice);
    assert_eq!(FileOptions::new("/dev/null").open().unwrap_err().kind, SetupErrorKind::NotADevice);
    assert_eq!(FileOptions::new(folder.path().join("none")).open().unwrap_err().kind, SetupErrorKind::Io);
    let options = FileOptions::new(folder.path().join("f"));
    drop(options.create(4096).unwrap());
    assert_eq!(options.create(4096).unwrap_err().kind, SetupErrorKind::Exists);
    assert_eq!(options.open().unwrap().geometry().size_bytes, 4096);
}
