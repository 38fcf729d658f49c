//! Tasks that must run for as long as the process leads: one that ends or panics is started again, and said.

use berth_runtime::panic_message;
use futures::FutureExt;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

/// Does what takes long on a thread of its own, so that other tasks go on; at once where the event loop is all that there is.
pub(super) async fn aside<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => Ok(work()),
        _ => tokio::task::spawn_blocking(work).await,
    }
}

/// First pause before a task is started again; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// An object that makes a task panic may be there for long: what the task does is tried once a minute then.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A task that ran this long starts with the first pause again.
const HEALTHY_AFTER: Duration = Duration::from_mins(10);

/// How often each task was started again. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Tasks {
    /// Runs what `make` makes until `stop`.
    pub(super) fn spawn<F>(&self, name: &'static str, stop: CancellationToken, make: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.spawn_on(&Handle::current(), name, stop, make);
    }

    /// As [`Self::spawn`], on another event loop.
    pub(super) fn spawn_on<F>(
        &self,
        event_loop: &Handle,
        name: &'static str,
        stop: CancellationToken,
        mut make: impl FnMut() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let tasks = self.clone();
        event_loop.spawn(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                let began = Instant::now();
                let ended = AssertUnwindSafe(async { make().await }).catch_unwind().await;
                if stop.is_cancelled() {
                    return;
                }
                if began.elapsed() > HEALTHY_AFTER {
                    pause = FIRST_PAUSE;
                }
                let why = ended
                    .map_or_else(|panic| format!("panic: {}", panic_message(&*panic)), |()| "it returned".to_owned());
                tracing::error!(task = name, why, pause_s = pause.as_secs(), "task ended; it is started again");
                tasks.count(name);
                if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                    return;
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
    }

    pub(super) fn restarts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, name: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }
}

/// When a task last came round. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Beat(Arc<Mutex<Option<Instant>>>);

impl Beat {
    pub(super) fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// The task ends in good order.
    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How long the task has not come round, if that is longer than `limit`; `None` before it began.
    pub(super) fn overdue(&self, limit: Duration) -> Option<Duration> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.map(|last| last.elapsed()).filter(|silence| *silence > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::mpsc;

    #[test]
    fn a_beat_is_overdue_only_between_begin_and_end() {
        let beat = Beat::default();
        assert_eq!(beat.overdue(Duration::ZERO), None);
        beat.beat();
        assert_eq!(beat.overdue(Duration::from_hours(1)), None);
        let limit = Instant::now() + Duration::from_secs(20);
        while beat.overdue(Duration::ZERO).is_none() {
            assert!(Instant::now() < limit, "never overdue");
        }
        beat.end();
        assert_eq!(beat.overdue(Duration::ZERO), None);
    }

    /// With one thread for all tasks: one that computes for long there would stop the others.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_takes_long_keeps_no_other_task_waiting() {
        let (goes, gone_on) = std::sync::mpsc::channel();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let long = tokio::spawn(aside(move || {
            begins.send(()).unwrap();
            gone_on.recv_timeout(Duration::from_secs(20))
        }));
        begun.await.unwrap();
        tokio::spawn(async move { goes.send(()) });
        assert_eq!(long.await.unwrap().unwrap(), Ok(()), "no other task went on");
    }

    #[tokio::test]
    async fn a_task_that_panics_is_started_again_until_the_end() {
        let (tasks, stop, runs) = (Tasks::default(), CancellationToken::new(), Arc::new(AtomicU32::new(0)));
        let (started, mut starts) = mpsc::unbounded_channel();
        let (counted, token) = (runs.clone(), stop.clone());
        tasks.spawn("pods", stop.clone(), move || {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            let (started, token) = (started.clone(), token.clone());
            async move {
                started.send(run).unwrap();
                assert_ne!(run, 0, "told to");
                token.cancelled().await;
            }
        });
        assert_eq!((starts.recv().await, starts.recv().await), (Some(0), Some(1)));
        assert_eq!(tasks.restarts(), [("pods", 1)].into());
        stop.cancel();
        // The task drops its sender when it ends for good.
        assert_eq!(starts.recv().await, None);
        assert_eq!(tasks.restarts(), [("pods", 1)].into());
    }
}
