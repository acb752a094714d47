//! What a server that everybody can reach must not be led to: by references, redirects or `/open`, in any spelling.
//!
//! Every address of this table leads to this machine or into a network of its own, and behind each stands a listener
//! that must never hear of it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hyper::Method;
use hyper::header::HeaderValue;

use crate::accept::Server;
use crate::app::App;
use crate::config::Config;
use crate::request::Request;

/// Forms of forbidden addresses. Those of this machine would reach the listener, the others must be refused before
/// anybody tries.
const FORBIDDEN: [&str; 56] = [
    // This machine.
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0177.0.0.0x1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "foo.localhost",
    "ip6-localhost",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "%31%32%37.0.0.1",
    "\u{2460}27.0.0.1",
    "127\u{3002}0\u{3002}0\u{3002}1",
    // No address at all, which systems take for this machine.
    "0.0.0.0",
    "0",
    "0.1.2.3",
    "[::]",
    // Private networks.
    "10.0.0.1",
    "10.1",
    "167772161",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "0xc0a80101",
    "[fd00::1]",
    "[fc00::1]",
    "[fec0::1]",
    // The network next door, and what clouds tell about themselves there.
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "[::ffff:169.254.169.254]",
    // Translations of them.
    "[64:ff9b::7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:1::1]",
    // Providers' networks, groups, everybody.
    "100.64.0.1",
    "224.0.0.1",
    "[ff02::1]",
    "255.255.255.255",
];

/// Counts who comes, on this machine, by either protocol; says nothing of use.
fn listener() -> (u16, Arc<AtomicUsize>) {
    let heard = Arc::new(AtomicUsize::new(0));
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = first.local_addr().unwrap().port();
    let second = TcpListener::bind(SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, port))).ok();
    for socket in [Some(first), second].into_iter().flatten() {
        let heard = heard.clone();
        std::thread::spawn(move || {
            for mut stream in socket.incoming().flatten() {
                heard.fetch_add(1, Relaxed);
                let _ = stream.read(&mut [0; 4096]);
                // A refusal that is not tried again.
                let _ = stream
                    .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
    }
    (port, heard)
}

/// A server on all addresses, of a document with a reference to each of these addresses.
fn server(folder: &std::path::Path, addresses: &[String], change: impl FnOnce(&mut Config)) -> App {
    let mut refs = r#"{"version": 1, "refs": {".zgroup": "{\"zarr_format\": 2}""#.to_owned();
    for (n, address) in addresses.iter().enumerate() {
        let address = address.replace('\\', "\\\\");
        refs.push_str(&format!(r#", "a/{n}": ["{address}", 0, 4]"#));
    }
    refs.push_str("}}");
    std::fs::write(folder.join("refs.json"), refs).unwrap();
    let mut config = Config {
        sources: vec![format!("refs={}", folder.join("refs.json").display())],
        bind: vec![SocketAddr::from(([0, 0, 0, 0], 0))],
        ..Config::default()
    };
    change(&mut config);
    App::new(config).unwrap()
}

async fn status(app: &App, target: &str) -> u16 {
    let mut request = Request::new(Method::GET, target);
    request.headers.insert("host", HeaderValue::from_static("data.example"));
    app.answer(&request).await.status().as_u16()
}

#[tokio::test]
async fn references_lead_to_no_forbidden_address() {
    let folder = tempfile::tempdir().unwrap();
    let (port, heard) = listener();
    let addresses: Vec<String> = FORBIDDEN.iter().map(|host| format!("http://{host}:{port}/x")).collect();
    let app = server(folder.path(), &addresses, |_| {});
    assert_eq!(status(&app, "/data/refs/.zgroup").await, 200);
    for (n, address) in addresses.iter().enumerate() {
        let said = status(&app, &format!("/data/refs/a/{n}")).await;
        // A failure, and never "there is no such chunk".
        assert!(matches!(said, 500..=504), "{address}: {said}");
        assert_eq!(heard.load(Relaxed), 0, "{address} was connected to");
    }
    // The listener would have heard it: the same reference where the operator lists the host.
    let app = server(folder.path(), &addresses, |config| config.allowed_hosts = vec!["127.0.0.1".to_owned()]);
    assert!(status(&app, "/data/refs/a/0").await >= 500 && heard.load(Relaxed) > 0);
}

#[tokio::test]
async fn references_of_other_kinds_lead_nowhere_either() {
    let folder = tempfile::tempdir().unwrap();
    let (port, heard) = listener();
    let addresses = [
        format!("https://127.0.0.1:{port}/x"),
        format!("HTTP://127.0.0.1:{port}/x"),
        format!("http://user:password@127.0.0.1:{port}/x"),
        format!("http://public.example@127.0.0.1:{port}/x"),
        format!("http://127.0.0.1:{port}#@public.example/x"),
        format!("http:\\\\127.0.0.1:{port}\\x"),
        format!("ftp://127.0.0.1:{port}/x"),
        format!("gopher://127.0.0.1:{port}/x"),
        format!("ws://127.0.0.1:{port}/x"),
    ];
    let app = server(folder.path(), &addresses, |_| {});
    for (n, address) in addresses.iter().enumerate() {
        let said = status(&app, &format!("/data/refs/a/{n}")).await;
        assert!(said >= 500, "{address}: {said}");
        assert_eq!(heard.load(Relaxed), 0, "{address} was connected to");
    }
}

/// A server on this machine that sends everybody elsewhere.
fn sends_to(target: String) -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in socket.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let head = format!(
                "HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes());
        }
    });
    port
}

#[tokio::test]
async fn redirects_lead_to_no_forbidden_address() {
    let folder = tempfile::tempdir().unwrap();
    let (port, heard) = listener();
    for host in
        ["localhost", "127.1.1.1", "[::1]", "2130706434", "0.0.0.0", "[::ffff:127.0.0.1]", "169.254.169.254"]
    {
        // The first host is one that the operator allows; where it leads is not.
        let first = sends_to(format!("http://{host}:{port}/x"));
        let app = server(folder.path(), &[format!("http://127.0.0.1:{first}/x")], |config| {
            config.allowed_hosts = vec!["127.0.0.1".to_owned()];
        });
        let said = status(&app, "/data/refs/a/0").await;
        assert!(said >= 500, "{host}: {said}");
        assert_eq!(heard.load(Relaxed), 0, "{host} was connected to");
    }
    // What is allowed is followed.
    let first = sends_to(format!("http://127.0.0.1:{port}/x"));
    let app = server(folder.path(), &[format!("http://127.0.0.1:{first}/x")], |config| {
        config.allowed_hosts = vec!["127.0.0.1".to_owned()];
    });
    assert!(status(&app, "/data/refs/a/0").await >= 500 && heard.load(Relaxed) > 0);
}

#[tokio::test]
async fn what_clients_open_is_guarded_like_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let (port, heard) = listener();
    let app = server(folder.path(), &[], |config| {
        // This machine only: the guard holds all the same once strangers name addresses.
        config.bind = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        config.hosts = vec!["data.example".to_owned()];
        config.open =
            vec!["http://public.example/data".to_owned(), format!("http://localhost:{port}/listed")];
    });
    for host in FORBIDDEN.iter().filter(|host| host.is_ascii()) {
        let said = status(&app, &format!("/open?uri=http://{}:{port}/x", host.replace('%', "%25"))).await;
        assert!(matches!(said, 400 | 403), "{host}: {said}");
    }
    for bad in [
        "/open",
        "/open?uri=",
        "/open?uri=/etc/passwd",
        "/open?uri=file:///etc/passwd",
        "/open?uri=http://public.example/data/../x",
        "/open?uri=http://public.example/data/x&uri=http://public.example/data/y",
        "/open?uri=http://public.example/data/x&other=1",
    ] {
        assert_eq!(status(&app, bad).await, 400, "{bad}");
    }
    assert_eq!(status(&app, "/open?uri=http://public.example/other").await, 403);
    assert_eq!(heard.load(Relaxed), 0);
    // What the operator lists is asked, by the name that was listed.
    assert!(status(&app, &format!("/open?uri=http://localhost:{port}/listed/x.zarr")).await >= 500);
    assert!(heard.load(Relaxed) > 0);
    // Without --open there is no such route.
    let app = server(folder.path(), &[], |_| {});
    assert_eq!(status(&app, "/open?uri=http://public.example/data").await, 404);
}

