//! Sockets: listening, accepting, time limits, and ending in good order.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use zaro::{Error, Result};

use crate::answer::{Fault, Response};
use crate::app::App;
use crate::config::{Config, Limits};
use crate::limits::Rate;
use crate::metrics;
use crate::request::{Query, Request};
use crate::streams::{Prompt, Watched};
use crate::talkers::{Talkers, on};
use crate::tls;

/// The largest body of a request: that of a PROPFIND.
const MAX_BODY: usize = 64 << 10;

/// How long requests under way may take to end when the server stops.
const LAST_REQUESTS: Duration = Duration::from_secs(10);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    serving: Serving,
    listeners: Vec<TcpListener>,
}

/// What answers requests now. Cheap to clone; all clones change together.
#[derive(Debug, Clone)]
pub struct Serving(Arc<RwLock<Current>>);

#[derive(Clone)]
struct Current {
    app: Arc<App>,
    tls: Option<TlsAcceptor>,
    rate: Option<Arc<Rate>>,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").field("app", &self.app).finish_non_exhaustive()
    }
}

impl Serving {
    fn new(app: App) -> Result<Self> {
        Ok(Self(Arc::new(RwLock::new(Current::of(app)?))))
    }

    fn current(&self) -> Current {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers requests from now on with other sources, tokens, certificates and limits. The addresses stay; requests
    /// under way end as they began. If anything is wrong with the new configuration, the old one stays.
    pub fn reload(&self, config: Config) -> Result<()> {
        let counters = self.current().app.metrics.clone();
        let next = Current::of(App::new(config)?.counting_with(counters))?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }
}

impl Current {
    fn of(app: App) -> Result<Self> {
        let tls = app.config.tls.as_ref().map(|(chain, key)| tls::acceptor(chain, key)).transpose()?;
        let rate = Rate::new(app.config.limits.rate).map(Arc::new);
        Ok(Self { app: Arc::new(app), tls, rate })
    }
}

impl Server {
    /// Listens on the configured addresses.
    pub async fn bind(app: App) -> Result<Self> {
        let mut listeners = Vec::new();
        for address in &app.config.bind {
            let listener = TcpListener::bind(address).await;
            listeners.push(listener.map_err(|e| Error::from(e).within(format!("listening on {address}")))?);
        }
        Ok(Self { serving: Serving::new(app)?, listeners })
    }

    /// What answers requests, to be changed while the server runs.
    #[must_use]
    pub fn serving(&self) -> Serving {
        self.serving.clone()
    }

    /// The addresses it listens on; of port 0 the one that was given.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
    }

    /// Lines that tell a person what to open.
    pub async fn greeting(&self) -> Result<Vec<String>> {
        let app = self.serving.current().app;
        let scheme = if app.config.tls.is_some() { "https" } else { "http" };
        let base = match (&app.config.base_url, self.addresses().first()) {
            (Some(base), _) => base.trim_end_matches('/').to_owned(),
            (None, Some(address)) => format!("{scheme}://{address}"),
            (None, None) => String::new(),
        };
        if app.config.bare {
            return Ok(vec![format!("{base}/")]);
        }
        let archive = app.sources.has_archive().then(|| format!("{base}/zarrs/"));
        let names = app.sources.names().await?;
        let each = names.iter().map(|name| format!("{base}/data/{}/", crate::path::encode(name)));
        Ok(std::iter::once(format!("{base}/")).chain(archive).chain(each).collect())
    }

    /// Answers requests until `stop` is done, then ends those under way.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<()> {
        let limits = self.serving.current().app.config.limits.clone();
        let shared = Arc::new(Connections {
            all: Arc::new(Semaphore::new(limits.connections.max(1))),
            of_client: Mutex::default(),
            most: limits.connections_per_client.max(1),
        });
        let graceful = Arc::new(GracefulShutdown::new());
        let talkers = Arc::new(Talkers::start()?);
        let mut loops = tokio::task::JoinSet::new();
        for listener in self.listeners {
            let (serving, shared, graceful) = (self.serving.clone(), shared.clone(), graceful.clone());
            loops.spawn(accept(listener, serving, shared, graceful, talkers.clone()));
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
    serving: Serving,
    shared: Arc<Connections>,
    graceful: Arc<GracefulShutdown>,
    talkers: Arc<Talkers>,
) {
    let workers = Handle::current();
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
        let Current { app, tls, .. } = serving.current();
        let is_proxy = app.config.proxies.contains(&peer.ip());
        let counted = if is_proxy { None } else { shared.count(peer.ip()) };
        if counted.is_none() && !is_proxy {
            continue;
        }
        let _ = stream.set_nodelay(true);
        let watcher = graceful.watcher();
        let (serving, workers) = (serving.clone(), workers.clone());
        // The socket moves to the thread that talks to this client.
        let Ok(stream) = stream.into_std() else { continue };
        talkers.give(Box::new(move || {
            Box::pin(async move {
                app.metrics.connection(1);
                let limits = &app.config.limits;
                if let Ok(stream) = TcpStream::from_std(stream) {
                    let stream = Watched::new(stream, limits);
                    match tls {
                        None => talk(stream, peer, serving, limits, watcher, workers).await,
                        // A client that does not come to an end with its greeting is cut off.
                        Some(tls) => {
                            let greeted = tokio::time::timeout(limits.header_time, tls.accept(stream));
                            if let Ok(Ok(stream)) = greeted.await {
                                talk(stream, peer, serving, limits, watcher, workers).await;
                            }
                        }
                    }
                }
                app.metrics.connection(-1);
                drop((counted, place));
            })
        }));
    }
}

