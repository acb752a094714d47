//! Store options: how to reach a store, with the same options for every kind; each kind uses those that apply.

use std::sync::Arc;
use std::time::Duration;

use super::wrap::log::RequestLog;
use super::wrap::retry::RetryPolicy;
use crate::context::Context;
use crate::error::{Error, Result};

/// The names accepted by [`StoreOptions::set`], for help texts.
pub const OPTION_NAMES: &[&str] = &[
    "anonymous",
    "region",
    "endpoint",
    "path_style",
    "profile",
    "request_payer",
    "account",
    "header",
    "connect_timeout",
    "read_timeout",
    "retries",
    "retry_time",
    "concurrency",
    "cache",
    "max_age",
    "missing_403",
    "allow_http",
    "durable",
];

/// How to reach a store. By default, credentials are searched in the usual places, and requests are unsigned if there
/// are none.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The context, with memory, threads and connections.
    pub context: Context,
    /// Never sign a request, even where credentials are found.
    pub anonymous: bool,
    /// Region of an S3 bucket. Default: from the environment, the profile, or the server.
    pub region: Option<String>,
    /// URL of an S3, GCS or Azure server other than the provider's own, such as `http://localhost:9000`.
    pub endpoint: Option<String>,
    /// Whether the bucket is the first part of the path rather than of the host name. Default: yes with an `endpoint`,
    /// and for bucket names with dots.
    pub path_style: Option<bool>,
    /// Profile in `~/.aws/credentials` and `~/.aws/config` for keys, region and endpoint.
    pub profile: Option<String>,
    /// Agree to pay for requests to a requester-pays bucket.
    pub request_payer: bool,
    /// Azure storage account, where the URI does not name it.
    pub account: Option<String>,
    /// Headers sent with every request, but not to another host after a redirect.
    pub headers: Vec<(String, String)>,
    /// Timeout for connecting: 10 s.
    pub connect_timeout: Duration,
    /// Timeout without any data from the server: 15 s. A slow response that keeps coming is fine.
    pub read_timeout: Duration,
    /// When and how often to retry a failed request.
    pub retry: RetryPolicy,
    /// Maximum number of concurrent requests per host: 64.
    pub concurrency: usize,
    /// Whether responses of remote stores are cached, in the memory of the context.
    pub cache: bool,
    /// Maximum age of a cached response before it is revalidated. Default: no limit.
    pub max_age: Option<Duration>,
    /// Treat 403 as "does not exist", as some buckets answer where listing is not permitted.
    pub missing_403: bool,
    /// Follow a redirect from `https` to `http`.
    pub allow_http: bool,
    /// Sync files to disk before they count as written (`fsync`), so that they survive a crash of the machine.
    pub durable: bool,
    /// Counts requests and reports each when it ends.
    pub log: Option<Arc<RequestLog>>,
    overrides: Vec<Override>,
}

/// One `PREFIX:key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Override {
    prefix: String,
    name: String,
    value: String,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            context: Context::shared(),
            anonymous: false,
            region: None,
            endpoint: None,
            path_style: None,
            profile: None,
            request_payer: false,
            account: None,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(15),
            retry: RetryPolicy::default(),
            concurrency: 64,
            cache: true,
            max_age: None,
            missing_403: false,
            allow_http: false,
            durable: false,
            log: None,
            overrides: Vec::new(),
        }
    }
}

