//! The page of a simulation: before and after, and every step between; or two runs over the same pods.

use super::answers::Judged;
use super::data::{Data, Events, Fate as Shown, Kind, PodRow, Step};
use berth_core::model::{Pod, PodKey};
use berth_core::profile::CompiledProfile;
use berth_explain::{self as explain, SEARCHED};
use berth_simulate::{Change, Cluster, Fate, Outcome, PodReport, Report};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The page of a run that was recorded.
pub(in crate::cli) fn simulated(
    cluster: &Cluster,
    profiles: &[Arc<CompiledProfile>],
    outcome: &Outcome,
    headline: &str,
    notes: &[String],
) -> Data {
    let mut data = Data::of(Kind::Simulate, cluster, profiles, &["Before", "After"]);
    add_reports(&mut data, &outcome.report);
    add_events(&mut data, outcome);
    figures(&mut data, &outcome.report);
    judge(&mut data, cluster, profiles, outcome);
    data.headed("berth simulate", headline, notes)
}

/// Judges the pods of a run that was recorded.
pub(super) fn judge(data: &mut Data, cluster: &Cluster, profiles: &[Arc<CompiledProfile>], outcome: &Outcome) {
    let mut judged = Judged::new(cluster, profiles, outcome.report.pods.len());
    judge_placed(data, &mut judged, outcome);
    judge_unplaced(data, &judged, outcome);
}

/// The page of two runs over the same pods, of which `names` say what each was run with: where the second places otherwise.
pub(in crate::cli) fn compared(
    cluster: &Cluster,
    profiles: &[Arc<CompiledProfile>],
    names: [&str; 2],
    outcomes: [&Outcome; 2],
    notes: &[String],
) -> Data {
    let mut data = Data::of(Kind::Diff, cluster, profiles, &names);
    let [first, second] = outcomes;
    let given = (data.pods.to.clone(), data.pods.fate.clone());
    add_reports(&mut data, &first.report);
    leave(&mut data, first);
    // The second run begins where the first did.
    data.pods.from = std::mem::replace(&mut data.pods.to, given.0);
    data.pods.fate = given.1;
    data.pods.victims.clear();
    add_reports(&mut data, &second.report);
    leave(&mut data, second);
    figures(&mut data, &second.report);
    judge(&mut data, cluster, profiles, second);
    data.headed("berth simulate", &format!("{} instead of {}", names[1], names[0]), notes)
}

/// What became of each pod that was pending.
fn add_reports(data: &mut Data, report: &Report) {
    for pod in &report.pods {
        let Some(row) = data.by_key(&pod.key()) else { continue };
        data.pods.to[row] = pod.node.as_deref().map_or(-1, |node| data.node(node));
        data.pods.fate[row] = fate(pod) as u8;
        data.pods.attempts[row] = pod.attempts;
        data.pods.message[row] = pod.message.as_deref().map_or(0, |message| data.texts.id(message));
        let named = pod.victims.iter().filter_map(|victim| victim.split_once('/'));
        let keys = named.map(|(namespace, name)| PodKey { namespace: namespace.into(), name: name.into() });
        let victims: Vec<PodRow> = keys.filter_map(|key| data.by_key(&key)).collect();
        if !victims.is_empty() {
            data.pods.victims.insert(row, victims);
        }
    }
}

pub(super) fn fate(pod: &PodReport) -> Shown {
    match pod.fate {
        Fate::Placed => Shown::Placed,
        Fate::Unschedulable => Shown::Unschedulable,
        Fate::Preempted => Shown::Preempted,
        Fate::Gated => Shown::Gated,
        Fate::Held => Shown::Held,
    }
}

/// Takes the pods that the run removed, and that ran before it, from their nodes.
fn leave(data: &mut Data, outcome: &Outcome) {
    for event in &outcome.timeline {
        if let Change::Removed { uid } = &event.change
            && let Some(row) = data.by_uid(uid)
            && data.pods.fate[row] == Shown::Running as u8
        {
            data.pods.to[row] = -1;
            data.pods.fate[row] = Shown::Evicted as u8;
        }
    }
}

