//! All that upstream's plugins can say, read from their sources at the pinned version, names and numbers left out.
//!
//! What cannot be reached through the API is listed at the end, with the reason.

/// A text that a plugin can give.
#[derive(Debug)]
pub struct Expected {
    pub plugin: &'static str,
    pub code: &'static str,
    /// The text; with `…` at its end, how it begins.
    pub reason: &'static str,
}

impl Expected {
    /// Whether it is this text.
    pub fn is(&self, plugin: &str, code: &str, reason: &str) -> bool {
        let same = match self.reason.strip_suffix('…') {
            Some(beginning) => reason.starts_with(beginning),
            None => reason == self.reason,
        };
        same && plugin == self.plugin && code == self.code
    }
}

const U: &str = "Unschedulable";
const UU: &str = "UnschedulableAndUnresolvable";

const fn of(plugin: &'static str, code: &'static str, reason: &'static str) -> Expected {
    Expected { plugin, code, reason }
}

/// Every score plugin that is on by default, and differs between nodes.
pub const SCORES: &[&str] = &[
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
];

/// Every refusal and error that a run must produce.
pub const EXPECTED: &[Expected] = &[
    of("PreEnqueue", "", "waiting for scheduling gates: [*]"),
    of("PreEnqueue", "", "no profile"),
    of("NodeUnschedulable", UU, "node(s) were unschedulable"),
    of("TaintToleration", UU, "node(s) had untolerated taint(s)"),
    of("NodeAffinity", UU, "node(s) didn't match Pod's node affinity/selector"),
    of("NodeAffinity", UU, "node(s) didn't match scheduler-enforced node affinity"),
    of("NodeAffinity", UU, "pod affinity terms conflict"),
    of("NodeAffinity", UU, "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
    of("NodePorts", U, "node(s) didn't have free ports for the requested pod ports"),
    of("NodeResourcesFit", U, "Too many pods"),
    of("NodeResourcesFit", UU, "Too many pods"),
    of("NodeResourcesFit", U, "Insufficient cpu"),
    of("NodeResourcesFit", UU, "Insufficient cpu"),
    of("NodeResourcesFit", U, "Insufficient memory"),
    of("NodeResourcesFit", UU, "Insufficient memory"),
    of("NodeResourcesFit", U, "Insufficient ephemeral-storage"),
    of("NodeResourcesFit", UU, "Insufficient ephemeral-storage"),
    of("NodeResourcesFit", U, "Insufficient hugepages-*"),
    of("NodeResourcesFit", UU, "Insufficient hugepages-*"),
    of("NodeResourcesFit", U, "Insufficient */*"),
    of("NodeResourcesFit", UU, "Insufficient */*"),
    of("VolumeRestrictions", U, "node(s) had no available disk"),
    of(
        "VolumeRestrictions",
        U,
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    ),
    of("VolumeRestrictions", UU, "persistentvolumeclaim \"*\" not found"),
    of("NodeVolumeLimits", U, "node(s) exceed max volume count"),
    of("NodeVolumeLimits", UU, "looking up PVC *: persistentvolumeclaim \"*\" not found"),
    of("VolumeBinding", UU, "persistentvolumeclaim \"*\" not found"),
    of("VolumeBinding", UU, "waiting for ephemeral volume controller to create the persistentvolumeclaim \"*\""),
    of("VolumeBinding", UU, "PVC * was not created for pod * (pod is not owner)"),
    of("VolumeBinding", UU, "persistentvolumeclaim \"*\" bound to non-existent persistentvolume \"*\""),
    of("VolumeBinding", UU, "persistentvolumeclaim \"*\" is being deleted"),
    of("VolumeBinding", UU, "pod has unbound immediate PersistentVolumeClaims"),
    of("VolumeBinding", UU, "node(s) didn't find available persistent volumes to bind"),
    of("VolumeBinding", UU, "node(s) didn't match PersistentVolume's node affinity"),
    of("VolumeBinding", UU, "node(s) did not have enough free storage"),
    of("VolumeBinding", UU, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    of("VolumeZone", UU, "node(s) had no available volume zone"),
    of("VolumeZone", UU, "persistentvolume \"*\" not found"),
    of("VolumeZone", UU, "persistentvolumeclaim \"*\" not found"),
    of("VolumeZone", UU, "PersistentVolume had no name"),
    of("VolumeZone", UU, "PersistentVolumeClaim had no pv name and storageClass name"),
    of("VolumeZone", UU, "storageclass.storage.k8s.io \"*\" not found"),
    of("PodTopologySpread", UU, "node(s) didn't match pod topology spread constraints (missing required label)"),
    of("PodTopologySpread", U, "node(s) didn't match pod topology spread constraints"),
    of("InterPodAffinity", UU, "node(s) didn't match pod affinity rules"),
    of("InterPodAffinity", U, "node(s) didn't match pod anti-affinity rules"),
    of("InterPodAffinity", U, "node(s) didn't satisfy existing pods anti-affinity rules"),
    of("InterPodAffinity", UU, "parsing pod: …"),
    of("NodeDeclaredFeatures", UU, "node(s) didn't match Pod's required features"),
    of("error", "", "running PreScore plugin \"NodeAffinity\": …"),
    of("error", "", "running PreFilter plugin \"PodTopologySpread\": get constraints from pod: …"),
    of("error", "", "running PreScore plugin \"PodTopologySpread\": calculating preScoreState: …"),
    of(
        "error",
        "",
        "applying score defaultWeights on Score plugins: plugin \"PodTopologySpread\" returns an invalid score …",
    ),
    of("error", "", "running \"NodeVolumeLimits\" filter plugin: PVC * was not created for pod * (pod is not owner)"),
    of("error", "", "running \"NodeVolumeLimits\" filter plugin: converting volume…"),
    of("error", "", "running \"VolumeBinding\" filter plugin: could not translate pv: …"),
    of("error", "", "running \"VolumeBinding\" filter plugin: error creating internal label selector for claim: …"),
];

/// What upstream's sources hold and no cluster that an API server accepts can bring out, with the reason.
pub const UNREACHABLE: &[(&str, &str, &str)] = &[
    ("NodeName", "node(s) didn't match the requested node name", "a pending pod names no node"),
    ("NodeUnschedulable", "node(s) had unknown conditions", "declared and not used"),
    ("TaintToleration", "node(s) had taints that the pod didn't tolerate", "declared and not used"),
    (
        "NodeResourcesFit",
        "Pod has a restartable init container and the SidecarContainers feature is disabled",
        "the gate is locked on",
    ),
    ("NodeVolumeLimits", "CSI driver is not installed on the node", "the gate VolumeLimitScaling is off"),
    ("VolumeZone", "PersistentVolumeClaim had no name", "the API server requires claimName"),
    ("VolumeZone", "VolumeBindingMode not set for StorageClass", "the API server defaults it to Immediate"),
    ("VolumeBinding", "no class for claim", "a claim without class is bound at once, and never gets there"),
    (
        "VolumeBinding",
        "failed to find storage class",
        "a claim whose class is gone is bound at once, and never gets there",
    ),
    ("framework", "simultaneously", "NodeAffinity alone narrows nodes in PreFilter"),
];
