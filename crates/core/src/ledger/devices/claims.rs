//! What is seen of each claim, what was written since, and what is being written: after `assumecache` and `inFlightAllocations` of
//! upstream's `dra_manager.go`.
//!
//! ```text
//!   commit ─▶ in flight ── written ──▶ written ── seen at that version or later ──▶ seen
//!                  └── refused, never sent ──▶ (free again)
//! ```
//!
//! A claim that is made for extended resources is there from the commit on: its name is chosen then, and its uid comes with the answer, or
//! when it is seen. It may be deleted before the answer comes, such as with its pod; who waits for the answer makes it once more then. So
//! its devices are not free before that writer has ended.
//!
//! Upstream ends what is in flight with the attempt, whatever became of the write. Here only evidence ends it: a definite answer, or
//! the claim as it is seen.

use super::extended::ExtendedClaims;
use super::{DeviceChange, DeviceTable, Drivers};
use crate::io::{ClaimsOutcome, IdleClaim, WrittenClaim};
use crate::ledger::keyed::{HashKey, KeyedMap};
use crate::ledger::{Change, Ledger};
use crate::model::{ClaimKey, ClaimWrite, ExtendedClaim, Pod, ResourceClaim, Str};
use berth_devices::model::{AllocationResult, ResourceClaim as ClaimSpec};
use berth_devices::state::AllocatedState;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// What was decided for a pod's claims on the node chosen for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimPlan {
    /// All claims of the pod in its order, each once: its uid, and what it gets if it is to be allocated.
    pub claims: Vec<(ClaimKey, Str, Option<Arc<AllocationResult>>)>,
    pub extended: Option<ExtendedPlan>,
}

impl ClaimPlan {
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.extended.is_none()
    }
}

/// The claim that is to be made for a pod's extended resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedPlan {
    pub claim: Arc<ExtendedClaim>,
    pub allocation: Arc<AllocationResult>,
}

/// An allocation that is decided and about to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InFlight {
    allocation: Arc<AllocationResult>,
    /// The uid of the pod that it was decided for.
    pod: Str,
    /// Whether the claim is made for it.
    creates: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Claim {
    seen: Arc<ResourceClaim>,
    /// What was written since, until a version is seen that is as new.
    written: Option<Arc<ResourceClaim>>,
    in_flight: Option<InFlight>,
    /// The uids of pods whose reservations are being given back, with the allocation or without: they must reserve it anew, whatever is
    /// seen meanwhile.
    giving_back: Vec<Str>,
    /// Whether its devices did not get ready in time: it is available nowhere until it is allocated anew.
    is_late: bool,
    /// Of a claim that we made and that was not seen yet: how many whole reads of all claims had begun when it was written.
    unseen: Option<u64>,
    /// Of a claim that is being made: the uid of the one that was seen last and is gone.
    gone: Option<Str>,
}

/// The uid of a claim that is being made.
const NO_UID: &str = "";

impl Claim {
    fn of(object: ResourceClaim) -> Self {
        Self {
            seen: Arc::new(object),
            written: None,
            in_flight: None,
            giving_back: Vec::new(),
            is_late: false,
            unseen: None,
            gone: None,
        }
    }

    /// The claim as it is seen, or what is known of one that is being made.
    pub(super) fn seen(&self) -> &ResourceClaim {
        &self.seen
    }

    /// Whether it is the claim of this object.
    fn is(&self, object: &ResourceClaim) -> bool {
        let is_made_for_it = || object.is_extended && object.controller == self.seen.controller;
        self.seen.uid == object.uid || self.is_being_made() && is_made_for_it()
    }

    /// Whether we have made it, and it was not seen yet, but only one of its name that was there before.
    fn is_made_after(&self, object: &ResourceClaim) -> bool {
        let is_another = self.unseen.is_some() && self.seen.uid != object.uid;
        is_another && !is_as_new(&object.resource_version, &self.now().resource_version)
    }

    /// Whether somebody may still make it, also if it was there before.
    fn is_being_made(&self) -> bool {
        *self.seen.uid == *NO_UID || self.in_flight.as_ref().is_some_and(|in_flight| in_flight.creates)
    }

    /// The pod whose extended resources it is for.
    pub(super) fn extends(&self) -> Option<&Str> {
        self.seen.controller.as_ref().filter(|_| self.seen.is_extended)
    }

    fn gives_back(&mut self, pod: &str) {
        if !self.giving_back.iter().any(|own| **own == *pod) {
            self.giving_back.push(pod.into());
        }
    }

