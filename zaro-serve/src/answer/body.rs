//! Bodies: nothing, bytes at hand, or a stream that is read as the client takes it.

use bytes::Bytes;
use futures::stream::{Stream, TryStreamExt as _};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use zaro::Error;

/// The body of an answer. An error in it ends the connection, so that the client sees that bytes are missing.
pub type Body = UnsyncBoxBody<Bytes, Error>;

/// An answer.
pub type Response = hyper::Response<Body>;

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    full(status, None, Bytes::new())
}

/// An answer with these bytes.
pub(crate) fn full(
    status: StatusCode,
    content_type: Option<&'static str>,
    bytes: impl Into<Bytes>,
) -> Response {
    let bytes = bytes.into();
    let length = HeaderValue::from(bytes.len());
    let mut response = Response::new(Full::new(bytes).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_LENGTH, length);
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}

/// An answer whose bytes come as the client takes them; with their number, where it is known.
pub(crate) fn stream(
    status: StatusCode,
    content_type: &'static str,
    length: Option<u64>,
    bytes: impl Stream<Item = Result<Bytes, Error>> + Send + 'static,
) -> Response {
    let mut response = Response::new(StreamBody::new(bytes.map_ok(Frame::data)).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(length) = length {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}
