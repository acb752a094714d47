//! A conformance suite for writing to stores.
#![allow(clippy::panic, clippy::unwrap_used, reason = "test code says what went wrong by panicking")]

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::TryStreamExt;

use super::suite::{Lists, sample_objects, store_suite_listing};
use crate::num::u64_of;
use crate::store::{Condition, Put, Store, StoreExt as _};

/// Checks puts and deletes in an empty store, and leaves it empty. `both` as in [`sample_objects`].
///
/// # Panics
/// If the store violates the contract of the trait.
pub async fn write_suite(store: &dyn Store, both: bool) {
    write_suite_listing(store, both, Lists::All).await;
}

/// The same for a store that lists only what `lists` says.
///
/// # Panics
/// If the store violates the contract of the trait.
pub async fn write_suite_listing(store: &dyn Store, both: bool, lists: Lists) {
    assert!(store.is_writable(), "{store}: writable");
    keys_are(store, "", &BTreeMap::new()).await;
    conditions(store).await;
    let objects = sample_objects(both);
    for (key, bytes) in &objects {
        // Twice, the first time something else.
        for value in [b"other".to_vec(), bytes.clone()] {
            let put = store.put(key, value.into(), Condition::Always).await;
            assert_eq!(put.unwrap_or_else(|e| panic!("{store}: put {key:?}: {e:?}")), Put::Done);
        }
    }
    store_suite_listing(store, &objects, lists).await;
    let mut left: BTreeMap<String, Vec<u8>> = objects.iter().cloned().collect();
    for prefix in ["", "a", "a/c", "a/c/0", "ab", "sp ace", "ünï", "per%20cent", "que?ry", "large", "absent"]
    {
        keys_are(store, prefix, &left).await;
    }
    direct(store).await;

    // One by one.
    for key in ["a/c/0/0", "sp ace/key with space", "que?ry/ha#sh", "漢字", "absent", "absent/deep/er"] {
        store.delete(key).await.unwrap_or_else(|e| panic!("{store}: delete {key:?}: {e:?}"));
        left.remove(key);
    }
    store_suite_listing(store, &left.iter().collect::<Vec<_>>(), lists).await;
    // Everything below a prefix: not an object of that name, nor keys that merely begin alike.
    for prefix in ["a", "per%20cent", "absent", "absent/deep", "zarr.json"] {
        store.delete_prefix(prefix).await.unwrap_or_else(|e| panic!("{store}: below {prefix:?}: {e:?}"));
        let start = format!("{prefix}/");
        left.retain(|key, _| !key.starts_with(&start));
    }
    store_suite_listing(store, &left.iter().collect::<Vec<_>>(), lists).await;
    for bad in ["", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a\\b", "a\0"] {
        assert!(store.put(bad, Bytes::new(), Condition::Always).await.is_err(), "{store}: {bad:?} is no key");
        assert!(store.delete(bad).await.is_err(), "{store}: {bad:?} is no key");
        assert!(bad.is_empty() || store.delete_prefix(bad).await.is_err(), "{store}: {bad:?} is no prefix");
    }
    keys_are(store, "", &left).await;
    store.delete_prefix("").await.unwrap();
    keys_are(store, "", &BTreeMap::new()).await;
    if lists == Lists::All {
        assert_eq!(store.list("").await.unwrap(), Default::default(), "{store}: nothing is left");
    }
    // An emptied store can be written to again.
    assert!(store.put("a/b", Bytes::from_static(b"x"), Condition::Always).await.unwrap().is_done());
    store.delete("a/b").await.unwrap();
    keys_are(store, "", &BTreeMap::new()).await;
}

async fn keys_are(store: &dyn Store, prefix: &str, expected: &BTreeMap<String, Vec<u8>>) {
    let start = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    let below = expected.iter().filter(|(k, _)| k.starts_with(&start));
    let wanted: Vec<(String, u64)> = below.map(|(k, v)| (k.clone(), u64_of(v.len()))).collect();
    let got: Vec<_> = store.keys(prefix).try_collect().await.unwrap_or_else(|e| panic!("{store}: {e:?}"));
    let mut got: Vec<(String, u64)> = got.into_iter().map(|entry| (entry.key, entry.size)).collect();
    got.sort();
    assert_eq!(got, wanted, "{store}: keys below {prefix:?}");
}

