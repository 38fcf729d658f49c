//! The system's allocator, which counts for each thread what it gives out and takes back.
//!
//! A test binary that wants to know how much memory something takes makes it its own:
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: berth_counting::Counting = berth_counting::Counting;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// See the module's documentation.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    // Below 0 in a thread that frees what others made.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that this thread holds, less those that it was given by others and has freed.
pub fn live() -> isize {
    LIVE.get()
}

/// What something took, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// The most that it held at once, beyond what was held before.
    pub peak: usize,
    /// What it left behind; below 0 if it freed more than it took.
    pub kept: isize,
}

/// Measures what `f` takes in this thread. May be nested.
pub fn measure<R>(f: impl FnOnce() -> R) -> (R, Taken) {
    let (before, outer) = (LIVE.get(), PEAK.get());
    PEAK.set(before);
    let result = f();
    let peak = PEAK.get();
    PEAK.set(peak.max(outer));
    (result, Taken { peak: (peak - before).unsigned_abs(), kept: LIVE.get() - before })
}

/// Counts `bytes` more, or fewer if below 0. It neither allocates nor panics: no cell has a destructor, and sizes fit.
fn count(bytes: isize) {
    let live = LIVE.get().wrapping_add(bytes);
    LIVE.set(live);
    if live > PEAK.get() {
        PEAK.set(live);
    }
}

fn size(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

#[expect(unsafe_code, reason = "each call is passed on to the system's allocator as it came")]
// SAFETY: every function does what `System` does, and counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout.size()));
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-size(layout.size()));
        unsafe { System.dealloc(at, layout) }
    }

    // Both are held while it moves.
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(size(new_size));
        let moved = unsafe { System.realloc(at, layout, new_size) };
        count(-size(layout.size()));
        moved
    }
}
