//! How others speak to a worker's thread: outcomes, orders, and the word that the ledger moved.

use berth_core::io::Input;
use berth_core::model::PodKey;
use berth_core::profile::CompiledProfile;
use berth_core::worker::PodPage;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Where the workers of an engine live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    /// Each on a thread of its own.
    OnThreads,
    /// On the caller's `LocalSet`, for a test that runs whole processes in one thread, so that it can repeat what they did.
    OnTasks,
}

/// How late a worker may hear of what does not concern it, all at once: a thread that is woken for each change of the cluster costs more than
/// what it then reads. It counts as behind until then.
const LATE: Duration = Duration::from_secs(1);

/// What a worker's thread is to do besides working.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// Go on with this profile.
    Swap(Arc<CompiledProfile>),
    /// Give back what was not sent, and end.
    Stop,
}

/// A question about a worker's pods.
#[derive(Debug)]
pub(super) struct Question {
    /// Those whose names come after this one.
    pub(super) after: Option<PodKey>,
    /// At most so many.
    pub(super) most: usize,
    pub(super) answer: oneshot::Sender<PodPage>,
}

/// Questions that wait: people ask them, and each takes a worker some milliseconds.
const QUESTIONS: usize = 4;

/// What lay in the mailbox.
#[derive(Debug, Default)]
pub(super) struct Mail {
    pub(super) inputs: Vec<Input>,
    pub(super) order: Option<Order>,
    pub(super) questions: Vec<Question>,
}

#[derive(Debug, Default)]
struct State {
    mail: Mail,
    woken: bool,
    /// When the worker is to look at the latest, although nothing concerns it.
    late: Option<Instant>,
}

/// How long a worker goes on waiting.
enum Waits {
    Not,
    /// `None`: for ever.
    Until(Option<Instant>),
}

impl State {
    /// As long as nothing is there, and at most until `until`.
    fn waits(&self, until: Option<Instant>) -> Waits {
        if self.woken { Waits::Not } else { Waits::Until(until.into_iter().chain(self.late).min()) }
    }
}

/// What wakes a worker that waits.
#[derive(Debug)]
enum Bell {
    Thread(Condvar),
    Task(Notify),
}

/// One worker's mailbox. Many wakes before the worker looks are one.
#[derive(Debug)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    /// Whether `late` is set, to be read without the lock: that is what most wakes find.
    is_late: AtomicBool,
    bell: Bell,
}

impl Mailbox {
    pub(super) fn new(place: Workers) -> Self {
        let bell = match place {
            Workers::OnThreads => Bell::Thread(Condvar::new()),
            Workers::OnTasks => Bell::Task(Notify::new()),
        };
        Self { state: Mutex::default(), is_late: AtomicBool::new(false), bell }
    }

    /// Tells the worker an outcome.
    pub(super) fn post(&self, input: Input) {
        self.change(|state| state.mail.inputs.push(input));
    }

    /// Asks; a question beyond those that may wait is dropped, and with it the way of its answer.
    pub(super) fn ask(&self, question: Question) {
        self.change(|state| {
            if state.mail.questions.len() < QUESTIONS {
                state.mail.questions.push(question);
            }
        });
    }

    /// Says that the ledger moved.
    pub(super) fn wake(&self) {
        self.change(|_| {});
    }

    /// Says that the ledger moved in a way that does not concern the worker: it looks within [`LATE`], once for all of these.
    pub(super) fn wake_late(&self) {
        if self.is_late.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        if !self.is_late.swap(true, Ordering::Relaxed) {
            state.late = Some(Instant::now() + LATE);
            drop(state);
            // It waits with another end from now on.
            self.ring();
        }
    }

    /// Gives an order; a newer swap replaces an older one, and nothing replaces a stop.
    pub(super) fn order(&self, order: Order) {
        self.change(|state| {
            if !matches!(state.mail.order, Some(Order::Stop)) {
                state.mail.order = Some(order);
            }
        });
    }

