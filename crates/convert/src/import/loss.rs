//! What a conversion says beside its result: settings that were lost or changed, and what is worth knowing.

use std::fmt;

/// What became of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum LossKind {
    /// It has no counterpart: what it did is not done.
    Lost,
    /// It was taken over and does not mean quite the same.
    Changed,
    /// It says nothing about where pods go, or nothing was lost of it and a reader should know how it was taken over.
    Note,
}

/// A setting that was lost, changed, or has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What became of it.
    pub kind: LossKind,
    /// The setting's path within the document.
    pub field: String,
    /// What became of it, in words.
    pub what: String,
}

impl Loss {
    /// A setting without counterpart.
    pub fn lost(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: LossKind::Lost, field: field.into(), what: what.into() }
    }

    /// A setting that means something else now.
    pub fn changed(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: LossKind::Changed, field: field.into(), what: what.into() }
    }

    /// A setting of which nothing that matters was lost.
    pub fn note(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: LossKind::Note, field: field.into(), what: what.into() }
    }

    /// Whether pods may go elsewhere than before, or be refused for other reasons.
    pub fn matters(&self) -> bool {
        self.kind != LossKind::Note
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

impl LossKind {
    /// The word that a line of a list begins with.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Changed => "changed",
            Self::Note => "note",
        }
    }
}
