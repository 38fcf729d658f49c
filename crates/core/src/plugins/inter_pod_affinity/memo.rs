use crate::ledger::MatchClass;
use smallvec::SmallVec;
use std::sync::Arc;

/// What one term counts for: a weight in a column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) column: u32,
    pub(super) weight: i32,
}

pub(super) type Shares = SmallVec<[Share; 2]>;

/// Slots of a memo: match_classes that change at the same time are few; a stateful set's pods are each their own and pass by.
const SLOTS: usize = 128;

/// What match_classes count for, by address, so that selectors are not matched once a pod. An entry keeps its match_class, so that
/// the address stands for it; a match_class that falls on a taken slot takes it over.
#[derive(Debug, Default)]
pub(super) struct Memo(Vec<Option<(Arc<MatchClass>, Shares)>>);

impl Memo {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What `match_class` counts for, worked out by `make` where it is not known.
    pub(super) fn get(&mut self, match_class: &Arc<MatchClass>, make: impl FnOnce() -> Shares) -> &[Share] {
        if self.0.is_empty() {
            self.0.resize_with(SLOTS, || None);
        }
        let slot = &mut self.0[slot_of(match_class)];
        if !slot.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, match_class)) {
            *slot = Some((match_class.clone(), make()));
        }
        slot.as_ref().map_or(&[], |(_, shares)| shares)
    }
}

/// Spreads addresses, which are multiples of a match_class's size, over the slots.
fn slot_of(match_class: &Arc<MatchClass>) -> usize {
    let address = Arc::as_ptr(match_class) as usize as u64;
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57) as usize
}
