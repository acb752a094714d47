//! Sockets: listening, accepting, time limits, and ending in good order.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};
use zaro::{Error, Result};

use crate::answer::{Fault, Response};
use crate::app::App;
use crate::config::Limits;
use crate::request::{Query, Request};

/// The largest body of a request: that of a PROPFIND.
const MAX_BODY: usize = 64 << 10;

/// How long requests under way may take to end when the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    listeners: Vec<TcpListener>,
}

impl Server {
    /// Listens on the configured addresses.
    pub async fn bind(app: App) -> Result<Self> {
        let mut listeners = Vec::new();
        for address in &app.config.bind {
            let listener = TcpListener::bind(address).await;
            listeners.push(listener.map_err(|e| Error::from(e).within(format!("listening on {address}")))?);
        }
        Ok(Self { app: Arc::new(app), listeners })
    }

    /// The addresses it listens on; of port 0 the one that was given.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Lines that tell a person what to open.
    pub async fn greeting(&self) -> Result<Vec<String>> {
        let base = match (&self.app.config.base_url, self.addresses().first()) {
            (Some(base), _) => base.trim_end_matches('/').to_owned(),
            (None, Some(address)) => format!("http://{address}"),
            (None, None) => String::new(),
        };
        if self.app.config.bare {
            return Ok(vec![format!("{base}/")]);
        }
        let archive = self.app.sources.has_archive().then(|| format!("{base}/zarrs/"));
        let names = self.app.sources.names().await?;
        let data = names.iter().map(|name| format!("{base}/data/{}/", crate::path::encode(name)));
        Ok(archive.into_iter().chain(data).collect())
    }

    /// Answers requests until `stop` is done, then ends those under way.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<()> {
        let limits = self.app.config.limits.clone();
        let shared = Arc::new(Connections {
            all: Arc::new(Semaphore::new(limits.connections.max(1))),
            of_client: Mutex::default(),
            most: limits.connections_per_client.max(1),
        });
        let graceful = Arc::new(GracefulShutdown::new());
        let mut loops = tokio::task::JoinSet::new();
        for listener in self.listeners {
            let (app, shared, graceful) = (self.app.clone(), shared.clone(), graceful.clone());
            loops.spawn(accept(listener, app, shared, graceful));
        }
        stop.await;
        loops.shutdown().await;
        if let Some(graceful) = Arc::into_inner(graceful) {
            let _ = tokio::time::timeout(LAST_REQUESTS, graceful.shutdown()).await;
        }
        Ok(())
    }
}

/// The connections there are.
#[derive(Debug)]
struct Connections {
    all: Arc<Semaphore>,
    of_client: Mutex<HashMap<IpAddr, usize>>,
    most: usize,
}

/// One connection of a client, counted until it is dropped.
struct Counted(Arc<Connections>, IpAddr);

impl Connections {
    fn count(self: &Arc<Self>, client: IpAddr) -> Option<Counted> {
        let mut counts = self.of_client.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(client).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count = count.saturating_add(1);
        Some(Counted(self.clone(), client))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.0.of_client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

async fn accept(
    listener: TcpListener,
    app: Arc<App>,
    shared: Arc<Connections>,
    graceful: Arc<GracefulShutdown>,
) {
    loop {
        // Beyond the limit, clients wait in the system's queue.
        let Ok(place) = shared.all.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // Out of file descriptors, most likely: others end soon.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let is_proxy = app.config.proxies.contains(&peer.ip());
        let counted = if is_proxy { None } else { shared.count(peer.ip()) };
        if counted.is_none() && !is_proxy {
            continue;
        }
        let _ = stream.set_nodelay(true);
        let connection = serve(stream, peer, app.clone(), &graceful);
        tokio::spawn(async move {
            connection.await;
            drop((counted, place));
        });
    }
}

/// The conversation with one client.
fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    app: Arc<App>,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + use<> {
    let limits = &app.config.limits;
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(64 << 10)
        .max_headers(64)
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(64)
        .max_header_list_size(16 << 10)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let io = TokioIo::new(Watched::new(stream, limits));
    let service = service_fn(move |incoming| {
        let app = app.clone();
        async move { Ok::<_, std::convert::Infallible>(respond(&app, peer.ip(), incoming).await) }
    });
    let connection = graceful.watch(builder.serve_connection(io, service).into_owned());
    async move {
        // What a client does wrong is its own affair.
        let _ = connection.await;
    }
}

async fn respond(app: &App, peer: IpAddr, incoming: hyper::Request<Incoming>) -> Response {
    let limit = app.config.limits.answer_time;
    match read(app, peer, incoming, limit).await {
        Ok(request) => match tokio::time::timeout(limit, app.answer(&request)).await {
            Ok(response) => response,
            Err(_) => app.fault(&request, Fault::new(StatusCode::GATEWAY_TIMEOUT, "this takes too long")),
        },
        Err((request, fault)) => app.fault(&request, fault),
    }
}

/// A request with its body, if it has one that is read.
async fn read(
    app: &App,
    peer: IpAddr,
    incoming: hyper::Request<Incoming>,
    limit: Duration,
) -> std::result::Result<Request, (Request, Fault)> {
    let (parts, body) = incoming.into_parts();
    let mut request = Request {
        path: parts.uri.path().to_owned(),
        query: Query::parse(parts.uri.query().unwrap_or("")),
        client: app.client(peer, &parts.headers),
        method: parts.method,
        headers: parts.headers,
        body: Bytes::new(),
    };
    // The host of an HTTP/2 request, or of one to a proxy.
    if let Some(host) = parts.uri.host()
        && !request.headers.contains_key("host")
        && let Ok(host) = hyper::header::HeaderValue::from_str(host)
    {
        request.headers.insert("host", host);
    }
    if request.is_get() {
        return Ok(request);
    }
    match tokio::time::timeout(limit, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => {
            request.body = body.to_bytes();
            Ok(request)
        }
        Ok(Err(e)) if e.is::<http_body_util::LengthLimitError>() => {
            Err((request, Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large")))
        }
        Ok(Err(_)) => Err((request, Fault::bad("the body is damaged"))),
        Err(_) => Err((request, Fault::new(StatusCode::REQUEST_TIMEOUT, "the body did not come"))),
    }
}

/// A connection that ends when the client takes no bytes.
struct Watched {
    stream: TcpStream,
    /// The bytes a client has to take in `time`.
    least: u64,
    time: Duration,
    taken: u64,
    until: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Watched {
    fn new(stream: TcpStream, limits: &Limits) -> Self {
        let time = limits.stall_time;
        let least = time.as_secs().saturating_mul(1024);
        Self { stream, least, time, taken: 0, until: Box::pin(tokio::time::sleep(time)), waiting: false }
    }

    /// Notes that bytes were taken, or that the client keeps us waiting.
    fn watch(&mut self, cx: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(done) => {
                if let Ok(count) = &done {
                    self.taken = self.taken.saturating_add(u64::try_from(*count).unwrap_or(0));
                }
                if self.taken >= self.least {
                    self.waiting = false;
                }
                Poll::Ready(done)
            }
            Poll::Pending => {
                if !self.waiting {
                    (self.waiting, self.taken) = (true, 0);
                    let until = Instant::now() + self.time;
                    self.until.as_mut().reset(until);
                }
                match self.until.as_mut().poll(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                }
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.watch(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.watch(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
