//! How many pods alike are on each node and in each domain, kept between attempts.
//!
//! A [`Layout`] says in which domain each node is, and which nodes count. A [`Counter`] counts the pods [`Alike`] by node, and by
//! domain of each layout it was asked with. [`Counters`] reads the log once for all counters: a change finds the counters that its
//! pod concerns by the pod's match class, so that a thousand workloads cost an attempt no more than one.

mod layout;

pub(crate) use layout::{Layout, LayoutKey, Layouts};

use super::cache::{ByAddress, Recent};
use super::context::{Stop, Work};
use crate::ledger::{Change, Ledger, MatchClass, NodeId};
use crate::limits::{COUNTER_BYTES, COUNTERS_AT_LEAST, MATCH_CLASSES_REMEMBERED, SUMS_PER_COUNTER};
use crate::model::{LabelSelector, Str};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Which pods are alike: those of a namespace that one of the selectors matches and that are not terminating.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    pub(crate) namespace: Str,
    pub(crate) selectors: Vec<LabelSelector>,
}

impl Alike {
    fn counts(&self, match_class: &MatchClass) -> bool {
        !match_class.terminating
            && match_class.namespace == self.namespace
            && self.selectors.iter().any(|selector| selector.matches(&match_class.labels))
    }
}

/// The pods alike by domain of one layout.
#[derive(Debug)]
struct Sum {
    layout: Arc<Layout>,
    by_domain: Vec<u32>,
    used: u64,
}

impl Sum {
    fn refill(&mut self, by_node: &[u32]) {
        self.by_domain.clear();
        self.by_domain.resize(self.layout.carriers.len(), 0);
        for (place, count) in self.layout.places.iter().zip(by_node) {
            if place.counts() {
                self.by_domain[place.domain()] += count;
            }
        }
    }

    fn add(&mut self, node: NodeId, delta: i32) {
        let place = self.layout.place(node);
        if place.counts() {
            let count = &mut self.by_domain[place.domain()];
            *count = count.saturating_add_signed(delta);
        }
    }
}

/// The pods alike by node, and their sums.
#[derive(Debug, Default)]
struct Counter {
    by_node: Vec<u32>,
    sums: Vec<Sum>,
    /// Whether the change log was followed since it was counted.
    fresh: bool,
}

impl Counter {
    fn add(&mut self, node: NodeId, delta: i32) {
        if !self.fresh {
            return;
        }
        if self.by_node.len() <= node.index() {
            self.by_node.resize(node.index() + 1, 0);
        }
        let count = &mut self.by_node[node.index()];
        *count = count.saturating_add_signed(delta);
        self.sums.iter_mut().for_each(|sum| sum.add(node, delta));
    }

    /// Counts from nothing. O(match classes of the namespace, and nodes with pods alike), in one piece.
    fn recount(&mut self, ledger: &Ledger, alike: &Alike, work: &mut Work) -> Result<(), Stop> {
        let match_classes = ledger.match_classes().of_namespace(&alike.namespace);
        work.take(match_classes.len())?;
        self.by_node.clear();
        self.by_node.resize(ledger.nodes().rows(), 0);
        for (match_class, by_node) in match_classes {
            if alike.counts(match_class) {
                for (node, count) in by_node.iter() {
                    self.by_node[node.index()] += count;
                }
            }
        }
        self.sums.clear();
        self.fresh = true;
        Ok(())
    }

    /// The place of the sum over `layout`. O(1), or O(nodes) where the layout is not the one of the last call.
    fn sum(&mut self, layout: &Arc<Layout>, round: u64) -> usize {
        let at = self.place_for(layout, round);
        let sum = &mut self.sums[at];
        sum.used = round;
        if !Arc::ptr_eq(&sum.layout, layout) || sum.by_domain.is_empty() {
            sum.layout = layout.clone();
            sum.refill(&self.by_node);
        }
        at
    }

    fn place_for(&mut self, layout: &Arc<Layout>, round: u64) -> usize {
        if let Some(at) = self.sums.iter().position(|sum| sum.layout.key == layout.key) {
            return at;
        }
        let empty = Sum { layout: layout.clone(), by_domain: Vec::new(), used: round };
        let oldest = (0..self.sums.len()).min_by_key(|at| self.sums[*at].used);
        let is_old = |at: &usize| self.sums.len() >= SUMS_PER_COUNTER && self.sums[*at].used < round;
        if let Some(at) = oldest.filter(is_old) {
            self.sums[at] = empty;
            at
        } else {
            self.sums.push(empty);
            self.sums.len() - 1
        }
    }
}

