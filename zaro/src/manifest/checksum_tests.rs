#![allow(clippy::indexing_slicing, reason = "these are tests")]

use std::collections::BTreeMap;

use super::*;
use crate::manifest::digest::{Hasher, Hashing};
use crate::manifest::model::{EntryRef, Fields};
use crate::manifest::{Builder, Manifest};

fn md5(bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(Hashing::Whole, 0);
    hasher.update(bytes);
    hasher.finish().to_string()
}

type Leaves = Vec<(String, u64, String)>;

fn leaves<K: Into<String>, V: AsRef<[u8]>>(files: impl IntoIterator<Item = (K, V)>) -> Leaves {
    let leaf = |(k, v): (K, V)| {
        let bytes = v.as_ref();
        (k.into(), bytes.len().try_into().unwrap(), md5(bytes))
    };
    files.into_iter().map(leaf).collect()
}

fn manifest(leaves: &Leaves) -> crate::Result<Manifest> {
    let mut sorted: Vec<_> = leaves.iter().collect();
    sorted.sort();
    let mut builder = Builder::new(Fields { version: false, modified: false, size: true, etag: true });
    for (key, size, etag) in sorted {
        builder.push(key, &EntryRef { size: *size, etag: Some(etag), ..EntryRef::default() })?;
    }
    builder.finish()
}

/// The digest by both ways; and those of all directories.
fn both(leaves: Leaves) -> (String, BTreeMap<String, String>) {
    let by_model = manifest(&leaves).unwrap();
    let digests = by_model.digests().unwrap();
    let mut seen = BTreeMap::from([(String::new(), checksum_of(leaves.clone()).unwrap().to_string())]);
    for (at, path) in leaves.iter().flat_map(|(key, ..)| key.match_indices('/').map(move |(at, _)| (at, key)))
    {
        let dir = &path[..at];
        let inside = |(key, size, etag): &(String, u64, String)| {
            Some((key.strip_prefix(dir)?.strip_prefix('/')?.to_owned(), *size, etag.clone()))
        };
        let digest = checksum_of(leaves.iter().filter_map(inside).collect()).unwrap();
        seen.insert(dir.to_owned(), digest.to_string());
    }
    for (path, digest) in &seen {
        assert_eq!(*digest, digests.of(&by_model.dir(path).unwrap()).to_string(), "{path}");
    }
    assert_eq!((seen.len(), &seen[""]), (by_model.dir_count(), &digests.root().to_string()));
    (seen[""].clone(), seen)
}

fn checksum<const N: usize>(files: [(&str, &[u8]); N]) -> String {
    both(leaves(files)).0
}

#[test]
fn v0_and_v1() {
    assert_eq!(checksum([]), "481a2f77ab786a0f45aafd5db0971caa-0--0");
    assert_eq!(checksum([("zarr.json", b"{}")]), "f0699a280f5de8a2aa0eb26551eb2fa4-1--2");
    assert_eq!(checksum([(".zgroup", b"{\"zarr_format\":2}")]), "ca5ca55d463ccd6adc0b03c8b29995fd-1--17");
    assert_eq!(checksum([("0", b"")]), "4867e9b130073f9a8c13850d94a0c171-1--0");
}

#[test]
fn v2_and_its_directories() {
    let (digest, dirs) = both(leaves([
        (".zgroup", &b"{\"zarr_format\": 2}"[..]),
        ("arr_0/.zarray", b"A0"),
        ("arr_0/0", &[0, 1, 2, 3]),
        ("arr_1/.zarray", b"A1"),
        ("arr_1/0", &[4, 5, 6, 7, 8]),
    ]));
    assert_eq!(digest, "6a2bafb14509195e1a1ee982cb046d23-5--31");
    assert_eq!(dirs["arr_0"], "681a5e0face8c7f493c23bc832526e64-2--6");
    assert_eq!(dirs["arr_1"], "e03cd351db29ec74304aa49a5e29a712-2--7");
}

#[test]
fn v3_deep() {
    let (digest, dirs) = both(leaves([("1/2/3/foo.bar", b"hello\n")]));
    assert_eq!(digest, "06b980f42252bb90aac6c113bb9d1b01-1--6");
    assert_eq!(dirs["1/2/3"], "2b3e731afd9d227534175a4888b1aea9-1--6");
    assert_eq!(dirs["1/2"], "ad205a85f4d1620a617d288276ef8f1c-1--6");
    assert_eq!(dirs["1"], "36b6e2b385ef21a55b76fe789ab33794-1--6");
}

#[test]
fn v4_names_and_their_order() {
    let (digest, dirs) = both(leaves([
        ("é.txt", &b"e"[..]),
        ("日本/語", b"jp"),
        ("\u{1F600}", b"smile"),
        ("\u{FFFD}", b"repl"),
        ("z", b"z"),
    ]));
    assert_eq!(digest, "4938837347f4c8c82e1f38717ef30869-5--13");
    assert_eq!(dirs["日本"], "38980a39fffa9b306b96c916dead6ae8-1--2");
    let odd = [
        ("a\"b", &b"1"[..]),
        ("a\\b", b"2"),
        ("a\tb", b"3"),
        ("a\u{7f}b", b"4"),
        ("a b", b"5"),
        ("a\nb", b"6"),
        ("a\u{1}b", b"7"),
        ("\u{e9}", b"8"),
        ("e\u{301}", b"9"),
        ("a&<>b", b"10"),
    ];
    assert_eq!(checksum(odd), "762e951130ec54f93ecdbd83f2835e47-10--11");
}

