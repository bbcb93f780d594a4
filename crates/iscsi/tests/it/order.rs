//! Task attributes (SAM-5 §8).

use crate::support::*;
use nitro_iscsi::IscsiError;
use nitro_iscsi::protocol::{Header, opcode};

const SIMPLE: u8 = 1;
const ORDERED: u8 = 2;
const HEAD_OF_QUEUE: u8 = 3;
const BLOCK: [u8; 512] = [1; 512];

/// A write of one block, whose class at the disk is `class`.
fn write(class: u8) -> Vec<u8> {
    ten(0x2a, class.into(), class, 1)
}

fn started(disk: &Ram) -> Vec<u8> {
    disk.classes.borrow().iter().copied().flatten().collect()
}

#[test]
fn an_ordered_command_waits_for_earlier_ones_and_later_ones_wait_for_it() {
    let stage = Stage::new();
    let disk = &stage.disk;
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        disk.blocked.set(Some(1));
        for (attribute, class) in [(SIMPLE, 1), (0, 2), (ORDERED, 3), (SIMPLE, 4), (0, 5), (ORDERED, 6)] {
            initiator.task(attribute, &write(class), &BLOCK).await;
        }
        // A SIMPLE command may overtake a SIMPLE one, with or without an attribute.
        assert_eq!(initiator.ended().await, (2, 0, [0; 3]));
        initiator.ping().await;
        assert_eq!(started(disk), [1, 2]);
        disk.blocked.set(Some(3));
        assert_eq!(initiator.ended().await.0, 1);
        initiator.ping().await;
        assert_eq!(started(disk), [1, 2, 3]);
        disk.blocked.set(Some(5));
        assert_eq!((initiator.ended().await.0, initiator.ended().await.0), (3, 4));
        initiator.ping().await;
        assert_eq!(started(disk), [1, 2, 3, 4, 5]);
        disk.blocked.set(None);
        assert_eq!((initiator.ended().await.0, initiator.ended().await.0), (5, 6));
        // All have ended, so that an ORDERED command starts at once.
        initiator.task(ORDERED, &write(7), &BLOCK).await;
        assert_eq!(initiator.ended().await, (7, 0, [0; 3]));
        initiator.log_out().await;
    })
    .unwrap();
    assert_eq!(started(&stage.disk), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_head_of_queue_command_overtakes_those_that_wait() {
    let stage = Stage::new();
    let disk = &stage.disk;
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        disk.blocked.set(Some(1));
        for (attribute, class) in [(SIMPLE, 1), (ORDERED, 2), (HEAD_OF_QUEUE, 3)] {
            initiator.task(attribute, &write(class), &BLOCK).await;
        }
        assert_eq!(initiator.ended().await.0, 3);
        assert_eq!(started(disk), [1, 3]);
        // While one is executed, others wait for it.
        disk.blocked.set(Some(4));
        assert_eq!((initiator.ended().await.0, initiator.ended().await.0), (1, 2));
        initiator.task(HEAD_OF_QUEUE, &write(4), &BLOCK).await;
        initiator.task(SIMPLE, &write(5), &BLOCK).await;
        initiator.ping().await;
        assert_eq!(started(disk), [1, 3, 2, 4]);
        disk.blocked.set(None);
        assert_eq!((initiator.ended().await.0, initiator.ended().await.0), (4, 5));
        initiator.log_out().await;
    })
    .unwrap();
}

#[test]
fn data_are_received_while_their_command_waits() {
    let stage = Stage::new();
    let disk = &stage.disk;
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        disk.blocked.set(Some(1));
        initiator.task(SIMPLE, &write(1), &BLOCK).await;
        let tag = initiator.command(&ten(0x2a, 8, 2, 2), 0xa0 | ORDERED, 1024, &[2; 512]).await;
        initiator.task(SIMPLE, &ten(0x28, 8, 3, 2), &[]).await;
        let (header, _) = initiator.next().await.unwrap();
        assert_eq!((header.opcode(), header.tag(), header.word(40)), (opcode::R2T, tag, 512));
        initiator.data_out(tag, header.word(20), 0, 512, &[3; 512], true).await;
        initiator.ping().await;
        assert_eq!(started(disk), [1]);
        disk.blocked.set(None);
        assert_eq!((initiator.ended().await.0, initiator.ended().await.0), (1, 2));
        // The read sees what the ORDERED write wrote.
        assert_eq!(initiator.ended().await, (3, 0, [0; 3]));
        let data = initiator.read(&ten(0x28, 8, 3, 2), 1024).await.unwrap();
        assert_eq!(data, [[2u8; 512], [3; 512]].concat());
        initiator.log_out().await;
    })
    .unwrap();
    assert_eq!(started(&stage.disk), [1, 2, 3, 3]);
}

