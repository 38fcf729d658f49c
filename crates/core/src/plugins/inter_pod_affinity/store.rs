use super::domain_counts::DomainCounts;
use super::term_query::{Kind, TermQuery};
use super::topology_columns::TopologyColumns;
use crate::ledger::Ledger;
use crate::limits::{AFFINITY_TABLES_BYTES, TOPOLOGY_KEYS};
use crate::model::PodShape;
use crate::plugins::context::PluginContext;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Shapes whose queries are found by address, without comparing labels and terms.
const SHAPES: usize = 512;

/// Where counts are kept; the counts that come into a slot later have another serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handle {
    slot: usize,
    serial: u64,
}

#[derive(Debug)]
struct Slot {
    counts: DomainCounts,
    serial: u64,
    last_used: u64,
}

/// A shape and where the counts of its queries are. It keeps the shape alive, so that the address identifies it.
#[derive(Debug)]
struct Remembered {
    shape: Arc<PodShape>,
    handles: [Option<Handle>; Kind::COUNT],
}

/// The counts of the queries that were asked last, bounded: the least recently used are replaced.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) topology: TopologyColumns,
    slots: Vec<Slot>,
    by_query: FxHashMap<Arc<TermQuery>, usize>,
    shapes: Vec<Option<Remembered>>,
    uses: u64,
    serials: u64,
}

impl Store {
    /// Prepares for an attempt: counts found from here on are not replaced before the next attempt.
    pub(super) fn begin(&mut self, ledger: &Ledger) {
        // Too many keys, some perhaps no longer asked for: drop everything; what is still asked for is soon counted again.
        if self.topology.len() > TOPOLOGY_KEYS {
            *self = Self { uses: self.uses, serials: self.serials, ..Self::default() };
        }
        self.uses += 1;
        self.topology.refresh(ledger);
    }

    pub(super) fn counts(&self, slot: usize) -> &DomainCounts {
        &self.slots[slot].counts
    }

    /// The slot of the counts, brought up to date, of the query of this kind that pods of `shape` ask.
    pub(super) fn answer(&mut self, kind: Kind, cx: PluginContext<'_>, shape: &Arc<PodShape>) -> usize {
        let slot = self.find(kind, shape, cx.ledger);
        self.slots[slot].last_used = self.uses;
        self.slots[slot].counts.sync(cx, &mut self.topology);
        slot
    }

    fn find(&mut self, kind: Kind, shape: &Arc<PodShape>, ledger: &Ledger) -> usize {
        let at = place_of(shape);
        if let Some(Remembered { shape: known, handles }) = self.shapes.get(at).and_then(Option::as_ref)
            && Arc::ptr_eq(known, shape)
            && let Some(handle) = handles[kind as usize]
            && self.slots[handle.slot].serial == handle.serial
        {
            return handle.slot;
        }
        let slot = self.find_or_insert(TermQuery::of(kind, shape), ledger);
        self.remember(at, shape, kind, Handle { slot, serial: self.slots[slot].serial });
        slot
    }

    fn remember(&mut self, at: usize, shape: &Arc<PodShape>, kind: Kind, handle: Handle) {
        if self.shapes.is_empty() {
            self.shapes.resize_with(SHAPES, || None);
        }
        let mut handles = match self.shapes[at].take() {
            Some(known) if Arc::ptr_eq(&known.shape, shape) => known.handles,
            _ => [None; Kind::COUNT],
        };
        handles[kind as usize] = Some(handle);
        self.shapes[at] = Some(Remembered { shape: shape.clone(), handles });
    }

    fn find_or_insert(&mut self, query: TermQuery, ledger: &Ledger) -> usize {
        if let Some(slot) = self.by_query.get(&query) {
            return *slot;
        }
        let query = Arc::new(query);
        self.serials += 1;
        let fresh = Slot { counts: DomainCounts::new(query.clone()), serial: self.serials, last_used: self.uses };
        let slot = if self.slots.len() < bound(ledger) {
            self.slots.push(fresh);
            self.slots.len() - 1
        } else {
            let oldest = (0..self.slots.len()).min_by_key(|slot| self.slots[*slot].last_used).unwrap_or(0);
            let old = std::mem::replace(&mut self.slots[oldest], fresh);
            self.by_query.remove(old.counts.query());
            oldest
        };
        self.by_query.insert(query, slot);
        slot
    }
}

/// How many slots there may be: more than one attempt needs, whatever the size of the cluster.
fn bound(ledger: &Ledger) -> usize {
    const MATCH_CACHE_BYTES: usize = 8 << 10;
    let bytes = ledger.nodes().rows() * size_of::<i64>() + MATCH_CACHE_BYTES;
    (AFFINITY_TABLES_BYTES / bytes).max(2 * Kind::COUNT)
}

/// Spreads the addresses of shapes over the 512 places.
fn place_of(shape: &Arc<PodShape>) -> usize {
    let address = Arc::as_ptr(shape) as usize as u64;
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize
}
