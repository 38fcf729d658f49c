//! What looks at a pod's volumes have found so far, where the last was given up.

use super::FAILED;
use crate::ledger::{Ledger, NodeId, VolumeTable};
use crate::model::{PersistentVolumeClaim, Pod, PodVolumes, Str};
use crate::plugins::context::Verdict;
use crate::plugins::volume_binding::Sought;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// What is good for one pod as long as none of its claims and no volume, class or the like changes: verdicts on rows, and the
/// volumes that its claims may get.
///
/// Claims of other pods count where these are placed, and there only: see [`Row`]. Else whoever writes into a claim of his own many
/// times a second would have every long look begin anew.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    uid: Option<Str>,
    volumes: Weak<PodVolumes>,
    version: u64,
    claims: OwnClaims,
    in_use: bool,
    rows: FxHashMap<NodeId, Row>,
    pub(crate) sought: Sought,
    /// Upstream's text of the first filter that failed, on some row.
    failure: Option<Str>,
}

/// What was found on a row as it was at two versions: its own, and that of what the pods there mount. What their claims count as may
/// change although nothing of the row does.
#[derive(Debug, Clone, Copy)]
struct Row {
    versions: (u64, u64),
    found: Found,
}

/// The verdicts of the filters that look at volumes: they do not all run one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) volumes: Verdict,
    pub(crate) disks: Verdict,
    /// Whether a filter of `volumes` failed: see [`Kept::failure`].
    failed: bool,
}

impl Found {
    /// What an attempt that comes to the filters of `volumes` on this row fails with.
    pub(crate) fn failure(self, kept: &RefCell<Kept>) -> Option<Str> {
        if self.failed { kept.borrow().failure.clone() } else { None }
    }
}

impl Kept {
    /// Forgets everything unless it was found for this pod, and nothing has changed since.
    pub(crate) fn begin(&mut self, ledger: &Ledger, pod: &Pod) {
        let Some(volumes) = &pod.volumes else {
            // The look at a pod with volumes is over. Most pods have none, and come after another one of these.
            if self.uid.is_some() {
                *self = Self::default();
            }
            return;
        };
        let table = ledger.volumes();
        let is_good = self.uid.as_ref() == Some(&pod.uid)
            && std::ptr::eq(self.volumes.as_ptr(), Arc::as_ptr(volumes))
            && self.version == table.version()
            && self.claims.are_as_seen(table, pod, volumes);
        if !is_good {
            let (uid, version) = (Some(pod.uid.clone()), table.version());
            let claims = OwnClaims::seen(table, pod, volumes);
            *self = Self { uid, volumes: Arc::downgrade(volumes), version, claims, ..Self::default() };
        }
    }

    /// Forgets the verdicts unless they were found with the same answer to whether placed pods use a claim of the pod that only one
    /// may use.
    pub(crate) fn see_use(&mut self, in_use: bool) {
        if self.in_use != in_use {
            self.in_use = in_use;
            self.rows.clear();
            self.failure = None;
        }
    }

    /// What was found on the row as it is now.
    pub(crate) fn found(&self, ledger: &Ledger, node: NodeId) -> Option<Found> {
        let row = self.rows.get(&node)?;
        (row.versions == versions(ledger, node)).then_some(row.found)
    }

    pub(crate) fn keep(&mut self, ledger: &Ledger, node: NodeId, volumes: Result<Verdict, Str>, disks: Verdict) {
        let failed = volumes.is_err();
        let volumes = volumes.unwrap_or_else(|text| {
            self.failure.get_or_insert(text);
            FAILED
        });
        let found = Found { volumes, disks, failed };
        self.rows.insert(node, Row { versions: versions(ledger, node), found });
    }
}

fn versions(ledger: &Ledger, node: NodeId) -> (u64, u64) {
    (ledger.nodes().version[node.index()], ledger.volumes().mounts_version(node))
}

/// The pod's claims in its order, as they were when a look began.
#[derive(Debug, Default)]
struct OwnClaims {
    version: u64,
    all: Vec<Option<OwnClaim>>,
}

#[derive(Debug)]
struct OwnClaim {
    claim: Arc<PersistentVolumeClaim>,
    selected_node: Option<Str>,
}

impl OwnClaims {
    fn seen(table: &VolumeTable, pod: &Pod, volumes: &PodVolumes) -> Self {
        Self { version: table.claims_version(), all: own(table, pod, volumes).collect() }
    }

