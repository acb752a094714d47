//! An Icechunk repository with one file forged: the first byte picks which, the rest is its FlatBuffers.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use futures::TryStreamExt;
use libfuzzer_sys::fuzz_target;
use zaro::blocking::block_on;
use zaro::codec::{Codec, CodecRequest, OutputSize};
use zaro::internal::codec::build;
use zaro::meta::DataType;
use zaro::reference::Map;
use zaro::reference::icechunk::{Repository, Version, versions};
use zaro::store::{MemoryStore, StoreExt as _, ZipStore};
use zaro_fuzz::Seed;

const GOOD: &[u8] = include_bytes!("../../zaro/tests/data/icechunk/v2.zip");
const HEADER: usize = 39;

/// The files of a good repository, without compression.
fn files() -> &'static BTreeMap<String, Vec<u8>> {
    static FILES: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let memory = MemoryStore::new();
        memory.put("z", GOOD).expect("a good key");
        let zip = block_on(ZipStore::open(Arc::new(memory), "z")).expect("ours").expect("there");
        let keys: Vec<_> = block_on(zip.keys("").try_collect()).expect("ours");
        let mut out = BTreeMap::new();
        for entry in keys {
            let mut bytes = block_on(zip.get(&entry.key, None)).expect("ours").expect("there").to_vec();
            if !entry.key.starts_with("chunks/") {
                let request =
                    CodecRequest { name: "zstd", config: &[], strict: false, data_type: &DataType::UINT8 };
                let Ok(Codec::Bytes(zstd)) = build(&request) else { unreachable!("a codec of ours") };
                let plain = zstd.decode(&bytes[HEADER..], OutputSize::AtMost(1 << 20)).expect("ours");
                bytes.truncate(HEADER);
                bytes[HEADER - 1] = 0;
                bytes.extend(plain);
            }
            out.insert(entry.key, bytes);
        }
        out
    })
}

/// Those that may be forged.
fn forged() -> Vec<&'static String> {
    files().keys().filter(|k| !k.starts_with("chunks/")).collect()
}

fn seeds() -> Vec<Seed> {
    let one = |(i, key): (usize, &&String)| {
        let mut seed = vec![u8::try_from(i).unwrap_or(0)];
        seed.extend(&files()[*key][HEADER..]);
        (key.replace('/', "-"), seed)
    };
    forged().iter().enumerate().map(one).collect()
}

async fn ask(store: Arc<MemoryStore>) -> zaro::Result<usize> {
    let _ = versions(store.clone()).await;
    let map = Repository::open(store, &Version::default()).await?;
    let _ = map.containers().await;
    let _ = map.list("grp/split/c").await;
    let _ = map.locate("many/c/3").await;
    let entries: Vec<_> = map.entries("").try_collect().await?;
    Ok(entries.len())
}

fuzz_target!(init: zaro_fuzz::start(seeds), |data: &[u8]| {
    let [first, bytes @ ..] = data else { return };
    let Some(key) = forged().get(usize::from(*first)).copied() else { return };
    let store = Arc::new(MemoryStore::new());
    for (name, good) in files() {
        let mut value = good.clone();
        if name == key {
            value.truncate(HEADER);
            value.extend(bytes);
        }
        store.put(name, value).expect("a good key");
    }
    let _ = block_on(ask(store));
});
