//! A place where an image, or labels, are being made. A marker lies there until all is whole: what a killed process left is known by it
//! and replaced by the next one, and nothing is left by one that fails.

use crate::blocking::wait;
use crate::error::{Error, Result};
use crate::hierarchy::{self, Existing};
use crate::meta::path::{ancestors, join, shown};
use crate::meta::{Format, Json};
use crate::store::{Condition, Listing, Put, SharedStore};

/// The object by which an unfinished conversion is known.
const MARKER: &str = ".zaro-image-convert.json";

/// A place that is ours until the image in it is whole.
pub(crate) struct Begun<'a> {
    store: &'a SharedStore,
    path: String,
    /// Groups above that were not there, the innermost first.
    made: Vec<String>,
}

impl<'a> Begun<'a> {
    /// Takes the place: empty, left by a conversion that is dead, or to be replaced.
    pub(crate) fn at(store: &'a SharedStore, path: &str, format: Format, existing: Existing) -> Result<Self> {
        let placed = |e: Error| e.with_node(shown(path)).with_store(store);
        wait(hierarchy::check_place(store, path, format))?;
        let key = join(path, MARKER);
        if let Some(bytes) = wait(store.get(&key, None))? {
            if existing == Existing::Refuse && !Owner::parse(&bytes).is_some_and(|owner| owner.is_dead()) {
                return Err(placed(Error::usage(
                    "a conversion to this place was not finished, or is under way; if it is not, begin anew with --overwrite",
                )));
            }
            if !is_ours(&wait(store.list(path))?) {
                return Err(placed(Error::usage(
                    "an unfinished conversion is here, and other things that it did not make; move or delete these first",
                )));
            }
            wait(hierarchy::delete(store, path))?;
        } else if existing == Existing::Replace {
            wait(hierarchy::replace(store, path))?;
        } else {
            let there = wait(store.list(path))?;
            if !(there.objects.is_empty() && there.prefixes.is_empty()) {
                let what = match wait(hierarchy::find(store, path)) {
                    Ok(Some(node)) => format!("a Zarr {} is", node.meta.kind()),
                    _ => "something is".to_owned(),
                };
                return Err(placed(Error::usage(format!(
                    "{what} here already; replace it with --overwrite"
                ))));
            }
        }
        let mut made = Vec::new();
        for above in ancestors(path).into_iter().rev() {
            if wait(hierarchy::find(store, above))?.is_none() {
                made.push(above.to_owned());
            }
        }
        if wait(store.put(&key, Owner::here().text().into(), Condition::Absent))? == Put::Refused {
            return Err(placed(Error::conflict("another conversion to this place began at the same time")));
        }
        Ok(Self { store, path: path.to_owned(), made })
    }

    /// Says how it ended. What is not whole is removed.
    pub(crate) fn end<T>(self, done: Result<T>) -> Result<T> {
        let done = done.and_then(|done| {
            wait(self.store.delete(&join(&self.path, MARKER)))?;
            wait(self.store.finish())?;
            Ok(done)
        });
        if done.is_err() {
            // The fault itself is what has to be told.
            let _ = self.remove();
        }
        done
    }

    fn remove(&self) -> Result<()> {
        wait(hierarchy::delete(self.store, &self.path))?;
        for above in &self.made {
            let there = wait(self.store.list(above))?;
            let ours = |name: &String| matches!(name.as_str(), "zarr.json" | ".zgroup" | ".zattrs");
            if there.prefixes.is_empty() && there.objects.iter().all(ours) {
                wait(hierarchy::delete(self.store, above))?;
            }
        }
        Ok(())
    }
}

/// Whether nothing is listed but what a conversion makes.
fn is_ours(there: &Listing) -> bool {
    let documents = ["zarr.json", ".zgroup", ".zattrs", ".zmetadata"];
    let number = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    there.objects.iter().all(|name| documents.contains(&name.as_str()) || name.starts_with(".zaro-"))
        && there.prefixes.iter().all(|name| name == "OME" || number(name))
}

/// The process that makes an image: its number, and the system where that number counts.
#[derive(Debug, PartialEq)]
struct Owner {
    process: u64,
    system: String,
}

impl Owner {
    fn here() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self { process: std::process::id().into(), system: format!("{} {}", boot.trim(), space.display()) }
    }

    fn text(&self) -> String {
        let mut out = Json::object();
        out.set("command", Json::string("image convert"));
        out.set("process", Json::int(self.process));
        out.set("system", Json::string(self.system.as_str()));
        out.to_string()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let document = Json::parse(bytes).ok()?.value;
        let system = document.get("system")?.as_str()?.to_owned();
        Some(Self { process: document.get("process")?.as_u64()?, system })
    }

    /// Whether it is sure that it does not run any more.
    fn is_dead(&self) -> bool {
        let here = Self::here();
        let process = std::path::Path::new("/proc").join(self.process.to_string());
        let gone = process.metadata().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        // Without these there is nothing to tell systems apart by.
        self.system == here.system && here.system.trim().len() > 8 && (gone || self.process == here.process)
    }
}
