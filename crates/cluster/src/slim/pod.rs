use super::fields::slim;
use super::volume::{AzureDisk, ClaimSource, GcePd, InlineCsi, Iscsi, Rbd, VolumeId};
use super::{Amount, Pairs, Text};
use serde::de::IgnoredAny;

slim! {
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
        /// Only their number is read.
        resource_claims: Vec<IgnoredAny>,
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
        /// When its kubelet acknowledged it, RFC 3339.
        start_time: Text<'a>,
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
}

impl PodStatus<'_> {
    /// Whether the pod has succeeded or failed.
    pub fn is_finished(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }
}
