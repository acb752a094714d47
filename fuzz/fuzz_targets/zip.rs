//! ZIP archives: everything listed can be asked for, whole and in parts, at hand and from afar.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use zaro::blocking::block_on;
use zaro::store::{ByteRange, MemoryStore, SharedStore, Store as _, StoreExt as _, ZipStore};
use zaro::testing::{ZipMaker, ZipMethod};
use zaro_fuzz::Seed;
use zaro_fuzz::array::Far;

fn seeds() -> Vec<Seed> {
    let objects: &[(&str, &[u8])] =
        &[("a/zarr.json", b"{}"), ("a/c/0", &[7; 300]), ("a/", b""), ("b", b""), ("a/c/0", b"again")];
    let plain = ZipMaker::default();
    let deflated = ZipMaker { method: ZipMethod::Deflated, ..plain.clone() };
    [
        ("stored", plain.clone()),
        ("deflated", deflated.clone()),
        ("zip64", ZipMaker { zip64: true, padding: 9, ..plain.clone() }),
        ("trailers", ZipMaker { trailers: true, before: b"#!".to_vec(), ..deflated }),
        ("comment", ZipMaker { comment: b"PK\x05\x06".to_vec(), ..plain.clone() }),
        ("encrypted", ZipMaker { encrypted: true, ..plain }),
    ]
    .into_iter()
    .map(|(name, maker)| (name.to_owned(), maker.make(objects)))
    .collect()
}

/// Asks for everything, and answers how much that was; an error is as good.
async fn ask(inner: SharedStore) -> zaro::Result<usize> {
    let Some(zip) = ZipStore::open(inner, "z").await? else { return Ok(0) };
    let _ = zip.common_folder();
    let mut open = vec![String::new()];
    let mut asked = 0;
    while let Some(folder) = open.pop() {
        let listing = zip.list(&folder).await?;
        let join = |n: &String| if folder.is_empty() { n.clone() } else { format!("{folder}/{n}") };
        open.extend(listing.prefixes.iter().map(join));
        for key in listing.objects.iter().map(join) {
            asked += 1;
            if asked > 50 {
                return Ok(asked);
            }
            let size = zip.size(&key).await.ok().flatten();
            if let Ok(Some(bytes)) = zip.get(&key, None).await {
                assert_eq!(Some(u64::try_from(bytes.len()).unwrap_or(0)), size);
            }
            for range in [
                ByteRange::span(1, 2),
                ByteRange::Suffix(3),
                ByteRange::From(1),
                ByteRange::span(u64::MAX, 2),
            ] {
                let _ = zip.get(&key, Some(range)).await;
            }
            let _ = zip.get_ranges(&key, &[ByteRange::span(0, 1), ByteRange::Suffix(1)], None).await;
            if let Some(direct) = zip.direct()
                && let Ok(Some(object)) = direct.open(&key)
            {
                object.as_bytes();
                if object.size() < 1 << 20 {
                    let mut all = vec![0; usize::try_from(object.size()).unwrap_or(0)];
                    let _ = object.read_at(0, &mut all);
                }
            }
        }
    }
    Ok(asked)
}

fuzz_target!(init: zaro_fuzz::start(seeds), |data: &[u8]| {
    let store = Arc::new(MemoryStore::new());
    store.put("z", data.to_vec()).expect("a good key");
    let near = block_on(ask(store.clone()));
    let far = block_on(ask(Arc::new(Far(store))));
    assert_eq!(near.is_ok(), far.is_ok());
});
