use super::*;

fn table(keys: &[&str]) -> ReferenceTable {
    let mut t = ReferenceTable::default();
    for (i, key) in keys.iter().enumerate() {
        t.add(key.as_bytes(), TableEntry::Span { url: 0, offset: u64_of(i), length: 1 }).unwrap();
    }
    t.finish(|_| false).unwrap();
    t
}

fn offset(t: &ReferenceTable, key: &str) -> Option<u64> {
    t.find(key.as_bytes()).map(|e| match e {
        TableEntry::Span { offset, .. } => offset,
        other => panic!("{other:?}"),
    })
}

#[test]
fn numbers_in_names_count_by_value() {
    let names =
        ["", ".zarray", "0", "0.0", "0.2", "0.10", "1.0", "2", "10", "10.1", "100", "a", "a1", "a2", "a10"];
    for (i, a) in names.iter().enumerate() {
        for (j, b) in names.iter().enumerate() {
            assert_eq!(natural(a.as_bytes(), b.as_bytes()), i.cmp(&j), "{a:?} {b:?}");
        }
    }
}

#[test]
fn every_key_is_found_whatever_order_it_came_in() {
    let mut keys: Vec<String> = Vec::new();
    for v in ["a", "b/c", "b", "long/er/path"] {
        for i in 0..13 {
            for j in 0..11 {
                keys.push(format!("{v}/{i}.{j}"));
            }
        }
    }
    for step in [1, 7, 101, 569] {
        let n = keys.len();
        let mixed: Vec<&str> = (0..n).map(|i| keys[i * step % n].as_str()).collect();
        let t = table(&mixed);
        for (i, key) in mixed.iter().enumerate() {
            assert_eq!(offset(&t, key), Some(u64_of(i)), "{key}");
        }
        assert_eq!(t.below(Vec::new()).count(), n);
        assert_eq!(t.below(b"b/".to_vec()).count(), n / 2);
        assert_eq!(offset(&t, "a/13.0"), None);
        assert_eq!(offset(&t, "c/0.0"), None);
    }
    // In the order of their text nothing has to be moved.
    keys.sort();
    let sorted: Vec<&str> = keys.iter().map(String::as_str).collect();
    let t = table(&sorted);
    assert!(t.order.is_empty() && t.textual.iter().all(|x| *x));
    assert!(sorted.iter().enumerate().all(|(i, key)| offset(&t, key) == Some(u64_of(i))));
}

#[test]
fn of_several_with_one_key_the_last_counts() {
    let t = table(&["v/1", "v/0", "v/1", "w/0", "v/1", "w/0"]);
    assert_eq!((offset(&t, "v/1"), offset(&t, "v/0"), offset(&t, "w/0")), (Some(4), Some(1), Some(5)));
    assert_eq!(t.names_in(b"v/").collect::<Vec<_>>(), [b"0", b"1"]);
    assert_eq!(t.below(Vec::new()).count(), 3);
}

#[test]
fn folders_are_listed_once_and_without_what_lies_below() {
    let t = table(&["a/b/c/0", "a/b/d/0", "a-b/0", "a/0", "top", "z/y/x/w", "/odd", "s/"]);
    assert_eq!(t.folders_in(b""), [&b""[..], b"a-b", b"a", b"s", b"z"]);
    assert_eq!(t.folders_in(b"a/"), [b"b"]);
    assert_eq!(t.folders_in(b"a/b/"), [b"c", b"d"]);
    assert_eq!(t.folders_in(b"z/"), [b"y"]);
    assert!(t.folders_in(b"a/b/c/").is_empty() && t.folders_in(b"nothing/").is_empty());
    assert_eq!(t.names_in(b"").collect::<Vec<_>>(), [b"top"]);
    // A key with a slash in front is another key.
    assert_eq!((offset(&t, "odd"), offset(&t, "/odd"), offset(&t, "s/")), (None, Some(6), Some(7)));
}

#[test]
fn what_is_gone_is_left_out() {
    let mut t = ReferenceTable::default();
    for (i, key) in ["a", "b", "c"].iter().enumerate() {
        t.add(key.as_bytes(), TableEntry::Whole { url: u32::try_from(i).unwrap() }).unwrap();
    }
    t.renumber(2, &[7, 8], &[9, 9, 9]);
    t.finish(|i| i == 1).unwrap();
    assert_eq!(t.find(b"b"), None);
    assert_eq!(t.find(b"c"), Some(TableEntry::Whole { url: 9 }));
}