/// The steps of the run.
fn add_events(data: &mut Data, outcome: &Outcome) {
    let mut events = Events::default();
    let mut on = data.pods.from.clone();
    for event in &outcome.timeline {
        let (uid, what) = match &event.change {
            Change::Placed { pod, .. } => (&pod.uid, Step::Placed),
            Change::Refused { pod } => (&pod.uid, Step::Refused),
            Change::Removed { uid } => (uid, Step::Removed),
            Change::Volumes { .. } | Change::Nominated { .. } => continue,
        };
        let Some(row) = data.by_uid(uid) else { continue };
        if let Change::Placed { node, .. } = &event.change {
            on[row] = data.node(node);
        }
        events.at.push(u64::try_from(event.at.as_millis()).unwrap_or(u64::MAX));
        events.pod.push(row);
        events.what.push(what as u8);
        events.node.push(on[row]);
        if matches!(what, Step::Removed) {
            on[row] = -1;
        }
    }
    leave(data, outcome);
    data.events = Some(events);
}

fn figures(data: &mut Data, report: &Report) {
    let of = |fate: Fate| report.pods.iter().filter(|pod| pod.fate == fate).count();
    data.figure("Placed", of(Fate::Placed), &format!("of {}", report.pods.len()));
    data.figure("Without a node", of(Fate::Unschedulable) + of(Fate::Preempted), "");
    for (name, count) in [("Gated", of(Fate::Gated)), ("Held", of(Fate::Held)), ("Evicted", report.summary.preempted)] {
        if count > 0 {
            data.figure(name, count, "");
        }
    }
    data.figure("Nodes used", report.summary.nodes_used, "");
}

/// Judges each pod that was placed as the cluster was right before: the run is replayed.
fn judge_placed(data: &mut Data, judged: &mut Judged<'_>, outcome: &Outcome) {
    let mut ledger = judged.cluster.ledger();
    for event in &outcome.timeline {
        if let Change::Placed { pod, .. } = &event.change
            && let Some(row) = data.by_uid(&pod.uid)
        {
            data.pods.answer[row] = match judged.known(pod) {
                Some(answer) => answer,
                None => judged.judge(data, &ledger, pod, "as the cluster was right before the pod was placed"),
            };
        }
        // What nobody looks at need not be brought about.
        if judged.may_judge() {
            event.replay(&mut ledger);
        }
    }
}

/// Judges the pods without a node as the cluster is in the end; of the first [`SEARCHED`] kinds with what would place them.
fn judge_unplaced(data: &mut Data, judged: &Judged<'_>, outcome: &Outcome) {
    let after = after(judged.cluster, outcome);
    let ledger = after.ledger();
    let pods: HashMap<&PodKey, &Pod> = after.pending().into_iter().map(|pod| (&pod.key, pod)).collect();
    let tried: Vec<&Pod> = outcome
        .report
        .pods
        .iter()
        .filter(|report| matches!(report.fate, Fate::Unschedulable))
        .filter_map(|report| pods.get(&report.key()).copied())
        .collect();
    let moment = "as the cluster is at the end of the run";
    let mut later = judged.later(&after);
    let mut searched = explain::Report { pods: Vec::new() };
    let mut kinds = HashSet::new();
    for pod in &tried {
        if searched.pods.len() < SEARCHED && later.is_new(pod, &mut kinds) {
            searched.pods.push(explain::explain_one(&ledger, judged.profiles, pod));
        }
    }
    explain::add_preemption(&mut searched, &after, judged.profiles, after.as_of_unix_us());
    explain::add_changes(&mut searched, &after, judged.profiles);
    for report in &searched.pods {
        if let Some(pod) = pods.get(&report.key()) {
            later.keep(data, &ledger, pod, report, moment);
        }
    }
    drop(searched);
    for pod in tried {
        let Some(row) = data.by_key(&pod.key) else { continue };
        data.pods.answer[row] = match later.known(pod) {
            Some(answer) => answer,
            None => later.judge(data, &ledger, pod, moment),
        };
    }
}

/// The cluster as the run leaves it.
fn after(cluster: &Cluster, outcome: &Outcome) -> Cluster {
    let reports: HashMap<PodKey, &PodReport> =
        outcome.report.pods.iter().map(|report| (report.key(), report)).collect();
    let removed: HashSet<&str> = outcome
        .timeline
        .iter()
        .filter_map(|event| match &event.change {
            Change::Removed { uid } => Some(&**uid),
            _ => None,
        })
        .collect();
    let mut after = cluster.clone();
    after.pods.retain(|pod| !removed.contains(&*pod.uid));
    for pod in &mut after.pods {
        if let Some(report) = reports.get(&pod.key) {
            pod.node_name.clone_from(&report.node);
            pod.nominated_node = report.nominated_node.clone().filter(|_| report.node.is_none());
        }
    }
    after
}
