//! From what a user writes to what a worker runs: presets, and [`compile`], which resolves a spec or says why it cannot.
//!
//! The API server has refused most bad specs before they come here (schema and CEL). What is left is what a schema
//! cannot say, and specs that no API server has seen: files given to `berth simulate` and `berth explain`.

mod args;
mod compile;
mod error;
mod extenders;
mod names;
mod plugins;
mod preemption;
mod preset;
mod selectors;

pub use compile::compile;
pub use error::CompileError;
pub use names::{is_dns1123_subdomain, is_qualified_name};
pub use preset::Preset;
pub use selectors::label_key;