    /// The newest that is known.
    pub(super) fn now(&self) -> &Arc<ResourceClaim> {
        self.written.as_ref().unwrap_or(&self.seen)
    }

    /// Whether the watch has not shown all that was done here with it.
    fn is_ahead_of_watch(&self) -> bool {
        let is_written = self.written.is_some() || self.unseen.is_some();
        is_written || self.is_being_made() || self.in_flight.is_some() || !self.giving_back.is_empty()
    }

    /// What it holds.
    fn held(&self) -> Option<&AllocationResult> {
        let allocated = self.now().allocation.as_ref().map(|allocation| &allocation.result);
        allocated.or_else(|| self.in_flight.as_ref().map(|in_flight| &*in_flight.allocation))
    }
}

/// Whether an object of version `seen` has everything that one of `written` has. Versions are numbers; of others nothing is known, and
/// what is seen counts.
fn is_as_new(seen: &str, written: &str) -> bool {
    match (seen.parse::<u64>(), written.parse::<u64>()) {
        (Ok(seen), Ok(written)) => seen >= written,
        _ => true,
    }
}

/// A claim that is not there yet. It is older than whatever is written.
fn unmade(key: &ClaimKey, pod: Option<Str>, spec: Arc<ClaimSpec>) -> ResourceClaim {
    ResourceClaim {
        key: key.clone(),
        uid: NO_UID.into(),
        resource_version: "0".into(),
        deleting: false,
        controller: pod,
        has_finalizer: false,
        is_extended: true,
        spec,
        allocation: None,
        reserved_for: Vec::new(),
        devices: Vec::new(),
    }
}

impl DeviceTable {
    /// The newest that is known of the claim: as it is seen, or as we wrote it since.
    pub fn claim(&self, key: &ClaimKey) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(key).map(Claim::now)
    }

    /// Whether an allocation of the claim is decided and may be on its way, for whichever pod.
    pub fn is_in_flight(&self, key: &ClaimKey) -> bool {
        self.claims.get(key).is_some_and(|claim| claim.in_flight.is_some())
    }

    /// Whether the pod's reservation of the claim is being given back, and was not written anew since.
    pub fn is_giving_back(&self, pod: &str, key: &ClaimKey, uid: &str) -> bool {
        let claim = self.claims.get(key).filter(|claim| *claim.seen.uid == *uid);
        claim.is_some_and(|claim| claim.giving_back.iter().any(|own| **own == *pod))
    }

    /// Whether the devices of the claim did not get ready in time: then it is available on no node until it is allocated anew.
    pub fn is_late(&self, key: &ClaimKey) -> bool {
        self.claims.get(key).is_some_and(|claim| claim.is_late)
    }

    /// Whether the watch has not shown all that was done here with claims: of one that we wrote, or may have written, or whose reservation is
    /// being given back. O(claims), for the end of a process.
    pub fn is_ahead_of_watch(&self) -> bool {
        self.claims.values().any(Claim::is_ahead_of_watch)
    }

    /// Every claim as it is now, in no order.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<ResourceClaim>> {
        self.claims.values().map(Claim::now)
    }

    /// Compares what is kept for all claims together with what they make from nothing.
    pub(in crate::ledger) fn audit(&self, hash_key: &HashKey) -> Result<(), String> {
        let (mut allocated, mut extended) = (AllocatedState::default(), ExtendedClaims::new(hash_key));
        let mut keys: Vec<&ClaimKey> = self.claims.keys().collect();
        keys.sort_unstable();
        for key in keys {
            let claim = &self.claims[key];
            if claim.seen.key != *key || claim.now().key != *key {
                return Err(format!("claim {key} is kept as {} and {}", claim.seen.key, claim.now().key));
            }
            extended.change(key, None, claim.extends());
            if let Some(held) = claim.held() {
                allocated.allocate(held);
            }
        }
        if self.allocated != allocated {
            return Err(format!("devices in use {:?}, the claims hold {allocated:?}", self.allocated));
        }
        if self.extended != extended {
            return Err(format!("claims for extended resources {:?}, there are {extended:?}", self.extended));
        }
        Ok(())
    }
}

/// The claims while one of them changes.
pub(in crate::ledger) struct ClaimsNow<'a>(&'a mut KeyedMap<ClaimKey, Claim>);

