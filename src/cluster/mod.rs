//! What touches Kubernetes.

pub mod bind;
pub mod client;
pub mod decode;
pub mod events;
pub mod lease;
pub mod refusal;
pub(crate) mod send;
pub mod slim;

#[cfg(test)]
pub(crate) mod scripted;
