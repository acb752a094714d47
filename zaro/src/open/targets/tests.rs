use super::*;
use crate::ErrorKind;

fn targets(place: StorePlace, set: impl FnOnce(&mut SourceOptions)) -> AnyTargets {
    let mut options = SourceOptions::default();
    options.store.anonymous = true;
    options.store.region = Some("us-east-1".to_owned());
    set(&mut options);
    let base = StoreLocation::at(place, &options.store).unwrap();
    let guarded = base.remote;
    AnyTargets::new(base, false, guarded, &options)
}

async fn found(targets: &AnyTargets, url: &str) -> Result<(String, String)> {
    let target = targets.target(&Remote::new(url, None)).await?;
    Ok((target.store.to_string(), target.key))
}

#[cfg(feature = "cloud")]
#[tokio::test]
async fn relative_addresses_stay_in_their_bucket() {
    let s3 = StorePlace::S3 { bucket: "b".into(), path: "x/y".into(), aws: None };
    let t = targets(s3, |_| ());
    let at = |store: &str, key: &str| (store.to_owned(), key.to_owned());
    assert_eq!(found(&t, "a/./b.nc").await.unwrap(), at("s3://b/x/y", "a/b.nc"));
    assert_eq!(found(&t, "a/../b.nc").await.unwrap(), at("s3://b/x/y", "b.nc"));
    assert_eq!(found(&t, "../b.nc").await.unwrap(), at("s3://b", "x/b.nc"));
    assert_eq!(found(&t, "../../../b.nc").await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(found(&t, "s3://c/k/.zarray").await.unwrap(), at("s3://c", "k/.zarray"));
    for local in ["/etc/passwd", "file:///etc/passwd", "file:/etc/passwd", "simplecache::/etc/passwd"] {
        assert_eq!(found(&t, local).await.unwrap_err().kind(), ErrorKind::NotPermitted, "{local}");
    }
}

#[cfg(feature = "cloud")]
#[test]
fn headers_go_to_the_server_of_the_references_and_nowhere_else() {
    let http = StorePlace::Http(url::Url::parse("https://archive.example/refs").unwrap());
    let t = targets(http, |o| {
        o.store.add_header("Authorization: Bearer secret").unwrap();
        o.references.target = Some("https://named.example/file.nc".to_owned());
    });
    assert!(t.may_see_headers("https://archive.example/other/a.nc"));
    assert!(t.may_see_headers("https://named.example/file.nc"));
    for other in [
        "http://archive.example/a.nc",
        "https://archive.example:8443/a.nc",
        "https://archive.example.evil.example/a.nc",
        "https://archive.example@evil.example/a.nc",
        "https://named.example/other.nc",
        "s3://archive.example/a.nc",
    ] {
        assert!(!t.may_see_headers(other), "{other}");
    }
    let local = targets(StorePlace::Local("/data".into()), |_| ());
    assert!(!local.may_see_headers("https://archive.example/a.nc"));
}

#[cfg(feature = "cloud")]
#[tokio::test]
async fn one_store_for_all_objects_that_are_reached_alike() {
    let t = targets(StorePlace::Local("/data".into()), |o| {
        o.store.add_override("s3://b/other:missing_403=true").unwrap();
    });
    let store = async |url: &str| t.target(&Remote::new(url, None)).await.unwrap().store;
    let (one, two) = (store("s3://b/x/1").await, store("s3://b/y/2").await);
    assert!(Arc::ptr_eq(&one, &two));
    assert!(!Arc::ptr_eq(&one, &store("s3://b/other/3").await));
    assert!(!Arc::ptr_eq(&one, &store("s3://c/x/1").await));
    assert!(Arc::ptr_eq(&store("https://h/a/1").await, &store("https://h/b/2%20x").await));
    assert!(!Arc::ptr_eq(&store("https://h/a/1").await, &store("https://h/a/1?v=1").await));
    assert!(Arc::ptr_eq(&store("/x/1").await, &store("file:///y/2").await));
}

#[tokio::test]
async fn references_in_a_folder_look_in_three_places() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["s.parq/v", "s.parq/w"] {
        std::fs::create_dir_all(dir.path().join(path)).unwrap();
    }
    for (path, text) in [("beside.bin", "1"), ("s.parq/inside.bin", "2"), ("s.parq/v/near.bin", "3")] {
        std::fs::write(dir.path().join(path), text).unwrap();
    }
    let t = targets(StorePlace::Local(dir.path().join("s.parq")), |_| ());
    for (url, wanted) in [("beside.bin", "1"), ("inside.bin", "2"), ("near.bin", "3")] {
        let mut remote = Remote::new(url, None);
        remote.near = Some("v".into());
        let target = t.target(&remote).await.unwrap();
        let bytes = target.store.get(&target.key, None).await.unwrap().unwrap();
        assert_eq!(bytes, wanted.as_bytes(), "{url}");
    }
    let mut remote = Remote::new("none.bin", None);
    remote.near = Some("w".into());
    let target = t.target(&remote).await.unwrap();
    assert_eq!(target.store.get(&target.key, None).await.unwrap(), None);
}

