//! Extenders: HTTP servers that a profile asks in the middle of an attempt. Everything between the core's question and the
//! wire.
//!
//! ```text
//!  worker ─ question ─▶ ExtenderClients ▶ ExtenderClient (one a profile) ▶ Extender (slots, a breaker a verb) ▶ Client ▶ Pool ▶ checked address
//!                                    │ objects: pods, nodes, victims       ▲ wire: body          │
//!  worker ◀─ ExtenderAnswered ◀──────┴──────────────── wire: reply as a stream ◀─────────────────┘
//! ```
//!
//! | part | is |
//! |---|---|
//! | [`wire`] | the v1 protocol: bodies, and replies read as a stream. No I/O |
//! | [`address`] | who may be connected to. No I/O |
//! | [`Settings`] | `spec.extenders[]` with its references resolved |
//! | [`Breaker`] | when an extender is left alone. Time is an argument |
//! | `resolve`, `connect`, `client` | one call: checked address, TLS, time, size |
//! | `guard` | one extender: calls at a time, breakers, counts |
//! | `binder` | the bind verb: an outcome that is not known is read back |
//! | [`ObjectStore`] | whole objects for extenders that want them |
//! | [`ExtenderClients`] | what the runtime and the operator see |
//!
//! What one profile's extender does costs no other profile anything: connections, slots, tasks and the bound on memory are
//! the profile's own. Of a reply only names, messages and scores are kept, and no text of it beyond its messages is told on.

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
mod binder;
mod breaker;
#[cfg(test)]
mod breaker_tests;
mod budget;
mod client;
mod connect;
mod endpoints;
mod error;
mod extender_client;
mod extender_clients;
mod guard;
mod objects;
mod observers;
mod question;
mod resolve;
mod settings;
mod stats;
mod tls;

pub use api_servers::api_server_addresses;
pub use breaker::{Breaker, Change, Circuit, FAILURES, Pass};
pub use budget::{Budget, Hold, PROFILE_BYTES};
pub use endpoints::{Service, SliceList, ready_addresses};
pub use extender_clients::{Ask, ExtenderClients, Notice, Notify, Options};
pub use objects::{KeyOf, ObjectStore};
pub use observers::observers;
pub use settings::{
    Credentials, Endpoint, Lookup, Secret, Settings, SettingsError, Verb, VerbSettings, contents, references,
};
pub use stats::{CallResult, ExtenderHealth, LastError, VerbHealth};