impl StoreOptions {
    /// Sets the option `name` from text, as the command line does. Dashes and underscores are equivalent.
    ///
    /// Times are in seconds; `header` is `Name: value` and adds a header.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let text = || Some(value.to_owned()).filter(|v| !v.is_empty());
        match name.replace('-', "_").as_str() {
            "anonymous" => self.anonymous = flag(name, value)?,
            "region" => self.region = text(),
            "endpoint" => self.endpoint = text(),
            "path_style" => self.path_style = Some(flag(name, value)?),
            "profile" => self.profile = text(),
            "request_payer" => self.request_payer = flag(name, value)?,
            "account" => self.account = text(),
            "header" => self.add_header(value)?,
            "connect_timeout" => self.connect_timeout = seconds(name, value)?,
            "read_timeout" => self.read_timeout = seconds(name, value)?,
            "retries" => self.retry.attempts = Some(number::<u32>(name, value)?.saturating_add(1)),
            "retry_time" => self.retry.total = seconds(name, value)?,
            "concurrency" => self.concurrency = number::<usize>(name, value)?.max(1),
            "cache" => self.cache = flag(name, value)?,
            "max_age" => self.max_age = Some(seconds(name, value)?),
            "missing_403" => self.missing_403 = flag(name, value)?,
            "allow_http" => self.allow_http = flag(name, value)?,
            "durable" => self.durable = flag(name, value)?,
            _ => {
                return Err(Error::usage(format!(
                    "unknown store option {name:?}; options are {}",
                    OPTION_NAMES.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Adds a header given as `Name: value`.
    pub fn add_header(&mut self, header: &str) -> Result<()> {
        match header.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => {
                self.headers.push((name.trim().to_owned(), value.trim().to_owned()));
                Ok(())
            }
            // The value may be secret.
            _ => Err(Error::usage("a header must have the form \"Name: value\"")),
        }
    }

    /// Adds an option for URIs that begin with a prefix, given as `PREFIX:key=value`
    /// (`s3://bucket/part:anonymous=true`).
    pub fn add_override(&mut self, text: &str) -> Result<()> {
        let split = text.match_indices(':').find_map(|(i, _)| {
            let (prefix, rest) = (text.get(..i)?, text.get(i + 1..)?);
            let (name, value) = rest.split_once('=')?;
            let word =
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
            word.then(|| Override { prefix: prefix.into(), name: name.into(), value: value.into() })
        });
        let Some(over) = split.filter(|o| !o.prefix.is_empty()) else {
            return Err(Error::usage(format!("{text:?} does not have the form PREFIX:key=value")));
        };
        // Checked at once, not when a URI happens to match.
        Self::default().set(&over.name, &over.value)?;
        self.overrides.push(over);
        Ok(())
    }

    /// The options for `uri`: these, overridden by those set for its prefixes, the longest prefix last.
    pub fn for_uri(&self, uri: &str) -> Result<Self> {
        let mut matching: Vec<_> = self.overrides.iter().filter(|o| uri.starts_with(&o.prefix)).collect();
        matching.sort_by_key(|o| o.prefix.len());
        let mut out = self.clone();
        // Of headers with the same name, those of the longest prefix are sent.
        let mut named: Vec<(String, usize)> = Vec::new();
        for over in matching {
            if over.name == "header" {
                let name = over.value.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
                let place = (name, over.prefix.len());
                if !named.contains(&place) {
                    out.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(&place.0));
                    named.push(place);
                }
            }
            out.set(&over.name, &over.value)?;
        }
        Ok(out)
    }
}

/// Which prefix options apply to a URI; equal for URIs that are reached in the same way.
pub(crate) type Applied = Vec<usize>;

impl StoreOptions {
    /// Which prefix options apply to `uri`.
    pub(crate) fn applied(&self, uri: &str) -> Applied {
        let applies = |(_, o): &(usize, &Override)| uri.starts_with(&o.prefix);
        self.overrides.iter().enumerate().filter(applies).map(|(i, _)| i).collect()
    }
}

fn flag(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(Error::usage(format!("store option {name}: {value:?} is neither true nor false"))),
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| Error::usage(format!("store option {name}: {value:?} is not a number")))
}

fn seconds(name: &str, value: &str) -> Result<Duration> {
    Duration::try_from_secs_f64(number(name, value)?)
        .map_err(|_| Error::usage(format!("store option {name}: {value:?} is not a time in seconds")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_headers(options: &StoreOptions, uri: &str) -> Vec<String> {
        options.for_uri(uri).unwrap().headers.into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn an_override_applies_below_its_prefix_and_the_longest_wins() {
        let mut o = StoreOptions::default();
        o.add_override("s3://b/x:region=eu-west-1").unwrap();
        o.add_override("s3://b:region=us-east-2").unwrap();
        o.add_override("http://h:8080/p:header=A: b=c:d").unwrap();
        o.add_override("s3://b:missing-403=true").unwrap();
        let at = |uri: &str| o.for_uri(uri).unwrap();
        assert_eq!(at("s3://b/x/y").region.as_deref(), Some("eu-west-1"));
        assert_eq!(at("s3://b/z").region.as_deref(), Some("us-east-2"));
        assert!(at("s3://b/z").missing_403 && !at("s3://c").missing_403);
        assert_eq!(at("http://h:8080/p/q").headers, [("A".to_owned(), "b=c:d".to_owned())]);
        o.add_header("a: everywhere").unwrap();
        o.add_override("http://h:8080/p/q:header=A: one").unwrap();
        o.add_override("http://h:8080/p/q:header=a: two").unwrap();
        let sent = |uri: &str| at_headers(&o, uri);
        assert_eq!(sent("http://h:8080/p/q/r"), ["one", "two"]);
        assert_eq!(sent("http://h:8080/p"), ["b=c:d"]);
        assert_eq!(sent("http://i/"), ["everywhere"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_when_it_is_said() {
        let mut o = StoreOptions::default();
        for bad in
            ["region=x", "s3://b:nothing=1", "s3://b:anonymous=perhaps", ":region=x", "s3://b:retries=-1"]
        {
            assert_eq!(o.add_override(bad).unwrap_err().kind(), crate::ErrorKind::Usage, "{bad}");
        }
        for name in OPTION_NAMES.iter().filter(|n| **n != "header") {
            assert!(o.set(name, "1").is_ok(), "{name}");
        }
    }
}
