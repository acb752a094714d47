//! Listings of versions page by page, at a small server that lists as S3 does: few rows a page, pages that end within the
//! versions of a key, folders counted as rows. And at some that do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zaro::blocking::block_on;

use futures::TryStreamExt;
use zaro::ErrorKind;
use zaro::store::{Bucket, StoreOptions};
use zaro::testing::{TinyReply, TinyServer};

fn bucket(server: &TinyServer) -> Arc<Bucket> {
    let mut options = StoreOptions::default();
    options.anonymous = true;
    options.endpoint = Some(server.url());
    options.retry.first_pause = Duration::from_millis(1);
    Arc::new(Bucket::s3("b", &options).unwrap())
}

/// Rows of a bucket: keys with versions, in the order of S3.
type Rows = Vec<(String, String)>;

fn rows(keys: impl IntoIterator<Item = (String, u32)>) -> Rows {
    let mut keys: Vec<_> = keys.into_iter().collect();
    keys.sort();
    keys.iter().flat_map(|(key, n)| (0..*n).rev().map(|v| (key.clone(), format!("v{v}")))).collect()
}

/// The value of a name in a query, decoded.
fn asked(target: &str, name: &str) -> Option<String> {
    let query = target.split_once('?')?.1;
    let value = query.split('&').find_map(|p| p.strip_prefix(name)?.strip_prefix('='))?;
    let mut out = Vec::new();
    let mut bytes = value.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'%' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b => b,
        });
    }
    Some(String::from_utf8(out).unwrap())
}

/// A page, as S3 would have it.
fn page(rows: &Rows, target: &str, most: usize) -> String {
    let prefix = asked(target, "prefix").unwrap_or_default();
    let delimiter = asked(target, "delimiter").is_some();
    let marker = asked(target, "key-marker");
    let version = asked(target, "version-id-marker");
    let mut seen = version.is_none();
    let (mut body, mut folder, mut count, mut last) = (String::new(), String::new(), 0, None);
    for (key, v) in rows.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        if let Some(marker) = &marker {
            if delimiter && marker.ends_with('/') && key.starts_with(marker.as_str()) {
                continue;
            }
            if key == marker && !seen {
                seen = Some(v) == version.as_ref();
                continue;
            }
            if key < marker || (key == marker && version.is_none()) {
                continue;
            }
        }
        let inside = key[prefix.len()..].split_once('/').filter(|_| delimiter);
        let own = inside.map_or(String::new(), |(name, _)| format!("{prefix}{name}/"));
        if !own.is_empty() && own == folder {
            continue;
        }
        if count == most {
            let (key, version) = last.unwrap();
            let next = format!(
                "<IsTruncated>true</IsTruncated><NextKeyMarker>{key}</NextKeyMarker>\
                 <NextVersionIdMarker>{version}</NextVersionIdMarker>"
            );
            return format!("<ListVersionsResult>{next}{body}</ListVersionsResult>");
        }
        count += 1;
        if own.is_empty() {
            body.push_str(&row(key, v));
            last = Some((key.clone(), v.clone()));
        } else {
            body.push_str(&format!("<CommonPrefixes><Prefix>{own}</Prefix></CommonPrefixes>"));
            last = Some((own.clone(), String::new()));
            folder = own;
        }
    }
    format!("<ListVersionsResult><IsTruncated>false</IsTruncated>{body}</ListVersionsResult>")
}

fn row(key: &str, version: &str) -> String {
    format!(
        "<Version><Key>{key}</Key><VersionId>{version}</VersionId><IsLatest>false</IsLatest><Size>1</Size>\
         <LastModified>2026-11-15T20:02:14Z</LastModified><ETag>\"x\"</ETag></Version>"
    )
}

fn answer(text: impl Into<Vec<u8>>) -> TinyReply {
    TinyReply::Answer(200, Vec::new(), text.into())
}

