//! A node with pods laid over it or taken away, against the same cluster where those pods are placed or deleted.

use super::Rng;
use super::non_row_checks::prepare;
use super::tests::Draw;
use crate::ledger::{Ledger, NodeId, PlacedPod, PodState};
use crate::model::{
    Attachable, InlineDisk, Labels, PersistentVolumeClaim, Pod, PodVolume, PodVolumes, Service, SpreadConstraint, Str,
    Toleration, TolerationOperator, VolumeAttachment,
};
use crate::plugins::{Cause, Overlay, Plugin, PluginContext, PluginWatch, ResolvedPod, Tables, Verdict, Work};
use crate::profile::CompiledProfile;
use crate::volume_testing::{bound, csi, csi_node, named};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The verdict of every filter on `node` with `overlay`; none where PreFilter refuses, or where the pod skips
/// InterPodAffinity, whose filter then does not look at the overlay either, as upstream.
fn verdict(
    profile: &CompiledProfile,
    ledger: &Ledger,
    pod: &Arc<Pod>,
    node: NodeId,
    overlay: &Overlay,
) -> Option<Verdict> {
    let resolved = ResolvedPod::new(profile, ledger, &pod.shape);
    let mut tables = Tables::default();
    let cx = PluginContext { profile, ledger };
    let checks = prepare(cx, &mut tables, pod, &resolved, &mut Work::unbounded(), &mut PluginWatch::off()).ok()?;
    let skips = !checks.has_pod_affinity() && overlay.added.iter().any(|p| !p.shape.anti_affinity.is_empty());
    (!skips).then(|| checks.judge_under(node, overlay))
}

#[test]
fn a_pod_laid_over_a_node_counts_as_if_it_were_there() {
    let (mut compared, mut refused) = (0, 0);
    for seed in 0..2_000 {
        let mut draw = Draw(Rng::seeded(seed));
        let (mut ledger, mut serial) = (Ledger::new(), 0);
        for _ in 0..40 {
            draw.change(&mut ledger, &mut serial);
        }
        let mut profile = draw.profile();
        // ServiceAffinity is older than nominations and does not look at the overlay.
        profile.filters = profile.filters.without(Plugin::CheckServiceAffinity);
        let (pending, other) = (Arc::new(draw.pod("pending")), Arc::new(draw.pod("other")));
        let nodes = ledger.node_order();
        let Some(node) = nodes.get(draw.below(nodes.len().max(1) as u64) as usize).copied() else { continue };
        let name = ledger.nodes().name(node).clone();
        ledger.apply_pod((*pending).clone());
        let Some(PodState::Pending(pending)) = ledger.pod("pending").cloned() else { continue };
        let mut overlay = Overlay::NONE;
        overlay.add(ledger.nodes(), &other);
        let laid_over = verdict(&profile, &ledger, &pending, node, &overlay);
        ledger.apply_pod(Pod { node_name: Some(name), ..(*other).clone() });
        let there = verdict(&profile, &ledger, &pending, node, Overlay::none());
        if let (Some(laid_over), Some(there)) = (laid_over, there) {
            assert_eq!(laid_over, there, "seed {seed}: {pending:#?} beside {other:#?}");
            compared += 1;
            refused += i32::from(!there.fits());
        }
    }
    assert!(compared > 1_000 && refused > 300, "{compared} compared, {refused} refused");
}

const EBS: &str = "ebs.csi.aws.com";

/// Disks, claims and limits that pods of one node fight for, on top of what [`Draw`] knows.
struct Crowd {
    draw: Draw,
    ledger: Ledger,
}

impl Crowd {
    fn one_in(&mut self, n: u64) -> bool {
        self.draw.below(n) == 0
    }

    fn of(seed: u64) -> Self {
        let mut crowd = Self { draw: Draw(Rng::seeded(seed)), ledger: Ledger::new() };
        let mut serial = 0;
        for _ in 0..30 {
            crowd.draw.change(&mut crowd.ledger, &mut serial);
        }
        for i in 0..5 {
            crowd.ledger.apply_volume(csi(&format!("d{i}"), EBS));
            let modes: Vec<Str> = vec![if i < 2 { "ReadWriteOncePod" } else { "ReadWriteOnce" }.into()];
            let claim = bound(&format!("e{i}"), &format!("d{i}"));
            crowd.ledger.apply_claim(PersistentVolumeClaim { access_modes: modes, ..claim });
        }
        let selector = Some([("app", "web")].into_iter().collect());
        crowd.ledger.apply_service(Service { namespace: "default".into(), name: "web".into(), selector });
        crowd
    }

