//! Every metric there is, by name. Names that kube-scheduler has too mean the same here, with a `profile` label; what only Berth has is
//! called `berth_…`. The tables of `docs/metrics.md` are made from this one.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, from 0 at the start of the process or worker.
    Counter,
    /// A value of the moment.
    Gauge,
    /// A distribution in fixed buckets.
    Histogram,
}

/// Defines the closed set of metrics: `Variant: Kind, name, labels, help, what the page says`.
macro_rules! metrics {
    ($($variant:ident: $kind:ident, $name:literal, $labels:literal, $help:literal, $page:literal;)+) => {
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

            /// Its labels and their values, as `docs/metrics.md` lists them.
            #[cfg(test)]
            const fn labels(self) -> &'static str {
                match self { $(Self::$variant => $labels,)+ }
            }

            /// What `docs/metrics.md` says about it.
            #[cfg(test)]
            const fn page(self) -> &'static str {
                match self { $(Self::$variant => $page,)+ }
            }

            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)+ }
            }
        }
    };
}

metrics! {
    ScheduleAttempts: Counter, "scheduler_schedule_attempts_total", "`result` = `scheduled`, `unschedulable`, `error`; `profile`",
        "Attempts to place a pod, by result: scheduled, unschedulable, error",
        "attempts to place a pod, by result";
    AttemptDuration: Histogram, "scheduler_scheduling_attempt_duration_seconds", "`result` = `scheduled`, `unschedulable`, `error`; `profile`",
        "How long attempts took, by result",
        "how long attempts took, by result: those that placed a pod until it was known to be bound, the others until they were given up; buckets from 1 ms to 16 s";
    AlgorithmDuration: Histogram, "scheduler_scheduling_algorithm_duration_seconds", "`profile`",
        "How long attempts took to decide",
        "how long attempts took to decide, extenders included; what follows (the commit, preemption, the bind) is not";
    SliDuration: Histogram, "scheduler_pod_scheduling_sli_duration_seconds", "`attempts` = `1` to `14`, `15+`; `profile`",
        "How long pods waited from the moment they could first be tried until they were bound, by attempts",
        "how long pods waited from the moment they could first be tried until they were known to be bound: what scheduling gates and holds took before does not count";
    PodAttempts: Histogram, "scheduler_pod_scheduling_attempts", "`profile`",
        "Attempts that pods needed until they were bound",
        "attempts that pods needed until they were bound; buckets from 1 to 16";
    PointDuration: Histogram, "scheduler_framework_extension_point_duration_seconds", "`extension_point` = `PreFilter`, `Filter`, `PostFilter`, `Score`, `Reserve`, `PreBind`, `Bind`; `status` = `Success`, `Unschedulable`, `Error`; `profile`",
        "How long the parts of attempts took, by extension point and status",
        "how long the parts of attempts took. `PreFilter`, `Filter` and `Score` (PreScore included) are measured in one attempt of ten, the others in each; `Filter` is the search over all nodes that were looked at. `Reserve` is the commit to the common table, `Bind` the time until the answer is known";
    PluginDuration: Histogram, "scheduler_plugin_execution_duration_seconds", "`plugin`; `extension_point` = `PreFilter`, `PostFilter`, `Score`, `PreBind`, `Bind`; `status` = `Success`, `Skip`, `Unschedulable`, `Error`; `profile`",
        "How long single plugins took, where --plugin-metrics asks for it",
        "how long single plugins took, with `--plugin-metrics` (the chart's `operator.pluginMetrics`) alone: in one attempt of ten those that look beyond a node's own row (VolumeBinding with its kin, the Policy era's MaxVolumeCount, PodTopologySpread, InterPodAffinity, SelectorSpread, CheckServiceAffinity), each with all nodes at once; in each attempt DefaultPreemption, the writes of VolumeBinding and DefaultBinder. All filters and scores of a row are one function of some 50 ns, of which a clock would measure the clock";
    PluginEvaluations: Counter, "scheduler_plugin_evaluation_total", "`plugin`; `extension_point` = `PreFilter`, `Filter`, `PreScore`, `Score`; `profile`",
        "How often plugins were asked, by plugin and extension point",
        "how often plugins were asked: filters and scores once for each node that an attempt looked at, though most answers are kept from earlier attempts. A plugin that has nothing to do for a pod is counted as well, which kube-scheduler leaves out";
    PendingPods: Gauge, "scheduler_pending_pods", "`queue` = `active`, `backoff`, `unschedulable`, `gated`; `profile`",
        "Pods without a node, by the part of the queue they wait in",
        "pods without a node. Pods that are held are in none of these queues: `berth_held_pods` has them";
    UnschedulablePods: Gauge, "scheduler_unschedulable_pods", "`plugin`, `profile`",
        "Waiting pods by the plugins that refused them",
        "waiting pods by the plugin (predicate) that refused them in the last attempt; a pod counts once for each such plugin. `Berth` has pods that are held";
    QueueIncoming: Counter, "scheduler_queue_incoming_pods_total", "`queue` = `active`, `backoff`, `unschedulable`; `event`; `profile`",
        "Pods that came into a part of the queue, by part and event",
        "pods that came into a part of the queue, by upstream's events: `UnschedulablePodAdd`, `ScheduleAttemptFailure`, `BackoffComplete`, `PopFromBackoffQ`, `UnschedulableTimeout`, `NodeAdd`, …; `ForceActivate` stands for changes for which upstream has no event, too. Gated and held pods come into `unschedulable`";
    CacheSize: Gauge, "scheduler_cache_size", "`type` = `nodes`, `pods`, `assumed_pods`",
        "Nodes, pods on nodes, and pods decided and not known to be bound",
        "nodes, pods on nodes, and pods that are decided and not yet known to be bound, of the one table that all profiles share";
    PreemptionAttempts: Counter, "scheduler_preemption_attempts_total", "`profile`",
        "Attempts that found no node and looked for pods to evict",
        "attempts that found no node and looked for pods to evict";
    PreemptionVictims: Histogram, "scheduler_preemption_victims", "`profile`",
        "Victims of each preemption",
        "victims of each preemption; buckets from 1 to 64";
    ClaimsMade: Counter, "scheduler_resourceclaim_creates_total", "`status` = `success`, `failure`",
        "ResourceClaims made for pods' extended resources, by how that ended",
        "ResourceClaims made for pods' extended resources that a DeviceClass provides, repeats of one left out, which kube-scheduler does not make";
    DeviceAllocations: Counter, "scheduler_dra_bindingconditions_allocations_total", "`profile`; `driver`; `status` = `success`, `failure`, `timeout`, `error`",
        "Devices that a driver had to make ready before a bind, by driver and how that ended",
        "devices that a driver had to make ready before a bind (`bindingConditions`), by how the wait of their pod ended, which is the same for all its devices: `failure` if some driver said that a device failed, `error` for anything but that and a timeout. Two drivers of a profile are told apart, others count as `<other>`";
    DeviceWaits: Histogram, "scheduler_dra_bindingconditions_wait_duration_seconds", "`profile`; `driver`; `status` = `success`, `failure`, `timeout`, `error`",
        "How long pods waited until drivers had made their devices ready, by driver and how that ended",
        "how long the pods of such devices waited, which counts once for each device of all their claims, also for one that was ready at once; buckets from 0.1 s to 14 minutes. Drivers and `status` as above";
    RestRequests: Counter, "rest_client_requests_total", "`code`, `<error>` without an answer; `method`; `host`",
        "Requests to the API server, by code and method",
        "requests to the API server, those for the Lease aside; what is repeated at once counts once";
    RestDuration: Histogram, "rest_client_request_duration_seconds", "`verb`, `host`",
        "How long the API server took to begin its answers, by verb",
        "how long the API server took to begin its answers, also to watches; client-go leaves watches out, and waits for the whole answer";
    ProcessCpu: Counter, "process_cpu_seconds_total", "",
        "Processor time used",
        "processor time that the process has used";
    ProcessStart: Gauge, "process_start_time_seconds", "",
        "When the process was started, in seconds of Unix time",
        "when the process was started, in seconds of Unix time";
    ProcessResident: Gauge, "process_resident_memory_bytes", "",
        "Resident memory",
        "resident memory";
    ProcessVirtual: Gauge, "process_virtual_memory_bytes", "",
        "Virtual memory",
        "virtual memory";
    ProcessMostVirtual: Gauge, "process_virtual_memory_max_bytes", "",
        "Most virtual memory",
        "most virtual memory that the process may have; 2⁶⁴ where there is no limit";
    ProcessFiles: Gauge, "process_open_fds", "",
        "Open file descriptors",
        "open file descriptors";
    ProcessMostFiles: Gauge, "process_max_fds", "",
        "Most file descriptors that may be open",
        "most file descriptors that may be open; absent where there is no limit";
    ProfileInfo: Gauge, "berth_profile_info", "`profile`, `mode`, `generation`",
        "Always 1: the mode and generation in which a profile is served",
        "always 1: the mode and generation in which the profile is served";
    ProfileCondition: Gauge, "berth_profile_condition", "`profile`, `type`, `status`, `reason`",
        "Always 1: the status and reason of each condition of a profile",
        "always 1, one series per condition of the profile";
    WorkerUp: Gauge, "berth_worker_up", "`profile`",
        "Whether a worker runs for the profile",
        "1 while a worker runs for the profile";
    WorkerRestarts: Counter, "berth_worker_restarts_total", "`profile`",
        "Workers started again after a failure",
        "workers started again after a failure";
    HeldPods: Gauge, "berth_held_pods", "`profile`",
        "Pods without a node that the profile may not or cannot place",
        "pods without a node that the profile may not or cannot place, a state that kube-scheduler does not have: their events and conditions say why";
    QuarantinedPods: Gauge, "berth_quarantined_pods", "`profile`",
        "Pods that are held because the worker failed while it tried them",
        "pods that are held because the worker failed twice while it tried them; the log names them";
    WorkerLag: Gauge, "berth_worker_lag_changes", "`profile`",
        "Changes of the table of nodes and pods that the profile's worker has not followed yet",
        "changes of the table of nodes and pods that the worker has not followed yet: 0 at rest, and less than a second's where nothing concerns the worker. It grows for as long as a step takes, and while a worker that failed is not started again";
    OldestPending: Gauge, "berth_oldest_pending_seconds", "`profile`",
        "How long the profile's oldest pending pod has waited",
        "how long the oldest pending pod has waited since it was created, gated ones left out; 0 if none waits";
    Nodes: Gauge, "berth_nodes", "`profile`, `state` = `matched`, `schedulable`",
        "Nodes that the profile chooses from: matched by its selector, and schedulable among them",
        "nodes that the profile chooses from";
    BindOutcomes: Counter, "berth_bind_outcomes_total", "`profile`, `outcome` = `bound`, `pod_gone`, `bound_elsewhere`, `refused`, `unknown`, `revoked`",
        "Binds handed to the API server, by how they ended",
        "how binds ended; an `unknown` one is repeated, and ends a second time as something else";
    BindDuration: Histogram, "berth_bind_duration_seconds", "`profile`",
        "Time from a decision to the API server's answer to its bind",
        "from the decision to the API server's answer";
    BindRequests: Counter, "berth_bind_requests_total", "`result` = `bound`, `conflict`, `refused`, `throttled`, `unknown`",
        "Requests to bind, repeats included, by what the answer meant",
        "requests to bind, repeats included, by the meaning of the answer; after a `conflict` the operator reads the pod; `throttled` means that the API server asked for a pause or that no connection could be made";
    BindConflicts: Counter, "berth_bind_conflicts_total", "`profile`, `kind` = `own`, `foreign`",
        "Decisions taken back because someone was faster: own is another worker, foreign another scheduler",
        "decisions taken back because another worker (`own`) or another scheduler (`foreign`) was first";
    UnacknowledgedBinds: Gauge, "berth_unacknowledged_binds", "`profile`",
        "Binds decided and not yet answered",
        "binds decided and not yet answered";
    UnknownBinds: Gauge, "berth_unknown_binds", "`profile`",
        "Binds whose outcome is unknown, and which are repeated until it is known",
        "binds whose outcome is unknown: no answer came, or one that says nothing. Each is repeated to the same node until it is known, and its pod counts on that node meanwhile";
    PreBindWrites: Counter, "berth_prebind_writes_total", "`resource` = `persistentvolumes`, `persistentvolumeclaims`, `resourceclaims`, `resourceclaims/status`, `pods/status`; `result` = `written`, `conflict`, `failed`",
        "Writes before a bind, by what they went to and result",
        "writes before a bind: volumes tied to claims, nodes named on claims, ResourceClaims given their finalizer (`resourceclaims`), allocated, reserved and given back (`resourceclaims/status`), nominations made or taken back; `conflict` means that somebody else wrote first; the pod is tried again";
    PreBindPods: Gauge, "berth_prebind_pods", "`state` = `queued`, `in_flight`",
        "Pods with a write before their bind: queued, or in flight",
        "pods whose writes wait or are under way; a pod that waits for the volume controller, or until its devices are ready, is in neither state";
    ExtenderRequests: Counter, "berth_extender_requests_total", "`profile`, `extender`, `result`",
        "Questions to extenders, by extender and result",
        "calls to extenders, all verbs together (the durations have them by verb); `result` is `ok`, or the kind of failure: `timeout`, `connection`, `tls`, `unauthorized`, `status`, `invalid_reply`, `refused`, `circuit_open`, `busy`, `said` (the extender answered with an `Error`)";
    ExtenderDuration: Histogram, "berth_extender_request_duration_seconds", "`profile`, `extender`, `verb`",
        "How long calls of extenders took that were sent, answered or not",
        "how long the calls that were sent took, answered or not";
    ExtenderCircuit: Gauge, "berth_extender_circuit_open", "`profile`, `extender`, `verb`",
        "Whether the circuit of a verb of an extender is open",
        "1 while the circuit of the verb is open: calls fail at once, except for probes";
    ExtenderCalls: Gauge, "berth_extender_calls", "`profile`, `extender`, `state`",
        "Calls of an extender: in_flight, or waiting for one of these to end",
        "calls `in_flight`, and calls `waiting` until one of these ends";
    ExtenderObjects: Counter, "berth_extender_objects_left_out_total", "`resource`",
        "Objects that came and were too large to be kept for extenders, or too many",
        "pods and nodes that came and were not kept for extenders because they are too large, or what is kept is: each is read from the API server for its calls ([extenders](extenders.md#what-is-kept))";
    ConditionWrites: Counter, "berth_condition_writes_total", "`result` = `written`, `unchanged`, `conflict`, `dropped`, `failed`",
        "PodScheduled conditions of pods that were not placed, by result",
        "conditions `PodScheduled=False`; `unchanged`: the pod had the condition already; `conflict`: the pod changed, or a newer condition replaced this one; `dropped`: the queue was full, and no namespace had more in it, or the process did not lead; `failed`: refused, or not accepted in three tries; the log names the pod. Where a nomination ends while it is being written, one more write ends it";
    Evictions: Counter, "berth_evictions_total", "`result` = `evicted`, `gone`, `unwanted`, `failed`",
        "Victims of preemptions, by result: evicted, gone, unwanted, failed",
        "deletions of victims: `gone`: the victim had been deleted before; `unwanted`: not sent, because every pod that waited for the victim was deleted or bound meanwhile; `failed`: the deletion was refused or its outcome is unknown";
    PendingEvictions: Gauge, "berth_eviction_rounds", "`state` = `queued`, `in_flight`",
        "Preemptions whose victims are to be evicted: queued, or in flight",
        "preemptions whose deletions wait, or are under way";
    PreemptionFailures: Counter, "berth_preemption_failures_total", "`profile`",
        "Preemptions of which a victim could not be evicted",
        "preemptions with a victim that could not be evicted; the pod is tried again";
    PreemptionStorms: Counter, "berth_preemption_storms_total", "`profile`",
        "Times that evictions for a pod were stopped because another scheduler took the freed capacity, or an extender refused the node",
        "how often evictions for a pod stopped because another scheduler took the freed capacity, or an extender refused the node: condition `SchedulingHealthy`, reason `PreemptionStorm`";
    ShadowComparisons: Counter, "berth_shadow_comparisons_total", "`profile`, `outcome` = `same`, `tied`, `worse`, `refused`, `unschedulable`, `held`, `failed`",
        "Pods of other schedulers that were compared as they were bound, by how that came out",
        "pods that another scheduler bound and that a profile in mode DryRun decided for: the `same` node, another of the profile's best (`tied`), one that fits and is not among the best (`worse`), one that a filter refuses (`refused`); the profile finds no node (`unschedulable`), would hold the pod, or its attempt would fail ([shadow](shadow.md))";
    ShadowDisagreements: Counter, "berth_shadow_disagreements_total", "`profile`, `plugin`, `extension_point` = `Filter`, `Score`",
        "Comparisons in which a plugin disagrees with the real node most",
        "comparisons by the plugin that disagrees: the filter that refuses the real node, or the score that speaks most against it; `Berth` where `spec.nodes.selector` leaves the node out";
    ShadowSkipped: Counter, "berth_shadow_skipped_total", "`profile`, `reason` = `behind`, `too_long`, `reread`, `unknown_node`, `claims`, `failed`",
        "Pods of other schedulers that were bound and not compared, by reason",
        "pods that were bound and not compared: comparisons took a quarter of the time already (`behind`), this one takes too long, a whole read has shown the binding, the node is not known yet, the pod needs ResourceClaims, or the comparison panicked";
    ShadowPreemptions: Counter, "berth_shadow_preemptions_total", "`profile`",
        "Pods of other schedulers for which others would have been evicted",
        "compared pods that fit nowhere and for which the profile would have evicted others";
    StatusWrites: Counter, "berth_status_writes_total", "`result` = `written`, `reduced`, `conflict`, `failed`",
        "Writes of profile status, by result",
        "writes of profile status; `reduced`: the API server refused the whole status (422) and took it without its lists; the log says why";
    SnapshotAge: Gauge, "berth_snapshot_age_seconds", "`resource`, the plural of a watched kind: `pods`, `persistentvolumes`, …",
        "Time since the watch of a resource last said anything",
        "time since the last event of the watch, bookmarks included";
    ResourceAbsent: Gauge, "berth_resource_absent", "`resource`, `reason` = `not_served`, `forbidden`",
        "Always 1, and only there for a resource that is taken as empty because it is not served or forbidden",
        "always 1, present only for a resource that counts as empty (only `deviceclasses`, `resourceslices` and `resourceclaims`: without any other resource Berth places nothing). Without `resourceclaims` pods with claims are held";
    UndecodableObjects: Counter, "berth_undecodable_objects_total", "`resource`",
        "Objects that were skipped because they could not be read",
        "objects that the operator skipped because it could not decode them; the log names them";
    AuditDrift: Counter, "berth_audit_drift_total", "`resource`",
        "Objects of which a watch that goes on has not shown what the API server has",
        "objects of which the audit found that a watch that goes on has not shown what the API server has; the log names them, and the kind is read anew. Both replicas look every `--audit-interval`";
    AuditIncomplete: Counter, "berth_audit_incomplete_total", "`resource`",
        "Audits that could not compare a kind",
        "audits that could not compare the kind: it could not be listed, its watch was behind, or was read anew meanwhile";
    AuditLastRun: Gauge, "berth_audit_last_run_timestamp_seconds", "",
        "When the last audit ended, in seconds of Unix time",
        "when the last audit ended, in seconds of Unix time; absent before the first";
    AuditDuration: Gauge, "berth_audit_last_run_duration_seconds", "",
        "How long the last audit took",
        "how long the last audit took, most of it spent waiting: between pages, and for watches that were behind";
    LedgerLock: Histogram, "berth_ledger_lock_seconds", "`access` = `read`, `write`",
        "How long the table of nodes and pods was locked at a time, by access: read, write",
        "how long the table of nodes and pods was locked at a time; while it is locked for writing every profile waits, and while it is locked for reading what watches bring waits. Looks at a large cluster give the lock back, so that hardly any hold is above a millisecond";
    LongestHold: Gauge, "berth_ledger_lock_longest_seconds", "`access` = `read`, `write`",
        "The longest time for which the table of nodes and pods was locked of late",
        "the longest time for which the table of nodes and pods was locked in the last minute or two";
    OrphanPods: Gauge, "berth_orphan_pods", "",
        "Pods that wait for a scheduler which nobody serves",
        "pods that have waited a minute for a scheduler name that nobody serves and for which no scheduler has written a status; counted up to 20,000; `berth orphans` lists them";
    TaskRestarts: Counter, "berth_task_restarts_total", "`task`: the plural of a watched kind, or `orphans`, `nominations`, `pauses`, `housekeeping`, `references`, `addresses`, `caches`, `barrier`, `audit`, `routing`, `dump`",
        "Tasks of the operator that ended or failed and were started again",
        "tasks of the operator that ended or failed, and were started again after a pause; a watch then reads its kind anew";
    Leader: Gauge, "berth_leader", "",
        "Whether this process holds the lease",
        "1 while this process holds the lease";
    LeaderElection: Gauge, "leader_election_master_status", "`name`, of the Lease",
        "Whether this process holds the lease of that name, as client-go reports it",
        "1 while this process holds the lease, under the name that client-go gives it; the same as `berth_leader`";
    AnotherInstallation: Gauge, "berth_another_installation", "`holder`",
        "Always 1, and only there while another identity keeps the lease from this process",
        "1, present only while another installation keeps renewing the Lease for longer than a lease duration; another replica of this one is none";
    Events: Counter, "berth_events_total", "`result` = `written`, `counted`, `dropped`",
        "Events, by result: written, counted, dropped",
        "events of all kinds of objects; `counted` are repeats that wait for a later write of their count, which is `written` in its turn; `dropped` found the queue full (the namespace with the most events loses its newest), were refused or not taken in five tries";
    LogLinesDropped: Counter, "berth_log_lines_dropped_total", "",
        "Lines of the log that were dropped because nobody read them in time",
        "lines of the log that were dropped because nobody read standard error in time (4 MiB wait at most): the log says so once it is read again";
    BuildInfo: Gauge, "berth_build_info", "`version`",
        "Always 1: the version of this process",
        "always 1: the version of this process";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");

    /// The rows of the metrics with or without Berth's own prefix.
    fn table(own: bool) -> String {
        let mut rows = "| name | type | labels | what |\n|---|---|---|---|\n".to_owned();
        for metric in Metric::ALL.iter().filter(|m| m.name().starts_with("berth_") == own) {
            let kind = format!("{:?}", metric.kind()).to_lowercase();
            writeln!(rows, "| `{}` | {kind} | {} | {} |", metric.name(), metric.labels(), metric.page()).unwrap();
        }
        rows
    }

    /// `page` with `table` between the marks of that name.
    fn with_table(page: &str, name: &str, table: &str) -> String {
        let (begin, end) = (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->\n"));
        let (before, rest) = page.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        format!("{before}{begin}{table}{end}{after}")
    }

    /// `BERTH_BLESS=1` writes the page.
    #[test]
    fn the_page_has_the_tables_of_this_catalogue() {
        let page = std::fs::read_to_string(PAGE).unwrap();
        let wanted = with_table(&page, "upstream", &table(false));
        let wanted = with_table(&wanted, "own", &table(true));
        if std::env::var_os("BERTH_BLESS").is_some() {
            std::fs::write(PAGE, &wanted).unwrap();
            return;
        }
        assert!(page == wanted, "docs/metrics.md is out of date: renew it with BERTH_BLESS=1");
    }

    #[test]
    fn what_only_berth_has_says_so_in_its_name() {
        const OTHERS: [&str; 4] = ["scheduler_", "leader_election_", "rest_client_", "process_"];
        for metric in Metric::ALL {
            let name = metric.name();
            assert!(name.starts_with("berth_") || OTHERS.iter().any(|prefix| name.starts_with(prefix)), "{name}");
        }
    }

    #[test]
    fn counters_and_only_they_end_in_total() {
        for metric in Metric::ALL {
            assert_eq!(metric.kind() == Kind::Counter, metric.name().ends_with("_total"), "{}", metric.name());
        }
    }
}
