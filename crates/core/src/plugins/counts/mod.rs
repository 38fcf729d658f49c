//! How many pods alike are on each node and in each domain, kept between attempts.
//!
//! A [`Layout`] says in which domain each node is, and which nodes count. A [`Counter`] counts the pods [`Alike`] by node, and by
//! domain of each layout it was asked with. [`Counters`] reads the log once for all counters: a change finds the counters that its
//! pod concerns by the pod's match class, so that a thousand workloads cost an attempt no more than one.

mod by_node;
mod layout;

use by_node::ByNode;
use layout::Place;
pub(crate) use layout::{Eligibility, Layout, LayoutKey, Layouts};
#[cfg(test)]
pub(crate) use layout::{GATED, LAID_OUT};

use super::cache::{ByAddress, CacheKey, Compared, Recent};
use super::context::{ROWS_PER_WORK, SUMMED_PER_WORK, Stop, Work, work_of};
use crate::ledger::{Change, Ledger, MatchClass, NodeId};
use crate::limits::{COUNTER_BYTES, MATCH_CLASSES_REMEMBERED, SUMS_PER_COUNTER};
use crate::model::{Footprint, LabelSelector, Str};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::{Arc, Weak};

/// Which pods are alike: those of a namespace that one of the selectors matches and that are not terminating.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    pub(crate) namespace: Str,
    pub(crate) selectors: Vec<LabelSelector>,
}

impl Alike {
    pub(crate) fn into_key(self, ledger: &Ledger) -> Arc<CacheKey<Self>> {
        let bytes = self.selectors.heap_bytes();
        Arc::new(CacheKey::new(ledger, self, bytes))
    }

    fn counts(&self, match_class: &MatchClass) -> bool {
        !match_class.terminating
            && match_class.namespace == self.namespace
            && self.selectors.iter().any(|selector| selector.matches(&match_class.labels))
    }

    /// What [`Self::counts`] takes, in units of [`Work`].
    fn cost(&self) -> usize {
        work_of(self.selectors.iter().map(LabelSelector::comparisons).sum())
    }
}

/// The pods alike by domain of one layout.
#[derive(Debug)]
struct Sum {
    /// Once it is given up, so is the sum.
    key: Weak<CacheKey<LayoutKey>>,
    /// The one that was summed by.
    layout: Weak<Layout>,
    by_domain: Vec<u32>,
    used: u64,
}

impl Sum {
    fn refill(&mut self, layout: &Arc<Layout>, by_node: &ByNode) {
        self.layout = Arc::downgrade(layout);
        self.by_domain.clear();
        self.by_domain.resize(layout.carriers.len(), 0);
        by_node.each(|node, count| {
            let place = layout.place(node);
            if place.counts() {
                self.by_domain[place.domain()] += count;
            }
        });
    }

    fn add(&mut self, node: NodeId, delta: i32) {
        let place = self.layout.upgrade().map_or(Place::NOWHERE, |layout| layout.place(node));
        if place.counts() {
            let count = &mut self.by_domain[place.domain()];
            *count = count.saturating_add_signed(delta);
        }
    }
}

/// The pods alike by node, and their sums.
#[derive(Debug, Default)]
struct Counter {
    by_node: ByNode,
    sums: Vec<Sum>,
    /// Whether the change log was followed since it was counted.
    fresh: bool,
    /// Which match classes count, where a count from nothing was given up.
    known: Option<Box<Compared<bool>>>,
}

impl Counter {
    /// Returns whether it takes more bytes now.
    fn add(&mut self, node: NodeId, delta: i32) -> bool {
        if !self.fresh {
            return false;
        }
        let grows = self.by_node.add(node, delta);
        self.sums.iter_mut().for_each(|sum| sum.add(node, delta));
        grows
    }

    /// Counts from nothing: at once where there is enough `work`; where there is not, selectors are compared with classes in parts,
    /// and then all is summed up. O(match classes of the namespace, and nodes with pods alike).
    fn recount(&mut self, ledger: &Ledger, alike: &Alike, work: &mut Work) -> Result<(), Stop> {
        work.take(0)?;
        self.by_node.clear(ledger.nodes().rows());
        let (match_classes, cost) = (ledger.match_classes().of_namespace(&alike.namespace), alike.cost());
        if let Some(known) = &mut self.known {
            for (match_class, _) in match_classes {
                if known.of(Arc::as_ptr(match_class) as usize).is_none() {
                    work.take(cost)?;
                    let held = Arc::<MatchClass>::downgrade(match_class);
                    known.keep(Arc::as_ptr(match_class) as usize, held, alike.counts(match_class));
                }
            }
        }
        for (match_class, by_node) in match_classes {
            let counts = match &self.known {
                Some(known) => known.of(Arc::as_ptr(match_class) as usize) == Some(&true),
                None if work.take(cost).is_ok() => alike.counts(match_class),
                None => {
                    self.known = Some(Box::default());
                    return Err(Stop::Unfinished);
                }
            };
            if counts {
                let mut nodes = 0;
                for (node, count) in by_node.iter() {
                    self.by_node.add(node, count as i32);
                    nodes += 1;
                }
                work.spend(nodes / ROWS_PER_WORK);
            }
        }
        self.sums.clear();
        self.known = None;
        self.fresh = true;
        Ok(())
    }

