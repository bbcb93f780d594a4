use super::*;
use nitro_units::ClassId;
use proptest::collection::vec;
use proptest::prelude::*;

fn versions() -> impl Strategy<Value = u64> {
    prop_oneof![0..=VERSION_MAX, Just(VERSION_MAX)]
}

fn located() -> impl Strategy<Value = (ExtentKey, u64, WeuId, Generation, u16)> {
    let weu = any::<(u32, u32, u16)>();
    (any::<u64>(), versions(), weu).prop_map(|(key, version, (weu, generation, entry))| {
        (ExtentKey::from_raw(key), version, WeuId(weu), Generation(generation), entry)
    })
}

fn dirty_bases() -> impl Strategy<Value = Record> {
    let stored = (any::<(u32, u32, u32, u32, bool, Option<[u8; 20]>)>(), 0u8..32);
    (located(), stored).prop_map(|((key, version, weu, generation, entry), stored)| {
        let ((start, offset, stored_bytes, crc, raw_blocks, fingerprint), class) = stored;
        let class = ClassId::new(class).unwrap();
        let fingerprint = fingerprint.map(Fingerprint);
        Record::DirtyBase {
            key,
            version,
            weu,
            generation,
            start,
            entry,
            offset,
            stored_bytes,
            crc,
            raw_blocks,
            class,
            fingerprint,
        }
    })
}

fn volumes() -> impl Strategy<Value = Record> {
    let name = prop_oneof!["\\PC{0,63}", Just("n".repeat(VOLUME_NAME_BYTES_MAX))];
    let identity = prop_oneof![Just(Vec::new()), vec(any::<u8>(), 1..=VOLUME_IDENTITY_BYTES_MAX)];
    let rest = (any::<(u64, [u8; 16])>(), 0..IDENTIFIED, prop_oneof![Just([0; 16]), any::<[u8; 16]>()]);
    (any::<u16>(), name, rest, identity).prop_map(|(object, name, ((origin_bytes, uuid), mode, domain), identity)| {
        let domain = DedupDomain::from_bytes(domain);
        Record::Volume { object: ObjectId(object), name, origin_bytes, uuid, mode, domain, identity }
    })
}

fn slots() -> impl Strategy<Value = Record> {
    let dead = prop_oneof![vec(any::<u8>(), 0..40), vec(any::<u8>(), DEAD_BYTES_MAX)];
    (any::<[u32; 3]>(), dead).prop_map(|([weu, evicted, generation], dead)| Record::Slot {
        weu: WeuId(weu),
        evicted: Generation(evicted),
        generation: Generation(generation),
        dead,
    })
}

fn records() -> impl Strategy<Value = Record> {
    let versioned = || (any::<u64>().prop_map(ExtentKey::from_raw), versions());
    let region = || any::<(u16, u64)>().prop_map(|(object, region)| (ObjectId(object), region));
    prop_oneof![
        dirty_bases(),
        located().prop_map(|(key, version, weu, generation, entry)| {
            Record::DirtyDup { key, version, weu, generation, entry }
        }),
        versioned().prop_map(|(key, version)| Record::Clean { key, version }),
        versioned().prop_map(|(key, version)| Record::Lost { key, version }),
        (versioned(), any::<u64>()).prop_map(|((first, version), count)| Record::Forget { first, count, version }),
        any::<(u32, u32)>()
            .prop_map(|(weu, generation)| Record::Evicted { weu: WeuId(weu), generation: Generation(generation) }),
        region().prop_map(|(object, region)| Record::RegionOpened { object, region }),
        region().prop_map(|(object, region)| Record::RegionClosed { object, region }),
        volumes(),
        any::<u16>().prop_map(|object| Record::VolumeRemoved { object: ObjectId(object) }),
        (any::<u16>(), prop::collection::vec((1u64..1 << 40, 1u64..1 << 40), 0..=16)).prop_map(|(object, gaps)| {
            let mut at = 0;
            let ranges = gaps.iter().map(|(gap, extents)| {
                let first = at + gap;
                at = first + extents;
                first..at
            });
            Record::Pins { object: ObjectId(object), ranges: ranges.collect() }
        }),
        slots(),
        versions().prop_map(|version| Record::NextVersion { version }),
        any::<([u8; 16], u64, u64)>()
            .prop_map(|(uuid, sequence, offset)| { Record::Log(LogPosition { uuid, sequence, offset }) }),
    ]
}

proptest! {
    #[test]
    fn records_come_back_and_no_prefix_of_one_does(records in vec(records(), 1..8)) {
        let mut bytes = vec![0; records.iter().map(Record::encoded_bytes).sum()];
        let mut at = 0;
        for record in &records {
            record.encode(&mut bytes[at..at + record.encoded_bytes()]);
            at += record.encoded_bytes();
        }
        let mut rest = &bytes[..];
        for record in &records {
            prop_assert_eq!(Record::decode(rest), Ok((record.clone(), record.encoded_bytes())));
            for len in 0..record.encoded_bytes() {
                prop_assert!(Record::decode(&rest[..len]).is_err());
            }
            rest = &rest[record.encoded_bytes()..];
        }
    }

    #[test]
    fn what_is_decoded_from_arbitrary_bytes_is_what_they_say(mut bytes in vec(any::<u8>(), 0..1200), tag in 0u8..15) {
        if let Some(first) = bytes.first_mut() {
            *first = tag;
        }
        if let Ok((record, len)) = Record::decode(&bytes) {
            let mut again = vec![0; len];
            record.encode(&mut again);
            prop_assert_eq!(&again[..], &bytes[..len]);
        }
    }
}

#[test]
fn records_have_the_sizes_of_the_document() {
    let key = ExtentKey::from_raw(7);
    let slot = Record::Slot { weu: WeuId(1), evicted: Generation(2), generation: Generation(3), dead: vec![0; 9] };
    let forget = Record::Forget { first: key, count: 4, version: 5 };
    assert_eq!((slot.encoded_bytes(), forget.encoded_bytes()), (24, 24));
    assert_eq!((DIRTY_BASE_BYTES_MAX, VOLUME_BYTES_MAX, DEAD_BYTES_MAX), (63, 428, 9216));
    let mut bytes = vec![0; 63];
    bytes[0] = 1;
    bytes[42] = 0x80;
    assert!(Record::decode(&bytes).is_err(), "an unknown flag");
}
