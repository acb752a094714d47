//! What a failure of a server or of the network means: sorted here for everything that speaks HTTP.

use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap};

use super::fault::transient_because;
use super::{GetOptions, RemoteMeta, changed};
use crate::error::{Error, Result};

/// A failure as the server put it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    /// The `<Code>` of the error document.
    code: Option<String>,
    /// Where the bucket is, when the server says that it is not where it was asked for.
    pub(super) region: Option<String>,
    /// How long the server asks us to wait.
    after: Option<Duration>,
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status.as_u16())
    }
}

impl StdError for Reply {}

/// How a request was made that a server refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) signed: bool,
    /// Whether 403 is taken for "does not exist".
    pub(super) missing_403: bool,
    /// Whether it was a read: some servers refuse those of keys that do not exist.
    pub(super) read: bool,
}

impl Reply {
    /// With what the headers and the error document say.
    pub(super) fn new(status: StatusCode, headers: &HeaderMap, text: &str) -> Self {
        let tag = |open, close| Some(text.split_once(open)?.1.split_once(close)?.0.to_owned());
        let region = headers.get("x-amz-bucket-region").and_then(|v| v.to_str().ok()).map(str::to_owned);
        // Dates, which few servers send, are left to the back-off.
        let after = headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.trim().parse().ok());
        Self {
            status,
            code: tag("<Code>", "</Code>"),
            region: region.or_else(|| tag("<Region>", "</Region>")),
            after: after.map(Duration::from_secs),
        }
    }

    /// What the failure means: `Ok` for a key that is not there.
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
                // Not a refusal with a reason of its own, such as a wrong signature.
                let unsaid = read && status == 403 && matches!(code, None | Some("AccessDenied"));
                let hint = match unsaid {
                    true => {
                        "; some servers answer 403 for keys that do not exist: option missing_403 takes it so"
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

/// What a server makes of `If-Match`.
///
/// One that does not know it sends the object all the same, whose state is compared afterwards. Some refuse every tag (they compare
/// it with its quotes, or with that of another coding of the object), and a reader that believed them would never come to
/// an end. So a refusal is not the last word: the same is asked once more without the condition, and if the object is in
/// the very state that is meant, the server is not asked under a condition any more. A true change costs one more head of
/// an answer, whose body is not read.
#[derive(Debug, Default)]
pub(super) struct IfMatch {
    is_wrong: AtomicBool,
}

impl IfMatch {
    /// The tag to send, if any.
    pub(super) fn tag<'a>(&self, ask: &GetOptions<'a>) -> Option<&'a str> {
        ask.if_match().filter(|_| !self.is_wrong.load(Ordering::Relaxed))
    }

    /// Whether a status refuses the condition, or says that the server knows none.
    pub(super) fn refuses(status: StatusCode) -> bool {
        matches!(status, StatusCode::PRECONDITION_FAILED | StatusCode::NOT_IMPLEMENTED)
    }

    /// Judges a refusal by what was said without the condition: a `Conflict`, unless the refusal was wrong.
    pub(super) fn judge(&self, sent: &str, found: &RemoteMeta) -> Result<()> {
        if found.etag.as_deref() != Some(sent) {
            return Err(changed());
        }
        self.is_wrong.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Whether a status may pass when the request is made again.
fn is_transient(status: StatusCode) -> bool {
    let final_fault = matches!(status, StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    (status.is_server_error() && !final_fault)
        || matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY
        )
}

/// What the network did.
#[derive(Debug, Clone, Copy)]
pub(super) enum Broken {
    Late,
    Unconnected,
    Other,
}

impl Broken {
    /// As our error; `cause` is what is said of `error`.
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

/// Whether a connection failed over a certificate, which no second try mends.
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
