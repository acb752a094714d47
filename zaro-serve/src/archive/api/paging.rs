//! Pages by number, and parameters with the checks and words of the archive's API.

use hyper::StatusCode;
use zaro::meta::Json;

use super::{Call, detail, of_field, with_query};
use crate::answer::Fault;
use crate::request::Request;

/// Results on a page unless the client says how many.
const PAGE: usize = 100;

/// The most results on a page, and the most files in an answer.
pub(super) const MOST: usize = 1000;

/// Which page of a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    /// From 1 on.
    number: usize,
    size: usize,
}

impl Page {
    /// As the query says. A size that is none is the usual one, and one that is too large the largest.
    pub(super) fn of(request: &Request) -> Result<Self, Fault> {
        let size = request.query.get("page_size").and_then(|text| text.trim().parse().ok());
        let size = size.filter(|size| *size > 0).unwrap_or(PAGE).min(MOST);
        let number = match request.query.get("page") {
            None => 1,
            Some(text) => text.trim().parse().ok().filter(|n| *n > 0).ok_or_else(invalid)?,
        };
        Ok(Self { number, size })
    }

    /// The places of its results in the list.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        let from = self.number.saturating_sub(1).saturating_mul(self.size);
        from..from.saturating_add(self.size)
    }

    /// Refuses a page behind the end of a list of `count`; the first page is always there.
    pub(super) fn check(&self, count: usize) -> Result<(), Fault> {
        if self.number > 1 && self.range().start >= count { Err(invalid()) } else { Ok(()) }
    }

    /// The document of a page of a list of `count`.
    pub(super) fn document(&self, call: &Call<'_>, count: usize, results: Vec<Json>) -> Json {
        let at = |number: usize| {
            // As the archive writes it: the first page has no number.
            let number = Some(number).filter(|n| *n > 1).map(|n| n.to_string());
            let query = with_query(call.request, &[("page", number.as_deref())]);
            Json::from(format!("{}{}{query}", call.base, call.request.path))
        };
        let next = (self.range().end < count).then(|| at(self.number.saturating_add(1)));
        let previous = (self.number > 1).then(|| at(self.number.saturating_sub(1)));
        Json::from([
            ("count", Json::from(count)),
            ("next", next.unwrap_or(Json::Null)),
            ("previous", previous.unwrap_or(Json::Null)),
            ("results", Json::Array(results)),
        ])
    }
}

fn invalid() -> Fault {
    detail(StatusCode::NOT_FOUND, "Invalid page.")
}

/// Which files are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilesWanted {
    /// What their keys begin with.
    pub(super) prefix: String,
    /// The key they come after.
    pub(super) after: String,
    /// How many.
    pub(super) limit: usize,
    /// Whether the file at `prefix` itself is wanted.
    pub(super) download: bool,
}

impl FilesWanted {
    /// As the query says.
    pub(super) fn of(request: &Request) -> Result<Self, Fault> {
        let text = |name: &str| match request.query.get(name) {
            Some("") => Err(of_field(name, "This field may not be blank.")),
            Some(text) => Ok(text.to_owned()),
            None => Ok(String::new()),
        };
        let (prefix, after) = (text("prefix")?, text("after")?);
        if prefix.split(['/', '\\']).any(|part| part == "..") {
            return Err(of_field("prefix", "Zarr path cannot contain \"..\" components."));
        }
        let limit = match request.query.get("limit").map(|text| text.trim().parse::<i64>()) {
            None => MOST,
            Some(Err(_)) => return Err(of_field("limit", "A valid integer is required.")),
            Some(Ok(n)) if n < 0 => {
                return Err(of_field("limit", "Ensure this value is greater than or equal to 0."));
            }
            Some(Ok(n)) => usize::try_from(n).ok().filter(|n| *n <= MOST).ok_or_else(|| {
                of_field("limit", &format!("Ensure this value is less than or equal to {MOST}."))
            })?,
        };
        let download = match request.query.get("download").map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "0" | "f" | "no" | "n" | "off") => false,
            Some("true" | "1" | "t" | "yes" | "y" | "on") => true,
            Some(_) => return Err(of_field("download", "Must be a valid boolean.")),
        };
        Ok(Self { prefix: prefix.trim_end_matches('/').to_owned(), after, limit, download })
    }
}
