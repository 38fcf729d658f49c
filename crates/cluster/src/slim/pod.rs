use super::disk::{AzureDisk, ClaimSource, GcePd, InlineCsi, Iscsi, Rbd, VolumeId};
use super::text::nullable;
use super::{Amount, Pairs, Text};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What is read of a pod's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec<'a> {
    /// Volumes.
    #[serde(borrow, deserialize_with = "nullable")]
    pub volumes: Vec<Volume<'a>>,
    /// Init containers, sidecars among them.
    #[serde(borrow, deserialize_with = "nullable")]
    pub init_containers: Vec<Container<'a>>,
    /// Containers.
    #[serde(borrow, deserialize_with = "nullable")]
    pub containers: Vec<Container<'a>>,
    /// Labels its node must have.
    #[serde(borrow)]
    pub node_selector: Pairs<'a, Text<'a>>,
    /// Where it is bound.
    #[serde(borrow)]
    pub node_name: Text<'a>,
    /// Affinity.
    #[serde(borrow)]
    pub affinity: Option<Affinity<'a>>,
    /// Who is to schedule it.
    #[serde(borrow)]
    pub scheduler_name: Text<'a>,
    /// Tolerations.
    #[serde(borrow, deserialize_with = "nullable")]
    pub tolerations: Vec<Toleration<'a>>,
    /// Priority.
    pub priority: Option<i32>,
    /// `Never` for a pod that evicts no other.
    #[serde(borrow)]
    pub preemption_policy: Text<'a>,
    /// What running it costs beside its containers.
    #[serde(borrow)]
    pub overhead: Pairs<'a, Amount>,
    /// Spread constraints.
    #[serde(borrow, deserialize_with = "nullable")]
    pub topology_spread_constraints: Vec<SpreadConstraint<'a>>,
    /// Gates.
    #[serde(borrow, deserialize_with = "nullable")]
    pub scheduling_gates: Vec<Named<'a>>,
    /// Claims, of which only the number is read.
    #[serde(deserialize_with = "nullable")]
    pub resource_claims: Vec<IgnoredAny>,
    /// Resources of the pod as a whole.
    #[serde(borrow)]
    pub resources: Option<Resources<'a>>,
    /// Whether it uses the host's network.
    #[serde(deserialize_with = "nullable")]
    pub host_network: bool,
    /// Whether it uses the host's user namespace; so it does where this is not set.
    pub host_users: Option<bool>,
    /// The group it is scheduled with.
    pub scheduling_group: Option<IgnoredAny>,
}

/// A thing of which only the name is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Named<'a> {
    /// Its name.
    #[serde(borrow)]
    pub name: Text<'a>,
}

/// A container or init container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container<'a> {
    /// Its name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// Its image.
    #[serde(borrow)]
    pub image: Text<'a>,
    /// Its ports.
    #[serde(borrow, deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort<'a>>,
    /// Its resources.
    #[serde(borrow, deserialize_with = "nullable")]
    pub resources: Resources<'a>,
    /// `Always` makes an init container a sidecar.
    #[serde(borrow)]
    pub restart_policy: Text<'a>,
    /// What its end does.
    #[serde(borrow, deserialize_with = "nullable")]
    pub restart_policy_rules: Vec<RestartRule<'a>>,
}

/// What the end of a container does.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RestartRule<'a> {
    /// `Restart` or `RestartAllContainers`.
    #[serde(borrow)]
    pub action: Text<'a>,
}

/// A container's port.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort<'a> {
    /// The port on the node.
    #[serde(deserialize_with = "nullable")]
    pub host_port: i32,
    /// TCP, UDP or SCTP.
    #[serde(borrow)]
    pub protocol: Text<'a>,
    /// The node's address it is bound to.
    #[serde(borrow, rename = "hostIP")]
    pub host_ip: Text<'a>,
}

/// Requests; limits are not read, since the API server defaults requests from them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Resources<'a> {
    /// What is asked for.
    #[serde(borrow)]
    pub requests: Pairs<'a, Amount>,
}

