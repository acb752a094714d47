//! What a Zarr holds: metadata, nodes, keys, coordinates, selections by value.

use futures::StreamExt as _;
use zaro::coords::{DatasetSummary, LabelValues, Lookup, MatchMethod, indexes};
use zaro::internal::describe;
use zaro::internal::path::{ancestors, join};
use zaro::meta::{ArrayMeta, NodeMeta};
use zaro::store::{ListOptions, StoreExt as _};
use zaro::{Array, Error, Index, Node, Result};

use crate::call::{Call, Stop, wait};
use crate::handles::{self, Handle, handle, path_of, shape};
use crate::value::{Value, of_json, real};

/// Opens a Zarr, even if it is open already, and says what is at its root.
pub(crate) fn open(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handles::open(call, args.get("store"), true)?;
    let zarr = &handle.zarr;
    let root = call.run(|task| wait(task, zarr.node("")));
    let format = match &root {
        Ok(node) => Value::from(u64::from(node.meta.format().number())),
        Err(_) => Value::Null,
    };
    Ok(Value::from([
        ("name", zaro::redacted(&zarr.store().to_string()).into_owned().into()),
        ("remote", zarr.store().is_remote().into()),
        ("consolidated", zarr.is_consolidated().into()),
        ("referenced", zarr.is_referenced().into()),
        ("format", format),
        ("snapshot", call.run(|task| wait(task, snapshot(args.get("store"))))?.into()),
    ]))
}

/// The snapshot that a branch of an Icechunk repository names now; `None` for anything else.
async fn snapshot(store: &Value) -> Result<Option<String>> {
    let options = store.get("options");
    let fixed = ["tag", "snapshot", "at_time", "root"].iter().any(|name| options.text(name).is_some());
    let uri = store.word("uri")?;
    let place = uri.strip_prefix("icechunk+").unwrap_or(uri);
    if fixed || place.contains("+") {
        return Ok(None);
    }
    let plain = handles::store_options(options)?;
    // Whatever cannot be looked at is not a repository that could be pinned.
    let Ok(raw) = zaro::open::open_store_for_writing(place, &plain).await else { return Ok(None) };
    if !matches!(zaro::reference::icechunk::is_repository(&raw).await, Ok(true)) {
        return Ok(None);
    }
    let name = options.text("branch").or(options.text("at")).unwrap_or("main");
    let found = zaro::reference::icechunk::versions(raw).await?;
    Ok(found.branches.into_iter().find(|b| b.name == name).map(|b| b.snapshot.to_string()))
}

/// The metadata of a node as R has them.
fn described(node: &Node) -> Value {
    let mut out = vec![
        ("path".to_owned(), Value::from(node.path.as_str())),
        ("zarr_format".to_owned(), Value::Int(vec![node.meta.format().number().into()])),
        ("node_type".to_owned(), node.meta.kind().into()),
    ];
    let document = match &node.meta {
        NodeMeta::Array(a) => &a.document,
        NodeMeta::Group(g) => &g.document,
    };
    let mut attributes = node.meta.attributes().clone();
    if matches!(&node.meta, NodeMeta::Array(_)) {
        attributes.remove("_ARRAY_DIMENSIONS");
    }
    if let NodeMeta::Array(a) = &node.meta {
        out.extend(array_parts(node, a));
    }
    out.push(("attributes".to_owned(), of_json(&attributes)));
    out.push(("raw_meta".to_owned(), of_json(document)));
    Value::List(out)
}

fn array_parts(node: &Node, a: &ArrayMeta) -> Vec<(String, Value)> {
    let model = describe::node(node);
    let part = |name: &str| model.get(name).map_or(Value::Null, of_json);
    let names = a.dimension_names.as_ref().map(|names| Value::Text(names.clone()));
    let stored = a.grid.largest();
    let inner = a.inner_chunks();
    let shard = inner.as_ref().map(|_| shape(&stored));
    let named = |name: &str, value: Value| (name.to_owned(), value);
    vec![
        named("shape", shape(&a.shape)),
        named("data_type", zaro::internal::dtype::for_people(&a.data_type).into()),
        named("chunk_shape", shape(&inner.unwrap_or(stored))),
        named("shard_shape", shard.unwrap_or_default()),
        named("codecs", part("codecs")),
        named("codec_names", describe::codec_names(&a.codecs).into()),
        named("storage", describe::storage(a).into()),
        named("fill_value", part("fill_value")),
        named("dimension_names", names.unwrap_or_default()),
        named("chunk_key_sep", a.keys.separator.to_string().into()),
        named("size", byte_size(a).into()),
        named("size_text", describe::size_text(a).into()),
    ]
}

