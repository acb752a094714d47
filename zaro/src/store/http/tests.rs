use super::*;

#[test]
fn keys_are_encoded_and_the_query_stays() {
    let s = HttpStore::new("https://u:p@h:8443/a%20b/c.zarr/?sig=x%2Fy#f", &StoreOptions::default()).unwrap();
    let url = s.url("d e/100%/é?#.json", false).unwrap();
    assert_eq!(url.as_str(), "https://u:p@h:8443/a%20b/c.zarr/d%20e/100%25/%C3%A9%3F%23.json?sig=x%2Fy");
    assert_eq!(s.url("", true).unwrap().path(), "/a%20b/c.zarr/");
    assert_eq!(s.to_string(), "https://h:8443/a%20b/c.zarr");
    assert_eq!(s.host(), "h:8443");
}

#[test]
fn content_ranges_are_read_or_refused() {
    let parse = |s: &str| {
        let mut h = HeaderMap::new();
        h.insert(header::CONTENT_RANGE, HeaderValue::from_str(s).unwrap());
        content_range(&h)
    };
    assert_eq!(parse("bytes 0-9/100"), Some((Some((0, 10)), Some(100))));
    assert_eq!(parse("bytes 5-5/*"), Some((Some((5, 6)), None)));
    assert_eq!(parse("bytes */0"), Some((None, Some(0))));
    assert_eq!(parse("bytes 9-0/100"), None);
    assert_eq!(parse("bytes 0-18446744073709551615/1"), None);
    assert_eq!(parse("items 0-1/2"), None);
}