    /// The place of the sum over `layout`. O(1); where the layout is not the one of the last call, O(domains and nodes with pods alike).
    fn sum(&mut self, layout: &Arc<Layout>, round: u64, work: &mut Work) -> Result<usize, Stop> {
        let at = self.place_for(layout, round);
        let sum = &mut self.sums[at];
        sum.used = round;
        if !std::ptr::eq(sum.layout.as_ptr(), Arc::as_ptr(layout)) || sum.by_domain.is_empty() {
            work.take((layout.carriers.len() + self.by_node.len()) / SUMMED_PER_WORK)?;
            sum.refill(layout, &self.by_node);
        }
        Ok(at)
    }

    fn place_for(&mut self, layout: &Arc<Layout>, round: u64) -> usize {
        let is_same = |sum: &Sum| {
            std::ptr::eq(sum.key.as_ptr(), Arc::as_ptr(&layout.key))
                || sum.key.upgrade().is_some_and(|key| key == layout.key)
        };
        if let Some(at) = self.sums.iter().position(is_same) {
            return at;
        }
        let key = Arc::downgrade(&layout.key);
        let empty = Sum { key, layout: Weak::new(), by_domain: Vec::new(), used: round };
        let is_full = self.sums.len() >= SUMS_PER_COUNTER;
        let may_go = |at: &usize| self.sums[*at].used < round && (is_full || self.sums[*at].key.strong_count() == 0);
        let free = (0..self.sums.len()).filter(may_go).min_by_key(|at| self.sums[*at].used);
        if let Some(at) = free {
            self.sums[at] = empty;
            at
        } else {
            self.sums.push(empty);
            self.sums.len() - 1
        }
    }

    fn heap_bytes(&self) -> usize {
        let sums = self.sums.iter().map(|sum| size_of::<Sum>() + sum.by_domain.capacity() * size_of::<u32>());
        let known = self.known.as_ref().map_or(0, |known| known.heap_bytes());
        self.by_node.heap_bytes() + sums.sum::<usize>() + known
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
    by_namespace: FxHashMap<CacheKey<Str>, Vec<u32>>,
    concerned: ByAddress<MatchClass, Concerned, MATCH_CLASSES_REMEMBERED>,
    /// Changes whenever the set of counters does.
    generation: u64,
}

impl Counters {
    pub(crate) fn age(&mut self) {
        self.recent.age();
    }

    /// Follows the change log to its end and begins a round: counters asked for from here on are not replaced until the next.
    pub(crate) fn catch_up(&mut self, ledger: &Ledger, work: &mut Work) -> Result<(), Stop> {
        self.recent.begin_round();
        let since = std::mem::replace(&mut self.cursor, ledger.version());
        if self.recent.is_empty() || since == self.cursor {
            return Ok(());
        }
        let Ok(changes) = ledger.log().since(since) else {
            self.recent.values_mut().for_each(|counter| counter.fresh = false);
            return Ok(());
        };
        let end = std::mem::replace(&mut self.cursor, since);
        for (_, change) in changes {
            work.take(1)?;
            self.cursor += 1;
            match change {
                Change::PodPlaced { node, match_class } => self.count(ledger, match_class, *node, 1, work),
                Change::Freed { node, match_class, .. } => self.count(ledger, match_class, *node, -1, work),
                Change::Regrouped { node, before, after, .. } => {
                    self.count(ledger, before, *node, -1, work);
                    self.count(ledger, after, *node, 1, work);
                }
                _ => {}
            }
        }
        debug_assert_eq!(self.cursor, end);
        // Counters grow with the pods that they count.
        self.shed(ledger);
        Ok(())
    }

