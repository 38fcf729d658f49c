//! What is read of each kind.

use super::{Amount, Annotations, Finalizers, Pairs, PodResourceClaim, PodResourceClaimStatus, Slim, Text, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;

pub type SlimPod<'a> = Slim<'a, PodSpec<'a>, PodStatus<'a>>;
pub type SlimNode<'a> = Slim<'a, NodeSpec<'a>, NodeStatus<'a>>;
pub type SlimService<'a> = Slim<'a, PlainSelectorSpec<'a>, IgnoredAny>;
pub type SlimReplicationController<'a> = Slim<'a, PlainSelectorSpec<'a>, IgnoredAny>;
pub type SlimReplicaSet<'a> = Slim<'a, SelectorSpec<'a>, IgnoredAny>;
pub type SlimStatefulSet<'a> = Slim<'a, SelectorSpec<'a>, IgnoredAny>;
pub type SlimBudget<'a> = Slim<'a, SelectorSpec<'a>, BudgetStatus<'a>>;
pub type SlimVolume<'a> = Slim<'a, VolumeSpec<'a>, Phase<'a>>;
pub type SlimClaim<'a> = Slim<'a, ClaimSpec<'a>, Phase<'a>>;
pub type SlimStorageClass<'a> = Slim<'a, IgnoredAny, IgnoredAny>;
pub type SlimCsiNode<'a> = Slim<'a, CsiNodeSpec<'a>, IgnoredAny>;
pub type SlimCsiDriver<'a> = Slim<'a, CsiDriverSpec, IgnoredAny>;
pub type SlimCsiStorageCapacity<'a> = Slim<'a, IgnoredAny, IgnoredAny>;
pub type SlimVolumeAttachment<'a> = Slim<'a, AttachmentSpec<'a>, IgnoredAny>;

/// Defines structs by the names that the API has in camel case. A missing field and `null` are the default value, as in
/// Go.
macro_rules! slim {
    ($($(#[$meta:meta])* struct $name:ident<$a:lifetime> { $($(#[$attr:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, serde::Deserialize)]
        #[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
        pub struct $name<$a> {
            $(
                $(#[$attr])*
                #[serde(deserialize_with = "crate::slim::nullable")]
                pub $field: $type,
            )*
        }
    )+};
}

pub(crate) use slim;

slim! {
    struct SlimMeta<'a> {
        name: Text<'a>,
        /// Empty for cluster-scoped kinds.
        namespace: Text<'a>,
        uid: Text<'a>,
        resource_version: Text<'a>,
        /// In the order given.
        labels: Pairs<'a, Text<'a>>,
        creation_timestamp: Time<'a>,
        /// Absent if the object is not being deleted.
        deletion_timestamp: Time<'a>,
        /// Those that are read.
        annotations: Annotations<'a>,
        finalizers: Finalizers,
        owner_references: Vec<OwnerReference<'a>>,
    }

    struct OwnerReference<'a> {
        api_version: Text<'a>,
        kind: Text<'a>,
        name: Text<'a>,
        uid: Text<'a>,
        controller: bool,
    }

    struct PodSpec<'a> {
        volumes: Vec<Volume<'a>>,
        /// Init containers, sidecars among them.
        init_containers: Vec<Container<'a>>,
        containers: Vec<Container<'a>>,
        node_selector: Pairs<'a, Text<'a>>,
        node_name: Text<'a>,
        affinity: Option<Affinity<'a>>,
        scheduler_name: Text<'a>,
        tolerations: Vec<Toleration<'a>>,
        priority: Option<i32>,
        /// `Never` for a pod that evicts no other.
        preemption_policy: Text<'a>,
        overhead: Pairs<'a, Amount>,
        topology_spread_constraints: Vec<SpreadConstraint<'a>>,
        scheduling_gates: Vec<Named<'a>>,
        resource_claims: Vec<PodResourceClaim<'a>>,
        resources: Option<Resources<'a>>,
        host_network: bool,
        /// Counts as true if absent.
        host_users: Option<bool>,
        scheduling_group: Option<IgnoredAny>,
    }

    struct Named<'a> {
        name: Text<'a>,
    }

    struct Container<'a> {
        name: Text<'a>,
        image: Text<'a>,
        ports: Vec<ContainerPort<'a>>,
        resources: Resources<'a>,
        /// `Always` makes an init container a sidecar.
        restart_policy: Text<'a>,
        restart_policy_rules: Vec<RestartRule<'a>>,
    }

    struct RestartRule<'a> {
        /// `Restart` or `RestartAllContainers`.
        action: Text<'a>,
    }

    struct ContainerPort<'a> {
        host_port: i32,
        protocol: Text<'a>,
        #[serde(rename = "hostIP")]
        host_ip: Text<'a>,
    }

    /// Requests; limits are not read, since the API server defaults requests from them.
    struct Resources<'a> {
        requests: Pairs<'a, Amount>,
    }

    struct Affinity<'a> {
        node_affinity: Option<NodeAffinity<'a>>,
        pod_affinity: PodAffinity<'a>,
        pod_anti_affinity: PodAffinity<'a>,
    }

    struct NodeAffinity<'a> {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Option<NodeSelector<'a>>,
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Vec<PreferredTerm<'a>>,
    }

    /// Terms of which one must match.
    struct NodeSelector<'a> {
        node_selector_terms: Vec<NodeSelectorTerm<'a>>,
    }

    /// Expressions of which all must hold.
    struct NodeSelectorTerm<'a> {
        match_expressions: Vec<Expression<'a>>,
        match_fields: Vec<Expression<'a>>,
    }

    struct PreferredTerm<'a> {
        weight: i32,
        preference: NodeSelectorTerm<'a>,
    }

    struct Expression<'a> {
        key: Text<'a>,
        operator: Text<'a>,
        values: Vec<Text<'a>>,
    }

    struct LabelSelector<'a> {
        match_labels: Pairs<'a, Text<'a>>,
        match_expressions: Vec<Expression<'a>>,
    }

    struct PodAffinity<'a> {
        #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
        required: Vec<PodAffinityTerm<'a>>,
        #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
        preferred: Vec<WeightedPodAffinityTerm<'a>>,
    }

    struct WeightedPodAffinityTerm<'a> {
        weight: i32,
        pod_affinity_term: PodAffinityTerm<'a>,
    }

    /// A term over pods. The API server has merged `matchLabelKeys` into the selector.
    struct PodAffinityTerm<'a> {
        /// Selects no pods if absent.
        label_selector: Option<LabelSelector<'a>>,
        namespaces: Vec<Text<'a>>,
        namespace_selector: Option<LabelSelector<'a>>,
        topology_key: Text<'a>,
    }

    struct Toleration<'a> {
        key: Text<'a>,
        operator: Text<'a>,
        value: Text<'a>,
        effect: Text<'a>,
    }

    struct SpreadConstraint<'a> {
        max_skew: i32,
        topology_key: Text<'a>,
        /// `DoNotSchedule` or `ScheduleAnyway`.
        when_unsatisfiable: Text<'a>,
        /// Selects no pods if absent.
        label_selector: Option<LabelSelector<'a>>,
        match_label_keys: Vec<Text<'a>>,
        /// With fewer domains than this the global minimum counts as zero.
        min_domains: Option<i32>,
        /// `Honor` or `Ignore`.
        node_affinity_policy: Text<'a>,
        /// `Honor` or `Ignore`.
        node_taints_policy: Text<'a>,
    }

    /// A volume: which of the sources that concern a scheduler it has.
    struct Volume<'a> {
        name: Text<'a>,
        persistent_volume_claim: Option<ClaimSource<'a>>,
        ephemeral: Option<IgnoredAny>,
        image: Option<ImageVolume<'a>>,
        gce_persistent_disk: Option<GcePd<'a>>,
        aws_elastic_block_store: Option<VolumeId<'a>>,
        iscsi: Option<Iscsi<'a>>,
        rbd: Option<Rbd<'a>>,
        azure_disk: Option<AzureDisk<'a>>,
        azure_file: Option<IgnoredAny>,
        cinder: Option<VolumeId<'a>>,
        vsphere_volume: Option<IgnoredAny>,
        portworx_volume: Option<VolumeId<'a>>,
        csi: Option<InlineCsi<'a>>,
    }

    struct ImageVolume<'a> {
        reference: Text<'a>,
    }

    struct PodStatus<'a> {
        phase: Text<'a>,
        conditions: Vec<Condition<'a>>,
        /// `Guaranteed`, `Burstable` or `BestEffort`; the API server sets it.
        #[serde(rename = "qosClass")]
        quality: Text<'a>,
        nominated_node_name: Text<'a>,
        resource_claim_statuses: Vec<PodResourceClaimStatus<'a>>,
        /// When its kubelet acknowledged it.
        start_time: Time<'a>,
        init_container_statuses: Vec<ContainerStatus<'a>>,
        container_statuses: Vec<ContainerStatus<'a>>,
        resources: Option<Resources<'a>>,
        allocated_resources: Pairs<'a, Amount>,
    }

    struct Condition<'a> {
        #[serde(rename = "type")]
        kind: Text<'a>,
        /// `True`, `False` or `Unknown`.
        status: Text<'a>,
        reason: Text<'a>,
        message: Text<'a>,
    }

    /// The resources that a container really has, and those that its node set aside for it.
    struct ContainerStatus<'a> {
        name: Text<'a>,
        resources: Option<Resources<'a>>,
        allocated_resources: Pairs<'a, Amount>,
    }

    struct NodeSpec<'a> {
        unschedulable: bool,
        taints: Vec<NodeTaint<'a>>,
    }

    struct NodeTaint<'a> {
        key: Text<'a>,
        value: Text<'a>,
        effect: Text<'a>,
    }

    struct NodeStatus<'a> {
        allocatable: Pairs<'a, Amount>,
        images: Vec<NodeImage<'a>>,
        conditions: Vec<Condition<'a>>,
        declared_features: Vec<Text<'a>>,
    }

    struct NodeImage<'a> {
        names: Vec<Text<'a>>,
        size_bytes: i64,
    }

    /// The spec of a Service or ReplicationController: they select by plain labels.
    struct PlainSelectorSpec<'a> {
        /// Selects no pods if absent.
        selector: Option<Pairs<'a, Text<'a>>>,
    }

    /// The spec of a ReplicaSet, StatefulSet or PodDisruptionBudget.
    struct SelectorSpec<'a> {
        /// Selects no pods if absent.
        selector: Option<LabelSelector<'a>>,
    }

    struct BudgetStatus<'a> {
        disruptions_allowed: i32,
        /// By pod name: evictions that are counted already. When they were does not matter.
        disrupted_pods: Pairs<'a, IgnoredAny>,
    }

    struct Phase<'a> {
        phase: Text<'a>,
    }

    struct VolumeSpec<'a> {
        capacity: Pairs<'a, Amount>,
        access_modes: Vec<Text<'a>>,
        claim_ref: Option<ObjectRef<'a>>,
        storage_class_name: Text<'a>,
        /// `Filesystem` or `Block`.
        volume_mode: Text<'a>,
        volume_attributes_class_name: Text<'a>,
        node_affinity: Option<VolumeNodeAffinity<'a>>,
        csi: Option<CsiSource<'a>>,
        gce_persistent_disk: Option<GcePd<'a>>,
        aws_elastic_block_store: Option<VolumeId<'a>>,
        azure_disk: Option<AzureDisk<'a>>,
        cinder: Option<VolumeId<'a>>,
        portworx_volume: Option<VolumeId<'a>>,
    }

    struct ObjectRef<'a> {
        namespace: Text<'a>,
        name: Text<'a>,
        uid: Text<'a>,
    }

    struct VolumeNodeAffinity<'a> {
        required: Option<NodeSelector<'a>>,
    }

    struct CsiSource<'a> {
        driver: Text<'a>,
        volume_handle: Text<'a>,
    }

    struct ClaimSpec<'a> {
        access_modes: Vec<Text<'a>>,
        resources: Resources<'a>,
        selector: Option<LabelSelector<'a>>,
        storage_class_name: Text<'a>,
        /// `Filesystem` or `Block`.
        volume_mode: Text<'a>,
        volume_attributes_class_name: Text<'a>,
        volume_name: Text<'a>,
    }

    struct TopologyTerm<'a> {
        match_label_expressions: Vec<TopologyRequirement<'a>>,
    }

    struct TopologyRequirement<'a> {
        key: Text<'a>,
        values: Vec<Text<'a>>,
    }

    struct CsiNodeSpec<'a> {
        drivers: Vec<CsiNodeDriver<'a>>,
    }

    struct CsiNodeDriver<'a> {
        name: Text<'a>,
        allocatable: Option<DriverLimits>,
    }

    struct AttachmentSpec<'a> {
        attacher: Text<'a>,
        node_name: Text<'a>,
        source: AttachmentSource<'a>,
    }

    struct AttachmentSource<'a> {
        /// The PersistentVolume; none for a volume named in a pod.
        persistent_volume_name: Text<'a>,
    }

    struct ClaimSource<'a> {
        claim_name: Text<'a>,
    }

    /// A CSI volume of a pod's own.
    struct InlineCsi<'a> {
        driver: Text<'a>,
    }

    struct GcePd<'a> {
        pd_name: Text<'a>,
        read_only: bool,
    }

    /// A volume of EBS, OpenStack or Portworx.
    struct VolumeId<'a> {
        #[serde(rename = "volumeID")]
        volume_id: Text<'a>,
    }

    struct Iscsi<'a> {
        iqn: Text<'a>,
        read_only: bool,
    }

    /// A Ceph block device.
    struct Rbd<'a> {
        monitors: Vec<Text<'a>>,
        image: Text<'a>,
        /// The pool, `rbd` if absent.
        pool: Text<'a>,
        read_only: bool,
    }

    struct AzureDisk<'a> {
        disk_name: Text<'a>,
        #[serde(rename = "diskURI")]
        disk_uri: Text<'a>,
        /// `Shared` (if absent), `Dedicated` or `Managed`.
        kind: Text<'a>,
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
pub struct DriverLimits {
    /// How many volumes the driver can attach to the node; absent for no limit.
    pub count: Option<i32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsiDriverSpec {
    pub storage_capacity: Option<bool>,
}

impl PodStatus<'_> {
    /// Whether the pod has succeeded or failed.
    pub fn is_finished(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }
}