/// The conversation with one client.
async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    serving: Serving,
    limits: &Limits,
    watcher: Watcher,
    workers: Handle,
) {
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
    let service = service_fn(move |incoming| {
        let (current, workers) = (serving.current(), workers.clone());
        async move { Ok::<_, std::convert::Infallible>(respond(current, peer.ip(), incoming, &workers).await) }
    });
    let stream = Prompt::new(stream, limits.header_time);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    // What a client does wrong is its own affair.
    let _ = watcher.watch(connection).await;
}

async fn respond(
    current: Current,
    peer: IpAddr,
    incoming: hyper::Request<Incoming>,
    workers: &Handle,
) -> Response {
    let Current { app, rate, .. } = current;
    let started = std::time::Instant::now();
    let _counting = app.metrics.begin();
    let limit = app.config.limits.answer_time;
    let (request, response) = match read(&app, peer, incoming, app.config.limits.header_time).await {
        Ok(request) if app.is_at_hand(&request) => {
            let answered = answer(&app, rate.as_deref(), &request, limit).await;
            (Arc::new(request), answered)
        }
        Ok(request) => {
            let request = Arc::new(request);
            let (same, of) = (request.clone(), app.clone());
            let answered = on(workers, async move { answer(&of, rate.as_deref(), &same, limit).await }).await;
            let failed = || Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made");
            let answered = answered.unwrap_or_else(|| app.fault(&request, failed()));
            (request, answered)
        }
        Err((request, fault)) => {
            let response = app.fault(&request, fault);
            (Arc::new(request), response)
        }
    };
    let (status, took) = (response.status().as_u16(), started.elapsed());
    app.metrics.answered(&request.path, status, took);
    let length = || response.headers().get(CONTENT_LENGTH).and_then(|n| n.to_str().ok()?.parse().ok());
    metrics::log(app.config.log, &request, status, length, took);
    response
}

async fn answer(app: &App, rate: Option<&Rate>, request: &Request, limit: Duration) -> Response {
    if let Some(rate) = rate {
        match rate.wait(request.client, std::time::Instant::now()) {
            Some(Duration::ZERO) => {}
            Some(wait) => tokio::time::sleep(wait).await,
            None => {
                let what = "too many requests; wait a moment";
                return app.fault(request, Fault::new(StatusCode::TOO_MANY_REQUESTS, what));
            }
        }
    }
    match tokio::time::timeout(limit, app.answer(request)).await {
        Ok(response) => response,
        Err(_) => app.fault(request, Fault::new(StatusCode::GATEWAY_TIMEOUT, "this takes too long")),
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
    let hosts = request.headers.get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && parts.version == Version::HTTP_11) {
        return Err((request, Fault::bad("a request names one Host")));
    }
    // The host of an HTTP/2 request, or of one with a whole address: that one counts, whatever `Host` says.
    if let Some(authority) = parts.uri.authority() {
        let authority = authority.as_str().rsplit('@').next().unwrap_or_default();
        match HeaderValue::from_str(authority) {
            Ok(host) => drop(request.headers.insert(HOST, host)),
            Err(_) => return Err((request, Fault::bad("the host of the address is not readable"))),
        }
    }
    // Others are answered without a look at their body.
    if request.method.as_str() != "PROPFIND" {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A server of a folder with one Zarr; what it says to each of these requests, and then it stops.
    async fn said(requests: &[&str], header_time: Duration) -> Vec<(String, Duration)> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
        let mut config = Config {
            sources: vec![format!("x={}", folder.path().display())],
            bind: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            ..Config::default()
        };
        config.limits.header_time = header_time;
        let server = Server::bind(App::new(config).unwrap()).await.unwrap();
        let address = server.addresses()[0];
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async move {
            let _ = stopped.await;
        }));
        let each = requests.iter().map(|text| async move {
            let began = std::time::Instant::now();
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
            assert!(read.is_ok(), "{text:?}: the connection stays open");
            (String::from_utf8_lossy(&answer).into_owned(), began.elapsed())
        });
        let out = futures::future::join_all(each).await;
        stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap().unwrap();
        out
    }

    #[tokio::test]
    async fn a_request_names_one_host_and_that_counts() {
        let cases = [
            ("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", "200"),
            ("GET /data/x/.zgroup HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200"),
            ("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", "400"),
            (
                "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
                "400",
            ),
            ("GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "421"),
            (
                "GET http://evil.example/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                "421",
            ),
            ("GET http://127.0.0.1/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", "200"),
        ];
        let requests: Vec<&str> = cases.iter().map(|(text, _)| *text).collect();
        for ((text, wanted), (answer, _)) in cases.iter().zip(said(&requests, Duration::from_secs(10)).await)
        {
            assert!(answer.starts_with(&format!("HTTP/1.1 {wanted} ")), "{text:?}: {answer}");
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_bytes_that_do_not_come() {
        let requests = [
            // Nothing, half a head, a body that is needed, bodies that are not.
            "",
            "GET /healthz HTT",
            "PROPFIND /data/x/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nab",
            "POST /data/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nab",
        ];
        let answers = said(&requests, Duration::from_secs(1)).await;
        for (text, (answer, took)) in requests.iter().zip(&answers) {
            assert!(*took < Duration::from_secs(10), "{text:?}: {took:?}");
            assert!(!answer.contains(" 200 "), "{text:?}: {answer}");
        }
        assert!(answers[2].0.starts_with("HTTP/1.1 408 "), "{}", answers[2].0);
        assert!(answers[3].0.starts_with("HTTP/1.1 405 "), "{}", answers[3].0);
    }
}
