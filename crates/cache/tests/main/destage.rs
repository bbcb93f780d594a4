//! What policies of destage are told.

use nitro_cache::destage::DestageKind;
use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, Settings};
use nitro_units::{ExtentIndex, ExtentKey, ObjectId};

#[test]
fn an_extent_that_was_lost_and_written_again_is_destaged_under_every_policy() {
    for destage in DestageKind::ALL {
        let mut manager = CacheManager::new(Settings { destage, ..Settings::new(16 << 20) }).unwrap();
        let (weu, _) = manager.open_dirty_weu(512).unwrap();
        let key = ExtentKey::new(ObjectId(1), ExtentIndex(7));
        let write = |manager: &mut CacheManager| {
            assert!(matches!(manager.append_dirty(weu, key, None, Stored::Packed(4000), 1), Append::At(_)));
        };
        let pass = |manager: &mut CacheManager| {
            // As long as it gives nothing, twice: the first of them may end a pass.
            let given = [(); 2].map(|()| manager.destage_next(ObjectId(1), u32::MAX, 8));
            given.into_iter().flatten().map(|extent| extent.key).collect::<Vec<_>>()
        };
        write(&mut manager);
        manager.unreadable(key, manager.version());
        assert_eq!(pass(&mut manager), [], "{destage}");
        write(&mut manager);
        assert_eq!(pass(&mut manager), [key], "{destage}");
    }
}
