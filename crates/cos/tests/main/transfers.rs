//! Transfers between two stores: what is sent, what is cut off, and what the other side should not say.

use crate::model::{CHUNK, again, bytes_of, plan, settings};
use crate::streams;
use bytes::Bytes;
use futures_executor::block_on;
use nitro_cos::{CollectOptions, Error, FrameReader, Message, Store};
use nitro_testkit::{CrashingDevice, Rng, seeds};
use std::collections::VecDeque;
use std::sync::Arc;

const SIZE_BYTES: u64 = 48 << 20;

type CrashingStore = Arc<Store<CrashingDevice>>;

async fn store(seed: u64) -> (Arc<CrashingDevice>, CrashingStore) {
    let device = Arc::new(CrashingDevice::new(SIZE_BYTES, 4096, seed));
    let store = Store::create(Arc::clone(&device), &plan(SIZE_BYTES, seed), settings()).await.unwrap();
    (device, Arc::new(store))
}

async fn open(device: &Arc<CrashingDevice>) -> CrashingStore {
    Arc::new(Store::open(Arc::clone(device), settings()).await.unwrap())
}

/// A volume of these contents, with holes where they are 0.
async fn volume(store: &CrashingStore, name: &str, numbers: &[u64]) {
    store.create_volume(name, (numbers.len() * CHUNK) as u64, None, 1).await.unwrap();
    let volume = store.open_volume(name).await.unwrap();
    volume.write_range(0, bytes_of(numbers)).await.unwrap();
    store.commit().await.unwrap();
}

async fn content(store: &CrashingStore, name: &str) -> Bytes {
    let volume = store.open_volume(name).await.unwrap();
    volume.read_range(0, volume.size_bytes() as usize).await.unwrap()
}

/// A message as it arrives.
fn passed(reader: &mut FrameReader, number: &mut u64, message: &Message) -> Message {
    *number += 1;
    reader.frame(&message.encode(*number - 1).into()).unwrap()
}

/// How a transfer went: where it began, how many chunks were sent, and what the receiver said.
#[derive(Debug)]
struct Went {
    position: u64,
    chunks: usize,
    done: Result<(), Error>,
}

/// Sends `name` to another store as `new`. The connection is cut after `messages` messages of the sender; the receiver then keeps
/// what it has. `change` may change what the sender says.
async fn send(
    (from, name): (&CrashingStore, &str),
    (to, new): (&CrashingStore, &str),
    messages: usize,
    mut change: impl FnMut(Message) -> Message,
) -> Result<Went, Error> {
    let mut sending = from.send(name).await?;
    let (mut there, mut number) = (FrameReader::default(), 0);
    let mut left = messages;
    let mut say = |message: &Message| {
        left = left.checked_sub(1)?;
        Some(change(passed(&mut there, &mut number, message)))
    };
    let Some(Message::Offer(offer)) = say(&Message::Offer(sending.offer().clone())) else { panic!("an offer") };
    let mut receiving = to.receive(new, &offer, 2).await?;
    let position = receiving.position();
    sending.begin_at(position)?;
    let mut went = Went { position, chunks: 0, done: Ok(()) };
    let mut asked = VecDeque::new();
    loop {
        while asked.len() < 3
            && let Some(list) = sending.next_list().await?
        {
            let Some(Message::List(said)) = say(&Message::List(list.clone())) else {
                receiving.keep().await?;
                return Ok(went);
            };
            asked.push_back((list, receiving.list(said).await?));
        }
        let Some((list, lacks)) = asked.pop_front() else { break };
        for group in list.wanted(&lacks)? {
            went.chunks += group.len();
            let Some(chunks) = say(&sending.chunks(&list, &group).await?) else {
                receiving.keep().await?;
                return Ok(went);
            };
            receiving.chunks(&chunks).await?;
        }
    }
    went.done = receiving.finish().await;
    Ok(went)
}

fn same(message: Message) -> Message {
    message
}

/// 3000 chunks, of which some repeat, with holes.
fn numbers() -> Vec<u64> {
    (0..3000).map(|i| if i % 7 == 3 || (1000..1900).contains(&i) { 0 } else { 1 + 2 * (i % 2500) }).collect()
}

