//! Files of Parquet references: every row can be asked for; an error is as good as an answer.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use zaro::blocking::block_on;
use zaro::internal::reference::from_metadata;
use zaro::store::MemoryStore;
use zaro_fuzz::Seed;

const ZMETADATA: &str = r#"{"metadata":{"v/.zarray":{"shape":[7,5],"chunks":[1,1]}},"record_size":10}"#;

/// The same references as different writers lay them out.
macro_rules! layouts {
    ($($name:literal),*) => {
        vec![$((
            $name.to_owned(),
            include_bytes!(concat!("../../zaro/testdata/parquet/", $name, "/v/refs.0.parq")).to_vec(),
        )),*]
    };
}

fn seeds() -> Vec<Seed> {
    layouts!["fastparquet", "pyarrow", "row_groups", "v2_dictionary", "delta", "split", "floats"]
}

fuzz_target!(init: zaro_fuzz::start(seeds), |data: &[u8]| {
    let store = Arc::new(MemoryStore::new());
    store.put("v/refs.0.parq", data.to_vec()).expect("a good key");
    let map = from_metadata(store, ZMETADATA.as_bytes(), &zaro::Context::shared()).expect("good metadata");
    let _ = block_on(map.list("v"));
    let _ = block_on(map.locate("v/0.3"));
});
