//! What filters alone say, without scores: where a pod fits, and everything that stands in its way on a node.

use super::explain::reasons;
use super::non_row_checks::NonRowChecks;
use super::search::judge_fresh;
use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, Str};
use crate::plugins::PluginSet;
use crate::plugins::node_affinity::{self, Named};
use crate::plugins::{Cause, Code, Plugin, PluginContext, Refusal, ResolvedPod, Stop, Tables, Verdict};
use crate::profile::CompiledProfile;

/// One filter's refusal of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The plugin.
    pub plugin: Plugin,
    /// What it refused for; `None` where its PreFilter refused the pod on all nodes.
    pub cause: Option<Cause>,
    /// The framework's code.
    pub code: Code,
    /// Upstream's texts.
    pub reasons: Vec<String>,
}

/// What the filters say of the nodes.
pub(super) enum Look {
    /// PreFilter refused the pod before any node was looked at.
    Refused(Refusal),
    /// Each node was judged.
    Judged {
        /// The first refusal of each, or that it fits.
        verdicts: Vec<(NodeId, Verdict)>,
        /// What the attempt says of a claim that is not there.
        missing: Option<Str>,
    },
}

/// The nodes that the profile places on, sorted by name: answers come so, and of several nodes that an attempt fails on the
/// first by name speaks.
pub(super) fn candidates(profile: &CompiledProfile, ledger: &Ledger) -> Vec<NodeId> {
    let mut nodes = ledger.node_order();
    nodes.retain(|node| profile.places_on(ledger.nodes().labels(*node)));
    nodes.sort_by(|a, b| ledger.nodes().name(*a).cmp(ledger.nodes().name(*b)));
    nodes
}

/// The filters' say of `nodes`, from nothing; upstream's text where the attempt fails.
pub(super) fn look(cx: PluginContext<'_>, pod: &Pod, subject: &ResolvedPod, nodes: &[NodeId]) -> Result<Look, Str> {
    let named = match node_affinity::named(&pod.shape) {
        _ if !cx.profile.filters.has(Plugin::NodeAffinity) => Named::Any,
        named => named,
    };
    if named == Named::Only(Vec::new()) {
        return Ok(Look::Refused(Refusal::unresolvable(Plugin::NodeAffinity, node_affinity::CONFLICT)));
    }
    let mut tables = Tables::default();
    let relations = match tables.pre_filter(cx, pod, subject) {
        Ok(relations) => relations,
        Err(Stop::Refused(refusal)) => return Ok(Look::Refused(refusal)),
        Err(Stop::Failed(text)) => return Err(text),
    };
    let special = NonRowChecks::new(cx.ledger, pod, relations);
    let verdict = |node: NodeId| match &named {
        Named::Only(names) if !names.contains(cx.ledger.nodes().name(node)) => Verdict::unresolvable(Cause::NotNamed),
        _ => judge_fresh(cx, subject, &special, node),
    };
    let verdicts: Vec<(NodeId, Verdict)> = nodes.iter().map(|node| (*node, verdict(*node))).collect();
    match special.relations.failure() {
        Some(text) => Err(text),
        None => Ok(Look::Judged { verdicts, missing: special.relations.missing_claim() }),
    }
}

/// The nodes of the profile that pass every filter, sorted by name; only those `among` are looked at, where it is given.
/// None where an attempt fails. O(nodes looked at), and what PreFilter costs from nothing.
///
/// Gates and what holds a pod are not looked at: `explain` is for that.
pub fn fitting(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod, among: Option<&[NodeId]>) -> Vec<NodeId> {
    let cx = PluginContext { profile, ledger };
    let subject = ResolvedPod::new(profile, ledger, &pod.shape);
    let looked = match among {
        Some(nodes) => look(cx, pod, &subject, nodes),
        None => look(cx, pod, &subject, &candidates(profile, ledger)),
    };
    match looked {
        Ok(Look::Judged { verdicts, .. }) => verdicts.into_iter().filter(|(_, v)| v.fits()).map(|(n, _)| n).collect(),
        Ok(Look::Refused(_)) | Err(_) => Vec::new(),
    }
}

/// Every filter's refusal of each node, in the order of the filters, each asked as if it were the only one; nodes sorted by
/// name. Costs a [`fitting`] for each filter that the profile runs.
///
/// An attempt that fails in a filter says so in that filter's reason.
pub fn obstacles(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod) -> Vec<(NodeId, Vec<Obstacle>)> {
    let nodes = candidates(profile, ledger);
    let mut all: Vec<(NodeId, Vec<Obstacle>)> = nodes.iter().map(|node| (*node, Vec::new())).collect();
    for filter in profile.filters.iter() {
        let alone = CompiledProfile { filters: PluginSet::NONE.with(filter), ..profile.clone() };
        add_obstacles(PluginContext { profile: &alone, ledger }, filter, pod, &nodes, &mut all);
    }
    all
}

fn add_obstacles(
    cx: PluginContext<'_>,
    filter: Plugin,
    pod: &Pod,
    nodes: &[NodeId],
    all: &mut [(NodeId, Vec<Obstacle>)],
) {
    let subject = ResolvedPod::new(cx.profile, cx.ledger, &pod.shape);
    let everywhere = |plugin, code, text: Str| Obstacle { plugin, cause: None, code, reasons: vec![text.to_string()] };
    let obstacle = match look(cx, pod, &subject, nodes) {
        Ok(Look::Judged { verdicts, missing }) => {
            for ((_, obstacles), (_, verdict)) in all.iter_mut().zip(verdicts).filter(|(_, (_, v))| !v.fits()) {
                obstacles.push(Obstacle {
                    plugin: filter,
                    cause: Some(verdict.cause()),
                    code: verdict.code(),
                    reasons: reasons(verdict, pod, missing.as_ref()),
                });
            }
            return;
        }
        Ok(Look::Refused(Refusal { plugin, code, message })) => everywhere(plugin, code, message),
        Err(text) => everywhere(filter, Code::UnschedulableAndUnresolvable, text),
    };
    for (_, obstacles) in all {
        obstacles.push(obstacle.clone());
    }
}
