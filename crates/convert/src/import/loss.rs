//! A profile while it is read, and what is reported beside it: settings that were lost or changed, and where fields came from.

use super::node::ImportError;
use super::{Import, ImportedProfile};
use berth_api::SchedulerProfileSpec;
use serde_json::Value;
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

/// What is reported beside the profiles.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) losses: Vec<Loss>,
    /// Secrets for certificates in the document itself.
    pub(super) manifests: Vec<Value>,
}

impl Report {
    fn add(&mut self, kind: LossKind, field: impl Into<String>, what: impl Into<String>) {
        self.losses.push(Loss { kind, field: field.into(), what: what.into() });
    }

    pub(super) fn lost(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.add(LossKind::Lost, field, what);
    }

    pub(super) fn changed(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.add(LossKind::Changed, field, what);
    }

    pub(super) fn note(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.add(LossKind::Note, field, what);
    }
}

/// A profile while it is read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) spec: SchedulerProfileSpec,
    pub(super) origins: Origins,
    pub(super) report: Report,
    /// Whether kube-scheduler puts the resources that extenders manage in the place of `ignoredResources`.
    pub(super) ignored_elsewhere: bool,
    /// Whether it is of kube-scheduler 1.13 or before, where SelectorSpread counted pods that any selector matched.
    pub(super) any_selector: bool,
}

impl Draft {
    /// `source` is the field that gives the scheduler name, if the document can give it.
    pub(super) fn new(scheduler_name: &str, source: Option<&str>) -> Self {
        let mut draft = Self::default();
        draft.spec.scheduler_names.push(scheduler_name.to_owned());
        if let Some(source) = source {
            draft.origins.add_silently("spec.schedulerNames[0]", source);
            draft.origins.add_silently("metadata.name", source);
        }
        draft
    }

    /// Compiles the profile.
    pub(super) fn finish(self) -> Result<(ImportedProfile, Report), ImportError> {
        let Self { spec, origins, report, .. } = self;
        let scheduler_name = spec.scheduler_names.first().cloned().unwrap_or_default();
        let compiled = berth_profile::compile(&scheduler_name, &spec)
            .map_err(|e| ImportError::new(origins.find(&e.field), e.message, e.fix))?;
        Ok((ImportedProfile { scheduler_name, spec, compiled, comments: origins.comments }, report))
    }

    /// Compiles the only profile of a document.
    pub(super) fn finish_alone(self) -> Result<Import, ImportError> {
        let (profile, Report { losses, manifests }) = self.finish()?;
        Ok(Import { profiles: vec![profile], losses, manifests })
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
}
