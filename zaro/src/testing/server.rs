//! A minimal web server that misbehaves on request and counts requests.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as received.
#[derive(Debug, Clone)]
pub struct TinyRequest {
    /// `GET`, `HEAD` …
    pub method: String,
    /// The path and the query, as sent.
    pub target: String,
    /// Header names in lower case.
    pub headers: HashMap<String, String>,
    /// The number of this request, counted from 1.
    pub number: u64,
}

/// How the server handles a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TinyReply {
    /// Responds; `Content-Length` is added.
    Answer(u16, Vec<(String, String)>, Vec<u8>),
    /// Sends the object, or the requested range of it, correctly.
    Object(Vec<u8>),
    /// The same with these headers. An `etag` or `last-modified` among them replaces the server's own; an empty one is
    /// not sent.
    ObjectWith(Vec<u8>, Vec<(String, String)>),
    /// Sends spaces forever: as a body of this length, or of unknown length.
    Endless(Option<u64>),
    /// Announces this many bytes, sends the given ones and closes the connection.
    Short(u16, Vec<(String, String)>, u64, Vec<u8>),
    /// Sends the body in pieces of this length with a pause between them.
    Slow(Vec<u8>, usize, Duration),
    /// Closes the connection without a response.
    Drop,
    /// Never responds.
    Hang,
}

impl TinyReply {
    /// A response without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), Vec::new())
    }

    /// A response with one header and no body.
    #[must_use]
    pub fn with_header(status: u16, name: &str, value: &str) -> Self {
        Self::Answer(status, vec![(name.to_owned(), value.to_owned())], Vec::new())
    }
}

type Handler = dyn Fn(&TinyRequest) -> TinyReply + Send + Sync;

/// The server. It stops when dropped.
pub struct TinyServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    handler: Box<Handler>,
    count: AtomicU64,
    endless: AtomicU64,
    seen: Mutex<Vec<TinyRequest>>,
    over: AtomicBool,
}

impl fmt::Debug for TinyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TinyServer({})", self.address)
    }
}

impl TinyServer {
    /// A server on a free port of 127.0.0.1 that handles each request as `handler` says.
    ///
    /// # Panics
    /// If there is no free port.
    #[must_use]
    pub fn start(handler: impl Fn(&TinyRequest) -> TinyReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            count: AtomicU64::new(0),
            endless: AtomicU64::new(0),
            seen: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if server.over.load(Ordering::SeqCst) {
                    break;
                }
                let (Ok(stream), server) = (stream, Arc::clone(&server)) else { continue };
                std::thread::spawn(move || server.serve(&stream));
            }
        });
        Self { address, shared }
    }

    /// A correct server of these objects that takes `delay` for each request.
    #[must_use]
    pub fn serving<K: Into<String>, V: Into<Vec<u8>>>(objects: Vec<(K, V)>, delay: Duration) -> Self {
        let objects: HashMap<String, Vec<u8>> =
            objects.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        Self::start(move |request| {
            std::thread::sleep(delay);
            match objects.get(&request.key()) {
                Some(bytes) => TinyReply::Object(bytes.clone()),
                None => TinyReply::status(404),
            }
        })
    }

    /// Its URL, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The number of requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.count.load(Ordering::SeqCst)
    }

    /// How many bytes of endless bodies were sent so far.
    #[must_use]
    pub fn sent_endlessly(&self) -> u64 {
        self.shared.endless.load(Ordering::SeqCst)
    }

    /// The requests so far.
    ///
    /// # Panics
    /// If a handler has panicked.
    #[must_use]
    pub fn seen(&self) -> Vec<TinyRequest> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Drop for TinyServer {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // Wakes the listener, so that it stops.
        let _ = TcpStream::connect(self.address);
    }
}

