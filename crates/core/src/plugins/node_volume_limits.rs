//! NodeVolumeLimits: a node's CSI drivers attach only so many volumes.
//! After `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`.

use super::context::{Cause, Overlay, PluginContext, Verdict};
use super::volumes::mounts::{Mount, Mounts, missing_claim};
use crate::ledger::{CountsByNode, NodeId};
use crate::model::{Attachable, ClaimKey, PersistentVolumeClaim, PodKey, PodVolume, PodVolumes, Str};
use smallvec::SmallVec;
use std::sync::Arc;

/// A look-up of a volume or claim, in comparisons.
const LOOK_UP: usize = 4;

/// A volume that would be attached for the pod.
#[derive(Debug)]
struct Wanted<'t> {
    volume: Attachable,
    /// Nodes with pods that mount the volume already.
    mounted: Option<&'t CountsByNode>,
}

/// Why the plugin cannot count the pod's volumes.
#[derive(Debug)]
enum Problem {
    /// A claim does not exist: every node is refused; upstream's text.
    Missing(Str),
    /// The attempt fails; upstream's text.
    Fails(Str),
    /// The attempt fails on nodes that have a CSINode; upstream's text.
    FailsWithCsiNode(Str),
}

/// What PreFilter found out: the volumes by driver, and what is wrong with some.
#[derive(Debug)]
pub(crate) struct State<'t> {
    /// Sorted by driver and handle, each volume once.
    wanted: Vec<Wanted<'t>>,
    /// In the pod's order; the first that applies to a node counts.
    problems: Vec<Problem>,
}

impl<'t> State<'t> {
    /// `None` where the plugin skips the pod.
    pub(crate) fn prepare(cx: PluginContext<'t>, mounts: &Mounts<'t, '_>) -> Option<Self> {
        let mut state = Self { wanted: Vec::new(), problems: Vec::new() };
        let mut counts = false;
        for mount in &mounts.all {
            match mount {
                Mount::Claim { key, ephemeral, claim } => {
                    counts = true;
                    if let Some(problem) = problem_of(mounts, key, *ephemeral, *claim) {
                        state.problems.push(problem);
                    }
                    state.want(cx, cx.ledger.volumes().counts_as(key));
                }
                Mount::Other(at) => counts |= mounts.volumes.get(*at).is_some_and(|volume| state.inline(cx, volume)),
            }
        }
        state.wanted.sort_by(|a, b| a.volume.cmp(&b.volume));
        state.wanted.dedup_by(|a, b| a.volume == b.volume);
        counts.then_some(state)
    }

    /// Upstream's text for a claim that does not exist.
    pub(crate) fn missing_claim(&self) -> Option<Str> {
        self.problems.iter().find_map(|problem| match problem {
            Problem::Missing(text) => Some(text.clone()),
            Problem::Fails(_) | Problem::FailsWithCsiNode(_) => None,
        })
    }

    /// Returns whether the plugin looks at such a volume.
    fn inline(&mut self, cx: PluginContext<'t>, volume: &PodVolume) -> bool {
        let PodVolume::Disk { volume: name, disk, counts } = volume else { return false };
        match counts {
            Ok(attachable) => self.want(cx, attachable.clone()),
            Err(text) => {
                let text = format!("converting volume({name}) from inline to csi: {text}");
                self.problems.push(Problem::FailsWithCsiNode(text.into()));
            }
        }
        disk.is_migratable()
    }

    fn want(&mut self, cx: PluginContext<'t>, volume: Option<Attachable>) {
        let Some(volume) = volume else { return };
        let mounted = cx.ledger.volumes().mounted_on(&volume);
        self.wanted.push(Wanted { volume, mounted });
    }

    /// How many comparisons the pod's own volumes take.
    pub(crate) fn comparisons(&self) -> usize {
        self.problems.len() + LOOK_UP * self.wanted.len()
    }

    /// How many comparisons one volume of a pod takes that is added to the node, taken away, or stays: it is looked up and sorted in
    /// for each driver.
    pub(crate) fn comparisons_with_each(&self) -> usize {
        let mut drivers: SmallVec<[&str; 4]> = self.wanted.iter().map(|wanted| &*wanted.volume.driver).collect();
        drivers.dedup();
        2 * LOOK_UP * drivers.len()
    }