async fn listed(bucket: &Arc<Bucket>, prefix: &str) -> zaro::Result<Rows> {
    let pages: Vec<_> = bucket.versions(prefix).try_collect().await?;
    Ok(pages.into_iter().flatten().map(|v| (v.key, v.version)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_end_within_the_versions_of_a_key_lose_none() {
    // A document that was overwritten often, beside a folder: the level takes more pages than one.
    let mut keys = vec![("z/zarr.json".to_owned(), 60), ("z/a/0".to_owned(), 1), ("z/m".to_owned(), 9)];
    keys.extend((0..40).map(|i| (format!("z/n/{i}"), 1 + i % 9)));
    keys.extend((0..5).map(|i| (format!("z/n{i}/x/{i}"), 3)));
    let all = rows(keys);
    for most in [1, 2, 3, 7, 10, 50, 1000] {
        let wanted = all.clone();
        let server = TinyServer::start(move |r| answer(page(&wanted, &r.target, most)));
        let found = listed(&bucket(&server), "z/").await.unwrap();
        assert!(found == all, "{} of {} rows with {most} a page", found.len(), all.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_listed_side_by_side() {
    let pause = Duration::from_millis(100);
    let all = rows((0..20).flat_map(|f| (0..60).map(move |i| (format!("z/{f:02}/{i:02}"), 1))));
    let wanted = all.clone();
    let server = TinyServer::start(move |r| {
        std::thread::sleep(pause);
        answer(page(&wanted, &r.target, 10))
    });
    let begun = Instant::now();
    let found = listed(&bucket(&server), "z/").await.unwrap();
    let took = begun.elapsed();
    assert_eq!(found, all);
    let serial = pause * u32::try_from(server.requests()).unwrap();
    assert!(server.requests() <= 124, "{}", server.requests());
    assert!(took * 5 < serial, "{took:?} for what takes {serial:?} one after another");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_turns_in_circles_or_repeats_itself_ends_with_an_error() {
    // Two pages that lead to each other; the same rows behind ever new markers; nothing at all without end.
    let more = |marker: &str, body: &str| {
        format!(
            "<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>{marker}</NextKeyMarker>\
             <NextVersionIdMarker>v</NextVersionIdMarker>{body}</ListVersionsResult>"
        )
    };
    for case in ["circle", "rows", "empty", "twice", "foreign", "both"] {
        let number = AtomicU64::new(0);
        let server = TinyServer::start(move |r| {
            let n = number.fetch_add(1, Ordering::Relaxed);
            let at = asked(&r.target, "key-marker").unwrap_or_default();
            answer(match case {
                "circle" if at == "b" => more("a", &row("c", "v")),
                "circle" => more("b", &row(&format!("d{n}"), "v")),
                "rows" => more(&format!("m{n}"), &row("k", "v")),
                "empty" => more(&format!("m{n}"), ""),
                "twice" => more(&format!("m{n}"), &format!("{}{}", row("k", "v"), row("k", "v"))),
                "foreign" => more(&format!("m{n}"), &row("elsewhere", "v")),
                _ => more(
                    &format!("m{n}"),
                    &format!("<CommonPrefixes><Prefix>f/</Prefix></CommonPrefixes>{}", row("f/0", "v")),
                ),
            })
        });
        let prefix = if case == "foreign" { "k" } else { "" };
        let error = listed(&bucket(&server), prefix).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{case}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_is_refused_half_way_is_an_error() {
    let all = rows((0..9).flat_map(|f| (0..30).map(move |i| (format!("z/{f}/{i:02}"), 1))));
    for refused in ["z%2F5%2F", "key-marker=z%2F7", "delimiter"] {
        let wanted = all.clone();
        let server = TinyServer::start(move |r| match r.target.contains(refused) {
            true => TinyReply::status(403),
            false => answer(page(&wanted, &r.target, 10)),
        });
        let error = listed(&bucket(&server), "z/").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotPermitted, "{refused}: {error}");
    }
}

#[tokio::test]
async fn folders_of_deleted_objects_are_folders_too() {
    let server = TinyServer::start(|r| {
        let folder = |f: &str| format!("<CommonPrefixes><Prefix>zarr/{f}/</Prefix></CommonPrefixes>");
        answer(match r.target.contains("versions=") {
            true => format!("<ListVersionsResult>{}{}</ListVersionsResult>", folder("gone"), folder("here")),
            false => format!("<ListBucketResult>{}</ListBucketResult>", folder("here")),
        })
    });
    let bucket = bucket(&server);
    assert_eq!(bucket.folders("zarr/").await.unwrap(), ["here"]);
    assert_eq!(bucket.folders_ever("zarr/").await.unwrap(), ["gone", "here"]);
}

#[tokio::test]
async fn a_put_that_is_answered_with_an_error_is_none_whatever_its_status() {
    let server = TinyServer::start(|r| match r.number {
        1 => answer("<Error><Code>InternalError</Code></Error>"),
        _ => TinyReply::status(200),
    });
    assert!(self::bucket(&server).put("k", "x".into(), &[], false).await.unwrap().is_done());
    assert_eq!(server.requests(), 2);
    // All is well, it says, but not what was put.
    let server = TinyServer::start(|r| match r.number {
        1 => TinyReply::with_header(200, "etag", ""),
        _ => TinyReply::status(200),
    });
    assert!(self::bucket(&server).put("k", "x".into(), &[], false).await.unwrap().is_done());
    assert_eq!(server.requests(), 2);
    // Tags are not confirmed by one, but their refusal may come late as well.
    let server = TinyServer::start(|r| match r.number {
        1 => answer("<Error><Code>InternalError</Code></Error>"),
        _ => TinyReply::status(200),
    });
    assert!(self::bucket(&server).set_tags("k", None, &[]).await.unwrap());
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn a_server_that_has_answered_once_is_given_time() {
    // Away for longer than a stranger would be waited for.
    let server = TinyServer::start(|r| match r.number {
        2..=12 => TinyReply::status(503),
        _ => answer("<ListVersionsResult></ListVersionsResult>"),
    });
    let known = bucket(&server);
    assert!(listed(&known, "a").await.unwrap().is_empty());
    assert!(listed(&known, "b").await.unwrap().is_empty());
    let server = TinyServer::start(|_| TinyReply::status(503));
    let error = listed(&bucket(&server), "a").await.unwrap_err();
    assert!(error.to_string().contains("6 attempts"), "{error}");
}

#[tokio::test]
async fn whether_a_bucket_keeps_versions() {
    use zaro::store::Versioning;
    for (text, wanted) in [
        (
            "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
            Some(Versioning::Enabled),
        ),
        (
            "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
            Some(Versioning::Suspended),
        ),
        ("<VersioningConfiguration xmlns=\"x\"/>", Some(Versioning::Never)),
        ("hello", None),
    ] {
        let server = TinyServer::start(move |_| answer(text));
        assert_eq!(bucket(&server).keeps_versions().await.unwrap(), wanted, "{text}");
    }
    let server = TinyServer::start(|_| TinyReply::status(403));
    assert_eq!(bucket(&server).keeps_versions().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_fetched_whole_from_a_bucket_is_no_zarr() {
    use zaro::manifest::FetchOptions;
    use zaro::manifest::bucket::BucketZarr;
    use zaro::manifest::{Builder, Entry, Fields};
    use zaro::manifest::{Fetched, fetch};
    const CHUNKS: [&str; 3] = ["a/c/0", "a/c/1", "zzz/c/0"];
    let serving = |refused: &'static str| {
        TinyServer::start(move |r| match r.target.contains(refused) {
            true => TinyReply::status(403),
            false => TinyReply::Object(b"{}".to_vec()),
        })
    };
    let documents = ["zarr.json", "a/zarr.json", "zzz/zarr.json"];
    let entries = documents.iter().chain(&CHUNKS).copied();
    let mut builder = Builder::new(Fields { version: false, modified: false, size: true, etag: false });
    let mut keys: Vec<&str> = entries.collect();
    keys.sort_unstable();
    for key in &keys {
        builder.push(key, &Entry { size: 2, ..Entry::default() }.as_ref()).unwrap();
    }
    let manifest = builder.finish().unwrap();
    for refused in CHUNKS.into_iter().chain(["zzz/zarr.json"]) {
        let server = serving(refused);
        let zarr = BucketZarr::new(bucket(&server), "zarr/abcdef").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let done = Fetched::default();
        let into = folder.path().to_owned();
        let existing = zaro::hierarchy::Existing::Refuse;
        let options =
            FetchOptions::default().with_existing(existing).with_at_once(4).with_task(zaro::Task::default());
        let fetched = block_on(fetch(&manifest, &zarr, &into, &|_| true, &options, &done));
        assert!(fetched.is_err(), "{refused}");
        assert!(!into.join("zarr.json").exists(), "{refused} was not fetched, and the Zarr can be opened");
        let chunk = CHUNKS.contains(&refused);
        assert!(!chunk || documents.iter().all(|d| !into.join(d).exists()), "{refused}");
    }
}

/// What an S3 Inventory of the bucket `b` says, of one Zarr.
fn inventory(folder: &std::path::Path) -> zaro::manifest::bucket::Inventory {
    let columns = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag";
    let line = r#""b","zarr/abcdef/zarr.json","v1","true","false","2","2026-11-15T20:02:14.000Z","d41d8cd98f00b204e9800998ecf8427e""#;
    let file = folder.join("part.csv");
    std::fs::write(&file, format!("{line}\n")).unwrap();
    zaro::manifest::bucket::Inventory::open(&file, Some(columns)).unwrap()
}

#[tokio::test]
async fn an_inventory_without_the_zarr_is_refused() {
    use zaro::manifest::bucket::{BucketZarr, CreateOptions, ListingSource, create};
    let server = TinyServer::start(|_| TinyReply::status(500));
    let folder = tempfile::tempdir().unwrap();
    let options = CreateOptions::default().with_source(ListingSource::Inventory(inventory(folder.path())));
    let make = |id: &str| BucketZarr::new(bucket(&server), &format!("zarr/{id}")).unwrap();
    assert!(create(&make("abcdef"), &options).await.is_ok());
    // No manifest of nothing, also not of what only begins so.
    for other in ["abcdeg", "abcde", "abcdef/zarr"] {
        let error = create(&make(other), &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{other}: {error}");
        assert!(error.to_string().contains("inventory does not contain"), "{other}: {error}");
    }
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn manifests_lie_by_the_letters_of_an_id() {
    use zaro::manifest::bucket::BucketZarr;
    let server = TinyServer::start(|_| TinyReply::status(500));
    let place = |path: &str| BucketZarr::new(bucket(&server), path).unwrap().manifests().map(str::to_owned);
    assert_eq!(place("zarr/0123456").unwrap(), "zarr-manifest/012/345/0123456/");
    assert_eq!(place("x/zarr/ünïcödé").unwrap(), "x/zarr-manifest/ünï/cöd/ünïcödé/");
    for short in ["zarr/abc", "zarr/äöüäö", "other/0123456"] {
        let error = place(short).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("six or more characters"), "{error}");
    }
}
