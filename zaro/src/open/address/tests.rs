use super::*;
use crate::ErrorKind;

fn place(uri: &str) -> StorePlace {
    Address::parse(uri).unwrap().place
}

fn s3(bucket: &str, path: &str, aws: Option<Option<&str>>) -> StorePlace {
    StorePlace::S3 { bucket: bucket.into(), path: path.into(), aws: aws.map(|r| r.map(str::to_owned)) }
}

#[test]
fn what_viewers_and_browsers_add_is_cut_off() {
    for uri in [
        "s3://b/x.zarr",
        "s3://b/x.zarr/",
        "s3://b/x.zarr//",
        "s3://b/x.zarr/zarr.json",
        "s3://b/x.zarr/.zattrs#frag",
        "zarr://s3://b/x.zarr",
        "zarr2://s3://b/x.zarr/.zgroup",
        "s3://b/x.zarr|zarr3:",
        "s3://b/x.zarr/|zarr:",
        " s3://b/x.zarr\n",
    ] {
        assert_eq!(place(uri), s3("b", "x.zarr", None), "{uri}");
    }
    assert_eq!(place("s3://b"), s3("b", "", None));
    assert_eq!(place("s3://b/zarr.json"), s3("b", "", None));
    assert_eq!(place("/data/x.zarr/.zmetadata"), StorePlace::Local("/data/x.zarr".into()));
    assert_eq!(place("file:///da%20ta/x.zarr/"), StorePlace::Local("/da ta/x.zarr".into()));
    assert_eq!(place("/"), StorePlace::Local("/".into()));
    let StorePlace::Http(url) = place("http://h/a%20b/zarr.json?sig=1#x") else { panic!() };
    assert_eq!(url.as_str(), "http://h/a%20b?sig=1");
}

#[test]
fn addresses_of_providers_become_their_buckets() {
    for (uri, expected) in [
        ("https://b.s3.amazonaws.com/x/y", s3("b", "x/y", Some(None))),
        ("https://b.s3.eu-west-1.amazonaws.com/x/y", s3("b", "x/y", Some(Some("eu-west-1")))),
        ("https://b.s3-us-west-2.amazonaws.com/x/y", s3("b", "x/y", Some(Some("us-west-2")))),
        ("https://b.c.s3.dualstack.eu-west-1.amazonaws.com/x/y", s3("b.c", "x/y", Some(Some("eu-west-1")))),
        ("https://s3.amazonaws.com/b/x/y/", s3("b", "x/y", Some(None))),
        ("https://s3.us-east-2.amazonaws.com/b/x%20y", s3("b", "x y", Some(Some("us-east-2")))),
        ("https://storage.googleapis.com/b/x", StorePlace::Gcs { bucket: "b".into(), path: "x".into() }),
        ("https://storage.cloud.google.com/b/x", StorePlace::Gcs { bucket: "b".into(), path: "x".into() }),
        ("https://b.storage.googleapis.com/x", StorePlace::Gcs { bucket: "b".into(), path: "x".into() }),
        ("gcs://b/x", StorePlace::Gcs { bucket: "b".into(), path: "x".into() }),
    ] {
        assert_eq!(place(uri), expected, "{uri}");
    }
    let blob = |account: Option<&str>, sas: Option<&str>| StorePlace::Azure {
        account: account.map(str::to_owned),
        container: "c".into(),
        path: "x".into(),
        sas: sas.map(str::to_owned),
    };
    assert_eq!(place("az://c/x"), blob(None, None));
    assert_eq!(place("abfss://c@acc.dfs.core.windows.net/x"), blob(Some("acc"), None));
    assert_eq!(place("az://acc.blob.core.windows.net/c/x"), blob(Some("acc"), None));
    assert_eq!(
        place("https://acc.blob.core.windows.net/c/x?sv=1&sig=2"),
        blob(Some("acc"), Some("sv=1&sig=2"))
    );
}

#[test]
fn signed_and_other_addresses_stay_what_they_are() {
    for uri in [
        "https://b.s3.amazonaws.com/x?X-Amz-Signature=1",
        "http://b.s3.amazonaws.com/x",
        "https://b.s3-website-us-east-1.amazonaws.com/x",
        "https://b.s3-accelerate.amazonaws.com/x",
        "https://s3.cn-north-1.amazonaws.com.cn/b/x",
        "https://storage.googleapis.com/storage/v1/b/x",
        "https://h.example/s3/x",
        "https://s3.amazonaws.com/",
    ] {
        assert!(matches!(place(uri), StorePlace::Http(_)), "{uri}: {:?}", place(uri));
    }
}

