//! References, versions, checks, statistics and copies.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use zaro::coords::{LabelValues, Lookup, Query};
use zaro::copy::{CopyOptions, Sizes, copy as copy_zarr};
use zaro::hierarchy::Existing;
use zaro::manifest::bucket::{BucketZarr, document_at};
use zaro::manifest::{Digest, LocalOptions, ManifestOptions, Time, of_folder};
use zaro::meta::{Format, Mode, NodeMeta, parse_codecs};
use zaro::open::{SourceOptions, open_references, open_store, open_store_for_writing, open_with};
use zaro::reference::icechunk::{self, Version};
use zaro::reference::{Location, ReferenceStore};
use zaro::stat::StatOptions;
use zaro::store::{SharedStore, StoreOptions};
use zaro::validate::Report;
use zaro::{Error, ErrorKind, OpenOptions, Result, Zarr};

use crate::call::{Call, Stop, wait};
use crate::handles::{self, handle, path_of, source_options, store_options};
use crate::value::{Value, of_json, real};

/// Opens `uri` as it is, or the version of it that the options name.
pub(crate) async fn open_version(
    uri: &str,
    options: &Value,
    source: &SourceOptions,
    opening: &OpenOptions,
) -> Result<Zarr> {
    if let Some(time) = options.text("at_time") {
        let time = Time::parse(time)?;
        return at_time(uri, options.text("zarr"), time, source, opening).await;
    }
    let Some(name) = options.text("at") else { return open_with(uri, source, opening).await };
    if let Some(checksum) = Digest::parse(name) {
        let address = match manifest_of(uri, &checksum) {
            Some(address) if options.text("zarr").is_none() => address,
            _ => {
                let found = listed(uri, options.text("zarr"), &source.store).await?;
                let one = found.into_iter().find(|v| v.checksum == checksum);
                manifest_at(
                    uri,
                    &one.ok_or_else(|| Error::not_found(format!("there is no version {name}")))?.key,
                )
            }
        };
        return open_with(&address, source, opening).await;
    }
    let named = [Version::Branch(name.into()), Version::Tag(name.into()), Version::Snapshot(name.into())];
    for version in named {
        let source = source.clone().with_version(version);
        // Not as a store: one that has no versions would be opened in its present state.
        match open_references(uri, &source).await {
            Ok(store) => return Zarr::from_store(Arc::new(store), opening.clone()).await,
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::NotFound | ErrorKind::Usage | ErrorKind::Unsupported | ErrorKind::Invalid
                ) => {}
            Err(e) => return Err(e),
        }
    }
    Err(Error::not_found(format!("there is no version {name:?}: no branch, tag, snapshot or checksum"))
        .with_store(uri))
}

/// The state at a time: of a versioned bucket, or the newest manifest until then.
async fn at_time(
    uri: &str,
    id: Option<&str>,
    time: Time,
    source: &SourceOptions,
    opening: &OpenOptions,
) -> Result<Zarr> {
    if zaro::open::is_bucket(uri) && id.is_none() {
        let store = open_store(uri, source).await?;
        let (bucket, path) = zaro::open::open_bucket(uri, &source.store)?;
        let zarr = BucketZarr::new(bucket, &path)?;
        let document = document_at(&zarr, time, ManifestOptions::default()).await?;
        let document =
            document.ok_or_else(|| Error::not_found("the Zarr had no objects yet at that time"))?;
        let mut text = Vec::new();
        document.write(&mut text)?;
        let manifest = Arc::new(zaro::manifest::parse(text.as_slice())?);
        let store: SharedStore = Arc::new(zaro::manifest::version_store(uri, manifest, store, true));
        return Zarr::from_store(store, opening.clone()).await;
    }
    let found = listed(uri, id, &source.store).await?;
    // Newest first.
    let one = found.into_iter().find(|v| v.last_modified().is_some_and(|t| t <= time));
    let one =
        one.ok_or_else(|| Error::not_found("there is no version of that time or before").with_store(uri))?;
    open_with(&manifest_at(uri, &one.key), source, opening).await
}

/// The manifests at `uri`.
async fn listed(
    uri: &str,
    id: Option<&str>,
    options: &StoreOptions,
) -> Result<Vec<zaro::manifest::ListedVersion>> {
    let store = open_store_for_writing(uri, options).await?;
    zaro::manifest::versions(&store, id).await
}