#[test]
fn v5_and_directories_that_sort_otherwise_as_keys() {
    let names = ["0", "1", "10", "2", "9", "A", "B", "_", ".z", "-", "a.b", "a0", "a/b"];
    let digest = both(leaves(names.map(|n| (n, n)))).0;
    assert_eq!(digest, "91de6cc19c8e074da2840c394e90887b-13--20");
    // `a.b/` comes before `a/` as a key, and after it as a name.
    both(leaves(["a/x", "a.b/x", "a-/x", "a0/x", "a.b.c/x", "a!"].map(|n| (n, n))));
}

#[test]
fn v6_and_v7_many() {
    let files = (0..10_000).map(|i| (format!("{}/{}/{i}", i % 16, i / 16 % 25), i.to_string()));
    assert_eq!(both(leaves(files)).0, "dce5765dba2ee32046425a6434612d18-10000--38890");
    let files = (0..5000).map(|i| (i.to_string(), "x".repeat(i % 7)));
    assert_eq!(both(leaves(files)).0, "a713b986d835fcf2625caad7a678c282-5000--14995");
}

#[test]
fn v8_a_file_and_a_directory_of_one_name() {
    let files = leaves([("a/b", b"x"), ("a/b/c", b"y")]);
    let e = manifest(&files).unwrap_err();
    assert!(e.message().contains("an entry and a directory") && e.key() == Some("a/b"), "{e}");
    assert_eq!(checksum_of(files).unwrap().to_string(), "5b8e4f12635df773d3cea5c52a4b2e27-2--2");
}

#[test]
fn v9_v10_v13_digests_as_given() {
    let leaf = |key: &str, size, etag: &str| (key.to_owned(), size, etag.to_owned());
    let one = vec![leaf("big", 10_485_760, "d41d8cd98f00b204e9800998ecf8427e-2")];
    assert_eq!(both(one).0, "9b3d56b71a72d863daf48724f6164dd5-1--10485760");
    let two = vec![
        leaf("a/b", 1, "9dd4e461268c8034f5c8564e155c67a6"),
        leaf("c", 1, "415290769594460e2e485922904f345d"),
    ];
    assert_eq!(both(two).0, "26054e501f570a8bfa69a2bc75e7c82d-2--2");
    let zeros = "0".repeat(32);
    let large = (0..3).map(|i| leaf(&format!("d/{i}"), 9_007_199_254_740_993, &zeros)).collect();
    assert_eq!(both(large).0, "1c019bcf8d3b899ede439f8ce1fc0898-3--27021597764222979");
    // Neither an MD5 nor parts: hashed as it is, escapes and all.
    both(vec![leaf("x", 1, "odd \"tag\" é"), leaf("y", 1, ""), leaf("z", 1, &"long".repeat(50))]);
}

#[test]
fn v11_the_text_of_a_directory() {
    let mut json = DIRECTORIES.to_vec();
    let dir = Digest::parse("a7e86136543b019d72468ceebf71fb8e-1--1").unwrap();
    push_dir(&mut json, "a/b", &dir);
    json.extend_from_slice(FILES);
    push_member(&mut json, true, |o| text::push_json(o, "92eb5ffee6ae2fec3ad71c777531578f-1--1"), "b", 1);
    json.extend_from_slice(END);
    let wanted = concat!(
        r#"{"directories":[{"digest":"a7e86136543b019d72468ceebf71fb8e-1--1","name":"a/b","size":1}],"#,
        r#""files":[{"digest":"92eb5ffee6ae2fec3ad71c777531578f-1--1","name":"b","size":1}]}"#
    );
    assert_eq!(String::from_utf8(json.clone()).unwrap(), wanted);
    assert_eq!(md5(&json), "2ed39fd5ae56fd4177c4eb503d163528");
}

#[test]
fn v14_a_million() {
    let files = (0..1_000_000u64).map(|i| {
        let key = format!("0/{}/{}/{}", i / 10_000, i / 100 % 100, i % 100);
        (key, i % 1000, md5(i.to_string().as_bytes()))
    });
    let leaves: Leaves = files.collect();
    let m = manifest(&leaves).unwrap();
    let wanted = "b0a73d24038127434ace0a926c9893ee-1000000--499500000";
    assert_eq!(m.checksum().unwrap().to_string(), wanted);
    assert!(m.memory() <= 70 * m.len(), "{} bytes", m.memory());
    assert_eq!(m.get("0/99/7/31").unwrap().size(), 990_731 % 1000);
    assert!(m.get("0/99/7/100").is_none() && m.get("0/99/7").is_none() && m.get("").is_none());
    assert_eq!(checksum_of(leaves).unwrap().to_string(), wanted);
}

#[test]
fn keys_must_come_in_order() {
    let mut tree = TreeHasher::new();
    tree.push("b/a", 1, "x").unwrap();
    for bad in ["b/a", "a", "b//c", "c/"] {
        assert!(tree.push(bad, 1, "x").is_err(), "{bad}");
    }
}

#[test]
fn a_directory_larger_than_memory_is_meant_to_be() {
    // More than a megabyte of one directory's text goes to the disk in between.
    let files = (0..20_000).map(|i| (format!("{i:05}{}", "é".repeat(20)), i.to_string()));
    both(leaves(files.chain([("00001/x".to_owned(), "y".to_owned())])));
}

#[test]
fn keys_as_the_reference_reads_them() {
    for (key, wanted) in [
        ("a/b", Some("a/b")),
        ("a//b", Some("a/b")),
        ("a/./b", Some("a/b")),
        ("a/", Some("a")),
        ("", None),
        ("/", None),
        ("a/../b", None),
    ] {
        assert_eq!(key_as_path(key).as_deref(), wanted, "{key}");
    }
}
