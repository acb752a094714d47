//! What is open: Zarrs by their address and options, so that the objects of R are plain data.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zaro::meta::{Format, Mode};
use zaro::open::SourceOptions;
use zaro::reference::icechunk::Version;
use zaro::store::{RequestLog, StoreOptions};
use zaro::{Array, Context, ContextOptions, Error, OpenOptions, Result, Task, Zarr};

use crate::call::{Call, Stop, note_request, wait};
use crate::value::{Value, real};

/// How many Zarrs are kept open; the least recently used one is closed first.
const MOST: usize = 32;

/// An open Zarr and the arrays of it that were used.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) zarr: Zarr,
    arrays: Mutex<HashMap<String, Array>>,
}

/// Most recently used last. Only R's thread uses it.
static OPEN: Mutex<Vec<(String, Arc<Handle>)>> = Mutex::new(Vec::new());

static CONTEXT: Mutex<Option<Context>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The threads and memory that everything shares.
pub(crate) fn context() -> Context {
    locked(&CONTEXT).get_or_insert_with(Context::shared).clone()
}

/// Sets threads and memory, and tells them. What was open is opened anew when it is next used.
pub(crate) fn config(args: &Value) -> Result<Value> {
    let (threads, memory) = (args.number("threads")?, args.number("memory")?);
    if threads.is_some() || memory.is_some() {
        let now = context();
        let usize_of = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let options = ContextOptions::default()
            .with_threads(threads.map_or(now.threads(), usize_of).max(1))
            .with_memory(memory.map_or(now.memory(), usize_of).max(1 << 20));
        *locked(&CONTEXT) = Some(Context::new(options));
        locked(&OPEN).clear();
    }
    let now = context();
    Ok(Value::from([
        ("threads", now.threads().into()),
        ("memory", now.memory().into()),
        ("open", locked(&OPEN).len().into()),
    ]))
}

/// Closes what is open at an address, or everything.
pub(crate) fn close(args: &Value) -> Result<Value> {
    match args.text("uri") {
        Some(uri) => forget(uri),
        None => locked(&OPEN).clear(),
    }
    Ok(Value::Null)
}

/// Closes what is open at, above or below `uri`: it was changed.
pub(crate) fn forget(uri: &str) {
    let of = |key: &str| {
        let there = key.split('\n').next().unwrap_or_default();
        there.starts_with(uri) || uri.starts_with(there)
    };
    locked(&OPEN).retain(|(key, _)| !of(key));
}

/// One option as the library reads it.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Text(v) => v.first()?.clone(),
        Value::Logical(v) => Some(if *v.first()? == 1 { "true" } else { "false" }.to_owned()),
        other => other.reals().first().map(|x| x.to_string()),
    }
}

/// The store options in a list of R.
pub(crate) fn store_options(options: &Value) -> Result<StoreOptions> {
    let mut store = StoreOptions::default();
    store.context = context();
    for (name, value) in options.items() {
        match (name.as_str(), value) {
            ("header", Value::Text(v)) => v.iter().flatten().try_for_each(|h| store.add_header(h))?,
            ("options", Value::Text(v)) => v.iter().flatten().try_for_each(|o| store.add_override(o))?,
            (name, _) if OF_SOURCES.contains(&name) => {}
            (name, value) => {
                let text =
                    text_of(value).ok_or_else(|| Error::usage(format!("'{name}' must be one value")))?;
                store.set(name, &text)?;
            }
        }
    }
    store.log = Some(Arc::new(RequestLog::with_sink(|request| note_request(request.to_string()))));
    Ok(store)
}

/// Options that are not about reaching a store.
const OF_SOURCES: [&str; 14] = [
    "root",
    "target",
    "template",
    "allow_local",
    "branch",
    "tag",
    "snapshot",
    "objects",
    "strict",
    "zarr_format",
    "consolidated",
    "at",
    "at_time",
    "zarr",
];