async fn conditions(store: &dyn Store) {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    for key in ["k", "deep/er/k y"] {
        let what = format!("{store}: {key:?}");
        let is = |wanted: &'static str, when: &'static str| {
            let what = what.clone();
            async move {
                let got = store.get(key, None).await.unwrap();
                assert_eq!(got.as_deref(), Some(wanted.as_bytes()), "{what}: {when}");
            }
        };
        assert!(store.get_for_update(key).await.unwrap().is_none(), "{what}: no tag of nothing");
        assert_eq!(store.put(key, bytes("one"), Condition::Absent).await.unwrap(), Put::Done, "{what}");
        is("one", "after a put").await;
        assert_eq!(store.put(key, bytes("two"), Condition::Absent).await.unwrap(), Put::Refused, "{what}");
        is("one", "after a refused put").await;
        let (content, first) = store.get_for_update(key).await.unwrap().unwrap();
        assert_eq!(content, "one", "{what}: tagged");
        let unchanged = || Condition::Unchanged(first.clone());
        assert_eq!(store.put(key, bytes("three"), unchanged()).await.unwrap(), Put::Done, "{what}");
        is("three", "after an unchanged put").await;
        assert_eq!(store.put(key, bytes("four"), unchanged()).await.unwrap(), Put::Refused, "{what}: twice");
        is("three", "after a second put with one tag").await;
        let (_, second) = store.get_for_update(key).await.unwrap().unwrap();
        assert!(store.put(key, bytes("five"), Condition::Always).await.unwrap().is_done(), "{what}");
        let late = store.put(key, bytes("six"), Condition::Unchanged(second)).await.unwrap();
        assert_eq!(late, Put::Refused, "{what}: after an unconditional put");
        is("five", "after a late put").await;
        let (_, third) = store.get_for_update(key).await.unwrap().unwrap();
        store.delete(key).await.unwrap();
        assert_eq!(store.get(key, None).await.unwrap(), None, "{what}: deleted");
        let gone = store.put(key, bytes("seven"), Condition::Unchanged(third)).await.unwrap();
        assert_eq!(gone, Put::Refused, "{what}: of what is gone");
        assert_eq!(store.get(key, None).await.unwrap(), None, "{what}: still deleted");
    }
}

async fn direct(store: &dyn Store) {
    let Some(direct) = store.direct() else { return };
    let key = "direct/deep/k";
    let is = |wanted: &[u8]| {
        let object = direct.open(key).unwrap().unwrap_or_else(|| panic!("{store}: {key} is missing"));
        let mut got = vec![0; usize::try_from(object.size()).unwrap()];
        object.read_at(0, &mut got).unwrap();
        assert_eq!(got, wanted, "{store}: directly");
        object.meta_for_update().unwrap()
    };
    let many: Vec<&[u8]> = std::iter::repeat_n([b"".as_slice(), b"ab", b"c"], 3000).flatten().collect();
    assert!(direct.put(key, &many, &Condition::Absent).unwrap().is_done(), "{store}: directly");
    assert_eq!(direct.put(key, &[b"x"], &Condition::Absent).unwrap(), Put::Refused, "{store}: directly");
    let first = is(&many.concat());
    assert!(direct.put(key, &[], &Condition::Unchanged(first.clone())).unwrap().is_done());
    is(b"");
    assert_eq!(direct.put(key, &[b"x"], &Condition::Unchanged(first)).unwrap(), Put::Refused);
    // A state read one way is valid the other way.
    let (_, tag) = store.get_for_update(key).await.unwrap().unwrap();
    assert!(direct.put(key, &[b"", b"y", b""], &Condition::Unchanged(tag)).unwrap().is_done());
    let tag = is(b"y");
    let other = store.put(key, Bytes::from_static(b"z"), Condition::Unchanged(tag)).await.unwrap();
    assert!(other.is_done(), "{store}: a direct tag");
    assert!(direct.put("../x", &[], &Condition::Always).is_err() && direct.delete("../x").is_err());
    direct.delete(key).unwrap();
    direct.delete(key).unwrap();
    assert!(direct.open(key).unwrap().is_none() && store.get(key, None).await.unwrap().is_none());
}

/// Adds one to the number behind `key`, `times` times, by reads and conditional puts; returns how often it was refused.
/// Each writer adds its name, so that no two put the same bytes.
///
/// # Panics
/// If the store fails.
pub async fn count_up(store: &dyn Store, key: &str, name: &str, times: u64) -> u64 {
    let mut refused = 0;
    for _ in 0..times {
        loop {
            let (count, when) = match store.get_for_update(key).await.unwrap() {
                Some((bytes, tag)) => (count_of(&bytes), Condition::Unchanged(tag)),
                None => (0, Condition::Absent),
            };
            let value = Bytes::from(format!("{} {name}", count + 1));
            match store.put(key, value, when).await.unwrap() {
                Put::Done => break,
                Put::Refused => refused += 1,
            }
        }
    }
    refused
}

/// The number left by [`count_up`].
///
/// # Panics
/// If there is none.
#[must_use]
pub fn count_of(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
