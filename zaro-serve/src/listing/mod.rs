//! What lies in a folder: as a page for people and the programs that read such pages, or as JSON. The rows are those that
//! WebDAV has, too.

mod html;
mod json;
mod pipe;
mod rows;

use std::sync::Arc;
use std::time::SystemTime;

use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};

pub(crate) use pipe::{Form, begin};
pub(crate) use rows::{Row, Walk};

use crate::answer::{Caching, Fault, Response, empty, full, http_date, stream};
use crate::request::Request;
use crate::sources::Source;

const HTML: &str = "text/html; charset=utf-8";

/// Answers a GET or HEAD of a folder of a source, whose path on this server ends in a slash.
pub(crate) async fn folder(source: &Arc<Source>, key: &str, request: &Request) -> Result<Response, Fault> {
    if zaro::store::check_prefix(key).is_err() {
        return Err(Fault::not_found());
    }
    let walk = Walk::of(source, key);
    let answer = match request.wants_json() {
        true => json::folder(walk, request).await?,
        false => {
            let pieces = begin(walk, html::form(&request.path)).await?;
            pieces.map(|pieces| stream(StatusCode::OK, HTML, None, pieces))
        }
    };
    // Stores have no empty folders.
    let mut response = answer.ok_or_else(Fault::not_found)?;
    finish(&mut response, source.private, request);
    Ok(response)
}

/// Answers a GET or HEAD of `/` or `/data/`: the names of the sources. On `/`, where they do not lie themselves, they
/// are links beside the one folder that does.
pub(crate) fn sources(names: Vec<String>, request: &Request) -> Result<Response, Fault> {
    let mut response = match request.wants_json() {
        true => json::of_rows(names.into_iter().map(Row::folder).collect(), request)?,
        false if request.path == "/" => {
            let places: Vec<_> = names.into_iter().map(|name| (format!("/data/{name}/"), name)).collect();
            full(StatusCode::OK, Some(HTML), html::page("/", &[Row::folder("data".to_owned())], &places))
        }
        false => {
            let rows: Vec<Row> = names.into_iter().map(Row::folder).collect();
            full(StatusCode::OK, Some(HTML), html::page(&request.path, &rows, &[]))
        }
    };
    finish(&mut response, false, request);
    Ok(response)
}

/// The headers of every listing. It has no tag, so that it is asked for each time, also of a version: the form of a page
/// may change.
fn finish(response: &mut Response, private: bool, request: &Request) {
    if request.is_head() {
        *response.body_mut() = empty(StatusCode::OK).into_body();
    }
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, Caching::Live.value(private));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A page of links: it runs nothing, loads nothing, and sends nothing.
    let policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors *";
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
}

/// A date as HTTP has it, as text.
pub(crate) fn date(time: SystemTime) -> String {
    http_date(time).to_str().unwrap_or_default().to_owned()
}

/// Appends text to HTML or XML, of an element or an attribute. What XML has no way to write becomes U+FFFD.
pub(crate) fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
