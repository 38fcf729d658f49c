//! Which addresses extenders may be at. A profile names a URL; what the process may connect to is for its flags to say.
//!
//! Three steps, none of which trusts the one before: the URL is read strictly ([`Url`]), its host must be on a list of the
//! process ([`AddressPolicy::check_url`]), and each address that the host leads to is checked right before it, and no other,
//! is connected to ([`AddressPolicy::check_address`]).

mod ip;
mod policy;
mod url;

#[cfg(test)]
mod hostile_tests;

pub use ip::{Special, meant, special};
pub use policy::{ALLOW_HOST, ALLOW_HTTP, AddressPolicy, Refusal, RuleError};
pub use url::{Host, Scheme, Url, UrlError};
