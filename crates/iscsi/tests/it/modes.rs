//! Mode parameters that initiators change, and their effects (SPC-5 §7.5, SBC-5 §6.5).

use crate::support::*;
use futures_util::future::join3;
use nitro_iscsi::protocol::{Header, opcode};
use nitro_iscsi::{Groups, IoClass};
use nitro_units::ClassId;
use std::sync::Arc;

/// Reads a mode page by MODE SENSE (6) without block descriptors.
async fn sense(initiator: &mut Initiator, control: u8, page: u8, subpage: u8) -> Vec<u8> {
    initiator.read(&[0x1a, 0x08, control << 6 | page, subpage, 255, 0], 255).await.expect("mode parameters")
}

/// MODE SELECT (6) of the data of a MODE SENSE.
async fn select(initiator: &mut Initiator, mut list: Vec<u8>) -> (u8, [u8; 3]) {
    list[0] = 0;
    initiator.write(&[0x15, 0x10, 0, 0, list.len() as u8, 0], &list).await
}

/// Changes one byte of a mode page.
async fn change(initiator: &mut Initiator, page: u8, subpage: u8, at: usize, value: u8) -> (u8, [u8; 3]) {
    let mut list = sense(initiator, 0, page, subpage).await;
    list[4 + at] = value;
    select(initiator, list).await
}

#[test]
fn without_a_write_cache_all_writes_are_durable() {
    let stage = Stage::new();
    let disk = &stage.disk;
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        let write_same = [0x41, 0, 0, 0, 0, 0, 0, 0, 4, 0];
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[1; 512]).await.0, 0);
        assert_eq!(initiator.write(&write_same, &[1; 512]).await.0, 0);
        assert_eq!(disk.durable.get(), (0, 0));
        // What was written before is made durable first.
        assert_eq!(change(&mut initiator, 0x08, 0, 2, 0).await.0, 0);
        assert_eq!(disk.durable.get(), (0, 1));
        assert_eq!(sense(&mut initiator, 0, 0x08, 0).await[4 + 2], 0);
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[1; 512]).await.0, 0);
        assert_eq!(disk.durable.get(), (1, 1));
        assert_eq!(initiator.write(&compare_and_write(0), &[[1u8; 512], [2; 512]].concat()).await.0, 0);
        assert_eq!(disk.durable.get(), (2, 1));
        for data in [[1; 512], [0; 512]] {
            assert_eq!(initiator.write(&write_same, &data).await.0, 0);
        }
        assert_eq!(disk.durable.get(), (2, 3));
        let unmap: Vec<u8> = [&[0, 22, 0, 16, 0, 0, 0, 0][..], &[0; 8], &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
        assert_eq!(initiator.write(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &unmap).await.0, 0);
        assert_eq!(disk.durable.get(), (2, 4));
        assert_eq!(change(&mut initiator, 0x08, 0, 2, 0x04).await.0, 0);
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[1; 512]).await.0, 0);
        assert_eq!(disk.durable.get(), (2, 4));
        initiator.log_out().await;
    })
    .unwrap();
}

#[test]
fn a_unit_that_is_write_protected_refuses_to_write() {
    let stage = Stage::new();
    let disk = &stage.disk;
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[1; 512]).await.0, 0);
        let list = sense(&mut initiator, 0, 0x0a, 0).await;
        assert_eq!(list[2], 0x10);
        assert_eq!(change(&mut initiator, 0x0a, 0, 4, 0x08).await.0, 0);
        assert_eq!(disk.durable.get(), (0, 1));
        assert_eq!(sense(&mut initiator, 0, 0x0a, 0).await[2], 0x90, "WP is set");
        let protected = (2, [7, 0x27, 0]);
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[2; 512]).await, protected);
        assert_eq!(initiator.write(&[0x41, 0, 0, 0, 0, 0, 0, 0, 4, 0], &[0; 512]).await, protected);
        assert_eq!(initiator.write(&compare_and_write(0), &[1; 1024]).await, protected);
        assert_eq!(initiator.write(&[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &[0; 24]).await, protected);
        assert_eq!(initiator.read(&ten(0x28, 0, 0, 1), 512).await, Ok(vec![1; 512]));
        assert_eq!(select(&mut initiator, list).await.0, 0);
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[2; 512]).await.0, 0);
        initiator.log_out().await;
    })
    .unwrap();
}

