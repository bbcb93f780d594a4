use crate::support::*;
use futures_util::future::BoxFuture;
use futures_util::future::{join, join3};
use nitro_iscsi::protocol::{Header, opcode};
use nitro_iscsi::{End, Keeper, StoredStates, Targets};
use std::io;
use std::sync::{Arc, Mutex};

/// Two sessions of different initiators.
fn two<F: Future<Output = ()>>(stage: &Stage, script: impl FnOnce(Initiator, Initiator) -> F) -> (Served, Served) {
    let ((one, first), (other, second)) = (stage.connect(), stage.connect());
    let (one, other, ()) = futures_executor::block_on(join3(one, other, script(first, second)));
    (one, other)
}

#[test]
fn compare_and_write_lets_one_of_many_win() {
    let stage = Stage::new();
    let results = two(&stage, |mut one, mut other| async move {
        one.log_in("iqn.a:one", &[]).await;
        other.log_in("iqn.a:other", &[]).await;
        let data = |value: u8| [[0; 512], [value; 512]].concat();
        // Many of each session at once, all of which expect zeroes.
        for value in 1..=20 {
            one.command(&compare_and_write(0), 0xa0, 1024, &data(value)).await;
            other.command(&compare_and_write(0), 0xa0, 1024, &data(100 + value)).await;
        }
        let mut statuses = Vec::new();
        for _ in 0..20 {
            statuses.extend([one.status().await, other.status().await]);
        }
        assert_eq!(statuses.iter().filter(|(status, _)| *status == 0).count(), 1, "{statuses:?}");
        let missed = statuses.iter().filter(|status| **status == (2, [0xe, 0x1d, 0])).count();
        assert_eq!(missed, 39);
        one.leave();
        other.leave();
    });
    assert!(results.0.is_ok() && results.1.is_ok());
    let bytes = stage.disk.bytes.borrow();
    assert!(bytes[0] != 0 && bytes[..512].iter().all(|byte| *byte == bytes[0]));
}

#[test]
fn all_paths_to_a_unit_show_the_same_identity() {
    let stage = Stage::new();
    let results = two(&stage, |mut one, mut other| async move {
        one.log_in("iqn.a:one", &[]).await;
        other.log_in("iqn.a:other", &[]).await;
        // Device identification and unit serial number.
        for page in [0x83, 0x80] {
            let inquiry = [0x12, 1, page, 0, 255, 0];
            let identity = one.read(&inquiry, 255).await.unwrap();
            assert!(identity.len() > 16);
            assert_eq!(other.read(&inquiry, 255).await, Ok(identity));
        }
        one.log_out().await;
        other.log_out().await;
    });
    assert!(results.0.is_ok() && results.1.is_ok());
}

#[test]
fn no_other_write_runs_between_write_and_comparison() {
    let stage = Stage::new();
    let results = two(&stage, |mut one, mut other| async move {
        one.log_in("iqn.a:one", &[]).await;
        other.log_in("iqn.a:other", &[]).await;
        let verified = with_bytchk(ten(0x2e, 0, 0, 2), 1);
        for value in 1..=20 {
            one.command(&verified, 0xa0, 1024, &[value; 1024]).await;
            other.command(&ten(0x2a, 1, 0, 1), 0xa0, 512, &[100 + value; 512]).await;
        }
        for _ in 0..20 {
            assert_eq!((one.status().await.0, other.status().await.0), (0, 0));
        }
        one.leave();
        other.leave();
    });
    assert!(results.0.is_ok() && results.1.is_ok());
}

