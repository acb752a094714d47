//! S3 and S3-compatible buckets.

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsCredentialProvider};
use url::Url;

use super::profile::{self, Credentials, Env};
use super::transport::{Connector, host_of, no_retry};
use super::{Client, ProviderParts};
use crate::error::{Error, Result};
use crate::store::options::StoreOptions;

/// The first region to try if none is set. The server tells if it is another.
const FIRST_REGION: &str = "us-east-1";

/// A bucket of AWS itself, as named by an `https` URL.
pub(super) struct AtAws<'a> {
    pub(super) region: Option<&'a str>,
}

/// Settings of credential services in the environment.
const SERVICE: &[(&str, AmazonS3ConfigKey)] = &[
    ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_ENDPOINT_URL_STS", AmazonS3ConfigKey::StsEndpoint),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
    ("AWS_EC2_METADATA_SERVICE_ENDPOINT", AmazonS3ConfigKey::MetadataEndpoint),
];

/// How to reach a bucket.
pub(super) struct BucketSettings {
    builder: AmazonS3Builder,
    /// Without the bucket's name in the path; `None` for AWS itself.
    pub(super) endpoint: Option<String>,
    pub(super) region: String,
    pub(super) path_style: bool,
    pub(super) signed: bool,
    pub(super) host: String,
}

impl BucketSettings {
    /// A client for a region.
    pub(super) fn client(&self, region: &str) -> Result<AmazonS3> {
        self.builder
            .clone()
            .with_region(region)
            .build()
            .map_err(|e| Error::usage("invalid S3 settings").with_source(e))
    }

    /// The same with credentials that another client has obtained.
    pub(super) fn client_with(&self, region: &str, credentials: &AwsCredentialProvider) -> Result<AmazonS3> {
        let builder = self.builder.clone().with_region(region).with_credentials(credentials.clone());
        builder.build().map_err(|e| Error::usage("invalid S3 settings").with_source(e))
    }
}

pub(super) fn connect(
    bucket: &str,
    at: Option<AtAws<'_>>,
    options: &StoreOptions,
    env: Env<'_>,
) -> Result<ProviderParts> {
    let settings = settings(bucket, at, options, env)?;
    Ok(ProviderParts {
        name: format!("s3://{bucket}"),
        host: settings.host.clone(),
        client: settings.client(&settings.region).map(Client::from)?,
        region: settings.region.clone(),
        suffix_ranges: true,
        signed: settings.signed,
        own: settings.endpoint.is_none(),
        relocate: Some(Box::new(move |region: &str| settings.client(region).map(Client::from))),
    })
}

/// Combines options, environment and profile for a bucket.
pub(super) fn settings(
    bucket: &str,
    at: Option<AtAws<'_>>,
    options: &StoreOptions,
    env: Env<'_>,
) -> Result<BucketSettings> {
    if bucket.is_empty() {
        return Err(Error::usage("the address names no bucket"));
    }
    let aws = profile::find(options, env)?;
    let endpoint = match at {
        Some(_) => options.endpoint.clone(),
        None => aws.endpoint,
    };
    let region = options
        .region
        .clone()
        .or_else(|| at.as_ref().and_then(|a| a.region.map(str::to_owned)))
        .or(aws.region)
        .unwrap_or_else(|| FIRST_REGION.to_owned());
    let path_style = options.path_style.unwrap_or(endpoint.is_some() || bucket.contains('.'));
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(bucket)
        .with_retry(no_retry())
        .with_allow_http(true)
        .with_http_connector(Connector::new(options)?)
        .with_request_payer(options.request_payer)
        .with_virtual_hosted_style_request(!path_style);
    let signed = aws.credentials != Credentials::Anonymous;
    builder = match aws.credentials {
        Credentials::Anonymous => builder.with_skip_signature(true),
        Credentials::Key { id, secret, token } => {
            let builder = builder.with_access_key_id(id).with_secret_access_key(secret);
            match token {
                Some(token) => builder.with_token(token),
                None => builder,
            }
        }
        Credentials::Service => SERVICE.iter().fold(builder, |builder, (name, key)| match env(name) {
            Some(value) => builder.with_config(*key, value),
            None => builder,
        }),
    };
    let (endpoint, host) = match endpoint {
        Some(endpoint) => {
            let address = bucket_endpoint(&endpoint, bucket, path_style)?;
            builder = builder.with_endpoint(&address);
            let host = host_of(&address);
            (Some(address), host)
        }
        None => (None, format!("{bucket}.s3.amazonaws.com:443")),
    };
    Ok(BucketSettings { builder, endpoint, region, path_style, signed, host })
}

/// The endpoint as `object_store` expects it: with the bucket in the host name unless path-style.
fn bucket_endpoint(endpoint: &str, bucket: &str, path_style: bool) -> Result<String> {
    let endpoint = if endpoint.contains("://") { endpoint.to_owned() } else { format!("https://{endpoint}") };
    let bad = || Error::usage(format!("{endpoint:?} is not a valid URL"));
    let mut url = Url::parse(&endpoint).map_err(|_| bad())?;
    let Some(host) = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")) else {
        return Err(bad());
    };
    if !path_style && !host.starts_with(&format!("{bucket}.")) {
        let host = format!("{bucket}.{host}");
        url.set_host(Some(&host)).map_err(|_| bad())?;
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_take_the_bucket_where_the_style_wants_it() {
        let at = |e: &str, path: bool| bucket_endpoint(e, "b", path);
        assert_eq!(at("http://h:9000/", true).unwrap(), "http://h:9000");
        assert_eq!(at("http://h:9000", false).unwrap(), "http://b.h:9000");
        assert_eq!(at("https://b.h", false).unwrap(), "https://b.h");
        assert_eq!(at("s3.example.org", true).unwrap(), "https://s3.example.org");
        assert!(at("ftp://h", true).is_err() && at("http://", true).is_err());
    }
}
