//! What costs more than a judgement, added to a report on request: preemption, changes, all refusals of one node.

use super::changes::{Change, changes};
use super::next::Next;
use super::report::{FilterReport, NodeReport, PodReport, PreemptionReport, Report, Why};
use berth_core::cycle;
use berth_core::model::{Pod, PodKey, PodShape, Str};
use berth_core::preemption::{self, Limits};
use berth_core::profile::CompiledProfile;
use berth_simulate::{Cluster, serving};
use rustc_hash::FxHashMap;
use std::{collections::BTreeSet, sync::Arc};

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
    let ledger = cluster.ledger();
    for (report, pod, profile) in judged(report, cluster, profiles, PodReport::fits_nowhere) {
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
    let mut ledger = cluster.ledger();
    let mut known: FxHashMap<Alike, Vec<Change>> = FxHashMap::default();
    let (mut searched, mut left_out) = (0, 0);
    for (report, pod, profile) in judged(report, cluster, profiles, PodReport::fits_nowhere) {
        report.next = Some(Next::new(profile, pod, &rejectors(report)));
        let key = (profile.name.clone(), pod.shape.clone(), pod.priority, pod.nominated_node.clone());
        let alike = known.get(&key).filter(|_| !pod.has_claims());
        report.changes = match alike {
            Some(changes) => Some(changes.clone()),
            None if searched == SEARCHED => {
                left_out += 1;
                None
            }
            None => {
                searched += 1;
                let found = changes(cluster, &mut ledger, profile, pod);
                if !pod.has_claims() {
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
    let ledger = cluster.ledger();
    for (report, pod, profile) in judged(report, cluster, profiles, |report| report.nodes.is_some()) {
        let obstacles = cycle::obstacles(profile, &ledger, pod);
        let Some((_, obstacles)) = obstacles.into_iter().find(|(id, _)| &**ledger.nodes().name(*id) == node) else {
            continue;
        };
        let refusals = obstacles.into_iter().map(|obstacle| FilterReport {
            plugin: obstacle.plugin.name(),
            code: obstacle.code.as_str(),
            reasons: obstacle.reasons,
            lacking: obstacle.lacking,
        });
        report.why = Some(Why { node: node.into(), refusals: refusals.collect() });
    }
}

/// The `wanted` ones of the reports, each with its pod and the profile that judged it.
fn judged<'a>(
    report: &'a mut Report,
    cluster: &'a Cluster,
    profiles: &'a [Arc<CompiledProfile>],
    wanted: fn(&PodReport) -> bool,
) -> impl Iterator<Item = (&'a mut PodReport, &'a Pod, &'a Arc<CompiledProfile>)> {
    let pods: FxHashMap<&PodKey, &Pod> = cluster.pending().into_iter().map(|pod| (&pod.key, pod)).collect();
    report.pods.iter_mut().filter(move |report| wanted(report)).filter_map(move |report| {
        let pod = *pods.get(&report.key())?;
        Some((report, pod, serving(profiles, pod)?))
    })
}

/// The plugins that refused the pod somewhere.
fn rejectors(report: &PodReport) -> BTreeSet<&str> {
    let plugin = |node: &NodeReport| match node {
        NodeReport::Refused { refusal, .. } => Some(refusal.plugin),
        NodeReport::Scored(_) => None,
    };
    report.nodes.iter().flatten().filter_map(plugin).collect()
}
