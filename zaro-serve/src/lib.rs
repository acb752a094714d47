//! Serves Zarrs over HTTP: every store that zaro opens, at any version, as plain Zarr; read-only.
//!
//! * [`Config`] says what is served, to whom, and within which limits.
//! * [`App`] answers a [`Request`] with a [`Response`]; it knows no socket.
//! * [`Server`] listens, and passes requests on to an [`App`].
//!
//! ```text
//!   accept    sockets, time limits, shutdown           tls, limits, metrics, talkers, streams    what it needs
//!   app       one function from a request to an answer: names and routes
//!   open      /open?uri=: addresses that clients name, within what the operator allows
//!   archive   /zarrs/ and /api/: an archive of versions
//!   dav       PROPFIND                                 listing          folders as pages and JSON
//!   raw       /data/: the keys of a store, byte for byte
//!   pixels    /tile/, /region/, /iiif/ and others: numbers and pictures
//!   views     /as/: the same chunks under other documents (overlay: changes in memory over a store)
//!   sources   a name to an open store                  visible          who may see it
//!                                                      embargo          what the tags of a bucket hide
//!   answer    conditions, ranges, headers, errors      path, request    what was asked
//! ```

mod accept;
mod answer;
mod app;
mod archive;
mod config;
mod dav;
mod embargo;
#[cfg(test)]
mod guard_tests;
mod limits;
mod listing;
mod metrics;
mod open;
mod overlay;
mod path;
mod pixels;
mod raw;
mod request;
mod sources;
mod streams;
mod talkers;
mod tls;
mod views;
mod visible;

pub use accept::{Server, Serving};
pub use answer::{Body, Caching, Fault, Response};
pub use app::App;
pub use config::{Config, Limits, LogFormat};
pub use request::{Query, Request};
