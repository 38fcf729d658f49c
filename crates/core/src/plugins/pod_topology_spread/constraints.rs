use crate::ledger::Ledger;
use crate::model::{LabelSelector, PodShape, Requirement, RequirementOperator, SpreadConstraint, Str, WorkloadKind};
use crate::plugins::context::PluginContext;
use crate::plugins::counts::{Alike, LayoutKey};
use crate::profile::SpreadDefaults;
use std::collections::BTreeMap;
use std::sync::Arc;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A constraint of one shape, resolved.
#[derive(Debug)]
pub(super) struct Constraint {
    pub(super) max_skew: i64,
    pub(super) min_domains: i64,
    /// Whether the selector matches the pod itself.
    pub(super) matches_self: bool,
    /// Whether the nodes' own pods are read instead of those of domains: for a score by host name.
    pub(super) by_node: bool,
    pub(super) selector: Option<LabelSelector>,
    pub(super) layout: Arc<LayoutKey>,
    /// The pods to count; `None` where no placed pod counts.
    pub(super) alike: Option<Arc<Alike>>,
}

/// The constraints of one shape: its own, or the profile's defaults.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) hard: Vec<Constraint>,
    pub(super) soft: Vec<Constraint>,
    /// Whether a node must have every label of the soft constraints to be scored and to count.
    pub(super) requires_all: bool,
}

impl Plan {
    pub(super) fn new(cx: PluginContext<'_>, shape: &PodShape) -> Self {
        let of = |all: &[SpreadConstraint], requires_all| Self {
            hard: constraints(shape, all, true, true),
            soft: constraints(shape, all, false, requires_all),
            requires_all,
        };
        if !shape.spread.is_empty() {
            return of(&shape.spread, true);
        }
        let (defaults, requires_all) = match &cx.profile.spread_defaults {
            SpreadDefaults::System => (vec![SpreadDefaults::soft(HOSTNAME, 3), SpreadDefaults::soft(ZONE, 5)], false),
            SpreadDefaults::List(list) => (list.clone(), true),
        };
        let selector = default_selector(cx.ledger, shape);
        if selector.requirements.is_empty() {
            return of(&[], requires_all);
        }
        let with_selector = |c: SpreadConstraint| SpreadConstraint { selector: Some(selector.clone()), ..c };
        of(&defaults.into_iter().map(with_selector).collect::<Vec<_>>(), requires_all)
    }
}

fn constraints(shape: &PodShape, all: &[SpreadConstraint], hard: bool, requires_all: bool) -> Vec<Constraint> {
    let wanted = || all.iter().filter(|c| c.hard == hard);
    let mut required: Vec<Str> = wanted().filter(|_| requires_all).map(|c| c.topology_key.clone()).collect();
    required.sort_unstable();
    required.dedup();
    let required: Arc<[Str]> = required.into();
    wanted().map(|c| constraint(shape, c, &required)).collect()
}

fn constraint(shape: &PodShape, given: &SpreadConstraint, required: &Arc<[Str]>) -> Constraint {
    // The score counts a node's own pods whatever the policies say of the node. A policy that excludes no node is left out.
    let by_node = !given.hard && &*given.topology_key == HOSTNAME;
    let selects = !shape.node_selector.is_empty() || shape.required_affinity.is_some();
    let layout = LayoutKey {
        topology_key: given.topology_key.clone(),
        required: required.clone(),
        affinity: (given.honor_affinity && !by_node && selects)
            .then(|| (shape.node_selector.clone(), shape.required_affinity.clone())),
        tolerations: (given.honor_taints && !by_node).then(|| shape.tolerations.clone()),
    };
    // A selector without requirements counts no placed pod, as upstream.
    let counted = given.selector.clone().filter(|s| !s.requirements.is_empty());
    Constraint {
        max_skew: given.max_skew.into(),
        min_domains: given.min_domains.into(),
        matches_self: given.selector.as_ref().is_some_and(|s| s.matches(&shape.labels)),
        by_node,
        selector: given.selector.clone(),
        layout: Arc::new(layout),
        alike: counted
            .map(|selector| Arc::new(Alike { namespace: shape.namespace.clone(), selectors: vec![selector] })),
    }
}

/// The selector of the default constraints: it matches the pods that both the Services of the pod and its controller select. It has no
/// requirements where there is neither.
///
/// After `DefaultSelector` in `pkg/scheduler/framework/plugins/helper/spread.go`.
fn default_selector(ledger: &Ledger, shape: &PodShape) -> LabelSelector {
    let Some(workloads) = ledger.workloads(&shape.namespace) else { return LabelSelector::default() };
    let mut labels: BTreeMap<Str, Str> = BTreeMap::new();
    for selector in workloads.services_of(&shape.labels) {
        labels.extend(selector.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    let owner = shape.controller.as_ref().and_then(|owner| Some((WorkloadKind::of(owner)?, &owner.name)));
    let own = owner.and_then(|(kind, name)| Some((kind, workloads.controller(kind, name)?)));
    let mut more = Vec::new();
    match own {
        // The labels of the controller replace those of Services, where they differ.
        Some((WorkloadKind::ReplicationController, selector)) => {
            let value = |r: &Requirement| Some((r.key.clone(), r.values.first()?.clone()));
            labels.extend(selector.requirements.iter().filter_map(value));
        }
        Some((WorkloadKind::ReplicaSet | WorkloadKind::StatefulSet, selector)) => {
            more.clone_from(&selector.requirements);
        }
        None => {}
    }
    let is = |(key, value)| Requirement { key, operator: RequirementOperator::In, values: vec![value] };
    LabelSelector { requirements: labels.into_iter().map(is).chain(more).collect() }
}
