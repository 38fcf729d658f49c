use crate::ledger::Ledger;
use crate::model::{
    Footprint, HOSTNAME, LabelSelector, PodShape, Requirement, SpreadConstraint, Str, WorkloadKind, ZONE,
};
use crate::plugins::cache::CacheKey;
use crate::plugins::context::PluginContext;
use crate::plugins::counts::{Alike, Eligibility, LayoutKey};
use crate::profile::SpreadDefaults;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A constraint of one shape, resolved.
#[derive(Debug)]
pub(super) struct Constraint {
    pub(super) max_skew: i64,
    pub(super) min_domains: i64,
    /// Whether the selector matches the pod itself.
    pub(super) matches_self: bool,
    /// Whether the nodes' own pods are read instead of those of domains: for a score by host name.
    pub(super) by_node: bool,
    pub(super) layout: Arc<CacheKey<LayoutKey>>,
    /// The pods that the selector matches; `None` where there is no selector.
    selected: Option<Arc<CacheKey<Alike>>>,
    /// Bytes that were copied or hashed to resolve it: far fewer than are kept where the pod has many labels.
    resolved_from: usize,
}

impl Constraint {
    pub(super) fn selector(&self) -> Option<&LabelSelector> {
        self.selected.as_ref().and_then(|alike| alike.selectors.first())
    }

    /// The pods to count; `None` where no placed pod counts. A selector without requirements counts none, as upstream.
    pub(super) fn alike(&self) -> Option<&Arc<CacheKey<Alike>>> {
        self.selected.as_ref().filter(|_| self.selector().is_some_and(|s| !s.requirements.is_empty()))
    }

    fn heap_bytes(&self) -> usize {
        let selected = self.selected.as_ref().map_or(0, |alike| size_of_val(&**alike) + alike.bytes());
        size_of_val(&*self.layout) + self.layout.bytes() + selected
    }
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
    pub(super) fn new(cx: PluginContext<'_>, shape: &Arc<PodShape>) -> Self {
        let of = |all: &[SpreadConstraint], requires_all| Self {
            hard: constraints(cx.ledger, shape, all, true, true),
            soft: constraints(cx.ledger, shape, all, false, requires_all),
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

    pub(super) fn heap_bytes(&self) -> usize {
        let all = self.hard.iter().chain(&self.soft);
        size_of::<Self>() + all.map(|one| size_of::<Constraint>() + one.heap_bytes()).sum::<usize>()
    }

    /// Bytes that were copied or hashed to make it.
    pub(super) fn resolved_from(&self) -> usize {
        self.hard.iter().chain(&self.soft).map(|one| one.resolved_from).sum()
    }
}

fn constraints(
    ledger: &Ledger,
    shape: &Arc<PodShape>,
    all: &[SpreadConstraint],
    hard: bool,
    requires_all: bool,
) -> Vec<Constraint> {
    let wanted: SmallVec<[&SpreadConstraint; 2]> = all.iter().filter(|c| c.hard == hard).collect();
    let mut required: Vec<Str> = wanted.iter().filter(|_| requires_all).map(|c| c.topology_key.clone()).collect();
    required.sort_unstable();
    required.dedup();
    let mut policies = Policies { ledger, shape, required: required.into(), known: SmallVec::new() };
    let eligible: SmallVec<[Arc<CacheKey<Eligibility>>; 2]> = wanted.iter().map(|c| policies.of(c)).collect();
    let constraint = |(c, own): (&&SpreadConstraint, &Arc<CacheKey<Eligibility>>)| {
        let sharers = eligible.iter().filter(|other| Arc::ptr_eq(other, own)).count();
        constraint(ledger, shape, c, own, sharers)
    };
    wanted.iter().zip(&eligible).map(constraint).collect()
}

/// Which nodes count for the constraints of one shape, once for each combination of policies.
struct Policies<'a> {
    ledger: &'a Ledger,
    shape: &'a Arc<PodShape>,
    required: Arc<[Str]>,
    known: SmallVec<[Arc<CacheKey<Eligibility>>; 1]>,
}

impl Policies<'_> {
    /// A policy that excludes no node is left out.
    fn of(&mut self, given: &SpreadConstraint) -> Arc<CacheKey<Eligibility>> {
        let by_node = counts_by_node(given);
        let selects = !self.shape.row.node_selector.is_empty() || self.shape.row.required_affinity.is_some();
        let honor_affinity = given.honor_affinity && !by_node && selects;
        let honor_taints = given.honor_taints && !by_node;
        let same =
            |e: &&Arc<CacheKey<Eligibility>>| (e.honor_affinity, e.honor_taints) == (honor_affinity, honor_taints);
        if let Some(known) = self.known.iter().find(same) {
            return known.clone();
        }
        let row = (honor_affinity || honor_taints).then(|| self.shape.row.clone());
        let bytes = row.as_ref().map_or(0, Footprint::heap_bytes) + self.required.len() * size_of::<Str>();
        let required = self.required.clone();
        let eligibility = Eligibility::new(required, row, honor_affinity, honor_taints);
        let made = Arc::new(CacheKey::new(self.ledger, eligibility, bytes));
        self.known.push(made.clone());
        made
    }
}

/// The score counts a node's own pods whatever the policies say of the node.
fn counts_by_node(given: &SpreadConstraint) -> bool {
    !given.hard && &*given.topology_key == HOSTNAME
}

/// `sharers`: how many constraints share what `eligible` keeps.
fn constraint(
    ledger: &Ledger,
    shape: &PodShape,
    given: &SpreadConstraint,
    eligible: &Arc<CacheKey<Eligibility>>,
    sharers: usize,
) -> Constraint {
    let bytes = given.topology_key.len() + eligible.bytes() / sharers;
    let key = LayoutKey { topology_key: given.topology_key.clone(), eligible: eligible.clone() };
    let alike = |selector| Alike { namespace: shape.namespace.clone(), selectors: vec![selector] };
    let selected = given.selector.clone().map(|selector| alike(selector).into_key(ledger));
    let copied = selected.as_ref().map_or(0, |alike| alike.bytes());
    Constraint {
        max_skew: given.max_skew.into(),
        min_domains: given.min_domains.into(),
        matches_self: given.selector.as_ref().is_some_and(|s| s.matches(&shape.labels)),
        by_node: counts_by_node(given),
        layout: Arc::new(CacheKey::new(ledger, key, bytes)),
        selected,
        resolved_from: size_of::<Constraint>() + given.topology_key.len() + copied + eligible.hashed_bytes() / sharers,
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
    let equals = labels.into_iter().map(|(key, value)| Requirement::equals(key, value));
    LabelSelector { requirements: equals.chain(more).collect() }
}
