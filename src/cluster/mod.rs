//! What touches Kubernetes.

pub mod bind;
pub mod client;
pub mod decode;
pub mod events;
pub mod foreign;
pub mod lease;
pub mod refusal;
pub mod revisions;
pub(crate) mod send;
pub mod served_crd;
pub mod slim;
pub mod watch;

#[cfg(test)]
pub(crate) mod scripted;
