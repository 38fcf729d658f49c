//! What the process reports about itself: metrics, health endpoints, logs.
//!
//! - [`Metric`]: every metric there is; `docs/metrics.md` describes each, and a test compares the two
//! - [`Exposition`]: asks its sources at each scrape and writes the text
//! - [`Health`]: what stands in the way of being ready
//! - [`serve`]: `/livez`, `/readyz`, `/metrics`
//! - [`init_logs`]: structured logs on stderr

mod catalog;
mod exposition;
mod health;
mod histogram;
mod logs;
mod server;

pub use catalog::{Kind, Metric};
pub use exposition::{Exposition, Samples};
pub use health::{Check, Health};
pub use histogram::{Histogram, HistogramSnapshot};
pub use logs::{LogError, LogFormat, init_logs};
pub use server::{Endpoints, ServeError, serve};
