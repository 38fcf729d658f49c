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
    pub FRAME "WatchEvent" { into object: POD; ignored type; }
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
}
