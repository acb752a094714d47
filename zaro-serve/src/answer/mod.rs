//! What HTTP says about an object: conditions, ranges, headers, errors. Knows no store and no socket.

mod body;
mod conditions;
mod error;
mod headers;
mod object;
mod range;

pub use body::{Body, Response};
pub(crate) use body::{empty, full, stream};
pub(crate) use conditions::{Verdict, check};
pub use error::Fault;
pub use headers::Caching;
pub(crate) use headers::{Cors, etag_of, hash_tag, http_date, lock_down};
pub(crate) use object::{Facts, Part, Plan};
pub(crate) use range::{Ranges, parse as parse_ranges};
