//! Every metric there is, by name. Names that kube-scheduler has too mean the same here, with a `profile` label,
//! but `scheduler_unschedulable_pods`, which counts only the ten most frequent reasons.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, from 0 at the start of the process or worker.
    Counter,
    /// A value of the moment.
    Gauge,
    /// A distribution in fixed buckets.
    Histogram,
}

/// Defines the closed set of metrics: `Variant: Kind, name, help`.
macro_rules! metrics {
    ($($variant:ident: $kind:ident, $name:literal, $help:literal;)+) => {
        /// A metric that this process exposes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $(#[doc = $help] $variant,)+
        }

        impl Metric {
            /// Every metric, in the order in which they are exposed.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name as scraped, with `_total` for counters.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// One sentence without its full stop.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)+ }
            }

            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)+ }
            }
        }
    };
}

metrics! {
    ScheduleAttempts: Counter, "scheduler_schedule_attempts_total",
        "Attempts to place a pod, by result: scheduled, unschedulable, error";
    PendingPods: Gauge, "scheduler_pending_pods",
        "Pods without a node, by the part of the queue they wait in";
    UnschedulablePods: Gauge, "scheduler_unschedulable_pods",
        "Unschedulable pods by the filter that refused nodes, over the most frequent reasons";
    PreemptionAttempts: Counter, "scheduler_preemption_attempts_total",
        "Attempts that found no node and looked for pods to evict";
    PreemptionVictims: Histogram, "scheduler_preemption_victims",
        "Victims of each preemption";
    ProfileInfo: Gauge, "schedulerprofile_info",
        "Always 1: the mode and generation in which a profile is served";
    ProfileCondition: Gauge, "schedulerprofile_condition",
        "Always 1: the status and reason of each condition of a profile";
    WorkerUp: Gauge, "schedulerprofile_worker_up",
        "Whether a worker runs for the profile";
    WorkerRestarts: Counter, "schedulerprofile_worker_restarts_total",
        "Workers started again after a failure";
    QuarantinedPods: Gauge, "schedulerprofile_quarantined_pods",
        "Pods that are held because the worker failed while it tried them";
    OldestPending: Gauge, "schedulerprofile_oldest_pending_seconds",
        "How long the profile's oldest pending pod has waited";
    Nodes: Gauge, "schedulerprofile_nodes",
        "Nodes that the profile chooses from: matched by its selector, and schedulable among them";
    BindOutcomes: Counter, "schedulerprofile_bind_outcomes_total",
        "Binds handed to the API server, by how they ended";
    BindDuration: Histogram, "schedulerprofile_bind_duration_seconds",
        "Time from a decision to the API server's answer to its bind";
    BindRequests: Counter, "schedulerprofile_bind_requests_total",
        "Requests to bind, repeats included, by what the answer meant";
    BindConflicts: Counter, "schedulerprofile_bind_conflicts_total",
        "Decisions taken back because someone was faster: own is another worker, foreign another scheduler";
    UnacknowledgedBinds: Gauge, "schedulerprofile_unacknowledged_binds",
        "Binds decided and not yet answered";
    PreBindWrites: Counter, "schedulerprofile_prebind_writes_total",
        "Writes before a bind, by what they went to and result";
    PreBindPods: Gauge, "schedulerprofile_prebind_pods",
        "Pods with a write before their bind: queued, or in flight";
    ExtenderRequests: Counter, "schedulerprofile_extender_requests_total",
        "Questions to extenders, by extender, verb and result";
    ExtenderDuration: Histogram, "schedulerprofile_extender_request_duration_seconds",
        "How long calls of extenders took that were sent, answered or not";
    ExtenderCircuit: Gauge, "schedulerprofile_extender_circuit_open",
        "Whether the circuit of a verb of an extender is open";
    ExtenderCalls: Gauge, "schedulerprofile_extender_calls",
        "Calls of an extender: in_flight, or waiting for one of these to end";
    ExtenderObjects: Counter, "schedulerprofile_extender_objects_left_out_total",
        "Objects that came and were too large to be kept for extenders, or too many";
    ConditionWrites: Counter, "schedulerprofile_condition_writes_total",
        "PodScheduled conditions of pods that were not placed, by result";
    Evictions: Counter, "schedulerprofile_evictions_total",
        "Victims of preemptions, by result: evicted, gone, unwanted, failed";
    PendingEvictions: Gauge, "schedulerprofile_eviction_rounds",
        "Preemptions whose victims are to be evicted: queued, or in flight";
    PreemptionFailures: Counter, "schedulerprofile_preemption_failures_total",
        "Preemptions of which a victim could not be evicted";
    PreemptionStorms: Counter, "schedulerprofile_preemption_storms_total",
        "Times that evictions for a pod were stopped because another scheduler took the freed capacity";
    StatusWrites: Counter, "schedulerprofile_status_writes_total",
        "Writes of profile status, by result";
    SnapshotAge: Gauge, "schedulerprofile_snapshot_age_seconds",
        "Time since the watch of a resource last said anything";
    ResourceAbsent: Gauge, "schedulerprofile_resource_absent",
        "Always 1, and only there for a resource that is taken as empty because it is not served or forbidden";
    UndecodableObjects: Counter, "schedulerprofile_undecodable_objects_total",
        "Objects that were skipped because they could not be read";
    LedgerLock: Histogram, "schedulerprofile_ledger_lock_seconds",
        "How long the table of nodes and pods was locked at a time, by access: read, write";
    OrphanPods: Gauge, "schedulerprofile_orphan_pods",
        "Pods that wait for a scheduler which nobody serves";
    TaskRestarts: Counter, "schedulerprofile_task_restarts_total",
        "Tasks of the operator that ended or failed and were started again";
    Leader: Gauge, "schedulerprofile_leader",
        "Whether this process holds the lease";
    LeaderElection: Gauge, "leader_election_master_status",
        "Whether this process holds the lease of that name, as client-go reports it";
    AnotherInstallation: Gauge, "schedulerprofile_another_installation",
        "Always 1, and only there while another identity keeps the lease from this process";
    Events: Counter, "schedulerprofile_events_total",
        "Events about pods, by result: written, counted, dropped";
    LogLinesDropped: Counter, "schedulerprofile_log_lines_dropped_total",
        "Lines of the log that were dropped because nobody read them in time";
    BuildInfo: Gauge, "schedulerprofile_build_info",
        "Always 1: the version of this process";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_documented() {
        let page = include_str!("../../../docs/metrics.md");
        for metric in Metric::ALL {
            assert!(page.contains(&format!("`{}`", metric.name())), "docs/metrics.md lacks {}", metric.name());
        }
        for line in page.lines().filter(|l| l.starts_with("| `")) {
            let name = line.split('`').nth(1).unwrap();
            assert!(Metric::ALL.iter().any(|m| m.name() == name), "docs/metrics.md has {name}, which does not exist");
        }
    }

    #[test]
    fn counters_and_only_they_end_in_total() {
        for metric in Metric::ALL {
            assert_eq!(metric.kind() == Kind::Counter, metric.name().ends_with("_total"), "{}", metric.name());
        }
    }
}