#[test]
fn a_persistent_reservation_keeps_others_out_and_is_preempted() {
    let stage = Stage::new();
    let results = two(&stage, |mut one, mut other| async move {
        one.log_in("iqn.a:one", &[]).await;
        other.log_in("iqn.a:other", &[]).await;
        let out = |action, kind, key, new| reserve_out(action, kind, key, new, false);
        for (initiator, key) in [(&mut one, 1), (&mut other, 2)] {
            let (cdb, list) = out(0, 0, 0, key);
            assert_eq!(initiator.write(&cdb, &list).await.0, 0);
        }
        let (cdb, list) = out(1, 3, 1, 0);
        assert_eq!(one.write(&cdb, &list).await.0, 0);
        assert_eq!(one.write(&ten(0x2a, 0, 0, 1), &[1; 512]).await.0, 0);
        assert_eq!(other.write(&ten(0x2a, 0, 0, 1), &[2; 512]).await.0, 0x18);
        assert_eq!(other.read(&ten(0x28, 0, 0, 1), 512).await, Err(0x18));
        let (cdb, list) = out(4, 3, 2, 1);
        assert_eq!(other.write(&cdb, &list).await.0, 0);
        // Told first, then kept out.
        assert_eq!(one.write(&ten(0x2a, 0, 0, 1), &[3; 512]).await, (2, [6, 0x2a, 5]));
        assert_eq!(one.write(&ten(0x2a, 0, 0, 1), &[3; 512]).await.0, 0x18);
        assert_eq!(other.write(&ten(0x2a, 0, 0, 1), &[2; 512]).await.0, 0);
        one.leave();
        other.leave();
    });
    assert!(results.0.is_ok() && results.1.is_ok());
    assert_eq!(stage.disk.bytes.borrow()[0], 2);
}

#[derive(Debug, Default)]
struct Kept(Mutex<Option<(String, Vec<u8>)>>);

impl Keeper for Kept {
    fn load(&self) -> io::Result<StoredStates> {
        let kept = self.0.lock().expect("nobody panicked").clone();
        Ok(kept.into_iter().map(|(target, bytes)| (target, Ok(bytes))).collect())
    }

    fn store(&self, target: &str, state: Option<Vec<u8>>) -> BoxFuture<'static, io::Result<()>> {
        *self.0.lock().expect("nobody panicked") = state.map(|bytes| (target.to_owned(), bytes));
        Box::pin(std::future::ready(Ok(())))
    }
}

#[test]
fn a_reservation_outlives_the_server_where_its_owner_asks_for_that() {
    for keep in [false, true] {
        let kept = Arc::new(Kept::default());
        let stage = || {
            let mut stage = Stage::new();
            stage.options.targets = Arc::new(Targets::new(Some(Arc::clone(&kept) as Arc<dyn Keeper>)).unwrap());
            stage
        };
        alone(&stage(), |mut one| async move {
            one.log_in("iqn.a:one", &[]).await;
            for (action, kind, key, new) in [(0, 0, 0, 1), (1, 1, 1, 0)] {
                let (cdb, list) = reserve_out(action, kind, key, new, keep);
                assert_eq!(one.write(&cdb, &list).await.0, 0);
            }
            one.leave();
        })
        .unwrap();
        // Another server.
        alone(&stage(), |mut other| async move {
            other.log_in("iqn.a:other", &[]).await;
            let wanted = if keep { 0x18 } else { 0 };
            assert_eq!(other.write(&ten(0x2a, 0, 0, 1), &[2; 512]).await.0, wanted);
            other.leave();
        })
        .unwrap();
    }
    // Without a keeper, nobody is promised that.
    alone(&Stage::new(), |mut one| async move {
        one.log_in("iqn.a:one", &[]).await;
        let (cdb, list) = reserve_out(0, 0, 0, 1, true);
        assert_eq!(one.write(&cdb, &list).await, (2, [5, 0x26, 0]));
        one.leave();
    })
    .unwrap();
}

/// What an earlier version, which compared names with regard to case, has stored.
#[test]
fn stored_reservations_are_found_whatever_the_case_of_their_names() {
    let text = "nitro-iscsi-reservations 1\n\
                registered 0000000000000001 IQN.A:One,i,0x000000000001\n\
                registered 0000000000000001 iqn.a:one,i,0x000000000001\n\
                reserved 1 IQN.A:One,i,0x000000000001\nend\n";
    let kept = Arc::new(Kept(Mutex::new(Some((TARGET.to_owned(), text.into())))));
    let mut stage = Stage::new();
    stage.options.targets = Arc::new(Targets::new(Some(kept as Arc<dyn Keeper>)).unwrap());
    for (name, status) in [("iqn.a:other", 0x18), ("Iqn.a:ONE", 0), ("iqn.a:one", 0)] {
        alone(&stage, |mut initiator| async move {
            initiator.log_in(name, &[]).await;
            assert_eq!(initiator.write(&ten(0x2a, 0, 0, 1), &[2; 512]).await.0, status, "{name}");
            initiator.leave();
        })
        .unwrap();
    }
}

