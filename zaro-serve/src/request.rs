//! A request, read once: what the handlers need of it, and nothing of the connection.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use hyper::header::{AsHeaderName, HeaderMap};
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use crate::answer::Fault;

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path as it was sent: percent-encoded.
    pub path: String,
    /// The query, decoded.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// The client: the peer, or the address a trusted proxy names.
    pub client: IpAddr,
    /// The body; only some methods have one.
    pub body: Bytes,
}

impl Request {
    /// A request without headers, from this machine: for tests and for requests the server makes to itself.
    pub fn new(method: Method, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method,
            path: path.to_owned(),
            query: Query::parse(query),
            headers: HeaderMap::new(),
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            body: Bytes::new(),
        }
    }

    /// The value of a header, if it is text.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether it is a HEAD, which gets the headers of a GET.
    pub fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// Whether it is a GET or a HEAD.
    pub fn is_get(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }

    /// Whether a browser made it for a page: then a redirect to another origin may not be followed.
    pub fn is_from_page(&self) -> bool {
        self.headers.contains_key("origin") || self.headers.contains_key("sec-fetch-mode")
    }

    /// Whether the client prefers JSON: `Accept: application/json`, or `format=json`.
    pub fn wants_json(&self) -> bool {
        match self.query.get("format") {
            Some(format) => format == "json",
            None => self.header("accept").is_some_and(prefers_json),
        }
    }
}

/// Whether an `Accept` header names JSON, and not HTML before it.
fn prefers_json(accept: &str) -> bool {
    let place =
        |wanted: &str| accept.split(',').position(|t| t.split(';').next().unwrap_or("").trim() == wanted);
    match (place("application/json"), place("text/html")) {
        (Some(json), Some(html)) => json < html,
        (json, _) => json.is_some(),
    }
}

/// The parameters of a query, decoded, in the order given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=1&b=2`; `+` is a space.
    pub fn parse(text: &str) -> Self {
        let decoded = |part: &str| {
            let spaced = part.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(key, value)| (decoded(key), decoded(value)))
                .collect(),
        )
    }

    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All parameters.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The others: what says who asks is no part of what is asked for.
    pub(crate) fn without(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|(key, _)| key != name).cloned().collect())
    }

    /// The number in a parameter, or an error that says what is wrong.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Fault> {
        let parsed = self.get(name).map(|text| {
            text.parse().map_err(|_| {
                Fault::new(StatusCode::BAD_REQUEST, format!("{name}={text}: not a number that fits"))
            })
        });
        parsed.transpose()
    }

    /// Refuses parameters other than these: an answer must not depend on, nor be cached under, what nobody reads.
    pub fn only(&self, names: &[&str]) -> Result<(), Fault> {
        match self.0.iter().find(|(key, _)| !names.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(Fault::new(
                StatusCode::BAD_REQUEST,
                format!("unknown parameter {key:?}; here are: {}", names.join(", ")),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_unknown_ones_refused() {
        let query = Query::parse("a=1&b=x%20y+z&a=2&flag&c=%41%3D");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(
            (query.get("b"), query.get("flag"), query.get("c")),
            (Some("x y z"), Some(""), Some("A="))
        );
        assert_eq!(query.number::<u8>("a").unwrap(), Some(1));
        assert!(query.number::<u8>("b").is_err() && query.number::<u8>("none").unwrap().is_none());
        assert!(query.only(&["a", "b", "c", "flag"]).is_ok() && query.only(&["a"]).is_err());
    }

    #[test]
    fn json_is_sent_only_to_those_who_ask_for_it() {
        for (accept, wanted) in [
            ("*/*", false),
            ("text/html", false),
            ("application/json", true),
            ("application/json;q=0.9, text/html;q=0.1", true),
            ("text/html, application/json", false),
        ] {
            assert_eq!(prefers_json(accept), wanted, "{accept}");
        }
        assert!(Request::new(Method::GET, "/?format=json").wants_json());
        assert!(!Request::new(Method::GET, "/").wants_json());
    }
}
