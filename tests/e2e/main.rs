//! The whole thing: the real `berth operator` as the chart's own account, on a real API server, with pods that wait.
//!
//! Themes that share one operator run side by side, each with nodes, a namespace and a profile of its own (`world`).
//! Themes that kill operators, take their rights away or need the machine's whole attention start a control plane of
//! their own. Nothing sleeps for luck: what is waited for is a condition, with a generous limit.
//!
//! ```text
//! cluster      a control plane with the chart installed; the one that themes share
//! world        one theme's corner of the shared one
//! objects      pods, profiles, what they say about themselves
//! storage      classes, volumes and claims
//! load         pods that keep coming while operators come and go
//! terminal     a real terminal, and what its screen shows
//! history      every change of the pods as a watch shows it
//! audit        every bind and every write of an operator, as the API server's audit log has it
//! limit        how long nothing may be bound
//! stopped      what a leader still sends that stood still
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod admission;
mod asked;
mod audit;
mod bad_input;
mod capacity;
mod chart_values;
mod cluster;
mod commands;
mod crash;
mod debug;
mod devices;
mod diff;
mod encodings;
mod explain;
mod extenders;
mod foreign;
mod gates;
mod history;
mod ipv6;
mod last_good;
mod leadership;
mod limit;
mod load;
mod metrics;
mod minor;
mod objects;
mod older;
mod outside;
mod overbooking;
mod placing;
mod preemption;
mod profiles;
mod refused;
mod relations;
mod replicas;
mod resize;
mod rollout;
mod routing;
mod scraped;
mod shadow;
mod simulate;
mod starved;
mod status;
mod stopped;
mod storage;
mod terminal;
mod top;
mod unbound;
mod upgrade;
mod volumes;
mod world;

use std::time::Duration;

/// Longest wait for anything that takes no time on an idle machine: tests share theirs with compilers.
const SOON: Duration = Duration::from_mins(1);

/// Longest wait for what the operator does only now and then: counters each 30 s, permissions each 60 s.
const LATER: Duration = Duration::from_mins(3);
