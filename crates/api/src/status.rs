//! What the operator says about a profile.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::conditions::{ConditionType, Ready, Status};
use super::rollout::RolloutStatus;
use super::settings::{Mode, Namespaces, Preset};
use super::{join_lines, tell_defaults};

/// What the operator says about a profile. Conditions are written at once; counters within seconds once they are at rest, and every
/// 30 seconds while they change.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = join_lines, transform = unseen)]
pub struct SchedulerProfileStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The profile's state, one entry for each type; types and reasons are a closed set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The mode that the worker is in.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub mode: Option<Mode>,
    /// The scheduler names that the profile asks for, and whether it serves them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub scheduler_names: Vec<SchedulerNameStatus>,
    /// What the chart's admission policy goes by: which new pods get which scheduler name. Absent: it gives this profile to none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub route: Option<RouteStatus>,
    /// What is in force: preset, overlay and defaults resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<EffectiveProfile>,
    /// The worker that serves the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerStatus>,
    /// The nodes that the profile chooses from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,
    /// The profile's pods that have no node yet, by where they wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCounts>,
    /// Why pods are unschedulable, the most frequent reasons first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub top_reasons: Vec<TopReason>,
    /// Counters since the worker's process began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// The profile's extenders, in the order in which they are asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub extenders: Vec<ExtenderStatus>,
    /// Spec fields of pods that were seen and that this version does not know, and of ResourceClaims and DeviceClasses that pods
    /// need, which begin with `resourceclaims: ` and `deviceclasses: `.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub unknown_fields: Vec<String>,
    /// With mode DryRun: what the profile would have done with the pods of other schedulers. Counters, lost when the worker's process
    /// ends or the spec changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowStatus>,
    /// How far the rollout of a changed spec is, or how the last one ended. Absent: the newest spec was not rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// Orphaned pods: nobody serves the scheduler that they name, and it is much like one of this profile's names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub misnamed_pods: Vec<MisnamedPods>,
    /// Name of the ControllerRevision, in the operator's namespace, that holds the last spec that was accepted. It serves
    /// while Accepted is False.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good_revision: Option<String>,
}

/// Why a profile that no operator has seen is not ready.
const UNSEEN: &str = "no operator has seen this profile";

/// The status that the API server gives a profile until an operator writes one. Without conditions kstatus would call it Current.
fn unseen(schema: &mut schemars::Schema) {
    let pending = |kind: ConditionType| {
        json!({
            "lastTransitionTime": "1970-01-01T00:00:00Z",
            "message": UNSEEN,
            "reason": Ready::Pending.as_str(),
            "status": Status::Unknown.as_str(),
            "type": kind.as_str(),
        })
    };
    let conditions = [pending(ConditionType::Ready), pending(ConditionType::Accepted)];
    schema.insert("default".to_owned(), json!({"conditions": conditions}));
}

/// One scheduler name that a profile asks for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulerNameStatus {
    /// The scheduler name.
    #[schemars(required, length(max = 253))]
    pub name: String,
    /// Serving: pods with this name are scheduled by this profile. Conflict: another profile serves it. Reserved: the
    /// operator was not started to serve it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub state: Option<SchedulerNameState>,
}

/// Whether a profile serves a scheduler name.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchedulerNameState {
    /// This profile schedules the pods with this name.
    Serving,
    /// Another profile serves the name.
    Conflict,
    /// `default-scheduler`, and the operator runs without `--serve-default-scheduler`.
    Reserved,
}

/// The part of the spec that is in force of which new pods a profile gets without being named.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = tell_defaults)]
pub struct RouteStatus {
    /// The name that the pods get: the profile's own if it serves it, and otherwise the first, in the order of the alphabet, that it serves.
    #[schemars(length(max = 253))]
    pub scheduler_name: String,
    /// spec.namespaces of the spec that serves.
    pub namespaces: Namespaces,
}

/// A profile as it is in force.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct EffectiveProfile {
    /// The preset that was started from.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub preset: Option<Preset>,
    /// Filters that run, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub filters: Vec<String>,
    /// Scores that count, each with its weight, as in `NodeResourcesFit=5`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub scores: Vec<String>,
    /// Share of the nodes, in percent, at which the search for feasible ones ends, at the present number of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_to_score: Option<i32>,
}

/// The worker that serves a profile.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkerStatus {
    /// What the worker is doing.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub state: Option<WorkerState>,
    /// Identity of the process that runs it: the name of the operator's pod, in the operator's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// When the worker was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
}

/// What a worker is doing.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerState {
    /// The worker is not started yet.
    Pending,
    /// The worker waits for the first read of pods and nodes.
    Warming,
    /// The worker schedules.
    Running,
    /// The worker keeps its pods queued and schedules none.
    Paused,
    /// The worker ended in error.
    Failed,
}

