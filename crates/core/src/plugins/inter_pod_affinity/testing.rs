//! Short forms for the tests of this plugin.

use super::Tables;
use crate::ledger::{Ledger, NodeId};
use crate::model::{
    AffinityTerm, LabelSelector, Labels, Namespace, NamespaceScope, Pod, PodShape, Requirement, RequirementOperator,
    Str, WeightedTerm,
};
use crate::plugins::PluginContext;
use crate::plugins::{Cause, Code, Overlay, ResolvedPod, Verdict, Work};
use crate::profile::CompiledProfile;
use crate::testing::{node, pod, shape};
use std::sync::Arc;

/// Labels from `a=b c=d`.
pub(crate) fn labels(text: &str) -> Labels {
    text.split_whitespace().map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect()
}

/// A selector from requirements such as `a`, `!a`, `a=b|c` and `a!=b|c`, separated by spaces.
pub(crate) fn selector(text: &str) -> LabelSelector {
    let requirement = |text: &str| {
        let (operator, key, values) = match (text.split_once("!="), text.split_once('='), text.strip_prefix('!')) {
            (Some((key, values)), _, _) => (RequirementOperator::NotIn, key, values),
            (None, Some((key, values)), _) => (RequirementOperator::In, key, values),
            (None, None, Some(key)) => (RequirementOperator::DoesNotExist, key, ""),
            (None, None, None) => (RequirementOperator::Exists, text, ""),
        };
        let mut values: Vec<Str> = values.split('|').filter(|v| !v.is_empty()).map(Into::into).collect();
        values.sort();
        Requirement { key: key.into(), operator, values }
    };
    LabelSelector { requirements: text.split_whitespace().map(requirement).collect() }
}

/// A term over pods of the namespace `default`.
pub(crate) fn term(key: &str, pods: &str) -> AffinityTerm {
    AffinityTerm {
        selector: Some(selector(pods)),
        namespaces: NamespaceScope { names: vec!["default".into()], selector: None },
        topology_key: key.into(),
    }
}

/// A term over pods of namespaces by name and by label.
pub(crate) fn term_in(names: &[&str], namespaces: Option<&str>, key: &str, pods: &str) -> AffinityTerm {
    let mut names: Vec<Str> = names.iter().map(|name| (*name).into()).collect();
    names.sort();
    AffinityTerm { namespaces: NamespaceScope { names, selector: namespaces.map(selector) }, ..term(key, pods) }
}

/// A shape in the making.
#[derive(Debug, Clone)]
pub(crate) struct Asks(pub(crate) PodShape);

/// A pod of the namespace `default`.
pub(crate) fn labelled(text: &str) -> Asks {
    Asks(PodShape { labels: labels(text), ..shape() })
}

impl Asks {
    pub(crate) fn of(mut self, namespace: &str) -> Self {
        self.0.namespace = namespace.into();
        self
    }

    pub(crate) fn near(mut self, term: AffinityTerm) -> Self {
        self.0.affinity.push(term);
        self
    }

    pub(crate) fn away(mut self, term: AffinityTerm) -> Self {
        self.0.anti_affinity.push(term);
        self
    }

    pub(crate) fn rather(mut self, weight: i32, term: AffinityTerm) -> Self {
        self.0.preferred_pods.push(WeightedTerm { weight, term });
        self
    }

    pub(crate) fn named(&self, name: &str) -> Pod {
        pod(name, self.0.clone())
    }
}

/// A ledger with nodes `name: labels` and pods on nodes, and the namespaces of upstream's tests.
pub(crate) fn cluster(nodes: &[(&str, &str)], placed: &[(&str, Asks)]) -> Ledger {
    let mut ledger = Ledger::new();
    for (name, team) in [("sub1.team1", "1"), ("sub2.team1", "1"), ("sub1.team2", "2"), ("sub2.team2", "2")] {
        ledger.apply_namespace(Namespace { name: name.into(), labels: labels(&format!("team={team}")) });
    }
    for (name, text) in nodes {
        let mut object = node(name, 1000, 0, 100);
        object.labels = labels(text);
        ledger.apply_node(&object);
    }
    for (i, (on, asks)) in placed.iter().enumerate() {
        ledger.apply_pod(Pod { node_name: Some((*on).into()), ..asks.named(&format!("placed-{i}")) });
    }
    ledger
}

/// What PreFilter and Filter say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    Fits,
    Affinity,
    Anti,
    Existing,
}

impl Says {
    pub(crate) fn of(verdict: Verdict) -> Self {
        match (verdict.cause(), verdict.code()) {
            (Cause::None, _) => Self::Fits,
            (Cause::PodAffinity, Code::UnschedulableAndUnresolvable) => Self::Affinity,
            (Cause::PodAntiAffinity, Code::Unschedulable) => Self::Anti,
            (Cause::ExistingAntiAffinity, Code::Unschedulable) => Self::Existing,
            other => panic!("no verdict of this plugin: {other:?}"),
        }
    }
}

/// The nodes of a ledger, by name.
pub(crate) fn nodes_of(ledger: &Ledger) -> Vec<NodeId> {
    let mut nodes = ledger.node_order();
    nodes.sort_by_key(|node| ledger.nodes().name(*node).clone());
    nodes
}

/// The verdict of each of `nodes`; none where PreFilter skips the pod.
pub(crate) fn filter(
    tables: &mut Tables,
    cx: PluginContext<'_>,
    shape: &Arc<PodShape>,
    nodes: &[NodeId],
    overlay: &Overlay,
) -> Option<Vec<Says>> {
    let resolved = ResolvedPod::new(cx.profile, cx.ledger, shape);
    let hard = tables.prepare(cx, &resolved, &mut Work::unbounded()).expect("nothing stops")?;
    Some(nodes.iter().map(|node| Says::of(hard.filter(cx, &resolved, *node, overlay))).collect())
}

/// The normalised score of each of `nodes`; none where PreScore skips the pod.
pub(crate) fn score(
    tables: &mut Tables,
    cx: PluginContext<'_>,
    shape: &Arc<PodShape>,
    nodes: &[NodeId],
) -> Option<Vec<i64>> {
    let (resolved, mut out) = (ResolvedPod::new(cx.profile, cx.ledger, shape), Vec::new());
    let runs = tables.score(cx, &resolved, nodes, &mut out, &mut Work::unbounded());
    runs.expect("nothing stops").then_some(out)
}

/// The preset with upstream's defaults.
pub(crate) fn profile() -> CompiledProfile {
    CompiledProfile::default_preset("test")
}

/// The verdicts of a ledger's nodes, by name, from nothing.
pub(crate) fn verdicts(ledger: &Ledger, asks: &Asks) -> Option<Vec<Says>> {
    let cx = PluginContext { profile: &profile(), ledger };
    filter(&mut Tables::default(), cx, &Arc::new(asks.0.clone()), &nodes_of(ledger), Overlay::none())
}
