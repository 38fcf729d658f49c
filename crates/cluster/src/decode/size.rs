//! Whether a pending pod is small enough to be decided about: the work of a decision grows with what the pod lists.

use super::features::Findings;
use super::resources::is_sidecar;
use crate::slim::{Container, Expression, LabelSelector, NodeSelectorTerm, PodAffinityTerm, PodSpec};
use berth_core::limits;
use berth_core::model::Feature;

const NODE_AFFINITY: &str = "spec.affinity.nodeAffinity";
const POD_AFFINITY: &str = "spec.affinity.podAffinity";
const POD_ANTI_AFFINITY: &str = "spec.affinity.podAntiAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Notes every list of `spec` that is longer than its limit; returns whether all are within.
pub(super) fn is_within_limits(spec: &PodSpec<'_>, findings: &mut Findings) -> bool {
    let mut lists = Lists { findings, within: true, values: 0 };
    lists.read(spec);
    lists.within
}

struct Lists<'a> {
    findings: &'a mut Findings,
    within: bool,
    /// Keys and values of all selectors so far.
    values: usize,
}

impl Lists<'_> {
    fn read(&mut self, spec: &PodSpec<'_>) {
        let main = &spec.containers;
        let containers = main.len() + spec.init_containers.len();
        self.check("spec.containers and spec.initContainers", containers, limits::CONTAINERS_PER_POD);
        let runs = spec.init_containers.iter().filter(|c| is_sidecar(c)).chain(main);
        let ports = runs.map(|c: &Container<'_>| c.ports.iter().filter(|port| port.host_port > 0).count()).sum();
        self.check("spec.containers[].ports[].hostPort", ports, limits::HOST_PORTS_PER_POD);
        self.check("spec.volumes", spec.volumes.len(), limits::VOLUMES_PER_POD);
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
        if count > limit {
            self.within = false;
            self.findings.hold(Feature::TooLarge { field: field.into(), count, limit });
        }
    }
}

fn values_of_node_term(term: &NodeSelectorTerm<'_>) -> usize {
    values_of(&term.match_expressions) + values_of(&term.match_fields)
}

/// Namespaces, keys and values that a term of pod affinity lists.
pub(super) fn values_of_term(term: &PodAffinityTerm<'_>) -> usize {
    let selectors = [term.label_selector.as_ref(), term.namespace_selector.as_ref()];
    term.namespaces.len() + selectors.into_iter().map(values_of_selector).sum::<usize>()
}

fn values_of_selector(selector: Option<&LabelSelector<'_>>) -> usize {
    selector.map_or(0, |selector| selector.match_labels.len() + values_of(&selector.match_expressions))
}

fn values_of(expressions: &[Expression<'_>]) -> usize {
    expressions.iter().map(|expression| 1 + expression.values.len()).sum()
}
