//! Berth: a Kubernetes operator that runs one scheduler worker per `SchedulerProfile`, inside its own process.
//!
//! This crate is the process and the commands; everything else is a member of the workspace (`crates/`). `docs/architecture.md`
//! has the picture, the words, the invariants and where to look for what.

pub mod cli;
pub mod operator;
