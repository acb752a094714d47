//! Google Cloud Storage buckets.

use std::path::Path;
use std::sync::Arc;

use object_store::StaticCredentialProvider;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};

use super::ProviderParts;
use super::profile::Env;
use super::transport::{Connector, host_of, no_retry};
use crate::error::{Error, Result};
use crate::store::options::StoreOptions;

/// Variables that hold or name credentials, or show that this is a Google Cloud machine.
const SIGNS: &[&str] = &[
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "SERVICE_ACCOUNT",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GCE_METADATA_HOST",
    "K_SERVICE",
];

pub(super) fn connect(bucket: &str, options: &StoreOptions, env: Env<'_>) -> Result<ProviderParts> {
    if bucket.is_empty() {
        return Err(Error::usage("the address names no bucket"));
    }
    let login = env("HOME")
        .is_some_and(|h| Path::new(&h).join(".config/gcloud/application_default_credentials.json").is_file());
    let signed = !options.anonymous && (login || SIGNS.iter().any(|name| env(name).is_some()));
    let mut builder = if signed {
        GoogleCloudStorageBuilder::from_env()
    } else {
        let nobody = GcpCredential { bearer: String::new() };
        GoogleCloudStorageBuilder::new()
            .with_skip_signature(true)
            .with_credentials(Arc::new(StaticCredentialProvider::new(nobody)))
    };
    builder =
        builder.with_bucket_name(bucket).with_retry(no_retry()).with_http_connector(Connector::new(options)?);
    let endpoint = options.endpoint.as_deref().map(|e| e.trim_end_matches('/'));
    if let Some(endpoint) = endpoint {
        url::Url::parse(endpoint)
            .map_err(|e| Error::usage(format!("{endpoint:?} is not a valid URL: {e}")))?;
        builder = builder.with_base_url(endpoint);
    }
    let client = builder.build().map_err(|e| Error::usage("invalid GCS settings").with_source(e))?;
    Ok(ProviderParts {
        name: format!("gs://{bucket}"),
        host: host_of(endpoint.unwrap_or("https://storage.googleapis.com")),
        region: String::new(),
        client: client.into(),
        relocate: None,
        suffix_ranges: true,
        signed,
        own: endpoint.is_none(),
    })
}
