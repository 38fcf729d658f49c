use super::verdict::Stop;
use crate::limits::{COMPARISONS_PER_WORK, DEVICE_STEPS, DEVICE_STEPS_PER_WORK, WORK_PER_HOLD};

/// Rows whose place is looked up in the time of one unit, where nothing is to be compared.
pub(crate) const ROWS_PER_WORK: usize = 4;

/// What reading a domain from a node's labels takes.
pub(crate) const WORK_PER_LABEL_READ: usize = 2;

/// What reading a row's region and zone takes.
pub(crate) const WORK_PER_ZONE_READ: usize = 3;

/// Places or nodes with pods that are summed up in the time of one unit.
pub(crate) const SUMMED_PER_WORK: usize = 16;

/// Bytes that are written in the time of one unit.
pub(crate) const BYTES_PER_WORK: usize = 64;

/// Something that takes so many comparisons, its own visit included.
pub(crate) const fn work_of(comparisons: usize) -> usize {
    1 + comparisons / COMPARISONS_PER_WORK
}

/// How much one look may still compute from nothing while it holds the ledger's lock. The unit is a row judged for a plain pod.
///
/// What a look computes it keeps, with the version for which it is right. A look that is given up for want of work gets further
/// when it is made again, and the one that comes to an end has seen all of the ledger as it is.
#[derive(Debug)]
pub struct Work {
    granted: usize,
    done: usize,
}

impl Work {
    /// As much as is computed under one hold of the lock.
    pub const fn of_one_hold() -> Self {
        Self::of(WORK_PER_HOLD)
    }

    /// For whoever holds no lock that others wait for.
    pub const fn unbounded() -> Self {
        Self::of(usize::MAX)
    }

    pub(crate) const fn of(units: usize) -> Self {
        Self { granted: units, done: 0 }
    }

    /// What was computed so far: more than was granted where the last of it was larger than what was left.
    pub const fn done(&self) -> usize {
        self.done
    }

    /// Has `search`, which looks at devices, take steps of what is left, at least one; gives its answer, and how many it took.
    pub(crate) fn search_devices<T>(&mut self, search: impl FnOnce(&mut i64) -> T) -> (T, i64) {
        let left = i64::try_from(self.granted.saturating_sub(self.done)).unwrap_or(i64::MAX);
        let granted = left.saturating_mul(DEVICE_STEPS_PER_WORK).clamp(1, DEVICE_STEPS);
        let mut steps = granted;
        let found = search(&mut steps);
        self.spend_steps(granted - steps);
        (found, granted - steps)
    }

    /// What a search for devices took.
    pub(crate) const fn spend_steps(&mut self, steps: i64) {
        self.spend((steps / DEVICE_STEPS_PER_WORK) as usize);
    }

    /// Asks for `units`, or for something whose size is known only afterwards: then [`Self::spend`] follows. Whatever is left is
    /// enough, so that every look gets on.
    pub(crate) const fn take(&mut self, units: usize) -> Result<(), Stop> {
        if self.done >= self.granted {
            return Err(Stop::Unfinished);
        }
        self.spend(units);
        Ok(())
    }

    pub(crate) const fn spend(&mut self, units: usize) {
        self.done = self.done.saturating_add(units);
    }
}
