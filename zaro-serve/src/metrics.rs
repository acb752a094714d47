//! Counters, and a line per request. No address of a store, no name of a source, no query and no token in either.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use crate::config::LogFormat;
use crate::request::Request;

/// Upper bounds of the classes of times, in seconds.
const BOUNDS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0];

/// The kinds of routes that are counted apart.
const ROUTES: [&str; 6] = ["data", "as", "zarrs", "api", "pixels", "other"];

/// Counters of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    started: Instant,
    connections: AtomicI64,
    under_way: AtomicI64,
    /// By route and first digit of the status.
    requests: [[AtomicU64; 6]; 6],
    times: [AtomicU64; 10],
    time_micros: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            connections: AtomicI64::default(),
            under_way: AtomicI64::default(),
            requests: Default::default(),
            times: Default::default(),
            time_micros: AtomicU64::default(),
        }
    }
}

/// Counts something until it is dropped.
#[derive(Debug)]
pub(crate) struct Counting<'a>(&'a AtomicI64);

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Metrics {
    /// Counts a request that is being answered.
    pub(crate) fn begin(&self) -> Counting<'_> {
        self.under_way.fetch_add(1, Relaxed);
        Counting(&self.under_way)
    }

    /// Counts a connection up or down.
    pub(crate) fn connection(&self, change: i64) {
        self.connections.fetch_add(change, Relaxed);
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, path: &str, status: u16, took: Duration) {
        let route =
            ROUTES.iter().position(|one| *one == route_of(path)).unwrap_or(ROUTES.len().saturating_sub(1));
        let class = usize::from(status / 100).min(5);
        if let Some(count) = self.requests.get(route).and_then(|row| row.get(class)) {
            count.fetch_add(1, Relaxed);
        }
        let seconds = took.as_secs_f64();
        let at = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        if let Some(count) = self.times.get(at) {
            count.fetch_add(1, Relaxed);
        }
        self.time_micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(0), Relaxed);
    }

    /// All of it, as Prometheus reads it.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "# TYPE zaro_uptime_seconds gauge\nzaro_uptime_seconds {}",
            self.started.elapsed().as_secs()
        );
        let _ = writeln!(
            out,
            "# TYPE zaro_connections gauge\nzaro_connections {}",
            self.connections.load(Relaxed)
        );
        let _ = writeln!(
            out,
            "# TYPE zaro_requests_under_way gauge\nzaro_requests_under_way {}",
            self.under_way.load(Relaxed)
        );
        if let Some(bytes) = resident() {
            let _ = writeln!(
                out,
                "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes {bytes}"
            );
        }
        let _ = writeln!(out, "# TYPE zaro_requests_total counter");
        for (route, row) in ROUTES.iter().zip(&self.requests) {
            for (class, count) in row.iter().enumerate() {
                let count = count.load(Relaxed);
                if count > 0 {
                    let _ = writeln!(
                        out,
                        "zaro_requests_total{{route=\"{route}\",status=\"{class}xx\"}} {count}"
                    );
                }
            }
        }
        let _ = writeln!(out, "# TYPE zaro_request_seconds histogram");
        let mut total = 0u64;
        let bounds = BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.times) {
            total = total.saturating_add(count.load(Relaxed));
            let _ = writeln!(out, "zaro_request_seconds_bucket{{le=\"{bound}\"}} {total}");
        }
        let sum = Duration::from_micros(self.time_micros.load(Relaxed)).as_secs_f64();
        let _ = writeln!(out, "zaro_request_seconds_sum {sum}\nzaro_request_seconds_count {total}");
        out
    }
}

/// The kind of route a path belongs to: never a name.
fn route_of(path: &str) -> &'static str {
    match path.split('/').nth(1).unwrap_or("") {
        "data" => "data",
        "as" => "as",
        "zarrs" => "zarrs",
        "api" => "api",
        "tile" | "thumb" | "region" | "value" | "series" | "histogram" | "iiif" | "dzi" | "xyz" | "meta" => {
            "pixels"
        }
        _ => "other",
    }
}

/// The memory this process holds, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Writes a line about a request to standard error.
pub(crate) fn log(
    format: LogFormat,
    request: &Request,
    status: u16,
    length: impl FnOnce() -> Option<u64>,
    took: Duration,
) {
    if format == LogFormat::None {
        return;
    }
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = zaro::manifest::Time::from_seconds(i64::try_from(time.as_secs()).unwrap_or(0));
    let (client, method, path) = (request.client, &request.method, shown(&request.path));
    let millis = took.as_secs_f64() * 1000.0;
    let length = length().map_or("-".to_owned(), |n| n.to_string());
    let line = match format {
        LogFormat::Json => {
            let length = if length == "-" { "null" } else { &length };
            format!(
                "{{\"time\":\"{time}\",\"client\":\"{client}\",\"method\":\"{method}\",\"path\":\"{path}\",\"status\":{status},\"bytes\":{length},\"ms\":{millis:.1}}}\n"
            )
        }
        _ => format!("{time} {client} {method} {path} {status} {length} {millis:.1} ms\n"),
    };
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A raw path is ASCII without spaces or quotes, else it is not shown: nothing of it can end a line or a text.
fn shown(path: &str) -> &str {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
    if path.bytes().all(plain) { path } else { "?" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_name_no_source() {
        let metrics = Metrics::default();
        metrics.answered("/data/secret-name/zarr.json", 200, Duration::from_millis(3));
        metrics.answered("/tile/secret-name/0/0_0.bin", 404, Duration::from_secs(100));
        let _now = metrics.begin();
        let text = metrics.text();
        assert!(text.contains("zaro_requests_total{route=\"data\",status=\"2xx\"} 1"));
        assert!(text.contains("zaro_requests_total{route=\"pixels\",status=\"4xx\"} 1"));
        assert!(text.contains("zaro_request_seconds_bucket{le=\"+Inf\"} 2") && text.contains("under_way 1"));
        assert!(!text.contains("secret"));
        assert_eq!(shown("/a b"), "?");
    }
}
