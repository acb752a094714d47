//! A conformance suite for reading from stores.
#![allow(clippy::panic, clippy::unwrap_used, reason = "test code says what went wrong by panicking")]

use std::collections::BTreeSet;
use std::fmt::Debug;

use futures::TryStreamExt;

use crate::error::{ErrorKind, Result};
use crate::num::u64_of;
use crate::store::{ByteRange, Entry, GetOptions, ListOptions, Listing, ObjectMeta, Store, StoreExt as _};

/// Objects with difficult keys: prefixes of each other's names, spaces, percent signs, non-ASCII letters; and with
/// empty and large content. With `both`, one key is an object and a prefix at once, which buckets support and file
/// systems do not.
#[must_use]
pub fn sample_objects(both: bool) -> Vec<(String, Vec<u8>)> {
    let large =
        |n: u32| (0..n).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect::<Vec<u8>>();
    let mut out: Vec<(String, Vec<u8>)> = [
        "zarr.json",
        ".zattrs",
        "a/b",
        "a/c/0/0",
        "a/c/0/1",
        "a-b",
        "a.b",
        "a0",
        "ab/c",
        "aa/zarr.json",
        "sp ace/key with space",
        "ünï/çødé",
        "漢字",
        "per%20cent/100%",
        "plus+and&or=",
        "que?ry/ha#sh",
        "semi;colon,comma@at",
        "co:lon",
        "quo'te(s)",
        "UPPER/lower",
        "upper/lower",
    ]
    .iter()
    .enumerate()
    .map(|(i, key)| ((*key).to_owned(), format!("{i}: {key}").into_bytes()))
    .collect();
    out.push(("empty".to_owned(), Vec::new()));
    out.push(("large/object".to_owned(), large(100_000)));
    if both {
        out.push(("a".to_owned(), b"an object and a prefix".to_vec()));
    }
    out
}

/// Checks a store that should contain exactly these objects.
///
/// # Panics
/// If the store violates the contract of the trait.
pub async fn store_suite<K: AsRef<str>, V: AsRef<[u8]>>(store: &dyn Store, expected: &[(K, V)]) {
    store_suite_listing(store, expected, Lists::All).await;
}

/// What a store can list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// All.
    All,
    /// All, but folders in the order of their names without a slash, so that a listing cannot be resumed after every
    /// entry; and, for a while, also prefixes that have become empty: like SeaweedFS.
    Unordered,
    /// All but names that begin with a dot, like the index pages of nginx.
    NotHidden,
    /// None: listing is unsupported.
    Nothing,
}

/// The same for a store that lists only what `lists` says.
///
/// # Panics
/// If the store violates the contract of the trait.
pub async fn store_suite_listing<K: AsRef<str>, V: AsRef<[u8]>>(
    store: &dyn Store,
    expected: &[(K, V)],
    lists: Lists,
) {
    reads(store, expected).await;
    streams(store, expected).await;
    direct(store, expected);
    if lists != Lists::Nothing {
        return listings(store, expected, lists).await;
    }
    for prefix in ["", "a", "nothing/here"] {
        let kind = store.list(prefix).await.map_err(|e| e.kind());
        assert_eq!(kind, Err(ErrorKind::Unsupported), "{store}: list {prefix:?}");
    }
}

/// The ranges to try on an object of `n` bytes; those outside are errors.
fn ranges(n: u64) -> Vec<ByteRange> {
    let span = ByteRange::span;
    let half = n / 2;
    let mut out = vec![
        span(0, n),
        span(0, 0),
        span(n, 0),
        span(0, half),
        span(half, n - half),
        span(half / 2, half),
        span(n.saturating_sub(1), 1),
        span(0, n + 1),
        span(n, 1),
        span(n + 1, 0),
        span(n + 5, 5),
        span(u64::MAX, 2),
        span(2, u64::MAX),
    ];
    out.extend([0, 1, half, n, n + 1, n + 1000, u64::MAX / 2].map(ByteRange::Suffix));
    out.extend([0, 1, half, n, n + 1, n + 1000].map(ByteRange::From));
    out
}

