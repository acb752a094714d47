//! Requests per second of one client: delayed first, refused only when that is not enough.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A client may make this many requests at once before the rate counts.
const BURST: u32 = 4;

/// The longest delay; a client that would have to wait longer is refused.
const PATIENCE: Duration = Duration::from_secs(2);

/// Clients that are remembered; those that made no request for a while are forgotten first.
const MOST_CLIENTS: usize = 10_000;

/// The rate at which each client may make requests.
#[derive(Debug)]
pub(crate) struct Rate {
    /// The time between two requests.
    every: Duration,
    /// When the next request of a client is due.
    due: Mutex<HashMap<IpAddr, Instant>>,
}

impl Rate {
    /// So many requests per second; `None` for any number.
    pub(crate) fn new(per_second: u32) -> Option<Self> {
        let every = Duration::from_secs(1).checked_div(per_second)?;
        Some(Self { every, due: Mutex::default() })
    }

    /// How long a request has to wait; `None` if that is too long.
    pub(crate) fn wait(&self, client: IpAddr, now: Instant) -> Option<Duration> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.len() >= MOST_CLIENTS {
            due.retain(|_, next| *next > now);
        }
        let credit = self.every.saturating_mul(BURST.max(1));
        let next = due.get(&client).copied().unwrap_or(now).max(now.checked_sub(credit).unwrap_or(now));
        let wait = next.saturating_duration_since(now);
        if wait > PATIENCE {
            return None;
        }
        due.insert(client, next + self.every);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_delayed_then_refused_and_others_are_not() {
        let rate = Rate::new(10).unwrap();
        assert!(Rate::new(0).is_none());
        let now = Instant::now() + Duration::from_secs(100);
        let client = IpAddr::from([192, 0, 2, 1]);
        let mut waits = Vec::new();
        while let Some(wait) = rate.wait(client, now) {
            waits.push(wait);
        }
        assert_eq!(waits.first(), Some(&Duration::ZERO));
        assert!(waits.len() > 15 && waits.last().unwrap() <= &PATIENCE);
        assert_eq!(rate.wait(IpAddr::from([192, 0, 2, 2]), now), Some(Duration::ZERO));
        // Later it may ask again.
        assert_eq!(rate.wait(client, now + Duration::from_secs(10)), Some(Duration::ZERO));
    }
}