    /// Waits until something is there, or until `until` (for ever without), and takes it all. A thread blocks meanwhile: its
    /// worker is all that it runs.
    pub(super) async fn take(&self, until: Option<Instant>) -> Mail {
        let mut state = match &self.bell {
            Bell::Thread(posted) => self.block(posted, until),
            Bell::Task(posted) => {
                self.wait(posted, until).await;
                self.lock()
            }
        };
        state.woken = false;
        state.late = None;
        self.is_late.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.mail)
    }

    fn block(&self, posted: &Condvar, until: Option<Instant>) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        loop {
            state = match state.waits(until) {
                Waits::Not => return state,
                Waits::Until(None) => posted.wait(state).unwrap_or_else(PoisonError::into_inner),
                Waits::Until(Some(until)) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return state;
                    }
                    posted.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    async fn wait(&self, posted: &Notify, until: Option<Instant>) {
        // A worker with much to do must not keep the thread from those that it waits for.
        tokio::task::yield_now().await;
        loop {
            let waits = self.lock().waits(until);
            match waits {
                Waits::Not => return,
                Waits::Until(None) => posted.notified().await,
                Waits::Until(Some(until))
                    if tokio::time::timeout_at(until.into(), posted.notified()).await.is_err() =>
                {
                    return;
                }
                Waits::Until(Some(_)) => {}
            }
        }
    }

    fn change(&self, f: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        f(&mut state);
        if !std::mem::replace(&mut state.woken, true) {
            drop(state);
            self.ring();
        }
    }

    fn ring(&self) {
        match &self.bell {
            Bell::Thread(posted) => posted.notify_one(),
            Bell::Task(posted) => posted.notify_one(),
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
    use futures::executor::block_on;

    #[test]
    fn everything_posted_is_taken_once() {
        let mailbox = Mailbox::new(Workers::OnThreads);
        mailbox.post(Input::BindRevoked { attempt: AttemptId(1) });
        mailbox.post(Input::BindRevoked { attempt: AttemptId(2) });
        mailbox.wake();
        assert_eq!(block_on(mailbox.take(None)).inputs.len(), 2);
        let mail = block_on(mailbox.take(Some(Instant::now())));
        assert!(mail.inputs.is_empty() && mail.order.is_none());
    }

    #[test]
    fn questions_beyond_a_few_are_dropped() {
        let mailbox = Mailbox::new(Workers::OnThreads);
        let mut answers = Vec::new();
        for _ in 0..=QUESTIONS {
            let (answer, answered) = oneshot::channel();
            mailbox.ask(Question { after: None, most: 1, answer });
            answers.push(answered);
        }
        assert!(answers.pop().unwrap().try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        let mail = block_on(mailbox.take(None));
        assert_eq!(mail.questions.len(), QUESTIONS);
        assert!(answers.iter_mut().all(|answered| answered.try_recv() == Err(oneshot::error::TryRecvError::Empty)));
    }

    #[test]
    fn a_stop_is_never_replaced() {
        let mailbox = Mailbox::new(Workers::OnThreads);
        mailbox.order(Order::Stop);
        mailbox.order(Order::Swap(Arc::new(CompiledProfile::default_preset("a"))));
        assert!(matches!(block_on(mailbox.take(None)).order, Some(Order::Stop)));
    }

    #[test]
    fn a_wake_ends_a_wait() {
        let mailbox = Arc::new(Mailbox::new(Workers::OnThreads));
        let waker = mailbox.clone();
        let thread = std::thread::spawn(move || waker.wake());
        block_on(mailbox.take(Some(Instant::now() + Duration::from_mins(1))));
        thread.join().unwrap();
    }

    #[test]
    fn what_does_not_concern_a_worker_wakes_it_late_and_once() {
        let mailbox = Arc::new(Mailbox::new(Workers::OnThreads));
        let began = Instant::now();
        let waker = mailbox.clone();
        let thread = std::thread::spawn(move || (0..10).for_each(|_| waker.wake_late()));
        block_on(mailbox.take(None));
        assert!(began.elapsed() >= LATE, "{:?}", began.elapsed());
        thread.join().unwrap();
        mailbox.wake_late();
        mailbox.wake();
        let began = Instant::now();
        block_on(mailbox.take(None));
        assert!(began.elapsed() < LATE, "what concerns it comes at once");
        block_on(mailbox.take(Some(Instant::now() + 2 * LATE)));
        assert!(began.elapsed() >= 2 * LATE, "it was told of both");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_waits_as_a_thread_does() {
        let mailbox = Arc::new(Mailbox::new(Workers::OnTasks));
        let began = tokio::time::Instant::now();
        let until = began + Duration::from_secs(5);
        assert!(mailbox.take(Some(until.into_std())).await.inputs.is_empty());
        assert_eq!(began.elapsed(), Duration::from_secs(5), "nothing came");
        let poster = mailbox.clone();
        let posts = async move { poster.post(Input::BindRevoked { attempt: AttemptId(1) }) };
        let (mail, ()) = tokio::join!(mailbox.take(None), posts);
        assert_eq!(mail.inputs.len(), 1);
    }
}
