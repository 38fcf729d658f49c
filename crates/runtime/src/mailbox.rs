//! How others speak to a worker's thread: outcomes, orders, and the word that the ledger moved.

use berth_core::io::Input;
use berth_core::profile::CompiledProfile;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a worker's thread is to do besides working.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// Go on with this profile.
    Swap(Arc<CompiledProfile>),
    /// Give back what was not sent, and end.
    Stop,
}

/// What lay in the mailbox.
#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) inputs: Vec<Input>,
    pub(super) order: Option<Order>,
}

#[derive(Debug, Default)]
struct State {
    mail: Mail,
    woken: bool,
}

/// One worker's mailbox. Many wakes before the worker looks are one.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    posted: Condvar,
}

impl Mailbox {
    /// Tells the worker an outcome.
    pub(super) fn post(&self, input: Input) {
        self.change(|state| state.mail.inputs.push(input));
    }

    /// Says that the ledger moved.
    pub(super) fn wake(&self) {
        self.change(|_| {});
    }

    /// Gives an order; a newer swap replaces an older one, and nothing replaces a stop.
    pub(super) fn order(&self, order: Order) {
        self.change(|state| {
            if !matches!(state.mail.order, Some(Order::Stop)) {
                state.mail.order = Some(order);
            }
        });
    }

    /// Waits until something is there, or until `until` (for ever without), and takes it all.
    pub(super) fn take(&self, until: Option<Instant>) -> Mail {
        let state = self.lock();
        let is_empty = |state: &mut State| !state.woken;
        let mut state = match until {
            None => self.posted.wait_while(state, is_empty).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                self.posted.wait_timeout_while(state, left, is_empty).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.woken = false;
        std::mem::take(&mut state.mail)
    }

    fn change(&self, f: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        f(&mut state);
        if !std::mem::replace(&mut state.woken, true) {
            drop(state);
            self.posted.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_core::io::AttemptId;
    use std::time::Duration;

    #[test]
    fn everything_posted_is_taken_once() {
        let mailbox = Mailbox::default();
        mailbox.post(Input::BindRevoked { attempt: AttemptId(1) });
        mailbox.post(Input::BindRevoked { attempt: AttemptId(2) });
        mailbox.wake();
        assert_eq!(mailbox.take(None).inputs.len(), 2);
        let mail = mailbox.take(Some(Instant::now()));
        assert!(mail.inputs.is_empty() && mail.order.is_none());
    }

    #[test]
    fn a_stop_is_never_replaced() {
        let mailbox = Mailbox::default();
        mailbox.order(Order::Stop);
        mailbox.order(Order::Swap(Arc::new(CompiledProfile::default_preset("a"))));
        assert!(matches!(mailbox.take(None).order, Some(Order::Stop)));
    }

    #[test]
    fn a_wake_ends_a_wait() {
        let mailbox = Arc::new(Mailbox::default());
        let waker = mailbox.clone();
        let thread = std::thread::spawn(move || waker.wake());
        mailbox.take(Some(Instant::now() + Duration::from_mins(1)));
        thread.join().unwrap();
    }
}
