//! A real control plane on loopback: etcd, kube-apiserver and friends, started and ended as one value.
//!
//! ```text
//! upstream        the binaries, built from pinned Go modules when they are missing
//! process         one child with its log, its figures and its watchdog; ends when dropped
//! control_plane   etcd + kube-apiserver + credentials, ready to use
//! authority       certificate authorities of the API server that a test replaces
//! etcd            etcd's housekeeping: what is done when its quota is reached
//! kubectl · api   the two ways in: what a user types, and raw JSON fast enough for 10,000 pods
//! follow          every object of a kind, and each that changes
//! nodes           machines that exist only as objects
//! operator        the berth binary, run as the chart's Deployment says
//! ports           for processes that must be told one before they start
//! parts           kwok, kube-scheduler, kube-controller-manager, beside the control plane
//! provisioner     a storage driver's provisioner, for claims that wait for their pod
//! driver          a driver of devices, and what kubelets do about pods with claims of them
//! extender        a scheduler extender in Go, on upstream's wire types
//! prometheus      Prometheus, scraping what a test names
//! promtool        Prometheus' checks of metrics, and its unit tests of rules
//! demo            the guided tour of `make demo`
//! bench           the side-by-side benchmark of `make bench-e2e`
//! ```
//!
//! Nothing here outlives its owner: a value that is dropped ends its process, and a test process that is killed
//! takes its children with it (each has a watchdog, see [`process`]). Linux only: figures come from `/proc`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod api;
mod authority;
pub mod bench;
mod control_plane;
pub mod demo;
mod driver;
mod etcd;
mod extender;
mod follow;
mod kubectl;
mod nodes;
mod operator;
mod parallel;
mod parts;
mod ports;
pub mod process;
mod prometheus;
mod promtool;
mod provisioner;
mod upstream;
mod wait;

pub use api::{Answer, Api, Patch};
pub use control_plane::{ControlPlane, Durability, Options};
pub use driver::Driver;
pub use etcd::ETCD_QUOTA;
pub use extender::{Extender, ExtenderOptions};
pub use follow::follow;
pub use kubectl::Outcome;
pub use nodes::NodeSpec;
pub use operator::{Operator, OperatorOptions};
pub use parallel::for_each;
pub use parts::MeasuredScheduler;
pub use ports::free_address;
pub use process::Managed;
pub use prometheus::Prometheus;
pub use promtool::promtool;
pub use provisioner::Provisioner;
pub use upstream::Upstream;
pub use wait::{StopFlag, wait_for};
