//! URLs of extenders, read strictly: a text that two parsers could read differently is refused.

use berth_api::Scheme;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const URL_BYTES: usize = 2_048;

const HOST_BYTES: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A DNS name in lower case, without a dot at its end.
    Name(String),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// Scheme, host, port, and the path that comes before a verb's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    pub scheme: Scheme,
    pub host: Host,
    pub port: u16,
    pub is_port_named: bool,
    /// Empty, or beginning with a slash and without slashes at its end.
    pub path: String,
}

/// Why a URL is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("a URL has at most {URL_BYTES} bytes")]
    TooLong,
    #[error("a URL has no spaces, control characters, backslashes or characters beyond ASCII; write them %-encoded")]
    Character,
    #[error("a URL begins with https:// (or http://)")]
    Scheme,
    #[error("a URL has no user or password; use auth.bearerTokenRef")]
    User,
    #[error("a URL has no query and no fragment")]
    Query,
    #[error("the host of a URL is a DNS name, an IPv4 address such as 10.0.0.1 or an IPv6 address such as [fd00::1]")]
    Host,
    #[error("the port of a URL is 1 to 65535")]
    Port,
}

impl Url {
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES {
            return Err(UrlError::TooLong);
        }
        if !text.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'\\' | b'"' | b'<' | b'>' | b'^' | b'`')) {
            return Err(UrlError::Character);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let (scheme, default_port) = match scheme {
            "https" => (Scheme::Https, 443),
            "http" => (Scheme::Http, 80),
            _ => return Err(UrlError::Scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(UrlError::User);
        }
        let (host, port) = split_port(authority)?;
        Ok(Self {
            scheme,
            host: read_host(host)?,
            port: port.unwrap_or(default_port),
            is_port_named: port.is_some(),
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// The value of the `Host` header.
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Address(IpAddr::V6(v6)) => format!("[{v6}]"),
            host => host.to_string(),
        };
        if self.is_port_named { format!("{host}:{}", self.port) } else { host }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Https => "https",
            Scheme::Http => "http",
        };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (host, port) = if let Some(inner) = authority.strip_prefix('[') {
        let end = inner.find(']').ok_or(UrlError::Host)? + 2;
        let (host, rest) = authority.split_at(end);
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(UrlError::Host),
        }
    } else {
        authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)))
    };
    let Some(port) = port else { return Ok((host, None)) };
    let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| port.parse::<u16>().ok()).flatten().filter(|n| *n > 0 && !port.starts_with('0'));
    Ok((host, Some(number.ok_or(UrlError::Port)?)))
}

/// Reads the host of a URL: a DNS name, or an address in its usual form.
pub(super) fn read_host(text: &str) -> Result<Host, UrlError> {
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return inner.parse::<Ipv6Addr>().map(|v6| Host::Address(v6.into())).map_err(|_| UrlError::Host);
    }
    if let Ok(v4) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Address(v4.into()));
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let labels = || name.split('.');
    let is_name = name.len() <= HOST_BYTES && labels().all(is_label);
    // Resolvers read `2130706433`, `0x7f.1` and `0177.0.0.1` as addresses: a name does not end in a number.
    if is_name && !labels().next_back().is_some_and(is_number) { Ok(Host::Name(name)) } else { Err(UrlError::Host) }
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_number(label: &str) -> bool {
    label.bytes().all(|b| b.is_ascii_digit())
        || label.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}
