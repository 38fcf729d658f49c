//! Volumes of the load: which pods have claims, and what the API server says of them in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_lab::{Api, ControlPlane};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::checker::{SHOWN_WITHIN, bound_at};
use crate::load::{LOADED, delete_all};
use crate::storage::{NOBODY, VOLUMES, claim_path, class, local_volume};

/// Claims of this class wait for their pod: the scheduler chooses the volume.
const WAITS: &str = "waits";

/// The volume controller chooses for claims of this class, and only one pod at a time may use each of them.
const ALONE: &str = "alone";

const ZONE: &str = "topology.kubernetes.io/zone";

/// In how many zones nodes are.
pub(super) const ZONES: usize = 3;

/// Makes the classes.
pub(super) fn set_up(plane: &ControlPlane) {
    class(plane, WAITS, NOBODY, "WaitForFirstConsumer");
    class(plane, ALONE, NOBODY, "Immediate");
}

/// The claim of the pod of this number: one in ten has one of its own, and of each hundred two want one that only one pod may use.
pub(super) fn claim_of(i: usize) -> Option<String> {
    match (i % 10, i % 100) {
        (3, _) => Some(format!("{WAITS}-{i}")),
        (_, 7) => Some(format!("{ALONE}-{i}")),
        (_, 8) => Some(format!("{ALONE}-{}", i - 1)),
        _ => None,
    }
}

/// What must be there for the pod of this number: a claim, and beside it a volume that can be used in one zone, so that there are as
/// many as claims. Each with its collection.
pub(super) fn needed_by(i: usize) -> Vec<(String, Value)> {
    // Both pods that want one bring it: one of them may have come, and gone with its claim, before the other is made.
    let Some(claim) = claim_of(i) else { return Vec::new() };
    let (class, mode) = if i % 10 == 3 { (WAITS, "ReadWriteOnce") } else { (ALONE, "ReadWriteOncePod") };
    let mut volume = local_volume(&claim, class, "");
    volume["spec"]["accessModes"] = json!([mode]);
    let zone = json!([{"key": ZONE, "operator": "In", "values": [format!("zone-{}", i / 10 % ZONES)]}]);
    volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = json!([{"matchExpressions": zone}]);
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": LOADED},
        "spec": {"accessModes": [mode], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}},
    });
    vec![(VOLUMES.to_owned(), volume), (claim_path(LOADED, ""), claim)]
}

/// Deletes the claim of a pod that went, and its volume, unless another pod wants it.
pub(super) fn end_after(api: &Api, i: usize) {
    let Some(path) = claim_of(i).filter(|_| i % 100 != 7).map(|claim| claim_path(LOADED, &claim)) else { return };
    let volume = api.get(&path).ok().and_then(|claim| claim["spec"]["volumeName"].as_str().map(str::to_owned));
    drop(api.delete(&path, None));
    if let Some(volume) = volume {
        drop(api.delete(&format!("{VOLUMES}/{volume}"), None));
    }
}

/// Deletes all claims, then all volumes; whether nothing is left.
pub(super) fn clear(api: &Api) -> bool {
    [claim_path(LOADED, "").as_str(), VOLUMES].into_iter().all(|collection| delete_all(api, collection, None))
}

/// Claims, volumes and nodes as the API server has them, by name.
pub(super) struct Storage<'a> {
    pub(super) claims: BTreeMap<&'a str, &'a Value>,
    pub(super) volumes: BTreeMap<&'a str, &'a Value>,
    pub(super) nodes: BTreeMap<&'a str, &'a Value>,
    /// When the deletion of which node, for good, was asked for.
    pub(super) gone: &'a BTreeMap<String, Timestamp>,
}

impl<'a> Storage<'a> {
    /// Whether the early pod counted nowhere when the late one was bound, as far as can be told: while its node is away it does not, as
    /// upstream (docs/differences.md), and from when the node is there again it does.
    fn was_away(&self, early: &Value, late: &Value) -> bool {
        let node = text(&early["spec"]["nodeName"]);
        let (Some(was), Some(bound)) = (bound_at(early), bound_at(late)) else { return false };
        // A pod says when it was bound to the second: it may have been one later.
        let is_gone = self.gone.get(node).is_some_and(|gone| *gone < bound + Duration::from_secs(1));
        let made = self.nodes.get(node).map(|node| text(&node["metadata"]["creationTimestamp"]));
        let made = made.and_then(|made| made.parse::<Timestamp>().ok());
        is_gone || made.is_some_and(|made| made >= was && bound <= made + SHOWN_WITHIN)
    }

