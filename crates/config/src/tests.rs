use super::*;
use nitro_console::size::Size;

const FULL: &str = r#"
[server]
listen = ["unix:/run/n.sock", "tcp:127.0.0.1:0"]
threads = 2
tls = "off"

[cache.fast]
path = "/fast/cache.img"
size = "4G"
ram = 0
extent_size = "16K"
dedup = false
compression = "zstd"
mode = "write-back"
dirty_wait = "5m"

[volume.vm]
origin = "vm.img"
emulate_disk = "7200:4"

[volume.db]
origin = "db.img"
cache = "fast"
read_only = true
"#;

#[test]
fn a_full_file_is_read() {
    let config = Config::parse(FULL).unwrap();
    assert_eq!(config.server.listen.len(), 2);
    assert_eq!(config.volumes.len(), 2);
    let fast = &config.caches["fast"];
    assert_eq!((fast.size, fast.ram, fast.dedup), (Some(Size(4 << 30)), Some(Size(0)), Some(false)));
    assert_eq!(fast.engine_settings(4 << 30).manager.extent_bytes, 16 << 10);
    assert_eq!(config.cache_of("vm").unwrap(), "fast");
    assert_eq!((config.mode_of("vm"), config.mode_of("db")), (Mode::WriteBack, Mode::WriteThrough));
    assert_eq!(config.volumes["vm"].emulate_disk.unwrap().model().spindles, 4);
}

#[test]
fn faults_are_told_with_their_line_and_the_nearest_key() {
    let wrong = |from: &str, to: &str| Config::parse(&FULL.replace(from, to)).expect_err(to).to_string();
    assert_eq!(
        wrong("extent_size", "extent_sze"),
        "line 11: unknown key \"extent_sze\"; did you mean \"extent_size\"?"
    );
    assert_eq!(wrong("\"zstd\"", "\"zst\""), "line 13: unknown value \"zst\"; did you mean \"zstd\"?");
    assert!(wrong("\"4G\"", "\"4X\"").starts_with("line 9: \"4X\" is not a size"));
    assert!(wrong("[server]", "[server").starts_with("line 2: "));
    assert!(wrong("cache = \"fast\"", "cache = \"fats\"").contains("did you mean \"fast\"?"));
    assert!(wrong("16K", "6000").contains("the nearest valid value is 4096"));
    assert!(wrong("dedup = false", "dirty_max = 99").contains("must be 1 to 90 percent"));
    assert!(wrong("dedup = false", "dirty_start = 70").contains("is above dirty_max = 60"));
    assert!(wrong("\"5m\"", "\"1d\"").contains("30s"));
    assert!(wrong("read_only = true", "read_only = true\nmode = \"write-back\"").contains("cannot be in write-back"));
    assert!(wrong("tls = \"off\"", "tls = \"required\"").contains("needs a certificate"));
    assert!(wrong("7200:4", "5400").contains("write 7200 or 15000"));
    let addresses = wrong("read_only = true", "read_only = true\niscsi_addresses = [\"10.0.0.0/33\"]");
    assert!(addresses.contains("iscsi_addresses") && addresses.contains("is not a network"), "{addresses}");
    assert!(wrong("tcp:127.0.0.1:0", "127.0.0.1:0").contains("none of unix:, tcp:, iscsi:, vhost:, ublk: and fuse:"));
    assert!(Config::parse("").unwrap_err().to_string().contains("nothing to serve"));
    assert!(Config::parse("\u{0}\u{1}garbage").is_err());
}

#[test]
fn the_row_that_the_page_shows_is_the_one_declared() {
    let page = include_str!("../../../docs/adding-a-setting.md");
    let row = page.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(include_str!("cache.rs").contains(row), "{row}");
}
