//! `berth explain` beyond the judgement: what would place a pod, why not one node, a live cluster, a plugin of kubectl.
//!
//! Clusters are drawn as the conformance tests draw them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(unreachable_pub, dead_code, reason = "modules shared with another test, of which not all is used here")]

#[path = "../conformance/affinity.rs"]
mod affinity;
#[path = "../conformance/budgets.rs"]
mod budgets;
#[path = "../conformance/claims.rs"]
mod claims;
#[path = "../conformance/cluster.rs"]
mod cluster;
#[path = "../conformance/config.rs"]
mod config;
#[path = "../conformance/containers.rs"]
mod containers;
#[path = "../conformance/crowd.rs"]
mod crowd;
#[path = "../conformance/draw.rs"]
mod draw;
#[path = "../conformance/nodes.rs"]
mod nodes;
#[path = "../conformance/pods.rs"]
mod pods;
#[path = "../conformance/selectors.rs"]
mod selectors;
#[path = "../conformance/spread.rs"]
mod spread;
#[path = "../conformance/storage.rs"]
mod storage;
#[path = "../conformance/volumes.rs"]
mod volumes;
#[path = "../conformance/workloads.rs"]
mod workloads;

mod apply;
mod changes;
mod command;
mod devices;
