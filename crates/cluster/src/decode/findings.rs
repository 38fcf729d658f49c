//! Why a pod is held: it asks for what this version does not implement or know, or lists too much to be decided about,
//! since the work of a decision grows with what the pod lists.

use super::resources::is_sidecar;
use crate::slim::{Container, Expression, LabelSelector, NodeSelectorTerm, PodAffinityTerm, PodSpec};
use berth_core::limits;
use berth_core::model::{Feature, PodVolume, PodVolumes};

const NODE_AFFINITY: &str = "spec.affinity.nodeAffinity";
const POD_AFFINITY: &str = "spec.affinity.podAffinity";
const POD_ANTI_AFFINITY: &str = "spec.affinity.podAntiAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The reasons to hold a pod.
#[derive(Debug, Default)]
pub(super) struct Findings {
    holds: Vec<Feature>,
}

impl Findings {
    /// Notes a value that this version does not know.
    pub(super) fn unknown(&mut self, field: &str, value: &str) {
        let value: String = value.chars().take(64).collect();
        self.holds.push(Feature::UnknownValue(format!("{field}={value}").into()));
    }

    /// The reasons, sorted and each once.
    pub(super) fn finish(mut self) -> Vec<Feature> {
        self.holds.sort();
        self.holds.dedup();
        self.holds
    }

    /// Notes every feature of `spec` that this version does not implement.
    pub(super) fn read(&mut self, spec: &PodSpec<'_>) {
        self.hold_if(spec.scheduling_group.is_some(), || Feature::PodGroup);
    }

    pub(super) fn hold_if(&mut self, condition: bool, feature: impl FnOnce() -> Feature) {
        if condition {
            self.holds.push(feature());
        }
    }

    /// Notes every list of `spec`, whose volumes were read as `volumes`, that is longer than its limit; returns whether all are within.
    pub(super) fn is_within_limits(&mut self, spec: &PodSpec<'_>, volumes: Option<&PodVolumes>) -> bool {
        let mut lists = Lists { findings: self, within: true, values: 0 };
        lists.read(spec, volumes);
        lists.within
    }
}

struct Lists<'a> {
    findings: &'a mut Findings,
    within: bool,
    /// Keys and values of all selectors so far.
    values: usize,
}

impl Lists<'_> {
    fn read(&mut self, spec: &PodSpec<'_>, volumes: Option<&PodVolumes>) {
        let main = &spec.containers;
        let containers = main.len() + spec.init_containers.len();
        self.check("spec.containers and spec.initContainers", containers, limits::CONTAINERS_PER_POD);
        let runs = spec.init_containers.iter().filter(|c| is_sidecar(c)).chain(main);
        let ports = runs.map(|c: &Container<'_>| c.ports.iter().filter(|port| port.host_port > 0).count()).sum();
        self.check("spec.containers[].ports[].hostPort", ports, limits::HOST_PORTS_PER_POD);
        self.check("spec.volumes", spec.volumes.len(), limits::VOLUMES_PER_POD);
        // A driver that is named inline makes the volume for this pod alone.
        let is_storage = |volume: &&PodVolume| !matches!(volume, PodVolume::Csi { .. });
        let storage = volumes.map_or(0, |volumes| volumes.iter().filter(is_storage).count());
        self.check("spec.volumes (claims, ephemeral volumes and disks)", storage, limits::STORAGE_PER_POD);
        self.check("spec.resourceClaims", spec.resource_claims.len(), limits::RESOURCE_CLAIMS_PER_POD);
        let images = spec.volumes.iter().filter_map(|volume| volume.rbd.as_ref());
        let monitors = images.map(|image| image.monitors.len()).sum();
        self.check("spec.volumes[].rbd.monitors", monitors, limits::VOLUMES_PER_POD);
        self.check("spec.tolerations", spec.tolerations.len(), limits::TOLERATIONS_PER_POD);
        let constraints = &spec.topology_spread_constraints;
        self.check("spec.topologySpreadConstraints", constraints.len(), limits::SPREAD_CONSTRAINTS_PER_POD);
        for constraint in constraints {
            self.values += constraint.match_label_keys.len();
            self.values += values_of_selector(constraint.label_selector.as_ref());
        }
        self.affinity(spec);
        self.values += spec.node_selector.len();
        self.check("the selectors of the pod (keys and values)", self.values, limits::SELECTOR_VALUES_PER_POD);
    }

    fn affinity(&mut self, spec: &PodSpec<'_>) {
        let Some(affinity) = &spec.affinity else { return };
        if let Some(node) = &affinity.node_affinity {
            let required = node.required.as_ref().map_or(&[][..], |required| &required.node_selector_terms);
            self.terms(NODE_AFFINITY, REQUIRED, required.len(), limits::NODE_AFFINITY_TERMS_PER_POD);
            self.terms(NODE_AFFINITY, PREFERRED, node.preferred.len(), limits::NODE_AFFINITY_TERMS_PER_POD);
            let all = required.iter().chain(node.preferred.iter().map(|preferred| &preferred.preference));
            self.values += all.map(values_of_node_term).sum::<usize>();
        }
        for (field, pods) in [(POD_AFFINITY, &affinity.pod_affinity), (POD_ANTI_AFFINITY, &affinity.pod_anti_affinity)]
        {
            self.terms(field, REQUIRED, pods.required.len(), limits::POD_AFFINITY_TERMS_PER_POD);
            self.terms(field, PREFERRED, pods.preferred.len(), limits::POD_AFFINITY_TERMS_PER_POD);
            let terms = pods.required.iter().chain(pods.preferred.iter().map(|p| &p.pod_affinity_term));
            self.values += terms.map(values_of_term).sum::<usize>();
        }
    }

    fn terms(&mut self, field: &str, list: &str, count: usize, limit: usize) {
        if count > limit {
            self.check(&format!("{field}.{list}"), count, limit);
        }
    }

    fn check(&mut self, field: &str, count: usize, limit: usize) {
        self.within &= count <= limit;
        self.findings.hold_if(count > limit, || Feature::TooLarge { field: field.into(), count, limit });
    }
}

pub(super) fn values_of_node_term(term: &NodeSelectorTerm<'_>) -> usize {
    values_of(&term.match_expressions) + values_of(&term.match_fields)
}

/// Namespaces, keys and values that a term of pod affinity lists.
pub(super) fn values_of_term(term: &PodAffinityTerm<'_>) -> usize {
    let selectors = [term.label_selector.as_ref(), term.namespace_selector.as_ref()];
    term.namespaces.len() + selectors.into_iter().map(values_of_selector).sum::<usize>()
}

/// Keys and values that a label selector lists: a label with its value counts as one.
pub(super) fn values_of_selector(selector: Option<&LabelSelector<'_>>) -> usize {
    selector.map_or(0, |selector| selector.match_labels.len() + values_of(&selector.match_expressions))
}

fn values_of(expressions: &[Expression<'_>]) -> usize {
    expressions.iter().map(|expression| 1 + expression.values.len()).sum()
}
