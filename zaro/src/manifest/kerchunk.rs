//! Exports a version as Kerchunk references, for readers that do not know manifests.

use std::io::Write;

use super::model::Manifest;
use super::text;
use crate::error::{Error, Result};
use crate::store::{percent_encode, percent_encode_key};

/// The address of an entry's version: `{base}/{key}?versionId={version}`, percent-encoded in a web address.
pub(crate) fn url(base: &str, key: &str, version: Option<&str>) -> String {
    let mut out = base.trim_end_matches('/').to_owned();
    out.push('/');
    // Web addresses are encoded; in those of buckets a key is as it is.
    match out.starts_with("http://") || out.starts_with("https://") {
        true => out.extend(percent_encode_key(key)),
        false => out.push_str(key),
    }
    if let Some(version) = version {
        out.push_str("?versionId=");
        out.extend(percent_encode(version));
    }
    out
}

/// Writes the references as Kerchunk's JSON, version 1: every key refers to one whole object, in the version that the
/// manifest names. `base` is the address of the Zarr.
pub fn write(m: &Manifest, base: &str, mut out: impl Write) -> Result<()> {
    check(m)?;
    let mut buffer = b"{\"version\":1,\"refs\":{".to_vec();
    let mut walk = m.walk();
    let mut first = true;
    while let Some((key, leaf)) = walk.next() {
        buffer.extend_from_slice(if first { b"\n" } else { b",\n" });
        first = false;
        text::push_json(&mut buffer, key);
        buffer.extend_from_slice(b":[");
        text::push_json(&mut buffer, &url(base, key, leaf.version().as_deref()));
        buffer.push(b']');
        if buffer.len() > 1 << 16 {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    buffer.extend_from_slice(b"\n}}\n");
    out.write_all(&buffer)?;
    Ok(out.flush()?)
}

fn check(m: &Manifest) -> Result<()> {
    if m.fields().version {
        return Ok(());
    }
    Err(Error::unsupported("the manifest has no versions of objects").with_field("fields"))
}

/// Export as Parquet.
#[cfg(feature = "parquet")]
mod parquet {
    use super::{check, url};
    use crate::error::{Error, Result};
    use crate::manifest::digest::{ETag, Hasher};
    use crate::manifest::fetch::FetchSource;
    use crate::manifest::model::{Entry, Manifest};
    use crate::meta::Json;
    use crate::reference::parquet::{ParquetWriter, Written};
    use crate::reference::{Location, Remote};
    use crate::store::SharedStore;

    /// Documents of nodes, which Parquet stores inline.
    const DOCUMENTS: [&str; 4] = ["zarr.json", ".zgroup", ".zarray", ".zattrs"];

    /// Writes the references as Kerchunk's Parquet into the folder that `target` is rooted at, which should be empty.
    /// Documents of nodes are read from `source`, and must match the manifest; chunks are only referred to.
    pub async fn write_parquet(
        m: &Manifest,
        base: &str,
        source: &dyn FetchSource,
        target: SharedStore,
        record_size: u64,
    ) -> Result<Written> {
        check(m)?;
        let mut documents = Vec::new();
        let mut walk = m.walk();
        while let Some((key, leaf)) = walk.next() {
            if DOCUMENTS.contains(&leaf.name()) {
                let entry = leaf.entry();
                let text = document(source, key, &entry).await.map_err(|e| e.with_key(key))?;
                documents.push((key.to_owned(), text));
            }
        }
        let mut writer = ParquetWriter::new(target, record_size, documents)?;
        let mut walk = m.walk();
        while let Some((key, leaf)) = walk.next() {
            if !DOCUMENTS.contains(&leaf.name()) {
                let address = url(base, key, leaf.version().as_deref());
                writer.put(key, &Location::Remote(Remote::new(address, None))).await?;
            }
        }
        writer.finish().await
    }

    async fn document(source: &dyn FetchSource, key: &str, entry: &Entry) -> Result<Json> {
        let text = source.read(key, entry, None).await?;
        let text = text.ok_or_else(|| Error::not_found("the document no longer exists"))?;
        let wanted = entry.etag.as_deref().and_then(ETag::parse);
        let mut hasher = Hasher::wanting(wanted, entry.size);
        hasher.update(&text);
        let found = hasher.finish();
        if wanted.is_some_and(|wanted| wanted != found) {
            return Err(Error::invalid("the document differs from its entry in the manifest"));
        }
        Ok(Json::parse(&text)?.value)
    }
}

#[cfg(feature = "parquet")]
pub use parquet::write_parquet;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::json::Json;

    #[test]
    fn versioned_addresses() {
        let m = crate::manifest::parse(
            r#"{"fields":["versionId","size"],"entries":{"é b":{"0":["v+1",1]},"zarr.json":["null",2]}}"#
                .as_bytes(),
        )
        .unwrap();
        let mut out = Vec::new();
        write(&m, "https://b.s3.amazonaws.com/zarr/id/", &mut out).unwrap();
        let refs = Json::parse(&out).unwrap().value;
        let of =
            |key: &str| refs.get("refs").unwrap().get(key).unwrap().items().unwrap().first().unwrap().clone();
        assert_eq!(
            of("é b/0").as_str(),
            Some("https://b.s3.amazonaws.com/zarr/id/%C3%A9%20b/0?versionId=v%2B1")
        );
        // Put before the bucket kept versions; what was put later has the plain address.
        assert_eq!(
            of("zarr.json").as_str(),
            Some("https://b.s3.amazonaws.com/zarr/id/zarr.json?versionId=null")
        );
        let m = crate::manifest::parse(r#"{"fields":["size"],"entries":{}}"#.as_bytes()).unwrap();
        assert!(write(&m, "x", Vec::new()).is_err());
    }
}
