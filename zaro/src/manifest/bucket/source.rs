//! Reads the objects of a Zarr in a bucket, each in the version that its entry names.

use async_trait::async_trait;
use bytes::Bytes;

use super::BucketZarr;
use crate::error::{Error, Result};
use crate::manifest::fetch::FetchSource;
use crate::manifest::model::Entry;
use crate::store::ByteRange;

#[async_trait]
impl FetchSource for BucketZarr {
    async fn read(&self, key: &str, entry: &Entry, range: Option<ByteRange>) -> Result<Option<Bytes>> {
        let whole = format!("{}{key}", self.prefix());
        let span = match range {
            None => None,
            Some(range) => Some(range.resolve(entry.size)?),
        };
        let Some(part) = self.bucket().get_part(&whole, entry.version.as_deref(), span).await? else {
            return Ok(None);
        };
        let other = |what: String| Error::invalid(what).with_key(&whole).with_store(self.bucket());
        if let (Some(wanted), Some(sent)) = (&entry.version, &part.version)
            && wanted != sent
        {
            return Err(other(format!("the server returned version {sent} instead of {wanted}")));
        }
        if let (Some(wanted), Some(sent)) = (&entry.etag, &part.etag)
            && wanted != sent
        {
            return Err(other(format!("the object has the ETag {sent} instead of {wanted}")));
        }
        if part.size != entry.size {
            return Err(other(format!("the object has {} bytes instead of {}", part.size, entry.size)));
        }
        Ok(Some(part.bytes))
    }
}
