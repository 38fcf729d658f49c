//! Filters without scores: where a pod fits, and every filter that refuses it on a node.

use super::diagnosis::reasons;
use super::non_row_checks::prepare;
use crate::ledger::{Ledger, NodeId};
use crate::model::{Pod, Str};
use crate::plugins::{
    Cause, Code, Plugin, PluginContext, PluginSet, PluginWatch, PreFilterRefusal, ResolvedPod, Stop, Tables, Verdict,
    Work,
};
use crate::profile::CompiledProfile;

/// One filter's refusal of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    pub plugin: Plugin,
    /// `None` where the plugin's PreFilter refused the pod on all nodes.
    pub cause: Option<Cause>,
    pub code: Code,
    /// Upstream's texts.
    pub reasons: Vec<String>,
    /// Where NodeResourcesFit refuses: the resource of each reason, `pods` for pod slots. Otherwise empty.
    pub lacking: Vec<Str>,
}

/// What the filters find on nodes, each judged from nothing.
pub(super) struct Look {
    /// The first refusal of each, or that it fits.
    pub(super) verdicts: Vec<(NodeId, Verdict)>,
    /// The message about a claim that does not exist.
    pub(super) missing: Option<Str>,
    /// What scores need of it.
    pub(super) tables: Tables,
}

/// The nodes that the profile places on, sorted by name: in this order answers are given, and the first node that an attempt
/// fails on supplies the text.
pub(super) fn candidates(profile: &CompiledProfile, ledger: &Ledger) -> Vec<NodeId> {
    let mut nodes = ledger.node_order();
    nodes.retain(|node| profile.places_on(ledger.nodes().labels(*node)));
    nodes.sort_by(|a, b| ledger.nodes().name(*a).cmp(ledger.nodes().name(*b)));
    nodes
}

pub(super) fn look(cx: PluginContext<'_>, pod: &Pod, resolved: &ResolvedPod, nodes: &[NodeId]) -> Result<Look, Stop> {
    let mut tables = Tables::default();
    tables.count(cx, pod);
    let checks = prepare(cx, &mut tables, pod, resolved, &mut Work::unbounded(), &mut PluginWatch::off())?;
    let verdict = |node: NodeId| {
        if !checks.is_left(node) {
            return Ok(Verdict::unresolvable(Cause::NotNamed));
        }
        checks.judge_fresh(node, &mut Work::unbounded())
    };
    let verdicts = nodes.iter().map(|node| Ok((*node, verdict(*node)?))).collect::<Result<_, Stop>>()?;
    let (failure, missing) = (checks.failure(), checks.missing_claim());
    match failure {
        Some(text) => Err(Stop::Failed(text)),
        None => Ok(Look { verdicts, missing, tables }),
    }
}

/// The nodes of the profile that pass every filter: of those `among`, if given, or else of all, sorted by name. None where
/// the attempt fails. O(nodes judged), and what PreFilter costs from nothing.
///
/// Ignores scheduling gates and what holds a pod, which [`explain`](super::explain()) reports.
pub fn fitting(profile: &CompiledProfile, ledger: &Ledger, pod: &Pod, among: Option<&[NodeId]>) -> Vec<NodeId> {
    let cx = PluginContext { profile, ledger };
    let resolved = ResolvedPod::new(profile, ledger, &pod.shape);
    let looked = match among {
        Some(nodes) => look(cx, pod, &resolved, nodes),
        None => look(cx, pod, &resolved, &candidates(profile, ledger)),
    };
    match looked {
        Ok(Look { verdicts, .. }) => verdicts.into_iter().filter(|(_, v)| v.fits()).map(|(n, _)| n).collect(),
        Err(_) => Vec::new(),
    }
}

/// Every filter's refusal of each node, in the order of the filters, each run as if it were the only one; nodes sorted by
/// name. Costs a [`fitting`] for each filter that the profile runs.
///
/// Where a filter fails the attempt, the failure's text is that filter's reason.
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
    let resolved = ResolvedPod::new(cx.profile, cx.ledger, &pod.shape);
    let everywhere = |plugin, code, text: Str| {
        let reasons = vec![text.to_string()];
        Obstacle { plugin, cause: None, code, reasons, lacking: Vec::new() }
    };
    let obstacle = match look(cx, pod, &resolved, nodes) {
        Ok(Look { verdicts, missing, .. }) => {
            for ((_, obstacles), (_, verdict)) in all.iter_mut().zip(verdicts).filter(|(_, (_, v))| !v.fits()) {
                obstacles.push(Obstacle {
                    plugin: filter,
                    cause: Some(verdict.cause()),
                    code: verdict.code(),
                    reasons: reasons(verdict, &pod.shape, missing.as_ref()),
                    lacking: verdict.lacking_resources(&pod.shape),
                });
            }
            return;
        }
        Err(Stop::Refused(PreFilterRefusal { plugin, code, message })) => everywhere(plugin, code, message),
        Err(stop) => everywhere(filter, Code::UnschedulableAndUnresolvable, stop.into_text()),
    };
    for (_, obstacles) in all {
        obstacles.push(obstacle.clone());
    }
}