#[test]
fn sense_data_have_the_format_that_was_selected() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        // D_SENSE is in the byte of TST, which must not change.
        assert_eq!(change(&mut initiator, 0x0a, 0, 2, 0x24).await.0, 0);
        // A page that is cut off is refused.
        initiator.command(&[0x15, 0x10, 0, 0, 6, 0], 0xa0, 6, &[0, 0, 0, 0, 0x0a, 9]).await;
        let (header, data) = initiator.next().await.unwrap();
        assert_eq!((header.0[3], &data[..]), (2, &[0, 8, 0x72, 5, 0x1a, 0, 0, 0, 0, 0][..]));
        initiator.command(&[0x12, 2, 0, 0, 36, 0], 0xc0, 36, &[]).await;
        let (_, data) = initiator.next().await.unwrap();
        // The second byte of the CDB is invalid.
        assert_eq!(data, [0, 16, 0x72, 5, 0x24, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0xc0, 0, 1, 0]);
        // REQUEST SENSE has the format that its CDB asks for.
        assert_eq!(initiator.read(&[3, 0, 0, 0, 18, 0], 18).await.unwrap()[0], 0x70);
        assert_eq!(initiator.read(&[3, 1, 0, 0, 18, 0], 18).await, Ok(vec![0x72, 0, 0, 0, 0, 0, 0, 0]));
        initiator.log_out().await;
    })
    .unwrap();
}

#[test]
fn what_cannot_be_changed_is_refused_with_the_byte() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        let mut list = sense(&mut initiator, 0, 0x0a, 0).await;
        list[0] = 0;
        // SWP may be set, but QUEUE ALGORITHM MODIFIER may not be changed: neither is.
        (list[4 + 3], list[4 + 4]) = (0, 0x08);
        initiator.command(&[0x15, 0x10, 0, 0, 16, 0], 0xa0, list.len(), &list).await;
        let (header, data) = initiator.next().await.unwrap();
        assert_eq!((header.0[3], data[4], data[14], &data[17..20]), (2, 5, 0x26, &[0x80, 0, 7][..]));
        assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[2; 512]).await.0, 0);
        initiator.log_out().await;
    })
    .unwrap();
}

#[test]
fn other_sessions_are_told_of_a_change_and_a_reset_undoes_it() {
    let stage = Stage::new();
    let ((one, mut first), (other, mut second)) = (stage.connect(), stage.connect());
    let script = async move {
        first.log_in("iqn.a:one", &[]).await;
        second.log_in("iqn.a:other", &[]).await;
        assert_eq!(change(&mut first, 0x0a, 0, 4, 0x08).await.0, 0);
        assert_eq!(second.write(&[0], &[]).await, (2, [6, 0x2a, 1]));
        assert_eq!(second.write(&ten(0x2a, 0, 0, 1), &[1; 512]).await, (2, [7, 0x27, 0]));
        // The same values again are no change.
        assert_eq!(change(&mut first, 0x0a, 0, 4, 0x08).await.0, 0);
        assert_eq!(second.write(&[0], &[]).await.0, 0);
        second.request(Header::new(opcode::TASK_MANAGEMENT, 0x85, 0).with(20, NONE), &[]).await;
        assert_eq!(second.next().await.unwrap().0.opcode(), opcode::TASK_RESPONSE);
        for initiator in [&mut first, &mut second] {
            assert_eq!(initiator.write(&[0], &[]).await, (2, [6, 0x29, 3]));
            assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[1; 512]).await.0, 0);
        }
        first.log_out().await;
        second.log_out().await;
    };
    let (one, other, ()) = futures_executor::block_on(join3(one, other, script));
    assert!(one.is_ok() && other.is_ok());
}

#[test]
fn the_markup_of_a_group_is_its_class() {
    let mut stage = Stage::new();
    let mut groups = Groups::default();
    groups.set_markup(IoClass::Metadata, ClassId::new(20));
    groups.set_markup(IoClass::Large, ClassId::new(21));
    assert!(groups.set(4, ClassId::new(9)));
    stage.options.groups = Arc::new(groups);
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        let mut list = sense(&mut initiator, 0, 0x0a, 5).await;
        // IO CLASS is in byte 6 of a descriptor of 16 bytes; the first one begins at byte 16 of the page.
        for (group, class) in [(1, 0x10), (2, 0x50), (3, 0x40), (4, 0x50)] {
            list[4 + 16 + 16 * group + 6] = class;
        }
        assert_eq!(select(&mut initiator, list).await.0, 0);
        for group in 0..6 {
            assert_eq!(initiator.write(&ten(0x2a, 0, group, 1), &[1; 512]).await.0, 0);
        }
        initiator.log_out().await;
    })
    .unwrap();
    // Group 3 has an IO CLASS without a class, group 4 a class that was set, and groups 0 and 5 have no IO CLASS.
    assert_eq!(*stage.disk.classes.borrow(), [None, Some(20), Some(21), None, Some(9), Some(5)]);
}
