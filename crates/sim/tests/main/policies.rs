//! Plain policies over a real trace, against the misses that were published for it.

use nitro_sim::policies::{Feed, Lru};
use nitro_trace::{Options, Reader, Request, open};
use std::path::Path;

#[test]
fn all_encodings_have_the_published_misses() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/cloudphysics");
    let published = [99_411, 96_397, 95_652, 95_370, 95_182, 94_997, 94_891, 94_816];
    for name in ["cloudPhysicsIO.csv", "cloudPhysicsIO.vscsi", "cloudPhysicsIO.oracleGeneral.bin"] {
        let path = folder.join(name);
        if !path.exists() {
            eprintln!("skipped: {} is not there", path.display());
            continue;
        }
        let (mut reader, mut request) = (open(&path, &Options::default()).unwrap(), Request::default());
        let mut names = Vec::new();
        while reader.next(&mut request).unwrap() {
            names.push(request.offset);
        }
        for (objects, misses) in (1..=8).map(|n| 128 * n).zip(published) {
            let mut lru = Lru::new(objects);
            let mut feed = Feed::new(&mut lru);
            names.iter().for_each(|name| feed.push(*name));
            let counts = feed.finish();
            assert_eq!((counts.requests, counts.misses), (113_872, misses), "{name}, {objects} objects");
        }
    }
}