impl ClaimsNow<'_> {
    /// Whether this changes what is known.
    pub(super) fn see(&mut self, object: ResourceClaim) -> bool {
        if self.0.get(&object.key).is_some_and(|claim| claim.is_made_after(&object)) {
            return false;
        }
        let Some(claim) = self.0.get_mut(&object.key).filter(|claim| claim.is(&object)) else {
            self.0.insert(object.key.clone(), Claim::of(object));
            return true;
        };
        claim.unseen = None;
        let before = claim.now().clone();
        if object.allocation.is_some() {
            claim.in_flight = None;
        }
        if is_as_new(&object.resource_version, &before.resource_version) {
            claim.written = None;
            claim.giving_back.retain(|pod| object.is_reserved_for(pod));
        }
        let is_as_allocated = object.allocation.is_some() && object.allocation == claim.seen.allocation;
        claim.is_late &= is_as_allocated;
        claim.seen = Arc::new(object);
        *claim.now() != before
    }

    pub(super) fn delete(&mut self, key: &ClaimKey) -> bool {
        match self.0.get_mut(key) {
            // What is gone was seen, and this was not.
            Some(claim) if claim.unseen.is_some() => false,
            Some(claim) if claim.is_being_made() => {
                let Claim { seen, in_flight, .. } = claim;
                let pod = in_flight.as_ref().map(|in_flight| in_flight.pod.clone()).or_else(|| seen.controller.clone());
                let made = unmade(key, pod, seen.spec.clone());
                let gone = Some(seen.uid.clone()).filter(|uid| **uid != *NO_UID);
                *claim = Claim { in_flight: in_flight.take(), gone: gone.or(claim.gone.take()), ..Claim::of(made) };
                true
            }
            Some(_) => self.remove(key),
            None => false,
        }
    }

    fn remove(&mut self, key: &ClaimKey) -> bool {
        self.0.remove(key).is_some()
    }

    fn of(&mut self, key: &ClaimKey, uid: &str) -> Option<&mut Claim> {
        self.0.get_mut(key).filter(|claim| *claim.seen.uid == *uid)
    }

    /// A claim that is to be made.
    fn make(&mut self, write: &ClaimWrite, claim: &ExtendedClaim, pod: &Str) {
        let spec = Arc::new(ClaimSpec { name: write.key.name.clone(), ..claim.spec.clone() });
        let object = unmade(&write.key, Some(pod.clone()), spec);
        self.0.entry(write.key.clone()).or_insert_with(|| Claim::of(object));
    }

    fn begin(&mut self, write: &ClaimWrite, pod: &Str) -> bool {
        let (Some(claim), Some(allocation)) = (self.of(&write.key, &write.uid), &write.allocation) else {
            return false;
        };
        claim.in_flight =
            Some(InFlight { allocation: allocation.clone(), pod: pod.clone(), creates: write.creates.is_some() });
        true
    }

    /// The claim is written, as far as it was asked for.
    fn wrote(
        &mut self,
        written: &WrittenClaim,
        allocation: Option<&AllocationResult>,
        (pod, reads): (&Str, u64),
    ) -> bool {
        let is_new = |claim: &&mut Claim| claim.is_being_made() && claim.seen.uid != written.uid;
        if let Some(made) = self.0.get_mut(&written.key).filter(is_new) {
            if made.gone.as_ref() == Some(&written.uid) {
                return self.remove(&written.key);
            }
            // One that was made before it may still be seen.
            let object = unmade(&written.key, Some(pod.clone()), made.seen.spec.clone());
            let object = ResourceClaim { uid: written.uid.clone(), ..object };
            *made = Claim { in_flight: made.in_flight.take(), unseen: Some(reads), ..Claim::of(object) };
        }
        let Some(claim) = self.of(&written.key, &written.uid) else { return false };
        claim.in_flight = claim.in_flight.take().filter(|in_flight| in_flight.pod != *pod);
        claim.giving_back.retain(|own| own != pod);
        if is_as_new(&claim.now().resource_version, &written.resource_version) {
            // The watch was faster.
            return true;
        }
        let now = claim.now().once_written(allocation, pod);
        let now = ResourceClaim { resource_version: written.resource_version.clone(), ..now };
        claim.written = Some(Arc::new(now));
        true
    }

    /// What was decided for the pod is not written.
    fn end(&mut self, write: &ClaimWrite, pod: &str) -> bool {
        let Some(claim) = self.0.get_mut(&write.key) else { return false };
        let is_same = *claim.seen.uid == *write.uid || write.creates.is_some();
        let is_ours = is_same && claim.in_flight.as_ref().is_some_and(|in_flight| *in_flight.pod == *pod);
        if is_ours {
            claim.in_flight = None;
            if *claim.seen.uid == *NO_UID {
                self.0.remove(&write.key);
            }
        }
        is_ours
    }

    /// The claim is reserved for the pod no more. Says whether it was.
    fn unreserve(&mut self, key: &ClaimKey, uid: &str, pod: &str) -> bool {
        let Some(claim) = self.of(key, uid) else { return false };
        if !claim.now().is_reserved_for(pod) {
            return false;
        }
        let mut now = ResourceClaim::clone(claim.now());
        now.reserved_for.retain(|own| **own != *pod);
        claim.written = Some(Arc::new(now));
        claim.gives_back(pod);
        true
    }

    fn set_late(&mut self, key: &ClaimKey, uid: &str) -> bool {
        self.of(key, uid).is_some_and(|claim| !std::mem::replace(&mut claim.is_late, true))
    }
}

