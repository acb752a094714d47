//! Classifies failed HTTP responses and network failures, for all stores that use HTTP.

use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap};

use super::fault::transient_because;
use super::{GetOptions, RemoteMeta, changed};
use crate::error::{Error, Result};

/// A failed response of a server.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    /// The `<Code>` of the error document.
    code: Option<String>,
    /// The region of the bucket, if the server says that it is another one.
    pub(super) region: Option<String>,
    /// The requested delay (`Retry-After`).
    after: Option<Duration>,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status.as_u16())
    }
}

impl StdError for Reply {}

/// How the failed request was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) signed: bool,
    /// Whether 403 counts as "does not exist".
    pub(super) missing_403: bool,
    /// Whether it was a read: some servers refuse those of missing keys.
    pub(super) read: bool,
}

impl Reply {
    /// From the headers and the error document.
    pub(super) fn new(status: StatusCode, headers: &HeaderMap, text: &str) -> Self {
        let tag = |open, close| Some(text.split_once(open)?.1.split_once(close)?.0.to_owned());
        let region = headers.get("x-amz-bucket-region").and_then(|v| v.to_str().ok()).map(str::to_owned);
        // Dates, which few servers send, are left to the backoff.
        let after = headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.trim().parse().ok());
        Self {
            status,
            code: tag("<Code>", "</Code>"),
            region: region.or_else(|| tag("<Region>", "</Region>")),
            after: after.map(Duration::from_secs),
        }
    }

    /// Classifies the failure: `Ok` for a missing key.
    pub(super) fn sort(&self, asked: Asked) -> Result<()> {
        let Asked { signed, missing_403, read } = asked;
        let code = self.code.as_deref();
        let error = match self.status.as_u16() {
            404 if matches!(code, Some("NoSuchBucket" | "ContainerNotFound")) => {
                Error::not_found("the bucket or container does not exist")
            }
            404 | 410 => return Ok(()),
            403 if missing_403 => return Ok(()),
            status @ (401 | 403) => {
                let how = if signed { "" } else { " an unsigned request" };
                // Not a refusal with its own reason, such as a wrong signature.
                let unsaid = read && status == 403 && matches!(code, None | Some("AccessDenied"));
                let hint = match unsaid {
                    true => {
                        "; some servers answer 403 for keys that do not exist: set the option missing_403 to treat 403 as missing"
                    }
                    false => "",
                };
                Error::not_permitted(format!("the server refused{how} (status {status}){hint}"))
            }
            _ if is_transient(self.status) => transient_because(self.answered(), self.after, None),
            _ => Error::io(self.answered()),
        };
        Err(match code {
            Some(code) => error.within(code),
            None => error,
        })
    }

    /// The same where nothing can be missing but the bucket.
    pub(super) fn failure(&self, asked: Asked) -> Error {
        match self.sort(Asked { missing_403: false, ..asked }) {
            Err(e) => e,
            Ok(()) => Error::not_found("the bucket or container does not exist"),
        }
    }

    pub(super) fn answered(&self) -> String {
        format!("the server answered {}", self.status)
    }
}

/// How a server handles `If-Match`.
///
/// A server that does not support it sends the object all the same, and its state is compared afterwards. Some refuse
/// every tag (they compare it with its quotes, or with that of another encoding of the object), and a reader that
/// believed them would never finish. So a refused request is repeated once without the condition, and if the object is
/// in the expected state, no more conditions are sent to this server. A real change costs one more response header,
/// whose body is not read.
#[derive(Debug, Default)]
pub(super) struct IfMatch {
    is_wrong: AtomicBool,
}

impl IfMatch {
    /// The tag to send, if any.
    pub(super) fn tag<'a>(&self, ask: &GetOptions<'a>) -> Option<&'a str> {
        ask.if_match().filter(|_| !self.is_wrong.load(Ordering::Relaxed))
    }

    /// Whether a status refuses the condition, or says that conditions are not supported.
    pub(super) fn refuses(status: StatusCode) -> bool {
        matches!(status, StatusCode::PRECONDITION_FAILED | StatusCode::NOT_IMPLEMENTED)
    }

    /// Checks a refusal against the unconditional response: a `Conflict`, unless the refusal was wrong.
    pub(super) fn judge(&self, sent: &str, found: &RemoteMeta) -> Result<()> {
        if found.etag.as_deref() != Some(sent) {
            return Err(changed());
        }
        self.is_wrong.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether a status is transient, so that a retry may succeed.
fn is_transient(status: StatusCode) -> bool {
    let final_fault = matches!(status, StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    (status.is_server_error() && !final_fault)
        || matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY
        )
}

/// A network failure.
#[derive(Debug, Clone, Copy)]
pub(super) enum Broken {
    Late,
    Unconnected,
    Other,
}

impl Broken {
    /// As an error; `cause` describes `error`.
    pub(super) fn error(
        self,
        error: &(dyn StdError + 'static),
        cause: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        if is_untrusted(error) {
            return Error::io("the server's certificate is not trusted").with_source(cause);
        }
        let what = match self {
            Self::Late => "the server took too long to answer",
            Self::Unconnected => "no connection to the server",
            Self::Other => "the connection broke",
        };
        transient_because(what, None, Some(cause.into()))
    }
}

/// Whether a connection failed because of a certificate, so that a retry is pointless.
fn is_untrusted(error: &(dyn StdError + 'static)) -> bool {
    let mut at = Some(error);
    while let Some(cause) = at {
        if cause.to_string().contains("invalid peer certificate") {
            return true;
        }
        at = cause.source();
    }
    false
}
