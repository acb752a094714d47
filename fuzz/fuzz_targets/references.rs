//! References in JSON: what is listed can be asked for, and pieces of any length come to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zaro::blocking::block_on;
use zaro::reference::{JsonMap, Map};
use zaro_fuzz::Seed;

fn seeds() -> Vec<Seed> {
    [
        r#"{".zgroup": {"zarr_format": 2}, "x/.zarray": "{\"chunks\":[10]}", "x/0": ["s3://b/f.nc", 1024, 400]}"#,
        r#"{"version": 1, "templates": {"u": "s3://b/f.nc", "f": "s3://{{b}}/{{n}}.nc"},
            "gen": [{"key": "v/{{i}}.0", "url": "{{f(b='k', n=i)}}", "offset": "{{ 64 + i*80 }}", "length": "80",
            "dimensions": {"i": {"stop": 12}, "j": [1, 2]}}],
            "refs": {".zgroup": "{}", "a/0": "t", "a/1": "base64:AAE=", "a/2": ["{{u}}"], "a/3": ["{{ u }}", 1e2, 20.0]}}"#,
        r#"{"version": 1, "refs": {".zgroup": "", "a/": "x", "a/.zarray": {"b": [NaN]}, "b": [null, 1, 2], "c": null, "c": 5}}"#,
    ]
    .into_iter()
    .enumerate()
    .map(|(i, text)| (format!("document{i}"), text.as_bytes().to_vec()))
    .collect()
}

fuzz_target!(init: zaro_fuzz::start(seeds), |data: &[u8]| {
    // Rules may make millions, which is slow and no finding.
    if data.windows(3).any(|w| w == b"gen") && data.iter().filter(|b| b.is_ascii_digit()).count() > 24 {
        return;
    }
    let Ok(map) = JsonMap::parse(data, &[]) else { return };
    let _ = map.urls().filter(|u| u.is_ok()).count();
    let Ok(listing) = block_on(map.list("")) else { return };
    for name in listing.objects.iter().take(20) {
        let _ = block_on(map.locate(name));
    }
    for folder in listing.prefixes.iter().take(20) {
        for name in block_on(map.list(folder)).expect("a listing").objects.iter().take(20) {
            let _ = block_on(map.locate(&format!("{folder}/{name}")));
        }
    }
});
