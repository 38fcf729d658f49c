//! Queueing hints: which kind of change may help a pod that a plugin refused (semantics §1.10).
//!
//! Mostly a plain table: it looks at the kind of change, not at the pod. Where pods come, go and change their labels all the
//! time, what they say to a pod that another pod's labels or terms refused is looked at ([`movement`]). A wake-up too many costs
//! one attempt, a missed one strands a pod until the sweep; so where it is not clear, this wakes.

mod events;
mod movement;
#[cfg(test)]
mod tests;
pub(super) mod volumes;

pub use events::{WakeEvent, wake_events};
pub(crate) use volumes::claim_matters_to;

use super::helped_by;
use crate::ledger::{Change, Ledger};
use crate::limits::{HINT_LOOKS, HINT_MATCH_CLASSES};
use crate::model::{Plugin, PluginSet, PodShape};
use movement::Movement;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What changes may help, by plugin, and the pods that came and went in the changes noted last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints {
    /// For each plugin, the version of the newest change that may help a pod it refused.
    newest: [u64; Plugin::ALL.len()],
    /// The same without placed pods that came, went or changed, for the plugins that look at those.
    newest_other: [u64; Plugin::ALL.len()],
    /// Pods that came, went or changed since [`Self::begin`], once for each match_class, with the newest version.
    movements: Vec<(u64, Movement)>,
}

/// The plugins that look at who came and went.
const LOOKING_CLOSER: [Plugin; 2] = [Plugin::PodTopologySpread, Plugin::InterPodAffinity];

impl Hints {
    /// Begins to note another run of changes, after which [`Self::judge`] is asked about every pod that waits.
    pub(crate) fn begin(&mut self) {
        self.movements.clear();
    }

    /// Notes the change of version `version`; says whether it may help anyone. `inside`: it happened on a node that the
    /// profile places on, or on none in particular.
    pub(crate) fn note(&mut self, version: u64, change: &Change, inside: bool) -> bool {
        let helped = helped_by(change, inside);
        let movement = Movement::of(change);
        let looks_closer = movement.is_some_and(|movement| self.note_movement(version, movement));
        for plugin in helped.iter() {
            self.newest[plugin as usize] = version;
            if !(looks_closer && LOOKING_CLOSER.contains(&plugin)) {
                self.newest_other[plugin as usize] = version;
            }
        }
        !helped.is_empty()
    }

    /// Keeps a movement to be looked at pod by pod; false where there are too many.
    fn note_movement(&mut self, version: u64, movement: Movement) -> bool {
        if let Some((newest, _)) = self.movements.iter_mut().rev().find(|(_, known)| known.is(&movement)) {
            *newest = version;
            return true;
        }
        let room = self.movements.len() < HINT_MATCH_CLASSES;
        if room {
            self.movements.push((version, movement));
        }
        room
    }

    /// Notes that anything may have changed up to `version`.
    pub(crate) fn note_gap(&mut self, version: u64) {
        self.newest.fill(version);
        self.newest_other.fill(version);
    }

    /// Whether something after version `since` may help some pod that `rejectors` refused.
    ///
    /// No change in the cluster says when an extender would answer otherwise: it may any time, and is asked again after
    /// backoff.
    pub(crate) fn may_help(&self, rejectors: PluginSet, since: u64) -> bool {
        rejectors.has(Plugin::Extender) || rejectors.iter().any(|plugin| self.newest[plugin as usize] > since)
    }

    /// A judge of the changes noted last.
    pub(crate) fn judge<'a>(&'a self, ledger: &'a Ledger) -> Judge<'a> {
        Judge { hints: self, ledger, known: FxHashMap::default(), looks: 0 }
    }
}

/// Says which pods the changes noted last may help; shapes that are alike are looked at once.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    hints: &'a Hints,
    ledger: &'a Ledger,
    /// By the address of a shape that the queue holds: the newest movement that says something to it, for each plugin.
    known: FxHashMap<*const PodShape, [u64; LOOKING_CLOSER.len()]>,
    looks: usize,
}

impl Judge<'_> {
    /// Whether something after version `since` may help a pod of `shape` that `rejectors` refused.
    pub(crate) fn may_help(&mut self, rejectors: PluginSet, since: u64, shape: &Arc<PodShape>) -> bool {
        let hints = self.hints;
        rejectors.iter().any(|plugin| {
            let closer = LOOKING_CLOSER.iter().position(|p| *p == plugin);
            closer.map_or(hints.newest[plugin as usize] > since, |at| {
                hints.newest_other[plugin as usize] > since
                    || (hints.newest[plugin as usize] > since && self.newest_movements(shape)[at] > since)
            })
        })
    }

    fn newest_movements(&mut self, shape: &Arc<PodShape>) -> [u64; LOOKING_CLOSER.len()] {
        if let Some(known) = self.known.get(&Arc::as_ptr(shape)) {
            return *known;
        }
        // So many different pods wait, and so much moved, that trying some of them in vain costs less.
        if self.looks > HINT_LOOKS {
            return [u64::MAX; LOOKING_CLOSER.len()];
        }
        self.looks += self.hints.movements.len();
        let mut newest = [0; LOOKING_CLOSER.len()];
        for (version, movement) in &self.hints.movements {
            let says = [movement.may_even_out(shape), movement.may_open(self.ledger, shape)];
            for (newest, says) in newest.iter_mut().zip(says) {
                *newest = if says { (*newest).max(*version) } else { *newest };
            }
        }
        self.known.insert(Arc::as_ptr(shape), newest);
        newest
    }
}