impl Ledger {
    /// Changes one claim, and what it holds with it. `change` says whether it changed anything.
    pub(super) fn change_claim(&mut self, key: &ClaimKey, change: impl FnOnce(&mut ClaimsNow<'_>) -> bool) {
        let devices = &mut self.devices;
        let before = devices.claims.get(key).cloned();
        if !change(&mut ClaimsNow(&mut devices.claims)) {
            return;
        }
        let now = devices.claims.get(key);
        let (extended, extends) = (before.as_ref().and_then(Claim::extends), now.and_then(Claim::extends));
        devices.extended.change(key, extended, extends);
        let of_pod = extends.or(extended).cloned();
        let (before, now) = (before.as_ref().and_then(Claim::held), now.and_then(Claim::held));
        let has_changed = before != now;
        let mut freed = Drivers::new();
        if has_changed {
            // First what is held now: nothing is forgotten of a device that was held before, too.
            if let Some(held) = now {
                devices.allocated.allocate(held);
            }
            if let Some(held) = before {
                devices.allocated.deallocate(held);
                freed.extend(held.results.iter().filter(|one| !one.admin_access).map(|one| one.driver.clone()));
                freed.sort_unstable();
                freed.dedup();
            }
            let held = before.into_iter().chain(now).flat_map(|held| &held.results);
            devices.offers.change(&self.nodes, &devices.slices, held.map(|one| (&one.driver, &one.pool)));
        }
        self.record(None, Change::Device(DeviceChange::Claim { key: key.clone(), freed, of_pod }));
    }

    /// Whether all claims of the plan are there.
    pub(in crate::ledger) fn has_claims_of(&self, plan: &ClaimPlan) -> bool {
        plan.claims.iter().all(|(key, uid, _)| self.devices.claim(key).is_some_and(|claim| claim.uid == *uid))
    }

    /// Brings into force what was decided for the pod's claims, and gives what is to be written.
    pub(in crate::ledger) fn assume_claims(&mut self, plan: &ClaimPlan, pod: &Pod) -> Arc<[ClaimWrite]> {
        let write = |(key, uid, allocation): &(ClaimKey, Str, Option<Arc<AllocationResult>>)| {
            let claim = self.devices.claim(key).filter(|claim| claim.uid == *uid)?;
            Some(ClaimWrite {
                key: key.clone(),
                uid: uid.clone(),
                resource_version: claim.resource_version.clone(),
                has_finalizer: claim.has_finalizer,
                allocation: allocation.clone(),
                judged: claim.allocation.clone(),
                needed: allocation.is_some()
                    || !claim.is_reserved_for(&pod.uid)
                    || self.devices.is_giving_back(&pod.uid, key, uid),
                creates: None,
            })
        };
        let made = plan.extended.as_ref().map(|extended| made_for(pod, extended, self.log.version()));
        let writes: Arc<[ClaimWrite]> = plan.claims.iter().filter_map(write).chain(made).collect();
        for write in writes.iter().filter(|write| write.allocation.is_some()) {
            self.change_claim(&write.key, |claims| {
                if let Some(claim) = &write.creates {
                    claims.make(write, claim, &pod.uid);
                }
                claims.begin(write, &pod.uid)
            });
        }
        writes
    }

    /// The writes to the claims of the pod `uid` ended.
    ///
    /// The runtime calls this before the worker hears of the outcome, and also if the worker has ended by then.
    pub fn claims_written(&mut self, uid: &Str, writes: &[ClaimWrite], outcome: &ClaimsOutcome) {
        for write in writes {
            let is_it = |written: &&WrittenClaim| {
                written.key == write.key && (written.uid == write.uid || write.creates.is_some())
            };
            let (written, reads) = (outcome.written.iter().find(is_it), self.devices.reads);
            self.change_claim(&write.key, |claims| match written {
                Some(written) => claims.wrote(written, write.devices(), (uid, reads)),
                None => claims.end(write, uid),
            });
        }
    }

    /// The claims for extended resources of pods which wait, and which no profile serves, whoever has made them; each with its pod, in the
    /// order of their names. Those that are still being written are left out. O(claims for extended resources).
    pub fn abandoned_claims(&self) -> Vec<(ClaimKey, Arc<Pod>)> {
        let DeviceTable { claims, extended, .. } = &self.devices;
        let abandoned = |key: &ClaimKey| {
            let claim = claims.get(key).filter(|claim| !claim.is_being_made())?;
            Some((key.clone(), self.unserved(claim.extends()?)?.clone()))
        };
        let mut all: Vec<_> = extended.all().filter_map(abandoned).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// A whole read of all claims begins.
    pub fn begin_read_of_claims(&mut self) {
        self.devices.reads += 1;
    }

    /// It has ended: what we had made before it began, and it has not shown, is gone.
    pub fn end_read_of_claims(&mut self) {
        let DeviceTable { claims, extended, reads, .. } = &self.devices;
        let unseen = |key: &ClaimKey| claims.get(key).and_then(|claim| claim.unseen);
        let is_gone = |key: &&ClaimKey| unseen(key).is_some_and(|written_after| written_after < *reads);
        let mut gone: Vec<ClaimKey> = extended.all().filter(is_gone).cloned().collect();
        gone.sort_unstable();
        for key in gone {
            self.change_claim(&key, |claims| claims.remove(&key));
        }
    }

    /// The devices of the claim did not get ready in time.
    pub fn devices_are_late(&mut self, key: &ClaimKey, uid: &str) {
        self.change_claim(key, |claims| claims.set_late(key, uid));
    }

    /// The claim is about to be deallocated, because it keeps the pod `uid` from nodes and nobody else uses it. What is seen stays in force;
    /// an attempt of the pod that finds it reserved must not take that for granted.
    pub fn deallocate_claim(&mut self, uid: &str, idle: &IdleClaim) {
        self.change_claim(&idle.key, |claims| {
            if let Some(claim) = claims.of(&idle.key, &idle.uid) {
                claim.gives_back(uid);
            }
            // Nobody can use it who could not before.
            false
        });
    }

    /// The pod `uid` is not bound after all: it gives the reservations of its claims back. Returns those that it had; none where another
    /// worker has taken the pod over, and counts on them.
    pub fn unreserve_claims(&mut self, uid: &str, writes: &[ClaimWrite]) -> Vec<(ClaimKey, Str)> {
        let mut had = Vec::new();
        if self.is_placed(uid) {
            return had;
        }
        // What was made for the pod alone is deleted, and holds its devices until then.
        for write in writes.iter().filter(|write| write.creates.is_none()) {
            self.change_claim(&write.key, |claims| {
                let was_reserved = claims.unreserve(&write.key, &write.uid, uid);
                had.extend(was_reserved.then(|| (write.key.clone(), write.uid.clone())));
                was_reserved
            });
        }
        had
    }
}

/// What is to be written of the claim that is made for the pod's extended resources. Its name has what the API server would add to
/// `generateName`, so that the claim is found again where no answer comes.
fn made_for(pod: &Pod, ExtendedPlan { claim, allocation }: &ExtendedPlan, version: u64) -> ClaimWrite {
    /// What API servers take for names that they generate: letters and digits that make no words.
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    /// The longest beginning that API servers keep of such names.
    const LONGEST: usize = 58;
    let mut name = ExtendedClaim::generate_name(pod, LONGEST);
    let mut bits = BuildHasherDefault::<DefaultHasher>::default().hash_one((&*pod.uid, version, "extended"));
    for _ in 0..5 {
        name.push(char::from(LETTERS[(bits % LETTERS.len() as u64) as usize]));
        bits /= LETTERS.len() as u64;
    }
    ClaimWrite {
        key: ClaimKey { namespace: pod.key.namespace.clone(), name: name.into() },
        uid: NO_UID.into(),
        resource_version: "0".into(),
        has_finalizer: false,
        allocation: Some(allocation.clone()),
        judged: None,
        needed: true,
        creates: Some(claim.clone()),
    }
}
