//! Opening buckets for listing their versions.

use std::sync::Arc;

use super::address::{Address, StorePlace};
use crate::error::{Error, Result};
use crate::store::object::bucket::Bucket;
use crate::store::options::StoreOptions;

/// Whether an address leads to a bucket that [`open_bucket`] opens.
#[must_use]
pub fn is_bucket(uri: &str) -> bool {
    Address::parse(uri).is_ok_and(|address| matches!(address.place, StorePlace::S3 { .. }))
}

/// Opens the bucket of `uri`, for its versions, and returns the path in it.
///
/// # Errors
/// `Unsupported` for every other kind of address.
pub fn open_bucket(uri: &str, options: &StoreOptions) -> Result<(Arc<Bucket>, String)> {
    let address = Address::parse(uri)?;
    let options = options.for_uri(&address.text)?;
    let (bucket, path) = match &address.place {
        StorePlace::S3 { bucket, path, aws: None } => (Bucket::s3(bucket, &options)?, path),
        StorePlace::S3 { bucket, path, aws: Some(region) } => {
            (Bucket::s3_at_aws(bucket, region.as_deref(), &options)?, path)
        }
        _ => {
            return Err(
                Error::unsupported("only versions in S3-compatible buckets can be listed").with_store(uri)
            );
        }
    };
    Ok((Arc::new(bucket), path.clone()))
}
