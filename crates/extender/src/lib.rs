//! Extenders: HTTP servers that a profile asks in the middle of an attempt. This crate is everything between the core's
//! question and the wire.
//!
//! ```text
//!  worker ─ question ─▶ ExtenderClients ▶ ProfileExtenders ▶ Extender (slots, a breaker a verb) ▶ Client ▶ Pool ▶ checked address
//!                                    │ objects: pods, nodes, victims       ▲ wire: body          │
//!  worker ◀─ ExtenderAnswered ◀──────┴──────────────── wire: reply as a stream ◀─────────────────┘
//! ```
//!
//! | part | is |
//! |---|---|
//! | [`wire`] | the v1 protocol: bodies, and replies read as a stream. No I/O |
//! | [`address`] | who may be connected to. No I/O |
//! | [`Settings`] | `spec.extenders[]` with its references resolved |
//! | [`Breaker`] | when no calls are made because the last ones failed. Time is an argument |
//! | `resolve`, `connect`, `client` | one call: checked address, TLS, time, size |
//! | `extender` | one extender: limit of concurrent calls, breakers, counts |
//! | `profile_extenders` | all extenders of one profile, its calls under way, its bound on memory |
//! | `binder` | the bind verb: after an unknown outcome the pod is read back |
//! | [`ObjectStore`] | whole objects for extenders that want them |
//!
//! One profile's extenders cost no other profile anything: connections, slots, tasks and the bound on memory are the
//! profile's own. Of a reply only names, messages and scores are kept, and only its messages are passed on as text.

pub mod address;
pub mod wire;

#[cfg(test)]
mod bind_tests;
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

mod api_servers;
mod ask;
mod binder;
mod breaker;
#[cfg(test)]
mod breaker_tests;
mod budget;
mod client;
mod connect;
mod endpoints;
mod error;
mod extender;
mod extender_clients;
mod fault;
mod objects;
mod observers;
mod profile_extenders;
mod question;
mod resolve;
mod settings;
mod stats;
mod tls;

pub use api_servers::api_server_addresses;
pub use ask::{Notice, Notify, Options};
pub use breaker::{Breaker, Change, Circuit, FAILURES, Pass};
pub use budget::{Budget, PROFILE_BYTES, Reservation};
pub use endpoints::{Service, SliceList, ready_addresses};
pub use extender_clients::ExtenderClients;
pub use fault::Fault;
pub use objects::{KeyOf, ObjectStore};
pub use observers::observers;
pub use settings::{Contents, Credentials, Endpoint, Lookup, Settings, SettingsError, Verb, VerbSettings, references};
pub use stats::{CallResult, ExtenderHealth, LastError, VerbHealth};
