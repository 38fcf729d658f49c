//! Reads scheduler configurations of other forms: KubeSchedulerConfiguration v1 into profiles, with a list of what has
//! no counterpart here.
//!
//! - `configuration`: the root, and the profiles in it
//! - `catalogue`, `sets`: kube-scheduler's plugins, and how plugin sets are merged and expanded
//! - `effect`: from what runs at which extension point to filters and scores
//! - `args`, `affinity`, `duration`: arguments of plugins
//! - `node`: walking a document so that errors name the field

mod affinity;
mod args;
mod catalogue;
mod configuration;
mod duration;
mod effect;
mod error;
mod node;
mod sets;

pub use error::ImportError;

use crate::api::SchedulerProfileSpec;
use crate::core::profile::CompiledProfile;
use serde_json::Value;
use std::fmt;

/// The one version of KubeSchedulerConfiguration that is read.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// The kind that is read.
pub const KIND: &str = "KubeSchedulerConfiguration";

/// What a configuration says, as profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The profiles in the order of the document, with different scheduler names; at least one.
    pub profiles: Vec<ImportedProfile>,
    /// What has no counterpart here, in the order of the document.
    pub losses: Vec<Loss>,
}

/// One profile of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedProfile {
    /// The scheduler name that it serves.
    pub scheduler_name: String,
    /// It as the spec of a SchedulerProfile.
    pub spec: SchedulerProfileSpec,
    /// The spec resolved, under the scheduler name as the profile's name.
    pub compiled: CompiledProfile,
}

/// A setting that was lost, changed, or has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The setting's path within the document.
    pub field: String,
    /// What became of it.
    pub what: String,
}

impl Loss {
    fn new(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self { field: field.into(), what: what.into() }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

/// Reads a KubeSchedulerConfiguration, as strictly as kube-scheduler does: unknown fields and plugins are errors.
pub fn read(document: &Value) -> Result<Import, ImportError> {
    configuration::read(&node::Node::root(document))
}

/// Reads a KubeSchedulerConfiguration from its text, one document of YAML or JSON.
pub fn read_text(text: &str) -> Result<Import, ImportError> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    let document: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let problem = error.without_snippet().to_string();
        ImportError::new("document", problem.lines().next().unwrap_or_default(), "correct the syntax there")
    })?;
    read(&document)
}

/// Where the fields of a spec were written in the document.
#[derive(Debug, Default)]
struct Origins(Vec<(String, String)>);

impl Origins {
    /// Notes that what `spec` names came from `source`; the first entry that fits a field counts.
    fn add(&mut self, spec: impl Into<String>, source: impl Into<String>) {
        self.0.push((spec.into(), source.into()));
    }

    /// The path in the document of what stands at `field` of the spec.
    fn find(&self, field: &str) -> String {
        let below = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let found = self.0.iter().find_map(|(spec, source)| {
            field.strip_prefix(spec.as_str()).filter(|rest| below(rest)).map(|rest| format!("{source}{rest}"))
        });
        found.unwrap_or_else(|| field.to_owned())
    }
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