#[tokio::test]
async fn what_clients_open_is_served_like_a_source_and_listed_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let zarr = folder.path().join("x.zarr");
    std::fs::create_dir(&zarr).unwrap();
    std::fs::write(zarr.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    std::fs::write(zarr.join("key"), "bytes").unwrap();
    let behind = Config {
        sources: vec![folder.path().to_str().unwrap().to_owned()],
        bind: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        ..Config::default()
    };
    let behind = Server::bind(App::new(behind).unwrap()).await.unwrap();
    let port = behind.addresses()[0].port();
    let running = tokio::spawn(behind.run(std::future::pending()));
    let uri = format!("http://127.0.0.1:{port}/data/x.zarr");
    let app = |hidden: &[&str]| {
        server(folder.path(), &[], |config| {
            config.open = vec![format!("http://127.0.0.1:{port}/data")];
            config.options.store.allow_http = true;
            config.hidden = hidden.iter().map(|name| (*name).to_owned()).collect();
        })
    };
    let open = app(&[]);
    let ask = async |target: &str| {
        let mut request = Request::new(Method::GET, target);
        request.headers.insert("host", HeaderValue::from_static("data.example"));
        open.answer(&request).await
    };
    let sent = ask(&format!("/open?uri={uri}")).await;
    assert_eq!(sent.status().as_u16(), 303);
    let place = sent.headers().get("location").unwrap().to_str().unwrap().to_owned();
    assert!(place.starts_with("/data/x.zarr~") && place.ends_with('/'), "{place}");
    assert_eq!(sent.headers().get("cache-control").unwrap(), "private, no-store");
    assert_eq!(status(&open, &format!("{place}key")).await, 200);
    assert_eq!(status(&open, &format!("{place}none")).await, 404);
    assert_eq!(open.sources.names().await.unwrap(), ["refs"]);
    // The same address is the same source; one that is not there is no source.
    let again = ask(&format!("/open?uri={uri}/")).await;
    assert_eq!(again.headers().get("location").unwrap(), place.as_str());
    assert_eq!(status(&open, "/data/x.zarr~0000000000000000/key").await, 404);
    // Where everything is hidden, nothing is opened for those who may see nothing.
    let hidden = app(&["*"]);
    assert_eq!(status(&hidden, &format!("/open?uri={uri}")).await, 404);
    assert_eq!(status(&hidden, &format!("{place}key")).await, 404);
    running.abort();
}
