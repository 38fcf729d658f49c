//! Extenders: HTTP servers that a profile asks in the middle of an attempt. This crate is everything between the core's
//! question and the wire.
//!
//! ```text
//!  worker ─ question ─▶ ExtenderClients ▶ ProfileExtenders ▶ Extender (slots, a breaker a verb) ▶ Client ▶ Pool ▶ checked address
//!                                    │ objects: pods, nodes, victims       ▲ wire: body          │
//!  worker ◀─ ExtenderAnswered ◀──────┴──────────────── wire: reply as a stream ◀─────────────────┘
//! ```
//!
//! [`wire`], [`address`] and [`Breaker`] do no I/O; time is an argument of the breaker.
//! One profile's extenders cost no other profile anything: connections, slots, tasks and the bound on memory are the
//! profile's own. Only names, messages and scores of a reply are kept, and only its messages are passed on as text.

pub mod address;
pub mod wire;

mod binder;
mod breaker;
mod budget;
mod client;
mod connect;
mod connector;
mod contents;
mod endpoints;
mod error;
mod extender;
mod extender_clients;
mod kept;
mod objects;
mod profile_extenders;
mod question;
mod resolve;
mod settings;
mod stats;
mod store;
mod tls;

#[cfg(test)]
mod bind_tests;
#[cfg(test)]
mod breaker_tests;
#[cfg(test)]
mod call_tests;
#[cfg(test)]
mod resolve_tests;
#[cfg(test)]
mod settings_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tls_tests;

pub use breaker::{Breaker, Change, Circuit, FAILURES, Pass};
pub use budget::{Budget, PROFILE_BYTES, Reservation};
pub use connector::{Connector, Stream, tcp};
pub use contents::Contents;
pub use endpoints::{follow_api_servers, read_api_servers};
pub use error::Fault;
pub use extender_clients::{BOUND_WITHIN, ExtenderClients, LANDS_WITHIN, Options};
pub use objects::KeyOf;
pub use profile_extenders::{Notice, Notify};
pub use settings::{
    Credentials, Endpoint, Lookup, ServiceKey, Settings, SettingsError, Verb, VerbSettings, references,
};
pub use stats::{CallResult, ExtenderHealth, LastError, VerbHealth};
pub use store::{ObjectStore, observers};

/// Longest wait for the API server.
const READ_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(4);
