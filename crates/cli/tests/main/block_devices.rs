//! `nitro attach` and `--listen ublk:` on a machine without the kernel's driver. tests/long/ublk.sh has one with it.

use crate::support::Place;
use std::fs;
use std::path::Path;

#[test]
fn without_the_driver_the_way_out_is_nbd() {
    let place = Place::new();
    place.file("vm.img", 16 << 20);
    let server = place.serve("--origin vm.img --cache cache.img --cache-size 64M");
    assert!(place.failure("detach vm", 1).contains("it has no block device"));
    assert!(place.failure("attach vm --block-size 8K", 1).contains("use 512, 1024, 2048 or 4096"));
    assert!(place.failure("attach other", 1).contains("those that are: vm"));
    if Path::new("/dev/ublk-control").exists() {
        return assert!(server.stop().0.success());
    }
    let refused = place.failure("attach vm", 1);
    assert!(refused.contains("the kernel has no ublk driver") && refused.contains("nbd-client"), "{refused}");
    let status = place.stdout("status -o json");
    assert!(status.contains("\"block_device\": null") && status.contains("\"clients\": 0"), "{status}");
    assert!(server.stop().0.success());
    let refused = place.failure("serve --origin vm.img --cache cache.img --listen ublk:", 1);
    assert!(refused.contains("listen ublk:") && refused.contains("nbd-client"), "{refused}");
    let config = "[server]\nlisten = [\"ublk:\"]\n[cache.c]\npath = \"cache.img\"\n[volume.vm]\norigin = \"vm.img\"\n";
    fs::write(place.path("nitro.toml"), config).unwrap();
    let refused = place.failure("check nitro.toml", 1);
    assert!(refused.contains("modprobe ublk_drv"), "{refused}");
}
