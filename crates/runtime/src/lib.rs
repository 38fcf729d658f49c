//! What moves the core: one thread per worker, locks, timers, and the ways in and out.
//!
//! ```text
//!          watches ──▶ RwLock<Ledger> ──wake──▶ worker threads ──effects──▶ EffectSink (binder, conditions)
//!                                                     ▲                           │
//!                                                     └── mailbox ◀── outcomes ◀──┘
//! ```
//!
//! - [`Engine`] owns the ledger and the worker threads: start, swap, stop, and a view of each
//! - [`EffectSink`] is where a worker's effects go
//! - [`Clock`] ties the engine's time to the wall clock
//!
//! A worker that panics is started again with growing pauses; the others go on. Only a panic inside a write of the
//! ledger is fatal to the process: nothing can vouch for what was half written, and a restart rebuilds it.

mod access;
mod clock;
mod effect_sink;
mod engine;
mod handle;
mod in_flight;
mod mailbox;
mod shared;
mod shares;
mod stats;
mod worker_thread;

pub use clock::Clock;
pub use effect_sink::EffectSink;
pub use engine::{Engine, EngineError};
pub use handle::{WorkerState, WorkerView};
pub use stats::{BindStats, Ended};

#[cfg(test)]
mod tests;