/// Affinity.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity<'a> {
    /// To nodes.
    #[serde(borrow)]
    pub node_affinity: Option<NodeAffinity<'a>>,
    /// To pods.
    #[serde(borrow, deserialize_with = "nullable")]
    pub pod_affinity: PodAffinity<'a>,
    /// Away from pods.
    #[serde(borrow, deserialize_with = "nullable")]
    pub pod_anti_affinity: PodAffinity<'a>,
}

/// Affinity to nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeAffinity<'a> {
    /// What must match.
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector<'a>>,
    /// What should match.
    #[serde(borrow, rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    pub preferred: Vec<PreferredTerm<'a>>,
}

/// Terms of which one must match.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector<'a> {
    /// The terms.
    #[serde(borrow, deserialize_with = "nullable")]
    pub node_selector_terms: Vec<NodeSelectorTerm<'a>>,
}

/// Expressions of which all must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm<'a> {
    /// Over labels.
    #[serde(borrow, deserialize_with = "nullable")]
    pub match_expressions: Vec<Expression<'a>>,
    /// Over fields.
    #[serde(borrow, deserialize_with = "nullable")]
    pub match_fields: Vec<Expression<'a>>,
}

/// A preferred term.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PreferredTerm<'a> {
    /// Its weight.
    #[serde(deserialize_with = "nullable")]
    pub weight: i32,
    /// The term.
    #[serde(borrow, deserialize_with = "nullable")]
    pub preference: NodeSelectorTerm<'a>,
}

/// A key, an operator and values.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Expression<'a> {
    /// The key.
    #[serde(borrow)]
    pub key: Text<'a>,
    /// The operator, as text.
    #[serde(borrow)]
    pub operator: Text<'a>,
    /// The values.
    #[serde(borrow, deserialize_with = "nullable")]
    pub values: Vec<Text<'a>>,
}

/// A selector over labels.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector<'a> {
    /// Labels that must be there.
    #[serde(borrow)]
    pub match_labels: Pairs<'a, Text<'a>>,
    /// Expressions that must hold.
    #[serde(borrow, deserialize_with = "nullable")]
    pub match_expressions: Vec<Expression<'a>>,
}

/// Affinity or anti-affinity to pods.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodAffinity<'a> {
    /// Required terms.
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    pub required: Vec<PodAffinityTerm<'a>>,
    /// Preferred terms.
    #[serde(borrow, rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    pub preferred: Vec<WeightedPodAffinityTerm<'a>>,
}

/// A preferred term over pods.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WeightedPodAffinityTerm<'a> {
    /// Its weight.
    #[serde(deserialize_with = "nullable")]
    pub weight: i32,
    /// The term.
    #[serde(borrow, deserialize_with = "nullable")]
    pub pod_affinity_term: PodAffinityTerm<'a>,
}

/// A term over pods. The API server has merged `matchLabelKeys` into the selector.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinityTerm<'a> {
    /// Which pods; none without it.
    #[serde(borrow)]
    pub label_selector: Option<LabelSelector<'a>>,
    /// In which namespaces, by name.
    #[serde(borrow, deserialize_with = "nullable")]
    pub namespaces: Vec<Text<'a>>,
    /// In which namespaces, by label.
    #[serde(borrow)]
    pub namespace_selector: Option<LabelSelector<'a>>,
    /// The node label that makes a domain.
    #[serde(borrow)]
    pub topology_key: Text<'a>,
}

/// A toleration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Toleration<'a> {
    /// The taint's key.
    #[serde(borrow)]
    pub key: Text<'a>,
    /// The operator, as text.
    #[serde(borrow)]
    pub operator: Text<'a>,
    /// The taint's value.
    #[serde(borrow)]
    pub value: Text<'a>,
    /// The taint's effect, as text.
    #[serde(borrow)]
    pub effect: Text<'a>,
}

