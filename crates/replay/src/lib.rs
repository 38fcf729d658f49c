//! Clocks and random numbers that a test drives. A binary that links this crate gets its clocks and its random numbers from here
//! and not from the C library: in a thread that called [`begin`] the clocks show tokio's paused time and the random numbers follow from
//! a seed; all other threads get the operating system's.
//!
//! So whatever runs in that thread can be repeated exactly, without a line of it that knows of this: the standard library asks the
//! C library for both, and so do hash maps and `select!` with their random keys.
//!
//! [`fork`] copies a process: each copy is the same, and has what the first one took long to make.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::io;
use tokio::time::Instant;

/// Where the clocks of a driven thread begin, in nanoseconds: the first second of 2026 on the wall, an hour since the start of the
/// machine.
const WALL: u64 = 1_767_225_600_000_000_000;
const MONOTONIC: u64 = 3_600_000_000_000;

thread_local! {
    /// The seed of a driven thread.
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    /// When its clock was started.
    static ORIGIN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Nanoseconds since then, as they were shown last.
    static SHOWN: Cell<u64> = const { Cell::new(0) };
    /// Whether tokio is being asked: it asks the operating system where no event loop runs.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Drives this thread until what it returns is dropped. The clocks stand still until [`start_clock`].
#[must_use]
pub fn begin(seed: u64) -> Driven {
    SEED.set(Some(seed));
    Driven(())
}

/// A thread that is driven. It must not be so at its end: an allocator that looks at the clock then would find nothing left of tokio.
#[derive(Debug)]
pub struct Driven(());

impl Drop for Driven {
    fn drop(&mut self) {
        SEED.set(None);
    }
}

/// Lets the clocks of this thread follow tokio's, which must be paused. Call it in the event loop.
pub fn start_clock() {
    let now = Instant::now();
    ORIGIN.set(Some(now));
}

/// Nanoseconds on a driven thread's clocks since [`start_clock`]; `None` in other threads.
fn elapsed() -> Option<u64> {
    SEED.get()?;
    if let Some(origin) = ORIGIN.get().filter(|_| !ASKING.get()) {
        ASKING.set(true);
        let now = Instant::now();
        ASKING.set(false);
        let nanos = u64::try_from(now.saturating_duration_since(origin).as_nanos()).unwrap_or(u64::MAX);
        // Where no event loop runs the clock stands still.
        SHOWN.set(nanos.max(SHOWN.get()));
    }
    Some(SHOWN.get())
}

/// The C library's `struct timespec` on 64-bit Linux.
#[repr(C)]
#[derive(Debug)]
pub struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

/// What `clock_gettime` shows in this thread.
fn time(clock: c_int) -> Timespec {
    let is_wall = matches!(clock, 0 | 5);
    let Some(elapsed) = elapsed() else {
        let id = if is_wall { rustix::time::ClockId::Realtime } else { rustix::time::ClockId::Monotonic };
        let now = rustix::time::clock_gettime(id);
        return Timespec { seconds: now.tv_sec, nanoseconds: now.tv_nsec };
    };
    let nanos = elapsed + if is_wall { WALL } else { MONOTONIC };
    Timespec { seconds: (nanos / 1_000_000_000).cast_signed(), nanoseconds: (nanos % 1_000_000_000).cast_signed() }
}

/// Makes a copy of this process, in which this thread alone goes on. Returns the copy's id, and `None` in the copy.
///
/// # Errors
///
/// The system's own, if it has no room for another process.
pub fn fork() -> io::Result<Option<rustix::process::Pid>> {
    #[expect(unsafe_code, reason = "the C library's interface")]
    let id = {
        unsafe extern "C" {
            fn fork() -> c_int;
        }
        // SAFETY: it takes nothing. Of the locks that other threads may hold at this moment the C library frees its own in the copy.
        unsafe { fork() }
    };
    if id < 0 { Err(io::Error::last_os_error()) } else { Ok(rustix::process::Pid::from_raw(id)) }
}

/// Takes the place of the C library's function of this name.
///
/// # Safety
///
/// `at` must point to a `struct timespec`.
#[expect(unsafe_code, reason = "the C library's interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: c_int, at: *mut Timespec) -> c_int {
    // SAFETY: the caller keeps the promise of the C library's function.
    unsafe { at.write(time(clock)) };
    0
}

/// Takes the place of the C library's function of this name. Every call in a driven thread gives the same bytes, which follow from
/// the seed: the standard library asks once for each thread and counts on from there.
///
/// # Safety
///
/// `bytes` must point to `length` bytes.
#[expect(unsafe_code, reason = "the C library's interface")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(bytes: *mut c_void, length: usize, _flags: c_uint) -> isize {
    // SAFETY: the caller keeps the promise of the C library's function.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), length) };
    let Some(seed) = SEED.get() else {
        return rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty()).map_or(-1, usize::cast_signed);
    };
    let mut state = seed;
    for part in bytes.chunks_mut(8) {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        part.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes()[..part.len()]);
    }
    length.cast_signed()
}