    /// Whether they are what they were, as far as plugins read them. O(1) where no claim has changed at all.
    fn are_as_seen(&mut self, table: &VolumeTable, pod: &Pod, volumes: &PodVolumes) -> bool {
        if self.version == table.claims_version() {
            return true;
        }
        self.version = table.claims_version();
        self.all.iter_mut().zip(own(table, pod, volumes)).all(|(seen, now)| {
            let same = match (&*seen, &now) {
                (None, None) => true,
                (Some(seen), Some(now)) => seen.reads_as(now),
                _ => false,
            };
            // The next look need not compare it again.
            *seen = now;
            same
        })
    }
}

impl OwnClaim {
    fn reads_as(&self, other: &Self) -> bool {
        self.selected_node == other.selected_node
            && (Arc::ptr_eq(&self.claim, &other.claim) || self.claim.reads_as(&other.claim))
    }
}

fn own<'t>(
    table: &'t VolumeTable,
    pod: &'t Pod,
    volumes: &'t PodVolumes,
) -> impl Iterator<Item = Option<OwnClaim>> + 't {
    volumes.claims(&pod.key.namespace, &pod.key.name).map(|(key, _)| {
        let claim = table.claim(&key)?.clone();
        let selected_node = table.selected_node(&claim).cloned();
        Some(OwnClaim { claim, selected_node })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::{Decision, Scheduler};
    use crate::model::{CsiNode, InTreePlugin, InlineDisk, Migration, PersistentVolume, PodVolume, VolumeSource};
    use crate::profile::CompiledProfile;
    use crate::volume_testing::{bound, claim, csi_node, mounting, named, node_in, on, using, volume, waiting_class};

    /// Nodes `a`, where a pod of others is, and `b`; pods that wait: one that shares the claim `own`, and one of others.
    fn cluster() -> Ledger {
        let mut ledger = Ledger::new();
        for name in ["a", "b"] {
            ledger.apply_node(&node_in(name, "z"));
        }
        ledger.apply_storage_class(waiting_class("made", "driver"));
        for name in ["own", "mounted", "unused"] {
            ledger.apply_claim(claim(name, "made", 1));
        }
        ledger.apply_volume(volume("v", "", 1));
        ledger.apply_pod(on("a", using("placed", &["mounted"])));
        ledger.apply_pod(using("shares", &["own"]));
        ledger.apply_pod(using("others", &["unused"]));
        ledger
    }

    fn changed(claim: PersistentVolumeClaim) -> PersistentVolumeClaim {
        PersistentVolumeClaim { resource_version: "2".into(), ..claim }
    }

    fn selected(node: &str) -> PersistentVolumeClaim {
        changed(PersistentVolumeClaim { selected_node: Some(node.into()), ..claim("own", "made", 1) })
    }

    /// The pod is assumed on `b`, and its claim's volume is to be made for it.
    fn assume(ledger: &mut Ledger, name: &str) {
        let Some(crate::ledger::PodState::Pending(pod)) = ledger.pod(name).cloned() else { panic!("it waits") };
        let mut scheduler = Scheduler::new(CompiledProfile::default_preset("test").into(), 1);
        let Decision::Place(mut proposal) = scheduler.decide(ledger, &pod) else { panic!("it fits") };
        proposal.node = ledger.nodes().find("b").expect("applied");
        proposal.epoch = ledger.nodes().epoch[proposal.node.index()];
        let committed = ledger.commit(&proposal, |_| None).expect("nothing came between");
        assert!(committed.volumes.is_some(), "its claim is bound first");
    }

    /// On which nodes that which was found before `change` is found after it.
    fn found_after(ledger: &mut Ledger, change: impl FnOnce(&mut Ledger)) -> String {
        let pod = using("p", &["own"]);
        let mut kept = Kept::default();
        kept.begin(ledger, &pod);
        let nodes = ["a", "b"].map(|name| (name, ledger.nodes().find(name).expect("applied")));
        for (_, node) in nodes {
            kept.keep(ledger, node, Ok(Verdict::FITS), Verdict::FITS);
        }
        change(ledger);
        kept.begin(ledger, &pod);
        let found = nodes.into_iter().filter(|(_, node)| kept.found(ledger, *node).is_some());
        found.map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_was_found_is_kept_as_long_as_nothing_changes_that_it_depends_on() {
        type Case = (&'static str, fn(&mut Ledger), &'static str);
        let cases: [Case; 17] = [
            ("nothing", |_| (), "a b"),
            ("a claim nobody mounts", |ledger| ledger.apply_claim(changed(claim("unused", "made", 5))), "a b"),
            ("it is bound", |ledger| ledger.apply_claim(changed(bound("unused", "v"))), "a b"),
            ("it is gone", |ledger| ledger.delete_claim("default/unused"), "a b"),
            ("a new one", |ledger| ledger.apply_claim(claim("new", "made", 1)), "a b"),
            ("a mounted claim, elsewhere", |ledger| ledger.apply_claim(changed(claim("mounted", "made", 5))), "a b"),
            ("it is bound: it counts as its volume", |ledger| ledger.apply_claim(changed(bound("mounted", "v"))), "b"),
            ("it has another class", |ledger| ledger.apply_claim(changed(claim("mounted", "", 1))), "b"),
            ("it is gone", |ledger| ledger.delete_claim("default/mounted"), "b"),
            ("the own claim, elsewhere", |ledger| ledger.apply_claim(changed(claim("own", "made", 1))), "a b"),
            ("it has grown", |ledger| ledger.apply_claim(changed(claim("own", "made", 2))), ""),
            ("it has a node", |ledger| ledger.apply_claim(selected("a")), ""),
            ("it is gone", |ledger| ledger.delete_claim("default/own"), ""),
            ("a pod of others is assumed", |ledger| assume(ledger, "others"), "a"),
            ("a pod that shares the claim is assumed", |ledger| assume(ledger, "shares"), ""),
            ("a volume", |ledger| ledger.apply_volume(volume("w", "made", 1)), ""),
            ("a class", |ledger| ledger.delete_storage_class("made"), ""),
        ];
        for (what, change, expected) in cases {
            assert_eq!(found_after(&mut cluster(), change), expected, "{what}");
        }
    }

    #[test]
    fn what_was_found_is_kept_while_others_give_claims_back() {
        for (name, expected) in [("others", "a"), ("shares", "")] {
            let mut ledger = cluster();
            assume(&mut ledger, name);
            assert_eq!(found_after(&mut ledger, |ledger| ledger.forget(name)), expected, "{name}");
        }
    }

    /// As upstream, whose pass with the nominated pods ends before VolumeBinding: only what a row comes to can fail.
    #[test]
    fn a_filter_that_would_fail_behind_another_ones_refusal_fails_nothing() {
        let mut ledger = Ledger::new();
        ledger.apply_node(&node_in("a", "z"));
        ledger.apply_csi_node(CsiNode {
            migrated_plugins: vec!["kubernetes.io/gce-pd".into()],
            ..csi_node("a", "driver", None)
        });
        let migration = Migration { plugin: InTreePlugin::GcePd, affinity: Err("no such form".into()) };
        let source = VolumeSource::InTree { attachable: None, migration, disk: "pd".into() };
        ledger.apply_volume(PersistentVolume { source, ..volume("v", "", 1) });
        ledger.apply_claim(bound("c", "v"));
        let disk = || InlineDisk::GcePd { name: "three".into(), read_only: false };
        let mounted = || PodVolume::Disk { volume: "d".into(), disk: disk(), counts: Ok(None) };
        let pod = Arc::new(mounting("p", vec![named("c"), mounted()]));
        let mut scheduler = Scheduler::new(CompiledProfile::default_preset("test").into(), 1);
        let mut answers = |ledger: &Ledger| {
            [(); 2].map(|()| match scheduler.decide(ledger, &pod) {
                Decision::NoFit(no_fit) => no_fit.diagnosis.to_string(),
                Decision::Failed(text) => text.to_string(),
                other => format!("{other:?}"),
            })
        };
        let failed = "running \"VolumeBinding\" filter plugin: could not translate pv: no such form".to_owned();
        assert_eq!(answers(&ledger), [failed.clone(), failed.clone()]);
        let nominated = mounting("nominated", vec![mounted()]);
        ledger.apply_pod(Pod { nominated_node: Some("a".into()), ..nominated });
        let refused = "0/1 nodes are available: 1 node(s) had no available disk.".to_owned();
        assert_eq!(answers(&ledger), [refused.clone(), refused]);
        ledger.delete_pod("nominated");
        assert_eq!(answers(&ledger), [failed.clone(), failed]);
    }
}