/// A spread constraint.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpreadConstraint<'a> {
    /// How uneven it may be.
    #[serde(deserialize_with = "nullable")]
    pub max_skew: i32,
    /// The node label that makes a domain.
    #[serde(borrow)]
    pub topology_key: Text<'a>,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    #[serde(borrow)]
    pub when_unsatisfiable: Text<'a>,
    /// Which pods are alike; none without it.
    #[serde(borrow)]
    pub label_selector: Option<LabelSelector<'a>>,
    /// Labels of which alike pods have the pod's own values.
    #[serde(borrow, deserialize_with = "nullable")]
    pub match_label_keys: Vec<Text<'a>>,
    /// Below so many domains the emptiest counts as empty.
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`.
    #[serde(borrow)]
    pub node_affinity_policy: Text<'a>,
    /// `Honor` or `Ignore`.
    #[serde(borrow)]
    pub node_taints_policy: Text<'a>,
}

/// A volume: which of the sources that concern a scheduler it has.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume<'a> {
    /// Its name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// A claim.
    #[serde(borrow)]
    pub persistent_volume_claim: Option<ClaimSource<'a>>,
    /// A claim of the pod's own.
    pub ephemeral: Option<IgnoredAny>,
    /// An image.
    #[serde(borrow)]
    pub image: Option<ImageVolume<'a>>,
    /// A GCE disk.
    #[serde(borrow)]
    pub gce_persistent_disk: Option<GcePd<'a>>,
    /// An EBS volume.
    #[serde(borrow)]
    pub aws_elastic_block_store: Option<VolumeId<'a>>,
    /// An iSCSI target.
    #[serde(borrow)]
    pub iscsi: Option<Iscsi<'a>>,
    /// A Ceph block device.
    #[serde(borrow)]
    pub rbd: Option<Rbd<'a>>,
    /// An Azure disk.
    #[serde(borrow)]
    pub azure_disk: Option<AzureDisk<'a>>,
    /// An Azure file share.
    pub azure_file: Option<IgnoredAny>,
    /// An OpenStack volume.
    #[serde(borrow)]
    pub cinder: Option<VolumeId<'a>>,
    /// A vSphere disk.
    pub vsphere_volume: Option<IgnoredAny>,
    /// A Portworx volume.
    #[serde(borrow)]
    pub portworx_volume: Option<VolumeId<'a>>,
    /// A CSI volume of the pod's own.
    #[serde(borrow)]
    pub csi: Option<InlineCsi<'a>>,
}

/// An image mounted as a volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ImageVolume<'a> {
    /// The image's name.
    #[serde(borrow)]
    pub reference: Text<'a>,
}

/// What is read of a pod's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus<'a> {
    /// The phase, as text.
    #[serde(borrow)]
    pub phase: Text<'a>,
    /// Conditions.
    #[serde(borrow, deserialize_with = "nullable")]
    pub conditions: Vec<Condition<'a>>,
    /// `Guaranteed`, `Burstable` or `BestEffort`; the API server sets it.
    #[serde(borrow, rename = "qosClass")]
    pub quality: Text<'a>,
    /// The node it is to go to once there is room.
    #[serde(borrow)]
    pub nominated_node_name: Text<'a>,
    /// When its kubelet took it up, RFC 3339.
    #[serde(borrow)]
    pub start_time: Text<'a>,
    /// Init containers.
    #[serde(borrow, deserialize_with = "nullable")]
    pub init_container_statuses: Vec<ContainerStatus<'a>>,
    /// Containers.
    #[serde(borrow, deserialize_with = "nullable")]
    pub container_statuses: Vec<ContainerStatus<'a>>,
    /// What the pod as a whole really has.
    #[serde(borrow)]
    pub resources: Option<Resources<'a>>,
    /// What its node set aside for the pod as a whole.
    #[serde(borrow)]
    pub allocated_resources: Pairs<'a, Amount>,
}

impl PodStatus<'_> {
    /// Whether it has succeeded or failed.
    pub fn is_finished(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }
}

/// A condition.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Condition<'a> {
    /// Its type.
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    /// `True`, `False` or `Unknown`.
    #[serde(borrow)]
    pub status: Text<'a>,
    /// Its reason.
    #[serde(borrow)]
    pub reason: Text<'a>,
    /// Its message.
    #[serde(borrow)]
    pub message: Text<'a>,
}

/// What a container really has.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus<'a> {
    /// The container's name.
    #[serde(borrow)]
    pub name: Text<'a>,
    /// What it has.
    #[serde(borrow)]
    pub resources: Option<Resources<'a>>,
    /// What its node set aside for it.
    #[serde(borrow)]
    pub allocated_resources: Pairs<'a, Amount>,
}
