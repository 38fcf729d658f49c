use super::axes::Axes;
use super::question::{Kind, Question};
use super::table::Table;
use crate::ledger::Ledger;
use crate::limits::{AFFINITY_TABLES_BYTES, TOPOLOGY_KEYS};
use crate::model::PodShape;
use crate::plugins::context::PluginContext;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Shapes whose questions are found by address, without a look at labels and terms.
const SHAPES: usize = 512;

/// A table's place; another table in the same place has another serial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handle {
    slot: usize,
    serial: u64,
}

#[derive(Debug)]
struct Slot {
    table: Table,
    serial: u64,
    last_used: u64,
}

/// A shape and the tables of its questions. It keeps the shape, so that the address stands for it.
#[derive(Debug)]
struct Remembered {
    shape: Arc<PodShape>,
    handles: [Option<Handle>; Kind::COUNT],
}

/// The tables of the questions that were asked last, bounded; the least recently used goes.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) axes: Axes,
    slots: Vec<Slot>,
    by_question: FxHashMap<Arc<Question>, usize>,
    shapes: Vec<Option<Remembered>>,
    uses: u64,
    serials: u64,
}

impl Store {
    /// Makes ready for an attempt: every table found from here on stays until the next.
    pub(super) fn begin(&mut self, ledger: &Ledger) {
        // Keys that nobody asks about any more go with the tables, which are soon made again.
        if self.axes.len() > TOPOLOGY_KEYS {
            *self = Self { uses: self.uses, serials: self.serials, ..Self::default() };
        }
        self.uses += 1;
        self.axes.refresh(ledger);
    }

    pub(super) fn table(&self, slot: usize) -> &Table {
        &self.slots[slot].table
    }

    /// The table of a question that pods of `shape` ask, up to date.
    pub(super) fn answer(&mut self, kind: Kind, cx: PluginContext<'_>, shape: &Arc<PodShape>) -> usize {
        let slot = self.find(kind, shape, cx.ledger);
        self.slots[slot].last_used = self.uses;
        self.slots[slot].table.sync(cx, &mut self.axes);
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
        let slot = self.seek(Question::of(kind, shape), ledger);
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

    fn seek(&mut self, question: Question, ledger: &Ledger) -> usize {
        if let Some(slot) = self.by_question.get(&question) {
            return *slot;
        }
        let question = Arc::new(question);
        self.serials += 1;
        let fresh = Slot { table: Table::new(question.clone()), serial: self.serials, last_used: self.uses };
        let slot = if self.slots.len() < bound(ledger) {
            self.slots.push(fresh);
            self.slots.len() - 1
        } else {
            let oldest = (0..self.slots.len()).min_by_key(|slot| self.slots[*slot].last_used).unwrap_or(0);
            let old = std::mem::replace(&mut self.slots[oldest], fresh);
            self.by_question.remove(old.table.question());
            oldest
        };
        self.by_question.insert(question, slot);
        slot
    }
}

/// How many tables there may be: more than one attempt asks for, whatever the size of the cluster.
fn bound(ledger: &Ledger) -> usize {
    const MEMO_BYTES: usize = 8 << 10;
    let bytes = ledger.nodes().rows() * size_of::<i64>() + MEMO_BYTES;
    (AFFINITY_TABLES_BYTES / bytes).max(2 * Kind::COUNT)
}

/// Spreads the addresses of shapes over the places for them.
fn place_of(shape: &Arc<PodShape>) -> usize {
    let address = Arc::as_ptr(shape) as usize as u64;
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 55) as usize
}
