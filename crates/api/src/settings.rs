//! Settings of a profile that are not about single plugins: mode, preset, nodes, namespaces, queue.

use crate::patterns::{DNS_LABEL, DNS_SUBDOMAIN, between, label_keys, label_map};
use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{duration::Duration, selector::LabelSelector};

/// Whether a profile's worker schedules.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Pods are scheduled.
    #[default]
    Active,
    /// Pods stay queued; nothing is bound.
    Paused,
    /// Pods of other schedulers are decided for when those bind them, and compared; nothing is written to any pod. Pods of the
    /// profile's own names stay queued.
    DryRun,
}

/// Whether settings that can place pods where they cannot run are accepted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AllowUnsafe {
    /// Such settings are refused.
    #[default]
    None,
    /// Such settings are accepted: the user knows what they mean.
    Acknowledged,
}

/// What happens to a pod that has, or whose claims for devices or their classes have, spec fields which this version does not know.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnknownFields {
    /// The pod is placed; the fields are counted and named in the profile's status.
    #[default]
    Warn,
    /// The pod stays pending with a reason that names the fields.
    Hold,
}

/// A named set of plugins and weights that a profile starts from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Preset {
    /// The plugins and weights of kube-scheduler.
    #[default]
    Default,
    /// Fills nodes up: NodeResourcesFit scores the most allocated node highest, by all that the pod requests, and
    /// nodes with accelerators come last for pods that ask for none.
    BinPack,
    /// Spreads pods: PodTopologySpread weighs most, and pods without constraints of their own get soft ones.
    Spread,
    /// Scores nothing: any feasible node will do.
    NoScoring,
}

/// The nodes to choose from, and how many of them are looked at for one pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Nodes {
    /// Narrows the nodes that this profile chooses from. Absent or empty: all nodes. It reserves nothing: pods of
    /// other schedulers may use the same nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Share of the nodes, in percent, at which the search for feasible ones ends. 0: as kube-scheduler, 50 percent,
    /// falling with the number of nodes to 5. 100: every node is looked at.
    #[schemars(range(min = 0, max = 100))]
    pub percentage_to_score: i32,
    /// Feasible nodes that are always looked for, whatever the percentage, 1 to 100,000.
    #[schemars(range(min = 1, max = 100_000))]
    pub min_feasible: i32,
}

impl Default for Nodes {
    fn default() -> Self {
        Self { selector: None, percentage_to_score: 0, min_feasible: 100 }
    }
}

/// Whether a profile is for all namespaces.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NamespaceAccess {
    /// Pods of every namespace may use the profile.
    #[default]
    All,
    /// Only pods of namespaces that are listed or whose labels match.
    Restricted,
}

/// The namespaces whose pods may use a profile. With access Restricted, a namespace is allowed if it is among the
/// names, or if it has all of the labels.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.access) || self.access != 'Restricted' || has(self.names) || has(self.matchLabels)")
        .message("access: Restricted needs names or matchLabels, or no pod could use the profile")
        .field_path(".access"),
    validation = Rule::new("!(has(self.names) || has(self.matchLabels)) || (has(self.access) && self.access == 'Restricted')")
        .message("access: All does not read names and matchLabels: remove them, or set access: Restricted")
        .field_path(".access")
)]
pub struct Namespaces {
    /// All: pods of every namespace may use the profile. Restricted: only those of namespaces named or matched here.
    #[serde(default)]
    pub access: NamespaceAccess,
    /// Names of allowed namespaces, with access Restricted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 63), regex(pattern = DNS_LABEL)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub names: Vec<String>,
    /// Labels that an allowed namespace has, all of them, with access Restricted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "label_map", extend("minProperties" = 1))]
    #[x_kube(validation = label_keys("example.com/team"))]
    pub match_labels: BTreeMap<String, String>,
    /// The namespaces whose new pods get this profile although they name no scheduler. Absent: none. It needs the chart's
    /// admission policy (namespaceRouting.enabled); the condition NamespacesRouted says whether it is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
}

/// The namespaces whose new pods get a profile although they name no scheduler. Pods of `kube-system` and of the operator's own
/// namespace never do, nor those labelled `scheduling.berth.dev/route=false`. Of two profiles the older one gets the pods
/// of a namespace that both select.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The namespaces, by their labels; with access Restricted those of them that are allowed. Empty: all namespaces.
    pub selector: LabelSelector,
}

/// The pods of other schedulers that a profile in mode DryRun decides for, to be compared with what those decide.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Shadow {
    /// Values of a pod's `spec.schedulerName` that other schedulers serve, such as default-scheduler; none of `spec.schedulerNames`.
    /// Pods of a name that a profile of this operator serves are left out.
    #[schemars(length(min = 1, max = 8), inner(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub scheduler_names: Vec<String>,
}

/// How pods that could not be placed wait for their next try.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.initialBackoff) || duration(self.initialBackoff) > duration('0s')")
        .message("initialBackoff: must be longer than 0s, such as 1s")
        .field_path(".initialBackoff"),
    validation = Rule::new("duration(has(self.initialBackoff) ? self.initialBackoff : '1s') <= duration(has(self.maxBackoff) ? self.maxBackoff : '10s')")
        .message("maxBackoff: must not be shorter than initialBackoff: raise maxBackoff, or lower initialBackoff")
        .field_path(".maxBackoff"),
    validation = Rule::new("!has(self.maxBackoff) || duration(self.maxBackoff) <= duration('1h')")
        .message("maxBackoff: must be at most 1h")
        .field_path(".maxBackoff"),
    validation = between("maxUnschedulableDuration", "30s", "24h", "5m")
)]
pub struct Queue {
    /// Wait before the second try of a pod; doubles with each further one.
    #[serde(default = "default_initial_backoff")]
    pub initial_backoff: Duration,
    /// Longest wait between tries, at most 1h.
    #[serde(default = "default_max_backoff")]
    pub max_backoff: Duration,
    /// After this time an unschedulable pod is tried again, even if nothing changed that could help it; 30s to 24h.
    #[serde(default = "default_max_unschedulable")]
    pub max_unschedulable_duration: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            initial_backoff: default_initial_backoff(),
            max_backoff: default_max_backoff(),
            max_unschedulable_duration: default_max_unschedulable(),
        }
    }
}

const fn default_initial_backoff() -> Duration {
    Duration::from_secs(1)
}

const fn default_max_backoff() -> Duration {
    Duration::from_secs(10)
}

const fn default_max_unschedulable() -> Duration {
    Duration::from_secs(300)
}
