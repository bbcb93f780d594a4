//! Tenants of one cache who do not trust each other.

use crate::support::{Nbd, Place, noise};
use nitro_device::{CompioClock, FileOptions, Reactor};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings};
use nitro_port::codec::FingerprintHash;

/// Makes a cache whose contents are named by SHA-1, as no program does that serves.
fn sha1_cache(place: &Place) {
    let manager = Settings::new(32 << 20);
    let settings = EngineSettings { fingerprint_hash: FingerprintHash::Sha1, ..EngineSettings::new(manager) };
    let reactor = Reactor::new().unwrap();
    reactor.block_on(async {
        let bytes = (40 << 20) + Cache::<nitro_device::FileDevice, CompioClock>::overhead_bytes(&settings);
        let device = FileOptions::new(place.path("cache.img")).create(bytes).unwrap();
        Cache::format(device, CompioClock::new(), settings, [7; 16], 9).await.unwrap();
    });
}

#[test]
fn sha1_is_not_served() {
    let place = Place::new();
    place.file("vm.img", 1 << 20);
    let served = "serve --origin vm.img --cache cache.img";
    let phrases = ["sha1", "SHA-1 collisions", "another volume"];
    place.write(
        "n.toml",
        "[cache.c]\npath = \"cache.img\"\nsize = \"32M\"\nfingerprint = \"sha1\"\n[volume.vm]\norigin = \"vm.img\"\n",
    );
    for arguments in [
        &format!("{served} --cache-size 32M --fingerprint sha1"),
        "cache create cache.img --size 32M --fingerprint sha1",
        "serve --config n.toml",
    ] {
        let said = place.failure(arguments, 1);
        assert!(phrases.iter().all(|phrase| said.contains(phrase)) && said.contains("blake3"), "{said}");
        assert!(!place.path("cache.img").exists());
    }
    sha1_cache(&place);
    let said = place.failure(served, 1);
    assert!(phrases.iter().all(|phrase| said.contains(phrase)) && said.contains("nitro cache salvage"), "{said}");
    assert!(place.stdout("cache show cache.img").contains("stopped"));
    assert!(place.stdout("cache fsck cache.img").contains("nothing is wrong"));
    assert!(place.stdout("cache salvage cache.img --list").contains("nothing is dirty"));
    assert!(place.serve("--origin vm.img --cache cache.img --format").stop().0.success());
}

#[test]
fn domains_share_nothing_and_duplicates_are_compared() {
    let place = Place::new();
    let mut config =
        "[server]\nlisten = [\"unix:n.sock\"]\n[cache.c]\npath = \"cache.img\"\nsize = \"64M\"\nram = \"0\"\n\
                      verify_duplicates = true\nsequential_threshold = \"0\"\n"
            .to_owned();
    for (name, domain) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        place.file(&format!("{name}.img"), 4 << 20);
        config += &format!("[volume.{name}]\norigin = \"{name}.img\"\ndedup_domain = \"{domain}\"\n");
    }
    place.write("n.toml", config);
    let server = place.serve("--config n.toml");
    let data = noise(5, 1 << 20);
    let write = |name: &str| {
        let mut client = Nbd::connect(&place.path("n.sock"), name);
        assert_eq!((client.write(0, &data), client.flush()), (0, 0));
    };
    let inserted =
        |extents: u64| place.until("inserted", |status| status["caches"][0]["insertions"].as_u64() == Some(extents));
    write("a");
    write("b");
    let status = inserted(256);
    assert_eq!(
        (&status["caches"][0]["dedup_ratio"], &status["caches"][0]["duplicates_compared"]),
        (&1.0.into(), &0.into())
    );
    assert_eq!(status["volumes"][1]["dedup_domain"], "blue", "{status}");
    write("c");
    let status = inserted(384);
    assert_eq!(status["caches"][0]["dedup_ratio"], 1.5, "{status}");
    assert_eq!(
        (&status["caches"][0]["duplicates_compared"], &status["caches"][0]["duplicate_mismatches"]),
        (&128.into(), &0.into())
    );
    let text = place.stdout("status");
    assert!(text.contains("128 duplicates compared") && text.contains("shares within \"red\""), "{text}");
    drop(server);
    place.write("n.toml", "[cache.c]\npath = \"none\"\n[volume.a]\norigin = \"a.img\"\ndedup_domain = \"\"\n");
    assert!(place.failure("serve --config n.toml", 1).contains("dedup_domain"));
}
