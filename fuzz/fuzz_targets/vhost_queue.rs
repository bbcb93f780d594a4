//! A virtual machine's memory with rings, requests and an in-flight region in it: whatever it says, nothing outside of it is touched, and
//! ranges lie within the disk.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nitro_vhost::fuzzing::{Told, run};

#[derive(Arbitrary, Debug)]
struct Guest<'a> {
    size_exponent: u8,
    odd_size: Option<u16>,
    places: [u16; 3],
    base: u16,
    event_idx: bool,
    inflight_at: Option<u16>,
    memory: &'a [u8],
}

fuzz_target!(|guest: Guest<'_>| {
    let told = Told {
        size: guest.odd_size.unwrap_or(1 << (guest.size_exponent % 11)),
        // Mostly aligned, as rings have to be.
        places: guest.places.map(|place| if place % 16 == 15 { place } else { place / 16 * 16 }),
        base: guest.base,
        event_idx: guest.event_idx,
        inflight_at: guest.inflight_at,
    };
    run(told, guest.memory);
});