fn part(bytes: &[u8], range: ByteRange) -> Option<&[u8]> {
    let (offset, length) = range.resolve(u64_of(bytes.len())).ok()?;
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start + usize::try_from(length).ok()?)
}

fn same(what: &str, got: Option<&[u8]>, wanted: Option<&[u8]>) {
    assert!(
        got == wanted,
        "{what}: got {:?} bytes, wanted {:?} bytes: {:?} …",
        got.map(<[u8]>::len),
        wanted.map(<[u8]>::len),
        got.map(|g| g.iter().take(20).collect::<Vec<_>>())
    );
}

async fn reads<K: AsRef<str>, V: AsRef<[u8]>>(store: &dyn Store, expected: &[(K, V)]) {
    let keys: BTreeSet<&str> = expected.iter().map(|(k, _)| k.as_ref()).collect();
    for (key, bytes) in expected {
        let (key, bytes) = (key.as_ref(), bytes.as_ref());
        let what = format!("{store}: {key:?}");
        let got = store.get(key, None).await.unwrap_or_else(|e| panic!("{what}: {e:?}"));
        same(&what, got.as_deref(), Some(bytes));
        assert_eq!(store.size(key).await.unwrap(), Some(u64_of(bytes.len())), "{what}: size");
        // The state that was looked up is the state that is read.
        let stat = store.stat(key).await.unwrap().unwrap();
        let of_it = store.get_opts(key, GetOptions::default().of_state(&stat)).await;
        let of_it = of_it.unwrap_or_else(|e| panic!("{what} of the state {stat:?}: {e:?}")).unwrap();
        same(&what, Some(&of_it.bytes), Some(bytes));
        let of_it = store.get_stream(key, GetOptions::default().of_state(&stat)).await;
        let of_it = of_it.unwrap_or_else(|e| panic!("{what} of the state {stat:?}: {e:?}")).unwrap();
        same(&what, Some(&of_it.collect().await.unwrap().bytes), Some(bytes));
        let mut fit = Vec::new();
        for range in ranges(u64_of(bytes.len())) {
            let what = format!("{what} {range:?}");
            let got = store.get(key, Some(range)).await;
            match part(bytes, range) {
                Some(wanted) => {
                    same(&what, got.unwrap_or_else(|e| panic!("{what}: {e:?}")).as_deref(), Some(wanted));
                    fit.push(range);
                }
                None => {
                    let e = got.err().unwrap_or_else(|| panic!("{what}: no error"));
                    assert_eq!(e.kind(), ErrorKind::Invalid, "{what}: {e:?}");
                    // A wrapper may report the key of the inner store.
                    assert!(e.key().is_some_and(|k| k.ends_with(key)), "{what}: the error names the key");
                    assert!(e.store().is_some(), "{what}: the error names the store");
                    assert!(
                        store.get_ranges(key, &[ByteRange::span(0, 0), range], None).await.is_err(),
                        "{what}: among others"
                    );
                }
            }
        }
        // Backwards, so that the order of requests is not the order of the bytes, and twice.
        let asked: Vec<_> = fit.iter().rev().chain(&fit).copied().collect();
        let got = store.get_ranges(key, &asked, None).await;
        let (got, _) = got.unwrap_or_else(|e| panic!("{what}: {e:?}")).unwrap();
        assert_eq!(got.len(), asked.len(), "{what}: as many answers as ranges");
        for (range, got) in asked.iter().zip(got) {
            same(&format!("{what} {range:?} among others"), Some(&got), part(bytes, *range));
        }
        // Missing keys: a longer name, a folder, something below an object.
        let mut absent = vec![format!("{key}.absent"), format!("absent/{key}")];
        absent.extend(key.rsplit_once('/').map(|(folder, _)| folder.to_owned()));
        absent.push(format!("{key}/absent"));
        for missing in absent.iter().filter(|k| !keys.contains(k.as_str())) {
            let what = format!("{store}: {missing:?}");
            is_absent(store.get(missing, None).await, &what);
            is_absent(store.get(missing, Some(ByteRange::Suffix(8))).await, &format!("{what}: suffix"));
            is_absent(store.get(missing, Some(ByteRange::span(3, 0))).await, &format!("{what}: empty range"));
            is_absent(store.size(missing).await, &format!("{what}: size"));
            let both = store.get_ranges(missing, &[ByteRange::span(0, 1), ByteRange::From(2)], None).await;
            is_absent(both, &format!("{what}: ranges"));
        }
    }
    for bad in ["", "/", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a\\b", "a\0"] {
        assert!(store.get(bad, None).await.is_err(), "{store}: {bad:?} is no key");
        assert!(store.size(bad).await.is_err(), "{store}: {bad:?} has no size");
    }
    let all = expected.iter().map(|(k, _)| store.get(k.as_ref(), None));
    let all: Result<Vec<_>> = futures::future::join_all(all).await.into_iter().collect();
    for ((key, bytes), got) in expected.iter().zip(all.unwrap()) {
        same(&format!("{store}: {:?} at once with all", key.as_ref()), got.as_deref(), Some(bytes.as_ref()));
    }
}

