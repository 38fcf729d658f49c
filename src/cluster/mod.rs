//! cluster

pub mod bind;
pub mod client;
pub mod lease;
pub(crate) mod send;

#[cfg(test)]
pub(crate) mod scripted;
