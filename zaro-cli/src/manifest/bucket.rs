//! `zaro manifest` for Zarrs in a bucket: options and helpers shared by its commands.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use zaro::manifest::bucket::{
    BucketZarr, CreateOptions, Created, EmbargoCheck, Inventory, ListingSource, PublishOptions,
};
use zaro::manifest::{
    Manifest, ManifestFinding, ManifestOptions, bucket, key_of, objects_beside, store_manifest,
};
pub(crate) use zaro::open::is_bucket;
use zaro::store::{Bucket, Versioning};
use zaro::{Error, Result};

use super::load::load;
use crate::args::Common;
use crate::output::{self, Output};
use crate::path::{local_path, word};
use crate::progress::Watch;

/// Options of `create` that apply only to buckets.
#[derive(Debug, Clone, Args)]
pub(crate) struct BucketCreate {
    /// List current objects instead of versions, for a bucket without versioning
    #[arg(long, help_heading = "Buckets")]
    pub(crate) plain: bool,
    /// Take the listing from an S3 Inventory: its manifest.json, or a CSV file of it
    #[arg(long, value_name = "FILE", help_heading = "Buckets", conflicts_with = "plain", value_parser = local_path())]
    pub(crate) inventory: Option<PathBuf>,
    /// The columns of the CSV file, such as 'Bucket, Key, VersionId, …' [default: as manifest.json says]
    #[arg(long, value_name = "COLUMNS", help_heading = "Buckets", requires = "inventory")]
    pub(crate) inventory_columns: Option<String>,
    /// Tag the manifest embargoed=true [default: if objects of the Zarr have the tag]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Buckets")]
    pub(crate) embargoed: Option<bool>,
    /// Objects checked for the embargo tag: some, or every one (a request each)
    #[arg(long, value_parser = word(CHECKS), default_value = "sample", value_name = "WHICH", help_heading = "Buckets")]
    pub(crate) embargo_check: EmbargoCheck,
    /// Maximum listings until two in a row agree; 1 takes the first as it is
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Buckets")]
    pub(crate) listings: u32,
}

impl BucketCreate {
    fn source(&self) -> Result<ListingSource> {
        Ok(match &self.inventory {
            Some(file) => ListingSource::Inventory(Inventory::open(file, self.inventory_columns.as_deref())?),
            None if self.plain => ListingSource::Objects,
            None => ListingSource::Versions,
        })
    }
}

/// The values of `--embargo-check`.
pub(crate) const CHECKS: &[(&str, &str, EmbargoCheck)] = &[
    ("sample", "Up to eight of the first thousand", EmbargoCheck::Sample),
    ("all", "Every object of the Zarr", EmbargoCheck::All),
];

/// Warns if versioning of a bucket is off or suspended: objects overwritten there are lost, whatever refers to them.
pub(crate) async fn warn_of_versions(common: &Common, bucket: &Bucket) -> Result<()> {
    let what = match bucket.keeps_versions().await? {
        Some(Versioning::Never) => "has no versioning: objects that are overwritten or deleted are lost",
        Some(Versioning::Suspended) => {
            "has versioning suspended: new objects may be lost when they are overwritten"
        }
        Some(Versioning::Enabled) | None => return Ok(()),
    };
    common.warn(&format!("{bucket} {what}, and manifests and histories may refer to lost objects"));
    Ok(())
}

