//! The page of a difference: the placed pods, placed anew by the present and by the changed profiles; and beside them the waiting ones,
//! which take no room there.

use super::data::{Data, Fate as Shown, Kind};
use super::simulated::{self, judge};
use berth_core::model::PodKey;
use berth_core::profile::CompiledProfile;
use berth_simulate::{Cluster, Fate, Outcome, PodReport, ReplayDifference, Replayed};
use std::collections::HashMap;
use std::sync::Arc;

/// What the present profiles do, and then what the changed ones do.
pub(in crate::cli) struct Sides<'a> {
    /// The pods that wait, placed on the cluster as it is; of the changed profiles every step is kept.
    pub(in crate::cli) waiting: [&'a Outcome; 2],
    /// The pods that are placed, placed anew; each is in both.
    pub(in crate::cli) placed: [&'a Replayed; 2],
    /// How these two differ.
    pub(in crate::cli) difference: &'a ReplayDifference,
}

/// The page of what `changed` profiles would do to `cluster`.
pub(in crate::cli) fn diffed(
    cluster: &Cluster,
    changed: &[Arc<CompiledProfile>],
    sides: &Sides<'_>,
    notes: &[String],
) -> Data {
    let mut data = Data::of(Kind::Diff, cluster, changed, &["Present profiles", "Changed profiles"]);
    let [first, _] = sides.placed;
    for key in first.nodes.keys().chain(first.refused.keys()) {
        place_anew(&mut data, key, sides.placed);
    }
    let [present, changed_run] = sides.waiting;
    let before: HashMap<PodKey, &PodReport> = present.report.pods.iter().map(|report| (report.key(), report)).collect();
    for report in &changed_run.report.pods {
        wait(&mut data, report, before.get(&report.key()).copied());
    }
    judge(&mut data, cluster, changed, changed_run);
    figures(&mut data, sides.difference, changed_run);
    let subtitle = "what is placed, placed anew by the changed profiles instead of the present ones; and what waits";
    data.headed("berth diff", subtitle, notes)
}

/// A placed pod is where each side has placed it.
fn place_anew(data: &mut Data, key: &PodKey, [present, changed]: [&Replayed; 2]) {
    let Some(row) = data.by_key(key) else { return };
    let node = |of: &Replayed| of.nodes.get(key).map_or(-1, |node| data.node(node));
    (data.pods.from[row], data.pods.to[row]) = (node(present), node(changed));
    let message = match (present.refused.get(key), changed.refused.get(key)) {
        (_, Some(why)) => why.clone(),
        (Some(why), None) => format!("with the present profiles: {why}"),
        (None, None) => String::new(),
    };
    data.pods.fate[row] = if changed.nodes.contains_key(key) { Shown::Placed } else { Shown::Unschedulable } as u8;
    data.pods.message[row] = data.texts.id(&message);
}

/// A pod that waits is on no node, and says where it would go.
fn wait(data: &mut Data, report: &PodReport, before: Option<&PodReport>) {
    let Some(row) = data.by_key(&report.key()) else { return };
    let shown = simulated::fate(report);
    data.pods.fate[row] = if shown == Shown::Placed { Shown::Fits } else { shown } as u8;
    let would = match (&report.node, &report.message) {
        (Some(node), _) => format!("would be placed on {node}"),
        (None, message) => message.clone().unwrap_or_default(),
    };
    let before = match before.map(|before| (&before.node, &before.message)) {
        Some((node, _)) if *node == report.node => "; the same with the present profiles".to_owned(),
        Some((Some(node), _)) => format!("; with the present profiles on {node}"),
        Some((None, Some(message))) => format!("; with the present profiles: {message}"),
        Some((None, None)) | None => String::new(),
    };
    data.pods.message[row] = data.texts.id(&(would + &before));
}

fn figures(data: &mut Data, placed: &ReplayDifference, waiting: &Outcome) {
    let count = |part: i64| usize::try_from(part).unwrap_or(0);
    let instead = |of: usize| format!("instead of {of}");
    data.figure("Placed anew", placed.pods, &format!("{} stay", placed.stay));
    data.figure("On another node", placed.moved, "");
    data.figure("No longer placed", placed.no_longer_fit.len(), "");
    if !placed.fit_now.is_empty() {
        data.figure("Placed now", placed.fit_now.len(), "");
    }
    let nodes = [&placed.first, &placed.second].map(|side| count(side.figures.nodes_used.part));
    data.figure("Nodes used", nodes[1], &instead(nodes[0]));
    let fits = waiting.report.pods.iter().filter(|pod| pod.fate == Fate::Placed).count();
    data.figure("Waiting pods that fit", fits, &format!("of {}", waiting.report.pods.len()));
}
