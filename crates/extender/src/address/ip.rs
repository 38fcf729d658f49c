//! Addresses that no extender has unless a process flag says so, and addresses that no server has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not that of a server in the cluster or beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    Loopback,
    /// Also where clouds keep their metadata services.
    LinkLocal,
    /// A cloud's metadata service at an address that is not link-local.
    Metadata,
    ApiServer,
    Unspecified,
    Multicast,
    /// Set aside by an RFC: no server has it.
    Reserved,
}

impl Special {
    /// With an article, for messages.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "the address of a metadata service",
            Self::ApiServer => "an address of the API server",
            Self::Unspecified => "the unspecified address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        }
    }

    /// Whether a process flag can allow it.
    pub const fn can_be_allowed(self) -> bool {
        matches!(self, Self::Loopback | Self::LinkLocal | Self::Metadata | Self::ApiServer)
    }
}

/// Metadata services outside of the link-local ranges: Alibaba Cloud, Oracle Cloud, Azure; Google Cloud over IPv6. All of AWS' lie in
/// `fd00:ec2::/32`.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];
const METADATA_V6: [Ipv6Addr; 1] = [Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

/// The IPv4 address that an IPv6 address carries (mapped, compatible, NAT64, 6to4); any other address unchanged.
pub fn meant(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => carried(v6).map_or(address, IpAddr::V4),
    }
}

fn carried(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = v6.segments();
    let last = |hi: u16, lo: u16| Ipv4Addr::from(u32::from(hi) << 16 | u32::from(lo));
    match s {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, hi, lo]
        | [0, 0, 0, 0, 0xffff, 0, hi, lo]
        | [0x64, 0xff9b, 0 | 1, _, _, _, hi, lo]
        | [0x2002, hi, lo, ..] => Some(last(hi, lo)),
        _ => None,
    }
}

/// The IPv4 addresses that an IPv6 address may carry besides the one that it is taken for: nothing in it tells how a translator
/// of its network reads it (RFC 6052 with a prefix of 48, 56 or 64 bits below `64:ff9b:1::/48`), or whether it is a tunnel's (ISATAP).
pub(super) fn embedded(address: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
    let mut found = [None; 3];
    if let IpAddr::V6(v6) = address {
        let b = v6.octets();
        match v6.segments() {
            // The octet 8 stands apart: it is 0 in each of these forms.
            [0x64, 0xff9b, 1, ..] => {
                found = [[b[6], b[7], b[9], b[10]], [b[7], b[9], b[10], b[11]], [b[9], b[10], b[11], b[12]]].map(Some);
            }
            [_, _, _, _, 0 | 0x200, 0x5efe, ..] => found[0] = Some([b[12], b[13], b[14], b[15]]),
            _ => {}
        }
    }
    // 0.x is what the zeros of another form read as.
    found.into_iter().flatten().filter(|octets| octets[0] != 0).map(Ipv4Addr::from)
}

/// Why an address is special, if it is: in any way in which somebody may read it.
pub fn special(address: IpAddr) -> Option<Special> {
    let own = match meant(address) {
        IpAddr::V4(v4) => special_v4(v4),
        IpAddr::V6(v6) => special_v6(v6),
    };
    match own {
        // Zeros of another form read as unspecified.
        None | Some(Special::Unspecified) => embedded(address).find_map(special_v4).or(own),
        found => found,
    }
}

fn special_v4(v4: Ipv4Addr) -> Option<Special> {
    if METADATA_V4.contains(&v4) {
        return Some(Special::Metadata);
    }
    match v4.octets() {
        [0, ..] => Some(Special::Unspecified),
        [127, ..] => Some(Special::Loopback),
        [169, 254, ..] => Some(Special::LinkLocal),
        [224..=239, ..] => Some(Special::Multicast),
        [240..=255, ..] | [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Some(Special::Reserved),
        _ => None,
    }
}

fn special_v6(v6: Ipv6Addr) -> Option<Special> {
    if METADATA_V6.contains(&v6) {
        return Some(Special::Metadata);
    }
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(Special::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Special::Loopback),
        [0xfe80..=0xfeff, ..] => Some(Special::LinkLocal),
        [0xff00..=0xffff, ..] => Some(Special::Multicast),
        [0xfd00, 0xec2, ..] => Some(Special::Metadata),
        // Teredo hides an IPv4 address; the discard-only and documentation ranges have no server.
        [0x2001, 0 | 0xdb8, ..] | [0x100, 0, 0, 0, ..] | [0x3fff, 0..=0xfff, ..] => Some(Special::Reserved),
        _ => None,
    }
}
