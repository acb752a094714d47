//! A folder as JSON, page by page, for people's programs: a page of entries, and where the next one is.

use std::time::UNIX_EPOCH;

use futures::TryStreamExt as _;
use hyper::StatusCode;
use hyper::header::{HeaderValue, LINK};
use zaro::manifest::Time;
use zaro::meta::Json;

use super::rows::{Row, Walk};
use crate::answer::{Fault, Response, full};
use crate::path::encode;
use crate::request::Request;

/// Entries of a page, if the client does not say.
const LIMIT: usize = 1000;

/// Entries of a page at the most: a page is made in memory.
const MOST: usize = 10_000;

/// Which page is wanted.
#[derive(Debug)]
pub(super) struct Paging {
    /// What the entries come after.
    after: Option<String>,
    limit: usize,
}

impl Paging {
    pub(super) fn of(request: &Request) -> Result<Self, Fault> {
        let limit = request.query.number::<usize>("limit")?.unwrap_or(LIMIT);
        if limit == 0 {
            return Err(Fault::bad("limit=0: a page has at least one entry"));
        }
        let after = request.query.get("after").filter(|after| !after.is_empty()).map(str::to_owned);
        Ok(Self { after, limit: limit.min(MOST) })
    }
}

/// A page of a folder; `None` if there is nothing in it at all.
pub(super) async fn folder(mut walk: Walk, request: &Request) -> Result<Option<Response>, Fault> {
    let paging = Paging::of(request)?;
    walk.after.clone_from(&paging.after);
    let mut rows = walk.rows();
    let mut page = Vec::new();
    // One more than wanted tells whether there are more.
    while page.len() <= paging.limit
        && let Some(row) = rows.try_next().await.map_err(|e| Fault::behind(&e))?
    {
        page.push(row);
    }
    drop(rows);
    if page.is_empty() && paging.after.is_none() {
        return Ok(None);
    }
    Ok(Some(answer(page, &paging, request)))
}

/// A page of rows that are all at hand, in the order of their names.
pub(super) fn of_rows(rows: Vec<Row>, request: &Request) -> Result<Response, Fault> {
    let paging = Paging::of(request)?;
    let after = paging.after.as_deref().map(|after| after.trim_end_matches('/'));
    let rest = rows.into_iter().filter(|row| after.is_none_or(|after| row.path.as_str() > after));
    let page = rest.take(paging.limit.saturating_add(1)).collect();
    Ok(answer(page, &paging, request))
}

fn answer(mut page: Vec<Row>, paging: &Paging, request: &Request) -> Response {
    let more = page.len() > paging.limit;
    page.truncate(paging.limit);
    let next = page.last().filter(|_| more).map(|last| {
        let slash = if last.folder { "%2F" } else { "" };
        // As it was asked: who said it in the query says it there again.
        let format = if request.query.get("format").is_some() { "format=json&" } else { "" };
        format!("{}?{format}after={}{slash}&limit={}", request.path, encode(&last.path), paging.limit)
    });
    let link = next.as_ref().and_then(|next| HeaderValue::from_str(&format!("<{next}>; rel=\"next\"")).ok());
    let document = Json::from([("entries", page.iter().map(entry).collect()), ("next", Json::from(next))]);
    let mut response = full(StatusCode::OK, Some("application/json"), document.compact());
    if let Some(link) = link {
        response.headers_mut().insert(LINK, link);
    }
    response
}

fn entry(row: &Row) -> Json {
    let modified = row.modified().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified = modified.and_then(|since| i64::try_from(since.as_secs()).ok());
    Json::from([
        ("name", Json::from(row.path.as_str())),
        ("type", Json::from(if row.folder { "folder" } else { "file" })),
        ("size", row.size().map_or(Json::Null, Json::from)),
        ("modified", modified.map_or(Json::Null, |s| Json::from(Time::from_seconds(s).to_string()))),
    ])
}
