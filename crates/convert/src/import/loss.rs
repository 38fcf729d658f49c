//! What a conversion reports beside its result: settings that were lost or changed, and where fields came from.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum LossKind {
    /// The setting has no counterpart: what it did is not done.
    Lost,
    /// The setting was taken over and does not mean quite the same.
    Changed,
    /// The setting does not affect where pods go, or was taken over whole in a way that a reader should know.
    Note,
}

/// A setting that was lost, changed, or has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    pub kind: LossKind,
    /// The setting's path within the document.
    pub field: String,
    pub what: String,
}

impl Loss {
    pub fn lost(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: LossKind::Lost, field: field.into(), what: what.into() }
    }

    pub fn changed(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { kind: LossKind::Changed, field: field.into(), what: what.into() }
    }

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

/// Where the fields of a spec were written in the document, and comments on them.
#[derive(Debug, Default)]
pub(super) struct Origins {
    sources: Vec<(String, String)>,
    comments: Vec<(String, String)>,
}

impl Origins {
    /// Notes that the field `spec` came from `source`, for errors and in a comment; the first entry that fits a field
    /// counts.
    pub(super) fn add(&mut self, spec: impl Into<String>, source: impl Into<String>) {
        let (spec, source) = (spec.into(), source.into());
        if !source.is_empty() {
            self.comments.push((spec.clone(), format!("from {source}")));
        }
        self.sources.push((spec, source));
    }

    /// Notes where the field `spec` came from for errors alone, where a reader of the profile needs no comment.
    pub(super) fn add_silently(&mut self, spec: impl Into<String>, source: impl Into<String>) {
        self.sources.push((spec.into(), source.into()));
    }

    pub(super) fn comment(&mut self, spec: impl Into<String>, text: impl Into<String>) {
        self.comments.push((spec.into(), text.into()));
    }

    /// The path in the document of the field `field` of the spec; `field` itself where it came from nowhere.
    pub(super) fn find(&self, field: &str) -> String {
        let below = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let found = self.sources.iter().find_map(|(spec, source)| {
            field.strip_prefix(spec.as_str()).filter(|rest| below(rest)).map(|rest| format!("{source}{rest}"))
        });
        found.unwrap_or_else(|| field.to_owned())
    }

    /// The comments in the order noted.
    pub(super) fn into_comments(self) -> Vec<(String, String)> {
        self.comments
    }
}