    pub(crate) fn filter(&self, cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> Result<Verdict, Str> {
        let volumes = cx.ledger.volumes();
        for problem in &self.problems {
            match problem {
                Problem::Missing(_) => return Ok(Verdict::unresolvable(Cause::MissingClaim)),
                Problem::Fails(text) => return Err(text.clone()),
                Problem::FailsWithCsiNode(text) if volumes.csi_node(cx.ledger.nodes().name(node)).is_some() => {
                    return Err(text.clone());
                }
                Problem::FailsWithCsiNode(_) => {}
            }
        }
        let mut rest = &self.wanted[..];
        while let Some(first) = rest.first() {
            let driver = &first.volume.driver;
            let (own, others) = rest.split_at(rest.partition_point(|wanted| wanted.volume.driver <= *driver));
            rest = others;
            let Some(free) = volumes.free_attachments(node, driver) else { continue };
            let moves = if overlay.is_empty() { Moves::default() } else { Moves::of(cx, node, overlay, driver) };
            let (new, free) = moves.count(cx, node, own, free);
            if new > free && new > 0 {
                return Ok(Verdict::unschedulable(Cause::VolumeLimit));
            }
        }
        Ok(Verdict::FITS)
    }
}

fn problem_of(
    mounts: &Mounts<'_, '_>,
    key: &ClaimKey,
    ephemeral: bool,
    claim: Option<&PersistentVolumeClaim>,
) -> Option<Problem> {
    if key.name.is_empty() {
        return Some(Problem::Fails("PersistentVolumeClaim had no name".into()));
    }
    let Some(claim) = claim else {
        let text = format!("looking up PVC {key}: {}", missing_claim(&key.name));
        return Some(Problem::Missing(text.into()));
    };
    let foreign = if ephemeral { mounts.foreign(claim) } else { None };
    foreign.map(|text| Problem::Fails(text.into()))
}

/// The volumes of one driver that an overlay attaches and frees on a node; sorted, each volume once.
#[derive(Debug, Default)]
struct Moves {
    /// Volumes of pods that are added.
    added: Vec<Attachable>,
    /// Volumes that no pod mounts any more.
    freed: Vec<Attachable>,
}

impl Moves {
    fn of(cx: PluginContext<'_>, node: NodeId, overlay: &Overlay, driver: &str) -> Self {
        let mut freed = attached_by(cx, overlay.mounts_removed(), driver);
        if !freed.is_empty() {
            let placed = cx.ledger.volumes().placed_on(node).iter();
            let stays = placed.filter(|placed| !overlay.has_removed(&placed.uid));
            let kept = attached_by(cx, stays.map(|placed| (&placed.pod, &placed.volumes)), driver);
            freed.retain(|volume| !has(&kept, volume));
        }
        Self { added: attached_by(cx, overlay.mounts_added(), driver), freed }
    }

    /// How many of the `wanted` volumes are new to the node, and how many it can take beyond those of added pods.
    ///
    /// As upstream, a volume is new unless a pod mounts it there: an attachment alone does not count for the pod's own.
    fn count(&self, cx: PluginContext<'_>, node: NodeId, wanted: &[Wanted<'_>], free: i64) -> (i64, i64) {
        let volumes = cx.ledger.volumes();
        let is_new = |wanted: &&Wanted<'_>| {
            let mounted = wanted.mounted.is_some_and(|nodes| nodes.on(node) > 0);
            let stays = mounted && !has(&self.freed, &wanted.volume);
            !stays && !has(&self.added, &wanted.volume)
        };
        let new = wanted.iter().filter(is_new).count() as i64;
        let detaches = |volume: &&Attachable| !volumes.has_attachment(volume, node);
        let detached = self.freed.iter().filter(detaches).count() as i64;
        let attaches =
            |volume: &&Attachable| !volumes.is_attached(volume, node) || (has(&self.freed, volume) && detaches(volume));
        let attached = self.added.iter().filter(attaches).count() as i64;
        (new, free + detached - attached)
    }
}

/// Whether the sorted volumes have this one among them.
fn has(sorted: &[Attachable], volume: &Attachable) -> bool {
    sorted.binary_search(volume).is_ok()
}

