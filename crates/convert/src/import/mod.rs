//! Reads scheduler configurations of other forms into profiles, with a list of what was lost or changed on the way.
//!
//! - `configuration`: KubeSchedulerConfiguration v1, its root and the profiles in it
//! - `catalogue`, `sets`: kube-scheduler's plugins, and how plugin sets are merged and expanded
//! - `effect`: from what runs at which extension point to filters and scores
//! - `args`, `affinity`, `duration`: arguments of plugins
//! - `policy`: the Policy of kube-scheduler 1.22 and before
//! - `v1alpha1`: the KubeSchedulerConfiguration that names a Policy or a provider
//! - `extenders`, `tls`: extenders of any of these
//! - `node`: walking a document so that errors name the field
//! - `loss`, `origins`: what is said beside the profiles

mod affinity;
mod args;
pub(crate) mod catalogue;
mod configuration;
mod duration;
mod effect;
mod error;
mod extenders;
mod loss;
mod node;
mod origins;
mod policy;
mod sets;
mod tls;
mod v1alpha1;

pub use error::ImportError;
pub use loss::{Loss, LossKind};
pub use v1alpha1::{NamedPolicy, PolicySources};

use berth_api::SchedulerProfileSpec;
use berth_core::profile::CompiledProfile;
use origins::Origins;
use serde_json::Value;

/// The one version of KubeSchedulerConfiguration with profiles that is read.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// The kind of configurations.
pub const KIND: &str = "KubeSchedulerConfiguration";

/// The key that a ConfigMap holds a Policy under.
pub const POLICY_KEY: &str = "policy.cfg";

/// What a configuration says, as profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The profiles in the order of the document, with different scheduler names; at least one.
    pub profiles: Vec<ImportedProfile>,
    /// What has no counterpart here, in the order of the document.
    pub losses: Vec<Loss>,
    /// Secrets and ConfigMaps that hold what stood in the document itself and that profiles refer to.
    pub manifests: Vec<Value>,
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
    /// What readers of the spec should know: the path of a field, such as `spec.scores[1]`, and a sentence about it.
    pub comments: Vec<(String, String)>,
}

/// The forms in which kube-scheduler was ever told what to do, by what a document says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A KubeSchedulerConfiguration with profiles; of which version, reading it checks.
    Configuration,
    /// A KubeSchedulerConfiguration v1alpha1, which names a Policy or a provider.
    V1alpha1,
    /// A Policy.
    Policy,
}

impl Form {
    /// The form of a document by its `apiVersion` and `kind`.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        match (api_version, kind) {
            ("v1" | "", "Policy") => Some(Self::Policy),
            ("componentconfig/v1alpha1" | "kubescheduler.config.k8s.io/v1alpha1", KIND) => Some(Self::V1alpha1),
            _ if api_version.starts_with("kubescheduler.config.k8s.io/") => Some(Self::Configuration),
            _ => None,
        }
    }
}

/// Reads a KubeSchedulerConfiguration v1, as strictly as kube-scheduler does: unknown fields and plugins are errors.
pub fn read(document: &Value) -> Result<Import, ImportError> {
    configuration::read(&node::Node::root(document))
}

/// Reads a document of any form. `scheduler_name` is served where the document names none, as a Policy never does;
/// `sources` finds the Policy that a v1alpha1 configuration names.
pub fn read_form(
    form: Form,
    document: &Value,
    scheduler_name: &str,
    sources: &dyn PolicySources,
) -> Result<Import, ImportError> {
    match form {
        Form::Configuration => configuration::read_as(&node::Node::root(document), scheduler_name),
        Form::V1alpha1 => v1alpha1::read(&node::Node::root(document), scheduler_name, sources),
        Form::Policy => policy::read(document, scheduler_name),
    }
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

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
