//! The expressions by which `ResourceClaim`s and `DeviceClass`es select devices: the Common Expression Language with the libraries that
//! Kubernetes gives it.

#![deny(clippy::iter_over_hash_type, clippy::disallowed_methods, clippy::disallowed_types, clippy::unwrap_used)]

mod device;

pub use device::{Attribute, Device, QualifiedName};