/// All options of opening.
pub(crate) fn source_options(options: &Value) -> Result<(SourceOptions, OpenOptions)> {
    let store = store_options(options)?;
    let mut source = SourceOptions::from(store.clone());
    for template in options.texts("template") {
        source.references.add_template(&template)?;
    }
    let text = |name: &str| options.text(name).map(str::to_owned);
    source.references.root = text("root");
    source.references.target = text("target");
    source.references.allow_local = options.flag("allow_local");
    source.objects = text("objects");
    let version = [
        text("branch").map(Version::Branch),
        text("tag").map(Version::Tag),
        text("snapshot").map(Version::Snapshot),
    ];
    let mut version = version.into_iter().flatten();
    source.version = version.next();
    if version.next().is_some() {
        return Err(Error::usage("'branch', 'tag' and 'snapshot' exclude each other"));
    }
    let format = match options.number("zarr_format")? {
        None => None,
        Some(2) => Some(Format::V2),
        Some(3) => Some(Format::V3),
        Some(n) => return Err(Error::usage(format!("'zarr_format' must be 2 or 3, not {n}"))),
    };
    let consolidated = !matches!(options.get("consolidated"), Value::Logical(v) if v.first() == Some(&0));
    let open = OpenOptions::default()
        .with_mode(if options.flag("strict") { Mode::Strict } else { Mode::Tolerant })
        .with_format(format)
        .with_use_consolidated(consolidated)
        .with_store(store);
    Ok((source, open))
}

/// The Zarr of a store object of R: from the table, or opened.
pub(crate) fn handle(call: &Call, args: &Value) -> Result<Arc<Handle>, Stop> {
    open(call, args.get("store"), false)
}

/// Opens the Zarr that `store` describes; with `anew`, even if it is open.
pub(crate) fn open(call: &Call, store: &Value, anew: bool) -> Result<Arc<Handle>, Stop> {
    let uri = store.word("uri")?;
    let options = store.get("options");
    let key = format!("{uri}\n{options:?}");
    {
        let mut table = locked(&OPEN);
        if let Some(at) = table.iter().position(|(k, _)| *k == key) {
            let entry = table.remove(at);
            if !anew {
                let handle = entry.1.clone();
                table.push(entry);
                return Ok(handle);
            }
        }
    }
    let (source, opening) = source_options(options)?;
    let zarr = call.run(|task| wait(task, crate::more::open_version(uri, options, &source, &opening)))?;
    for finding in zarr.findings() {
        // The programs that make references write a bare NaN each time.
        if !(zarr.is_referenced() && finding.rule == "json") {
            call.warn("finding", finding.to_string());
        }
    }
    let handle = Arc::new(Handle { zarr, arrays: Mutex::default() });
    let mut table = locked(&OPEN);
    if table.len() >= MOST {
        table.remove(0);
    }
    table.push((key, handle.clone()));
    Ok(handle)
}

impl Handle {
    /// The array at `path`.
    pub(crate) fn array(&self, task: &Task, path: &str) -> Result<Array> {
        if let Some(array) = locked(&self.arrays).get(path) {
            return Ok(array.clone());
        }
        let array = match wait(task, self.zarr.array(path)) {
            Err(e) if e.is_not_found() || e.kind() == zaro::ErrorKind::Usage => {
                return Err(self.which(task, path, e));
            }
            other => other?,
        };
        locked(&self.arrays).insert(path.to_owned(), array.clone());
        Ok(array)
    }

    /// The error for a path that is a group: it names the arrays in it.
    fn which(&self, task: &Task, path: &str, e: Error) -> Error {
        let Ok(children) = wait(task, self.zarr.children(path)) else { return e };
        let arrays: Vec<&str> =
            children.iter().filter(|n| n.meta.kind() == "array").map(|n| n.path.as_str()).take(12).collect();
        if arrays.is_empty() {
            return e;
        }
        let message = format!("{} is a group, not an array; its arrays: {}", shown(path), arrays.join(", "));
        Error::usage(message).with_store(self.zarr.store())
    }
}

fn shown(path: &str) -> String {
    zaro::internal::path::shown(path)
}

/// The path of a node in the library's form.
pub(crate) fn path_of(args: &Value) -> Result<String> {
    let path = args.text("path").unwrap_or_default();
    zaro::internal::path::normal(if path == "." { "" } else { path })
}

/// A shape as R has it.
pub(crate) fn shape(shape: &[u64]) -> Value {
    match shape.iter().all(|n| i32::try_from(*n).is_ok()) {
        true => Value::Int(shape.iter().filter_map(|n| i32::try_from(*n).ok()).collect()),
        false => Value::Real(shape.iter().map(|n| real(*n)).collect()),
    }
}
