//! `/open?uri=`: an address that a client names, served like a source, if the operator allows what it begins with.
//!
//! Prefixes and addresses are compared in one canonical form, part by part, and what is opened is that form and not the
//! text: no two readings of one text can differ. Nothing of this machine can be named.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;
use zaro::{Error, Result};

use crate::answer::{Caching, Fault, Response};
use crate::app::{App, redirect_with};
use crate::path::encode;
use crate::request::Request;
use crate::sources::name_for;

/// The longest address that is looked at.
const LONGEST: usize = 2048;

/// What clients may open: everything below these.
#[derive(Debug, Default)]
pub(crate) struct Prefixes(Vec<Address>);

/// An address in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    scheme: &'static str,
    /// A host with its port, or a bucket.
    authority: String,
    /// The parts of the path, decoded; none is empty or leads upwards.
    path: Vec<String>,
}

impl Address {
    /// The canonical form of an address; what is wrong with it otherwise.
    fn parse(text: &str) -> std::result::Result<Self, &'static str> {
        if text.len() > LONGEST {
            return Err("the address is too long");
        }
        // Readers differ on spaces, controls, backslashes and what is not ASCII; a bar chains one kind of store to another.
        let odd =
            |b: u8| !b.is_ascii_graphic() || matches!(b, b'\\' | b'|' | b'<' | b'>' | b'"' | b'^' | b'`');
        if text.bytes().any(odd) {
            return Err("the address has characters that are not allowed");
        }
        let (scheme, rest) =
            text.split_once("://").ok_or("this is not an address such as https://host/path")?;
        let scheme = ["https", "http", "s3", "gs", "az"]
            .into_iter()
            .find(|one| one.eq_ignore_ascii_case(scheme))
            .ok_or("only addresses with https, http, s3, gs and az can be opened")?;
        if rest.contains(['?', '#']) {
            return Err("an address with a query or a fragment cannot be opened");
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("an address with a user or a password cannot be opened");
        }
        let authority = match scheme {
            "https" | "http" => host(scheme, authority).ok_or("the address has no proper host")?,
            _ => bucket(authority).ok_or("the address has no proper bucket")?,
        };
        let path = path.strip_suffix('/').unwrap_or(path);
        let parts = path.split('/').filter(|_| !path.is_empty()).map(part);
        let path: Vec<String> =
            parts.collect::<Option<_>>().ok_or("the path of the address is not in its plain form")?;
        // A key is written as it is, so it must not look like anything else.
        if !scheme.starts_with("http") && path.iter().any(|part| part.contains(['|', '?', '#', '%'])) {
            return Err("the path of the address is not in its plain form");
        }
        Ok(Self { scheme, authority, path })
    }

    /// Whether `other` is this or lies below it.
    fn holds(&self, other: &Self) -> bool {
        (self.scheme, &self.authority) == (other.scheme, &other.authority)
            && other.path.starts_with(&self.path)
    }

    /// As text. Buckets have keys as they are, the paths of servers are encoded.
    fn text(&self) -> String {
        let path = self.path.join("/");
        match self.scheme {
            "https" | "http" => format!("{}://{}/{}", self.scheme, self.authority, encode(&path)),
            _ => format!("{}://{}/{path}", self.scheme, self.authority),
        }
    }
}

/// A host and its port as those who connect read it: names in lower case, every form of an IP address as one, the port of
/// the scheme left out.
fn host(scheme: &str, authority: &str) -> Option<String> {
    if authority.contains('%') {
        return None;
    }
    let url = Url::parse(&format!("{scheme}://{authority}/")).ok()?;
    let host = url.host_str().filter(|host| !host.is_empty())?;
    let plain = url.username().is_empty() && url.password().is_none() && url.path() == "/";
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    plain.then(|| format!("{host}{port}"))
}

/// The name of a bucket.
fn bucket(authority: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let good = !authority.is_empty() && authority.bytes().all(plain) && !authority.starts_with('.');
    good.then(|| authority.to_owned())
}

/// A part of a path, decoded. `None` if it is empty, leads elsewhere, or would if somebody decoded it once more.
fn part(text: &str) -> Option<String> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned);
    let leads = |text: &str| {
        matches!(text, "" | "." | "..") || text.contains(['/', '\\']) || text.chars().any(char::is_control)
    };
    let once = decode(text)?;
    let twice = decode(&once)?;
    (!leads(&once) && !leads(&twice)).then_some(once)
}

impl Prefixes {
    /// The prefixes that the operator gave.
    pub(crate) fn parse(list: &[String]) -> Result<Self> {
        let parsed = list
            .iter()
            .map(|text| Address::parse(text).map_err(|what| Error::usage(format!("--open {text}: {what}"))));
        parsed.collect::<Result<_>>().map(Self)
    }

    /// The canonical form of an address below one of the prefixes.
    fn permitted(&self, text: &str) -> std::result::Result<String, Fault> {
        let address = Address::parse(text).map_err(Fault::bad)?;
        match self.0.iter().any(|prefix| prefix.holds(&address)) {
            true => Ok(address.text()),
            false => Err(Fault::new(StatusCode::FORBIDDEN, "this address may not be opened here")),
        }
    }
}

