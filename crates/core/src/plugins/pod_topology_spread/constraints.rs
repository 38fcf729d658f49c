use super::default_selector::default_selector;
use crate::model::{LabelSelector, PodShape, SpreadConstraint, Str};
use crate::plugins::PluginContext;
use crate::plugins::counts::{Alike, ByShape, LayoutKey};
use crate::profile::SpreadDefaults;
use std::sync::Arc;

/// The label that names a node; pods on it are counted by node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A constraint of one shape, ready to be asked.
#[derive(Debug)]
pub(super) struct Constraint {
    pub(super) max_skew: i64,
    pub(super) min_domains: i64,
    /// Whether the pod itself is one of those alike.
    pub(super) matches_self: bool,
    /// Whether domains are single nodes by name.
    pub(super) by_host: bool,
    pub(super) selector: Option<LabelSelector>,
    pub(super) layout: Arc<LayoutKey>,
    /// Whom to count; none where no placed pod counts.
    pub(super) alike: Option<Arc<Alike>>,
}

/// What one shape asks for.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) hard: Vec<Constraint>,
    pub(super) soft: Vec<Constraint>,
    /// Whether a node must have every label of the soft constraints to be scored and to count.
    pub(super) requires_all: bool,
}

impl Plan {
    fn new(cx: PluginContext<'_>, shape: &PodShape) -> Self {
        let of = |all: &[SpreadConstraint], requires_all| Self {
            hard: constraints(shape, all, true, true),
            soft: constraints(shape, all, false, requires_all),
            requires_all,
        };
        if !shape.spread.is_empty() {
            return of(&shape.spread, true);
        }
        let (defaults, requires_all) = match &cx.profile.spread_defaults {
            SpreadDefaults::System => (system_defaults().to_vec(), false),
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

/// What upstream spreads by where nobody says anything.
fn system_defaults() -> [SpreadConstraint; 2] {
    [(HOSTNAME, 3), (ZONE, 5)].map(|(key, max_skew)| SpreadConstraint {
        max_skew,
        topology_key: key.into(),
        hard: false,
        selector: None,
        min_domains: 1,
        honor_affinity: true,
        honor_taints: false,
    })
}

fn constraints(shape: &PodShape, all: &[SpreadConstraint], hard: bool, requires_all: bool) -> Vec<Constraint> {
    let wanted = || all.iter().filter(|c| c.hard == hard);
    let mut required: Vec<Str> =
        if requires_all { wanted().map(|c| c.topology_key.clone()).collect() } else { Vec::new() };
    required.sort_unstable();
    required.dedup();
    let required: Arc<[Str]> = required.into();
    wanted().map(|c| constraint(shape, c, &required)).collect()
}

fn constraint(shape: &PodShape, given: &SpreadConstraint, required: &Arc<[Str]>) -> Constraint {
    let by_host = &*given.topology_key == HOSTNAME;
    let layout = LayoutKey {
        topology_key: given.topology_key.clone(),
        required: required.clone(),
        affinity: None,
        tolerations: None,
    };
    // The score counts a node's own pods whatever the policies say of the node.
    let policies = given.hard || !by_host;
    let layout = layout.with_policies(shape, given.honor_affinity && policies, given.honor_taints && policies);
    // A selector without requirements counts no placed pod, as upstream.
    let counted = given.selector.clone().filter(|s| !s.requirements.is_empty());
    Constraint {
        max_skew: given.max_skew.into(),
        min_domains: given.min_domains.into(),
        matches_self: given.selector.as_ref().is_some_and(|s| s.matches(&shape.labels)),
        by_host,
        selector: given.selector.clone(),
        layout: Arc::new(layout),
        alike: counted
            .map(|selector| Arc::new(Alike { namespace: shape.namespace.clone(), selectors: vec![selector] })),
    }
}

/// Plans by shape.
#[derive(Debug, Default)]
pub(super) struct Plans(ByShape<Plan>);

impl Plans {
    /// What `shape` asks for; none where that is nothing.
    pub(super) fn get(&mut self, cx: PluginContext<'_>, shape: &Arc<PodShape>) -> Option<Arc<Plan>> {
        // A pod with constraints of its own depends on nothing else.
        let version = if shape.spread.is_empty() { cx.ledger.workloads(&shape.namespace)?.version() } else { 0 };
        Some(self.0.get(shape, version, || Plan::new(cx, shape)))
    }
}