#[test]
fn what_the_other_store_lacks_is_sent_and_nothing_else() {
    block_on(async {
        let ((_, from), (device, to)) = (store(1).await, store(2).await);
        let mut contents = numbers();
        volume(&from, "vm", &contents).await;
        from.snapshot("vm@1", 1).await.unwrap();
        let went = send((&from, "vm@1"), (&to, "copy"), usize::MAX, same).await.unwrap();
        let distinct: std::collections::BTreeSet<u64> = contents.iter().copied().filter(|n| *n > 0).collect();
        assert!(went.done.is_ok() && went.chunks == distinct.len(), "{went:?} of {}", distinct.len());
        // The next snapshot: what has changed. And once more: nothing.
        contents[5] = 99_999;
        contents[2999] = 77_777;
        let vm = from.open_volume("vm").await.unwrap();
        for index in [5, 2999] {
            vm.write_range((index * CHUNK) as u64, bytes_of(&contents[index..=index])).await.unwrap();
        }
        from.snapshot("vm@2", 1).await.unwrap();
        for (new, chunks) in [("copy2", 2), ("copy3", 0)] {
            let went = send((&from, "vm@2"), (&to, new), usize::MAX, same).await.unwrap();
            assert!(went.done.is_ok() && went.chunks == chunks, "{new}: {went:?}");
        }
        // A stream, whose chunks are of any size; and an empty volume.
        let mut random = Rng::new(5);
        let data: Bytes = (0..3 << 20).map(|_| random.next() as u8).collect::<Vec<u8>>().into();
        streams::import(&from, "stream", &data).await;
        volume(&from, "empty", &[0; 10]).await;
        for (name, sends) in [("stream", true), ("empty", false)] {
            let went = send((&from, name), (&to, name), usize::MAX, same).await.unwrap();
            assert!(went.done.is_ok() && (went.chunks > 0) == sends, "{name}: {went:?}");
            let again = send((&from, name), (&to, "again"), usize::MAX, same).await.unwrap();
            assert!(again.done.is_ok() && again.chunks == 0, "{name}: {again:?}");
            to.delete("again").await.unwrap();
        }
        assert!(matches!(send((&from, "vm"), (&to, "copy"), 9, same).await, Err(Error::Exists(_))));
        to.close().await.unwrap();
        let to = open(&device).await;
        assert!(
            content(&to, "copy2").await == bytes_of(&contents) && content(&to, "copy3").await == bytes_of(&contents)
        );
        assert!(content(&to, "copy").await == bytes_of(&numbers()));
        assert!(content(&to, "stream").await == data && content(&to, "empty").await == bytes_of(&[0; 10]));
        assert!(to.check(&|_, _, _| ()).await.unwrap().is_clean());
    });
}

#[test]
fn what_is_cut_off_anywhere_continues_and_never_has_the_name_before_its_end() {
    block_on(async {
        let (_, from) = store(1).await;
        volume(&from, "vm", &numbers()).await;
        let whole = bytes_of(&numbers());
        let (mut resumed, mut chunks) = (0, Vec::new());
        for cut in 1.. {
            let (device, to) = store(2).await;
            let went = send((&from, "vm"), (&to, "vm"), cut, same).await.unwrap();
            let is_whole = to.open_volume("vm").await.is_ok();
            // As after kill -9.
            drop(to);
            let to = open(&Arc::new(device.crashed())).await;
            if is_whole {
                assert!(content(&to, "vm").await == whole);
                break;
            }
            let rest = send((&from, "vm"), (&to, "vm"), usize::MAX, same).await.unwrap();
            assert!(rest.done.is_ok() && content(&to, "vm").await == whole, "cut after {cut}: {rest:?}");
            resumed += usize::from(rest.position > 0);
            chunks.push((went.chunks, rest.chunks));
        }
        // A second part sends what is missing, and at most what was under way again.
        assert!(resumed > 3, "{resumed}: {chunks:?}");
        let all = chunks[0].1;
        assert!(chunks.iter().all(|(first, rest)| rest + first >= all && *rest <= all), "{chunks:?}");
        assert!(chunks.last().is_some_and(|(_, rest)| *rest < all / 2), "{chunks:?}");
    });
}

#[test]
fn a_transfer_of_other_content_does_not_continue_one_and_gives_no_half_object() {
    block_on(async {
        let ((_, from), (_, to)) = (store(1).await, store(2).await);
        let mut contents = numbers();
        volume(&from, "vm", &contents).await;
        contents[0] = 5_555;
        volume(&from, "other", &contents).await;
        send((&from, "vm"), (&to, "vm"), 16, same).await.unwrap();
        let info = to.info("vm").await.unwrap();
        assert!(info.incomplete_at.is_some_and(|at| at > 0), "{info:?}");
        let went = send((&from, "other"), (&to, "vm"), usize::MAX, same).await.unwrap();
        assert!(went.position == 0 && went.done.is_ok(), "{went:?}");
        assert!(content(&to, "vm").await == bytes_of(&contents));
    });
}

