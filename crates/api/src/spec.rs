//! The root of a profile: who it serves and how, with everything else hung below it.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::args::PluginArgs;
use super::extenders::Extender;
use super::patterns::DNS_SUBDOMAIN;
use super::plugins::{FilterConfig, ScoreConfig};
use super::preemption::Preemption;
use super::rollout::Rollout;
use super::settings::{AllowUnsafe, Mode, Namespaces, Nodes, Preset, Queue, Shadow, UnknownFields};
use super::status::SchedulerProfileStatus;
use super::{join_lines, tell_defaults};

/// What a profile is to do. Every field has a default: an empty spec schedules as kube-scheduler does.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "scheduling.berth.dev",
    version = "v1alpha1",
    kind = "SchedulerProfile",
    plural = "schedulerprofiles",
    singular = "schedulerprofile",
    shortname = "sprof",
    category = "scheduling",
    category = "berth",
    selectable = ".spec.mode",
    selectable = ".spec.preset",
    status = "SchedulerProfileStatus",
    derive = "PartialEq",
    doc = "SchedulerProfile describes one scheduler: pods of any namespace choose it with `spec.schedulerName`, Berth runs a worker for it. It is in no namespace itself.",
    printcolumn(name = "Mode", type_ = "string", json_path = ".status.mode"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether the worker of this generation does what the spec asks"
    ),
    printcolumn(
        name = "Nodes",
        type_ = "integer",
        json_path = ".status.nodes.matched",
        description = "Nodes that spec.nodes.selector matches"
    ),
    printcolumn(
        name = "Pending",
        type_ = "integer",
        json_path = ".status.pods.pending",
        description = "Pods of this profile that have no node yet"
    ),
    printcolumn(
        name = "Unsched",
        type_ = "integer",
        json_path = ".status.pods.unschedulable",
        description = "Pods that were tried and fit nowhere"
    ),
    printcolumn(
        name = "Oldest",
        type_ = "date",
        json_path = ".status.pods.oldestPendingSince",
        description = "How long the oldest pending pod has waited"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = 1
    ),
    printcolumn(name = "Preset", type_ = "string", json_path = ".status.effective.preset", priority = 1),
    printcolumn(
        name = "Scheduled",
        type_ = "integer",
        json_path = ".status.totals.scheduled",
        description = "Pods bound since the worker's counters began",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("metadata.name must have at most 63 characters, since it is used as a label value: choose a shorter name"),
    validation = Rule::new(
        "self.metadata.name != 'default-scheduler' || (has(self.spec.schedulerNames) && !self.spec.schedulerNames.exists(n, n == 'default-scheduler'))"
    )
    .message("metadata.name: a profile named default-scheduler would claim that schedulerName: choose another name, or list other names in spec.schedulerNames"),
    validation = Rule::new(
        "has(self.spec.schedulerNames) || !has(self.spec.shadow) || !self.spec.shadow.schedulerNames.exists(n, n == self.metadata.name)"
    )
    .message("shadow.schedulerNames: the profile serves its own name itself: list names of other schedulers, or other names in spec.schedulerNames")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = join_lines, transform = tell_defaults)]
