//! Lines of the log on their way out: a bounded queue with a thread of its own, so that whoever reads too slowly, or not at all,
//! keeps nobody here waiting. Lines for which there is no room are dropped and counted.

use super::log_level::Level;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// What may wait: the log of an hour at info, of seconds at trace.
const WAITING_BYTES: usize = 4 << 20;

/// Bytes that a line takes beside its text.
const LINE_BYTES: usize = 48;

/// Longest wait for the report of a panic: the next thing may be the end of the process.
const PANIC_WITHIN: Duration = Duration::from_millis(100);

/// The way of lines to the log. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Logs(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
    empty: Condvar,
    dropped: AtomicU64,
    level: OnceLock<Level>,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Box<[u8]>>,
    /// Bytes of these lines and of the one that is being written.
    bytes: usize,
}

impl Logs {
    /// Starts the thread that writes to `out`.
    pub(crate) fn to(out: impl Write + Send + 'static) -> io::Result<Self> {
        let logs = Self::default();
        let queue = logs.0.clone();
        thread::Builder::new().name("log".to_owned()).spawn(move || queue.write_to(out))?;
        Ok(logs)
    }

    /// Lines that were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn level_in_force(&self) -> Option<&Level> {
        self.0.level.get()
    }

    /// Its level can be changed from now on.
    pub(super) fn has_level(&self, level: Level) {
        // Set once, where logs are set up.
        let _ = self.0.level.set(level);
    }

    /// Waits until everything is written, for at most `limit`: says whether it is.
    pub fn flush(&self, limit: Duration) -> bool {
        let waiting = self.0.lock();
        let waited = self.0.empty.wait_timeout_while(waiting, limit, |waiting| waiting.bytes > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.bytes == 0
    }

    /// Reports a panic.
    pub(crate) fn panicked(&self, panic: &PanicHookInfo<'_>) {
        let thread = thread::current();
        let mut text = format!("thread '{}' {panic}\n", thread.name().unwrap_or("unnamed"));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            text += &backtrace.to_string();
        }
        self.0.push(text.as_bytes());
        self.flush(PANIC_WITHIN);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.lock();
        let bytes = waiting.bytes + line.len() + LINE_BYTES;
        if bytes > WAITING_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes = bytes;
        waiting.lines.push_back(line.into());
        drop(waiting);
        self.more.notify_one();
    }

    fn write_to(&self, mut out: impl Write) {
        let mut said = 0;
        let mut waiting = self.lock();
        loop {
            while let Some(line) = waiting.lines.pop_front() {
                drop(waiting);
                if out.write_all(&line).is_err() {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    // To say so would fail as well, and so on.
                    said += 1;
                }
                waiting = self.lock();
                waiting.bytes -= line.len() + LINE_BYTES;
            }
            self.empty.notify_all();
            let dropped = self.dropped.load(Ordering::Relaxed);
            if dropped > said {
                drop(waiting);
                tracing::warn!(
                    lines = dropped - said,
                    "lines of the log were dropped before this one: it is read too slowly"
                );
                said = dropped;
                waiting = self.lock();
            }
            if waiting.lines.is_empty() {
                waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Each call is one line, and never waits for its reader.
impl Write for &Logs {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);

    /// A reader that takes a line for each go, and all that comes once nobody can give one any more.
    struct Reader {
        go: Receiver<()>,
        lines: Sender<Vec<u8>>,
    }

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.go.recv();
            let _ = self.lines.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn held() -> (Logs, Sender<()>, Receiver<Vec<u8>>) {
        let ((go, waits), (lines, read)) = (channel(), channel());
        (Logs::to(Reader { go: waits, lines }).unwrap(), go, read)
    }

    #[test]
    fn a_reader_that_does_not_read_stops_nobody_and_what_is_dropped_is_counted() {
        let (logs, go, read) = held();
        let line = [b'x'; 1_000];
        let (written, done) = channel();
        let of_worker = logs.clone();
        thread::spawn(move || {
            for _ in 0..10_000 {
                (&of_worker).write_all(&line).unwrap();
            }
            written.send(()).unwrap();
        });
        done.recv_timeout(LONG).expect("nobody waits");
        let kept = WAITING_BYTES / (line.len() + LINE_BYTES);
        assert_eq!(logs.dropped(), 10_000 - kept as u64);
        assert!(logs.0.lock().bytes <= WAITING_BYTES);
        drop(go);
        assert!(logs.flush(LONG));
        assert_eq!(read.try_iter().count(), kept);
    }

    #[test]
    fn the_last_lines_are_awaited_and_not_for_ever() {
        let (logs, go, read) = held();
        for text in ["one", "two"] {
            writeln!(&logs, "{text}").unwrap();
        }
        let began = Instant::now();
        assert!(!logs.flush(Duration::from_millis(20)), "not read");
        assert!(began.elapsed() < LONG);
        drop(go);
        assert!(logs.flush(LONG));
        let text: Vec<u8> = read.try_iter().flatten().collect();
        assert_eq!(String::from_utf8(text).unwrap(), "one\ntwo\n");
        assert!(Logs::default().flush(Duration::ZERO), "nothing was said");
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted_and_the_next_one_is_tried() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let logs = Logs::to(Broken).unwrap();
        for _ in 0..2 {
            (&logs).write_all(b"lost\n").unwrap();
        }
        assert!(logs.flush(LONG));
        assert_eq!(logs.dropped(), 2);
    }
}