#[test]
fn power_fails_at_the_receiver_at_any_time() {
    for seed in seeds(30) {
        let _again = again(seed, "transfers::power_fails_at_the_receiver_at_any_time");
        block_on(async {
            let ((_, from), (mut device, mut to)) = (store(1).await, store(seed + 2).await);
            volume(&from, "vm", &numbers()).await;
            let mut random = Rng::new(seed);
            for round in 1.. {
                device.fail_power_after(random.below(100 * round));
                // Cut off now and then, so that there is something to continue.
                let cut = if random.below(2) == 0 { usize::MAX } else { 1 + random.below(30) as usize };
                let went = send((&from, "vm"), (&to, "vm"), cut, same).await;
                let is_done = went.is_ok_and(|went| went.done.is_ok()) && to.open_volume("vm").await.is_ok();
                drop(to);
                device = Arc::new(device.crashed());
                to = open(&device).await;
                match to.open_volume("vm").await {
                    Ok(_) => assert!(content(&to, "vm").await == bytes_of(&numbers())),
                    Err(error) => {
                        assert!(!is_done && matches!(error, Error::NoObject(_) | Error::WrongKind { .. }), "{error}")
                    }
                }
                if is_done {
                    break;
                }
            }
            assert!(to.check(&|_, _, _| ()).await.unwrap().is_clean());
        });
    }
}

#[test]
fn a_collection_keeps_what_was_said_to_be_there() {
    block_on(async {
        let ((_, from), (_, to)) = (store(1).await, store(2).await);
        volume(&from, "vm", &numbers()).await;
        send((&from, "vm"), (&to, "old"), usize::MAX, same).await.unwrap();
        let mut sending = from.send("vm").await.unwrap();
        let mut receiving = to.receive("new", sending.offer(), 1).await.unwrap();
        let first = sending.next_list().await.unwrap().unwrap();
        assert!(receiving.list(first).await.unwrap().iter().all(|lacks| !lacks));
        let second = sending.next_list().await.unwrap().unwrap();
        let lacks = receiving.list(second).await.unwrap();
        assert!(lacks.iter().all(|lacks| !lacks));
        // Nothing else refers to it any more.
        to.delete("old").await.unwrap();
        to.collect(&CollectOptions { alive_share_min: 1.0 }, &|_, _, _| ()).await.unwrap();
        while let Some(list) = sending.next_list().await.unwrap() {
            let lacks = receiving.list(list.clone()).await.unwrap();
            for group in list.wanted(&lacks).unwrap() {
                receiving.chunks(&sending.chunks(&list, &group).await.unwrap()).await.unwrap();
            }
        }
        receiving.finish().await.unwrap();
        assert!(content(&to, "new").await == bytes_of(&numbers()));
        assert!(to.scrub(&|_, _, _| ()).await.unwrap().is_clean());
    });
}

#[test]
fn what_the_sender_should_not_say_is_refused() {
    block_on(async {
        let (_, from) = store(1).await;
        volume(&from, "vm", &numbers()).await;
        let sending = from.send("vm").await.unwrap();
        let whole = sending.offer().clone();
        // A byte of a chunk that is not what was listed.
        let changed = |message: Message| match &message {
            Message::Chunks(..) => {
                let mut raw = message.raw().unwrap().to_vec();
                raw[4096] ^= 1;
                Message::Chunks(nitro_port::codec::Encoding::Raw, raw.len() as u32, raw.into())
            }
            _ => message,
        };
        // A byte more than was listed.
        let longer = |message: Message| match &message {
            Message::Chunks(..) => {
                let raw = [&message.raw().unwrap()[..], &[0]].concat();
                Message::Chunks(nitro_port::codec::Encoding::Raw, raw.len() as u32, raw.into())
            }
            _ => message,
        };
        // Another object's list is that of the offered one.
        let mut contents = numbers();
        contents[3] = 123_456;
        volume(&from, "other", &contents).await;
        let promised = move |message: Message| match message {
            Message::Offer(_) => Message::Offer(whole.clone()),
            message => message,
        };
        let (_, to) = store(2).await;
        let refused = |outcome: Result<Went, Error>| match outcome {
            Ok(went) => went.done.unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        let said = refused(send((&from, "vm"), (&to, "vm"), usize::MAX, changed).await);
        assert!(said.contains("is not the one that was listed"), "{said}");
        let said = refused(send((&from, "vm"), (&to, "vm"), usize::MAX, longer).await);
        assert!(said.contains("not the one that was listed") || said.contains("more chunks"), "{said}");
        let said = refused(send((&from, "other"), (&to, "vm"), usize::MAX, promised).await);
        assert!(said.contains("not what was offered"), "{said}");
        assert!(to.list().await.unwrap().is_empty(), "{:?}", to.list().await);
        // Lists that go back, and more lists than may be under way.
        let mut sending = from.send("vm").await.unwrap();
        let mut receiving = to.receive("vm", sending.offer(), 1).await.unwrap();
        let list = sending.next_list().await.unwrap().unwrap();
        receiving.list(list.clone()).await.unwrap();
        assert!(matches!(receiving.list(list.clone()).await, Err(Error::Transfer(_))));
        assert!(matches!(receiving.chunks(&Message::End).await, Err(Error::Transfer(_))));
        assert!(list.wanted(&vec![true; 2000]).is_err() && sending.begin_at(7).is_err());
        assert!(sending.begin_at(1 << 50).is_err());
        assert!(matches!(receiving.finish().await, Err(Error::Transfer(_))));
    });
}