#[x_kube(
    validation = Rule::new(
        "!has(self.filters) || (has(self.allowUnsafe) && self.allowUnsafe == 'Acknowledged') || !self.filters.exists(f, has(f.state) && f.state == 'Disabled' && f.name in ['NodeName', 'NodeUnschedulable', 'NodeResourcesFit'])"
    )
    .message("filters: disabling NodeName, NodeUnschedulable or NodeResourcesFit can place pods where they cannot run: remove the entry, or set spec.allowUnsafe: Acknowledged")
    .field_path(".filters"),
    validation = Rule::new(
        "!has(self.pluginArgs) || (has(self.allowUnsafe) && self.allowUnsafe == 'Acknowledged') || !has(self.pluginArgs.nodeResourcesFit) || !has(self.pluginArgs.nodeResourcesFit.ignoredResources) || self.pluginArgs.nodeResourcesFit.ignoredResources.size() == 0"
    )
    .message("ignoredResources: an ignored resource can be overbooked: empty the list, or set spec.allowUnsafe: Acknowledged")
    .field_path(".pluginArgs.nodeResourcesFit.ignoredResources"),
    validation = Rule::new(
        "!has(self.pluginArgs) || (has(self.allowUnsafe) && self.allowUnsafe == 'Acknowledged') || !has(self.pluginArgs.nodeResourcesFit) || !has(self.pluginArgs.nodeResourcesFit.ignoredResourceGroups) || self.pluginArgs.nodeResourcesFit.ignoredResourceGroups.size() == 0"
    )
    .message("ignoredResourceGroups: an ignored resource can be overbooked: empty the list, or set spec.allowUnsafe: Acknowledged")
    .field_path(".pluginArgs.nodeResourcesFit.ignoredResourceGroups"),
    validation = Rule::new(
        "!has(self.filters) || !self.filters.exists(f, (!has(f.state) || f.state == 'Enabled') && f.name == 'CheckNodeLabelPresence') || (has(self.pluginArgs) && has(self.pluginArgs.checkNodeLabelPresence))"
    )
    .message("filters: CheckNodeLabelPresence checks the labels in pluginArgs.checkNodeLabelPresence: add it, or remove the entry")
    .field_path(".filters"),
    validation = Rule::new(
        "!has(self.filters) || !self.filters.exists(f, (!has(f.state) || f.state == 'Enabled') && f.name == 'CheckServiceAffinity') || (has(self.pluginArgs) && has(self.pluginArgs.checkServiceAffinity))"
    )
    .message("filters: CheckServiceAffinity compares the labels in pluginArgs.checkServiceAffinity: add it, or remove the entry")
    .field_path(".filters"),
    validation = Rule::new(
        "!has(self.scores) || !self.scores.exists(s, (!has(s.state) || s.state == 'Enabled') && s.name == 'LabelPreference') || (has(self.pluginArgs) && has(self.pluginArgs.labelPreference) && self.pluginArgs.labelPreference.size() > 0)"
    )
    .message("scores: LabelPreference looks for the labels in pluginArgs.labelPreference: add some, or remove the entry")
    .field_path(".scores"),
    validation = Rule::new(
        "!has(self.extenders) || (has(self.allowUnsafe) && self.allowUnsafe == 'Acknowledged') || !self.extenders.exists(e, !has(e.verbs.filter) && has(e.managedResources) && e.managedResources.exists(r, has(r.fitCheck) && r.fitCheck == 'Skip'))"
    )
    .message("extenders: fitCheck: Skip leaves a resource to an extender that has no verb filter, so that nobody checks it: add verbs.filter, or set spec.allowUnsafe: Acknowledged")
    .field_path(".extenders"),
    validation = Rule::new(
        "!has(self.namespaces) || !has(self.namespaces.route) || !has(self.schedulerNames) || self.schedulerNames.exists(n, n != 'default-scheduler')"
    )
    .message("namespaces.route: a pod that names no scheduler has the name default-scheduler, and this profile serves no other: remove route, or add a name to spec.schedulerNames")
    .field_path(".namespaces.route"),
    validation = Rule::new("(has(self.mode) && self.mode == 'DryRun') == has(self.shadow)")
        .message("shadow: mode DryRun compares with the schedulers in shadow.schedulerNames, and no other mode does: set both, such as shadow: {schedulerNames: [default-scheduler]}, or neither")
        .field_path(".shadow"),
    validation = Rule::new("!has(self.shadow) || !has(self.schedulerNames) || !self.shadow.schedulerNames.exists(n, n in self.schedulerNames)")
        .message("shadow.schedulerNames: a name is in spec.schedulerNames too: what the profile serves itself has no other scheduler to compare with: remove it from one of the two")
        .field_path(".shadow.schedulerNames"),
    validation = Rule::new("!has(self.mode) || self.mode != 'DryRun' || !has(self.namespaces) || !has(self.namespaces.route)")
        .message("namespaces.route: a profile in mode DryRun places no pod, so that routed pods would wait: remove route, or set another mode")
        .field_path(".namespaces.route")
)]
pub struct SchedulerProfileSpec {
    /// Values of a pod's `spec.schedulerName` that this profile serves. Absent: the profile's own name.
    /// Who serves a name keeps it: a profile that lists a name of another one says so in its conditions.
    /// `default-scheduler` is served only if the operator was started with `--serve-default-scheduler`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 8),
        inner(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))
    )]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub scheduler_names: Vec<String>,

    /// Active: pods are scheduled. Paused: pods stay queued and nothing is bound; Ready has the reason Paused. DryRun: as Paused,
    /// and pods of the schedulers in shadow are decided for when those bind them, and compared; Ready has the reason DryRun.
    #[serde(default)]
    pub mode: Mode,

    /// With mode DryRun: whose pods the profile decides for, beside their own scheduler and without any effect on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Shadow>,

    /// Acknowledged: settings that can place pods where they cannot run are accepted (disabling NodeName,
    /// NodeUnschedulable or NodeResourcesFit, ignoring resources, leaving them to an extender that does not filter).
    /// None: they are refused.
    #[serde(default)]
    pub allow_unsafe: AllowUnsafe,

    /// What happens to a pod that has, or whose ResourceClaims or their DeviceClasses have, spec fields which this version of Berth
    /// does not know. Warn: it is placed, and the fields are named in the status. Hold: it stays pending with a reason.
    #[serde(default)]
    pub unknown_fields: UnknownFields,

    /// The plugins and weights to start from; filters, scores and pluginArgs are laid over them.
    /// Default: as kube-scheduler. BinPack: fill nodes up, accelerators first. Spread: pods of one service or
    /// controller apart, over nodes and zones. NoScoring: any node that fits will do.
    #[serde(default)]
    pub preset: Preset,

    /// Filters (predicates) to switch on or off, by name. The order of filters cannot be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub filters: Vec<FilterConfig>,

    /// Scores (priorities) to switch on or off or to weigh, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub scores: Vec<ScoreConfig>,

    /// Arguments of the plugins that have any.
    #[serde(default, skip_serializing_if = "PluginArgs::is_empty")]
    pub plugin_args: PluginArgs,

    /// The nodes to choose from, and how many of them are looked at for one pod.
    #[serde(default)]
    pub nodes: Nodes,

    /// The namespaces whose pods may use this profile.
    #[serde(default)]
    pub namespaces: Namespaces,

    /// How pods that could not be placed wait for their next try.
    #[serde(default)]
    pub queue: Queue,

    /// Which pods may be evicted to make room for those of this profile, and how many.
    #[serde(default)]
    pub preemption: Preemption,

    /// HTTP servers that are asked in the middle of an attempt, in this order; those whose filter failures are ignored come
    /// after the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new("self.filter(e, has(e.verbs.bind)).size() <= 1")
            .message("extenders: only one extender can bind: remove verbs.bind from the others")
    )]
    pub extenders: Vec<Extender>,

    /// How a change of this spec is tried on a share of the pods before it serves all of them. Absent: a change serves all pods at once.
    /// Scheduler names, namespaces, queue and extenders cannot change in a rollout; a change of the mode holds for all pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

impl SchedulerProfile {
    /// The scheduler names that this profile asks to serve: `spec.schedulerNames`, or its own name where none is listed.
    pub fn scheduler_names(&self) -> Vec<&str> {
        if self.spec.scheduler_names.is_empty() {
            self.metadata.name.as_deref().into_iter().collect()
        } else {
            self.spec.scheduler_names.iter().map(String::as_str).collect()
        }
    }
}
