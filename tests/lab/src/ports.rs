//! Ports for processes that must be told one before they start.

use anyhow::{Context as _, Result};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// With their usual settings kernels give none of these to whoever asks for any (32,768 and up): between the look and the start nobody gets it by chance.
const RANGE: Range<u32> = 12_000..32_000;

/// Where this process begins: anywhere, so that two processes rarely look at one port at the same time.
static FIRST: OnceLock<u32> = OnceLock::new();
static ASKED: AtomicU32 = AtomicU32::new(0);

/// A loopback address that nobody listens on, and that no other call of this process gives soon.
pub fn free_address() -> Result<SocketAddr> {
    let count = RANGE.end - RANGE.start;
    let first = *FIRST.get_or_init(|| RandomState::new().hash_one(std::process::id()) as u32);
    let port = |_| RANGE.start + first.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % count;
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port as u16));
    let mut addresses = (0..count).map(port).map(address);
    addresses.find(|address| TcpListener::bind(address).is_ok()).context("no loopback port is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_nobodys() {
        // Another process may be faster: rarely, and not each time.
        let taken = || free_address().ok().and_then(|address| Some((address, TcpListener::bind(address).ok()?)));
        let (first, _held) = (0..100).find_map(|_| taken()).unwrap();
        let second = free_address().unwrap();
        assert!(first != second && RANGE.contains(&u32::from(second.port())), "{first} {second}");
    }
}
