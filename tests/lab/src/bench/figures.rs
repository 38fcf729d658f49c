//! What one run gives.

use super::contestant::Contestant;
use super::workload::Workload;

/// The figures of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    /// Pods per second: of a race from the first creation, of a backlog from the first bind seen, to the last bind seen.
    pub(super) pods_per_second: f64,
    /// Seconds from the contestant's start (of a race: from the first creation) to the first bind seen.
    pub(super) first_bind: f64,
    /// Seconds from the same moment to the last bind seen.
    pub(super) last_bind: f64,
    /// The contestant's processor time in seconds, user and system, until five seconds after the last bind.
    pub(super) cpu: f64,
    /// The contestant's processor time in milliseconds per pod.
    pub(super) cpu_per_pod: f64,
    /// Milliseconds per pod of kube-apiserver and etcd together, the creation of the pods included in a race only.
    pub(super) server_cpu_per_pod: f64,
    /// Milliseconds per pod of the extender, where one is asked.
    pub(super) extender_cpu_per_pod: f64,
    /// Pods per second had the extender taken no processor time, on a machine whose cores are all busy.
    pub(super) without_extender: f64,
    /// The contestant's highest resident set in MiB.
    pub(super) rss: f64,
    /// Percent of the pods that had their `Scheduled` event five seconds after the last bind.
    pub(super) events: f64,
    /// Pods that were evicted for those of the run and its probe, where any may be.
    pub(super) victims: Option<usize>,
    /// How long pods waited, where they came at a steady rate.
    pub(super) latency: Option<Latency>,
}

/// Milliseconds from the moment when a pod is to be created until it is seen bound.
#[derive(Debug, Clone, Copy)]
pub(super) struct Latency {
    /// Pods a second.
    pub(super) rate: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Figures {
    /// One line for the progress of the benchmark.
    pub(super) fn line(&self) -> String {
        let victims = self.victims.map(|victims| format!(", {victims} victims")).unwrap_or_default();
        let waits = self.latency.map(|latency| {
            let Latency { rate, p50, p99 } = latency;
            format!(", at {rate:.0} pods/s waits p50 {p50:.1} ms, p99 {p99:.1} ms")
        });
        let waits = waits.unwrap_or_default();
        format!(
            "{:.0} pods/s, first bind after {:.2} s, last after {:.2} s, {:.2} ms CPU per pod (API server and etcd {:.2}), \
             {:.0} MiB, events {:.1} %{victims}{waits}",
            self.pods_per_second,
            self.first_bind,
            self.last_bind,
            self.cpu_per_pod,
            self.server_cpu_per_pod,
            self.rss,
            self.events
        )
    }
}

/// One run and its figures. The bare reading of the list is no run of a contestant and not among them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) workload: Workload,
    pub(super) contestant: Contestant,
    pub(super) figures: Figures,
}
