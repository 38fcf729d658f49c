//! Every field of a pod that the newest published API has, read or deliberately not.
//!
//! A test holds these lists against the published types, so a field that a new Kubernetes minor adds is either read or
//! put here by someone who thought about it. New in 1.37: `spec.evictionResponders` alone, ignored because it names who
//! responds to an eviction, not where the pod may be placed.

/// What becomes of a field.
#[derive(Debug, Clone, Copy)]
pub enum Use {
    /// Read, but not looked into for unknown fields.
    Read,
    /// Read, and looked into; lists are looked into element by element.
    Into(&'static Shape),
    /// Known to matter to no decision of a scheduler.
    Ignored,
}

/// The fields of one published type.
#[derive(Debug)]
pub struct Shape {
    pub name: &'static str,
    pub fields: &'static [(&'static str, Use)],
}

impl Shape {
    /// What becomes of `field`, if it is known.
    pub fn get(&self, field: &str) -> Option<Use> {
        self.fields.iter().find(|(name, _)| *name == field).map(|(_, usage)| *usage)
    }
}

use Use::{Ignored, Into, Read};

pub const FRAME: Shape = Shape { name: "WatchEvent", fields: &[("type", Ignored), ("object", Into(&POD))] };

/// A pod; looked into below its spec only.
pub const POD: Shape = Shape {
    name: "Pod",
    fields: &[
        ("apiVersion", Ignored),
        ("kind", Ignored),
        ("metadata", Ignored),
        ("spec", Into(&POD_SPEC)),
        ("status", Ignored),
    ],
};

const POD_SPEC: Shape = Shape {
    name: "PodSpec",
    fields: &[
        ("containers", Into(&CONTAINER)),
        ("initContainers", Into(&CONTAINER)),
        ("volumes", Into(&VOLUME)),
        ("nodeSelector", Read),
        ("nodeName", Read),
        ("affinity", Into(&AFFINITY)),
        ("schedulerName", Read),
        ("tolerations", Into(&TOLERATION)),
        ("priority", Read),
        ("preemptionPolicy", Read),
        ("overhead", Read),
        ("topologySpreadConstraints", Into(&SPREAD)),
        ("schedulingGates", Into(&GATE)),
        ("resourceClaims", Into(&CLAIM)),
        ("resources", Into(&RESOURCES)),
        ("schedulingGroup", Into(&GROUP)),
        ("securityContext", Into(&POD_SECURITY)),
        ("activeDeadlineSeconds", Ignored),
        ("automountServiceAccountToken", Ignored),
        ("dnsConfig", Ignored),
        ("dnsPolicy", Ignored),
        ("enableServiceLinks", Ignored),
        ("ephemeralContainers", Ignored),
        ("evictionResponders", Ignored),
        ("hostAliases", Ignored),
        ("hostIPC", Ignored),
        ("hostNetwork", Read),
        ("hostPID", Ignored),
        ("hostUsers", Read),
        ("hostname", Ignored),
        ("hostnameOverride", Ignored),
        ("imagePullSecrets", Ignored),
        ("os", Ignored),
        ("priorityClassName", Ignored),
        ("readinessGates", Ignored),
        ("restartPolicy", Ignored),
        ("runtimeClassName", Ignored),
        ("serviceAccount", Ignored),
        ("serviceAccountName", Ignored),
        ("setHostnameAsFQDN", Ignored),
        ("shareProcessNamespace", Ignored),
        ("subdomain", Ignored),
        ("terminationGracePeriodSeconds", Ignored),
    ],
};

