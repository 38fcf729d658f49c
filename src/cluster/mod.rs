//! cluster

pub mod decode;
pub mod slim;
pub mod watch;