#[test]
fn archives_are_seen_on_the_way() {
    let a = Address::parse("s3://b/d/x.zip/in/side").unwrap();
    let (folder, name, inside) = a.place.archive(a.zip).unwrap();
    assert_eq!((folder, name.as_str(), inside.as_str()), (s3("b", "d", None), "x.zip", "in/side"));
    let a = Address::parse("zip+https://h/d/a%20b?q=1").unwrap();
    let (folder, name, inside) = a.place.archive(a.zip).unwrap();
    assert_eq!((name.as_str(), inside.as_str()), ("a b", ""));
    assert!(matches!(folder, StorePlace::Http(u) if u.as_str() == "https://h/d?q=1"));
    let a = Address::parse("https://h/x.ozx|zip:p/q|zarr3:r").unwrap();
    assert_eq!((a.zip, a.inner.as_str()), (true, "p/q/r"));
    let a = Address::parse("zip://in/side::s3://b/x").unwrap();
    assert_eq!((a.zip, a.inner.as_str(), a.place), (true, "in/side", s3("b", "x", None)));
    assert!(Address::parse("s3://b/x").unwrap().place.archive(false).is_none());
}

#[test]
fn what_is_no_store_says_so() {
    for (uri, kind) in [
        ("", ErrorKind::Usage),
        ("s3://", ErrorKind::Usage),
        ("s3://b/../x", ErrorKind::Usage),
        ("http://", ErrorKind::Usage),
        ("reference+json://", ErrorKind::Usage),
        ("reference://::", ErrorKind::Usage),
        ("ftp://h/x", ErrorKind::Unsupported),
        ("s3://b/x|n5:", ErrorKind::Unsupported),
    ] {
        assert_eq!(Address::parse(uri).unwrap_err().kind(), kind, "{uri}");
    }
}

#[test]
fn a_kind_of_store_may_stand_in_front() {
    for (uri, kind, text) in [
        ("reference+json://x.json", StoreKind::Json, "x.json"),
        ("reference+json:///a/x.json", StoreKind::Json, "/a/x.json"),
        ("reference+json://https://h/x.json", StoreKind::Json, "https://h/x.json"),
        ("reference+parquet://s3://b/x.parq", StoreKind::Parquet, "s3://b/x.parq"),
        ("virtualizarr://x", StoreKind::Reference, "x"),
        ("kerchunk://gs://b/x", StoreKind::Reference, "gs://b/x"),
        ("reference://::s3://b/x.json", StoreKind::Reference, "s3://b/x.json"),
        ("reference::zip://r.json::s3://b/x.zip", StoreKind::Reference, "zip://r.json::s3://b/x.zip"),
        ("icechunk+s3://b/x", StoreKind::Icechunk, "s3://b/x"),
        ("icechunk:///a/b", StoreKind::Icechunk, "/a/b"),
        ("s3://b/x|icechunk:", StoreKind::Icechunk, "s3://b/x|icechunk:"),
        ("manifest+https://h/m.json", StoreKind::Manifest, "https://h/m.json"),
        ("s3://b/x", StoreKind::Any, "s3://b/x"),
    ] {
        let a = Address::parse(uri).unwrap();
        assert_eq!((a.kind, a.text.as_str()), (kind, text), "{uri}");
    }
    let a = Address::parse("manifest+s3://b/m.json::s3://c/d").unwrap();
    assert_eq!((a.place, a.objects.as_deref()), (s3("b", "m.json", None), Some("s3://c/d")));
}

#[test]
fn the_address_of_an_object_is_taken_as_it_is_written() {
    let object = |uri: &str| StorePlace::of_object(uri).unwrap();
    assert_eq!(object("s3://b/x.zarr/.zarray"), Some(s3("b", "x.zarr/.zarray", None)));
    assert_eq!(object("s3://b/a#b%20c?d"), Some(s3("b", "a#b%20c?d", None)));
    assert_eq!(object("gcs://b/k"), Some(StorePlace::Gcs { bucket: "b".into(), path: "k".into() }));
    for uri in ["file:///a/b", "file:/a/b", "/a/b", "file://localhost/a/b", "FILE:///a/b"] {
        assert_eq!(object(uri), Some(StorePlace::Local("/a/b".into())), "{uri}");
    }
    assert_eq!(object("file:///no%20such"), Some(StorePlace::Local("/no such".into())));
    let Some(StorePlace::Http(url)) = object("https://b.s3.amazonaws.com/a%2Bb?versionId=x#f") else {
        panic!()
    };
    assert_eq!(url.as_str(), "https://b.s3.amazonaws.com/a%2Bb?versionId=x");
    for uri in ["a/b.nc", "../x", "a:b", "x/s3://b"] {
        assert_eq!(object(uri), None, "{uri}");
    }
    for uri in ["ftp://h/x", "s3:///x", "file://host/x/../y", "memory://x", "s3://b/a//b"] {
        let found = StorePlace::of_object(uri);
        assert!(found.is_err() || uri.starts_with("file"), "{uri}: {found:?}");
    }
}