/// The counters that count the pods of a match class, good for one generation of the set of counters.
#[derive(Debug, Default)]
struct Concerned {
    generation: u64,
    slots: SmallVec<[u32; 2]>,
}

/// Counters by the pods that they count, bounded.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Keeps fewer counters than [`COUNTER_BYTES`] says.
    #[cfg(test)]
    pub(crate) max_bytes: Option<usize>,
    cursor: u64,
    recent: Recent<Alike, Counter>,
    by_namespace: FxHashMap<Str, Vec<u32>>,
    concerned: ByAddress<MatchClass, Concerned, MATCH_CLASSES_REMEMBERED>,
    /// Changes whenever the set of counters does.
    generation: u64,
    round: u64,
}

impl Counters {
    /// Follows the change log to its end and begins a round: counters asked for from here on are not replaced until the next.
    pub(crate) fn catch_up(&mut self, ledger: &Ledger, work: &mut Work) -> Result<(), Stop> {
        self.round += 1;
        self.recent.begin_round();
        let since = std::mem::replace(&mut self.cursor, ledger.version());
        if self.recent.len() == 0 || since == self.cursor {
            return Ok(());
        }
        let Ok(changes) = ledger.log().since(since) else {
            self.recent.values_mut().for_each(|counter| counter.fresh = false);
            return Ok(());
        };
        let behind = (self.cursor - since) as usize;
        let part = work.part_of(behind);
        self.cursor = since + part as u64;
        for (_, change) in changes.take(part) {
            match change {
                Change::PodPlaced { node, match_class } => self.count(match_class, *node, 1),
                Change::Freed { node, match_class, .. } => self.count(match_class, *node, -1),
                Change::Regrouped { node, before, after } => {
                    self.count(before, *node, -1);
                    self.count(after, *node, 1);
                }
                _ => {}
            }
        }
        if part < behind { Err(Stop::Unfinished) } else { Ok(()) }
    }

    fn count(&mut self, match_class: &Arc<MatchClass>, node: NodeId, delta: i32) {
        let concerned = self.concerned.get_or_insert(match_class, Concerned::default);
        if concerned.generation != self.generation {
            let of_namespace = self.by_namespace.get(&match_class.namespace).into_iter().flatten().copied();
            let counts = |slot: &u32| self.recent.key(*slot as usize).counts(match_class);
            *concerned = Concerned { generation: self.generation, slots: of_namespace.filter(counts).collect() };
        }
        for slot in &concerned.slots {
            self.recent.value_mut(*slot as usize).add(node, delta);
        }
    }

    /// The counter of `alike`, up to date if [`Self::catch_up`] was called before.
    pub(crate) fn get(&mut self, ledger: &Ledger, alike: &Arc<Alike>, work: &mut Work) -> Result<usize, Stop> {
        let slot = self.recent.find(alike).unwrap_or_else(|| self.insert(ledger, alike));
        let counter = self.recent.value_mut(slot);
        if !counter.fresh {
            counter.recount(ledger, alike, work)?;
        }
        Ok(slot)
    }

    fn insert(&mut self, ledger: &Ledger, alike: &Arc<Alike>) -> usize {
        let max_bytes = COUNTER_BYTES;
        #[cfg(test)]
        let max_bytes = self.max_bytes.unwrap_or(max_bytes);
        let bound = max_bytes / (size_of::<u32>() * ledger.nodes().rows().max(1));
        let (slot, before) = self.recent.insert(alike.clone(), Counter::default(), bound.max(COUNTERS_AT_LEAST));
        self.generation += 1;
        if let Some(before) = before
            && let Some(slots) = self.by_namespace.get_mut(&before.namespace)
        {
            slots.retain(|s| *s as usize != slot);
            if slots.is_empty() {
                self.by_namespace.remove(&before.namespace);
            }
        }
        self.by_namespace.entry(alike.namespace.clone()).or_default().push(slot as u32);
        slot
    }

    /// Prepares the sum of `counter` over `layout`.
    pub(crate) fn sum(&mut self, counter: usize, layout: &Arc<Layout>) -> usize {
        let round = self.round;
        self.recent.value_mut(counter).sum(layout, round)
    }

    /// Pods alike by row; rows beyond the end have none.
    pub(crate) fn by_node(&self, counter: usize) -> &[u32] {
        &self.recent.value(counter).by_node
    }

    /// Pods alike by domain.
    pub(crate) fn by_domain(&self, counter: usize, sum: usize) -> &[u32] {
        &self.recent.value(counter).sums[sum].by_domain
    }
}
