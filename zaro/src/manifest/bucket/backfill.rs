//! Creates the manifests of all Zarrs in a bucket.
//!
//! Each Zarr is a separate job: listed, created, stored. Existing manifests are kept, so a rerun changes nothing; a
//! journal saves the listings of those that are done.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{FutureExt as _, StreamExt, stream};

use super::BucketZarr;
use super::create::{CreateOptions, PublishOptions, Source, create};
use super::embargo::EmbargoCheck;
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::digest::Digest;
use crate::num::u64_of;
use crate::store::object::bucket::Bucket;
use crate::task::{Task, Unit};

/// The outcome for one Zarr.
#[derive(Debug)]
pub struct Done {
    /// Its id.
    pub id: String,
    /// Its checksum and the outcome (`new`, `kept`, `replaced`, `journal`), or the error.
    pub result: Result<(Digest, &'static str)>,
}

/// Options of a backfill.
#[derive(Debug, Clone, Default)]
pub struct Backfill {
    /// How each manifest is created.
    pub create: CreateOptions,
    /// Zarrs processed concurrently.
    pub at_once: usize,
    /// Whether manifests get the embargo tag; with `None`, those of Zarrs that have it.
    pub embargoed: Option<bool>,
    /// How the embargo tag is detected.
    pub embargo_check: EmbargoCheck,
}

/// Abort after this many failures in a row.
const HOPELESS: u32 = 50;

/// Records which Zarrs are done: a file whose first line names the bucket, then one line per Zarr, written once its
/// manifest is stored.
#[derive(Debug)]
pub struct BackfillJournal {
    path: PathBuf,
    file: Mutex<File>,
    done: HashMap<String, Digest>,
}

/// Start of the first line of a journal.
const HEAD: &str = "zaro-backfill 1 ";

impl BackfillJournal {
    /// Opens or creates the journal of a backfill of `path` in the bucket. A line truncated by a crash is ignored.
    ///
    /// # Errors
    /// `Usage` for a journal of another bucket or prefix, and for a file that is not a journal.
    pub fn open(path: &Path, bucket: &Bucket, place: &str) -> Result<Self> {
        let named = |e: std::io::Error| Error::from(e).with_store(path.display());
        let refused = |what: String| Err(Error::usage(what).with_store(path.display()));
        let mut file = File::options().read(true).append(true).create(true).open(path).map_err(named)?;
        let head = format!("{HEAD}{} s3://{}/{}", bucket.service(), bucket.name(), folder_of(place));
        let mut done = HashMap::new();
        let mut whole = true;
        let mut lines = BufReader::new(&file).split(b'\n');
        match lines.next().transpose().map_err(named)? {
            None => (&file).write_all(format!("{head}\n").as_bytes()).map_err(named)?,
            Some(first) => {
                let first = String::from_utf8_lossy(&first).into_owned();
                match first.strip_prefix(HEAD) {
                    _ if first == head => {}
                    Some(other) => {
                        return refused(format!(
                            "the journal belongs to {other}; use another file for this bucket"
                        ));
                    }
                    None => {
                        return refused(
                            "the file exists and is not a backfill journal; it was left unchanged".into(),
                        );
                    }
                }
            }
        }
        for line in lines {
            let line = line.map_err(named)?;
            let text = String::from_utf8_lossy(&line);
            if let Some((id, checksum)) = text.split_once(' ')
                && let Ok(checksum) = checksum.parse()
            {
                done.insert(id.to_owned(), checksum);
                whole = true;
            } else {
                whole = line.is_empty();
            }
        }
        if !whole {
            file.write_all(b"\n").map_err(named)?;
        }
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), done })
    }

    fn note(&self, id: &str, checksum: &Digest) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // One write a line, so that no other process gets in between.
        let written = file.write_all(format!("{id} {checksum}\n").as_bytes());
        written.map_err(|e| Error::from(e).with_store(self.path.display()))
    }
}

/// Where the Zarrs are.
fn folder_of(path: &str) -> String {
    let path = path.trim_matches('/');
    match path.rsplit('/').next() {
        Some("zarr") => format!("{path}/"),
        _ if path.is_empty() => "zarr/".to_owned(),
        _ => format!("{path}/zarr/"),
    }
}

/// Creates the manifests of all Zarrs below `…zarr/` at `path` of the bucket, in no particular order. `see` is
/// called for each that is finished; one that fails does not stop the others.
pub async fn backfill(
    bucket: &Arc<Bucket>,
    path: &str,
    options: &Backfill,
    journal: Option<&BackfillJournal>,
    task: &Task,
    mut see: impl FnMut(Done) -> Result<()>,
) -> Result<()> {
    let folder = folder_of(path);
    // A Zarr whose objects are all deleted has a state as well.
    let ids = match options.create.source {
        Source::Objects => bucket.folders(&folder).await?,
        _ => bucket.folders_ever(&folder).await?,
    };
    if ids.is_empty() {
        return Err(Error::not_found(format!("no objects found below {folder}")).with_store(bucket));
    }
    let meter = task.meter(Unit::Zarrs, u64_of(ids.len()));
    let one = |id: String| {
        let path = format!("{folder}{id}");
        async move {
            if let Some(checksum) = journal.and_then(|j| j.done.get(&id)) {
                return Done { id, result: Ok((*checksum, "journal")) };
            }
            let result = make(bucket, &path, options).await;
            let noted = match (&result, journal) {
                (Ok((checksum, _)), Some(journal)) => journal.note(&id, checksum),
                _ => Ok(()),
            };
            Done { id, result: noted.and(result) }
        }
    };
    let mut jobs = stream::iter(ids).map(one).buffer_unordered(options.at_once.max(1));
    let mut failed = 0;
    while let Some(done) = task.unless_cancelled(jobs.next().map(Ok)).await? {
        meter.advance(1);
        let fault = done.result.as_ref().err().map(crate::error::Error::kind);
        failed = match fault {
            Some(ErrorKind::Io | ErrorKind::NotPermitted) => failed + 1,
            _ => 0,
        };
        see(done)?;
        if failed >= HOPELESS {
            return Err(Error::io(format!("{failed} Zarrs in a row failed; stopped before the rest"))
                .with_store(bucket));
        }
    }
    Ok(())
}

async fn make(bucket: &Arc<Bucket>, path: &str, options: &Backfill) -> Result<(Digest, &'static str)> {
    let zarr = BucketZarr::new(Arc::clone(bucket), path)?;
    let created = create(&zarr, &options.create).await?;
    let checksum = created.document.checksum;
    let embargoed = match options.embargoed {
        Some(said) => said,
        None => zarr.is_embargoed(options.embargo_check).await?,
    };
    let stored = zarr.store(created.document, PublishOptions { embargoed, replace: false }).await?;
    Ok((checksum, stored.as_str()))
}
