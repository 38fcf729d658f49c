//! Dynamic resource allocation without its API: which devices a pod's claims get on a node.

#![deny(clippy::iter_over_hash_type, clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]
