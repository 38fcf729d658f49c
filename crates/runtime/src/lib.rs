//! What moves the core: one thread per worker, locks, timers, and the ways in and out.
//!
//! ```text
//!  watches ──▶ Feed ──▶ RwLock<Ledger> ──wake──▶ worker threads ──effects──▶ Outlets (bind lane, refusals)
//!                                                     ▲                           │
//!                                                     └── mailbox ◀── outcomes ◀──┘
//! ```
//!
//! - [`Engine`] owns the ledger and the worker threads: start, swap, stop, and a view of each
//! - [`Feed`] applies what a watch saw, and sweeps at the end of a re-read
//! - [`Outlets`] is where a worker's effects go
//! - [`Clock`] ties the engine's time to the wall clock
//!
//! A worker that panics is started again with growing pauses; the others go on. Only a panic inside a write of the
//! ledger is fatal to the process: nothing can vouch for what was half written, and a restart rebuilds it.

mod access;
mod clock;
mod desk;
mod engine;
mod feed;
mod handle;
mod mailbox;
mod outlets;
mod seat;
mod shared;
mod shares;
mod stats;
mod tracked;

pub use clock::Clock;
pub use engine::{Engine, EngineError};
pub use feed::{Feed, Seen};
pub use handle::{WorkerState, WorkerView};
pub use outlets::{Outlets, Refusal};
pub use stats::{BindStats, Ended};
pub use tracked::Tracked;

#[cfg(test)]
mod tests;
