//! Doing many small requests side by side.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;

/// Calls `work` once for each number below `count`, at most `width` at a time, in ascending order of start.
/// After the first error no new call is started, and that error is returned.
pub fn for_each(count: usize, width: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let first_error = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..width.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    if let Err(error) = work(index) {
                        next.store(count, Ordering::Relaxed);
                        if let Ok(mut first) = first_error.lock() {
                            first.get_or_insert(error);
                        }
                        return;
                    }
                }
            });
        }
    });
    match first_error.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_worked_on_once_and_the_first_error_comes_back() {
        let seen = Mutex::new(Vec::new());
        for_each(100, 8, |index| {
            seen.lock().unwrap().push(index);
            Ok(())
        })
        .unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        let failed = for_each(100, 1, |index| match index {
            7 => anyhow::bail!("seven"),
            _ => Ok(()),
        });
        assert_eq!(failed.unwrap_err().to_string(), "seven");
        for_each(0, 8, |_| anyhow::bail!("never called")).unwrap();
    }
}
