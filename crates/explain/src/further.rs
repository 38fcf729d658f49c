//! What costs more than a judgement, added to a report on request: preemption, changes, all refusals of one node.

use super::changes::{Change, changes};
use super::next::Next;
use super::quantity::lacking;
use super::report::{FilterReport, NodeReport, PodReport, PreemptionReport, Report, Why};
use berth_core::cycle;
use berth_core::model::{Pod, PodKey, PodShape, Str};
use berth_core::plugins::Plugin;
use berth_core::preemption::{self, Limits};
use berth_core::profile::CompiledProfile;
use berth_simulate::{Cluster, serving};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Different pods for which one report searches changes, since each search may cost hundreds of looks at the cluster; pods of
/// equal shape count once.
pub const SEARCHED: usize = 64;

/// What pods have in common that get equal changes: profile, shape, priority, nominated node.
type Alike = (Str, Arc<PodShape>, i32, Option<Str>);

/// Adds to each pod of `report` that fits nowhere what preemption would do for it at `now_unix_us`, in microseconds of Unix
/// time. Nothing is added where the pod's profile does not preempt.
pub fn add_preemption(report: &mut Report, cluster: &Cluster, profiles: &[Arc<CompiledProfile>], now_unix_us: i64) {
    let own: Vec<Str> = profiles.iter().flat_map(|profile| profile.scheduler_names.iter().cloned()).collect();
    let limits = Limits { own_schedulers: &own, ..Limits::at(now_unix_us) };
    let pods = by_key(cluster);
    let ledger = cluster.ledger();
    for report in report.pods.iter_mut().filter(|report| report.fits_nowhere()) {
        let Some((pod, profile)) = served(&pods, profiles, report) else { continue };
        let prospect = preemption::explain(profile, &ledger, &Arc::new(pod.clone()), &limits);
        report.preemption = prospect.map(PreemptionReport::from);
    }
}

/// Adds to each pod of `report` that fits nowhere the smallest changes that would place it, and when it is tried next.
/// Returns how many pods were left without changes, because more than [`SEARCHED`] different ones wait.
pub fn add_changes(report: &mut Report, cluster: &Cluster, profiles: &[Arc<CompiledProfile>]) -> usize {
    if !report.pods.iter().any(PodReport::fits_nowhere) {
        return 0;
    }
    let pods = by_key(cluster);
    let mut ledger = cluster.ledger();
    let mut known: FxHashMap<Alike, Vec<Change>> = FxHashMap::default();
    let (mut searched, mut left_out) = (0, 0);
    for report in report.pods.iter_mut().filter(|report| report.fits_nowhere()) {
        let Some((pod, profile)) = served(&pods, profiles, report) else { continue };
        report.next = Some(Next::new(profile, pod, &rejectors(report)));
        let key = (profile.name.clone(), pod.shape.clone(), pod.priority, pod.nominated_node.clone());
        let alike = known.get(&key).filter(|_| pod.volumes.is_none());
        report.changes = match alike {
            Some(changes) => Some(changes.clone()),
            None if searched == SEARCHED => {
                left_out += 1;
                None
            }
            None => {
                searched += 1;
                let found = changes(cluster, &mut ledger, profile, pod);
                if pod.volumes.is_none() {
                    known.insert(key, found.clone());
                }
                Some(found)
            }
        };
    }
    left_out
}

/// Adds to each judged pod of `report` all that stands in its way on `node`, where the pod's profile places on it.
pub fn add_why(report: &mut Report, cluster: &Cluster, profiles: &[Arc<CompiledProfile>], node: &str) {
    let pods = by_key(cluster);
    let ledger = cluster.ledger();
    for report in report.pods.iter_mut().filter(|report| report.nodes.is_some()) {
        let Some((pod, profile)) = served(&pods, profiles, report) else { continue };
        let obstacles = cycle::obstacles(profile, &ledger, pod);
        let Some((_, obstacles)) = obstacles.into_iter().find(|(id, _)| &**ledger.nodes().name(*id) == node) else {
            continue;
        };
        let short = lacking(profile, &ledger, pod).remove(node).unwrap_or_default();
        let refusals = obstacles.into_iter().map(|obstacle| FilterReport {
            plugin: obstacle.plugin.name(),
            code: obstacle.code.as_str(),
            reasons: obstacle.reasons,
            lacking: if obstacle.plugin == Plugin::NodeResourcesFit { short.clone() } else { Vec::new() },
        });
        report.why = Some(Why { node: node.into(), refusals: refusals.collect() });
    }
}

fn by_key(cluster: &Cluster) -> FxHashMap<&PodKey, &Pod> {
    cluster.pending().into_iter().map(|pod| (&pod.key, pod)).collect()
}

/// The pod of a report and the profile that judged it.
fn served<'a>(
    pods: &FxHashMap<&'a PodKey, &'a Pod>,
    profiles: &'a [Arc<CompiledProfile>],
    report: &PodReport,
) -> Option<(&'a Pod, &'a Arc<CompiledProfile>)> {
    let pod = *pods.get(&PodKey { namespace: report.namespace.clone(), name: report.name.clone() })?;
    Some((pod, serving(profiles, pod)?))
}

/// The plugins that refused the pod somewhere.
fn rejectors(report: &PodReport) -> BTreeSet<&str> {
    let nodes = report.nodes.iter().flatten();
    let plugins = nodes.filter_map(|node| match node {
        NodeReport::Refused { plugin, .. } => Some(*plugin),
        NodeReport::Scored { .. } => None,
    });
    plugins.collect()
}