impl TinyRequest {
    /// The key the path names, decoded.
    #[must_use]
    pub fn key(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default().trim_start_matches('/');
        crate::store::percent_decode(path).unwrap_or_default()
    }

    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        Some(Self { method, target, headers, number: 0 })
    }

    /// The first and the last requested byte, of an object of `size` bytes.
    fn range(&self, size: usize) -> Option<Result<(usize, usize), ()>> {
        let (first, last) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let span = match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) => (first, last.min(size.wrapping_sub(1))),
            (Ok(first), Err(_)) => (first, size.wrapping_sub(1)),
            (Err(_), Ok(n)) if n > 0 => (size.saturating_sub(n), size.wrapping_sub(1)),
            _ => return Some(Err(())),
        };
        Some(if span.0 < size { Ok(span) } else { Err(()) })
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while let Some(mut request) = TinyRequest::read(&mut reader) {
            request.number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
            self.seen.lock().unwrap().push(request.clone());
            if self.act(stream, &request).is_none() {
                break;
            }
        }
    }

    /// Handles the request; `None` closes the connection.
    fn act(&self, mut stream: &TcpStream, request: &TinyRequest) -> Option<()> {
        let mut head = |status: u16, headers: &[(String, String)], length: Option<u64>| {
            // Some bucket clients require these.
            let own = [("etag", "\"1\""), ("last-modified", "Sun, 15 Nov 2026 10:00:00 GMT")];
            let own = own.into_iter().filter(|(n, _)| !headers.iter().any(|(name, _)| name == n));
            let given = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).filter(|(_, v)| !v.is_empty());
            let lines: String = own.chain(given).map(|(n, v)| format!("{n}: {v}\r\n")).collect();
            let body = match length {
                Some(length) => format!("content-length: {length}"),
                None => "transfer-encoding: chunked".to_owned(),
            };
            stream.write_all(format!("HTTP/1.1 {status} x\r\n{lines}{body}\r\n\r\n").as_bytes()).ok()
        };
        let long = |n: usize| Some(u64::try_from(n).unwrap());
        let silent = request.method == "HEAD";
        let reply = match (self.handler)(request) {
            TinyReply::Object(bytes) => TinyReply::ObjectWith(bytes, Vec::new()),
            reply => reply,
        };
        match reply {
            TinyReply::Answer(status, headers, body) => {
                head(status, &headers, long(body.len()))?;
                if silent { Some(()) } else { stream.write_all(&body).ok() }
            }
            TinyReply::Object(_) => None,
            TinyReply::ObjectWith(bytes, mut headers) => {
                let size = bytes.len();
                let (status, note, part) = match request.range(size).filter(|_| !silent) {
                    None => (200, String::new(), bytes.as_slice()),
                    Some(Ok((first, last))) => {
                        (206, format!("bytes {first}-{last}/{size}"), bytes.get(first..=last).unwrap())
                    }
                    Some(Err(())) => (416, format!("bytes */{size}"), [].as_slice()),
                };
                headers.push(("content-range".to_owned(), note));
                head(status, &headers, long(part.len()))?;
                if silent { Some(()) } else { stream.write_all(part).ok() }
            }
            TinyReply::Short(status, headers, announced, body) => {
                head(status, &headers, Some(announced))?;
                stream.write_all(&body).ok()?;
                None
            }
            TinyReply::Slow(body, piece, pause) => {
                head(200, &[], long(body.len()))?;
                for part in body.chunks(piece) {
                    stream.write_all(part).ok()?;
                    std::thread::sleep(pause);
                }
                Some(())
            }
            TinyReply::Endless(length) => {
                head(200, &[], length)?;
                let spaces = vec![b' '; 1 << 16];
                while !silent && !self.over.load(Ordering::SeqCst) {
                    if length.is_none() {
                        stream.write_all(b"10000\r\n").ok()?;
                    }
                    stream.write_all(&spaces).ok()?;
                    if length.is_none() {
                        stream.write_all(b"\r\n").ok()?;
                    }
                    self.endless.fetch_add(1 << 16, Ordering::SeqCst);
                }
                None
            }
            TinyReply::Drop => None,
            TinyReply::Hang => {
                while !self.over.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                None
            }
        }
    }
}
