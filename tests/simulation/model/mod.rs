//! A model of the API server: what the operators under test speak to. `tests/simulation/model` has no fault of its own; faults are made
//! on the way to it (`network.rs`).

pub(crate) mod api;
pub(crate) mod kinds;
pub(crate) mod patch;
pub(crate) mod store;
pub(crate) mod watch;
