//! VolumeRestrictions: disks that two pods on one node cannot share, and claims that only one pod at a time may use.
//! After `pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`.

use super::context::{Cause, Overlay, Plugin, PluginContext, PreFilterRefusal, Stop, Verdict};
use super::volumes::mounts::{Mounts, missing_claim};
use crate::ledger::NodeId;
use crate::model::{ClaimKey, DiskLock, InlineDisk, PodVolume, PodVolumes, Str, steps};
use smallvec::SmallVec;

/// What PreFilter found out.
#[derive(Debug)]
pub(crate) struct State {
    /// The pod's disks that cannot be shared.
    disks: Disks,
    /// The pod's ReadWriteOncePod claims, each once, and how often placed pods name them.
    exclusive: SmallVec<[(ClaimKey, usize); 1]>,
}

impl State {
    /// `None` where the plugin skips the pod.
    pub(crate) fn prepare(cx: PluginContext<'_>, mounts: &Mounts<'_, '_>) -> Result<Option<Self>, Stop> {
        let mut state = Self { disks: Disks::default(), exclusive: SmallVec::new() };
        for (key, claim) in mounts.named() {
            let claim = claim.ok_or_else(|| {
                Stop::Refused(PreFilterRefusal::unresolvable(Plugin::VolumeRestrictions, missing_claim(&key.name)))
            })?;
            if claim.is_for_one_pod() && state.exclusive.iter().all(|(known, _)| known != key) {
                state.exclusive.push((key.clone(), cx.ledger.volumes().uses_of(key, cx.ledger.nodes())));
            }
        }
        state.disks = Disks::of(mounts.volumes);
        Ok((!state.disks.0.is_empty() || state.is_in_use()).then_some(state))
    }

    pub(crate) fn filter(&self, cx: PluginContext<'_>, node: NodeId, overlay: &Overlay) -> Verdict {
        if !self.disks.0.is_empty() {
            let placed = cx.ledger.volumes().placed_on(node).iter();
            let placed = placed.filter(|placed| !overlay.has_removed(&placed.uid)).map(|placed| &placed.volumes);
            let added = overlay.mounts_added().map(|(_, volumes)| volumes);
            if placed.chain(added).any(|other| self.disks.conflict_with(other)) {
                return Verdict::unschedulable(Cause::DiskConflict);
            }
        }
        let in_use = if overlay.is_empty() { self.is_in_use() } else { self.is_in_use_with(overlay) };
        if in_use { Verdict::unschedulable(Cause::ClaimInUse) } else { Verdict::FITS }
    }

    /// How many comparisons one volume of another pod takes.
    pub(crate) fn comparisons_with_each(&self) -> usize {
        steps(self.disks.0.len()) + self.exclusive.len()
    }

    pub(crate) fn is_in_use(&self) -> bool {
        self.exclusive.iter().any(|(_, uses)| *uses > 0)
    }

    /// A claim is free once every pod that names it is removed. Upstream compares names alone, which is done here for added pods only:
    /// removing pods of other namespaces must not seem to help.
    fn is_in_use_with(&self, overlay: &Overlay) -> bool {
        let left = |(claim, uses): &(ClaimKey, usize)| {
            let removed = overlay.mounts_removed().filter(|(pod, _)| pod.namespace == claim.namespace);
            let freed: usize = removed.map(|(_, volumes)| mentions(volumes, claim)).sum();
            *uses > freed || overlay.mounts_added().any(|(_, volumes)| mentions(volumes, claim) > 0)
        };
        self.exclusive.iter().any(left)
    }
}

/// How many of the volumes are a claim of that name.
fn mentions(volumes: &PodVolumes, named: &ClaimKey) -> usize {
    let by_name = |volume: &&PodVolume| matches!(volume, PodVolume::Claim { claim } if *claim == named.name);
    volumes.iter().filter(by_name).count()
}

/// What the pod's disks lock, sorted by name, each once with whether all of them only read: both this pod and one that is placed may
/// have any number of disks.
#[derive(Debug, Default)]
struct Disks(Vec<(u8, [Str; 3], bool)>);