fn manifest_at(uri: &str, key: &str) -> String {
    format!("manifest+{}/{key}", uri.trim_end_matches('/'))
}

/// The address of a manifest in the archive that the Zarr `…/zarr/ID` is part of.
fn manifest_of(uri: &str, checksum: &Digest) -> Option<String> {
    let (above, id) = uri.trim_end_matches('/').rsplit_once('/')?;
    let base = above.strip_suffix("zarr").filter(|base| base.is_empty() || base.ends_with('/'))?;
    let key = zaro::manifest::key_of(id, checksum).ok()?;
    Some(format!("manifest+{base}{key}"))
}

/// Says whether a version exists, by opening it.
pub(crate) fn at(call: &Call, args: &Value) -> Result<Value, Stop> {
    handle(call, args)?;
    Ok(true.into())
}

/// The versions of a Zarr: branches and tags of a repository, or manifests.
pub(crate) fn versions(call: &Call, args: &Value) -> Result<Value, Stop> {
    let store = args.get("store");
    let (uri, options) = (store.word("uri")?, store.get("options"));
    let plain = store_options(options)?;
    let rows = call.run(|task| {
        wait(task, async {
            let place = uri.strip_prefix("icechunk+").unwrap_or(uri);
            let raw = match open_store_for_writing(place, &plain).await {
                Ok(store) => store,
                // Read-only addresses.
                Err(_) => {
                    zaro::open::wrapped(Arc::new(zaro::store::HttpStore::new(place, &plain)?), place, &plain)
                }
            };
            if icechunk::is_repository(&raw).await? {
                let found = icechunk::versions(raw).await?;
                let row = |kind: &'static str| {
                    move |n: icechunk::Named| {
                        (kind, n.name, n.snapshot.to_string(), f64::NAN, f64::NAN, f64::NAN)
                    }
                };
                let branches = found.branches.into_iter().map(row("branch"));
                return Ok(branches.chain(found.tags.into_iter().map(row("tag"))).collect());
            }
            let found = zaro::manifest::versions(&raw, options.text("zarr")).await?;
            let row = |v: zaro::manifest::ListedVersion| {
                let time = v.last_modified().map_or(f64::NAN, |t| seconds(&t));
                let (files, size) = v.statistics.as_ref().map_or((f64::NAN, f64::NAN), |s| {
                    (s.entries.map_or(f64::NAN, real), s.total_size.map_or(f64::NAN, real))
                });
                ("manifest", v.key, v.checksum.to_string(), time, files, size)
            };
            Ok::<Vec<_>, Error>(found.into_iter().map(row).collect())
        })
    })?;
    let text = |f: &dyn Fn(&Row) -> String| Value::from(rows.iter().map(f).collect::<Vec<String>>());
    let number = |f: &dyn Fn(&Row) -> f64| Value::Real(rows.iter().map(f).collect());
    Ok(Value::from([
        ("kind", text(&|r| r.0.to_owned())),
        ("name", text(&|r| r.1.clone())),
        ("version", text(&|r| r.2.clone())),
        ("modified", number(&|r| r.3)),
        ("files", number(&|r| r.4)),
        ("size", number(&|r| r.5)),
    ]))
}

