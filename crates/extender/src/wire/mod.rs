//! The v1 wire protocol: bodies of requests, and replies read as a stream. No I/O.

mod filter;
mod object;
mod payload;
mod preempt;
mod prioritize;
mod request;
mod scanner;
mod text;

#[cfg(test)]
mod reply_tests;
#[cfg(test)]
mod request_tests;

pub use filter::{FilterReply, FilterVisitor};
pub use object::sent_form;
pub use payload::Payload;
pub use preempt::PreemptVisitor;
pub use prioritize::PrioritizeVisitor;
pub use request::{Nodes, bind_request, nodes_request, preempt_request};
pub use scanner::{DEPTH, Scanner, Step, TEXT_BYTES, Token, Visit};
pub use text::{BindVisitor, MESSAGE_BYTES};

/// How nodes and victims are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeForm {
    #[default]
    Full,
    /// Names and uids alone: the extender has the objects itself.
    Names,
}

/// Bytes that a reply by names may have.
pub const NAMES_REPLY: u64 = 16 << 20;

/// Bytes that any reply may have.
pub const FULL_REPLY: u64 = 256 << 20;

/// Bytes that the reply to a request of `request` bytes may have: one to whole nodes echoes them.
pub const fn reply_limit(form: NodeForm, request: u64) -> u64 {
    match form {
        NodeForm::Names => NAMES_REPLY,
        NodeForm::Full => {
            let twice = request.saturating_mul(2).saturating_add(1 << 20);
            if twice < FULL_REPLY { twice } else { FULL_REPLY }
        }
    }
}
