//! RAM and file devices do what a vector of bytes does.

use crate::common::folder;
use bytes::Bytes;
use nitro_device::{FileOptions, RamDevice, Reactor};
use nitro_port::{Device, ErrorKind};
use proptest::prelude::*;

const BLOCKS: u64 = 96;

#[derive(Debug, Clone)]
enum Step {
    Read,
    Write(u8),
    Zero(bool),
    Flush,
    Allocation,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64, u64)>> {
    let step = prop_oneof![
        4 => Just(Step::Read),
        4 => any::<u8>().prop_map(Step::Write),
        2 => any::<bool>().prop_map(Step::Zero),
        1 => Just(Step::Flush),
        1 => Just(Step::Allocation),
    ];
    prop::collection::vec((step, 0..BLOCKS, 0..BLOCKS / 2), 1..40)
}

/// Random content in which every byte depends on its place.
fn content(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| seed.wrapping_add((i % 251) as u8)).collect()
}

async fn follow(device: &impl Device, steps: Vec<(Step, u64, u64)>) -> Result<(), TestCaseError> {
    let geometry = device.geometry();
    let block = u64::from(geometry.block_bytes);
    let mut model = vec![0u8; geometry.size_bytes as usize];
    let blocks = geometry.size_bytes / block;
    for (step, start, count) in steps {
        // Scaled up, so that block sizes of one byte touch the whole device too.
        let offset = start * blocks / BLOCKS * block;
        let len = (count * blocks / BLOCKS * block).min(geometry.size_bytes - offset);
        let range = offset as usize..(offset + len) as usize;
        match step {
            Step::Read => {
                let read = device.read(offset, range.len()).await.unwrap();
                prop_assert!(read[..] == model[range], "read at {} of {}", offset, len);
            }
            Step::Write(seed) => {
                // Begins one byte into its memory, so that it is never aligned.
                let data = Bytes::from(content(seed, range.len() + 1)).slice(1..);
                model[range].copy_from_slice(&data);
                device.write(offset, data).await.unwrap();
            }
            Step::Zero(may_unmap) => match device.write_zeroes(offset, len, may_unmap).await {
                Ok(()) => model[range].fill(0),
                Err(e) => prop_assert_eq!(e.kind, ErrorKind::Unsupported),
            },
            Step::Flush => device.flush().await.unwrap(),
            Step::Allocation => {
                let mut at = offset as usize;
                for run in device.allocation(offset, len).await.unwrap() {
                    let end = at + run.len as usize;
                    prop_assert!(run.len > 0);
                    prop_assert!(!run.hole || model[at..end].iter().all(|b| *b == 0), "data in a hole");
                    at = end;
                }
                prop_assert_eq!(at, range.end);
            }
        }
    }
    let all = device.read(0, model.len()).await.unwrap();
    prop_assert!(all[..] == model[..]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ram(steps in steps(), block_shift in 0u32..13) {
        let device = RamDevice::new(BLOCKS * 4096, 1 << block_shift);
        Reactor::new().unwrap().block_on(follow(&device, steps))?;
    }

    #[test]
    fn file(steps in steps(), direct: bool, odd in 0u64..3) {
        let folder = folder();
        let size = BLOCKS * 4096 + odd * 512;
        let device = FileOptions::new(folder.path().join("f")).direct(direct).create(size).unwrap();
        Reactor::new().unwrap().block_on(follow(&device, steps))?;
    }
}
