//! What moves the core: one thread per worker, locks, timers, and the ways in and out.
//!
//! ```text
//!          watches ──▶ RwLock<Ledger> ──wake──▶ worker threads ──effects──▶ EffectSink (binder, conditions)
//!                                                     ▲                           │
//!                                                     └── mailbox ◀── outcomes ◀──┘
//! ```
//!
//! Beside the worker of a profile in mode DryRun is its shadow (`seat`), which the task that brings a pod's binding asks before the
//! ledger gets to know of it.
//!
//! A worker that panics is started again with growing pauses; the others go on. A pod whose attempts made it panic twice is
//! held. Only a panic inside a write of the ledger is fatal to the process, whoever wrote: nothing can vouch for what was half
//! written, and a restart rebuilds it.

mod allowance;
mod clock;
mod engine;
mod handle;
mod holds;
mod in_flight;
mod mailbox;
mod pulse;
mod quarantine;
mod seat;
mod shared;
mod sink;
mod stats;
mod worker_thread;

pub use clock::Clock;
pub use engine::{Engine, EngineError};
pub use handle::{WorkerState, WorkerView};
pub use mailbox::Workers;
pub use quarantine::panic_message;
pub use seat::ShadowView;
pub use sink::EffectSink;
pub use stats::{BindStats, Ended};

#[cfg(test)]
mod tests;
