//! Why a reply cannot be used.

/// What is wrong with a reply, without any text of the reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("not JSON: byte {at} is not {wanted}")]
    Syntax {
        /// Counted from 0.
        at: u64,
        wanted: &'static str,
    },
    #[error("it ends after {read} bytes, in the middle of a value")]
    Cut { read: u64 },
    #[error("values are nested more than {limit} deep")]
    Deep { limit: u32 },
    /// A value does not have the type that the protocol gives it.
    #[error("{place} is not {wanted}")]
    Shape { place: &'static str, wanted: &'static str },
    /// The profile's memory budget is used up.
    #[error("its names and messages take more memory than the {limit} bytes which the replies to one profile may hold")]
    Full { limit: usize },
}

impl Fault {
    pub(super) const fn shape(place: &'static str, wanted: &'static str) -> Self {
        Self::Shape { place, wanted }
    }

    /// Whether the reply is too large, and not wrong.
    pub const fn is_size(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}
