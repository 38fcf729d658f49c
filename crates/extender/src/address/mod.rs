//! Which addresses extenders may have. A profile names a URL; the flags of the process say what may be connected to.
//!
//! Three steps, none of which trusts the one before: the URL is read strictly ([`Url`]), its host must be on a list of
//! the process ([`AddressPolicy::check_url`]), and each address that the host resolves to is checked right before it is
//! connected to, with no look-up in between ([`AddressPolicy::check_address`]).

mod api_servers;
mod ip;
mod url;

#[cfg(test)]
mod hostile_tests;

pub use api_servers::ApiServers;
pub use ip::{Special, meant, special};
pub use url::{Host, Url, UrlError};

use berth_api::Scheme;
use ipnet::IpNet;
use std::net::IpAddr;
use url::read_host;

/// The flag that allows a host, also one with a special address if the flag names that address.
pub const ALLOW_HOST: &str = "--extender-allow-host";

/// The flag that allows plain http to a host, and all that [`ALLOW_HOST`] does.
pub const ALLOW_HTTP: &str = "--extender-allow-http";

/// A value of one of the flags.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Name(String),
    /// Every name that ends in this one, which begins with a dot.
    Below(String),
    /// A range of addresses, or a single one.
    Net(IpNet),
}

/// A flag has a value that is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flag} {value}: give a host name, *.domain, an IP address or a range such as 10.0.0.0/8")]
pub struct RuleError {
    flag: &'static str,
    value: String,
}

/// Why an address or URL is not used, and which flag would change that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefusal {
    #[error(
        "host {0} is not on the list of hosts that extenders may be on: start the operator with {ALLOW_HOST} {0}, or name a Service"
    )]
    Host(Host),
    #[error("plain http to {0} is not allowed: use https, or start the operator with {ALLOW_HTTP} {0}")]
    PlainHttp(Host),
    #[error("{}", describe(host, *address, *special))]
    Address {
        /// The host that resolved to it.
        host: Host,
        address: IpAddr,
        special: Special,
    },
    #[error(
        "no connection to {0} yet: the API server's own addresses, which no extender may have, could not be read; they are tried again every few seconds"
    )]
    Unknown(Host),
}

fn describe(host: &Host, address: IpAddr, special: Special) -> String {
    let what = match host {
        Host::Name(name) => format!("host {name} leads to {address}, {}", special.describe()),
        Host::Address(_) => format!("{address} is {}", special.describe()),
    };
    if special.can_be_allowed() {
        format!("{what}, which is not allowed: start the operator with {ALLOW_HOST} {}", meant(address))
    } else {
        format!("{what}, which no server has")
    }
}

/// What may be connected to, by the flags of the process.
#[derive(Debug, Clone, Default)]
pub struct AddressPolicy {
    hosts: Vec<Rule>,
    http: Vec<Rule>,
    /// `None` where no API server is at work, as with manifests.
    api_servers: Option<ApiServers>,
}

impl AddressPolicy {
    /// From the values of [`ALLOW_HOST`] and [`ALLOW_HTTP`].
    pub fn new(allow_host: &[String], allow_http: &[String]) -> Result<Self, RuleError> {
        let read =
            |flag, values: &[String]| values.iter().map(|value| rule(flag, value)).collect::<Result<Vec<_>, _>>();
        Ok(Self { hosts: read(ALLOW_HOST, allow_host)?, http: read(ALLOW_HTTP, allow_http)?, api_servers: None })
    }

    /// Also refuses the addresses of the API server: no extender is there. Until they are known nothing is connected to.
    #[must_use]
    pub fn with_api_servers(mut self, servers: ApiServers) -> Self {
        self.api_servers = Some(servers);
        self
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.hosts.iter().chain(&self.http)
    }

    /// Whether a URL may be used at all. Its addresses are checked when it is connected to.
    pub fn check_url(&self, url: &Url) -> Result<(), AddressRefusal> {
        self.check_scheme(url.scheme, &url.host)?;
        if let Host::Address(address) = url.host {
            self.check_special(&url.host, address)?;
        }
        if self.rules().any(|rule| rule.names(&url.host)) {
            Ok(())
        } else {
            Err(AddressRefusal::Host(url.host.clone()))
        }
    }

    /// Whether this scheme is allowed for this host.
    pub fn check_scheme(&self, scheme: Scheme, host: &Host) -> Result<(), AddressRefusal> {
        match scheme {
            Scheme::Http if !self.http.iter().any(|rule| rule.names(host)) => {
                Err(AddressRefusal::PlainHttp(host.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether an address that a host resolved to may be connected to.
    pub fn check_address(&self, host: &Host, address: IpAddr) -> Result<(), AddressRefusal> {
        let is_special = self.check_special(host, address)?;
        if !is_special && self.api_servers.as_ref().is_some_and(ApiServers::are_unknown) {
            return Err(AddressRefusal::Unknown(host.clone()));
        }
        Ok(())
    }

    /// Refuses special addresses that no flag allows. Returns whether the address is special.
    fn check_special(&self, host: &Host, address: IpAddr) -> Result<bool, AddressRefusal> {
        let real = meant(address);
        let is_api_server = self.api_servers.as_ref().is_some_and(|servers| servers.contain(address));
        let special = match special(address) {
            None | Some(Special::Unspecified) if is_api_server => Special::ApiServer,
            None => return Ok(false),
            Some(special) => special,
        };
        let is_localhost = matches!(host, Host::Name(name) if name == "localhost") && special == Special::Loopback;
        let is_allowed = special.can_be_allowed()
            && self.rules().any(|rule| rule.spells_out(real, special) || is_localhost && rule.names(host));
        if is_allowed { Ok(true) } else { Err(AddressRefusal::Address { host: host.clone(), address, special }) }
    }
}

impl Rule {
    fn names(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(rule), Host::Name(name)) => rule == name,
            (Self::Below(rule), Host::Name(name)) => name.ends_with(rule.as_str()),
            (Self::Net(net), Host::Address(address)) => net.contains(&meant(*address)),
            _ => false,
        }
    }

    /// Whether the rule names a special address on purpose: alone, or in a range of special addresses of the same kind.
    fn spells_out(&self, real: IpAddr, what: Special) -> bool {
        let Self::Net(net) = self else { return false };
        let is_one = net.prefix_len() == net.max_prefix_len();
        net.contains(&real) && (is_one || special(net.addr()) == Some(what))
    }
}

fn rule(flag: &'static str, value: &str) -> Result<Rule, RuleError> {
    let error = || RuleError { flag, value: value.to_owned() };
    if let Some(domain) = value.strip_prefix("*.") {
        return match read_host(domain) {
            Ok(Host::Name(name)) => Ok(Rule::Below(format!(".{name}"))),
            _ => Err(error()),
        };
    }
    // The address is read by `std`: `ipnet` takes octets with leading zeros, which others read as octal.
    let (address, bits) = value.split_once('/').map_or((value, None), |(address, bits)| (address, Some(bits)));
    let host = match address.parse::<IpAddr>() {
        Ok(address) => Host::Address(address),
        Err(_) => read_host(address).map_err(|_| error())?,
    };
    match (host, bits) {
        (Host::Name(name), None) => Ok(Rule::Name(name)),
        (Host::Name(_), Some(_)) => Err(error()),
        (Host::Address(address), None) => Ok(Rule::Net(meant(address).into())),
        (Host::Address(address), Some(bits)) => {
            let net = bits.parse().ok().and_then(|bits| IpNet::new(address, bits).ok());
            net.map(Rule::Net).ok_or_else(error)
        }
    }
}
