//! A way in and a way out: KubeSchedulerConfigurations and scheduler Policies to SchedulerProfiles, and back.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod export;
pub mod import;
