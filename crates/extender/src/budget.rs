//! The bound on the memory of one profile's calls.

use super::error::Fault;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that requests and replies of one profile may take at once, without the objects that requests share with the
/// store.
pub const PROFILE_BYTES: usize = 16 << 20;

/// Cheap to clone; all clones are one budget.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: usize,
    reserved: AtomicUsize,
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account { limit, reserved: AtomicUsize::new(0) }))
    }

    pub fn reserved(&self) -> usize {
        self.0.reserved.load(Ordering::Relaxed)
    }

    /// Begins with no bytes; all that are taken are released when the reservation is dropped.
    pub fn reserve(&self) -> Reservation {
        Reservation { budget: self.clone(), reserved: 0 }
    }
}

/// Bytes reserved from a [`Budget`].
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    reserved: usize,
}

impl Reservation {
    pub fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        let account = &self.budget.0;
        let before = account.reserved.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > account.limit {
            account.reserved.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Fault::Full { limit: account.limit });
        }
        self.reserved += bytes;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.0.reserved.fetch_sub(self.reserved, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_goes_back_and_no_more_is_given_than_there_is() {
        let budget = Budget::new(100);
        let mut one = budget.reserve();
        one.take(60).unwrap();
        let mut two = budget.reserve();
        assert_eq!(two.take(41), Err(Fault::Full { limit: 100 }));
        two.take(40).unwrap();
        assert_eq!(budget.reserved(), 100);
        drop(one);
        assert_eq!(budget.reserved(), 40);
        two.take(60).unwrap();
        drop(two);
        assert_eq!(budget.reserved(), 0);
    }
}
