//! cluster

pub mod bind;
pub mod client;
pub mod events;
pub mod lease;
pub mod refusal;
pub(crate) mod send;

#[cfg(test)]
pub(crate) mod scripted;
