use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many workers have something to bind: they share the binder equally.
#[derive(Debug, Clone, Default)]
pub(super) struct Shares(Arc<AtomicUsize>);

impl Shares {
    /// Busy workers, at least 1.
    pub(super) fn busy(&self) -> usize {
        self.0.load(Ordering::Relaxed).max(1)
    }

    /// A share for one worker, idle at first.
    pub(super) fn join(&self) -> Share {
        Share { all: self.clone(), busy: false }
    }
}

/// One worker's part in [`Shares`]; gone when dropped.
#[derive(Debug)]
pub(super) struct Share {
    all: Shares,
    busy: bool,
}

impl Share {
    /// Says whether this worker has something to bind.
    pub(super) fn set_busy(&mut self, busy: bool) {
        match (self.busy, busy) {
            (false, true) => drop(self.all.0.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.all.0.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        self.busy = busy;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set_busy(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_busy_workers_count() {
        let shares = Shares::default();
        let (mut a, mut b) = (shares.join(), shares.join());
        assert_eq!(shares.busy(), 1);
        a.set_busy(true);
        a.set_busy(true);
        b.set_busy(true);
        assert_eq!(shares.busy(), 2);
        drop(b);
        assert_eq!(shares.busy(), 1);
        a.set_busy(false);
        assert_eq!(shares.busy(), 1);
    }
}
