//! A pod that is judged by the same facts as one that was just refused is refused in the same words, without a search: a thousand equal
//! pods that fit nowhere cost one search.

use crate::cycle::Diagnosis;
use crate::limits::{KNOWN_REFUSALS, KNOWN_REFUSALS_BYTES};
use crate::model::{ExtendedRequests, Footprint, Pod, PodShape, Str};
use crate::plugins::{PluginSet, node_affinity};
use crate::profile::{CompiledProfile, VictimScope};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Duration;

/// What a search and the preemption after it read of a pod, besides what [`is_plain`] excludes. Shapes are interned, and each one is kept
/// alive here: its address is compared, never followed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    shape: usize,
    priority: i32,
    preempts: bool,
    extended: Option<Arc<[ExtendedRequests]>>,
}

impl Key {
    fn of(pod: &Pod) -> Self {
        Self {
            shape: Arc::as_ptr(&pod.shape) as usize,
            priority: pod.priority,
            preempts: pod.preempts,
            extended: pod.extended.clone(),
        }
    }
}

/// How the attempt of a pod ended for which nothing is evicted.
#[derive(Debug, Clone)]
pub(super) struct KnownRefusal {
    pub(super) diagnosis: Arc<Diagnosis>,
    pub(super) rejectors: PluginSet,
    /// Why nothing is evicted; none where preemption did not run.
    pub(super) preemption: Option<Str>,
    /// Kept so that its address stays its own.
    _shape: Arc<PodShape>,
}

/// The refusals since the facts changed last.
#[derive(Debug, Default)]
pub(super) struct KnownRefusals {
    /// [`Ledger::facts_version`](crate::ledger::Ledger::facts_version) of all of them.
    facts: u64,
    known: FxHashMap<Key, KnownRefusal>,
    /// Bytes of the shapes that are kept alive.
    bytes: usize,
    /// Nothing is known: each pod is searched for.
    #[cfg(test)]
    pub(super) forgets: bool,
}

impl KnownRefusals {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.bytes = 0;
    }

    /// How the attempt of `pod` ends as long as these are the `facts`, if that is known.
    pub(super) fn get(&mut self, profile: &CompiledProfile, facts: u64, pod: &Pod) -> Option<&KnownRefusal> {
        if self.facts != facts {
            self.clear();
            return None;
        }
        self.known.get(&Key::of(pod)).filter(|_| is_plain(pod) && repeats(profile))
    }

    /// Keeps how the attempt of `pod` ended by these `facts`.
    pub(super) fn put(
        &mut self,
        profile: &CompiledProfile,
        facts: u64,
        pod: &Pod,
        (diagnosis, rejectors): (&Arc<Diagnosis>, PluginSet),
        preemption: Option<&Str>,
    ) {
        if !is_plain(pod) || !repeats(profile) {
            return;
        }
        #[cfg(test)]
        if self.forgets {
            return;
        }
        let bytes = pod.shape.heap_bytes();
        let is_full = self.known.len() >= KNOWN_REFUSALS || self.bytes + bytes > KNOWN_REFUSALS_BYTES;
        if self.facts != facts || is_full {
            self.clear();
            self.facts = facts;
        }
        if bytes > KNOWN_REFUSALS_BYTES {
            return;
        }
        self.bytes += bytes;
        let (diagnosis, preemption) = (diagnosis.clone(), preemption.cloned());
        self.known.insert(Key::of(pod), KnownRefusal { diagnosis, rejectors, preemption, _shape: pod.shape.clone() });
    }
}

/// Whether nothing is read of the pod but its key: neither its own claims, nor the node that it is nominated to. A search for a pod that
/// names its nodes moves the place where the next one begins.
fn is_plain(pod: &Pod) -> bool {
    pod.volumes.is_none()
        && pod.resource_claims.is_none()
        && pod.nominated_node.is_none()
        && node_affinity::named(&pod.shape).is_none()
}

/// Whether the profile's attempts come to the same as long as the ledger's facts do: nobody else is asked, and no rule of preemption reads
/// the time, or who is being evicted. Of two arms each has its own answers. What was done for the pod before is for the caller to look at.
fn repeats(profile: &CompiledProfile) -> bool {
    let preemption = &profile.preemption;
    let depends = preemption.strict_budgets
        || preemption.scope != VictimScope::Any
        || preemption.max_per_minute.is_some()
        || preemption.max_per_pod.is_some()
        || !preemption.protected_namespaces.is_empty()
        || preemption.min_runtime != Duration::ZERO;
    profile.extenders.is_empty() && profile.canary.is_none() && !(preemption.enabled && depends)
}