/// Where a new manifest is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination<'a> {
    /// In the bucket, at its usual place.
    Bucket,
    /// Below a local folder, at the same path as in a bucket.
    Folder(&'a Path),
    /// To a file, or `-` for standard output.
    File(&'a Path),
}

/// The Zarr at an address.
pub(crate) fn zarr(common: &Common, uri: &str) -> Result<BucketZarr> {
    let (bucket, path) = zaro::open::open_bucket(uri, &common.store_options()?)?;
    BucketZarr::new(bucket, &path)
}

/// `create` of a Zarr in a bucket.
pub(crate) async fn create(
    common: &Common,
    uri: &str,
    options: &BucketCreate,
    to: Destination<'_>,
    write: ManifestOptions,
    replace: bool,
    json: bool,
) -> Result<()> {
    let zarr = zarr(common, uri)?;
    if matches!(to, Destination::Bucket) {
        // Said before the work is done.
        zarr.manifests()?;
    }
    let wanted = CreateOptions::default()
        .with_source(options.source()?)
        .with_write(write)
        .with_listings(options.listings);
    if matches!(wanted.source, ListingSource::Versions) {
        warn_of_versions(common, zarr.bucket()).await?;
    }
    let Created { document, listings } = bucket::create(&zarr, &wanted).await?;
    let (checksum, statistics) = (document.checksum, document.statistics.clone());
    let (place, outcome) = match to {
        Destination::Bucket => {
            let embargoed = match options.embargoed {
                Some(said) => said,
                None => zarr.is_embargoed(options.embargo_check).await?,
            };
            let stored = zarr
                .store(document, PublishOptions::default().with_embargoed(embargoed).with_replace(replace))
                .await?;
            (format!("{}/{}", zarr.bucket(), zarr.manifest_key(&checksum)?), stored)
        }
        Destination::File(path) if path == Path::new("-") => {
            let mut out = Output::open(None)?;
            document.write(&mut out)?;
            return out.finish();
        }
        Destination::File(path) => {
            let stored = store_manifest(path, &checksum, replace, |out| document.write(out))?;
            (path.display().to_string(), stored)
        }
        Destination::Folder(folder) => {
            let path = folder.join(key_of(zarr.id(), &checksum)?);
            let stored = store_manifest(&path, &checksum, replace, |out| document.write(out))?;
            (path.display().to_string(), stored)
        }
    };
    if json {
        return output::json_line([
            ("zarr", zarr.to_string().into()),
            ("checksum", checksum.to_string().into()),
            ("entries", statistics.entries.unwrap_or(0).into()),
            ("totalSize", statistics.total_size.unwrap_or(0).into()),
            ("manifest", place.into()),
            ("outcome", outcome.as_str().into()),
            ("listings", listings.into()),
        ]);
    }
    output::print(&format!("{checksum}\n"))?;
    say(&format!("{place} ({})", outcome.as_str()))
}

/// Where the objects of a manifest are: from the options, or derived from its place in a bucket.
pub(crate) fn objects_of(common: &Common, manifest: &str) -> Result<Option<String>> {
    if let Some(objects) = common.source_options()?.objects {
        return Ok(Some(objects));
    }
    let manifest = manifest.strip_prefix("manifest+").unwrap_or(manifest);
    if !is_bucket(manifest) {
        return Ok(None);
    }
    let (bucket, path) = zaro::open::open_bucket(manifest, &common.store_options()?)?;
    Ok(objects_beside(&path).map(|objects| format!("s3://{}/{objects}", bucket.name())))
}

/// Checks that everything a manifest lists is in the bucket; with `bytes`, also every byte of it.
pub(crate) async fn findings(
    common: &Common,
    uri: &str,
    manifest: &Manifest,
    bytes: bool,
) -> Result<Vec<ManifestFinding>> {
    let zarr = zarr(common, uri)?;
    let mut out = bucket::verify(&zarr, manifest, 1000).await?.findings();
    if bytes {
        let watch = Watch::new(common.progress);
        out.extend(bucket::verify_bytes(&zarr, manifest, &watch.task()).await?);
    }
    Ok(out)
}

/// A side of a comparison: a Zarr in a bucket as it is now, or else a manifest.
pub(crate) async fn load_side(uri: &str, common: &Common) -> Result<Manifest> {
    if is_bucket(uri) && !uri.ends_with(".json") {
        return bucket::current(&zarr(common, uri)?, &ListingSource::Versions).await;
    }
    load(uri, common).await
}

/// Splits `…/zarr/ID` into the parent of `zarr-manifest` and the id.
pub(crate) fn split_zarr(uri: &str) -> Option<(&str, &str)> {
    let (above, id) = uri.trim_end_matches('/').rsplit_once('/')?;
    let base = above.strip_suffix("/zarr")?;
    (is_bucket(uri) && !base.is_empty()).then_some((base, id))
}

/// Prints a line on standard output.
pub(crate) fn say(text: &str) -> Result<()> {
    writeln!(std::io::stderr(), "{text}").map_err(Error::from)
}