/// The volumes of `driver` that `pods` have attached, sorted, each once.
fn attached_by<'a>(
    cx: PluginContext<'_>,
    pods: impl Iterator<Item = (&'a PodKey, &'a Arc<PodVolumes>)>,
    driver: &str,
) -> Vec<Attachable> {
    let mut all = Vec::new();
    for (pod, volumes) in pods {
        let claims = volumes.claims(&pod.namespace, &pod.name);
        all.extend(claims.filter_map(|(claim, _)| cx.ledger.volumes().counts_as(&claim)));
        all.extend(volumes.iter().filter_map(|volume| match volume {
            PodVolume::Disk { counts: Ok(Some(attachable)), .. } => Some(attachable.clone()),
            _ => None,
        }));
    }
    all.retain(|volume| *volume.driver == *driver);
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::model::{InlineDisk, Pod, VolumeAttachment};
    use crate::plugins::Plugin;
    use crate::profile::CompiledProfile;
    use crate::volume_testing::{
        answers, answers_by, bound, claim, csi, csi_node, mounting, named, node_in, on, using, waiting_class,
    };

    const FULL: &str = "NodeVolumeLimits: node(s) exceed max volume count";

    /// Node `a` with room for `limit` volumes of `d`; claims c0 to c4 bound to volumes v0 to v4 of it.
    fn cluster(limit: Option<i32>) -> Ledger {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node_in("a", "z"));
        ledger.apply_csi_node(csi_node("a", "d", limit));
        for i in 0..5 {
            ledger.apply_volume(csi(&format!("v{i}"), "d"));
            ledger.apply_claim(bound(&format!("c{i}"), &format!("v{i}")));
        }
        ledger
    }

    fn fits(ledger: &Ledger, pod: &Pod) -> bool {
        match &*answers(ledger, pod) {
            "a: fits" => true,
            other if other == format!("a: {FULL}") => false,
            other => panic!("{other}"),
        }
    }

    fn place(ledger: &mut Ledger, name: &str, claims: &[&str]) {
        ledger.apply_pod(on("a", using(name, claims)));
    }

    #[test]
    fn volumes_are_counted_once_however_many_pods_mount_them() {
        let mut ledger = cluster(Some(2));
        place(&mut ledger, "one", &["c0", "c1"]);
        place(&mut ledger, "two", &["c1"]);
        assert!(fits(&ledger, &using("p", &["c0", "c1"])), "both are there already");
        assert!(!fits(&ledger, &using("p", &["c1", "c2"])));
        ledger.delete_pod("one");
        assert!(fits(&ledger, &using("p", &["c1", "c2"])), "c1 is still mounted, c0 is not");
        assert!(!fits(&ledger, &using("p", &["c2", "c3"])));
        ledger.audit().expect("counts");
    }

    #[test]
    fn without_a_limit_there_is_none() {
        for mut ledger in [cluster(None), cluster(Some(0))] {
            let limited = ledger.volumes().csi_node("a").is_some_and(|c| c.limit("d").is_some());
            assert_eq!(fits(&ledger, &using("p", &["c0"])), !limited);
            ledger.delete_csi_node("a");
            assert!(fits(&ledger, &using("p", &["c0"])));
            ledger.apply_csi_node(csi_node("a", "other", Some(0)));
            assert!(fits(&ledger, &using("p", &["c0"])), "another driver's limit is not ours");
        }
    }

    #[test]
    fn a_csi_node_may_come_before_its_node_and_stays_after_it() {
        let mut ledger = cluster(Some(1));
        place(&mut ledger, "one", &["c0"]);
        ledger.delete_node("a");
        ledger.apply_node(&node_in("a", "z"));
        assert!(!fits(&ledger, &using("p", &["c1"])));
        ledger.audit().expect("counts");
    }

    fn attachment(name: &str, attacher: &str, volume: Option<&str>) -> VolumeAttachment {
        let volume = volume.map(Str::from);
        VolumeAttachment { name: name.into(), attacher: attacher.into(), node: "a".into(), volume }
    }

    #[test]
    fn attachments_count_where_no_pod_does() {
        let mut ledger = cluster(Some(2));
        ledger.apply_volume_attachment(attachment("of v0", "d", Some("v0")));
        for (name, attacher, volume) in
            [("no volume", "d", None), ("of another driver", "e", Some("v1")), ("gone", "d", Some("nowhere"))]
        {
            ledger.apply_volume_attachment(attachment(name, attacher, volume));
        }
        assert!(fits(&ledger, &using("p", &["c1"])));
        assert!(!fits(&ledger, &using("p", &["c1", "c2"])));
        // As upstream: the pod's own volume is new as long as no pod mounts it, attached or not.
        assert!(!fits(&ledger, &using("p", &["c0", "c1"])));
        place(&mut ledger, "one", &["c0"]);
        assert!(fits(&ledger, &using("p", &["c0", "c1"])), "counted once: mounted and attached");
        ledger.delete_pod("one");
        ledger.delete_volume("v0");
        assert!(fits(&ledger, &using("p", &["c1", "c2"])), "an attachment without its volume counts for nothing");
        ledger.apply_volume(csi("v0", "d"));
        assert!(!fits(&ledger, &using("p", &["c1", "c2"])));
        ledger.delete_volume_attachment("of v0");
        assert!(fits(&ledger, &using("p", &["c1", "c2"])));
        ledger.audit().expect("counts");
    }

    #[test]
    fn claims_without_a_volume_count_for_the_provisioner_of_their_class() {
        let mut ledger = cluster(Some(1));
        ledger.apply_storage_class(waiting_class("late", "d"));
        for name in ["u0", "u1"] {
            ledger.apply_claim(claim(name, "late", 1));
        }
        assert!(fits(&ledger, &using("p", &["u0"])));
        place(&mut ledger, "one", &["u0"]);
        assert!(!fits(&ledger, &using("p", &["u1"])));
        assert!(fits(&ledger, &using("p", &["u0"])), "the same claim");
        // The claim gets its volume: it goes on counting, now as that.
        ledger.apply_claim(bound("u0", "v3"));
        assert!(!fits(&ledger, &using("p", &["u1"])) && fits(&ledger, &using("p", &["c3"])));
        ledger.audit().expect("counts");
        ledger.delete_claim("default/u0");
        assert!(fits(&ledger, &using("p", &["u1"])), "a claim that is gone counts for nothing");
        ledger.apply_storage_class(waiting_class("late", "other"));
        place(&mut ledger, "two", &["u1"]);
        assert!(fits(&ledger, &using("p", &["c0"])));
        ledger.audit().expect("counts");
    }

    fn inline(counts: Result<Option<Attachable>, Str>) -> PodVolume {
        PodVolume::Disk { volume: "data".into(), disk: InlineDisk::Ebs { id: "vol-1".into() }, counts }
    }

    #[test]
    fn disks_named_in_pods_count_for_the_driver_that_took_over() {
        let counted = || inline(Ok(Some(Attachable { driver: "d".into(), handle: "vol-1".into() })));
        let mut ledger = cluster(Some(1));
        assert!(fits(&ledger, &mounting("p", vec![counted()])));
        place(&mut ledger, "one", &["c0"]);
        assert!(!fits(&ledger, &mounting("p", vec![counted()])));
        assert!(fits(&ledger, &mounting("p", vec![inline(Ok(None))])));
        assert!(fits(&ledger, &mounting("p", vec![PodVolume::Csi { driver: "d".into() }])));
        // One that cannot be translated fails the attempt, but only on nodes with a CSINode.
        let broken = mounting("p", vec![inline(Err("no such form".into()))]);
        let text = "failed: running \"NodeVolumeLimits\" filter plugin: converting volume(data) from inline to csi: no such form";
        assert_eq!(answers(&ledger, &broken), text);
        ledger.delete_csi_node("a");
        assert!(fits(&ledger, &broken));
    }

    #[test]
    fn volumes_of_nominated_pods_count() {
        let mut ledger = cluster(Some(2));
        let nominated =
            |name: &str, claims: &[&str]| Pod { nominated_node: Some("a".into()), priority: 10, ..using(name, claims) };
        ledger.apply_pod(nominated("first", &["c0"]));
        assert!(fits(&ledger, &using("p", &["c1"])) && !fits(&ledger, &using("p", &["c1", "c2"])));
        assert!(fits(&ledger, &using("p", &["c0", "c1"])), "shared with the nominated pod");
        ledger.apply_pod(nominated("second", &["c0", "c3"]));
        assert!(!fits(&ledger, &using("p", &["c1"])));
    }

    /// Without the plugins that come first or refuse at once, this one says what it finds.
    #[test]
    fn alone_it_refuses_missing_claims_node_by_node() {
        let ledger = cluster(Some(2));
        let mut profile = CompiledProfile::default_preset("test");
        for filter in [Plugin::VolumeRestrictions, Plugin::VolumeBinding, Plugin::VolumeZone] {
            profile.filters = profile.filters.without(filter);
        }
        let missing = "NodeVolumeLimits: looking up PVC default/x: persistentvolumeclaim \"x\" not found";
        assert_eq!(answers_by(&profile, &ledger, &using("p", &["x"])), format!("a: {missing}"));
        let own = mounting("p", vec![PodVolume::Ephemeral { volume: "tmp".into() }]);
        let missing = "NodeVolumeLimits: looking up PVC default/p-tmp: persistentvolumeclaim \"p-tmp\" not found";
        assert_eq!(answers_by(&profile, &ledger, &own), format!("a: {missing}"));
        let mut ledger = ledger;
        ledger.apply_claim(claim("p-tmp", "", 1));
        let foreign = "failed: running \"NodeVolumeLimits\" filter plugin: PVC default/p-tmp was not created for pod default/p (pod is not owner)";
        assert_eq!(answers_by(&profile, &ledger, &own), foreign);
        let nameless = mounting("p", vec![named("")]);
        let text = "failed: running \"NodeVolumeLimits\" filter plugin: PersistentVolumeClaim had no name";
        assert_eq!(answers_by(&profile, &ledger, &nameless), text);
    }
}