const CONTAINER: Shape = Shape {
    name: "Container",
    fields: &[
        ("name", Read),
        ("image", Read),
        ("ports", Into(&PORT)),
        ("resources", Into(&RESOURCES)),
        ("restartPolicy", Read),
        ("securityContext", Into(&SECURITY)),
        ("args", Ignored),
        ("command", Ignored),
        ("env", Ignored),
        ("envFrom", Ignored),
        ("imagePullPolicy", Ignored),
        ("lifecycle", Ignored),
        ("livenessProbe", Ignored),
        ("readinessProbe", Ignored),
        ("resizePolicy", Ignored),
        ("restartPolicyRules", Into(&RESTART_RULE)),
        ("startupProbe", Ignored),
        ("stdin", Ignored),
        ("stdinOnce", Ignored),
        ("terminationMessagePath", Ignored),
        ("terminationMessagePolicy", Ignored),
        ("tty", Ignored),
        ("volumeDevices", Ignored),
        ("volumeMounts", Ignored),
        ("workingDir", Ignored),
    ],
};

const RESTART_RULE: Shape = Shape { name: "ContainerRestartRule", fields: &[("action", Read), ("exitCodes", Ignored)] };

const PORT: Shape = Shape {
    name: "ContainerPort",
    fields: &[("hostPort", Read), ("protocol", Read), ("hostIP", Read), ("name", Ignored), ("containerPort", Ignored)],
};

const RESOURCES: Shape =
    Shape { name: "ResourceRequirements", fields: &[("requests", Read), ("limits", Ignored), ("claims", Ignored)] };

const VOLUME: Shape = Shape {
    name: "Volume",
    fields: &[
        ("persistentVolumeClaim", Read),
        ("ephemeral", Read),
        ("image", Into(&IMAGE)),
        ("gcePersistentDisk", Read),
        ("awsElasticBlockStore", Read),
        ("iscsi", Read),
        ("rbd", Read),
        ("azureDisk", Read),
        ("azureFile", Read),
        ("cinder", Read),
        ("vsphereVolume", Read),
        ("portworxVolume", Read),
        ("name", Read),
        ("csi", Read),
        ("cephfs", Ignored),
        ("configMap", Ignored),
        ("downwardAPI", Ignored),
        ("emptyDir", Ignored),
        ("fc", Ignored),
        ("flexVolume", Ignored),
        ("flocker", Ignored),
        ("gitRepo", Ignored),
        ("glusterfs", Ignored),
        ("hostPath", Ignored),
        ("nfs", Ignored),
        ("photonPersistentDisk", Ignored),
        ("projected", Ignored),
        ("quobyte", Ignored),
        ("scaleIO", Ignored),
        ("secret", Ignored),
        ("storageos", Ignored),
    ],
};

const IMAGE: Shape = Shape { name: "ImageVolumeSource", fields: &[("reference", Read), ("pullPolicy", Ignored)] };

const AFFINITY: Shape = Shape {
    name: "Affinity",
    fields: &[
        ("nodeAffinity", Into(&NODE_AFFINITY)),
        ("podAffinity", Into(&POD_AFFINITY)),
        ("podAntiAffinity", Into(&POD_ANTI_AFFINITY)),
    ],
};

const NODE_AFFINITY: Shape = Shape {
    name: "NodeAffinity",
    fields: &[
        ("requiredDuringSchedulingIgnoredDuringExecution", Into(&NODE_SELECTOR)),
        ("preferredDuringSchedulingIgnoredDuringExecution", Into(&PREFERRED_TERM)),
    ],
};

const NODE_SELECTOR: Shape = Shape { name: "NodeSelector", fields: &[("nodeSelectorTerms", Into(&NODE_TERM))] };

const NODE_TERM: Shape = Shape {
    name: "NodeSelectorTerm",
    fields: &[("matchExpressions", Into(&NODE_REQUIREMENT)), ("matchFields", Into(&NODE_REQUIREMENT))],
};

const NODE_REQUIREMENT: Shape =
    Shape { name: "NodeSelectorRequirement", fields: &[("key", Read), ("operator", Read), ("values", Read)] };

const PREFERRED_TERM: Shape =
    Shape { name: "PreferredSchedulingTerm", fields: &[("weight", Read), ("preference", Into(&NODE_TERM))] };

