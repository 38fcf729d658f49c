//! The page of a shadow: each compared pod where its scheduler has bound it, and where the profile would have put it.

use super::answers::Judged;
use super::data::{Data, Fate as Shown, Kind, PodRow};
use berth_core::model::{Pod, PodKey, ResourceClaim, Str};
use berth_core::profile::CompiledProfile;
use berth_simulate::Cluster;
use std::collections::HashMap;
use std::sync::Arc;

/// What a profile in mode DryRun would have done with one pod.
pub(in crate::cli) struct Shadowed<'a> {
    /// `namespace/name`.
    pub(in crate::cli) pod: &'a str,
    pub(in crate::cli) scheduler: &'a str,
    /// Where its scheduler has bound it.
    pub(in crate::cli) node: &'a str,
    /// Where the profile would have put it.
    pub(in crate::cli) ours: Option<&'a str>,
    pub(in crate::cli) outcome: Would,
    /// Why the profile would not have been content with the node, in words.
    pub(in crate::cli) why: String,
}

/// What the profile would have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Would {
    /// Left it there: on the same node, or on one as good.
    Leave,
    /// Placed it on another node.
    Move,
    /// Found no node, or failed.
    Refuse,
    /// Held it.
    Hold,
}

/// The page of what `profile` would have done with pods that are `compared`, the oldest first. A pod that is not on that node any more is left
/// out, and a note says how many were.
pub(in crate::cli) fn shadowed(
    cluster: &Cluster,
    profile: &CompiledProfile,
    compared: &[Shadowed<'_>],
    notes: &[String],
) -> Data {
    let profiles = [Arc::new(following(profile, compared))];
    let mut data = Data::of(Kind::Diff, cluster, &profiles, &["As they are bound", "As the profile would"]);
    let pods: HashMap<&PodKey, &Pod> = cluster.pods.iter().map(|pod| (&pod.key, pod)).collect();
    // Each is judged without itself, so that none shares the answer of another.
    let mut judged = Judged::by_report(cluster, &profiles);
    let mut ledger = cluster.ledger();
    let (mut seen, mut counts) = (0, [0; 4]);
    // The newest first: of those there may be too many to judge.
    for one in compared.iter().rev() {
        let Some((key, row)) = there(&data, one) else { continue };
        (seen, counts[one.outcome as usize]) = (seen + 1, counts[one.outcome as usize] + 1);
        show(&mut data, row, one);
        if one.outcome == Would::Leave || !judged.may_judge() {
            continue;
        }
        let Some(pod) = pods.get(&key) else { continue };
        // It is asked about as if it still waited.
        ledger.delete_pod(&pod.uid);
        // What the other scheduler made for its extended resources would be in its way.
        let made = ledger.devices().extended_claim_of(&pod.key.namespace, &pod.uid).cloned();
        if let Some(claim) = &made {
            ledger.delete_resource_claim(&claim.key.to_string());
        }
        let waiting = Pod { node_name: None, ..(*pod).clone() };
        data.pods.answer[row] = judged.judge(&mut data, &ledger, &waiting, "as the cluster is now, without the pod");
        ledger.apply_pod((*pod).clone());
        if let Some(claim) = made {
            ledger.apply_resource_claim(ResourceClaim::clone(&claim));
        }
    }
    let [leave, elsewhere, refuse, hold] = counts;
    data.figure("Compared", seen, "of the pods that are still there");
    data.figure("On one of its best nodes", leave, &format!("of {seen}"));
    data.figure("Elsewhere by the profile", elsewhere, "");
    data.figure("Not placed by the profile", refuse + hold, "");
    let mut notes = notes.to_vec();
    if seen < compared.len() {
        notes.push(format!("{} of {} compared pods are gone by now", compared.len() - seen, compared.len()));
    }
    let subtitle = format!("what {} would have done with the pods of another scheduler", profile.name);
    data.headed("berth shadow", &subtitle, &notes)
}

/// The profile, serving the pods that it only follows.
fn following(profile: &CompiledProfile, compared: &[Shadowed<'_>]) -> CompiledProfile {
    let mut names: Vec<Str> = compared.iter().map(|one| one.scheduler.into()).collect();
    names.extend(profile.scheduler_names.iter().cloned());
    names.sort_unstable();
    names.dedup();
    CompiledProfile { scheduler_names: names, ..profile.clone() }
}

/// A pod that is still where it was bound. Manifests need not say uids, so that it counts as the same by its name and node.
fn there(data: &Data, one: &Shadowed<'_>) -> Option<(PodKey, PodRow)> {
    let (namespace, name) = one.pod.split_once('/')?;
    let key = PodKey { namespace: namespace.into(), name: name.into() };
    let row = data.by_key(&key)?;
    (data.pods.from[row] == data.node(one.node) && data.pods.from[row] >= 0).then_some((key, row))
}

fn show(data: &mut Data, row: PodRow, one: &Shadowed<'_>) {
    let ours = one.ours.map_or(-1, |node| data.node(node));
    let (to, fate) = match one.outcome {
        Would::Leave => (data.pods.from[row], Shown::Running),
        // That node may be gone by now.
        Would::Move if ours < 0 => (-1, Shown::Pending),
        Would::Move => (ours, Shown::Placed),
        Would::Refuse => (-1, Shown::Unschedulable),
        Would::Hold => (-1, Shown::Held),
    };
    (data.pods.to[row], data.pods.fate[row]) = (to, fate as u8);
    data.pods.message[row] = data.texts.id(&one.why);
}
