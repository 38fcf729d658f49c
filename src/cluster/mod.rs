//! cluster

pub mod decode;
pub mod slim;
