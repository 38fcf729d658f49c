//! The bound on the memory of one profile's calls.

use super::error::Fault;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that requests and replies of one profile may take at once, without the objects that requests share with the
/// store.
pub const PROFILE_BYTES: usize = 16 << 20;

/// Objects that one profile's calls read from the API server at once. How large they are is known when they are there, and
/// then they are reserved: until then they may have 3 MB each, the most that the API server takes.
const READS: usize = 8;

/// Cheap to clone; all clones are one budget.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: usize,
    reserved: AtomicUsize,
    reads: Arc<Semaphore>,
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Account { limit, reserved: AtomicUsize::new(0), reads: Arc::new(Semaphore::new(READS)) }))
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
    /// Turns to read an object: all calls of the budget share them.
    pub(crate) fn readers(&self) -> Readers {
        Readers(self.budget.0.reads.clone())
    }

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

/// Whose turn it is to read an object.
#[derive(Clone)]
pub(crate) struct Readers(Arc<Semaphore>);

impl Readers {
    /// To be kept until the object is reserved; `None` if there was no turn within `limit`.
    pub(crate) async fn turn(&self, limit: Duration) -> Option<OwnedSemaphorePermit> {
        tokio::time::timeout(limit, self.0.clone().acquire_owned()).await.ok()?.ok()
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

    #[tokio::test(start_paused = true)]
    async fn so_many_objects_are_read_at_once() {
        let budget = Budget::new(100);
        let readers = budget.reserve().readers();
        let limit = Duration::from_secs(1);
        let mut turns = Vec::new();
        for _ in 0..READS {
            turns.push(readers.turn(limit).await.unwrap());
        }
        assert!(readers.turn(limit).await.is_none());
        drop(turns.pop());
        assert!(readers.turn(limit).await.is_some());
    }
}
