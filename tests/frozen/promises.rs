//! What the API promises to who wrote a profile, and how a promise is broken.

use std::fmt;

/// A promise of `docs/api-policy.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    Address,
    Fields,
    Optional,
    Values,
    Defaults,
    Merging,
}

impl Promise {
    pub(crate) const ALL: [Self; 6] =
        [Self::Address, Self::Fields, Self::Optional, Self::Values, Self::Defaults, Self::Merging];

    /// The sentence of the page.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Address => "Objects stay where they are.",
            Self::Fields => "A restriction is never lost in silence.",
            Self::Optional => "New fields are optional.",
            Self::Values => "A value that was taken is taken.",
            Self::Defaults => "What is left out means what it meant.",
            Self::Merging => "Two writers' parts are merged as before.",
        }
    }
}

/// A promise that a change of the definition breaks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) promise: Promise,
    /// The field, as in `spec.scores[].weight`, or the part of the definition.
    pub(crate) path: String,
    pub(crate) what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (docs/api-policy.md: {})", self.path, self.what, self.promise.text())
    }
}
