//! What must never happen to claims and volumes. V1: no pod is bound before its claims, or where their volumes are not. V2: no second pod
//! with a claim that only one may use. V3: no volume for two claims, and no claim with two volumes. V4: no volume asked for on two nodes.

use super::facts::{Facts, NodeLife, PodFact};
use super::model::api::{Asked, Place};
use super::model::kinds::Of;
use super::model::store::text;
use super::rules::{Rules, Wrong};
use serde_json::Value;

fn claim_of(body: &Value) -> &str {
    text(body, "/spec/claimRef/uid")
}

/// V1 and V2 of a bind to a node; `is_known` tells which other pods the operator has long known to be on a node that is there: as with
/// kube-scheduler, pods on nodes that are gone use no claim.
pub(crate) fn claims_of_bind(
    (pod, life): (&PodFact, &NodeLife),
    facts: &Facts,
    is_known: impl Fn(&PodFact) -> bool,
) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if pod.gone.is_some() {
        // Its claims may have gone with it.
        return wrong;
    }
    for at in &pod.claims {
        let claim = facts.claims.get(at);
        let volume = claim.and_then(|claim| facts.volumes.get(claim.volume.as_ref()?));
        match volume {
            None => wrong.push(("V1", format!("claim {at} is not bound"))),
            Some(volume) if !volume.is_usable_on(life) => {
                wrong.push(("V1", format!("the volume of claim {at} cannot be used on {}", life.name)));
            }
            Some(_) => {}
        }
        let shares =
            |one: &&PodFact| one.uid != pod.uid && one.takes_room() && one.claims.contains(at) && is_known(one);
        if claim.is_some_and(|claim| claim.one_pod)
            && let Some(other) = facts.pods.values().find(shares)
        {
            wrong.push(("V2", format!("{} uses claim {at}", other.key)));
        }
    }
    wrong
}

impl Rules {
    /// A volume is given to a claim by an operator that has known of what was shown up to `long` for long.
    pub(crate) fn volume_sent(&mut self, what: &str, place: &Place, asked: &Asked, facts: &Facts, long: u64) {
        let body = asked.json();
        let uid = claim_of(&body);
        for (name, volume) in facts.volumes.iter().filter(|(_, volume)| volume.since <= long) {
            let is_its = volume.claim.as_deref() == Some(uid);
            if *name == place.name && volume.claim.is_some() && !is_its {
                self.breaks("V3", &format!("{what}: it knows that the volume is another claim's"));
            }
            if *name != place.name && is_its {
                self.breaks("V3", &format!("{what}: it knows that the claim has volume {name}"));
            }
        }
    }

    /// A write to a volume or claim was carried out; the facts are those from before.
    pub(crate) fn storage_changed(&mut self, what: &str, place: &Place, body: &Value, facts: &Facts) {
        if place.of == Of::Volumes {
            let before = facts.volumes.get(&place.name).and_then(|volume| volume.claim.as_deref());
            if before.is_some_and(|before| before != claim_of(body)) {
                self.breaks("V3", &format!("{what}: it was another claim's"));
            }
            return;
        }
        let before = facts.claims.get(&place.key()).and_then(|claim| claim.selected.as_deref());
        let node = &body["metadata"]["annotations"][super::storage::SELECTED_NODE];
        if before.is_some_and(|before| *node != before) {
            self.breaks("V4", &format!("{what}: its volume was to be made for {before:?}"));
        }
    }
}
