#![allow(clippy::indexing_slicing, reason = "these are tests")]

use super::*;
use crate::manifest::Builder;

fn entries() -> Vec<(String, EntryRef<'static>)> {
    let time = Time::parse("2022-03-16T02:39:36+00:00").unwrap();
    let keys = ["a!", "a-b/x", "a.b/c", "a.b/c.d", "a/0", "a/1/2/3", "a/9", "b é😀\"", "z/\u{7f}"];
    let mut out: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(i, k)| {
            let entry = EntryRef {
                version: [Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA1"), Some("nu\"ll"), None][i % 3],
                modified: (i != 2)
                    .then(|| Time { seconds: time.seconds + i64::try_from(i).unwrap(), ..time }),
                size: 7,
                etag: [Some("d8f0549d9d6be70f0eb596421fd2c926"), Some("é"), None][i / 3 % 3],
            };
            ((*k).to_owned(), entry)
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

#[test]
fn a_stream_writes_what_a_manifest_writes() {
    for layout in [ManifestLayout::Lines, ManifestLayout::Compact] {
        for schema_version in [None, Some(2)] {
            let options = ManifestOptions { layout, schema_version };
            let entries = entries();
            let mut stream = ManifestStream::new(Fields::ALL, options);
            let mut builder = Builder::new(Fields::ALL);
            for (key, entry) in &entries {
                stream.push(key, entry).unwrap();
                builder.push(key, entry).unwrap();
            }
            let m = builder.finish().unwrap();
            let finished = stream.finish(None).unwrap();
            assert_eq!(finished.statistics, m.statistics().unwrap());
            let mut text = Vec::new();
            let statistics = finished.statistics.clone();
            finished.write(&mut text).unwrap();
            assert_eq!(text, m.to_vec(&statistics, &options).unwrap());
            assert!(text.is_ascii());
            let again = crate::manifest::parse(text.as_slice()).unwrap();
            assert_eq!(*again.stated(), statistics);
            let mut walk = again.walk();
            for (key, entry) in &entries {
                let (k, leaf) = walk.next().unwrap();
                assert_eq!((k, leaf.entry().as_ref()), (key.as_str(), *entry));
            }
            assert!(walk.next().is_none());
        }
    }
}

#[test]
fn a_walk_can_begin_at_any_key() {
    let entry = EntryRef { etag: Some("x"), ..EntryRef::default() };
    let keys = ["a", "a-/x", "a.b/c", "b/0/1", "b/0/2", "b/0.x", "b.c", "b0", "b1/0/0", "c", "日/本"];
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let mut builder = Builder::new(Fields::ALL);
    for key in &sorted {
        builder.push(key, &entry).unwrap();
    }
    let m = builder.finish().unwrap();
    let more =
        ["", "a-", "a-/", "a.b/d", "b/", "b/0", "b/0/", "b/0/15", "b/0/2/x", "b/1", "b1/0", "zz", "日/"];
    for from in keys.iter().chain(&more) {
        let mut walk = m.walk_from(from);
        let mut found = Vec::new();
        while let Some((key, _)) = walk.next() {
            found.push(key.to_owned());
        }
        let wanted: Vec<&str> = sorted.iter().copied().filter(|key| key >= from).collect();
        assert_eq!(found, wanted, "{from}");
    }
}

#[test]
fn a_stream_refuses_what_no_manifest_can_hold() {
    let entry = EntryRef { etag: Some("x"), ..EntryRef::default() };
    for (keys, wanted) in [
        (&["a", "a.b", "a/b"][..], "\"a\" and \"a/b\""),
        (&["a/b", "a/b.c", "a/b/c/d"], "\"a/b\" and \"a/b/c/d\""),
        (&["a/"], "is empty"),
        (&["a//b"], "is empty"),
        (&["a/../b"], "relative path component"),
        (&["b", "a"], "out of order"),
        (&["a", "a"], "twice"),
    ] {
        let mut stream = ManifestStream::new(Fields::ALL, ManifestOptions::default());
        let e = keys.iter().try_for_each(|k| stream.push(k, &entry)).unwrap_err();
        assert!(e.message().contains(wanted), "{keys:?}: {e}");
        assert_eq!(e.key(), keys.last().copied());
    }
    // The same name further down is another name.
    let mut stream = ManifestStream::new(Fields::ALL, ManifestOptions::default());
    for key in ["a", "a.b/a", "b/a/a", "b/aa"] {
        stream.push(key, &entry).unwrap();
    }
}

#[test]
fn deletions_count_as_changes() {
    let late = Time::parse("2030-01-01T00:00:00Z").unwrap();
    let finished = ManifestStream::new(Fields::ALL, ManifestOptions::default()).finish(Some(late)).unwrap();
    assert_eq!(finished.statistics.last_modified, Some(late));
    assert_eq!(finished.checksum, Digest::EMPTY);
}

#[test]
fn keys_out_of_order_are_refused_by_the_builder() {
    let mut builder = Builder::new(Fields::ALL);
    let e = ["a/b", "c/d", "a/e", "z"]
        .iter()
        .try_for_each(|k| builder.push(k, &EntryRef::default()))
        .and_then(|()| builder.finish().map(drop));
    assert!(e.is_err());
}