/// The nodes that a profile chooses from.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeCounts {
    /// Nodes that `spec.nodes.selector` matches.
    pub matched: i64,
    /// Matched nodes that are not marked unschedulable.
    pub schedulable: i64,
}

/// A profile's pods that have no node yet.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodCounts {
    /// Pods that wait for their turn.
    pub active: i64,
    /// Pods that wait for their backoff to end.
    pub backoff: i64,
    /// Pods that were tried and fit nowhere, and wait for a change.
    pub unschedulable: i64,
    /// Pods with scheduling gates.
    pub gated: i64,
    /// Pods that this profile may not or cannot place: a feature not supported, a namespace not allowed.
    pub held: i64,
    /// Pods that are being decided or bound.
    pub in_flight: i64,
    /// All of these together.
    pub pending: i64,
    /// Since when the oldest of them waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_pending_since: Option<Time>,
}

/// Pods that name a scheduler which nobody serves.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct MisnamedPods {
    /// The scheduler that they name.
    #[schemars(length(max = 253))]
    pub scheduler_name: String,
    /// How many they are.
    pub pods: i64,
    /// The oldest of them, as namespace/name.
    pub example: String,
    /// Since when it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_pending_since: Option<Time>,
}

/// The state of one extender.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtenderStatus {
    /// The extender's name.
    #[schemars(required, length(max = 63))]
    pub name: String,
    /// Unknown: the extender was not asked yet. Healthy: it answers. Degraded: its last call failed, or the circuit of a verb is open.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub state: Option<ExtenderState>,
    /// The worst of its verbs. Closed: it is asked. Open: only a probe is let through now and then.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "lenient")]
    pub circuit: Option<CircuitState>,
    /// The time within which 99 of 100 calls are answered, as in `12ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<String>,
    /// Failed calls since the last that was answered.
    pub consecutive_failures: i64,
    /// The last failure, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<ExtenderFailure>,
}

/// Whether an extender answers.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtenderState {
    /// The extender was not asked yet.
    Unknown,
    /// The extender answers.
    Healthy,
    /// The extender's last call failed, or the circuit of a verb is open.
    Degraded,
}

/// Whether an extender is asked.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CircuitState {
    /// Calls go through.
    Closed,
    /// Only a probe is let through now and then.
    Open,
}

/// A failed call.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtenderFailure {
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// What was asked: filter, prioritize, preempt or bind.
    pub verb: String,
    /// What kind of failure, such as Timeout.
    pub reason: String,
    /// The failure in one line, without any text of the reply.
    pub message: String,
}

/// One reason for which pods are unschedulable.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct TopReason {
    /// The plugin that refused the nodes.
    pub plugin: String,
    /// The plugin's text, as in `Insufficient cpu`.
    pub reason: String,
    /// Pods concerned.
    pub pods: i64,
}

/// Counters of a profile since its worker's process began.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Totals {
    /// Pods bound.
    pub scheduled: i64,
    /// Attempts that ended without a node.
    pub failed_attempts: i64,
    /// Pods evicted for pods of this profile.
    pub preemption_victims: i64,
    /// Decisions that were taken back, since another worker or scheduler had been faster.
    pub bind_conflicts: i64,
    /// When counting began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// Pods that other schedulers have bound, by what the profile would have done with each just before.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct ShadowStatus {
    /// Pods that were compared: same, tied, worse, refused, unschedulable, held and failed together.
    pub compared: i64,
    /// Pods for which the profile chose the same node.
    pub same: i64,
    /// Pods whose node is among the profile's best, of which it drew another one.
    pub tied: i64,
    /// Pods whose node fits and is not among the profile's best.
    pub worse: i64,
    /// Pods whose node a filter of the profile refuses, while other nodes fit.
    pub refused: i64,
    /// Pods that fit on no node of the profile.
    pub unschedulable: i64,
    /// Pods that the profile would hold.
    pub held: i64,
    /// Pods for which the profile's attempt would have failed.
    pub failed: i64,
    /// Of those that fit on no node: pods for which others would have been evicted.
    pub would_preempt: i64,
    /// Pods that were bound and not compared: the comparison could not keep up, or it is not known what came before the binding.
    pub skipped: i64,
    /// The real node's score as a share of the best one's, in percent, on average over the pods whose node fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_score_percent: Option<i64>,
    /// The plugins that disagree most: the filter that refuses the real node, or the score that speaks most against it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub disagreements: Vec<Disagreement>,
    /// When counting began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// How often one plugin disagrees with other schedulers' choices.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Disagreement {
    /// The plugin, or `Berth` where `spec.nodes.selector` leaves the real node out.
    pub plugin: String,
    /// Filter or Score.
    pub extension_point: String,
    /// Pods concerned.
    pub pods: i64,
}

/// Reads a value, or nothing where it is not one that this version knows: a status written by another version must not
/// make a profile unreadable.
pub(crate) fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}