    fn count(&mut self, ledger: &Ledger, match_class: &Arc<MatchClass>, node: NodeId, delta: i32, work: &mut Work) {
        let concerned = self.concerned.get_or_insert(match_class, Concerned::default);
        if concerned.generation != self.generation {
            let namespace = CacheKey::new(ledger, match_class.namespace.clone(), 0);
            let of_namespace = self.by_namespace.get(&namespace).map_or(&[][..], Vec::as_slice);
            let counts = |slot: &u32| {
                let alike = self.recent.key(*slot as usize);
                work.spend(alike.map_or(0, |alike| alike.cost()));
                alike.is_some_and(|alike| alike.counts(match_class))
            };
            let slots = of_namespace.iter().copied().filter(counts).collect();
            *concerned = Concerned { generation: self.generation, slots };
        }
        for slot in &concerned.slots {
            let Some(counter) = self.recent.value_mut(*slot as usize) else { continue };
            if counter.add(node, delta) {
                work.spend(counter.by_node.len() / SUMMED_PER_WORK);
                let bytes = counter.heap_bytes();
                self.recent.weigh(*slot as usize, bytes);
            }
        }
    }

    /// The counter of `alike`, up to date if [`Self::catch_up`] was called before.
    pub(crate) fn get(
        &mut self,
        ledger: &Ledger,
        alike: &Arc<CacheKey<Alike>>,
        work: &mut Work,
    ) -> Result<usize, Stop> {
        let slot = self.recent.find(alike).unwrap_or_else(|| self.insert(ledger, alike));
        if let Some(counter) = self.recent.value_mut(slot).filter(|counter| !counter.fresh) {
            let counted = counter.recount(ledger, alike, work);
            self.weigh(slot);
            counted?;
        }
        Ok(slot)
    }

    /// As [`Self::get`], for [`Self::by_node`]. O(nodes) the first time.
    pub(crate) fn get_by_node(
        &mut self,
        ledger: &Ledger,
        alike: &Arc<CacheKey<Alike>>,
        work: &mut Work,
    ) -> Result<usize, Stop> {
        let slot = self.get(ledger, alike, work)?;
        if let Some(counter) = self.recent.value_mut(slot)
            && counter.by_node.lay_out(ledger.nodes().rows())
        {
            work.spend(ledger.nodes().rows() / SUMMED_PER_WORK);
            self.weigh(slot);
        }
        Ok(slot)
    }

    fn weigh(&mut self, slot: usize) {
        if let Some(counter) = self.recent.value(slot) {
            let bytes = counter.heap_bytes();
            self.recent.weigh(slot, bytes);
        }
    }

    fn insert(&mut self, ledger: &Ledger, alike: &Arc<CacheKey<Alike>>) -> usize {
        self.shed(ledger);
        let slot = self.recent.insert(alike.clone(), Counter::default());
        self.generation += 1;
        let namespace = CacheKey::new(ledger, alike.namespace.clone(), 0);
        self.by_namespace.entry(namespace).or_default().push(slot as u32);
        slot
    }

    /// Forgets what was not used for longest, down to [`COUNTER_BYTES`].
    fn shed(&mut self, ledger: &Ledger) {
        let max_bytes = COUNTER_BYTES;
        #[cfg(test)]
        let max_bytes = self.max_bytes.unwrap_or(max_bytes);
        let by_namespace = &mut self.by_namespace;
        self.recent.shed(max_bytes, |slot, gone| {
            let namespace = CacheKey::new(ledger, gone.namespace.clone(), 0);
            let Some(slots) = by_namespace.get_mut(&namespace) else { return };
            slots.retain(|s| *s as usize != slot);
            if slots.is_empty() {
                by_namespace.remove(&namespace);
            }
        });
    }

    /// Prepares the sum of `counter` over `layout`.
    pub(crate) fn sum(&mut self, counter: usize, layout: &Arc<Layout>, work: &mut Work) -> Result<usize, Stop> {
        let round = self.recent.round();
        let Some(counted) = self.recent.value_mut(counter) else { return Ok(0) };
        let sum = counted.sum(layout, round, work)?;
        self.weigh(counter);
        Ok(sum)
    }

    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.recent.bytes()
    }

    /// Pods alike by row, of a counter that [`Self::get_by_node`] gave; rows beyond the end have none.
    pub(crate) fn by_node(&self, counter: usize) -> &[u32] {
        self.recent.value(counter).map_or(&[], |counter| counter.by_node.rows())
    }

    /// Pods alike by domain.
    pub(crate) fn by_domain(&self, counter: usize, sum: usize) -> &[u32] {
        self.recent.value(counter).and_then(|counter| counter.sums.get(sum)).map_or(&[], |sum| &sum.by_domain)
    }
}