type Row = (&'static str, String, String, f64, f64, f64);

fn seconds(t: &Time) -> f64 {
    let millis = t.millis();
    // Times of files and manifests are far below 2^53 milliseconds.
    millis.to_string().parse::<f64>().unwrap_or(f64::NAN) / 1000.0
}

/// The folder of a local address.
fn folder(uri: &str) -> &Path {
    Path::new(uri.strip_prefix("file://").unwrap_or(uri))
}

/// The checksum of a folder, or of the current objects of a bucket.
pub(crate) fn checksum(call: &Call, args: &Value) -> Result<Value, Stop> {
    let store = args.get("store");
    let (uri, options) = (store.word("uri")?, store_options(store.get("options"))?);
    let all = args.flag("all_files");
    let digest = call.run(|task| match zaro::open::is_bucket(uri) {
        true => wait(task, async {
            let (bucket, path) = zaro::open::open_bucket(uri, &options)?;
            zaro::manifest::bucket::checksum(&BucketZarr::new(bucket, &path)?).await
        }),
        false => {
            let local = LocalOptions::default()
                .with_all_files(all)
                .with_context(options.context.clone())
                .with_task(task.clone());
            of_folder(folder(uri), &local)?.checksum()
        }
    })?;
    Ok(digest.to_string().into())
}

/// Records the state of a folder as a manifest: in a file, or in an archive under the name of a Zarr.
pub(crate) fn manifest(call: &Call, args: &Value) -> Result<Value, Stop> {
    let store = args.get("store");
    let uri = store.word("uri")?;
    let to = args.word("to")?.to_owned();
    let id = args.text("zarr").map(str::to_owned);
    let (file, checksum) = call.run(|task| {
        let local = LocalOptions::default().with_context(handles::context()).with_task(task.clone());
        let manifest = of_folder(folder(uri), &local)?;
        let statistics = manifest.statistics()?;
        let checksum = manifest.checksum()?;
        let file = match &id {
            Some(id) => Path::new(&to).join(zaro::manifest::key_of(id, &checksum)?),
            None => Path::new(&to).to_path_buf(),
        };
        zaro::manifest::store_manifest(&file, &checksum, id.is_none(), |out| {
            manifest.write(out, &statistics, &ManifestOptions::default())
        })?;
        Ok((file.display().to_string(), checksum.to_string()))
    })?;
    Ok(Value::from([("file", file.into()), ("checksum", checksum.into())]))
}

/// Statistics of an array.
pub(crate) fn stat(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let json = call.run(|task| {
        let array = handle.array(task, &path)?;
        let options = StatOptions::default().with_task(task.clone());
        Ok(wait(task, zaro::stat::stat(&handle.zarr, &array, &options))?.json())
    })?;
    Ok(of_json(&json))
}

/// Every document against the rules; with `data`, every chunk as well.
pub(crate) fn validate(call: &Call, args: &Value) -> Result<Value, Stop> {
    let store = args.get("store");
    let (uri, path) = (store.word("uri")?, path_of(args)?);
    let (source, opening) = source_options(store.get("options"))?;
    let data = args.flag("data");
    let report = call.run(|task| {
        wait(task, async {
            let opening = opening.with_mode(Mode::Tolerant).with_use_consolidated(false);
            let zarr = match open_with(uri, &source, &opening).await {
                Ok(zarr) => zarr,
                Err(e) => return Report::of_broken_root(&e).ok_or(e),
            };
            match data {
                true => zaro::validate::validate_data(&zarr, &path, task).await,
                false => zaro::validate::validate(&zarr, &path).await,
            }
        })
    })?;
    let text = |f: &dyn Fn(&zaro::meta::Finding) -> String| {
        Value::from(report.findings.iter().map(f).collect::<Vec<String>>())
    };
    Ok(Value::from([
        ("level", text(&|f| f.level.to_string())),
        ("node", text(&|f| f.node.clone())),
        ("field", text(&|f| f.field.clone())),
        ("rule", text(&|f| f.rule.to_owned())),
        ("message", text(&|f| f.message.clone())),
        ("nodes", report.nodes.into()),
        ("chunks", report.chunks.into()),
    ]))
}

/// The chunks of a reference store, one row each.
pub(crate) fn refs(call: &Call, args: &Value) -> Result<Value, Stop> {
    let store = args.get("store");
    let (uri, path) = (store.word("uri")?, path_of(args)?);
    let (source, opening) = source_options(store.get("options"))?;
    let tables = call.run(|task| {
        wait(task, async {
            let store = open_references(uri, &source).await?;
            let opening = opening.with_mode(Mode::Tolerant).with_use_consolidated(false);
            let zarr = Zarr::from_store(Arc::new(store.clone()), opening).await?;
            let mut tables = Vec::new();
            for node in zarr.walk(&path).await? {
                if let NodeMeta::Array(a) = &node.meta {
                    tables.push(chunks(&store, &node.path, a).await?);
                }
            }
            Ok(tables)
        })
    })?;
    let tables = tables.into_iter().map(|t| {
        let n = t.keys.len();
        let columns = (0..t.rank).map(|d| {
            let column = (0..n).filter_map(|i| t.index.get(i)?.get(d)).map(|n| real(*n)).collect();
            let name = t.names.get(d).cloned().flatten().unwrap_or_else(|| format!("dim{d}"));
            (name, Value::Real(column))
        });
        let inline = t.inline.into_iter().map(|b| (String::new(), b.map_or(Value::Null, Value::Raw)));
        let table = Value::from([
            ("key", t.keys.into()),
            ("index", Value::List(columns.collect())),
            ("path", Value::Text(t.urls)),
            ("offset", Value::Real(t.offsets)),
            ("length", Value::Real(t.lengths)),
            ("inline", Value::List(inline.collect())),
        ]);
        (t.path, table)
    });
    Ok(Value::List(tables.collect()))
}

struct Chunks {
    path: String,
    rank: usize,
    names: Vec<Option<String>>,
    keys: Vec<String>,
    index: Vec<Vec<u64>>,
    urls: Vec<Option<String>>,
    offsets: Vec<f64>,
    lengths: Vec<f64>,
    inline: Vec<Option<Vec<u8>>>,
}

async fn chunks(store: &ReferenceStore, path: &str, a: &zaro::meta::ArrayMeta) -> Result<Chunks> {
    let rank = a.shape.len();
    let mut out = Chunks {
        path: path.to_owned(),
        rank,
        names: (0..rank).map(|d| a.dimension_name(d).map(str::to_owned)).collect(),
        keys: Vec::new(),
        index: Vec::new(),
        urls: Vec::new(),
        offsets: Vec::new(),
        lengths: Vec::new(),
        inline: Vec::new(),
    };
    let mut entries = store.map().entries(path);
    while let Some(entry) = entries.next().await {
        let (key, location) = entry?;
        let below = match path.is_empty() {
            true => Some(key.as_str()),
            false => key.strip_prefix(path).and_then(|rest| rest.strip_prefix('/')),
        };
        let Some(index) = below.and_then(|below| a.keys.index(below, rank)) else { continue };
        let (url, offset, length, inline) = match location {
            Location::Inline(bytes) => {
                (None, f64::NAN, real(zaro::internal::text::u64_of(bytes.len())), Some(bytes.to_vec()))
            }
            Location::Remote(remote) => {
                let (offset, length) =
                    remote.span.map_or((f64::NAN, f64::NAN), |s| (real(s.offset), real(s.length)));
                (Some(remote.url.to_string()), offset, length, None)
            }
        };
        out.keys.push(key);
        out.index.push(index);
        out.urls.push(url);
        out.offsets.push(offset);
        out.lengths.push(length);
        out.inline.push(inline);
    }
    Ok(out)
}

/// Copies a hierarchy, or a part of it.
pub(crate) fn copy(call: &Call, args: &Value) -> Result<Value, Stop> {
    let from = handle(call, args)?;
    let path = path_of(args)?;
    let source = args.get("store").word("uri")?;
    let to = args.get("to");
    let (target, to_path) =
        zaro::open::from_the_top(to.word("uri")?, args.text("to_path").unwrap_or_default())?;
    let to_options = store_options(to.get("options"))?;
    let sizes = |name: &str| -> Result<Option<Vec<u64>>> {
        let list = args.wholes(name)?;
        Ok((!list.is_empty()).then_some(list))
    };
    let mut options = CopyOptions::default()
        .with_chunks(sizes("chunks")?.map(Sizes::List))
        .with_shards(sizes("shards")?.map(|s| Some(Sizes::List(s))))
        .with_codecs(args.text("codecs").map(parse_codecs).transpose()?)
        .with_verify(args.flag("verify"))
        .with_context(handles::context())
        .with_query(Query {
            labels: LabelValues::parse(&args.texts("labels"), Lookup::default())?,
            variables: args.texts("variables"),
            ..Query::default()
        });
    options.existing = if args.flag("overwrite") { Existing::Replace } else { Existing::Refuse };
    options.format = match args.number("zarr_format")? {
        Some(2) => Some(Format::V2),
        Some(_) => Some(Format::V3),
        None => None,
    };
    let done = call.run(|task| {
        let options = options.with_task(task.clone());
        wait(task, async {
            let store = open_store_for_writing(&target, &to_options).await?;
            copy_zarr(&from.zarr, source, &path, &store, &to_path, &options).await
        })
    })?;
    handles::forget(&target);
    for note in &done.notes {
        call.warn("copy", note.text.clone());
    }
    Ok(Value::from([
        ("arrays", done.arrays.into()),
        ("groups", done.groups.into()),
        ("bytes", done.bytes.into()),
        ("verbatim", done.verbatim.into()),
    ]))
}
