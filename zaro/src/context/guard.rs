//! Restricts connections to public addresses, for servers that open addresses named by strangers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::error::{Error, Result};

/// Resolves names to public addresses only, but for these hosts. It checks the very address that is then connected to,
/// so that a name that resolves differently the second time gains nothing.
pub(super) struct PublicOnly(pub(super) Vec<String>);

/// Whether a host is one of those that may be private.
fn is_listed(allowed: &[String], host: &str) -> bool {
    let plain = |name: &str| name.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    allowed.iter().any(|one| plain(one) == plain(host))
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        let any = is_listed(&self.0, name.as_str());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (public, private): (Vec<SocketAddr>, Vec<_>) = found.partition(|a| any || is_public(a.ip()));
            if public.is_empty() && !private.is_empty() {
                return Err("the name resolves to an address that is not public".into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

/// Refuses a literal IP address that is neither public nor one of the allowed hosts.
pub(super) fn check(url: &Url, allowed: &[String]) -> Result<()> {
    if url.host_str().is_some_and(|host| is_listed(allowed, host)) {
        return Ok(());
    }
    let ip = match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
        Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
        Some(Host::Domain(_)) => return Ok(()),
        None => return Err(Error::usage("the URL has no host")),
    };
    if is_public(ip) { Ok(()) } else { Err(Error::not_permitted("only public addresses may be opened here")) }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_loopback()
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        // Carrier-grade NAT (100.64/10), protocol assignments (192.0.0/24), relays of 6to4 (192.88.99/24), benchmarks
        // (198.18/15).
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a, b, c) == (192, 88, 99)
        || (a == 198 && (b == 18 || b == 19));
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    // An IPv4-mapped address is treated as IPv4.
    if let Some(v4) = ip.to_ipv4_mapped() {
        return is_public_v4(v4);
    }
    let [a, b, middle @ .., c, d] = ip.segments();
    let [x, y] = c.to_be_bytes();
    let [z, w] = d.to_be_bytes();
    match (a, b) {
        // NAT64 leads to the IPv4 address in it; the prefix for networks of one's own (64:ff9b:1::) leads to those.
        (0x64, 0xff9b) => middle == [0; 4] && is_public_v4(Ipv4Addr::new(x, y, z, w)),
        // 6to4, protocol assignments (Teredo, benchmarks, overlay identifiers) and documentation.
        (0x2002, _) | (0x2001, 0..0x200 | 0xdb8) | (0x3fff, 0..0x1000) => false,
        // Global unicast; everything else is local, multicast or unassigned.
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_world_can_reach_is_public() {
        for (ip, wanted) in [
            ("8.8.8.8", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:8.8.8.8", true),
            ("fe80::1", false),
            ("fd00::1", false),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("2a00:1450:4001::1", true),
            ("64:ff9b::808:808", true),
            ("64:ff9b:1::808:808", false),
            ("2001:2::1", false),
            ("2001:20::1", false),
            ("3fff::1", false),
            ("192.88.99.1", false),
            ("198.19.255.255", false),
            ("172.32.0.1", true),
            ("100.128.0.1", true),
        ] {
            assert_eq!(is_public(ip.parse().unwrap()), wanted, "{ip}");
        }
        let at =
            |text: &str| check(&Url::parse(text).unwrap(), &["10.0.0.7".to_owned(), "[FD00::7]".to_owned()]);
        assert!(
            at("http://10.0.0.7:9000/").is_ok()
                && at("http://[fd00::7]/").is_ok()
                && at("http://10.0.0.8/").is_err()
        );
        assert!(at("http://127.0.0.1:80/").is_err() && at("http://[::1]/").is_err());
        assert!(at("http://0x7f.1/").is_err() && at("http://2130706433/").is_err());
        assert!(at("http://example.org/").is_ok());
    }
}
