/// What is wrong with a reply. No text of the reply is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not JSON.
    #[error("not JSON: byte {at} is not {wanted}")]
    Syntax {
        /// Which byte, from 0.
        at: u64,
        /// What belongs there.
        wanted: &'static str,
    },
    /// It ends in the middle.
    #[error("it ends after {read} bytes, in the middle of a value")]
    Cut {
        /// How many bytes came.
        read: u64,
    },
    /// Values are nested too deeply.
    #[error("values are nested more than {} deep", super::scanner::DEPTH)]
    Deep,
    /// A value has another type than the protocol says.
    #[error("{place} is not {wanted}")]
    Shape {
        /// Which value.
        place: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// Its names and messages take more memory than the profile's replies may hold.
    #[error("its names and messages take more memory than the {limit} bytes which the replies to one profile may hold")]
    Full {
        /// The bound, in bytes.
        limit: usize,
    },
}

impl Fault {
    /// Whether the reply is too large, and not wrong.
    pub const fn is_size(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}