    /// Volumes: claims, those for one pod at a time only if `exclusive`, and disks named in the pod.
    fn mounts(&mut self, exclusive: bool) -> Vec<PodVolume> {
        let mut mounts = Vec::new();
        for _ in 0..self.draw.below(3) {
            let first = if exclusive { 0 } else { 2 };
            mounts.push(match self.draw.below(4) {
                0 => named(&format!("e{}", first + self.draw.below(5 - first))),
                1 | 2 => {
                    let id: Str = format!("vol-{}", self.draw.below(5)).into();
                    let counts = Ok(Some(Attachable { driver: EBS.into(), handle: id.clone() }));
                    PodVolume::Disk { volume: "v".into(), disk: InlineDisk::Ebs { id }, counts }
                }
                _ => {
                    let name: Str = format!("pd-{}", self.draw.below(2)).into();
                    let disk = InlineDisk::GcePd { name, read_only: self.one_in(2) };
                    PodVolume::Disk { volume: "v".into(), disk, counts: Ok(None) }
                }
            });
        }
        mounts
    }

    fn pod(&mut self, name: &str, exclusive: bool) -> Pod {
        let mut pod = self.draw.pod(name);
        let mut mounts: Vec<PodVolume> = pod.volumes.iter().flat_map(|volumes| volumes.iter().cloned()).collect();
        mounts.extend(self.mounts(exclusive));
        pod.volumes = (!mounts.is_empty()).then(|| Arc::new(PodVolumes::from(mounts)));
        let shape = Arc::make_mut(&mut pod.shape);
        if self.one_in(3) {
            shape.anti_affinity.push(self.draw.pod_term());
        }
        pod
    }

    /// A pod that is refused for what other pods do, and seldom for what the node is like.
    fn pending(&mut self) -> Pod {
        let mut pod = self.pod("pending", true);
        let shape = Arc::make_mut(&mut pod.shape);
        if self.one_in(3) {
            shape.affinity = (0..=self.draw.below(2)).map(|_| self.draw.pod_term()).collect();
        }
        if self.one_in(3) {
            let hard = SpreadConstraint { hard: true, ..self.draw.spread_constraint() };
            shape.spread.push(hard);
        }
        if !self.one_in(8) {
            let (key, value, operator) = ("".into(), "".into(), TolerationOperator::Exists);
            shape.row_mut().tolerations = vec![Toleration { key, operator, value, effect: None }];
            shape.row_mut().node_selector = Labels::none();
            shape.row_mut().required_affinity = None;
            shape.row_mut().required_features = Vec::new();
        }
        pod
    }

    /// Puts pods on `name`, a limit of attachable volumes, and an attachment that no pod needs.
    fn fill(&mut self, name: &Str) {
        for i in 0..2 + self.draw.below(6) {
            let pod = self.pod(&format!("r{i}"), true);
            self.ledger.apply_pod(Pod { node_name: Some(name.clone()), ..pod });
        }
        if self.one_in(2) {
            let limit = self.draw.below(4) as i32;
            self.ledger.apply_csi_node(csi_node(name, EBS, Some(limit)));
        }
        for i in 0..self.draw.below(3) {
            let volume = Some(format!("d{}", self.draw.below(5)).into());
            let (attacher, node) = (EBS.into(), name.clone());
            self.ledger.apply_volume_attachment(VolumeAttachment {
                name: format!("a{i}").into(),
                attacher,
                node,
                volume,
            });
        }
    }

    fn settle_elsewhere(&mut self, nodes: &[NodeId], node: NodeId) {
        let Some(other) = nodes.iter().find(|other| **other != node) else { return };
        let name = self.ledger.nodes().name(*other).clone();
        for i in 0..self.draw.below(4) {
            let pod = self.pod(&format!("o{i}"), false);
            self.ledger.apply_pod(Pod { node_name: Some(name.clone()), ..pod });
        }
    }

