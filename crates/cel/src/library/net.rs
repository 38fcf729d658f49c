//! IP addresses and networks.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::signatures::{Evaluated, Run, Shape, Signature};
use crate::value::Value;
use core::net::IpAddr;

const fn of_ip(name: &'static str, run: Run) -> Signature {
    Signature::member(name, &[Shape::Ip], Shape::Bool, run)
}

pub(crate) const SIGNATURES: &[Signature] = &[
    Signature::global("ip", &[Shape::Text], Shape::Ip, ip),
    Signature::member("ip", &[Shape::Cidr], Shape::Ip, address),
    Signature::global("isIP", &[Shape::Text], Shape::Bool, is_ip),
    Signature::global("ip.isCanonical", &[Shape::Text], Shape::Bool, is_canonical),
    Signature::member("family", &[Shape::Ip], Shape::Int, family),
    of_ip("isUnspecified", is_unspecified),
    of_ip("isLoopback", is_loopback),
    of_ip("isLinkLocalMulticast", is_link_local_multicast),
    of_ip("isLinkLocalUnicast", is_link_local_unicast),
    of_ip("isGlobalUnicast", is_global_unicast),
    Signature::global("string", &[Shape::Ip], Shape::Text, written),
    Signature::global("string", &[Shape::Cidr], Shape::Text, written),
    Signature::global("cidr", &[Shape::Text], Shape::Cidr, cidr),
    Signature::global("isCIDR", &[Shape::Text], Shape::Bool, is_cidr),
    Signature::member("containsIP", &[Shape::Cidr, Shape::Text], Shape::Bool, contains_ip),
    Signature::member("containsIP", &[Shape::Cidr, Shape::Ip], Shape::Bool, contains_ip),
    Signature::member("containsCIDR", &[Shape::Cidr, Shape::Text], Shape::Bool, contains_cidr),
    Signature::member("containsCIDR", &[Shape::Cidr, Shape::Cidr], Shape::Bool, contains_cidr),
    Signature::member("prefixLength", &[Shape::Cidr], Shape::Int, prefix_length),
    Signature::member("masked", &[Shape::Cidr], Shape::Cidr, masked),
];

/// An address with the number of its leading bits that name a network; the others are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    fn contains(self, address: IpAddr) -> bool {
        let (network, width) = number(self.address);
        let (found, found_width) = number(address);
        let host = u32::from(width - self.bits);
        // A shift by all bits of a number would be none.
        let network_of = |number: u128| number.checked_shr(host).unwrap_or(0);
        width == found_width && network_of(network) == network_of(found)
    }
}

/// The bits of an address, and how many there are.
fn number(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    let wrong = |why: &str| EvalError::failed(format!("IP address {text:?} {why}"));
    let address: IpAddr = text.parse().map_err(|_| wrong("parse error during conversion from string"))?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(wrong("is an IPv4-mapped IPv6 address")),
        address => Ok(address),
    }
}

fn parse_cidr(text: &str) -> Result<Prefix, EvalError> {
    let wrong = || EvalError::failed(format!("network address {text:?} parse error during conversion from string"));
    let (address, bits) = text.rsplit_once('/').ok_or_else(wrong)?;
    let address = parse_ip(address)?;
    let is_plain = bits.bytes().all(|b| b.is_ascii_digit()) && (bits == "0" || !bits.starts_with('0'));
    let bits: u8 = if is_plain { bits.parse().map_err(|_| wrong())? } else { return Err(wrong()) };
    if bits > number(address).1 {
        return Err(wrong());
    }
    Ok(Prefix { address, bits })
}

fn text<'v>(args: &'v [Value<'_>]) -> Result<&'v str, EvalError> {
    if let [Value::Text(text)] = args { Ok(text) } else { Err(EvalError::NoSuchOverload) }
}

fn one(args: &[Value<'_>]) -> Result<IpAddr, EvalError> {
    if let [Value::Ip(address)] = args { Ok(*address) } else { Err(EvalError::NoSuchOverload) }
}

fn network(args: &[Value<'_>]) -> Result<Prefix, EvalError> {
    if let [Value::Cidr(prefix)] = args { Ok(*prefix) } else { Err(EvalError::NoSuchOverload) }
}

fn ip<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    parse_ip(text(args)?).map(Value::Ip)
}

fn is_ip<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(parse_ip(text(args)?).is_ok()))
}

fn is_canonical<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let text = text(args)?;
    Ok(Value::Bool(parse_ip(text)?.to_string() == text))
}

fn address<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Ip(network(args)?.address))
}

fn family<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(if one(args)?.is_ipv4() { 4 } else { 6 }))
}

fn is_unspecified<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(one(args)?.is_unspecified()))
}

fn is_loopback<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(one(args)?.is_loopback()))
}

fn link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(link_local_multicast(one(args)?)))
}

fn is_link_local_unicast<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(link_local_unicast(one(args)?)))
}

fn is_global_unicast<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let address = one(args)?;
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    Ok(Value::Bool(!is_broadcast && !is_special && !link_local_unicast(address)))
}

fn written<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Ip(address)] => Ok(Value::text(address.to_string())),
        [Value::Cidr(prefix)] => Ok(Value::text(format!("{}/{}", prefix.address, prefix.bits))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn cidr<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    parse_cidr(text(args)?).map(Value::Cidr)
}

fn is_cidr<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Bool(parse_cidr(text(args)?).is_ok()))
}

fn contains_ip<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Cidr(prefix), Value::Ip(address)] => Ok(Value::Bool(prefix.contains(*address))),
        [Value::Cidr(prefix), Value::Text(text)] => Ok(Value::Bool(prefix.contains(parse_ip(text)?))),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn contains_cidr<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let (outer, inner) = match args {
        [Value::Cidr(outer), Value::Cidr(inner)] => (*outer, *inner),
        [Value::Cidr(outer), Value::Text(text)] => (*outer, parse_cidr(text)?),
        _ => return Err(EvalError::NoSuchOverload),
    };
    Ok(Value::Bool(outer.bits <= inner.bits && outer.contains(inner.address)))
}

fn prefix_length<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(Value::Int(i64::from(network(args)?.bits)))
}

fn masked<'a>(_: &mut Meter<'_>, args: &[Value<'a>]) -> Evaluated<'a> {
    let prefix = network(args)?;
    let mask = |bits: u128, width: u8| {
        let host = u32::from(width - prefix.bits);
        bits.checked_shr(host).and_then(|network| network.checked_shl(host)).unwrap_or(0)
    };
    let address = match prefix.address {
        IpAddr::V4(address) => IpAddr::V4((mask(u128::from(address.to_bits()), 32) as u32).into()),
        IpAddr::V6(address) => IpAddr::V6(mask(address.to_bits(), 128).into()),
    };
    Ok(Value::Cidr(Prefix { address, ..prefix }))
}