const POD_AFFINITY: Shape = Shape {
    name: "PodAffinity",
    fields: &[
        ("requiredDuringSchedulingIgnoredDuringExecution", Into(&POD_TERM)),
        ("preferredDuringSchedulingIgnoredDuringExecution", Into(&WEIGHTED_POD_TERM)),
    ],
};

const POD_ANTI_AFFINITY: Shape = Shape {
    name: "PodAntiAffinity",
    fields: &[
        ("requiredDuringSchedulingIgnoredDuringExecution", Into(&POD_TERM)),
        ("preferredDuringSchedulingIgnoredDuringExecution", Into(&WEIGHTED_POD_TERM)),
    ],
};

// The API server merges the two lists of label keys into the label selector.
const POD_TERM: Shape = Shape {
    name: "PodAffinityTerm",
    fields: &[
        ("labelSelector", Into(&LABEL_SELECTOR)),
        ("namespaces", Read),
        ("namespaceSelector", Into(&LABEL_SELECTOR)),
        ("topologyKey", Read),
        ("matchLabelKeys", Ignored),
        ("mismatchLabelKeys", Ignored),
    ],
};

const WEIGHTED_POD_TERM: Shape =
    Shape { name: "WeightedPodAffinityTerm", fields: &[("weight", Read), ("podAffinityTerm", Into(&POD_TERM))] };

const LABEL_SELECTOR: Shape =
    Shape { name: "LabelSelector", fields: &[("matchLabels", Read), ("matchExpressions", Into(&LABEL_REQUIREMENT))] };

const LABEL_REQUIREMENT: Shape =
    Shape { name: "LabelSelectorRequirement", fields: &[("key", Read), ("operator", Read), ("values", Read)] };

const TOLERATION: Shape = Shape {
    name: "Toleration",
    fields: &[("key", Read), ("operator", Read), ("value", Read), ("effect", Read), ("tolerationSeconds", Ignored)],
};

const SPREAD: Shape = Shape {
    name: "TopologySpreadConstraint",
    fields: &[
        ("whenUnsatisfiable", Read),
        ("labelSelector", Into(&LABEL_SELECTOR)),
        ("matchLabelKeys", Read),
        ("maxSkew", Read),
        ("minDomains", Read),
        ("nodeAffinityPolicy", Read),
        ("nodeTaintsPolicy", Read),
        ("topologyKey", Read),
    ],
};

const GATE: Shape = Shape { name: "PodSchedulingGate", fields: &[("name", Read)] };

const CLAIM: Shape = Shape {
    name: "PodResourceClaim",
    fields: &[("name", Ignored), ("resourceClaimName", Ignored), ("resourceClaimTemplateName", Ignored)],
};

const GROUP: Shape = Shape { name: "PodSchedulingGroup", fields: &[("podGroupName", Ignored)] };

const POD_SECURITY: Shape = Shape {
    name: "PodSecurityContext",
    fields: &[
        ("appArmorProfile", Ignored),
        ("fsGroup", Ignored),
        ("fsGroupChangePolicy", Ignored),
        ("runAsGroup", Ignored),
        ("runAsNonRoot", Ignored),
        ("runAsUser", Ignored),
        ("seLinuxChangePolicy", Ignored),
        ("seLinuxOptions", Ignored),
        ("seccompProfile", Ignored),
        ("supplementalGroups", Ignored),
        ("supplementalGroupsPolicy", Ignored),
        ("sysctls", Ignored),
        ("windowsOptions", Ignored),
    ],
};

const SECURITY: Shape = Shape {
    name: "SecurityContext",
    fields: &[
        ("allowPrivilegeEscalation", Ignored),
        ("appArmorProfile", Ignored),
        ("capabilities", Ignored),
        ("privileged", Ignored),
        ("procMount", Ignored),
        ("readOnlyRootFilesystem", Ignored),
        ("runAsGroup", Ignored),
        ("runAsNonRoot", Ignored),
        ("runAsUser", Ignored),
        ("seLinuxOptions", Ignored),
        ("seccompProfile", Ignored),
        ("windowsOptions", Ignored),
    ],
};
