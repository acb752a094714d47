use super::*;
use futures::TryStreamExt;

fn wait<T>(f: impl Future<Output = T>) -> T {
    futures::FutureExt::now_or_never(f).unwrap()
}

fn map(text: &str) -> JsonMap {
    JsonMap::parse(text.as_bytes(), &[]).unwrap()
}

/// `refs` with a group, so that it is a document of references.
fn refs(members: &str) -> JsonMap {
    map(&format!(r#"{{"version": 1, "refs": {{".zgroup": "{{}}", {members}}}}}"#))
}

fn at(map: &JsonMap, key: &str) -> Option<Location> {
    wait(map.locate(key)).unwrap()
}

fn inline(text: &[u8]) -> Option<Location> {
    Some(Location::Inline(text.to_vec().into()))
}

fn part(url: &str, offset: u64, length: u64) -> Option<Location> {
    Some(Location::Remote(Remote::new(url, Some(Span { offset, length }))))
}

fn whole(url: &str) -> Option<Location> {
    Some(Location::Remote(Remote::new(url, None)))
}

#[test]
fn both_versions_and_every_kind_of_value() {
    let members = r#"
        "a/.zarray": "{\"shape\": [1]}", "a/0": "text \u00e9\u0000", "a/1": "base64:AAE\/", "a/2": ["u"],
        "a/3": ["u", 100, 20], "a/4": {"k": [ 1, NaN ]}, "a/5": [null, 1, 2], "a/6": [null],
        "a/7": ["u", 20.0, 1e3], "a/8": ["u", null, null], "a/9": ["u", 5, 0], "a/10": "base64:AA",
        "a/11": ["v", 18446744073709551614, 1], "a/12": "{{u}}", "a/13": ["{{u}}", 0, 1]"#;
    for document in
        [format!("{{{members}}}"), format!("\n{{ \"refs\" : {{ {members} }} , \"version\" : 1 }} \n")]
    {
        let m = map(&document);
        for (key, wanted) in [
            ("a/.zarray", inline(b"{\"shape\": [1]}")),
            ("a/0", inline("text é\0".as_bytes())),
            ("a/1", inline(&[0, 1, 63])),
            ("a/2", whole("u")),
            ("a/3", part("u", 100, 20)),
            ("a/4", inline(b"{\"k\":[1,NaN]}")),
            ("a/5", part("", 1, 2)),
            ("a/6", whole("")),
            ("a/7", part("u", 20, 1000)),
            ("a/8", whole("u")),
            ("a/9", part("u", 5, 0)),
            ("a/10", inline(&[0])),
            ("a/11", part("v", u64::MAX - 1, 1)),
            // Text is never a template; an address is none where there are no templates.
            ("a/12", inline(b"{{u}}")),
            ("a/13", part("{{u}}", 0, 1)),
            ("a/14", None),
            ("/a/0", None),
        ] {
            assert_eq!(at(&m, key), wanted, "{key}");
        }
        assert_eq!(m.len(), 15);
    }
}

#[test]
fn what_makes_no_sense_is_an_error_of_its_key_alone() {
    for bad in [
        "null",
        "[]",
        "5",
        "true",
        "-1.5",
        "NaN",
        r#"["u", 2]"#,
        r#"["u", 1, 2, 3]"#,
        r#"["u", -1, 2]"#,
        r#"["u", 1, -2]"#,
        r#"["u", "1", 2]"#,
        r#"["u", 1.5, 2]"#,
        r#"["u", null, 2]"#,
        r#"["u", 1, null]"#,
        r#"["u", 1, true]"#,
        r#"[5, 1, 2]"#,
        r#"[["u"], 1, 2]"#,
        r#"[{}]"#,
        r#""base64:@@@""#,
        r#""base64:A""#,
        r#"["u", 18446744073709551615, 2]"#,
        r#"["u", 0, 18446744073709551616]"#,
        r#"["u", NaN, 2]"#,
        r#""\ud800""#,
    ] {
        let m = refs(&format!(r#""v/0": {bad}, "v/1": "good""#));
        assert_eq!(wait(m.locate("v/0")).unwrap_err().kind(), crate::ErrorKind::Invalid, "{bad}");
        assert_eq!(at(&m, "v/1"), inline(b"good"), "{bad}");
        let all: Vec<_> = wait(m.entries("v").map(|e| e.map_err(|e| e.to_string())).collect::<Vec<_>>());
        assert!(all[0].as_ref().unwrap_err().contains("key v/0") && all[1].is_ok(), "{all:?}");
    }
}

#[test]
fn the_last_of_equal_keys_counts() {
    let m = refs(r#""v/0": "a", "v/1": "b", "v/0": ["u", 1, 2], "v/0": "c""#);
    assert_eq!((at(&m, "v/0"), at(&m, "v/1")), (inline(b"c"), inline(b"b")));
    assert_eq!(m.len(), 3);
}

#[test]
fn templates_before_and_after_the_references() {
    let templates = r#""templates": {"u": "s3://b/x.nc", "f": "s3://{{c}}/{{n}}.nc", "n": "7"}"#;
    let members = r#"".zgroup": {}, "v/0": ["{{u}}", 0, 1], "v/1": ["{{ u }}"], "v/2": ["{{f(c='text')}}"],
        "v/3": ["{{gone}}"], "v/4": ["{{"], "v/5": ["s3://b/x.nc"], "v/6": ["{x}"], "v/7": "{{u}}""#;
    for text in [
        format!(r#"{{"version": 1, {templates}, "refs": {{{members}}}}}"#),
        format!(r#"{{"refs": {{{members}}}, {templates}, "version": 1, "other": {{"x": 1}}}}"#),
    ] {
        let m = map(&text);
        assert_eq!(at(&m, "v/0"), part("s3://b/x.nc", 0, 1));
        assert_eq!(at(&m, "v/1"), whole("s3://b/x.nc"));
        assert_eq!(at(&m, "v/2"), whole("s3://text/7.nc"));
        for key in ["v/3", "v/4"] {
            assert!(wait(m.locate(key)).is_err(), "{key}");
        }
        assert_eq!(at(&m, "v/6"), whole("{x}"));
        assert_eq!(at(&m, "v/7"), inline(b"{{u}}"));
        // What is the same once it is made is one address.
        assert_eq!(m.urls().filter(|u| u.is_ok()).count(), 3);
        assert_eq!(at(&m, "other"), None);
    }
    let text = format!(r#"{{"version": 1, {templates}, "refs": {{{members}}}}}"#);
    let over = [("u".to_owned(), "/data/x.nc".to_owned()), ("gone".to_owned(), "here".to_owned())];
    let m = JsonMap::parse(text.as_bytes(), &over).unwrap();
    assert_eq!((at(&m, "v/1"), at(&m, "v/3")), (whole("/data/x.nc"), whole("here")));
}

#[test]
fn rules_make_references_and_replace_those_that_are_written() {
    let m = map(r#"{"version": 1, "templates": {"f": "s3://{{b}}/{{n}}.nc"},
        "gen": [
            {"key": "v/{{i}}.{{j}}", "url": "{{f(b='bkt', n=i)}}", "offset": "{{ 64 + (i*3 + j)*80 }}", "length": "80",
             "dimensions": {"i": {"stop": 2}, "j": [0, 2, 1]}},
            {"key": "w/{{k}}", "url": "x", "dimensions": {"k": {"start": 9, "stop": 2, "step": -3}}},
            {"key": "none/{{k}}", "url": "x", "dimensions": {"k": {"stop": 0}}}
        ],
        "refs": {".zgroup": {}, "v/1.2": "written", "v/9.9": "stays"}}"#);
    assert_eq!(at(&m, "v/0.0"), part("s3://bkt/0.nc", 64, 80));
    assert_eq!(at(&m, "v/1.2"), part("s3://bkt/1.nc", 64 + 5 * 80, 80));
    assert_eq!(at(&m, "v/9.9"), inline(b"stays"));
    assert_eq!((at(&m, "w/9"), at(&m, "w/3"), at(&m, "w/2")), (whole("x"), whole("x"), None));
    assert_eq!(m.len(), 1 + 6 + 1 + 3);
}

#[test]
fn rules_that_make_no_sense_or_too_much_are_refused() {
    let endless = r#"{"key": "{{i}}", "url": "u", "dimensions": {"i": {"stop": 9000000000000000000}, "j": {"stop": 3}}}"#;
    for (rule, kind) in [
        (endless, crate::ErrorKind::Unsupported),
        (r#"{"key": "k", "url": "u"}"#, crate::ErrorKind::Invalid),
        (r#"{"key": "k", "url": "u", "offset": "1", "dimensions": {}}"#, crate::ErrorKind::Invalid),
        (
            r#"{"key": "k", "url": "u", "offset": "-1", "length": "2", "dimensions": {}}"#,
            crate::ErrorKind::Invalid,
        ),
        (
            r#"{"key": "k", "url": "u", "dimensions": {"i": {"stop": 1, "step": 0}}}"#,
            crate::ErrorKind::Invalid,
        ),
        (r#"{"key": "{{zz}}", "url": "u", "dimensions": {"i": {"stop": 1}}}"#, crate::ErrorKind::Invalid),
        ("5", crate::ErrorKind::Invalid),
    ] {
        let text = format!(r#"{{"version": 1, "refs": {{".zgroup": {{}}}}, "gen": [{rule}]}}"#);
        assert_eq!(JsonMap::parse(text.as_bytes(), &[]).unwrap_err().kind(), kind, "{rule}");
    }
}

#[test]
fn documents_that_are_none() {
    for text in [
        "",
        "[]",
        "5",
        "{",
        r#"{"a": 1"#,
        r#"{"a": 1,}"#,
        r#"{"a" 1}"#,
        r#"{"version": 1, "refs": {}} x"#,
        r#"{"version": "1", "refs": {}}"#,
        r#"{"version": 0, "refs": {}}"#,
        r#"{"version": 2, "refs": {}}"#,
        r#"{"version": 1, "refs": []}"#,
        r#"{"version": 1, "templates": 5, "refs": {}}"#,
        r#"{"name": "something", "else": [1, 2]}"#,
        "{\"a\u{ff}\": \"b\"}",
    ] {
        let bytes: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        assert!(JsonMap::parse(&bytes, &[]).is_err(), "{text}");
    }
}

#[test]
fn the_chunk_of_a_scalar_has_three_names() {
    let m = refs(
        r#""a/.zarray": {}, "a/": "A", "b/.zarray": {}, "b/c": "B", "c/.zarray": {}, "c/0": "C", "c/": "x",
        "d/zarr.json": {}, "d/": "D", "e/zarr.json": {}, "e/0": "E", "g/": "no array""#,
    );
    for (key, wanted) in [("a/0", "A"), ("b/0", "B"), ("c/0", "C"), ("d/c", "D"), ("e/c", "E")] {
        assert_eq!(at(&m, key), inline(wanted.as_bytes()), "{key}");
    }
    assert_eq!((at(&m, "g/0"), at(&m, "a/1")), (None, None));
    assert_eq!(wait(m.list("a")).unwrap().objects, [".zarray", "0"]);
    assert_eq!(wait(m.list("")).unwrap().prefixes, ["a", "b", "c", "d", "e", "g"]);
    let keys: Vec<String> = wait(m.entries("c").map_ok(|(k, _)| k).try_collect()).unwrap();
    assert_eq!(keys, ["c/.zarray", "c/0"]);
}

#[test]
fn bytes_may_come_in_any_pieces() {
    let text = r#"{"version": 1, "templates": {"u": "s3://b"}, "refs": {".zgroup": "{}", "long/0": "0123456789abcdef",
        "v/0": ["{{u}}/\u00e9", 12345, 678], "v/1": [null, 1, 2], "w/.zattrs": {"a": [1, "}"]}}, "gen": []}"#;
    let whole = map(text);
    for size in [1, 2, 3, 7, 31] {
        let mut feed = feed::Feed::new();
        for piece in text.as_bytes().chunks(size) {
            feed.push(piece).unwrap();
        }
        let pieces = JsonMap::new(feed.finish(&[]).unwrap()).unwrap();
        for key in [".zgroup", "long/0", "v/0", "v/1", "w/.zattrs"] {
            assert_eq!(at(&pieces, key), at(&whole, key), "{key} in pieces of {size}");
        }
    }
}

#[test]
fn a_short_document_does_not_unpack_to_gigabytes() {
    use std::io::Write as _;
    let inside = vec![b' '; 1 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    (0..512).for_each(|_| gzip.write_all(&inside).unwrap());
    let gzip = gzip.finish().unwrap();
    let mut zstd = Vec::new();
    for _ in 0..512 {
        let mut frame = vec![0; zstd_safe::compress_bound(inside.len())];
        let n = zstd_safe::compress(frame.as_mut_slice(), &inside, 3).unwrap();
        zstd.extend_from_slice(&frame[..n]);
    }
    for bomb in [gzip, zstd] {
        assert!(bomb.len() < 1 << 20);
        let e = JsonMap::parse(&bomb, &[]).unwrap_err();
        assert!(e.to_string().contains("times its size"), "{e}");
    }
}

#[test]
fn gzip_and_zstd_are_known_by_their_first_bytes() {
    use std::io::Write;
    let text = format!(r#"{{".zgroup": {{}}, "v/0": "{}"}}"#, "abc".repeat(50_000));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zstd = vec![0; zstd_safe::compress_bound(text.len())];
    let n = zstd_safe::compress(zstd.as_mut_slice(), text.as_bytes(), 3).unwrap();
    zstd.truncate(n);
    for coded in [gzip, zstd] {
        let m = JsonMap::parse(&coded, &[]).unwrap();
        assert_eq!(at(&m, "v/0"), inline("abc".repeat(50_000).as_bytes()));
        for cut in [coded.len() / 2, coded.len() - 5] {
            assert!(JsonMap::parse(&coded[..cut], &[]).is_err(), "cut at {cut}");
        }
        let mut flipped = coded.clone();
        flipped[coded.len() / 2] ^= 0x55;
        let _ = JsonMap::parse(&flipped, &[]);
    }
}
