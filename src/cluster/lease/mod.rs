//! Leadership: one operator works at a time.

mod gate;

pub use gate::Gate;
