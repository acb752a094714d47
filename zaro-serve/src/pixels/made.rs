//! Answers that are made: their tags, their encoding, conditional requests.
//!
//! What is made of a version never changes: its tag follows from the version, the parameters and the renderer, and a
//! client that has it costs nothing. What is made of something that can change is tagged by its bytes: only the
//! documents of a root are looked at when it changes, and a tile must not be taken for current because of them.

use std::future::Future;
use std::io::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY};

use super::Ask;
use crate::answer::{Caching, Facts, Fault, Plan, Response, Verdict, check, full, hash_tag, lock_down};

/// Changes whenever the same request may give other bytes than before.
const RENDERER: &str = "zaro-pixels-1";

/// How long what is made of a source that can change is taken for current.
pub(crate) const LIVE: Duration = Duration::from_secs(5);

/// Answers that are larger than this are not kept.
const LARGEST_KEPT: usize = 4 << 20;

/// Smaller answers are not compressed.
const SMALLEST_ZIPPED: usize = 1 << 10;

/// An answer that was made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) content_type: &'static str,
    pub(crate) bytes: Bytes,
    /// Headers of its own.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Whether compressing it again is worth while.
    pub(crate) is_plain: bool,
}

impl Made {
    /// Numbers or text, which are compressed for those who take it.
    pub(crate) fn plain(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self { content_type, bytes: bytes.into(), headers: Vec::new(), is_plain: true }
    }

    /// A picture, which is compressed already.
    pub(crate) fn picture(content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self { content_type, bytes: bytes.into(), headers: Vec::new(), is_plain: false }
    }

    /// With one more header.
    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    fn weight(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX).saturating_add(256)
    }
}

/// Answers with what `make` makes, or has made for another request that asked the same.
pub(crate) async fn answer(
    ask: &Ask<'_>,
    make: impl Future<Output = Result<Made, Fault>> + Send,
) -> Result<Response, Fault> {
    let begun = Instant::now();
    let zipped = accepts_gzip(ask.request.header("accept-encoding").unwrap_or(""));
    let source = &ask.source;
    let is_fixed = source.caching == Caching::Immutable;
    let name = ask.name();
    let encoding = if zipped { "gzip" } else { "identity" };
    let fixed_tag = is_fixed.then(|| hash_tag(&[RENDERER, &name, encoding]));
    let mut facts = Facts {
        size: 0,
        tag: fixed_tag,
        modified: None,
        content_type: "application/octet-stream",
        caching: source.caching,
        private: source.private,
    };
    if is_fixed
        && !matches!(check(&ask.request.headers, facts.tag.as_deref(), None), Verdict::Go { .. })
        && let Plan::Done(response) = facts.plan(ask.request)
    {
        return Ok(response);
    }
    let lasts = (!is_fixed).then_some(LIVE);
    let kept = &ask.pixels.made;
    // What is large is made for each request anew, but only once for those who ask at the same time.
    let weigh: fn(&Made) -> u64 =
        |made| if made.bytes.len() > LARGEST_KEPT { u64::MAX } else { made.weight() };
    let mut made = kept.get(&name, lasts, weigh, Box::pin(make)).await?;
    let is_zipped = zipped && made.is_plain && made.bytes.len() >= SMALLEST_ZIPPED;
    if is_zipped {
        let plain = made.clone();
        let zip = Box::pin(async move {
            let bytes = plain.bytes.clone();
            let zipped = crate::pixels::apart(move || gzip(&bytes)).await?;
            Ok(Made {
                content_type: plain.content_type,
                bytes: zipped?,
                headers: plain.headers.clone(),
                is_plain: true,
            })
        });
        made = kept.get(&format!("{name}\0gzip"), lasts, weigh, zip).await?;
    }
    facts.size = u64::try_from(made.bytes.len()).unwrap_or(u64::MAX);
    facts.content_type = made.content_type;
    if !is_fixed {
        facts.tag = Some(content_tag(&made.bytes, encoding));
    }
    let mut response = send(&facts, ask, &made.bytes)?;
    let headers = response.headers_mut();
    if made.is_plain {
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if is_zipped && headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in &made.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    let timing = format!("made;dur={:.1}", begun.elapsed().as_secs_f64() * 1000.0);
    if let Ok(timing) = HeaderValue::from_str(&timing) {
        headers.insert("server-timing", timing);
    }
    Ok(response)
}

fn send(facts: &Facts, ask: &Ask<'_>, bytes: &Bytes) -> Result<Response, Fault> {
    let cut = |range: &Range<u64>| {
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(bytes.len());
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).clamp(start, bytes.len());
        bytes.slice(start..end)
    };
    let (mut headers, status, body) = match facts.plan(ask.request) {
        Plan::Done(response) => return Ok(response),
        Plan::One(headers, status, _) if ask.request.is_head() => (headers, status, Bytes::new()),
        Plan::One(headers, status, range) => (headers, status, cut(&range)),
        Plan::Parts(headers, parts) => {
            let mut all = BytesMut::new();
            for part in &parts {
                all.extend_from_slice(&part.before);
                all.extend_from_slice(&cut(&part.bytes));
            }
            (headers, StatusCode::PARTIAL_CONTENT, all.freeze())
        }
    };
    lock_down(&mut headers);
    let mut response = full(status, None, body);
    *response.headers_mut() = headers;
    Ok(response)
}

fn content_tag(bytes: &[u8], encoding: &str) -> String {
    use md5::{Digest as _, Md5};
    let digest = Md5::digest(bytes);
    let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    hash_tag(&[RENDERER, &hex, encoding])
}

/// Whether `Accept-Encoding` has gzip.
fn accepts_gzip(header: &str) -> bool {
    header.split(',').any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let refused = parts
            .any(|p| p.strip_prefix("q=").is_some_and(|q| q.trim().parse::<f64>().is_ok_and(|q| q <= 0.0)));
        is_gzip && !refused
    })
}

fn gzip(bytes: &[u8]) -> Result<Bytes, Fault> {
    let mut encoder =
        flate2::write::GzEncoder::new(Vec::with_capacity(bytes.len() / 2), flate2::Compression::fast());
    let done = encoder.write_all(bytes).and_then(|()| encoder.finish());
    done.map(Bytes::from).map_err(|e| Fault::behind(&e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        for (header, wanted) in [
            ("gzip, deflate, br, zstd", true),
            ("GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            assert_eq!(accepts_gzip(header), wanted, "{header}");
        }
    }
}