fn byte_size(a: &ArrayMeta) -> f64 {
    real(u64::try_from(describe::byte_size(a)).unwrap_or(u64::MAX))
}

/// The metadata of one node; with `children`, also those of all nodes below it.
pub(crate) fn node(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let below = args.flag("below");
    let (node, below) = call.run(|task| {
        wait(task, async {
            let node = handle.zarr.node(&path).await?;
            // Many requests would be needed otherwise.
            let cheap = handle.zarr.is_consolidated()
                || handle.zarr.is_referenced()
                || !handle.zarr.store().is_remote();
            let below = match below && cheap && node.meta.kind() == "group" {
                true => handle.zarr.walk(&path).await?,
                false => Vec::new(),
            };
            Ok((node, below))
        })
    })?;
    warn_damaged(call, &handle);
    for finding in &node.findings {
        if !(handle.zarr.is_referenced() && finding.rule == "json") {
            call.warn("finding", finding.to_string());
        }
    }
    let below = below.iter().filter(|n| n.path != path).map(|n| (n.path.clone(), described(n))).collect();
    Ok(Value::from([
        ("node", described(&node)),
        ("below", Value::List(below)),
        ("consolidated", handle.zarr.is_consolidated().into()),
    ]))
}

fn warn_damaged(call: &Call, handle: &Handle) {
    for e in handle.zarr.take_damaged() {
        call.warn("damaged", format!("skipped: {e}"));
    }
}

/// The nodes below a path, in a table.
pub(crate) fn nodes(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let recursive = args.flag("recursive");
    let nodes = call.run(|task| {
        wait(task, async {
            match recursive {
                true => handle.zarr.walk(&path).await,
                false => handle.zarr.children(&path).await,
            }
        })
    })?;
    warn_damaged(call, &handle);
    let nodes: Vec<&Node> = nodes.iter().filter(|n| n.path != path).collect();
    let text = |f: &dyn Fn(&Node) -> Option<String>| Value::Text(nodes.iter().map(|n| f(n)).collect());
    let array = |n: &Node| match &n.meta {
        NodeMeta::Array(a) => Some(a.clone()),
        NodeMeta::Group(_) => None,
    };
    let shapes = nodes.iter().map(|n| (String::new(), array(n).map(|a| shape(&a.shape)).unwrap_or_default()));
    Ok(Value::from([
        ("path", text(&|n| Some(n.path.clone()))),
        ("kind", text(&|n| Some(n.meta.kind().to_owned()))),
        ("data_type", text(&|n| array(n).map(|a| zaro::internal::dtype::for_people(&a.data_type)))),
        (
            "dims",
            text(&|n| {
                array(n).map(|a| {
                    zaro::format::shape_text(
                        &a.shape,
                        a.dimension_names.as_deref().unwrap_or(&vec![None; a.shape.len()]),
                    )
                })
            }),
        ),
        ("size", Value::Real(nodes.iter().map(|n| array(n).map_or(f64::NAN, |a| byte_size(&a))).collect())),
        ("shape", Value::List(shapes.collect())),
    ]))
}

/// The keys of the store below a prefix.
pub(crate) fn keys(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let prefix = path_of(args)?;
    let recursive = args.flag("recursive");
    let keys = call.run(|task| {
        wait(task, async {
            let options = ListOptions::default().with_recursive(recursive);
            let mut entries = handle.zarr.store().list_opts(&prefix, &options);
            let mut keys = Vec::new();
            while let Some(entry) = entries.next().await {
                keys.push(entry?.path().to_owned());
            }
            Ok(keys)
        })
    })?;
    Ok(keys.into())
}

/// The bytes of one key; NULL if it does not exist.
pub(crate) fn get(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let key = args.word("key")?;
    let bytes = call.run(|task| wait(task, handle.zarr.store().get(key, None)))?;
    Ok(bytes.map_or(Value::Null, |b| Value::Raw(b.to_vec())))
}

