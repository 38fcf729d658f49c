//! Berth: a Kubernetes operator that runs one scheduler worker per `SchedulerProfile`, inside its own process.
//!
//! Three rings; arrows point inwards only.
//!
//! ```text
//!             watch events                                     bind, patch, event
//!  API server ───────────▶ cluster/ ── inputs ──▶ core/ ── effects ──▶ cluster/ ───────▶ API server
//!                                                   ▲
//!  SchedulerProfile ──▶ operator/ ──▶ profile/ ── compiled profile
//!                           │                       │
//!                           └──── status ◀── runtime/ (threads, clocks, channels)
//! ```
//!
//! | room | does |
//! |---|---|
//! | [`core`] | decides: ledger, queue, filters, scores, cycle. Pure |
//! | [`runtime`] | moves: one thread a worker, locks, timers, effect lanes |
//! | [`cluster`] | touches Kubernetes: decode (the only border), watch, bind, status, events, lease |
//! | [`extender`] | between a question to an extender and the wire |
//! | [`operator`] | from SchedulerProfiles to workers, from workers to status; leadership |
//! | [`api`] | the `SchedulerProfile` resource: spec, status, conditions, CEL rules |
//! | [`profile`] | presets; a spec made ready to run, or the reason why it cannot be |
//! | [`simulate`], [`explain`] | the same engine on an in-memory cluster |
//! | [`telemetry`], [`cli`] | metrics, logs, health; commands and how they print |
//!
//! Invariants, each held by a test:
//!
//! - a popped pod is in exactly one place, and only an outcome consumes it;
//! - an assumed pod whose bind was sent ends by evidence, never by a timer;
//! - no bind without leadership, and none before a consistent read made after acquiring it;
//! - every write carries a precondition;
//! - the same inputs in the same order with the same seed give the same decisions.
//!
//! Deliberately absent: admission webhooks, a custom resource per pod, clients inside plugins, global mutable state,
//! stored `Pod` objects, thread pools inside a cycle. `docs/architecture.md` says where to look for what.

pub mod cli;
pub mod operator;
