use crate::store::StoreExt as _;
use object_store::ObjectStoreExt;
use object_store::list::{PaginatedListOptions, PaginatedListResult};

use super::*;
use crate::testing::{TinyReply, TinyServer};

/// An environment with keys and the server's address.
fn keys(server: &TinyServer) -> impl Fn(&str) -> Option<String> {
    let url = server.url();
    move |name| match name {
        "AWS_ACCESS_KEY_ID" => Some("ID".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("SECRET".to_owned()),
        "AWS_ENDPOINT_URL" => Some(url.clone()),
        _ => None,
    }
}

fn signed(server: &TinyServer) -> CloudStore {
    let options = StoreOptions::default();
    CloudStore::new(s3::connect("b", None, &options, &keys(server)).unwrap(), "p", &options).unwrap()
}

#[tokio::test]
async fn requests_are_signed_anew_for_the_region_the_server_names() {
    for (status, region_in_header) in [(301, true), (307, true), (400, true), (400, false)] {
        let server = TinyServer::start(move |request| {
            if request.headers.get("authorization").is_some_and(|a| a.contains("/eu-north-1/s3/")) {
                return TinyReply::Object(b"here".to_vec());
            }
            let body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-north-1</Region></Error>";
            match region_in_header {
                true => TinyReply::with_header(status, "x-amz-bucket-region", "eu-north-1"),
                false => TinyReply::Answer(status, vec![], body.into()),
            }
        });
        let store = signed(&server);
        assert_eq!(store.get("k", None).await.unwrap().unwrap(), "here", "{status}");
        assert_eq!(store.size("k").await.unwrap(), Some(4));
        assert_eq!(server.requests(), 3, "{status}: wrong, right, right");
        assert_eq!(server.seen()[1].target, "/b/p/k");
    }
}

#[tokio::test]
async fn a_server_that_sends_us_round_in_circles_is_left() {
    let server = TinyServer::start(|r| {
        TinyReply::with_header(301, "x-amz-bucket-region", if r.number % 2 == 0 { "one" } else { "two" })
    });
    let error = signed(&server).get("k", None).await.unwrap_err();
    assert_eq!((error.kind(), server.requests()), (crate::ErrorKind::Io, 2), "{error}");
}

#[tokio::test]
async fn requester_pays_headers_and_secrets() {
    let server = TinyServer::start(|_| TinyReply::status(403));
    let mut options = StoreOptions::default();
    options.request_payer = true;
    options.add_header("X-Mine: 1").unwrap();
    let parts = s3::connect("b", None, &options, &keys(&server)).unwrap();
    let store = CloudStore::new(parts, "", &options).unwrap();
    let error = store.get("k", None).await.unwrap_err();
    assert!(!format!("{error:?} {store:?}").contains("SECRET"), "{error:?}");
    let headers = &server.seen()[0].headers;
    assert_eq!((headers["x-amz-request-payer"].as_str(), headers["x-mine"].as_str()), ("requester", "1"));
    assert!(headers.contains_key("authorization"));
    options.anonymous = true;
    let parts = s3::connect("b", None, &options, &keys(&server)).unwrap();
    let error = CloudStore::new(parts, "", &options).unwrap().get("k", None).await.unwrap_err();
    assert!(error.to_string().contains("unsigned"), "{error}");
    assert!(!server.seen()[1].headers.contains_key("authorization"));
    options.anonymous = false;

    let sas = Some("sv=2021&sig=hush");
    options.endpoint = Some(server.url());
    let parts = azure::connect(Some("acc"), "c", sas, &options, &|_| None).unwrap();
    let store = CloudStore::new(parts, "", &options).unwrap();
    let error = store.get("k", None).await.unwrap_err();
    assert!(server.seen()[2].target.contains("sig=hush"));
    assert!(!format!("{error} {error:?} {store:?}").contains("hush"), "{error:?}");
}

#[test]
fn addresses_of_aws_are_not_sent_to_another_endpoint() {
    let env = |name: &str| (name == "AWS_ENDPOINT_URL").then(|| "http://elsewhere:9000".to_owned());
    let options = StoreOptions::default();
    let at = |at| s3::connect("b", at, &options, &env).unwrap();
    assert_eq!(at(None).host, "elsewhere:9000");
    let there = at(Some(s3::AtAws { region: Some("eu-west-1") }));
    assert_eq!((there.host.as_str(), there.region.as_str()), ("b.s3.amazonaws.com:443", "eu-west-1"));
}

/// Lists everything on one page.
struct OnePage(Arc<dyn ObjectStore>);

#[async_trait]
impl PaginatedListStore for OnePage {
    async fn list_paginated(
        &self,
        prefix: Option<&str>,
        options: PaginatedListOptions,
    ) -> object_store::Result<PaginatedListResult> {
        let prefix = prefix.map(|p| Path::parse(p).unwrap());
        let result = match options.delimiter {
            Some(_) => self.0.list_with_delimiter(prefix.as_ref()).await?,
            None => object_store::ListResult {
                objects: self.0.list(prefix.as_ref()).try_collect().await?,
                common_prefixes: Vec::new(),
                extensions: Default::default(),
            },
        };
        Ok(PaginatedListResult { result, page_token: None })
    }
}

/// A store whose server is a piece of memory.
fn in_memory(objects: Arc<dyn ObjectStore>, prefix: &str, own: bool) -> CloudStore {
    let client = Client { pages: Arc::new(OnePage(Arc::clone(&objects))), objects };
    let parts = ProviderParts {
        name: "s3://memory".to_owned(),
        host: String::new(),
        region: String::new(),
        client,
        relocate: None,
        suffix_ranges: true,
        signed: true,
        own,
    };
    CloudStore::new(parts, prefix, &StoreOptions::default()).unwrap()
}

#[tokio::test]
async fn buckets_can_be_written_to() {
    for (prefix, own) in [("", true), ("p/q", true), ("p", false)] {
        let client: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        let beside = Path::parse("pp/beside").unwrap();
        if !prefix.is_empty() {
            client.put(&beside, "x".into()).await.unwrap();
        }
        let store = in_memory(Arc::clone(&client), prefix, own);
        crate::testing::write_suite(&store, true).await;
        assert_eq!(client.get(&beside).await.is_ok(), !prefix.is_empty());
    }
}

#[tokio::test]
async fn large_objects_go_in_parts() {
    let store = in_memory(Arc::new(object_store::memory::InMemory::new()), "", true);
    let large = Bytes::from((0..70u32 << 18).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    assert!(store.put("k", large.clone(), Condition::Always).await.unwrap().is_done());
    assert!(store.get("k", None).await.unwrap().unwrap() == large);
}

#[tokio::test]
async fn a_server_that_ignores_conditions_is_found_out() {
    // Takes every put, and has a new ETag for each.
    let server = TinyServer::start(|request| {
        TinyReply::Answer(200, vec![("ETag".into(), format!("\"{}\"", request.number))], b"x".to_vec())
    });
    let store = signed(&server);
    let put = store.put("k", Bytes::from_static(b"x"), Condition::Absent).await.unwrap_err();
    assert_eq!(put.kind(), crate::ErrorKind::Unsupported, "{put}");
    let seen = ObjectMeta::of_text(Some("\"old\"".to_owned()), None);
    let put = store.put("k", Bytes::from_static(b"x"), Condition::Unchanged(seen)).await.unwrap_err();
    assert_eq!(put.kind(), crate::ErrorKind::Unsupported, "{put}");
    assert_eq!(server.seen()[0].headers["if-none-match"], "*");
    assert_eq!(server.seen()[2].headers["if-match"], "\"old\"");
    assert!(store.put("k", Bytes::from_static(b"x"), Condition::Always).await.unwrap().is_done());
    assert_eq!(server.requests(), 5);
}

#[tokio::test]
async fn what_servers_say_to_puts() {
    let answer = |status: u16| {
        let server = TinyServer::start(move |_| TinyReply::status(status));
        let store = signed(&server);
        (server, store)
    };
    let value = || Bytes::from_static(b"x");
    let unchanged = || Condition::Unchanged(ObjectMeta::of_text(Some("e".to_owned()), None));
    for (status, when, wanted) in [
        (412, Condition::Absent, Ok(Put::Refused)),
        (409, Condition::Absent, Ok(Put::Refused)),
        (412, unchanged(), Ok(Put::Refused)),
        (404, unchanged(), Ok(Put::Refused)),
        (409, unchanged(), Err(crate::ErrorKind::Io)),
        (501, unchanged(), Err(crate::ErrorKind::Unsupported)),
        (403, unchanged(), Err(crate::ErrorKind::NotPermitted)),
        (403, Condition::Always, Err(crate::ErrorKind::NotPermitted)),
        (404, Condition::Always, Err(crate::ErrorKind::NotFound)),
        (412, Condition::Always, Err(crate::ErrorKind::Io)),
        (503, Condition::Always, Err(crate::ErrorKind::Io)),
    ] {
        let (_server, store) = answer(status);
        let what = format!("{status} {when:?}");
        let got = store.put("k", value(), when).await;
        assert_eq!(got.as_ref().map_err(Error::kind).copied(), wanted, "{what}: {got:?}");
        let passes = got.as_ref().is_err_and(|e| crate::store::fault::as_transient(e).is_some());
        assert_eq!(passes, status == 503 || (status == 409 && got.is_err()), "{what}: {got:?}");
    }
    assert!(answer(404).1.delete("k").await.is_ok());
    assert_eq!(answer(403).1.delete("k").await.unwrap_err().kind(), crate::ErrorKind::NotPermitted);
    assert_eq!(answer(403).1.delete_prefix("").await.unwrap_err().kind(), crate::ErrorKind::NotPermitted);
}