/// Opens the address in `uri=`, and sends the client to it.
pub(crate) async fn answer(app: &App, request: &Request) -> std::result::Result<Response, Fault> {
    if !request.is_get() {
        return Err(Fault::method());
    }
    request.query.without("token").only(&["uri"])?;
    let mut given = request.query.all("uri");
    let (Some(text), None) = (given.next(), given.next()) else {
        return Err(Fault::bad("name one address: /open?uri=https://host/path"));
    };
    let uri = app.prefixes.permitted(text)?;
    let name = name_for(&uri);
    // Who may not see it may not have it opened. Whether its tags hide it is known when it has an address.
    if !app.may_open(request, &name)? {
        return Err(Fault::not_found());
    }
    app.sources.visit(&name, &uri)?;
    let opened = async {
        let source = app.source(request, &name).await?;
        match source.zarr() {
            // Some stores are opened without a look.
            Ok(zarr) => zarr.node("").await.map(drop).map_err(Fault::from),
            // The bytes of a damaged Zarr are there all the same.
            Err(_) => Ok(()),
        }
    };
    if let Err(fault) = opened.await {
        app.sources.leave(&name);
        return Err(fault);
    }
    let mut response = redirect_with(StatusCode::SEE_OTHER, &format!("/data/{}/", encode(&name)));
    // It may be gone by the next time.
    response.headers_mut().insert(CACHE_CONTROL, Caching::Never.value(true));
    response.headers_mut().insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(prefixes: &[&str], uri: &str) -> std::result::Result<String, u16> {
        let list: Vec<String> = prefixes.iter().map(|p| (*p).to_owned()).collect();
        Prefixes::parse(&list).unwrap().permitted(uri).map_err(|fault| fault.status.as_u16())
    }

    #[test]
    fn an_address_is_compared_part_by_part_in_canonical_form() {
        let all = ["https://data.example/a/b", "s3://bucket", "http://10.0.0.7:9000/x/"];
        for (uri, wanted) in [
            ("https://data.example/a/b", "https://data.example/a/b"),
            ("https://data.example/a/b/", "https://data.example/a/b"),
            ("HTTPS://Data.Example:443/a/b/c.zarr", "https://data.example/a/b/c.zarr"),
            ("https://data.example/%61/b/c%20d", "https://data.example/a/b/c%20d"),
            ("s3://bucket/any/key.zarr", "s3://bucket/any/key.zarr"),
            ("s3://bucket", "s3://bucket/"),
            ("http://10.0.0.7:9000/x/y", "http://10.0.0.7:9000/x/y"),
            ("http://0xA.7:9000/x/y", "http://10.0.0.7:9000/x/y"),
        ] {
            assert_eq!(said(&all, uri).as_deref(), Ok(wanted), "{uri}");
        }
    }

    #[test]
    fn nothing_else_is_opened() {
        let all = ["https://data.example/a/b", "s3://bucket/p", "http://h.example"];
        for uri in [
            // Another scheme, host, port or bucket.
            "http://data.example/a/b/c",
            "https://data.example:8443/a/b/c",
            "https://data.example.evil/a/b/c",
            "https://evil.data.example/a/b/c",
            "https://data.example./a/b/c",
            "s3://bucket2/p/x",
            "s3://bucke/p/x",
            "gs://bucket/p/x",
            // Beside the path, not below it.
            "https://data.example/a",
            "https://data.example/a/bc",
            "https://data.example/A/b",
            "https://data.example/",
            "s3://bucket/pp",
            "s3://bucket",
        ] {
            assert_eq!(said(&all, uri), Err(403), "{uri}");
        }
        for uri in [
            // Upwards, in every spelling.
            "https://data.example/a/b/../../secret",
            "https://data.example/a/b/..",
            "https://data.example/a/b/./c",
            "https://data.example/a/b/%2e%2e/%2e%2e/secret",
            "https://data.example/a/b/%2E./x",
            "https://data.example/a/b/%252e%252e/x",
            "https://data.example/a/b/..%2f..%2fsecret",
            "https://data.example/a/b/%2fetc",
            "https://data.example/a/b/%5c..%5cx",
            "https://data.example/a/b\\..\\x",
            "https://data.example/a//b/c",
            "https://data.example//a/b/c",
            "https://data.example/a/b/%00",
            "https://data.example/a/b/%c0%ae%c0%ae/x",
            "s3://bucket/p/../q",
            "s3://bucket/p//q",
            "s3://bucket/p/x%7Czip:",
            "s3://bucket/p/x%3FversionId=1",
            // Who is asked.
            "https://data.example@evil.example/a/b",
            "https://user:password@data.example/a/b/c",
            "https://data.example%2eevil.example/a/b",
            "https://evil.example#@data.example/a/b",
            "https://evil.example?x=https://data.example/a/b",
            "https:///a/b",
            "https://",
            "https://data.example:99999/a/b",
            "s3://user@bucket/p/x",
            "s3://bucket:80/p/x",
            // Queries, fragments, chains of stores.
            "https://data.example/a/b/c?versionId=1",
            "https://data.example/a/b/c#x",
            "https://data.example/a/b/c.zip|zip:|zarr3:",
            "reference+json://https://data.example/a/b/c.json",
            "zip://https://data.example/a/b/c.zip",
            "manifest+https://data.example/a/b/c.json",
            "icechunk+https://data.example/a/b/c",
            // This machine.
            "/etc/passwd",
            "etc/passwd",
            "file:///etc/passwd",
            "file://localhost/etc/passwd",
            "FILE:///etc/passwd",
            "memory://x",
            "",
            " https://data.example/a/b/c",
            "https://data.example/a/b/c\n",
            "https://data.example/a/b/ü",
            "ftp://data.example/a/b/c",
            "gopher://data.example/a/b/c",
        ] {
            assert_eq!(said(&all, uri), Err(400), "{uri}");
        }
        assert_eq!(said(&all, &format!("http://h.example/{}", "a".repeat(LONGEST))), Err(400));
        for bad in ["/data", "file:///data", "https://h/a/../b", "https://u@h/", "data.example"] {
            assert!(Prefixes::parse(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
