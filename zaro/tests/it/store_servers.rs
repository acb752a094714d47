//! Stores on real servers, which `scripts/servers.sh` installs and starts. Without them each test says that it is
//! skipped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use zaro::Context;
use zaro::store::StoreExt as _;

use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use zaro::ErrorKind;
use zaro::internal::wrap::LimitStore;
use zaro::open::open_store;
use zaro::store::{
    ByteRange, CloudStore, Condition, HttpStore, RequestLog, SharedStore, Store, StoreOptions,
};
use zaro::testing::{
    Lists, ZipMaker, count_of, count_up, sample_objects, store_suite, store_suite_listing,
    write_suite_listing,
};

/// The value of a variable that `scripts/servers.sh` sets; says so if it is not set.
fn server(variable: &str) -> Option<String> {
    let value = std::env::var(variable).ok();
    if value.is_none() {
        println!("skipped: {variable} is not set; see scripts/servers.sh");
    }
    value
}

fn options(set: &[(&str, &str)]) -> StoreOptions {
    let mut options = StoreOptions::default();
    for (name, value) in set {
        options.set(name, value).unwrap();
    }
    options
}

type Objects = Vec<(String, Vec<u8>)>;

/// Puts the samples and an archive of them into a new folder below the web servers' root.
fn publish(www: &str) -> (PathBuf, Objects) {
    let dir = tempfile::Builder::new().prefix("t").tempdir_in(www).unwrap().keep();
    std::fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let objects = sample_objects(false);
    for (key, bytes) in &objects {
        let path = dir.join("store").join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    std::fs::write(dir.join("x y.zip"), ZipMaker::default().make(&objects)).unwrap();
    (dir, objects)
}

fn name(dir: &Path) -> &str {
    dir.file_name().unwrap().to_str().unwrap()
}

#[tokio::test]
async fn web_servers() {
    let Some(www) = server("ZARO_TEST_WWW") else { return };
    let (dir, objects) = publish(&www);
    let plain = StoreOptions::default();
    for (variable, lists) in [
        ("ZARO_TEST_NGINX_HTML", Lists::NotHidden),
        ("ZARO_TEST_NGINX_JSON", Lists::NotHidden),
        ("ZARO_TEST_NGINX_PLAIN", Lists::Nothing),
        ("ZARO_TEST_PYTHON", Lists::All),
    ] {
        let Some(host) = server(variable) else { continue };
        let at = format!("{host}/{}", name(&dir));
        // Python's server lets five connections wait; more cost a second each.
        let bare = HttpStore::new(&format!("{at}/store/?token=1"), &plain).unwrap();
        let bare = LimitStore::new(Arc::new(bare), &Context::shared(), &host, 4);
        let opened = open_store(&format!("{at}/store/zarr.json#x"), &plain).await.unwrap();
        for store in [&bare as &dyn Store, &*opened] {
            store_suite_listing(store, &objects, lists).await;
        }
        let zip = open_store(&format!("{at}/x y.zip"), &plain).await.unwrap();
        store_suite(&*zip, &objects).await;
        assert!(zip.is_remote() && zip.direct().is_none());
        let inside = open_store(&format!("{at}/x%20y.zip/a/c"), &plain).await.unwrap();
        assert!(inside.get("0/1", None).await.unwrap().is_some());
        let gone = open_store(&format!("zip+{at}/absent"), &plain).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn over_tls() {
    let (Some(www), Some(host)) = (server("ZARO_TEST_WWW"), server("ZARO_TEST_HTTPS")) else { return };
    let (dir, objects) = publish(&www);
    let plain = StoreOptions::default();
    let store = open_store(&format!("{host}/{}/store", name(&dir)), &plain).await.unwrap();
    store_suite_listing(&*store, &objects, Lists::NotHidden).await;
    // From https to http only if that is allowed.
    let down = format!("{host}/to-http/{}/store", name(&dir));
    let store = open_store(&down, &plain).await.unwrap();
    assert_eq!(store.get("zarr.json", None).await.unwrap_err().kind(), ErrorKind::NotPermitted);
    let store = open_store(&down, &options(&[("allow_http", "true")])).await.unwrap();
    assert!(store.get("zarr.json", None).await.unwrap().is_some());
    // Nobody we trust vouches for the name `localhost`.
    let other = host.replace("127.0.0.1", "localhost");
    let log = Arc::new(RequestLog::new());
    let mut logged = plain.clone();
    logged.log = Some(Arc::clone(&log));
    let error = open_store(&other, &logged).await.unwrap().get("zarr.json", None).await.unwrap_err();
    assert!(error.to_string().contains("certificate is not trusted"), "{error}");
    logged.endpoint = Some(other);
    let error = open_store("s3://b/k", &logged).await.unwrap().get("zarr.json", None).await.unwrap_err();
    assert!(error.to_string().contains("certificate is not trusted"), "{error}");
    assert_eq!(log.requests(), 2, "asking again would not help");
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn a_folder_called_like_an_archive_is_a_folder() {
    let (Some(www), Some(host)) = (server("ZARO_TEST_WWW"), server("ZARO_TEST_NGINX_HTML")) else { return };
    let (dir, objects) = publish(&www);
    std::fs::rename(dir.join("store"), dir.join("store.zip")).unwrap();
    let store =
        open_store(&format!("{host}/{}/store.zip", name(&dir)), &StoreOptions::default()).await.unwrap();
    store_suite_listing(&*store, &objects, Lists::NotHidden).await;
    std::fs::remove_dir_all(dir).unwrap();
}

/// Uploads with the bare client.
async fn upload(client: &dyn ObjectStore, prefix: &str, objects: &Objects) {
    for (key, bytes) in objects {
        let path = object_store::path::Path::parse(format!("{prefix}/{key}")).unwrap();
        client.put(&path, PutPayload::from(bytes.clone())).await.unwrap();
    }
}

fn s3_client(endpoint: &str, bucket: &str) -> impl ObjectStore {
    object_store::aws::AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_bucket_name(bucket)
        .with_access_key_id("zaro")
        .with_secret_access_key("zaro-secret")
        .build()
        .unwrap()
}

/// A prefix nobody used yet.
fn fresh() -> String {
    format!("t{}", std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos())
}

#[tokio::test]
async fn s3_with_a_profile_and_without_a_signature() {
    let Some(endpoint) = server("ZARO_TEST_S3") else { return };
    let prefix = fresh();
    let objects = sample_objects(true);
    for bucket in ["private", "public"] {
        let client = s3_client(&endpoint, bucket);
        upload(&client, &format!("{prefix}/store"), &objects).await;
        let zip = vec![("x.zip".to_owned(), ZipMaker::default().make(&objects))];
        upload(&client, &prefix, &zip).await;
        // What some tools put where a folder would be.
        let marker = object_store::path::Path::parse(format!("{prefix}/store-2/a")).unwrap();
        client.put(&marker, PutPayload::from_static(b"beside")).await.unwrap();
    }
    // The profile gives keys, region and endpoint.
    let profile = options(&[("profile", "zaro-test")]);
    let bare = CloudStore::s3("private", &format!("{prefix}/store"), &profile).unwrap();
    store_suite_listing(&bare, &objects, Lists::Unordered).await;
    let mut logged = profile.clone();
    let log = Arc::new(RequestLog::new());
    logged.log = Some(Arc::clone(&log));
    let store = open_store(&format!("s3://private/{prefix}/store/"), &logged).await.unwrap();
    store_suite_listing(&*store, &objects, Lists::Unordered).await;
    assert!(log.requests() > 0);
    let zip = open_store(&format!("s3://private/{prefix}/x.zip"), &profile).await.unwrap();
    store_suite(&*zip, &objects).await;

    // Nobody signs: the public bucket answers, the private one refuses.
    let nobody = options(&[("endpoint", &endpoint)]);
    let store = open_store(&format!("s3://public/{prefix}/store"), &nobody).await.unwrap();
    store_suite_listing(&*store, &objects, Lists::Unordered).await;
    let store = open_store(&format!("s3://private/{prefix}/store"), &nobody).await.unwrap();
    for error in [
        store.get("zarr.json", None).await.unwrap_err(),
        store.get("absent", None).await.unwrap_err(),
        store.size("zarr.json").await.unwrap_err(),
        store.list("").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotPermitted, "{error}");
        assert!(error.to_string().contains("s3://private"), "{error}");
    }
    assert!(store.get("absent", None).await.unwrap_err().to_string().contains("missing_403"));
    let lenient = options(&[("endpoint", &endpoint), ("missing_403", "true")]);
    let store = open_store(&format!("s3://private/{prefix}/store"), &lenient).await.unwrap();
    assert_eq!(store.get("absent", None).await.unwrap(), None);
    assert_eq!(store.list("").await.unwrap_err().kind(), ErrorKind::NotPermitted);
    // `anonymous` goes unsigned though there is a profile.
    let unsigned = options(&[("profile", "zaro-test"), ("anonymous", "true")]);
    let store = open_store(&format!("s3://public/{prefix}/store"), &unsigned).await.unwrap();
    assert!(store.get("zarr.json", None).await.unwrap().is_some());
    // A bucket that does not exist is not a store full of missing keys.
    let store = open_store("s3://no-such-bucket/x", &profile).await.unwrap();
    assert!(store.get("zarr.json", None).await.is_err_and(|e| e.is_not_found()));
    assert!(store.list("").await.is_err());
}

#[tokio::test]
async fn s3_lists_more_than_a_page() {
    let Some(endpoint) = server("ZARO_TEST_S3") else { return };
    let prefix = fresh();
    let client = s3_client(&endpoint, "private");
    for batch in (0..1100u32).collect::<Vec<_>>().chunks(50) {
        let puts = batch.iter().map(|i| {
            let path = object_store::path::Path::parse(format!("{prefix}/c/{i}")).unwrap();
            let client = &client;
            async move { client.put(&path, PutPayload::from_static(b"x")).await.unwrap() }
        });
        futures::future::join_all(puts).await;
    }
    let store = CloudStore::s3("private", &prefix, &options(&[("profile", "zaro-test")])).unwrap();
    assert_eq!(store.list("c").await.unwrap().objects.len(), 1100);
    assert_eq!(store.list("").await.unwrap().prefixes, ["c"]);
}

/// No server here speaks the dialect of GCS in full; reading, which is plain HTTP, S3's does.
#[tokio::test]
async fn gcs_reads() {
    let Some(endpoint) = server("ZARO_TEST_S3") else { return };
    let prefix = fresh();
    let objects = sample_objects(true);
    upload(&s3_client(&endpoint, "public"), &prefix, &objects).await;
    let nobody = options(&[("endpoint", &endpoint), ("anonymous", "true")]);
    let store = open_store(&format!("gs://public/{prefix}"), &nobody).await.unwrap();
    store_suite_listing(&*store, &objects, Lists::Unordered).await;
}

#[tokio::test]
async fn azure() {
    let Some(endpoint) = server("ZARO_TEST_AZURE") else { return };
    let prefix = fresh();
    let objects = sample_objects(true);
    let client = object_store::azure::MicrosoftAzureBuilder::from_env()
        .with_container_name("zaro")
        .with_endpoint(endpoint.clone())
        .with_allow_http(true)
        .build()
        .unwrap();
    upload(&client, &format!("{prefix}/store"), &objects).await;
    upload(&client, &prefix, &vec![("x.zip".to_owned(), ZipMaker::default().make(&objects))]).await;
    let options = options(&[("endpoint", &endpoint)]);
    let store = open_store(&format!("az://zaro/{prefix}/store"), &options).await.unwrap();
    store_suite(&*store, &objects).await;
    let zip = open_store(&format!("az://zaro/{prefix}/x.zip"), &options).await.unwrap();
    store_suite(&*zip, &objects).await;
    assert_eq!(zip.get("zarr.json", Some(ByteRange::Suffix(1))).await.unwrap().unwrap(), "n");
    let store = open_store("az://nothing/x", &options).await.unwrap();
    assert!(store.get("zarr.json", None).await.is_err_and(|e| e.is_not_found()));
}

/// Eight tasks, each with a store of its own, count in one object.
async fn eight_tasks(make: impl Fn() -> SharedStore) {
    let tasks: Vec<_> = (0..8)
        .map(|worker: u32| {
            let store = make();
            tokio::spawn(async move { count_up(&*store, "deep/count", &worker.to_string(), 25).await })
        })
        .collect();
    let mut refused = 0;
    for task in tasks {
        refused += task.await.unwrap();
    }
    let store = make();
    let last = store.get("deep/count", None).await.unwrap().unwrap();
    println!("{store}: {refused} puts were refused");
    assert_eq!(count_of(&last), 200, "{store}: an increment was lost");
}

async fn opened(uri: &str, options: &StoreOptions) -> SharedStore {
    open_store(uri, options).await.unwrap()
}

async fn written_to(bare: &dyn Store, uri: &str, options: &StoreOptions, lists: Lists) {
    write_suite_listing(bare, true, lists).await;
    write_suite_listing(&*opened(uri, options).await, true, lists).await;
    // Parts.
    let large = bytes::Bytes::from((0..70u32 << 18).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    assert!(bare.put("big", large.clone(), Condition::Always).await.unwrap().is_done());
    assert!(bare.get("big", None).await.unwrap().unwrap() == large);
    bare.delete("big").await.unwrap();
    let store = opened(uri, options).await;
    eight_tasks(|| Arc::clone(&store)).await;
    // More than one bulk request deletes.
    for batch in (0..1100u32).collect::<Vec<_>>().chunks(50) {
        let puts = batch.iter().map(|i| async move {
            bare.put(&format!("many/{i}"), bytes::Bytes::from_static(b"x"), Condition::Always).await.unwrap()
        });
        assert!(futures::future::join_all(puts).await.iter().all(|put| put.is_done()));
    }
    let keys: Vec<_> = futures::TryStreamExt::try_collect(store.keys("many")).await.unwrap();
    assert_eq!(keys.len(), 1100);
    store.delete_prefix("many").await.unwrap();
    let keys: Vec<_> = futures::TryStreamExt::try_collect(store.keys("")).await.unwrap();
    assert!(keys.len() == 1 && keys[0].key == "deep/count", "{keys:?}");
    store.delete_prefix("").await.unwrap();
    let keys: Vec<_> = futures::TryStreamExt::try_collect(store.keys("")).await.unwrap();
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s3_can_be_written_to() {
    let Some(_) = server("ZARO_TEST_S3") else { return };
    let profile = options(&[("profile", "zaro-test")]);
    let prefix = fresh();
    let bare = CloudStore::s3("private", &prefix, &profile).unwrap();
    written_to(&bare, &format!("s3://private/{prefix}"), &profile, Lists::Unordered).await;
    let refused = opened("s3://public/x", &options(&[("profile", "zaro-test"), ("anonymous", "true")])).await;
    let value = || bytes::Bytes::from_static(b"x");
    for error in [
        refused.put("k", value(), Condition::Always).await.unwrap_err(),
        refused.put("k", value(), Condition::Absent).await.unwrap_err(),
        refused.delete("k").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotPermitted, "{error}");
    }
    let nowhere = opened("s3://no-such-bucket/x", &profile).await;
    assert!(nowhere.put("k", value(), Condition::Always).await.is_err_and(|e| e.is_not_found()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn azure_can_be_written_to() {
    let Some(endpoint) = server("ZARO_TEST_AZURE") else { return };
    let prefix = fresh();
    let options = options(&[("endpoint", &endpoint)]);
    let bare = CloudStore::azure(None, "zaro", &prefix, None, &options).unwrap();
    written_to(&bare, &format!("az://zaro/{prefix}"), &options, Lists::All).await;
}

#[tokio::test]
async fn web_servers_cannot_be_written_to() {
    let Some(host) = server("ZARO_TEST_NGINX_HTML") else { return };
    let store = open_store(&host, &StoreOptions::default()).await.unwrap();
    assert!(!store.is_writable());
    let put = store.put("k", bytes::Bytes::new(), Condition::Always).await.unwrap_err();
    assert_eq!(put.kind(), ErrorKind::Unsupported, "{put}");
}

/// An array made in a bucket, written in parts by several threads, copied there in other chunks, resized and deleted.
fn an_array_in(uri: &str, options: &StoreOptions) {
    use zaro::copy::{CopyOptions, Sizes, copy};
    use zaro::hierarchy::{self, Existing};
    use zaro::meta::NewArray;
    use zaro::{OpenOptions, Order, ReadOptions, Selection, Values, WriteOptions, Zarr, blocking::block_on};
    let store = block_on(zaro::open::open_store_for_writing(uri, options)).unwrap();
    let new = NewArray::new(zaro::meta::DataType::UINT8, [16, 40])
        .with_chunks(Some(vec![4, 10]))
        .with_shards(Some(vec![16, 20]));
    let array = block_on(hierarchy::create_array(&store, "a/x", &new, Existing::Refuse)).unwrap();
    std::thread::scope(|s| {
        for row in 0..16u8 {
            let array = &array;
            s.spawn(move || {
                let values: Vec<u8> = (0..40).map(|i| row.wrapping_mul(40).wrapping_add(i)).collect();
                let place = Selection::start_count(&[row.into(), 0], &[1, 40]);
                array
                    .write_slab_blocking(
                        &place,
                        Values::new(values.to_vec(), Order::C),
                        &WriteOptions::default(),
                    )
                    .unwrap();
            });
        }
    });
    let want: Vec<u8> = (0..640u16).map(|i| (i % 256) as u8).collect();
    let all = |path: &str| {
        let zarr = block_on(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap();
        let array = block_on(zarr.array(path)).unwrap();
        array.read_slab_blocking(&Selection::all(), &ReadOptions::default()).unwrap().bytes
    };
    assert!(all("a/x") == want, "sixteen writers of the same two shards");
    let zarr = block_on(Zarr::from_store(store.clone(), OpenOptions::default())).unwrap();
    let other = CopyOptions::default()
        .with_chunks(Some(Sizes::List(vec![16, 3])))
        .with_shards(Some(None))
        .with_verify(true);
    block_on(copy(&zarr, uri, "a", &store, "b", &other)).unwrap();
    assert!(all("b/x") == want);
    block_on(hierarchy::resize(&store, "b/x", &[16, 5])).unwrap();
    block_on(hierarchy::resize(&store, "b/x", &[16, 40])).unwrap();
    let cut: Vec<u8> = want.iter().enumerate().map(|(i, v)| if i % 40 < 5 { *v } else { 0 }).collect();
    assert!(all("b/x") == cut);
    block_on(hierarchy::delete(&store, "")).unwrap();
    assert!(block_on(hierarchy::find(&store, "a/x")).unwrap().is_none());
}

#[test]
fn arrays_live_in_buckets() {
    if server("ZARO_TEST_S3").is_some() {
        an_array_in(&format!("s3://private/{}", fresh()), &options(&[("profile", "zaro-test")]));
    }
    if let Some(endpoint) = server("ZARO_TEST_AZURE") {
        an_array_in(&format!("az://zaro/{}", fresh()), &options(&[("endpoint", &endpoint)]));
    }
}
