//! How a changed spec is tried on a share of the pods before it serves all of them, and how far that is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duration::Duration;
use super::patterns::between;

/// How a changed spec is tried: it decides for a share of the pods, while the last good one decides for the others. It takes over when the
/// time is over; if its pods fare worse it is broken off, and the last good one serves on.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = between("duration", "1s", "168h", "30m"),
    validation = between("window", "1s", "24h", "10m")
)]
pub struct Rollout {
    /// Share of the pods, or of the namespaces, that the changed spec decides for, in percent; 1 to 99. A larger share has the same
    /// ones, and more.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 99))]
    pub percent: i32,
    /// Pod: each pod by itself, by its uid. Namespace: all pods of a namespace together, by its name.
    #[serde(default)]
    pub by: RolloutBy,
    /// How long both decide; 1s to 168h. It takes longer where one of both has tried fewer than minPods by then, or where another leader has
    /// not compared both for a window yet.
    #[serde(default = "half_an_hour")]
    pub duration: Duration,
    /// Over how long both are compared; 1s to 24h. Pods count for so long after they were tried.
    #[serde(default = "ten_minutes")]
    pub window: Duration,
    /// Pods that each of both must have tried within the window before they are compared, and before the changed spec takes over; 1 to
    /// 100,000.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 100_000))]
    pub min_pods: i32,
    /// When the changed spec fares so much worse that it is broken off.
    #[serde(default)]
    pub abort: RolloutAbort,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            percent: ten(),
            by: RolloutBy::Pod,
            duration: half_an_hour(),
            window: ten_minutes(),
            min_pods: fifty(),
            abort: RolloutAbort::default(),
        }
    }
}

/// What is drawn for a share.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RolloutBy {
    /// Pods.
    #[default]
    Pod,
    /// Namespaces.
    Namespace,
}

/// How much worse the pods of the changed spec may fare than the others within the window.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = between("pendingOver", "0s", "24h", "30s"))]
pub struct RolloutAbort {
    /// The share of pods that get no node at their first attempt may be so many percentage points higher; 0 to 100, and 100 never breaks
    /// it off.
    #[serde(default = "five")]
    #[schemars(range(min = 0, max = 100))]
    pub unschedulable_percent_over: i32,
    /// The mean time until a pod is bound may be so much longer; 0s to 24h.
    #[serde(default = "half_a_minute")]
    pub pending_over: Duration,
}

impl Default for RolloutAbort {
    fn default() -> Self {
        Self { unschedulable_percent_over: five(), pending_over: half_a_minute() }
    }
}

const fn ten() -> i32 {
    10
}

const fn half_an_hour() -> Duration {
    Duration::from_secs(30 * 60)
}

const fn ten_minutes() -> Duration {
    Duration::from_secs(10 * 60)
}

const fn fifty() -> i32 {
    50
}

const fn five() -> i32 {
    5
}

const fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}

/// How far the rollout of a changed spec is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The generation of the spec that is, or was, tried.
    pub generation: i64,
    /// Running: both decide. Complete: the generation serves all pods. Aborted: it was broken off and is not tried again; change the spec.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "super::status::lenient")]
    pub phase: Option<RolloutPhase>,
    /// Since when the generation has been tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// What the rollout waits for, or why it was broken off.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub message: String,
    /// The pods of the spec that is tried, within the window; counted anew by each leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<RolloutArm>,
    /// The pods of the last good spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stable: Option<RolloutArm>,
}

/// How far a rollout is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RolloutPhase {
    /// Both specs decide, each for its pods.
    Running,
    /// The changed spec serves all pods.
    Complete,
    /// The changed spec fared worse: the last good one serves all pods.
    Aborted,
}

/// How the pods of one of both specs have fared within the window.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct RolloutArm {
    /// Pods whose first attempt has ended.
    pub tried: i64,
    /// Those of them for which it found no node: they fitted nowhere, or deciding ended in an error.
    pub unschedulable: i64,
    /// Pods that were bound.
    pub placed: i64,
    /// How long these had waited for it, on average, in milliseconds.
    pub mean_pending_ms: i64,
}
