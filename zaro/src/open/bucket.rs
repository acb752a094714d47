//! Buckets whose versions can be listed.

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

/// Opens the bucket that `uri` leads into, for what concerns versions, and says the path in it.
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
            return Err(Error::unsupported(
                "only buckets of S3 and its like keep versions that zaro can list",
            )
            .with_store(uri));
        }
    };
    Ok((Arc::new(bucket), path.clone()))
}
