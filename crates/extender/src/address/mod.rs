//! Which addresses extenders may have. A profile names a URL; the flags of the process say what may be connected to.
//!
//! Three steps, none of which trusts the one before: the URL is read strictly ([`Url`]), its host must be on a list of
//! the process ([`AddressPolicy::check_url`]), and each address that the host resolves to is checked right before it is
//! connected to, with no look-up in between ([`AddressPolicy::check_address`]).

mod ip;
mod policy;
mod url;

#[cfg(test)]
mod hostile_tests;

pub use ip::{Special, meant, special};
pub use policy::{ALLOW_HOST, ALLOW_HTTP, AddressPolicy, Refusal, RuleError};
pub use url::{Host, Scheme, Url, UrlError};