/// The same bytes and metadata as without a stream, for all ranges.
async fn streams<K: AsRef<str>, V: AsRef<[u8]>>(store: &dyn Store, expected: &[(K, V)]) {
    for (key, bytes) in expected {
        let (key, bytes) = (key.as_ref(), bytes.as_ref());
        // Each key as a whole; ranges of an empty, a small and a large one.
        let is_tried = matches!(key, "empty" | "zarr.json" | "large/object");
        let ranges = if is_tried { ranges(u64_of(bytes.len())) } else { Vec::new() };
        for range in ranges.into_iter().map(Some).chain([None]) {
            let what = format!("{store}: {key:?} {range:?} as a stream");
            let ask = GetOptions::range(range);
            let wanted = range.map_or(Some(bytes), |range| part(bytes, range));
            // A range outside the object may be reported when the bytes come.
            let got = async {
                let Some(stream) = store.get_stream(key, ask).await? else { return Ok(None) };
                let said = stream.range.clone();
                Ok(Some((stream.collect().await?, said)))
            };
            match (wanted, got.await) {
                (Some(wanted), Ok(Some((object, said)))) => {
                    same(&what, Some(&object.bytes), Some(wanted));
                    let length = said.map_or(u64_of(wanted.len()), |said| said.end - said.start);
                    assert_eq!(length, u64_of(wanted.len()), "{what}: the range it says");
                    let held = store.get_opts(key, ask).await.unwrap().unwrap();
                    assert!(object.meta.agrees(&held.meta), "{what}: {:?}, {:?}", object.meta, held.meta);
                    // For an empty request, a cache may know more than the store.
                    let tells = |meta: &ObjectMeta| (meta.size(), meta.text().is_some());
                    if !wanted.is_empty() {
                        assert_eq!(tells(&object.meta), tells(&held.meta), "{what}: what is known");
                    }
                    let of_it = store.get_stream(key, ask.of_state(&object.meta)).await;
                    same(&what, Some(&of_it.unwrap().unwrap().collect().await.unwrap().bytes), Some(wanted));
                }
                (None, Err(e)) => {
                    let e: crate::Error = e;
                    assert_eq!(e.kind(), ErrorKind::Invalid, "{what}: {e:?}");
                    assert!(e.key().is_some_and(|k| k.ends_with(key)), "{what}: the error names the key");
                    assert!(e.store().is_some(), "{what}: the error names the store");
                }
                (_, other) => panic!("{what}: {other:?}"),
            }
        }
        if let Some(most) = u64_of(bytes.len()).checked_sub(1) {
            let got = async {
                let stream = store.get_stream(key, GetOptions::at_most(most)).await?.unwrap();
                stream.collect().await
            };
            assert!(got.await.is_err(), "{store}: {key:?} as a stream of at most {most} bytes");
        }
        let missing = format!("{key}.absent");
        is_absent(store.get_stream(&missing, GetOptions::default()).await, &format!("{store}: {missing:?}"));
    }
    for bad in ["", "/a", "../a"] {
        assert!(store.get_stream(bad, GetOptions::default()).await.is_err(), "{store}: {bad:?} is no key");
    }
}