impl Disks {
    fn of(volumes: &PodVolumes) -> Self {
        let locks = volumes.disks().flat_map(InlineDisk::locks);
        let mut all: Vec<_> = locks.map(|DiskLock { names: (kind, names), reads }| (kind, names, reads)).collect();
        // Those that write first: they count for the others of the name.
        all.sort_unstable();
        all.dedup_by_key(|(kind, names, _)| (*kind, *names));
        Self(all.into_iter().map(|(kind, names, reads)| (kind, names.map(Str::from), reads)).collect())
    }

    /// O(their disks × log own).
    fn conflict_with(&self, others: &PodVolumes) -> bool {
        others.disks().flat_map(InlineDisk::locks).any(|theirs| {
            let order = |(kind, [a, b, c], _): &(u8, [Str; 3], bool)| (*kind, [&**a, &**b, &**c]).cmp(&theirs.names);
            let own = self.0.binary_search_by(order).ok().map(|at| self.0[at].2);
            own.is_some_and(|reads| !(reads && theirs.reads))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::model::{PersistentVolumeClaim, Pod};
    use crate::profile::CompiledProfile;
    use crate::volume_testing::{answers, bound, csi, mounting, named, node_in, on, using};

    const IN_USE: &str = "VolumeRestrictions: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";

    fn disk(disk: InlineDisk) -> PodVolume {
        PodVolume::Disk { volume: "v".into(), disk, counts: Ok(None) }
    }

    fn gce(name: &str, read_only: bool) -> InlineDisk {
        InlineDisk::GcePd { name: name.into(), read_only }
    }

    fn ebs(id: &str) -> InlineDisk {
        InlineDisk::Ebs { id: id.into() }
    }

    fn iscsi(iqn: &str, read_only: bool) -> InlineDisk {
        InlineDisk::Iscsi { iqn: iqn.into(), read_only }
    }

    fn rbd(monitors: &[&str], pool: &str, image: &str, read_only: bool) -> InlineDisk {
        let monitors = monitors.iter().map(|m| Str::from(*m)).collect();
        InlineDisk::Rbd { monitors, pool: pool.into(), image: image.into(), read_only }
    }

    #[test]
    fn disks_that_cannot_be_shared_keep_pods_apart() {
        let cases = [
            (gce("a", false), gce("a", false), true),
            (gce("a", false), gce("b", false), false),
            (gce("a", true), gce("a", true), false),
            (gce("a", true), gce("a", false), true),
            (ebs("a"), ebs("a"), true),
            (ebs("a"), ebs("b"), false),
            (iscsi("a", false), iscsi("a", true), true),
            (iscsi("a", true), iscsi("a", true), false),
            (iscsi("a", false), iscsi("b", false), false),
            (rbd(&["m", "n"], "p", "i", false), rbd(&["n", "o"], "p", "i", false), true),
            (rbd(&["m"], "p", "i", false), rbd(&["n"], "p", "i", false), false),
            (rbd(&["m"], "p", "i", false), rbd(&["m"], "q", "i", false), false),
            (rbd(&["m"], "p", "i", false), rbd(&["m"], "p", "j", false), false),
            (rbd(&["m"], "p", "i", true), rbd(&["m"], "p", "i", true), false),
            (gce("a", false), ebs("a"), false),
            (InlineDisk::Cinder { id: "a".into() }, InlineDisk::Cinder { id: "a".into() }, false),
        ];
        for (own, other, apart) in cases {
            let mut ledger = Ledger::new();
            ledger.apply_node(&node_in("a", "z"));
            ledger.apply_node(&node_in("b", "z"));
            ledger.apply_pod(on("a", mounting("placed", vec![disk(other.clone())])));
            let answers = answers(&ledger, &mounting("p", vec![disk(own.clone())]));
            let on_a = if apart { "VolumeRestrictions: node(s) had no available disk" } else { "fits" };
            assert_eq!(answers, format!("a: {on_a}, b: fits"), "{own:?} beside {other:?}");
        }
    }

    /// One that writes counts, wherever it stands among those that read.
    #[test]
    fn of_many_disks_of_one_name_one_that_writes_is_enough() {
        let many = |writes: bool| -> Vec<PodVolume> {
            let reading = (0..300).map(|i| disk(rbd(&["m", &format!("m{i}")], "p", "i", true)));
            reading.chain([disk(rbd(&["m"], "p", "i", !writes)), disk(gce("z", true))]).collect()
        };
        for (own, other) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut ledger = Ledger::new();
            ledger.apply_node(&node_in("a", "z"));
            ledger.apply_pod(on("a", mounting("placed", many(other))));
            let fits = answers(&ledger, &mounting("p", many(own))) == "a: fits";
            assert_eq!(fits, !(own || other), "{own} beside {other}");
        }
    }

    fn exclusive(name: &str) -> PersistentVolumeClaim {
        PersistentVolumeClaim { access_modes: vec!["ReadWriteOncePod".into()], ..bound(name, "v") }
    }

    fn cluster() -> Ledger {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node_in("a", "z"));
        ledger.apply_node(&node_in("b", "z"));
        ledger.apply_volume(csi("v", "driver"));
        ledger.apply_claim(exclusive("one"));
        ledger
    }

    #[test]
    fn a_claim_for_one_pod_is_taken_wherever_that_pod_is() {
        let mut ledger = cluster();
        assert_eq!(answers(&ledger, &using("p", &["one"])), "a: fits, b: fits");
        ledger.apply_pod(on("a", using("placed", &["one"])));
        assert_eq!(answers(&ledger, &using("p", &["one"])), format!("a: {IN_USE}, b: {IN_USE}"));
        ledger.delete_pod("placed");
        ledger.apply_pod(on("gone", using("placed", &["one"])));
        assert_eq!(
            answers(&ledger, &using("p", &["one"])),
            "a: fits, b: fits",
            "no such node, no such pod: as upstream"
        );
    }

    #[test]
    fn claims_of_nominated_pods_count_once_the_plugin_runs() {
        let mut ledger = cluster();
        let nominated = Pod { nominated_node: Some("a".into()), priority: 10, ..using("nominated", &["one"]) };
        ledger.apply_pod(nominated);
        // As upstream: with nothing else to check, the plugin skips the pod.
        assert_eq!(answers(&ledger, &using("p", &["one"])), "a: fits, b: fits");
        let with_disk = mounting("p", vec![named("one"), disk(ebs("x"))]);
        assert_eq!(answers(&ledger, &with_disk), format!("a: {IN_USE}, b: fits"));
    }

    /// Upstream goes by names alone, and thinks of one user only: pods would be evicted for nothing.
    #[test]
    fn a_claim_is_free_only_once_all_who_use_it_are_taken_away() {
        let mut ledger = cluster();
        for (name, place) in [("user", "a"), ("second", "a"), ("elsewhere", "b")] {
            ledger.apply_pod(on(place, using(name, &["one"])));
        }
        let mut namesake = using("namesake", &["one"]);
        namesake.key.namespace = "other".into();
        ledger.apply_pod(on("a", namesake));
        let profile = CompiledProfile::default_preset("test");
        let pod = using("p", &["one"]);
        let fits_without = |ledger: &Ledger, names: &[&str]| {
            let cx = PluginContext { profile: &profile, ledger };
            let mounts = Mounts::resolve(ledger, &pod, pod.volumes.as_ref().expect("mounts"));
            let state = State::prepare(cx, &mounts).expect("claims are there").expect("one is in use");
            let at = ledger.nodes().find("a").expect("applied");
            let mut overlay = Overlay::NONE;
            let leaves = ledger.pods_on(at).iter().filter(|placed| names.contains(&&*placed.uid));
            leaves.for_each(|placed| overlay.remove(ledger.nodes(), placed));
            state.filter(cx, at, &overlay).fits()
        };
        assert!(!fits_without(&ledger, &["user", "second", "namesake"]), "one on another node uses it");
        ledger.delete_pod("elsewhere");
        assert!(!fits_without(&ledger, &["namesake"]) && !fits_without(&ledger, &["user", "namesake"]));
        assert!(fits_without(&ledger, &["user", "second"]), "a claim of that name elsewhere is another claim");
    }

    #[test]
    fn a_claim_that_is_not_there_is_refused_before_any_node() {
        let missing = "VolumeRestrictions: persistentvolumeclaim \"two\" not found";
        assert_eq!(answers(&cluster(), &using("p", &["one", "two"])), format!("a: {missing}, b: {missing}"));
    }
}
