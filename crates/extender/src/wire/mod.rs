//! The v1 wire protocol: bodies of requests, and replies read as a stream. No I/O.

mod filter;
mod object;
mod preempt;
mod prioritize;
mod request;
mod scanner;
mod text;

#[cfg(test)]
mod reply_tests;
#[cfg(test)]
mod request_tests;

use berth_api::NodePayload;

pub use filter::{FilterReply, FilterVisitor};
pub use object::sent_form;
pub use preempt::PreemptVisitor;
pub use prioritize::PrioritizeVisitor;
pub use request::{Nodes, Payload, bind_request, nodes_request, preempt_request};
pub use scanner::{DEPTH, Scanner, Step, TEXT_BYTES, Token, Visit};
pub use text::{BindVisitor, MESSAGE_BYTES};

/// Bytes that a reply by names may have.
pub const NAMES_REPLY: u64 = 16 << 20;

/// Bytes that any reply may have.
pub const FULL_REPLY: u64 = 256 << 20;

/// Bytes that the reply to a request of `request` bytes may have: one to whole nodes echoes them.
pub fn reply_limit(form: NodePayload, request: u64) -> u64 {
    match form {
        NodePayload::Names => NAMES_REPLY,
        NodePayload::Full => request.saturating_mul(2).saturating_add(1 << 20).min(FULL_REPLY),
    }
}