#[test]
fn names_of_initiators_and_targets_are_the_same_in_upper_and_lower_case() {
    let stage = Stage::new();
    let target = [("TargetName", "IQN.2026-11.Nitro:VM"), ("SessionType", "Normal")];
    let (one, other) = two(&stage, |mut one, mut again| async move {
        assert_eq!(one.log_in("IQN.A:One", &target).await.0.0[36], 0);
        let request = Header::new(opcode::TEXT, 0x80, 0).with(20, NONE);
        one.request(request, b"SendTargets=Iqn.2026-11.nitro:Vm\0").await;
        let (_, data) = one.next().await.unwrap();
        assert!(String::from_utf8(data).unwrap().contains(&format!("TargetName={TARGET}\0")), "sent in lower case");
        again.log_in("iqn.a:one", &[]).await;
        assert!(one.next().await.is_none(), "it is the same initiator");
        again.log_out().await;
    });
    assert_eq!((one.unwrap().end, other.unwrap().end), (End::Replaced, End::LoggedOut));
}

#[test]
fn a_session_that_logs_in_again_takes_the_place_of_the_old_one() {
    let stage = Stage::new();
    let (one, other) = two(&stage, |mut one, mut again| async move {
        one.log_in("iqn.a:one", &[]).await;
        assert_eq!(one.write(&[0x16], &[]).await.0, 0);
        again.log_in("iqn.a:one", &[]).await;
        assert!(one.next().await.is_none());
        // The plain reservation went with its session.
        assert_eq!(again.write(&ten(0x2a, 0, 0, 1), &[1; 512]).await.0, 0);
        again.log_out().await;
    });
    assert_eq!((one.unwrap().end, other.unwrap().end), (End::Replaced, End::LoggedOut));
}

#[test]
fn a_reset_aborts_commands_of_all_and_tells_the_others() {
    let stage = Stage::new();
    let results = two(&stage, |mut one, mut other| async move {
        one.log_in("iqn.a:one", &[]).await;
        other.log_in("iqn.a:other", &[]).await;
        // Both wait for data.
        for initiator in [&mut one, &mut other] {
            initiator.command(&ten(0x2a, 0, 0, 8), 0xa0, 4096, &[]).await;
            assert_eq!(initiator.next().await.unwrap().0.opcode(), opcode::R2T);
        }
        let reset = Header::new(opcode::TASK_MANAGEMENT, 0x85, 0).with(20, NONE);
        one.request(reset, &[]).await;
        let (header, _) = one.next().await.unwrap();
        assert_eq!((header.opcode(), header.0[2]), (opcode::TASK_RESPONSE, 0));
        for initiator in [&mut one, &mut other] {
            assert_eq!(initiator.write(&[0], &[]).await, (2, [6, 0x29, 3]));
            assert_eq!(initiator.write(&[0], &[]).await.0, 0);
        }
        one.leave();
        other.leave();
    });
    assert!(results.0.is_ok() && results.1.is_ok());
    assert!(stage.disk.classes.borrow().is_empty(), "nothing was written");
}

#[test]
fn a_command_that_is_aborted_has_no_response() {
    let stage = Stage::new();
    let (serving, mut one) = stage.connect();
    let script = async move {
        one.log_in("iqn.a:one", &[]).await;
        let tag = one.command(&ten(0x2a, 0, 0, 1), 0xa0, 512, &[9; 512]).await;
        let abort = |tag| Header::new(opcode::TASK_MANAGEMENT, 0x81, 0).with(20, tag);
        one.request(abort(tag), &[]).await;
        one.request(abort(77), &[]).await;
        let mut answers = Vec::new();
        while answers.len() < 2 {
            let (header, _) = one.next().await.unwrap();
            answers.push((header.opcode(), header.tag(), header.0[2]));
        }
        answers.sort_unstable();
        // The one that was carried out is waited for; the other there is not.
        assert_eq!(answers, [(opcode::TASK_RESPONSE, 2, 0), (opcode::TASK_RESPONSE, 3, 1)]);
        one.leave();
    };
    futures_executor::block_on(join(serving, script)).0.unwrap();
}
