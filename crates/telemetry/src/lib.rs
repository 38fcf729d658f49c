//! What the process reports about itself: metrics, health endpoints, logs.
//!
//! - [`Metric`]: every metric there is; `docs/metrics.md` describes each, and a test compares the two
//! - [`Exposition`]: asks its source at each scrape and writes the text
//! - [`Health`]: what stands in the way of being ready
//! - [`serve`]: `/livez`, `/readyz`, `/metrics`, within limits that hold against whoever connects
//! - [`serve_debug`]: what looks into the process, on a loopback address alone
//! - [`ProcessStats`]: what the kernel says of this process
//! - [`raise_open_files`]: the limit of open files
//! - [`init_logs`]: structured logs on stderr, for which nobody waits; [`Logs`] has the lines on their way

mod catalog;
mod connections;
mod debug;
mod exposition;
mod files;
mod health;
mod histogram;
mod log_level;
mod log_queue;
mod logs;
mod plain;
mod process;
mod server;
#[cfg(test)]
mod server_tests;

pub use catalog::{Kind, Metric};
pub use debug::{DebugQuestion, DebugReply, serve_debug};
pub use exposition::{Exposition, Samples};
pub use files::raise_open_files;
pub use health::{Check, Health};
pub use histogram::{Histogram, HistogramSnapshot};
pub use log_queue::Logs;
pub use logs::{LogError, LogFormat, init_logs};
pub use process::ProcessStats;
pub use server::{Access, Addresses, Authorizer, Endpoints, ServeError, serve};
