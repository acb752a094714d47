//! Addresses that clients opened: under names of their own, for as long as they are used.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use md5::{Digest as _, Md5};

use super::Sources;
use crate::answer::Fault;

/// Addresses that are open at once.
const MOST: usize = 64;

/// An address that nobody used for this long gives way to another.
const IDLE: Duration = Duration::from_secs(60);

/// The addresses by name, and when each was last used.
#[derive(Debug, Default)]
pub(super) struct Visiting(Mutex<HashMap<String, (String, Instant)>>);

impl Visiting {
    /// The address of a name, which is in use from now on.
    pub(super) fn address(&self, name: &str) -> Option<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (uri, used) = all.get_mut(name)?;
        *used = Instant::now();
        Some(uri.clone())
    }

    /// Adds an address, in place of the one that was idle for longest if there are too many; its name if so. `None` if
    /// all are in use.
    fn add(&self, name: &str, uri: &str, now: Instant) -> Option<Option<String>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = None;
        if !all.contains_key(name) && all.len() >= MOST {
            let idle = all.iter().filter(|(_, (_, used))| now.saturating_duration_since(*used) >= IDLE);
            let oldest = idle.min_by_key(|(_, (_, used))| *used).map(|(name, _)| name.clone())?;
            all.remove(&oldest);
            gone = Some(oldest);
        }
        all.insert(name.to_owned(), (uri.to_owned(), now));
        Some(gone)
    }

    fn remove(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// The name of an address: its last part, and what tells it from others of that part.
pub(crate) fn name_for(uri: &str) -> String {
    let last = uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let last: String = last.chars().map(plain).take(60).collect();
    let digest: String = Md5::digest(uri).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}~{digest}", last.trim_start_matches('.'))
}

impl Sources {
    /// Serves an address, which the caller has permitted, under this name. No source of the server's own gives way.
    pub(crate) fn visit(&self, name: &str, uri: &str) -> Result<(), Fault> {
        if self.address(name).is_some() {
            return Err(Fault::new(hyper::StatusCode::CONFLICT, "there is a source of this name"));
        }
        let gone = self.visiting.add(name, uri, Instant::now()).ok_or_else(Fault::busy)?;
        if let Some(gone) = gone {
            self.close(&gone);
        }
        Ok(())
    }

    /// Serves the address of this name no longer.
    pub(crate) fn leave(&self, name: &str) {
        self.visiting.remove(name);
        self.close(name);
    }

    /// Closes a source and its versions.
    fn close(&self, name: &str) {
        let version = format!("{name}@");
        super::lock(&self.open).retain(|one, _| one != name && !one.starts_with(&version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zaro::open::SourceOptions;

    #[test]
    fn the_number_is_bounded_and_the_idle_give_way() {
        let visiting = Visiting::default();
        let began = Instant::now();
        for n in 0..MOST {
            assert_eq!(visiting.add(&format!("n{n}"), "http://h/", began), Some(None));
        }
        assert_eq!(visiting.add("more", "http://h/", began), None, "all are in use");
        assert_eq!(visiting.add("n3", "http://h/", began), Some(None), "it is there already");
        let later = began + IDLE + Duration::from_secs(1);
        assert!(visiting.add("more", "http://h/", later).unwrap().is_some());
        assert_eq!(visiting.0.lock().unwrap().len(), MOST);
    }

    #[test]
    fn a_name_says_what_it_is_and_no_source_gives_way_to_it() {
        let name = name_for("https://data.example/a/x.zarr/");
        assert!(name.starts_with("x.zarr~") && name.len() == "x.zarr~".len() + 16, "{name}");
        assert_ne!(name, name_for("https://data.example/b/x.zarr/"));
        let odd = name_for("https://data.example/a@b%20c;d");
        assert!(odd.starts_with("a-b-20c-d~"), "{odd}");
        let own = format!("{name}=s3://bucket/x");
        let sources = Sources::new(&[own], SourceOptions::default()).unwrap();
        assert_eq!(sources.visit(&name, "https://data.example/a/x.zarr").unwrap_err().status.as_u16(), 409);
        assert_eq!(sources.address(&name).unwrap(), "s3://bucket/x");
    }
}
