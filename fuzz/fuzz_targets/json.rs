//! The JSON reader: whatever it accepts it writes, and reads again as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zaro::meta::Json;

fuzz_target!(init: zaro_fuzz::start(zaro_fuzz::documents::json_seeds), |data: &[u8]| {
    let Ok(document) = Json::parse(data) else { return };
    let bare = document.deviations.iter().any(|d| d.starts_with("bare"));
    for text in [document.value.to_string(), document.value.pretty()] {
        let again = Json::parse(text.as_bytes()).expect("our own text");
        assert!(again.deviations.is_empty(), "{text}: {:?}", again.deviations);
        // Bare NaN is written as a string.
        assert!(bare || again.value == document.value, "{text}");
    }
});
