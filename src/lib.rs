//! Berth: a Kubernetes operator that runs one scheduler worker per `SchedulerProfile`.

pub mod api;
pub mod cli;
pub mod cluster;
pub mod core;
pub mod explain;
pub mod operator;
pub mod profile;
pub mod runtime;
pub mod simulate;
pub mod telemetry;
