//! Every field of pods, ResourceClaims and DeviceClasses that the newest published API has, read or deliberately not.
//!
//! A test holds these lists against the published types, so a field that a new Kubernetes minor adds is either read or
//! put here by someone who thought about it. New in 1.37: `spec.evictionResponders` of pods, ignored because it names who
//! responds to an eviction, not where the pod may be placed; and `derivedAttributes` of requests for devices, which says which
//! devices are wanted and is not known: it is named, and its pods are held where a profile wants that.

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

/// The fields of an object, and those around it in an event of a watch.
#[derive(Debug, Clone, Copy)]
pub struct Shapes {
    pub object: &'static Shape,
    pub event: &'static Shape,
}

pub const PODS: Shapes = Shapes { object: &POD, event: &POD_EVENT };
pub const RESOURCE_CLAIMS: Shapes = Shapes { object: &RESOURCE_CLAIM, event: &RESOURCE_CLAIM_EVENT };
pub const DEVICE_CLASSES: Shapes = Shapes { object: &DEVICE_CLASS, event: &DEVICE_CLASS_EVENT };

/// One published type each: the constant, the type's name, and its fields by what becomes of them.
macro_rules! shapes {
    ($($(#[$doc:meta])* $vis:vis $shape:ident $name:literal {
        $(into $($into:ident: $inner:ident),+;)?
        $(read $($read:ident)+;)?
        $(ignored $($ignored:ident)+;)?
    })+) => {$(
        $(#[$doc])*
        $vis const $shape: Shape = Shape {
            name: $name,
            fields: &[
                $($((stringify!($into), Use::Into(&$inner)),)+)?
                $($((stringify!($read), Use::Read),)+)?
                $($((stringify!($ignored), Use::Ignored),)+)?
            ],
        };
    )+};
}

shapes! {
    POD_EVENT "WatchEvent" { into object: POD; ignored type; }
    RESOURCE_CLAIM_EVENT "WatchEvent" { into object: RESOURCE_CLAIM; ignored type; }
    DEVICE_CLASS_EVENT "WatchEvent" { into object: DEVICE_CLASS; ignored type; }
    /// A pod; looked into below its spec only.
    pub POD "Pod" { into spec: POD_SPEC; ignored apiVersion kind metadata status; }
    POD_SPEC "PodSpec" {
        into containers: CONTAINER, initContainers: CONTAINER, volumes: VOLUME, affinity: AFFINITY,
            tolerations: TOLERATION, topologySpreadConstraints: SPREAD, schedulingGates: GATE,
            resourceClaims: CLAIM, resources: RESOURCES, schedulingGroup: GROUP, securityContext: POD_SECURITY;
        read nodeSelector nodeName schedulerName priority preemptionPolicy overhead hostNetwork hostUsers;
        ignored activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks
            ephemeralContainers evictionResponders hostAliases hostIPC hostPID hostname hostnameOverride
            imagePullSecrets os priorityClassName readinessGates restartPolicy runtimeClassName serviceAccount
            serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds;
    }
    CONTAINER "Container" {
        into ports: PORT, resources: RESOURCES, securityContext: SECURITY, restartPolicyRules: RESTART_RULE;
        read name image restartPolicy;
        ignored args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy
            startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices
            volumeMounts workingDir;
    }
    RESTART_RULE "ContainerRestartRule" { read action; ignored exitCodes; }
    PORT "ContainerPort" { read hostPort protocol hostIP; ignored containerPort name; }
    RESOURCES "ResourceRequirements" { read requests; ignored claims limits; }
    VOLUME "Volume" {
        into image: IMAGE;
        read persistentVolumeClaim ephemeral gcePersistentDisk awsElasticBlockStore iscsi rbd azureDisk
            azureFile cinder vsphereVolume portworxVolume name csi;
        ignored cephfs configMap downwardAPI emptyDir fc flexVolume flocker gitRepo glusterfs hostPath nfs
            photonPersistentDisk projected quobyte scaleIO secret storageos;
    }
    IMAGE "ImageVolumeSource" { read reference; ignored pullPolicy; }
    AFFINITY "Affinity" {
        into nodeAffinity: NODE_AFFINITY, podAffinity: POD_AFFINITY, podAntiAffinity: POD_ANTI_AFFINITY;
    }
    NODE_AFFINITY "NodeAffinity" {
        into requiredDuringSchedulingIgnoredDuringExecution: NODE_SELECTOR,
            preferredDuringSchedulingIgnoredDuringExecution: PREFERRED_TERM;
    }
    NODE_SELECTOR "NodeSelector" { into nodeSelectorTerms: NODE_TERM; }
    NODE_TERM "NodeSelectorTerm" { into matchExpressions: NODE_REQUIREMENT, matchFields: NODE_REQUIREMENT; }
    NODE_REQUIREMENT "NodeSelectorRequirement" { read key operator values; }
    PREFERRED_TERM "PreferredSchedulingTerm" { into preference: NODE_TERM; read weight; }
    POD_AFFINITY "PodAffinity" {
        into requiredDuringSchedulingIgnoredDuringExecution: POD_TERM,
            preferredDuringSchedulingIgnoredDuringExecution: WEIGHTED_POD_TERM;
    }
    POD_ANTI_AFFINITY "PodAntiAffinity" {
        into requiredDuringSchedulingIgnoredDuringExecution: POD_TERM,
            preferredDuringSchedulingIgnoredDuringExecution: WEIGHTED_POD_TERM;
    }
    // The API server merges the two lists of label keys into the label selector.
    POD_TERM "PodAffinityTerm" {
        into labelSelector: LABEL_SELECTOR, namespaceSelector: LABEL_SELECTOR;
        read namespaces topologyKey;
        ignored matchLabelKeys mismatchLabelKeys;
    }
    WEIGHTED_POD_TERM "WeightedPodAffinityTerm" { into podAffinityTerm: POD_TERM; read weight; }
    LABEL_SELECTOR "LabelSelector" { into matchExpressions: LABEL_REQUIREMENT; read matchLabels; }
    LABEL_REQUIREMENT "LabelSelectorRequirement" { read key operator values; }
    TOLERATION "Toleration" { read key operator value effect; ignored tolerationSeconds; }
    SPREAD "TopologySpreadConstraint" {
        into labelSelector: LABEL_SELECTOR;
        read whenUnsatisfiable matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy
            topologyKey;
    }
    GATE "PodSchedulingGate" { read name; }
    CLAIM "PodResourceClaim" { read name resourceClaimName resourceClaimTemplateName; }
    GROUP "PodSchedulingGroup" { ignored podGroupName; }
    POD_SECURITY "PodSecurityContext" {
        ignored appArmorProfile fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser
            seLinuxChangePolicy seLinuxOptions seccompProfile supplementalGroups supplementalGroupsPolicy
            sysctls windowsOptions;
    }
    SECURITY "SecurityContext" {
        ignored allowPrivilegeEscalation appArmorProfile capabilities privileged procMount
            readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seLinuxOptions seccompProfile
            windowsOptions;
    }
    /// Looked into below its spec only.
    pub RESOURCE_CLAIM "ResourceClaim" { into spec: CLAIM_SPEC; ignored apiVersion kind metadata status; }
    CLAIM_SPEC "ResourceClaimSpec" { into devices: DEVICE_CLAIM; }
    DEVICE_CLAIM "DeviceClaim" {
        into requests: DEVICE_REQUEST, constraints: DEVICE_CONSTRAINT, config: CLAIM_CONFIGURATION;
    }
    DEVICE_REQUEST "DeviceRequest" { into exactly: EXACT_REQUEST, firstAvailable: SUB_REQUEST; read name; }
    EXACT_REQUEST "ExactDeviceRequest" {
        into selectors: DEVICE_SELECTOR, tolerations: DEVICE_TOLERATION, capacity: CAPACITY;
        read deviceClassName allocationMode count adminAccess;
    }
    SUB_REQUEST "DeviceSubRequest" {
        into selectors: DEVICE_SELECTOR, tolerations: DEVICE_TOLERATION, capacity: CAPACITY;
        read name deviceClassName allocationMode count;
    }
    DEVICE_SELECTOR "DeviceSelector" { into cel: CEL_SELECTOR; }
    CEL_SELECTOR "CELDeviceSelector" { read expression; }
    DEVICE_TOLERATION "DeviceToleration" { read key operator value effect tolerationSeconds; }
    CAPACITY "CapacityRequirements" { read requests; }
    DEVICE_CONSTRAINT "DeviceConstraint" { read requests matchAttribute distinctAttribute; }
    CLAIM_CONFIGURATION "DeviceClaimConfiguration" { into opaque: OPAQUE; read requests; }
    OPAQUE "OpaqueDeviceConfiguration" { read driver parameters; }
    /// Looked into below its spec only.
    pub DEVICE_CLASS "DeviceClass" { into spec: CLASS_SPEC; ignored apiVersion kind metadata; }
    CLASS_SPEC "DeviceClassSpec" {
        into selectors: DEVICE_SELECTOR, config: CLASS_CONFIGURATION;
        read extendedResourceName;
    }
    CLASS_CONFIGURATION "DeviceClassConfiguration" { into opaque: OPAQUE; }
}