async fn listings<K: AsRef<str>, V: AsRef<[u8]>>(store: &dyn Store, expected: &[(K, V)], lists: Lists) {
    let mut folders = BTreeSet::from([String::new(), "absent".to_owned(), "absent/deep er".to_owned()]);
    for (key, _) in expected {
        let mut folder = key.as_ref();
        while let Some((parent, _)) = folder.rsplit_once('/') {
            folders.insert(parent.to_owned());
            folder = parent;
        }
        folders.insert(format!("{}-", key.as_ref()));
    }
    for folder in folders {
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let (mut objects, mut prefixes) = (BTreeSet::new(), BTreeSet::new());
        for rest in expected.iter().filter_map(|(k, _)| k.as_ref().strip_prefix(&start)) {
            match rest.split_once('/') {
                Some((name, _)) => prefixes.insert(name.to_owned()),
                None if lists == Lists::NotHidden && rest.starts_with('.') => false,
                None => objects.insert(rest.to_owned()),
            };
        }
        let wanted =
            Listing { objects: objects.into_iter().collect(), prefixes: prefixes.into_iter().collect() };
        let mut got = store.list(&folder).await.unwrap_or_else(|e| panic!("{store}: list {folder:?}: {e:?}"));
        if lists == Lists::Unordered {
            got.prefixes.retain(|p| wanted.prefixes.contains(p));
        }
        assert_eq!(got, wanted, "{store}: list {folder:?}");
    }
    for recursive in [false, true] {
        if lists == Lists::Unordered {
            break;
        }
        let mut options = ListOptions { recursive, ..ListOptions::default() };
        let all: Vec<Entry> = entries(store, &options).await;
        let cursors: Vec<String> = all.iter().map(Entry::cursor).collect();
        assert!(cursors.is_sorted_by(|a, b| a < b), "{store}: {cursors:?}");
        for (i, cursor) in cursors.into_iter().enumerate() {
            options.after = Some(cursor);
            let left = all.iter().skip(i + 1).cloned().collect::<Vec<_>>();
            assert_eq!(entries(store, &options).await, left, "{store}: {options:?}");
        }
    }
    for bad in ["/", "a/", "..", "a//b"] {
        assert!(store.list(bad).await.is_err(), "{store}: {bad:?} is no prefix");
    }
}

async fn entries(store: &dyn Store, options: &ListOptions) -> Vec<Entry> {
    store.list_opts("", options).try_collect().await.unwrap_or_else(|e| panic!("{store}: {options:?}: {e:?}"))
}

fn direct<K: AsRef<str>, V: AsRef<[u8]>>(store: &dyn Store, expected: &[(K, V)]) {
    let Some(direct) = store.direct() else { return };
    for (key, bytes) in expected {
        let (key, bytes) = (key.as_ref(), bytes.as_ref());
        let what = format!("{store}: {key:?} directly");
        let object = direct.open(key).unwrap().unwrap_or_else(|| panic!("{what}: missing"));
        assert_eq!(object.size(), u64_of(bytes.len()), "{what}: size");
        for range in ranges(u64_of(bytes.len())) {
            let ByteRange::Span { offset, length } = range else { continue };
            let Ok(length) = usize::try_from(length.min(1 << 30)) else { continue };
            let mut buffer = vec![0; length];
            let got = object.read_at(offset, &mut buffer);
            match part(bytes, ByteRange::span(offset, u64_of(length))) {
                Some(wanted) => {
                    got.unwrap_or_else(|e| panic!("{what} {range:?}: {e:?}"));
                    same(&what, Some(&buffer), Some(wanted));
                }
                // An empty read may succeed anywhere.
                None => assert!(got.is_err() || length == 0, "{what}: no error at {range:?}"),
            }
        }
        if let Some(all) = object.as_bytes() {
            same(&what, Some(all), Some(bytes));
        }
        assert!(direct.open(&format!("{key}.absent")).unwrap().is_none(), "{what}: absent");
    }
    assert!(direct.open("../a").is_err(), "{store}: no way out");
}

/// Missing; or a store with folders reports one in place of the object.
fn is_absent<T: Debug>(found: Result<Option<T>>, what: &str) {
    match found {
        Ok(None) => {}
        Err(e) if e.kind() == ErrorKind::Invalid && e.message().contains("found a folder where") => {}
        other => panic!("{what}: {other:?}"),
    }
}
