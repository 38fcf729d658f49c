//! The ways in which pods are asked of a contestant.

/// One way to ask pods of a contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Pods are created while the contestant is running.
    Race,
    /// All pods are there before the contestant starts.
    Backlog,
    /// A race of pods that have labels of their own, as those of a `StatefulSet` have.
    Labels,
    /// A race of pods that must be spread over the zones.
    Spread,
    /// A race of pods that keep each other from their nodes.
    AntiAffinity,
    /// A race of pods that must be in one zone.
    Affinity,
    /// A race of pods that have a bound volume of a CSI driver each.
    Volumes,
    /// A race of pods about which an extender is asked: one server for all contestants.
    Extender,
    /// A race of pods that have a `ResourceClaim` of one device each. Runs only if it is asked for.
    Claims,
    /// A race while a node, a Service and a pod that fits nowhere come and go.
    Churn,
    /// Pods come at a steady rate below what the API server can take: how long each waits.
    Latency,
    /// A race of pods of high priority in a cluster full of pods of low priority.
    Preemption,
    /// An extender that breaks in one way after the other. Of Berth alone.
    Faults,
    /// A race beside many placed pods, while ever more pods come that fit nowhere.
    Unschedulable,
    /// A small backlog in a cluster with many bound pods.
    ColdStart,
}

impl Workload {
    /// All of them, in the order in which they run. Those that need bound pods come last, since these stay.
    pub const ALL: [Self; 15] = [
        Self::Race,
        Self::Backlog,
        Self::Labels,
        Self::Spread,
        Self::AntiAffinity,
        Self::Affinity,
        Self::Volumes,
        Self::Extender,
        Self::Claims,
        Self::Churn,
        Self::Latency,
        Self::Preemption,
        Self::Faults,
        Self::Unschedulable,
        Self::ColdStart,
    ];
    /// The races of `--constrained` pods.
    pub const CONSTRAINED: [Self; 8] = [
        Self::Labels,
        Self::Spread,
        Self::AntiAffinity,
        Self::Affinity,
        Self::Volumes,
        Self::Extender,
        Self::Churn,
        Self::Unschedulable,
    ];

    /// What progress lines and tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::Backlog => "backlog",
            Self::Labels => "labels of their own",
            Self::Spread => "hard zone spread",
            Self::AntiAffinity => "required anti-affinity on hostname",
            Self::Affinity => "required affinity on zone",
            Self::Volumes => "a bound CSI volume each",
            Self::Extender => "an extender, names only",
            Self::Claims => "a claim of one device each",
            Self::Churn => "a node, a Service and a pod that fits nowhere come and go",
            Self::Latency => "latency",
            Self::Preemption => "preemption",
            Self::Faults => "faults of an extender",
            Self::Unschedulable => "four placed a node, and five a second come that fit nowhere",
            Self::ColdStart => "cold start",
        }
    }

    /// What the command line and the names of pods call it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::Backlog => "backlog",
            Self::Labels => "labels",
            Self::Spread => "spread",
            Self::AntiAffinity => "anti-affinity",
            Self::Affinity => "affinity",
            Self::Volumes => "volumes",
            Self::Extender => "extender",
            Self::Claims => "claims",
            Self::Churn => "churn",
            Self::Latency => "latency",
            Self::Preemption => "preemption",
            Self::Faults => "faults",
            Self::Unschedulable => "unschedulable",
            Self::ColdStart => "cold-start",
        }
    }

    /// Whether it runs after all others: it is no race, or needs bound pods that stay.
    pub(super) fn is_late(self) -> bool {
        matches!(self, Self::Faults | Self::Unschedulable | Self::ColdStart)
    }

    /// Whether its pods are asked about.
    pub(super) fn asks(self) -> bool {
        matches!(self, Self::Extender | Self::Faults)
    }
}