#[test]
fn a_command_that_waits_is_aborted_and_nothing_waits_for_it() {
    let stage = Stage::new();
    let disk = &stage.disk;
    let memory = stage.options.memory.free_bytes();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        disk.blocked.set(Some(1));
        initiator.task(SIMPLE, &write(1), &BLOCK).await;
        let held = initiator.task(ORDERED, &write(2), &BLOCK).await;
        initiator.task(SIMPLE, &write(3), &BLOCK).await;
        initiator.request(Header::new(opcode::TASK_MANAGEMENT, 0x81, 0).with(20, held), &[]).await;
        let (header, _) = initiator.next().await.unwrap();
        assert_eq!((header.opcode(), header.0[2]), (opcode::TASK_RESPONSE, 0));
        disk.blocked.set(None);
        assert_eq!((initiator.ended().await.0, initiator.ended().await.0), (1, 3));
        // CLEAR TASK SET aborts what waits, and what is executed.
        disk.blocked.set(Some(4));
        for (attribute, class) in [(SIMPLE, 4), (ORDERED, 5), (SIMPLE, 6)] {
            initiator.task(attribute, &write(class), &BLOCK).await;
        }
        initiator.request(Header::new(opcode::TASK_MANAGEMENT, 0x84, 0).with(20, NONE), &[]).await;
        initiator.ping().await;
        disk.blocked.set(None);
        let (header, _) = initiator.next().await.unwrap();
        assert_eq!((header.opcode(), header.0[2]), (opcode::TASK_RESPONSE, 0));
        assert_eq!(initiator.write(&write(7), &BLOCK).await.0, 0);
        initiator.log_out().await;
    })
    .unwrap();
    assert_eq!(started(&stage.disk), [1, 3, 4, 7]);
    assert_eq!(stage.options.memory.free_bytes(), memory);
}

#[test]
fn a_command_that_waits_is_checked_when_it_is_executed() {
    let stage = Stage::new();
    let disk = &stage.disk;
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        disk.blocked.set(Some(1));
        initiator.task(SIMPLE, &write(1), &BLOCK).await;
        // MODE SELECT (6) sets SWP; the write after it was sent before that was done.
        let list = [0, 0, 0, 0, 0x0a, 10, 0x20, 0x10, 0x08, 0, 0, 0, 0xff, 0xff, 0, 0];
        initiator.task(ORDERED, &[0x15, 0x10, 0, 0, 16, 0], &list).await;
        initiator.task(SIMPLE, &write(3), &BLOCK).await;
        // A command that is invalid in any case waits for none.
        initiator.task(SIMPLE, &ten(0x2a, 2048, 4, 1), &BLOCK).await;
        assert_eq!(initiator.ended().await, (4, 2, [5, 0x21, 0]));
        disk.blocked.set(None);
        assert_eq!((initiator.ended().await.1, initiator.ended().await.1), (0, 0));
        assert_eq!(initiator.ended().await, (3, 2, [7, 0x27, 0]));
        initiator.log_out().await;
    })
    .unwrap();
    assert_eq!(started(&stage.disk), [1]);
}

#[test]
fn aca_and_reserved_attributes_are_refused() {
    let stage = Stage::new();
    alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        for attribute in 4..8 {
            initiator.task(attribute, &write(1), &BLOCK).await;
            assert_eq!(initiator.status().await, (2, [5, 0x49, 0]), "attribute {attribute}");
        }
        initiator.log_out().await;
    })
    .unwrap();
    assert!(stage.disk.classes.borrow().is_empty());
}

#[test]
fn a_client_that_leaves_ends_the_commands_that_wait() {
    let stage = Stage::new();
    let (disk, memory) = (&stage.disk, stage.options.memory.free_bytes());
    let served = alone(&stage, |mut initiator| async move {
        initiator.log_in("iqn.a:i", &[]).await;
        disk.blocked.set(Some(1));
        for (attribute, class) in [(SIMPLE, 1), (ORDERED, 2), (HEAD_OF_QUEUE, 3)] {
            initiator.task(attribute, &write(class), &BLOCK).await;
        }
        assert_eq!(initiator.ended().await.0, 3);
        initiator.leave();
        disk.blocked.set(None);
    });
    // The response of the first command cannot be sent.
    assert!(matches!(served, Err(IscsiError::Io(_))), "{served:?}");
    assert_eq!(started(&stage.disk), [1, 3]);
    assert_eq!(stage.options.memory.free_bytes(), memory);
}
