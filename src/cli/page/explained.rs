//! The page of an explanation: the cluster as it is, and the pods that were asked about.

use super::answers::Judged;
use super::data::{Data, Fate, Kind};
use berth_core::model::{Pod, PodKey};
use berth_core::profile::CompiledProfile;
use berth_explain::{PodReport, Report};
use berth_simulate::Cluster;
use std::collections::HashMap;
use std::sync::Arc;

/// The page of `report` on pending pods of `cluster`.
pub(in crate::cli) fn explained(
    cluster: &Cluster,
    profiles: &[Arc<CompiledProfile>],
    report: &Report,
    notes: &[String],
) -> Data {
    let mut data = Data::of(Kind::Explain, cluster, profiles, &["Now"]);
    let ledger = cluster.ledger();
    let pods: HashMap<&PodKey, &Pod> = cluster.pending().into_iter().map(|pod| (&pod.key, pod)).collect();
    // They are judged already: what is bounded is the page.
    let mut judged = Judged::by_report(cluster, profiles);
    let (mut fits, mut nowhere, mut other) = (0, 0, 0);
    for report in &report.pods {
        let key = report.key();
        let (Some(row), Some(pod)) = (data.by_key(&key), pods.get(&key)) else { continue };
        let fate = fate(report, pod);
        let count = match fate {
            Fate::Fits => &mut fits,
            Fate::Unschedulable => &mut nowhere,
            _ => &mut other,
        };
        *count += 1;
        data.pods.fate[row] = fate as u8;
        let message = report.message.as_deref().or(report.reason.as_deref()).unwrap_or_default();
        data.pods.message[row] = data.texts.id(message);
        data.pods.answer[row] = judged.keep(&mut data, &ledger, pod, report, "as the cluster is now");
    }
    data.figure("Fit", fits, &format!("of {}", report.pods.len()));
    data.figure("Without a node", nowhere, "");
    if other > 0 {
        data.figure("Not judged", other, "gated or held");
    }
    let subtitle = match report.pods.as_slice() {
        [one] => format!("{} and the cluster as it is", one.key()),
        pods => format!("{} pending pods and the cluster as it is", pods.len()),
    };
    data.headed("berth explain", &subtitle, notes)
}

fn fate(report: &PodReport, pod: &Pod) -> Fate {
    if report.fits_nowhere() {
        Fate::Unschedulable
    } else if report.nodes.is_some() {
        Fate::Fits
    } else if pod.gates.is_empty() {
        Fate::Held
    } else {
        Fate::Gated
    }
}