/// The path of the coordinate of each dimension, beside the array or above it; NA where there is none.
pub(crate) fn coordinates(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let found = call.run(|task| {
        let array = handle.array(task, &path)?;
        let names: Vec<Option<String>> =
            (0..array.shape().len()).map(|d| array.meta().dimension_name(d).map(str::to_owned)).collect();
        wait(task, async {
            let mut found = Vec::new();
            for (name, extent) in names.iter().zip(array.shape()) {
                found.push(match name {
                    Some(name) => coordinate(&handle, &array, name, *extent).await?,
                    None => None,
                });
            }
            Ok(found)
        })
    })?;
    Ok(Value::Text(found))
}

async fn coordinate(handle: &Handle, array: &Array, name: &str, extent: u64) -> Result<Option<String>> {
    let mut groups: Vec<&str> = ancestors(array.path());
    groups.sort_by_key(|g| std::cmp::Reverse(g.len()));
    for group in groups.into_iter().filter(|g| *g != array.path() || g.is_empty()) {
        let path = join(group, name);
        match handle.zarr.node(&path).await {
            Ok(Node { meta: NodeMeta::Array(a), .. })
                if a.shape == [extent] && a.dimension_name(0) == Some(name) =>
            {
                return Ok(Some(path));
            }
            Ok(_) => {}
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Coordinate values to positions: per dimension a kind and numbers, as `read` takes them.
pub(crate) fn select(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let method = match args.text("method").unwrap_or("exact") {
        "exact" => MatchMethod::Exact,
        "nearest" => MatchMethod::Nearest,
        "pad" | "ffill" => MatchMethod::Pad,
        "backfill" | "bfill" => MatchMethod::Backfill,
        other => {
            return Err(
                Error::usage(format!("unknown method {other:?}: exact, nearest, pad or backfill")).into()
            );
        }
    };
    let lookup = Lookup { method, tolerance: args.text("tolerance").map(str::to_owned) };
    let labels = LabelValues::parse(&args.texts("labels"), lookup)?;
    let (found, extents) = call.run(|task| {
        let array = handle.array(task, &path)?;
        let found = wait(task, indexes(&handle.zarr, &array, &[], &labels))?;
        Ok((found, array.shape().to_vec()))
    })?;
    let mut kinds = Vec::new();
    let mut values = Vec::new();
    for (index, extent) in found.iter().zip(&extents) {
        let (kind, value) = positions(index, *extent)?;
        kinds.push(kind.to_owned());
        values.push((String::new(), value));
    }
    Ok(Value::from([("kinds", kinds.into()), ("index", Value::List(values))]))
}

fn positions(index: &Index, extent: u64) -> Result<(&'static str, Value)> {
    let place = |i: i64| match u64::try_from(i) {
        Ok(n) => n,
        Err(_) => extent.saturating_sub(i.unsigned_abs()),
    };
    Ok(match index {
        Index::All => ("all", Value::Null),
        Index::At(i) => ("at", place(*i).into()),
        Index::Span(start, count) => ("span", Value::from([*start, *count].as_slice())),
        Index::List(list) => ("list", Value::Real(list.iter().map(|i| real(place(*i))).collect())),
        Index::Slice(start, stop, step) => {
            let step = *step;
            let bound = |at: Option<i64>, default: i64| {
                at.map_or(default, |i| i64::try_from(place(i)).unwrap_or(i64::MAX))
            };
            let last = i64::try_from(extent).unwrap_or(i64::MAX);
            let (first, end) = if step > 0 {
                (bound(*start, 0), bound(*stop, last).min(last))
            } else {
                (bound(*start, last - 1), stop.map_or(-1, |_| bound(*stop, -1)))
            };
            let mut list = Vec::new();
            let mut at = first;
            while step != 0 && ((step > 0 && at < end) || (step < 0 && at > end)) {
                list.push(real(u64::try_from(at).unwrap_or(0)));
                at += step;
            }
            ("list", Value::Real(list))
        }
    })
}

/// What a data set holds: dimensions, variables, ranges.
pub(crate) fn overview(call: &Call, args: &Value) -> Result<Value, Stop> {
    let handle = handle(call, args)?;
    let path = path_of(args)?;
    let json = call.run(|task| {
        // The summary is made on this thread, with the library's own runtime: its future cannot be sent.
        let runtime = wait(task, async { Ok(tokio::runtime::Handle::current()) })?;
        runtime.block_on(task.unless_cancelled(async {
            let nodes = handle.zarr.walk(&path).await?;
            let summary = DatasetSummary::of(&handle.zarr, &nodes).await;
            Ok(summary.json(&nodes, true))
        }))
    })?;
    warn_damaged(call, &handle);
    Ok(of_json(&json))
}