    fn profile(&mut self) -> CompiledProfile {
        let mut profile = self.draw.profile();
        profile.legacy.max_ebs = 1 + self.draw.below(2) as u32;
        profile.legacy.max_gce_pd = 1;
        profile.legacy.affinity_labels = vec!["topology.kubernetes.io/zone".into()];
        for filter in [Plugin::MaxEBSVolumeCount, Plugin::MaxGCEPDVolumeCount, Plugin::CheckServiceAffinity] {
            if self.one_in(3) {
                profile.filters = profile.filters.with(filter);
            }
        }
        // Each volume filter gets its turn at refusing first.
        for filter in
            [Plugin::NodePorts, Plugin::NodeResourcesFit, Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits]
        {
            if self.one_in(2) {
                profile.filters = profile.filters.without(filter);
            }
        }
        profile
    }

    /// Takes some of the node's pods away, puts some of those back, and gives those that are away in the end.
    fn take_away(&mut self, overlay: &mut Overlay, node: NodeId) -> Vec<Arc<PlacedPod>> {
        let mut all = self.ledger.pods_on(node).to_vec();
        all.retain(|_| !self.one_in(4));
        for placed in &all {
            overlay.remove(self.ledger.nodes(), placed);
        }
        all.sort_by_key(|placed| placed.uid.clone());
        all.retain(|placed| {
            let back = self.one_in(3);
            if back {
                overlay.restore(self.ledger.nodes(), placed);
            }
            !back
        });
        all
    }
}

/// Every filter judges a node with pods taken away and others laid over it as it does once those are deleted and placed.
#[test]
fn a_pod_taken_away_counts_as_if_it_were_deleted() {
    let (mut compared, mut causes) = (0, BTreeMap::<String, u32>::new());
    for seed in 0..6_000 {
        let mut crowd = Crowd::of(seed);
        let mut profile = crowd.profile();
        let nodes = crowd.ledger.node_order();
        let Some(node) = nodes.get(crowd.draw.below(nodes.len().max(1) as u64) as usize).copied() else { continue };
        let name = crowd.ledger.nodes().name(node).clone();
        crowd.fill(&name);
        crowd.settle_elsewhere(&nodes, node);
        let pending = crowd.pending();
        crowd.ledger.apply_pod(pending);
        let Some(PodState::Pending(pending)) = crowd.ledger.pod("pending").cloned() else { continue };
        let mut overlay = Overlay::NONE;
        let removed = crowd.take_away(&mut overlay, node);
        let mut added = Vec::new();
        if crowd.one_in(2) {
            // ServiceAffinity is older than nominations and does not look at the overlay.
            profile.filters = profile.filters.without(Plugin::CheckServiceAffinity);
            for i in 0..=crowd.draw.below(2) {
                added.push(Arc::new(crowd.pod(&format!("added{i}"), false)));
            }
        }
        for pod in &added {
            overlay.add(crowd.ledger.nodes(), pod);
        }
        let laid_over = verdict(&profile, &crowd.ledger, &pending, node, &overlay);
        for placed in &removed {
            crowd.ledger.delete_pod(&placed.uid);
        }
        for pod in &added {
            crowd.ledger.apply_pod(Pod { node_name: Some(name.clone()), ..(**pod).clone() });
        }
        let there = verdict(&profile, &crowd.ledger, &pending, node, Overlay::none());
        if let (Some(laid_over), Some(there)) = (laid_over, there) {
            let context = || format!("seed {seed}: {pending:#?}, without {removed:#?}, beside {added:#?}");
            assert_eq!(laid_over, there, "{}", context());
            compared += 1;
            *causes.entry(format!("{:?}", there.cause())).or_default() += 1;
        }
    }
    let dynamic = [
        Cause::HostPorts,
        Cause::Resources,
        Cause::DiskConflict,
        Cause::ClaimInUse,
        Cause::VolumeLimit,
        Cause::Spread,
        Cause::PodAffinity,
        Cause::PodAntiAffinity,
        Cause::ExistingAntiAffinity,
        Cause::ServiceAffinity,
        Cause::EbsCount,
        Cause::GcePdCount,
        Cause::None,
    ];
    let rare: Vec<Cause> =
        dynamic.into_iter().filter(|cause| causes.get(&format!("{cause:?}")).is_none_or(|n| *n < 5)).collect();
    assert!(compared > 2_000 && rare.is_empty(), "{compared} compared: {causes:?}; too rare: {rare:?}");
}