#[tokio::test]
async fn a_long_chain_of_addresses_is_refused() {
    let t = targets(StorePlace::Local("/data".into()), |_| ());
    for link in ["zip://x::", "simplecache::", "blockcache::"] {
        let chain = link.repeat(100_000) + "a.zip";
        let e = found(&t, &chain).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Invalid, "{link}");
        assert!(e.to_string().len() < 2000, "{link}");
        assert!(found(&t, &("simplecache::".repeat(3) + "a.zip")).await.is_ok(), "{link}");
    }
}

#[cfg(feature = "cloud")]
#[tokio::test]
async fn a_link_does_not_lead_out_of_the_root() {
    let dir = tempfile::tempdir().unwrap();
    let (root, secret) = (dir.path().join("root"), dir.path().join("secret"));
    std::fs::create_dir_all(root.join("in")).unwrap();
    std::fs::write(&secret, "x").unwrap();
    std::fs::write(root.join("in/file"), "x").unwrap();
    for (to, name) in [("../secret", "file"), ("..", "folder"), ("in/file", "inside")] {
        std::os::unix::fs::symlink(to, root.join(name)).unwrap();
    }
    let options = SourceOptions::default();
    let base = StoreLocation::at(StorePlace::Local(root), &options.store).unwrap();
    let guarded = AnyTargets::new(base.clone(), true, true, &options);
    for out in ["file", "folder/secret", "../secret", "in/../file"] {
        assert_eq!(found(&guarded, out).await.unwrap_err().kind(), ErrorKind::NotPermitted, "{out}");
    }
    for inside in ["in/file", "inside", "none"] {
        assert!(found(&guarded, inside).await.is_ok(), "{inside}");
    }
    // What is of this machine may name what it likes.
    let own = AnyTargets::new(base, true, false, &options);
    assert!(found(&own, "file").await.is_ok());
}

#[cfg(feature = "cloud")]
#[tokio::test]
async fn local_files_do_not_get_into_a_map_of_this_machine_from_elsewhere() {
    use crate::reference::addresses::Addresses;
    let http = || StorePlace::Http(url::Url::parse("https://archive.example/refs").unwrap());
    let locals = ["/etc/passwd", "file:///etc/passwd", "simplecache::/etc/passwd", "zip://x::/a.zip"];
    let to = |set: fn(&mut SourceOptions)| Addresses::new(Arc::new(targets(http(), set)), true);
    for local in locals {
        let e = to(|_| ()).of(&Remote::new(local, None)).await.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotPermitted, "{local}");
        assert!(
            to(|o| o.references.allow_local = true).of(&Remote::new(local, None)).await.is_ok(),
            "{local}"
        );
        let mut moved = to(|_| ()).rebase(local, "s3://b/k").unwrap();
        assert_eq!(&*moved.of(&Remote::new(local, None)).await.unwrap(), "s3://b/k", "{local}");
    }
    assert!(to(|_| ()).of(&Remote::new("s3://b/k", None)).await.is_ok());
}
