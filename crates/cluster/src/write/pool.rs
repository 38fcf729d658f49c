use crate::lease::Gate;
use futures::FutureExt;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What a writer has to do, for a [`Pool`] of tasks.
pub(crate) trait Jobs: Send + Sync + 'static {
    type Job: Send + 'static;

    /// What is left of a job while it is under way: enough to end it if its task panics.
    type Receipt: Send + Sync + 'static;

    type Outcome: Send;

    /// Woken when there may be a job, or when one may be done sooner.
    fn wake(&self) -> &Notify;

    /// The next job that may be begun now; otherwise when to look again, `None` for as soon as it is woken.
    fn take(&self) -> Result<(Self::Job, Self::Receipt), Option<Instant>>;

    fn run(&self, job: Self::Job, receipt: &Self::Receipt) -> impl Future<Output = Self::Outcome> + Send;

    /// A job has ended; without an outcome if its task panicked.
    fn ended(&self, receipt: Self::Receipt, outcome: Option<Self::Outcome>);
}

/// A writer with its tasks: one that begins jobs, and one for each job under way. They end when it is dropped.
pub(crate) struct Pool<W> {
    writer: Arc<W>,
    end: CancellationToken,
    _ends_with_us: DropGuard,
}

impl<W: Jobs> Pool<W> {
    /// Starts on the current tokio runtime.
    pub(crate) fn start(writer: W) -> Self {
        let (writer, end) = (Arc::new(writer), CancellationToken::new());
        let pool = Self { writer, end: end.clone(), _ends_with_us: end.clone().drop_guard() };
        pool.spawn(|writer| dispatch(writer, end));
        pool
    }

    /// As [`Self::start`], for a writer that begins nothing while `gate` is shut.
    pub(crate) fn start_behind(gate: &Gate, writer: W) -> Self {
        let mut changes = gate.changes();
        let pool = Self::start(writer);
        pool.spawn(|writer| async move {
            loop {
                changes.next().await;
                writer.wake().notify_one();
            }
        });
        pool
    }

    /// Starts one more task, for something else.
    pub(crate) fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce(Arc<W>) -> F) {
        tokio::spawn(self.end.clone().run_until_cancelled_owned(task(self.writer.clone())));
    }

    /// Waits until nothing is `under_way`, asking after each notification of `landed`, for at most `limit`. Then cuts off what is
    /// left, and begins nothing more. Returns how many jobs were cut off.
    pub(crate) async fn cut_off(&self, limit: Duration, landed: &Notify, under_way: impl Fn() -> usize) -> usize {
        let all_landed = wait_until(landed, || under_way() == 0);
        let _in_time = tokio::time::timeout(limit, all_landed).await;
        let left = under_way();
        self.abort();
        left
    }

    /// Cuts off what is under way and begins nothing more.
    pub(crate) fn abort(&self) {
        self.end.cancel();
    }
}

impl<W> Deref for Pool<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.writer
    }
}

async fn dispatch<W: Jobs>(writer: Arc<W>, end: CancellationToken) {
    loop {
        let until = loop {
            match writer.take() {
                Ok((job, receipt)) => {
                    let work = work(writer.clone(), job, receipt);
                    tokio::spawn(end.clone().run_until_cancelled_owned(work));
                }
                Err(until) => break until,
            }
        };
        let due = async {
            match until {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = writer.wake().notified() => {}
            () = due => {}
        }
    }
}

async fn work<W: Jobs>(writer: Arc<W>, job: W::Job, receipt: W::Receipt) {
    // A panic must lose neither the slot nor the answer; the hook has reported it.
    let outcome = AssertUnwindSafe(writer.run(job, &receipt)).catch_unwind().await.ok();
    writer.ended(receipt, outcome);
    writer.wake().notify_one();
}

/// Waits until `done()` is true; asks again after each notification of `landed`.
pub(crate) async fn wait_until(landed: &Notify, done: impl Fn() -> bool) {
    loop {
        let next = landed.notified();
        if done() {
            return;
        }
        next.await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::lock;
    use super::*;
    use crate::scripted::until;
    use std::sync::Mutex;

    /// Jobs, one at a time; the first panics.
    struct Numbers {
        waiting: Mutex<Vec<u32>>,
        ended: Mutex<Vec<(u32, Option<u32>)>>,
        busy: Mutex<bool>,
        wake: Notify,
    }

    impl Jobs for Numbers {
        type Job = u32;
        type Receipt = u32;
        type Outcome = u32;

        fn wake(&self) -> &Notify {
            &self.wake
        }

        fn take(&self) -> Result<(u32, u32), Option<Instant>> {
            let mut busy = lock(&self.busy);
            if *busy {
                return Err(None);
            }
            let job = lock(&self.waiting).pop().ok_or(None)?;
            *busy = true;
            Ok((job, job))
        }

        async fn run(&self, job: u32, _: &u32) -> u32 {
            assert!(job != 0, "a panic that the test wants");
            job
        }

        fn ended(&self, receipt: u32, outcome: Option<u32>) {
            *lock(&self.busy) = false;
            lock(&self.ended).push((receipt, outcome));
        }
    }

    #[tokio::test]
    async fn a_job_that_panics_loses_neither_its_slot_nor_its_answer() {
        let waiting = Mutex::new(vec![2, 1, 0]);
        let numbers = Numbers { waiting, ended: Mutex::default(), busy: Mutex::default(), wake: Notify::new() };
        let pool = Pool::start(numbers);
        until("all have ended", || lock(&pool.ended).len() == 3).await;
        assert_eq!(*lock(&pool.ended), [(0, None), (1, Some(1)), (2, Some(2))]);
    }
}
