//! What the search's own shares consume of the devices.

use berth_quantity::Quantity;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

#[derive(Debug, Default)]
struct Shared {
    holders: u32,
    /// By capacity of the device.
    sums: SmallVec<[Quantity; 4]>,
}

#[derive(Debug, Default)]
pub(crate) struct Shares {
    devices: FxHashMap<u32, Shared>,
    /// The sums as they were before each share, the newest last.
    undo: Vec<Quantity>,
}

impl Shares {
    /// Whether the search has a share of the device, also one that consumes nothing.
    pub(crate) fn is_shared(&self, device: u32) -> bool {
        self.devices.get(&device).is_some_and(|shared| shared.holders > 0)
    }

    pub(crate) fn consumed(&self, device: u32, capacity: usize) -> Quantity {
        if self.devices.is_empty() {
            return Quantity::ZERO;
        }
        self.devices.get(&device).and_then(|shared| shared.sums.get(capacity)).copied().unwrap_or_default()
    }

    /// Amounts come by capacity, as many each time.
    pub(crate) fn add(&mut self, device: u32, amounts: impl Iterator<Item = Quantity>) {
        let shared = self.devices.entry(device).or_default();
        shared.holders += 1;
        for (index, amount) in amounts.enumerate() {
            if shared.sums.len() <= index {
                shared.sums.push(Quantity::ZERO);
            }
            self.undo.push(shared.sums[index]);
            shared.sums[index] += amount;
        }
    }

    /// Takes away the share that was added last, which is one of this device.
    pub(crate) fn undo(&mut self, device: u32) {
        let Some(shared) = self.devices.get_mut(&device) else { return };
        shared.holders -= 1;
        for sum in shared.sums.iter_mut().rev() {
            *sum = self.undo.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::quantity;

    #[test]
    fn shares_are_undone_one_by_one() {
        let mut shares = Shares::default();
        for amount in ["1", "2"] {
            shares.add(7, [quantity(amount), quantity("1Gi")].into_iter());
        }
        shares.add(8, std::iter::empty());
        assert_eq!((shares.consumed(7, 0), shares.consumed(7, 1)), (quantity("3"), quantity("2Gi")));
        assert_eq!((shares.is_shared(8), shares.consumed(8, 0)), (true, Quantity::ZERO));
        shares.undo(8);
        shares.undo(7);
        assert_eq!((shares.consumed(7, 0), shares.consumed(7, 1)), (quantity("1"), quantity("1Gi")));
        shares.undo(7);
        assert_eq!((shares.is_shared(7), shares.consumed(7, 0), shares.undo.len()), (false, Quantity::ZERO, 0));
    }
}
