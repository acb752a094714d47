//! Errors as answers: the right status, and a text without secrets.

use hyper::StatusCode;
use hyper::header::{ALLOW, CACHE_CONTROL, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use zaro::{Error, ErrorKind};

use super::{Caching, Response, full};

/// A request that cannot be answered as asked.
#[derive(Debug)]
pub struct Fault {
    /// The status.
    pub status: StatusCode,
    /// What is wrong, for people; never with an address of a store or a path of this machine.
    pub message: String,
    /// A body in place of the message, as JSON.
    pub json: Option<String>,
}

impl Fault {
    /// A fault with this status.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), json: None }
    }

    /// 404: it does not exist, or the client may not know that it does.
    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not found")
    }

    /// 400.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 401: a credential that is unknown or has expired.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "the credential is not valid")
    }

    /// 405.
    pub fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "this server is read-only")
    }

    /// 503, and when to come again.
    pub fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the server is busy; try again")
    }

    /// A failure to read what is there. It is never a 404, which clients take for a chunk that was never written.
    pub fn behind(e: &Error) -> Self {
        let status = match e.kind() {
            ErrorKind::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Conflict => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Io if is_timeout(e) => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, told(e))
    }

    /// The answer.
    pub fn response(self) -> Response {
        let mut response = match self.json {
            Some(json) => full(self.status, Some("application/json"), json),
            None => full(self.status, Some("text/plain; charset=utf-8"), format!("{}\n", self.message)),
        };
        let headers = response.headers_mut();
        match self.status {
            StatusCode::NOT_FOUND => drop(headers.insert(CACHE_CONTROL, Caching::Brief.value(false))),
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS, PROPFIND"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        if self.status != StatusCode::NOT_FOUND {
            headers.insert(CACHE_CONTROL, Caching::Never.value(true));
        }
        response
    }
}

/// The message of an error with its node and key, but without its store: where that lies is nobody's business.
fn told(e: &Error) -> String {
    let mut out = String::new();
    for (name, part) in [("node", e.node()), ("key", e.key())] {
        if let Some(part) = part {
            out.push_str(&format!("{name} {part:?}: "));
        }
    }
    // An address in a message may be signed.
    out.push_str(&zaro::redacted(e.message()));
    out
}

fn is_timeout(e: &Error) -> bool {
    let text = e.message();
    text.contains("timed out") || text.contains("timeout")
}

impl From<Error> for Fault {
    /// An error of looking something up: what does not exist is a 404, what is asked for wrongly a 400.
    fn from(e: Error) -> Self {
        match e.kind() {
            ErrorKind::NotFound => Self::new(StatusCode::NOT_FOUND, told(&e)),
            ErrorKind::Usage => Self::new(StatusCode::BAD_REQUEST, told(&e)),
            _ => Self::behind(&e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_never_a_404_and_names_no_store() {
        let e = Error::not_found("the referenced object does not exist");
        assert_eq!(Fault::behind(&e).status, StatusCode::BAD_GATEWAY);
        assert_eq!(Fault::behind(&Error::io("the request timed out")).status, StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(Fault::from(Error::not_found("no node")).status, StatusCode::NOT_FOUND);
        assert_eq!(Fault::from(Error::usage("no plane 9")).status, StatusCode::BAD_REQUEST);
        assert_eq!(Fault::from(Error::invalid("damaged")).status, StatusCode::BAD_GATEWAY);
        let response = Fault::busy().response();
        assert_eq!(response.headers().get(RETRY_AFTER).unwrap(), "1");
    }
}
