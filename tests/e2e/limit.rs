//! How long nothing may be bound, and while how many pods come. Where the machine has other work a time says little, so that much more
//! is let pass.

use std::env;
use std::time::Duration;

/// Set where nothing else runs, as `make hand-over` sees to: the limits are asserted as they are.
pub(crate) const ALONE: &str = "BERTH_HAND_OVER";

/// A leader that ends in order.
pub(crate) const HANDED_OVER: Duration = Duration::from_millis(500);

/// A leader that ends without a word: the lease, as the chart has it, and what a leader that ends in order may take.
pub(crate) const TAKEN_OVER: Duration = Duration::from_millis(15_500);

/// All replicas replaced, one after the other.
pub(crate) const ROLLED: Duration = Duration::from_secs(1);

/// What a shared machine may add.
const PATIENCE: Duration = Duration::from_secs(5);

/// Prints what was measured, in milliseconds, beside its limit, and asserts it.
pub(crate) fn check(what: &str, measured: &[f64], limit: Duration) {
    println!("{what}: without a bind for {measured:.0?} ms (limit {} ms)", limit.as_millis());
    let bound = bound(limit, env::var(ALONE).is_ok());
    for gap in measured {
        assert!(*gap <= bound.as_secs_f64() * 1e3, "{what}: {gap:.0} ms without a bind, more than {bound:?}");
    }
}

/// Prints how many pods a second came beside how many were meant, and asserts that they were about as many.
pub(crate) fn check_rate(what: &str, reached: f64, meant: u32) {
    let part = if env::var(ALONE).is_ok() { 0.9 } else { 0.5 };
    let least = f64::from(meant) * part;
    println!("{what}: {reached:.1} pods a second came, of {meant} (at least {least:.0})");
    assert!(reached >= least, "{what}: {reached:.1} pods a second came, less than {least:.0}");
}

fn bound(limit: Duration, is_alone: bool) -> Duration {
    if is_alone { limit } else { limit + PATIENCE }
}

#[test]
fn a_limit_counts_as_it_is_where_nothing_else_runs() {
    assert_eq!(bound(HANDED_OVER, true), Duration::from_millis(500));
    assert_eq!(bound(HANDED_OVER, false), Duration::from_millis(5_500));
}
