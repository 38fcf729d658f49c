//! Worlds from seeds: real operators in one thread with a model API server, users, kubelets, controllers and faults, under a clock and a
//! random source that the test drives. A seed gives the same world each time.
//!
//! Each world has a process of its own: what a process counts once (thread ids, the seeds of tokio's event loops) would make the second
//! world in it another one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod actors;
mod budgets;
mod claims;
mod containers;
mod deleted;
mod devices;
mod ends;
mod extender_server;
mod extenders;
mod facts;
mod kubelet;
mod leases;
mod model;
mod mutants;
mod network;
mod odd;
mod operators;
mod plan;
mod profiles;
mod protobuf;
mod random;
mod room;
mod rules;
mod run;
mod runner;
mod said;
mod spreading;
mod statuses;
mod steady;
mod storage;
mod sweeps;
mod trace;
mod victims;
mod watching;
mod world;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One world in this process, as [`runner`] asks for it.
#[test]
#[ignore = "a process of its own for each world"]
fn one_world() {
    runner::in_this_process();
}

#[test]
fn no_world_breaks_a_rule() {
    runner::many();
}
