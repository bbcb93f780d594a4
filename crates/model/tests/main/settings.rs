//! What is refused, and how large an SSD must be.

use crate::support::{geometry, run};
use nitro_model::{
    CoDesignedSettings, Error, Ftl, FtlSettings, Geometry, HybridSettings, Nanos, PageMappedSettings, Ssd, Timing,
};

fn all() -> [FtlSettings; 3] {
    [
        FtlSettings::Hybrid(HybridSettings::default()),
        FtlSettings::PageMapped(PageMappedSettings::default()),
        FtlSettings::CoDesigned(CoDesignedSettings::default()),
    ]
}

/// §5.3: 7 % over-provisioning and 10 % log; nothing for the modified SSD.
#[test]
fn the_reserves_are_the_papers() {
    let [hybrid, page_mapped, co_designed] =
        all().map(|settings| settings.geometry_for(Geometry::default(), 1000 << 21).unwrap().superblocks);
    assert_eq!((hybrid, page_mapped, co_designed), (1170, 1070, 1001));
}

#[test]
fn the_geometry_gives_what_was_asked_for_and_not_more() {
    for settings in all() {
        for blocks in [1u64, 2, 5, 77, 1000] {
            let found = settings.geometry_for(geometry(4, 1), blocks * 4 * 4096).unwrap();
            let ftl = settings.build(found).unwrap();
            assert_eq!(u64::from(ftl.logical_pages()), blocks * 4, "{settings:?}");
        }
    }
}

#[test]
fn what_is_out_of_bounds_is_named() {
    let refused = |geometry: Geometry| match geometry.check() {
        Err(Error::Setting { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Geometry { page_bytes: 5000, ..Geometry::default() }), "page_bytes");
    assert_eq!(refused(Geometry { stripe: 0, ..Geometry::default() }), "stripe");
    assert!(matches!(Geometry { superblocks: 1 << 24, ..Geometry::default() }.check(), Err(Error::TooLarge { .. })));
    let hybrid = HybridSettings { log_share: f64::NAN, ..HybridSettings::default() };
    assert!(matches!(
        FtlSettings::Hybrid(hybrid).build(Geometry::default()).err(),
        Some(Error::Setting { setting: "log_share", .. })
    ));
    let many = all()[0].geometry_for(Geometry::default(), 1 << 60);
    assert!(matches!(many, Err(Error::TooLarge { .. })), "{many:?}");
}

#[test]
fn requests_past_the_end_are_refused() {
    let geometry = geometry(4, 9);
    let ftl = all()[2].build(geometry).unwrap();
    let mut ssd = Ssd::new(ftl, Timing::for_geometry(&geometry));
    assert_eq!(ssd.write(Nanos::ZERO, run(31, 2)), Err(Error::OutOfRange { first: 31, len: 2, end: 32 }));
    assert!(ssd.read(Nanos::ZERO, run(u32::MAX, u32::MAX)).is_err());
    assert!(ssd.write_bytes(Nanos::ZERO, u64::MAX, 2).is_err());
    assert!(ssd.trim_bytes(Nanos::ZERO, 32 * 4096 - 1, 2).is_err());
    assert!(ssd.write_bytes(Nanos::ZERO, 32 * 4096 - 1, 1).is_ok());
    assert_eq!(ssd.counters().host_writes, 1);
}