    /// Two of the pods, one of which was bound to the claim while the other used it; each is said with its node and the time.
    fn crowded(&self, users: &[&Value]) -> Option<[String; 2]> {
        let told = |pod: &Value| {
            format!("{} (on {}, {:?})", text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]), bound_at(pod))
        };
        let mut users = users.to_vec();
        users.sort_by_key(|pod| bound_at(pod));
        let is_right = |early: &Value, late: &Value| {
            let either = bound_at(early) == bound_at(late) && self.was_away(late, early);
            either || self.was_away(early, late)
        };
        users.iter().enumerate().find_map(|(i, late)| {
            let early = users[..i].iter().find(|early| !is_right(early, late))?;
            Some([told(early), told(late)])
        })
    }

    /// The claims that only one pod may use, and that one of the pods, which are on nodes, does.
    pub(super) fn taken(&self, placed: &[&'a Value]) -> BTreeSet<&'a str> {
        let taken = placed.iter().filter_map(|pod| claim_in(pod));
        taken.filter(|claim| self.claims.get(claim).is_some_and(|claim| is_for_one_pod(claim))).collect()
    }

    /// What must not be of the volumes of these pods, which are on nodes.
    pub(super) fn broken(&self, placed: &[&'a Value]) -> Vec<String> {
        let mut broken = Vec::new();
        let mut users: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for pod in placed {
            let Some(claim) = claim_in(pod) else { continue };
            let (name, node) = (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
            users.entry(claim).or_default().push(pod);
            if let Err(why) = self.allows(claim, node) {
                broken.push(format!("pod {name} is on {node}, and {why}"));
            }
        }
        let alone =
            users.iter().filter(|(claim, _)| self.claims.get(**claim).is_some_and(|claim| is_for_one_pod(claim)));
        let crowds = alone.filter_map(|(claim, users)| Some((claim, self.crowded(users)?)));
        broken.extend(
            crowds.map(|(claim, pods)| format!("claim {claim} is for one pod, and {} use it", pods.join(", "))),
        );
        let mut owner: BTreeMap<&str, &str> = BTreeMap::new();
        for (claim, object) in &self.claims {
            let Some(volume) = object["spec"]["volumeName"].as_str() else { continue };
            if let Some(other) = owner.insert(volume, claim) {
                broken.push(format!("volume {volume} is that of two claims, {other} and {claim}"));
            }
        }
        broken
    }

    /// Whether a pod with this claim may be on the node; `Err` says why not.
    fn allows(&self, claim: &str, node: &str) -> Result<(), String> {
        let object = self.claims.get(claim).ok_or_else(|| format!("its claim {claim} is gone"))?;
        let volume = object["spec"]["volumeName"].as_str().ok_or_else(|| format!("its claim {claim} has no volume"))?;
        let volume_object = self.volumes.get(volume).ok_or_else(|| format!("its volume {volume} is gone"))?;
        let owner = &volume_object["spec"]["claimRef"]["uid"];
        if owner != &object["metadata"]["uid"] {
            return Err(format!("its volume {volume} is that of another claim than {claim}"));
        }
        // A node that was deleted has no labels to look at any more.
        let Some(node) = self.nodes.get(node) else { return Ok(()) };
        let is_met = |test: &Value| {
            let value = &node["metadata"]["labels"][text(&test["key"])];
            test["operator"] == "In" && test["values"].as_array().is_some_and(|values| values.contains(value))
        };
        let terms = volume_object["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"].as_array();
        let fits = |term: &Value| term["matchExpressions"].as_array().is_some_and(|tests| tests.iter().all(is_met));
        let allowed = terms.is_some_and(|terms| terms.iter().any(fits));
        if allowed { Ok(()) } else { Err(format!("its volume {volume} cannot be used there")) }
    }
}

/// The claim of a pod of the load: it has at most one.
pub(super) fn claim_in(pod: &Value) -> Option<&str> {
    pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"].as_str()
}

fn is_for_one_pod(claim: &Value) -> bool {
    claim["spec"]["accessModes"][0] == "ReadWriteOncePod"
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
